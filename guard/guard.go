// Package guard decides the rules of one door together. A rule charges one limiter
// with one key: the caller's network, a wider network, a subject, everyone. It
// promises that an attempt is charged to all rules or to none, that the decision
// names the rule that refused with the longest wait, and that a success clears only
// what that caller spent against that subject: nobody washes off guesses at others
// by logging in to an account of their own.
//
// Attempt returns a permit, which carries the outcome back to the same rules. A
// permit that is dropped counts as failed when its lease ends.
//
// It gives up nothing that its rules promise, but a guard is only as good as they
// are: without a rule for the subject, many networks together guess as often as each
// of them may. One policy on one key needs no guard; use package lockout.
//
// What a guard counts is gone when the process ends, unless Save wrote it and Load reads it.
//
// In memory a decision asks and charges each rule once and allocates nothing. Nothing
// here reads a clock.
package guard

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
)

// A Guard decides the attempts at one door. It is safe for concurrent use.
type Guard struct {
	config  Config
	rules   []rule // in the order they are charged
	exempt  networkList
	blocked networkList
}

// A rule is a Rule with its limiters.
type rule struct {
	Rule
	index  int        // in Config.Rules
	tables [2]limiter // of network rules IPv4 and IPv6; of others the first
}

// Request is what a guard has to know of an attempt.
type Request struct {
	// Addr is the caller's address, the zero Addr if there is none.
	Addr netip.Addr
	// How says how Addr was found. Exempt networks count only if it was the peer or
	// in the header proper.
	How clientip.How
	// Subject and Challenge are keys from names. Rules that charge them do not apply
	// to a request that has none.
	Subject, Challenge doorward.Key
	// Device is the id of a known device, whose token was verified for this guard and
	// this subject. It is taken off the subject rules and charged to the device rules
	// instead; without those it means nothing.
	Device doorward.Key
}

// Verdict is the decision of a guard. The zero Verdict refuses.
type Verdict struct {
	doorward.Decision
	// Rule names the rule that refused with the longest wait. It is empty when the
	// attempt is allowed, blocked, or could not be decided.
	Rule string
	// Per is what that rule charges.
	Per Per
	// StepUp asks for a stronger proof before the attempt is judged.
	StepUp bool
	// Exempt says that the attempt passed uncharged.
	Exempt bool
	// Shadow has bit i set if Config.Rules[i] is a shadow rule that would have refused.
	Shadow uint16
}

// New returns a guard that has counted nothing yet. An error names the rule and the
// field that is wrong; a guard without rules is an error. All memory is allocated
// here: for each rule that of lockout.New, twice for network rules of both families.
func New(c Config) (*Guard, error) { return build(c, nil) }

// Reload returns a guard for another configuration. Rules with the same name and the
// same key keep what they counted, under their new limits; permits in flight stay
// valid. A configuration that New would refuse, or that changes Capacity, InFlight or
// Lease of a kept rule, is an error and changes nothing. Rules whose policy is the same
// cost nothing, so Exempt and Blocked may change as often as one likes; under another
// policy each entry is looked at.
func (g *Guard) Reload(c Config) (*Guard, error) { return build(c, g) }

// CheckReload returns the error that Reload would, and changes nothing: whoever reloads
// several guards together learns here whether all of them can be.
func (g *Guard) CheckReload(c Config) error {
	_, err := arrange(c, g)
	return err
}

func build(c Config, old *Guard) (*Guard, error) {
	g, err := arrange(c, old)
	if err != nil || g.config.Store != nil {
		return g, err
	}
	// What can fail comes first, so that an error leaves the old guard as it was.
	for i := range g.rules {
		r := &g.rules[i]
		if was := old.kept(r); was != nil {
			r.tables = was.tables
		} else if err := r.allocate(); err != nil {
			return nil, err
		}
	}
	for i := range g.rules {
		if r := &g.rules[i]; old.kept(r) != nil {
			if err := r.reload(); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// arrange returns a guard that has its rules and no limiters yet, if it can go on from old.
func arrange(c Config, old *Guard) (*Guard, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	g := &Guard{config: c, exempt: newNetworkList(c.Exempt), blocked: newNetworkList(c.Blocked)}
	for i, r := range c.Rules {
		g.rules = append(g.rules, rule{Rule: r, index: i})
	}
	slices.SortStableFunc(g.rules, func(a, b rule) int { return cmp.Compare(a.narrowness(), b.narrowness()) })
	if c.Store != nil {
		return g, nil
	}
	for i := range g.rules {
		r := &g.rules[i]
		was := old.kept(r)
		if was == nil {
			continue
		}
		capacity, inFlight := was.size()
		if c, n := r.size(); c != capacity || n != inFlight {
			return nil, fmt.Errorf("guard: rule %q: Capacity and InFlight cannot change in a reload, from %d and %d to %d and %d", r.Name, capacity, inFlight, c, n)
		}
		if r.Lockout != nil && r.Lockout.Lease != was.Lockout.Lease {
			return nil, fmt.Errorf("guard: rule %q: Lease cannot change in a reload, from %v to %v", r.Name, was.Lockout.Lease, r.Lockout.Lease)
		}
	}
	return g, nil
}

// kept returns the rule of g that r goes on from, nil if there is none.
func (g *Guard) kept(r *rule) *rule {
	if g == nil || g.config.Store != nil {
		return nil
	}
	for i := range g.rules {
		if o := &g.rules[i]; o.Name == r.Name && o.sameKey(r.Rule) && o.sameKind(r.Rule) {
			return o
		}
	}
	return nil
}

// narrowness orders rules for charging: from wide to narrow and networks before
// subjects, so that who is spent on a wide key adds no entries to narrower tables.
// Windows come last: what they charge and take back others see as spent, not as busy.
func (r *rule) narrowness() int {
	n := 100 + int(r.Per)
	switch r.Per {
	case Everyone:
		n = 0
	case Network:
		n = max(2*r.V4, r.V6)
	}
	if r.Window != nil {
		n += 200
	}
	return n
}

// Rules returns the rules with names and defaults filled in, in the order of Config.
// The caller must not change them.
func (g *Guard) Rules() []Rule { return g.config.Rules }

// Lease returns how long a permit may stay unsettled: what the lockouts say, but at
// most a minute if there are other rules.
func (g *Guard) Lease() time.Duration {
	lease := time.Duration(math.MaxInt64)
	for _, r := range g.config.Rules {
		if r.Lockout != nil {
			lease = min(lease, r.Lockout.Lease)
		} else {
			lease = min(lease, time.Minute)
		}
	}
	return lease
}

// Families reports whether some rule that refuses applies to each IPv4 and each IPv6
// caller. Where it does not, callers of that family are not limited at all.
func (g *Guard) Families() (v4, v6 bool) {
	for _, r := range g.config.Rules {
		if r.Action != Refuse || r.Per != Network && r.Per != Everyone {
			continue
		}
		v4 = v4 || r.V4 >= 0
		v6 = v6 || r.V6 >= 0
	}
	return v4, v6
}
