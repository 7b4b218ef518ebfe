package budget

import (
	"math"
	"slices"
	"time"

	"github.com/doorward/doorward/guard"
)

// A Caller is what one attacker commands: Networks networks of one width, each as far
// from the others as there is room for.
type Caller struct {
	// Networks is how many there are; 0 is one.
	Networks int
	// Bits is the width of each, 8 to 32 for IPv4 and 16 to 64 for IPv6.
	Bits int
	IPv6 bool
	// Device says that each attempt comes with the token of one known device of the one
	// subject that is guessed at: no rule on subjects applies, those on devices do. What
	// the same caller tries without it is a stranger's, and comes on top.
	Device bool
}

// The callers that people ask about. An IPv6 /64 is one subscriber, a /48 one site, a
// /32 one provider; an IPv4 /24 is what is announced on its own.
var (
	Address    = Caller{Bits: 32}
	Subscriber = Caller{Bits: 64, IPv6: true}
	Site       = Caller{Bits: 48, IPv6: true}
	Provider   = Caller{Bits: 32, IPv6: true}
	Network24  = Caller{Bits: 24}
)

// Botnet is n IPv4 addresses that have nothing in common.
func Botnet(n int) Caller { return Caller{Networks: n, Bits: 32} }

// keys returns how many networks of a width a caller has an address in.
func (c Caller) keys(bits int) int64 {
	n := max(1, int64(c.Networks))
	if bits <= c.Bits {
		return min(n, 1<<min(bits, 62))
	}
	return mul(n, 1<<min(bits-c.Bits, 62))
}

// networks returns how many networks of one subscriber a caller has.
func (c Caller) networks() int64 {
	if c.IPv6 {
		return c.keys(64)
	}
	return c.keys(32)
}

// A Target is what a caller guesses at.
type Target uint8

const (
	// EverySubject: any subject will do, and the caller knows as many as it likes.
	EverySubject Target = iota
	// OneSubject: one account, with as many challenges as the caller likes.
	OneSubject
	// OneChallenge: one code or session of one account.
	OneChallenge
)

// A Limit is how many attempts a door admits at most.
type Limit struct {
	Most int64
	// Rule names the rule that admits no more. Without one there is no limit, and Most
	// is the largest int64.
	Rule string
}

// A Door is the bound of a guard. The zero Door has no rules.
type Door struct {
	config guard.Config
	rules  []rule
}

// A rule is one that refuses, with the bounds of one key and of all together.
type rule struct {
	guard.Rule
	key, all Bound
	entries  int64 // of its table: no more keys than that are told apart
	devices  bool  // the guard has rules for known devices; else a token means nothing
}

// NewDoor returns the bound of a guard with this configuration, or the error that
// guard.New returns. Rules that never refuse, shadows and step-ups, bound nothing.
// What the configuration exempts is not bounded either.
func NewDoor(c guard.Config) (*Door, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	d := &Door{config: c}
	devices := slices.ContainsFunc(c.Rules, func(r guard.Rule) bool { return r.Per == guard.Device })
	for _, r := range c.Rules {
		if r.Action == guard.Refuse {
			d.rules = append(d.rules, newRule(r, devices))
		}
	}
	return d, nil
}

// Rules returns all rules with names and defaults filled in, also those that never
// refuse. The caller must not change them.
func (d *Door) Rules() []guard.Rule { return d.config.Rules }

// newRule returns the bounds of a rule that has been checked.
func newRule(r guard.Rule, devices bool) rule {
	out := rule{Rule: r, devices: devices}
	switch {
	case r.Lockout != nil:
		out.key, _ = Lockout(*r.Lockout)
		out.entries = int64(r.Lockout.Capacity)
	case r.Throttle != nil:
		out.key, out.all, _ = Throttle(*r.Throttle)
		out.entries = int64(r.Throttle.Sources)
	default:
		out.key, _ = Window(*r.Window)
		out.entries = int64(r.Window.Capacity)
	}
	out.entries++ // the one that all share while the table is full
	return out
}

// keys returns how many keys of r a caller has to spend, and whether r applies to it.
func (r *rule) keys(c Caller, t Target) (n int64, applies bool) {
	n = 1
	known := c.Device && r.devices && t != EverySubject
	switch r.Per {
	case guard.Network:
		bits := r.width(c)
		if bits < 0 {
			return 0, false
		}
		n = c.keys(bits)
	case guard.Subject:
		if known {
			return 0, false
		}
		if t == EverySubject {
			n = math.MaxInt64
		}
	case guard.Challenge:
		if t != OneChallenge {
			n = math.MaxInt64
		}
	case guard.Pair:
		n = math.MaxInt64
		if t != EverySubject {
			n = c.networks()
		}
	case guard.Device:
		if !known {
			return 0, false
		}
	}
	if known && n >= r.entries && (r.Per == guard.Network || r.Per == guard.Pair) {
		return 0, false // the entry that all share refuses no known device
	}
	return min(n, r.entries), true
}

// width returns how wide the networks are that r charges for a caller, -1 if it does not
// apply.
func (r *rule) width(c Caller) int {
	if c.IPv6 {
		return r.V6
	}
	return r.V4
}

// most returns what r alone admits a caller.
func (r *rule) most(c Caller, t Target, span time.Duration) (n int64, applies bool) {
	n, applies = r.keys(c, t)
	if !applies {
		return math.MaxInt64, false
	}
	n = mul(n, r.key.Most(span))
	if r.Throttle != nil {
		n = min(n, r.all.Most(span))
	}
	return n, true
}

// Most returns the most attempts that a caller is admitted in any half-open span of
// this length: the least that any of the rules admits. Together they may admit fewer;
// Play tells.
func (d *Door) Most(c Caller, t Target, span time.Duration) Limit {
	least := Limit{Most: math.MaxInt64}
	for i := range d.rules {
		r := &d.rules[i]
		if n, applies := r.most(c, t, span); applies && (n < least.Most || least.Rule == "") {
			least = Limit{n, r.Name}
		}
	}
	return least
}

// Rate returns how often a caller is admitted in the long run, and the rule that holds
// it there; without one there is no limit.
func (d *Door) Rate(c Caller, t Target) (least Rate, rule string) {
	for i := range d.rules {
		r := &d.rules[i]
		n, applies := r.keys(c, t)
		if !applies {
			continue
		}
		rate := r.key.Rate()
		rate.Attempts = mul(n, rate.Attempts)
		if r.Throttle != nil && r.all.Rate().Compare(rate) < 0 {
			rate = r.all.Rate()
		}
		if rule == "" || rate.Compare(least) < 0 {
			least, rule = rate, r.Name
		}
	}
	return least, rule
}

// Shortest returns the shortest span in which a caller may be admitted n attempts. ok is
// false if there is none within 292 years.
func (d *Door) Shortest(c Caller, t Target, n int64) (span time.Duration, ok bool) {
	return shortest(func(span time.Duration) int64 { return d.Most(c, t, span).Most }, n)
}

// A FirstWait says when somebody who only mistypes has to wait.
type FirstWait struct {
	After int64         // attempts at once
	Wait  time.Duration // until the next one
	Rule  string        // that says so; nobody waits if it is empty
	All   bool          // right ones count too, as under a window
}

// FirstWait returns how many wrong attempts a caller makes at once before having to wait,
// and how long. Of rules that say so together it is the longest wait.
func (d *Door) FirstWait(c Caller, t Target) FirstWait {
	var first FirstWait
	for i := range d.rules {
		r := &d.rules[i]
		n, applies := r.most(c, t, 1)
		if !applies {
			continue
		}
		w := FirstWait{After: n, Wait: r.firstWait(), Rule: r.Name, All: r.Window != nil}
		if first.Rule == "" || w.After < first.After || w.After == first.After && w.Wait > first.Wait {
			first = w
		}
	}
	return first
}

func (r *rule) firstWait() time.Duration {
	switch {
	case r.Lockout != nil:
		return r.Lockout.FirstLockout
	case r.Throttle != nil:
		return r.Throttle.Window
	}
	return r.key.Rate().Per
}

// Closers returns how many callers of a kind, who guess together at the same subject if
// the rule charges it, use up the key that they share under a rule within a span: from
// then on everybody who shares it waits. No fewer do: the other rules hold each of them
// back, and those on keys as wide all of them. It may take more where some of them share
// a narrower key too, or where a lockout without Decay forgets between their attempts.
// It is 0 if no number does.
func (d *Door) Closers(name string, c Caller, within time.Duration) int64 {
	i := slices.IndexFunc(d.rules, func(r rule) bool { return r.Name == name })
	if i < 0 {
		return 0
	}
	t := EverySubject
	if d.rules[i].Per == guard.Subject {
		t = OneSubject
	}
	return d.closers(i, c, t, within)
}

// closers returns how many callers use up a key of rule i that they share.
func (d *Door) closers(i int, c Caller, t Target, within time.Duration) int64 {
	r := &d.rules[i]
	keys, applies := r.keys(c, t)
	if !applies {
		return 0
	}
	others := &Door{rules: slices.Concat(d.rules[:i], d.rules[i+1:])}
	each := func(span time.Duration) int64 {
		n := others.Most(c, t, span).Most
		if r.Throttle != nil {
			n = min(n, mul(keys, r.key.Most(span)))
		}
		return n
	}
	together := func(span time.Duration) int64 {
		n := int64(math.MaxInt64)
		for j := range others.rules {
			if o := &others.rules[j]; o.covers(r, c) {
				n = min(n, o.key.Most(span))
			}
		}
		return n
	}
	return r.closers(each, together, within)
}

// covers reports whether all who share a key of r share one of o too.
func (o *rule) covers(r *rule, c Caller) bool {
	switch {
	case o.Throttle != nil || r.Throttle != nil:
		return false
	case o.Per == guard.Network && r.Per == guard.Network:
		return o.width(c) > 0 && o.width(c) <= r.width(c)
	}
	return o.Per == guard.Everyone || o.Per == r.Per && o.Per == guard.Subject
}

// limit returns how many attempts use up a key of r, or the ceiling of a throttle.
func (r *rule) limit() int64 {
	switch {
	case r.Lockout != nil:
		return int64(r.Lockout.FreeFailures)
	case r.Throttle != nil:
		return int64(r.Throttle.Global)
	}
	return int64(r.Window.Limit)
}

// fineness bounds how many instants closers looks at.
const fineness = 10_000

// closers returns how many callers who make as many attempts as each of them and all
// together are admitted bring a key to its limit.
func (r *rule) closers(each, together func(span time.Duration) int64, within time.Duration) int64 {
	need := func(limit int64, span time.Duration) int64 {
		if n := each(span); n > 0 && together(span) >= limit {
			return (limit-1)/n + 1
		}
		return math.MaxInt64
	}
	var best int64
	switch limit := r.limit(); {
	case r.Throttle != nil:
		best = need(limit, min(within, r.Throttle.Window))
	case r.Window != nil:
		best = need(limit, min(within, r.Window.Window))
	case !r.Lockout.Decay:
		// Failures add up while no two of them are Window apart.
		chain := add(mul(limit-1, int64(r.Lockout.Window)-1), 1)
		best = need(limit, min(within, duration(chain)))
	default:
		// Just before each step the most was made and the least is forgotten.
		step := r.key.curve.(decaying).step
		best = need(limit, 1)
		steps := int64(within) / step
		for i := int64(0); i < steps; i += steps/fineness + 1 {
			best = min(best, need(add(limit, i), time.Duration((i+1)*step)))
		}
	}
	if best == math.MaxInt64 {
		return 0
	}
	return best
}
