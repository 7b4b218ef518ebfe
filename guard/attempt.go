package guard

import (
	"context"
	"fmt"
	"net/netip"
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

// seats are where the rules charge a request, by place in Guard.rules.
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
