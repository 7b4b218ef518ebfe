package guard

import (
	"time"
)

// A Quota is what one rule would still admit of a caller, for response headers.
type Quota struct {
	Rule      string
	Limit     int           // attempts, or failures that are free
	Window    time.Duration // in which they count
	Remaining int           // attempts that could be started now
	Reset     time.Duration // how long a refusal lasts, 0 if attempts remain
}

// Quotas tells what the network rules would still admit of r. Rules that charge a
// subject are left out, whatever they say of it is not the caller's to know, and so
// are shadow rules. A guard with a Store tells nothing.
func (g *Guard) Quotas(r Request, now time.Time) []Quota {
	if g.config.Store != nil {
		return nil
	}
	var quotas []Quota
	family := familyOf(r.Addr)
	for i := range g.rules {
		rule := &g.rules[i]
		key, f, applies := rule.charge(&r, family, false)
		if !applies || rule.Per != Network || rule.Action == Shadow {
			continue
		}
		q := Quota{Rule: rule.Name}
		switch {
		case rule.Lockout != nil:
			q.Limit, q.Window = rule.Lockout.FreeFailures, rule.Lockout.Window
		case rule.Throttle != nil:
			q.Limit, q.Window = rule.Throttle.PerSource, rule.Throttle.Window
		default:
			q.Limit, q.Window = rule.Window.Limit, rule.Window.Window
		}
		d := rule.tables[f].Ledger().Peek(key, now)
		if d.Allowed {
			q.Remaining = d.Remaining + 1
		}
		q.Reset = d.RetryAfter
		quotas = append(quotas, q)
	}
	return quotas
}
