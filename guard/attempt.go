package guard

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/lockout"
)

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
	known := g.known(&r, now)
	var seats seats
	if p.Verdict, p.charged = g.judge(&r, known, &seats, now); !p.Allowed {
		p.charged = 0
		return p
	}
	b := newBallot(known)
	b.shadow, b.stepUp = p.Shadow, p.StepUp
	apart := false // whether some rule that is given back to does not count this attempt
	for i := range g.rules {
		rule := &g.rules[i]
		if p.charged&(1<<i) == 0 {
			apart = apart || rule.isGiven() && (seats[i].limiter != nil || rule.Per != Network)
			continue
		}
		var d doorward.Decision
		d, p.tickets[i] = rule.reserve(seats[i].limiter, seats[i].key, apart, now)
		if !d.Allowed {
			p.charged &^= 1 << i
		}
		apart = apart || rule.isGiven() && (!d.Allowed || d.Overflow)
		if b.count(rule, d); b.refused {
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

// isGiven reports whether r is given back what a success clears on a pair.
func (r *rule) isGiven() bool { return r.Lockout != nil && !r.clears() }

// reserve charges a pair apart if other rules do not count the attempt: what they did
// not count must not be given back to them.
func (r *rule) reserve(l limiter, k doorward.Key, apart bool, now time.Time) (doorward.Decision, doorward.Ticket) {
	if l, ok := l.(*lockout.Limiter); ok && apart && r.Per == Pair {
		return l.ReserveApart(k, now)
	}
	return l.Reserve(k, now)
}

// known reports whether the request comes from a device that has a budget of its own.
// One that would be charged to the overflow entry is a stranger: there all devices
// without an entry are one.
func (g *Guard) known(r *Request, now time.Time) bool {
	if r.Device == (doorward.Key{}) {
		return false
	}
	known := false
	for i := range g.rules {
		if rule := &g.rules[i]; rule.Per == Device {
			if rule.tables[0].Ledger().Peek(r.Device, now).Overflow {
				return false
			}
			known = true
		}
	}
	return known
}

// seats are where the rules charge a request, by place in Guard.rules.
type seats [MaxRules]struct {
	key     doorward.Key
	limiter limiter
}

// judge asks every rule that applies to r, fills in its seat, and returns the places
// of those that allow.
func (g *Guard) judge(r *Request, known bool, seats *seats, now time.Time) (v Verdict, allow uint16) {
	family := familyOf(r.Addr)
	b := newBallot(known)
	for i := range g.rules {
		rule := &g.rules[i]
		key, f, applies := rule.charge(r, family, known)
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
// a body, so that a locked caller costs nothing more. With a Store everything passes but
// what a Checker refuses: a question that charges nothing is not worth a round trip.
func (g *Guard) Check(r Request, now time.Time) Verdict {
	p := Permit{guard: g, request: r}
	if g.settledByList(&p) {
		return p.Verdict
	}
	if g.config.Store != nil {
		return g.checkStore(&r, now)
	}
	var seats seats
	v, _ := g.judge(&r, g.known(&r, now), &seats, now)
	return v
}

func (g *Guard) checkStore(r *Request, now time.Time) Verdict {
	if s, ok := g.config.Store.(Checker); ok {
		known := g.mayBeKnown(r)
		charges, places := g.charges(r, known, now)
		if s.Check(charges) {
			v, _ := g.count(charges, places, known)
			return v
		}
	}
	return Verdict{Decision: doorward.Decision{Allowed: true}}
}

// count returns what a Store decided, and the places of what it charged if it refused
// nothing.
func (g *Guard) count(charges []Charge, places []int, known bool) (v Verdict, charged uint16) {
	b := newBallot(known)
	for n, c := range charges {
		if b.count(&g.rules[places[n]], c.Decision) {
			charged |= 1 << places[n]
		}
	}
	return b.verdict(), charged
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
	known := g.mayBeKnown(&r)
	charges, places := g.charges(&r, known, now)
	err := g.config.Store.Reserve(ctx, charges)
	if err == nil && known && overflows(charges) {
		// The device has no entry of its own: once more, as a stranger.
		if err = g.takeBack(ctx, charges); err == nil {
			known = false
			charges, places = g.charges(&r, known, now)
			err = g.config.Store.Reserve(ctx, charges)
		}
	}
	if err != nil {
		p.Verdict = Verdict{Decision: doorward.Decision{Reason: doorward.Unavailable}}
		return p, fmt.Errorf("guard: store cannot decide: %w", err)
	}
	v, charged := g.count(charges, places, known)
	if p.Verdict = v; !v.Allowed {
		return p, nil
	}
	p.charged = charged
	for n, c := range charges {
		if charged&(1<<places[n]) != 0 {
			p.tickets[places[n]] = c.Ticket
		}
	}
	return p, nil
}

// mayBeKnown reports whether a request is to be tried as one of a known device.
func (g *Guard) mayBeKnown(r *Request) bool {
	return r.Device != (doorward.Key{}) && slices.ContainsFunc(g.rules, func(r rule) bool { return r.Per == Device })
}

// charges lists what a request is charged to and the place of each rule in g.rules.
func (g *Guard) charges(r *Request, known bool, now time.Time) (charges []Charge, places []int) {
	family := familyOf(r.Addr)
	charges, places = make([]Charge, 0, len(g.rules)), make([]int, 0, len(g.rules))
	for i := range g.rules {
		rule := &g.rules[i]
		if key, _, applies := rule.charge(r, family, known); applies {
			charges = append(charges, Charge{
				Rule: &rule.Rule, Key: key, Now: now, MayRefuse: rule.Action == Refuse,
				Given: rule.isGiven(), Known: known && rule.sparesKnown(), Apart: known && rule.Per == Pair,
			})
			places = append(places, i)
		}
	}
	return charges, places
}

// overflows reports whether a device would be charged to an overflow entry.
func overflows(charges []Charge) bool {
	return slices.ContainsFunc(charges, func(c Charge) bool { return c.Rule.Per == Device && c.Decision.Overflow })
}

// takeBack voids what was reserved.
func (g *Guard) takeBack(ctx context.Context, charges []Charge) error {
	charges = slices.DeleteFunc(charges, func(c Charge) bool { return c.Ticket == doorward.Ticket{} })
	for i := range charges {
		charges[i].Outcome = doorward.Void
	}
	if len(charges) == 0 {
		return nil
	}
	return g.config.Store.Settle(ctx, charges)
}

// settledByList answers for blocked and exempt networks.
func (g *Guard) settledByList(p *Permit) bool {
	if len(g.blocked)+len(g.exempt) == 0 {
		return false
	}
	sent := p.request.Addr.Unmap().WithZone("")
	addr := sent
	if k := doorward.KeyFromAddr(addr); k.Prefix().Addr().Is4() && !addr.Is4() {
		addr = k.Prefix().Addr() // embedded by NAT64
	}
	if g.blocked.has(addr) || sent != addr && g.blocked.has(sent) {
		p.Verdict = Verdict{Decision: doorward.Decision{Reason: doorward.Blocked}}
		return true
	}
	found := p.request.How == clientip.Peer || p.request.How == clientip.Header
	if found && g.exempt.has(addr) {
		p.Verdict = Verdict{Decision: doorward.Decision{Allowed: true}, Exempt: true}
		return true
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
func (r *rule) charge(q *Request, f family, known bool) (key doorward.Key, table int, applies bool) {
	switch {
	case r.Per == Network:
		switch {
		case f == familyUnknown && r.V4 < 0:
			return key, 1, true
		case f == familyUnknown:
			return key, 0, true
		case f == family4 && r.V4 < 0, f == family6 && r.V6 < 0:
			return key, 0, false
		}
		return doorward.KeyFromPrefix(q.Addr, max(r.V4, 1), max(r.V6, 1)), int(f), true
	case r.Per == Subject && !known:
		key = q.Subject
	case r.Per == Challenge:
		key = q.Challenge
	case r.Per == Pair && q.Subject != doorward.Key{}:
		key = doorward.KeyFromPair(q.Subject, doorward.KeyFromAddr(q.Addr))
	case r.Per == Device && known:
		key = q.Device
	case r.Per == Everyone:
		key = doorward.KeyForEveryone()
	}
	return key, 0, key != doorward.Key{}
}

// sparesKnown reports whether the overflow entry of r does not refuse known devices.
func (r *rule) sparesKnown() bool { return r.Per == Network || r.Per == Pair }

// A ballot collects what the rules say.
type ballot struct {
	known   bool
	refused bool
	worst   doorward.Decision // the refusal with the longest wait
	by      *rule
	rest    int // the least Remaining of those that allow
	over    bool
	stepUp  bool
	shadow  uint16
}

const unlimited = int(^uint(0) >> 1)

func newBallot(known bool) ballot { return ballot{rest: unlimited, known: known} }

// count takes the decision of r and reports whether r is to be charged.
func (b *ballot) count(r *rule, d doorward.Decision) bool {
	switch {
	case r.Action == Shadow:
		if !d.Allowed {
			b.shadow |= 1 << r.index
		}
	case r.Action == StepUp:
		b.stepUp = b.stepUp || !d.Allowed
	case d.Allowed:
		b.rest = min(b.rest, d.Remaining)
		b.over = b.over || d.Overflow
	case b.known && d.Overflow && r.sparesKnown():
		// Strangers filled the table: a known device does not wait for them.
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
		StepUp:   b.stepUp, Shadow: b.shadow,
	}
}
