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
// In memory a decision over three rules takes a few hundred nanoseconds and
// allocates nothing. Nothing here reads a clock.
package guard

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/lockout"
)

// A Guard decides the attempts at one door. It is safe for concurrent use.
type Guard struct {
	config Config
	rules  []rule // in the order they are charged
}

// A rule is a Rule with its limiters.
type rule struct {
	Rule
	index  int                 // in Config.Rules
	tables [2]*lockout.Limiter // of network rules IPv4 and IPv6; of others the first
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
	// Device is the token id of a known device.
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
// valid. A configuration that New would refuse, or that changes the Capacity or
// InFlight of a kept rule, is an error and changes nothing.
func (g *Guard) Reload(c Config) (*Guard, error) { return build(c, g) }

func build(c Config, old *Guard) (*Guard, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	g := &Guard{config: c}
	for i, r := range c.Rules {
		g.rules = append(g.rules, rule{Rule: r, index: i})
	}
	slices.SortStableFunc(g.rules, func(a, b rule) int { return cmp.Compare(a.narrowness(), b.narrowness()) })
	if c.Store != nil {
		return g, nil
	}
	// What can fail comes first, so that an error leaves the old guard as it was.
	for i := range g.rules {
		r := &g.rules[i]
		was := old.kept(r)
		if was == nil {
			if err := r.allocate(); err != nil {
				return nil, err
			}
			continue
		}
		for _, t := range was.tables {
			if t == nil {
				continue
			}
			p, q := t.Policy(), r.Lockout.WithDefaults()
			if p.Capacity != q.Capacity || p.InFlight != q.InFlight {
				return nil, fmt.Errorf("guard: rule %q: Capacity and InFlight cannot change in a reload, from %d and %d to %d and %d", r.Name, p.Capacity, p.InFlight, q.Capacity, q.InFlight)
			}
		}
	}
	for i := range g.rules {
		r := &g.rules[i]
		was := old.kept(r)
		if was == nil {
			continue
		}
		for f, t := range was.tables {
			if t == nil {
				continue
			}
			r.tables[f] = t
			if err := t.Reload(*r.Lockout); err != nil {
				return nil, fmt.Errorf("guard: rule %q: %w", r.Name, err)
			}
		}
	}
	return g, nil
}

// allocate makes the limiters of r.
func (r *rule) allocate() error {
	families := []bool{true, false}
	if r.Per == Network {
		families = []bool{r.V4 > 0, r.V6 > 0}
	}
	for f, applies := range families {
		if !applies {
			continue
		}
		l, err := lockout.New(*r.Lockout)
		if err != nil {
			return fmt.Errorf("guard: rule %q: %w", r.Name, err)
		}
		r.tables[f] = l
	}
	return nil
}

// kept returns the rule of g that r goes on from, nil if there is none.
func (g *Guard) kept(r *rule) *rule {
	if g == nil || g.config.Store != nil {
		return nil
	}
	for i := range g.rules {
		if o := &g.rules[i]; o.Name == r.Name && o.sameKey(r.Rule) {
			return o
		}
	}
	return nil
}

// narrowness orders rules for charging: from wide to narrow and networks before
// subjects, so that who is spent on a wide key adds no entries to narrower tables.
func (r *rule) narrowness() int {
	switch r.Per {
	case Everyone:
		return 0
	case Network:
		return max(2*r.V4, r.V6)
	}
	return 100 + int(r.Per)
}

// Rules returns the rules with names and defaults filled in, in the order of Config.
// The caller must not change them.
func (g *Guard) Rules() []Rule { return g.config.Rules }

// Lease returns how long a permit may stay unsettled.
func (g *Guard) Lease() time.Duration { return g.config.Rules[0].Lockout.Lease }

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

// Attempt decides on one attempt and charges it to every rule, or to none. Settle the
// permit when the outcome is known.
//
// With a Store, use AttemptContext: Attempt refuses as Unavailable what the store
// cannot decide.
func (g *Guard) Attempt(r Request, now time.Time) Permit {
	if g.config.Store != nil {
		p, _ := g.AttemptContext(context.Background(), r, now)
		return p
	}
	p := Permit{guard: g, request: r}
	if g.settledByList(&p) {
		return p
	}
	var seats seats
	if p.Verdict, p.charged = g.judge(&r, &seats, now); !p.Allowed {
		p.charged = 0
		return p
	}
	b := newBallot()
	b.shadow = p.Shadow
	for i := range g.rules {
		if p.charged&(1<<i) == 0 {
			continue
		}
		var d doorward.Decision
		d, p.tickets[i] = seats[i].limiter.Reserve(seats[i].key, now)
		if !d.Allowed {
			p.charged &^= 1 << i
		}
		if b.count(&g.rules[i], d); b.refused {
			break
		}
	}
	if p.Verdict = b.verdict(); p.Allowed {
		return p
	}
	// Another caller came in between.
	for i := range g.rules {
		if p.tickets[i] != (doorward.Ticket{}) {
			seats[i].limiter.Settle(seats[i].key, p.tickets[i], doorward.Void, now)
		}
	}
	p.charged = 0
	return p
}

// A seat is where a rule charges a request, by place in Guard.rules.
type seats [MaxRules]struct {
	key     doorward.Key
	limiter *lockout.Limiter
}

// judge asks every rule that applies to r, fills in its seat, and returns the places
// of those that allow.
func (g *Guard) judge(r *Request, seats *seats, now time.Time) (v Verdict, allow uint16) {
	family := familyOf(r.Addr)
	b := newBallot()
	for i := range g.rules {
		rule := &g.rules[i]
		key, f, applies := rule.charge(r, family)
		if !applies {
			continue
		}
		seats[i].key, seats[i].limiter = key, rule.tables[f]
		if b.count(rule, rule.tables[f].Check(key, now)) {
			allow |= 1 << i
		}
	}
	return b.verdict(), allow
}

// Check answers as Attempt would and charges nothing. An edge asks it before it reads
// a body, so that a locked caller costs nothing more. With a Store everything passes:
// a question that charges nothing is not worth a round trip.
func (g *Guard) Check(r Request, now time.Time) Verdict {
	p := Permit{guard: g, request: r}
	if g.settledByList(&p) {
		return p.Verdict
	}
	if g.config.Store != nil {
		return Verdict{Decision: doorward.Decision{Allowed: true}}
	}
	var seats seats
	v, _ := g.judge(&r, &seats, now)
	return v
}

// AttemptContext is Attempt for a guard with a Store. An error means that the store
// could not decide; the permit then refuses as Unavailable, and whoever lets the
// attempt through all the same fails open.
func (g *Guard) AttemptContext(ctx context.Context, r Request, now time.Time) (Permit, error) {
	if g.config.Store == nil {
		return g.Attempt(r, now), nil
	}
	p := Permit{guard: g, request: r}
	if g.settledByList(&p) {
		return p, nil
	}
	charges, places := g.charges(&r, now)
	if err := g.config.Store.Reserve(ctx, charges); err != nil {
		p.Verdict = Verdict{Decision: doorward.Decision{Reason: doorward.Unavailable}}
		return p, fmt.Errorf("guard: store cannot decide: %w", err)
	}
	b := newBallot()
	for n, c := range charges {
		if b.count(&g.rules[places[n]], c.Decision) {
			p.charged |= 1 << places[n]
			p.tickets[places[n]] = c.Ticket
		}
	}
	if p.Verdict = b.verdict(); !p.Allowed {
		p.charged = 0
	}
	return p, nil
}

// charges lists what a request is charged to and the place of each rule in g.rules.
func (g *Guard) charges(r *Request, now time.Time) (charges []Charge, places []int) {
	family := familyOf(r.Addr)
	for i := range g.rules {
		rule := &g.rules[i]
		if key, _, applies := rule.charge(r, family); applies {
			charges = append(charges, Charge{Rule: &rule.Rule, Key: key, Now: now})
			places = append(places, i)
		}
	}
	return charges, places
}

// settledByList answers for blocked and exempt networks.
func (g *Guard) settledByList(p *Permit) bool {
	if len(g.config.Blocked)+len(g.config.Exempt) == 0 {
		return false
	}
	addr := p.request.Addr.Unmap().WithZone("")
	if k := doorward.KeyFromAddr(addr); k.Prefix().Addr().Is4() && !addr.Is4() {
		addr = k.Prefix().Addr() // embedded by NAT64
	}
	if within(g.config.Blocked, addr) {
		p.Verdict = Verdict{Decision: doorward.Decision{Reason: doorward.Blocked}}
		return true
	}
	found := p.request.How == clientip.Peer || p.request.How == clientip.Header
	if found && within(g.config.Exempt, addr) {
		p.Verdict = Verdict{Decision: doorward.Decision{Allowed: true}, Exempt: true}
		return true
	}
	return false
}

func within(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// A family is where network rules count an address. Unknown belongs to both.
type family uint8

const (
	family4 family = iota
	family6
	familyUnknown
)

func familyOf(addr netip.Addr) family {
	switch p := doorward.KeyFromAddr(addr).Prefix(); {
	case !p.IsValid():
		return familyUnknown
	case p.Addr().Is4():
		return family4
	}
	return family6
}

// charge returns the key that r charges and the table it is in, or that r does not
// apply to the request.
func (r *rule) charge(q *Request, f family) (key doorward.Key, table int, applies bool) {
	switch r.Per {
	case Network:
		switch {
		case f == familyUnknown:
			if r.V4 < 0 {
				return doorward.Key{}, 1, true
			}
			return doorward.Key{}, 0, true
		case f == family4 && r.V4 < 0, f == family6 && r.V6 < 0:
			return key, 0, false
		}
		return doorward.KeyFromPrefix(q.Addr, max(r.V4, 1), max(r.V6, 1)), int(f), true
	case Subject:
		key = q.Subject
	case Challenge:
		key = q.Challenge
	case Pair:
		if q.Subject != (doorward.Key{}) {
			key = doorward.KeyFromPair(q.Subject, doorward.KeyFromAddr(q.Addr))
		}
	case Everyone:
		key = doorward.KeyForEveryone()
	}
	return key, 0, key != doorward.Key{}
}

// A ballot collects what the rules say.
type ballot struct {
	refused bool
	worst   doorward.Decision // the refusal with the longest wait
	by      *rule
	rest    int // the least Remaining of those that allow
	over    bool
	shadow  uint16
}

const unlimited = int(^uint(0) >> 1)

func newBallot() ballot { return ballot{rest: unlimited} }

// count takes the decision of r and reports whether r is to be charged.
func (b *ballot) count(r *rule, d doorward.Decision) bool {
	switch {
	case r.Action == Shadow:
		if !d.Allowed {
			b.shadow |= 1 << r.index
		}
	case d.Allowed:
		b.rest = min(b.rest, d.Remaining)
		b.over = b.over || d.Overflow
	case !b.refused || d.RetryAfter > b.worst.RetryAfter:
		b.refused, b.worst, b.by = true, d, r
	}
	return d.Allowed
}

// verdict returns the decision of all. Rules that do not apply leave nothing to count:
// the attempt is then allowed without limit.
func (b *ballot) verdict() Verdict {
	if b.refused {
		return Verdict{Decision: b.worst, Rule: b.by.Name, Per: b.by.Per, Shadow: b.shadow}
	}
	return Verdict{
		Decision: doorward.Decision{Allowed: true, Remaining: b.rest, Overflow: b.over},
		Shadow:   b.shadow,
	}
}
