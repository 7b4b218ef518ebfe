package guard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/lockout"
)

// A Permit is the answer to one attempt and the way back for its outcome. It is a
// value: copies name the same attempt, and the first that is settled counts. The zero
// Permit refuses. A Permit is not safe for concurrent use. Copies are, but if two are
// settled at the same time as different outcomes, each rule takes the one that comes
// first to it.
type Permit struct {
	Verdict
	guard   *Guard
	request Request
	tickets [MaxRules]doorward.Ticket // by place in guard.rules
	charged uint16                    // which places hold a reservation
	settled bool
}

// Settlement is what Settle did.
type Settlement struct {
	// Settled is false if there was nothing to settle: the attempt was refused, or
	// this permit was settled before.
	Settled bool
	// Outcome is what the attempt was settled as.
	Outcome doorward.Outcome
	// Cleared is how many failures of this caller against this subject it cleared.
	Cleared int
	// Lockout is the lockout that it started. Of several it is the longest of rules that
	// refuse; of others only if no such rule started any.
	Lockout Lockout
}

// A Lockout is what a failure started. The zero Lockout is none.
type Lockout struct {
	Rule   string
	Action Action
	For    time.Duration
}

// or returns the one that keeps the caller out, the longer if both do.
func (l Lockout) or(o Lockout) Lockout {
	switch refuses := o.Action == Refuse; {
	case o.For == 0:
		return l
	case l.For == 0, refuses && l.Action != Refuse, refuses == (l.Action == Refuse) && o.For > l.For:
		return o
	}
	return l
}

// Settle ends the attempt as o, once; later calls do nothing. It does nothing either
// once the lease has ended, when the attempt has become a failure. Anything that is
// no outcome counts as Failed. With a Store use SettleContext.
func (p *Permit) Settle(o doorward.Outcome, now time.Time) Settlement {
	s, _ := p.SettleContext(context.Background(), o, now)
	return s
}

// SettleContext is Settle for a guard with a Store. After an error the attempt may be
// settled or not; what is not becomes a failure when its lease ends.
func (p *Permit) SettleContext(ctx context.Context, o doorward.Outcome, now time.Time) (Settlement, error) {
	if o > doorward.Void {
		o = doorward.Failed
	}
	if !p.Allowed || p.settled {
		return Settlement{}, nil
	}
	p.settled = true
	s := Settlement{Settled: true, Outcome: o}
	var err error
	switch {
	case p.guard == nil:
	case p.guard.config.Store != nil:
		s.Cleared, s.Lockout, err = p.settleStore(ctx, o, now)
	default:
		s.Cleared, s.Lockout = p.settleMemory(o, now)
	}
	return s, err
}

// settleMemory settles the rules that clear first: what they cleared on the pair tells
// the others what to give back.
func (p *Permit) settleMemory(o doorward.Outcome, now time.Time) (most int, worst Lockout) {
	var cleared [MaxRules]doorward.Cleared
	n := 0
	family := familyOf(p.request.Addr)
	for _, clearing := range []bool{true, false} {
		for i := range p.guard.rules {
			r := &p.guard.rules[i]
			if p.charged&(1<<i) == 0 || r.clears() != clearing {
				continue
			}
			key, f, _ := r.charge(&p.request, family, r.Per == Device)
			l, isLockout := r.tables[f].(*lockout.Limiter)
			var c doorward.Cleared
			if isLockout {
				var lockout time.Duration
				c, lockout = l.SettleTold(key, p.tickets[i], r.settledAs(o), p.apart(r, o), now)
				worst = worst.or(Lockout{r.Name, r.Action, lockout})
			} else {
				c = r.tables[f].Settle(key, p.tickets[i], r.settledAs(o), now)
			}
			most = max(most, c.N)
			switch {
			case isLockout && r.Per == Pair && c.N > 0:
				cleared[n] = c
				n++
			case isLockout && !clearing && n > 0:
				l.GiveBackMost(key, cleared[:n], now)
			}
		}
	}
	return most, worst
}

func (p *Permit) settleStore(ctx context.Context, o doorward.Outcome, now time.Time) (most int, worst Lockout, err error) {
	var charges []Charge
	family := familyOf(p.request.Addr)
	for _, clearing := range []bool{true, false} {
		for i := range p.guard.rules {
			r := &p.guard.rules[i]
			if p.charged&(1<<i) == 0 || r.clears() != clearing {
				continue
			}
			key, _, _ := r.charge(&p.request, family, r.Per == Device)
			charges = append(charges, Charge{
				Rule: &r.Rule, Key: key, Now: now, Ticket: p.tickets[i], Outcome: r.settledAs(o),
				GiveBack: r.isGiven() && o == doorward.Succeeded, Apart: p.apart(r, o) || r.Per == Pair && p.missed(),
			})
		}
	}
	if len(charges) == 0 {
		return 0, worst, nil
	}
	if err := p.guard.config.Store.Settle(ctx, charges); err != nil {
		return 0, worst, fmt.Errorf("guard: store cannot settle: %w", err)
	}
	for _, c := range charges {
		most = max(most, c.Cleared.N)
		worst = worst.or(Lockout{c.Rule.Name, c.Rule.Action, c.Lockout})
	}
	return most, worst, nil
}

// apart reports whether r is a pair and some rule that is given back to does not count
// o: then a success must not give it back.
func (p *Permit) apart(r *rule, o doorward.Outcome) bool {
	return o == doorward.Malformed && r.Per == Pair && slices.ContainsFunc(p.guard.rules, func(r rule) bool {
		return r.isGiven() && r.settledAs(o) == doorward.Void
	})
}

// missed reports whether some rule that is given back to and applies is not charged: then
// the pair was reserved apart, which a Store may not know any more.
func (p *Permit) missed() bool {
	family := familyOf(p.request.Addr)
	for i := range p.guard.rules {
		r := &p.guard.rules[i]
		if _, _, applies := r.charge(&p.request, family, false); applies && r.isGiven() && p.charged&(1<<i) == 0 {
			return true
		}
	}
	return false
}

// settledAs returns the outcome that r is told. What was refused before any costly
// work is charged to the caller's own keys, not to those that others share. A throttle
// clears its key on success, which only a pair may.
func (r *rule) settledAs(o doorward.Outcome) doorward.Outcome {
	switch {
	case o == doorward.Malformed && r.Per != Network && r.Per != Pair,
		o == doorward.Succeeded && r.Throttle != nil && r.Per != Pair:
		return doorward.Void
	}
	return o
}

// permitVersion is the first byte of a permit's binary form.
const permitVersion = 1

// AppendBinary appends the binary form of the permit: what it takes to settle it, in
// this process or another that shares its Store. It holds the caller's address, and
// whoever has it can settle the attempt: never give it to the caller.
func (p Permit) AppendBinary(b []byte) ([]byte, error) {
	if p.guard == nil {
		return b, errors.New("guard: the zero Permit has no binary form")
	}
	addr, err := p.request.Addr.WithZone("").MarshalBinary()
	if err != nil {
		return b, fmt.Errorf("guard: permit address: %w", err)
	}
	flags := byte(0)
	for i, set := range []bool{p.Allowed, p.Exempt, p.settled} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, permitVersion, flags, byte(p.request.How), byte(len(addr)))
	b = append(b, addr...)
	for _, k := range []doorward.Key{p.request.Subject, p.request.Challenge, p.request.Device} {
		b, _ = k.AppendBinary(b) // never fails
	}
	b = append(b, byte(bits.OnesCount16(p.charged)))
	for i := range p.guard.rules {
		if p.charged&(1<<i) == 0 {
			continue
		}
		name := p.guard.rules[i].Name
		b = append(b, byte(len(name)))
		b = append(b, name...)
		b = binary.BigEndian.AppendUint64(b, p.tickets[i].A)
		b = binary.BigEndian.AppendUint64(b, p.tickets[i].B)
	}
	return b, nil
}

// MarshalBinary returns what AppendBinary appends.
func (p Permit) MarshalBinary() ([]byte, error) { return p.AppendBinary(nil) }

// ReadPermit reads a permit that AppendBinary wrote. Rules are found by name; what was
// charged to a rule that g does not have stays unsettled and becomes a failure. Why
// the attempt was refused or allowed is not part of the binary form.
func (g *Guard) ReadPermit(b []byte) (Permit, error) {
	r := reader{b: b}
	if v := r.byte(); v != permitVersion && !r.short {
		return Permit{}, fmt.Errorf("guard: permit must have version %d, got %d", permitVersion, v)
	}
	flags := r.byte()
	p := Permit{guard: g, settled: flags&4 != 0}
	p.Allowed, p.Exempt = flags&1 != 0, flags&2 != 0
	p.request.How = clientip.How(r.byte())
	var addr netip.Addr
	if err := addr.UnmarshalBinary(r.next(int(r.byte()))); err != nil && !r.short {
		return Permit{}, fmt.Errorf("guard: permit address: %w", err)
	}
	p.request.Addr = addr
	for _, k := range []*doorward.Key{&p.request.Subject, &p.request.Challenge, &p.request.Device} {
		if err := k.UnmarshalBinary(r.next(18)); err != nil && !r.short {
			return Permit{}, fmt.Errorf("guard: permit key: %w", err)
		}
	}
	for range r.byte() {
		name := string(r.next(int(r.byte())))
		t := doorward.Ticket{A: r.uint64(), B: r.uint64()}
		for i := range g.rules {
			rule := &g.rules[i]
			_, _, applies := rule.charge(&p.request, familyOf(p.request.Addr), rule.Per == Device)
			if rule.Name == name && applies {
				p.tickets[i] = t
				p.charged |= 1 << i
			}
		}
	}
	if r.short || len(r.b) > 0 {
		return Permit{}, errors.New("guard: permit must not be cut off or have more after its end")
	}
	return p, nil
}

// A reader takes bytes off the front and remembers when there were too few.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) next(n int) []byte {
	if len(r.b) < n {
		r.b, r.short = nil, true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte     { return r.next(1)[0] }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.next(8)) }
