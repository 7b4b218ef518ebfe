package guard

import (
	"fmt"
	"time"

	"github.com/doorward/doorward"
	ledger "github.com/doorward/doorward/internal/limiter"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// A limiter is what the three policies have in common.
type limiter interface {
	Check(k doorward.Key, now time.Time) doorward.Decision
	Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket)
	Settle(k doorward.Key, t doorward.Ticket, o doorward.Outcome, now time.Time) doorward.Cleared
	Ledger() ledger.Ledger
}

// policies counts the policies of r: one is right.
func (r Rule) policies() int {
	n := 0
	for _, set := range []bool{r.Lockout != nil, r.Throttle != nil, r.Window != nil} {
		if set {
			n++
		}
	}
	return n
}

// validate returns an error that names the field of the policy.
func (r Rule) validate() error {
	switch {
	case r.Lockout != nil:
		return r.Lockout.Validate()
	case r.Throttle != nil:
		return r.Throttle.Validate()
	}
	return r.Window.Validate()
}

// withDefaults returns r with a policy of its own that has its defaults filled in.
func (r Rule) withDefaults() Rule {
	switch {
	case r.Lockout != nil:
		p := r.Lockout.WithDefaults()
		r.Lockout = &p
	case r.Throttle != nil:
		p := r.Throttle.WithDefaults()
		r.Throttle = &p
	case r.Window != nil:
		p := r.Window.WithDefaults()
		r.Window = &p
	}
	return r
}

// allocate makes the limiters of r. Network rules keep IPv4 and IPv6 apart, so that one
// family does not fill the table of the other; but the ceiling of a throttle is one for
// all callers, so a throttle has one table.
func (r *rule) allocate() error {
	for f, applies := range r.families() {
		switch {
		case !applies:
		case f == 1 && r.Throttle != nil && r.tables[0] != nil:
			r.tables[f] = r.tables[0]
		default:
			l, err := r.newLimiter()
			if err != nil {
				return fmt.Errorf("guard: rule %q: %w", r.Name, err)
			}
			r.tables[f] = l
		}
	}
	return nil
}

// families says which of the two tables of r are used.
func (r Rule) families() [2]bool {
	if r.Per == Network {
		return [2]bool{r.V4 > 0, r.V6 > 0}
	}
	return [2]bool{true, false}
}

func (r *rule) newLimiter() (limiter, error) {
	switch {
	case r.Lockout != nil:
		return lockout.New(*r.Lockout)
	case r.Throttle != nil:
		return throttle.New(*r.Throttle), nil
	}
	return window.New(*r.Window)
}

// size returns how many keys and reservations the policy of r has memory for.
func (r Rule) size() (capacity, inFlight int) {
	switch {
	case r.Lockout != nil:
		return r.Lockout.Capacity, r.Lockout.InFlight
	case r.Throttle != nil:
		return r.Throttle.Sources, r.Throttle.InFlight
	}
	return r.Window.Capacity, r.Window.InFlight
}

// reload gives the limiters that r took over its own policy.
func (r *rule) reload() error {
	for _, l := range r.tables {
		var err error
		switch l := l.(type) {
		case *lockout.Limiter:
			err = l.Reload(*r.Lockout)
		case *throttle.Limiter:
			err = l.Reload(*r.Throttle)
		case *window.Limiter:
			err = l.Reload(*r.Window)
		}
		if err != nil {
			return fmt.Errorf("guard: rule %q: %w", r.Name, err)
		}
	}
	return nil
}
