package guard_test

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
)

// A model is the Guard as its rules read, without a thought for speed. It is what the
// real one is compared with, so it shares no code with it: its limiters are books, slow
// models of the three policies.
type model struct {
	rules           []*modelRule // in the order of Config
	order           []*modelRule // in the order they are charged (G11)
	exempt, blocked []netip.Prefix
	hasDevice       bool
	seen            map[string]int
}

type modelRule struct {
	guard.Rule
	index int
	books [2]*book // IPv4 and IPv6, or the first
}

// modelPermit is what the model knows of an attempt that was charged.
type modelPermit struct {
	charges []*modelCharge
	settled bool
}

// modelCharge is one rule applied to one attempt.
type modelCharge struct {
	rule   *modelRule
	book   *book
	key    doorward.Key
	answer doorward.Decision
	slip   *slip // nil if it was not charged
}

func newModel(g *guard.Guard, c guard.Config, seen map[string]int) *model {
	m := &model{exempt: c.Exempt, blocked: c.Blocked, seen: seen}
	for i, r := range g.Rules() {
		x := &modelRule{Rule: r, index: i}
		for f := range x.books {
			switch {
			case r.Per == guard.Network && [2]int{r.V4, r.V6}[f] < 0:
			case f == 1 && r.Per != guard.Network:
			case f == 1 && r.Throttle != nil && x.books[0] != nil:
				x.books[1] = x.books[0] // its ceiling is one for everyone
			default:
				x.books[f] = newBook(r)
			}
		}
		m.rules = append(m.rules, x)
		m.hasDevice = m.hasDevice || r.Per == guard.Device
	}
	m.order = slices.Clone(m.rules)
	slices.SortStableFunc(m.order, func(a, b *modelRule) int { return a.rank() - b.rank() })
	return m
}

// rank orders rules from wide to narrow, networks before subjects, windows last (G1,
// G11).
func (r *modelRule) rank() int {
	n := map[guard.Per]int{guard.Subject: 101, guard.Challenge: 102, guard.Pair: 103, guard.Device: 104}[r.Per]
	if r.Per == guard.Network {
		n = max(2*r.V4, r.V6)
	}
	if r.Window != nil {
		n += 1000
	}
	return n
}

// asked is what all rules that apply to an attempt say.
type asked struct {
	charges []*modelCharge
	known   bool
}

// ask asks all rules (G1).
func (m *model) ask(r guard.Request, now int64) (v guard.Verdict, a *asked) {
	if listed(m.blocked, r.Addr) { // G6
		v.Reason = doorward.Blocked
		return v, nil
	}
	if listed(m.exempt, r.Addr) && (r.How == clientip.Peer || r.How == clientip.Header) {
		v.Allowed, v.Exempt = true, true
		return v, nil
	}
	known := r.Device != doorward.Key{} && m.hasDevice
	for _, x := range m.rules { // G8: a token without an entry of its own is a stranger's
		if known && x.Per == guard.Device {
			x.books[0].advance(now)
			known = !x.books[0].check(r.Device).Overflow
		}
	}
	var cs []*modelCharge
	for _, x := range m.order {
		if c := x.charge(r, known); c != nil {
			c.book.advance(now)
			c.answer = c.book.check(c.key)
			cs = append(cs, c)
		}
	}
	m.verdict(&v, cs, known)
	return v, &asked{cs, known}
}

// attempt decides on r at now, and charges it to all rules or to none.
func (m *model) attempt(r guard.Request, now int64) (guard.Verdict, *modelPermit) {
	v, a := m.ask(r, now)
	if a == nil || !v.Allowed {
		return v, nil
	}
	cs, known := a.charges, a.known
	apart := m.apart(cs, known)
	if known {
		m.seen["known device"]++
	}
	for _, c := range cs {
		if c.answer.Allowed { // G5, G9
			c.answer, c.slip = c.book.reserve(c.key, apart && c.rule.Per == guard.Pair)
		}
		if !c.answer.Allowed && c.refuses(known) {
			m.seen["pool full"]++
			break
		}
		apart = m.apart(cs, known)
	}
	if v = (guard.Verdict{}); !m.verdict(&v, cs, known) {
		for _, c := range cs {
			if c.slip != nil {
				c.book.settle(c.key, c.slip, doorward.Void, false)
			}
		}
		return v, nil
	}
	return v, &modelPermit{charges: cs}
}

// check answers as attempt would, and charges nothing.
func (m *model) check(r guard.Request, now int64) (v guard.Verdict) {
	v, _ = m.ask(r, now)
	return v
}

// verdict sums the answers up: the longest wait of those that refuse is named, the
// first of several.
func (m *model) verdict(v *guard.Verdict, cs []*modelCharge, known bool) bool {
	var worst, least *modelCharge
	over := false
	for _, c := range cs {
		d := c.answer
		switch {
		case !d.Allowed && c.rule.Action == guard.Shadow:
			v.Shadow |= 1 << c.rule.index
		case !d.Allowed && c.rule.Action == guard.StepUp:
			v.StepUp = true
		case !d.Allowed && c.refuses(known):
			if worst == nil || d.RetryAfter > worst.answer.RetryAfter {
				worst = c
			}
		case !d.Allowed: // a known device, and an overflow entry
			m.seen["known device past overflow"]++
		case c.rule.Action == guard.Refuse:
			over = over || d.Overflow
			if least == nil || d.Remaining < least.answer.Remaining {
				least = c
			}
		}
	}
	if worst != nil {
		v.Decision, v.Rule, v.Per, v.StepUp = worst.answer, worst.rule.Name, worst.rule.Per, false
		return false
	}
	v.Allowed, v.Overflow, v.Remaining = true, over, math.MaxInt // of no rule at all
	if least != nil {
		v.Remaining = least.answer.Remaining
	}
	return true
}

// refuses reports whether the refusal of c is one of the attempt.
func (c *modelCharge) refuses(known bool) bool {
	if known && c.answer.Overflow && (c.rule.Per == guard.Network || c.rule.Per == guard.Pair) {
		return false // G8
	}
	return c.rule.Action == guard.Refuse
}

// apart reports whether some rule that is given back what a pair clears does not count
// this attempt: then it must not be given back there (G3).
func (m *model) apart(cs []*modelCharge, known bool) bool {
	if known && slices.ContainsFunc(m.rules, func(x *modelRule) bool { return x.Per == guard.Subject && x.given() }) {
		return true
	}
	return slices.ContainsFunc(cs, func(c *modelCharge) bool {
		return c.rule.given() && (!c.answer.Allowed || c.answer.Overflow)
	})
}

// given reports whether r is given back what a success clears on the pair.
func (r *modelRule) given() bool {
	return r.Lockout != nil && !r.clears()
}

// charge is the key that r charges, nil if it does not apply.
func (r *modelRule) charge(q guard.Request, known bool) *modelCharge {
	none := doorward.Key{}
	c := &modelCharge{rule: r, book: r.books[0]}
	switch r.Per {
	case guard.Everyone:
		c.key = doorward.KeyForEveryone()
		return c
	case guard.Network:
		switch word := doorward.KeyFromAddr(q.Addr).String(); {
		case word == "unknown": // belongs to both families
			if c.book == nil {
				c.book = r.books[1]
			}
		case strings.Contains(word, ":"):
			c.book = r.books[1]
		}
		if c.book == nil {
			return nil
		}
		c.key = doorward.KeyFromPrefix(q.Addr, max(1, r.V4), max(1, r.V6))
		return c
	case guard.Subject:
		if c.key = q.Subject; known { // G8
			return nil
		}
	case guard.Challenge:
		c.key = q.Challenge
	case guard.Pair:
		if q.Subject != none {
			c.key = doorward.KeyFromPair(q.Subject, doorward.KeyFromAddr(q.Addr))
		}
	case guard.Device:
		if c.key = q.Device; !known {
			return nil
		}
	}
	if c.key == none {
		return nil
	}
	return c
}

// settle ends an attempt, and returns how many failures of this caller against this
// subject were cleared, and the longest lockout that this started: of rules that refuse,
// or of others.
func (m *model) settle(p *modelPermit, o doorward.Outcome, now int64) (cleared int, lockout time.Duration) {
	if p == nil || p.settled {
		return 0, 0
	}
	var reported time.Duration // by rules that do not refuse
	if p.settled = true; o > doorward.Void {
		o = doorward.Failed
	}
	var pairs []wiped
	for _, c := range p.charges {
		c.book.advance(now)
		if c.slip == nil {
			continue
		}
		if !slices.Contains(c.book.pool, c.slip) {
			m.seen["late"]++
		}
		as := o
		switch shared := !c.rule.clears(); {
		case o == doorward.Succeeded && shared && c.rule.Window == nil:
			as = doorward.Void // G3
		case o == doorward.Malformed && c.rule.Per != guard.Network && c.rule.Per != guard.Pair:
			as = doorward.Void // G4
		}
		uncounted := o == doorward.Malformed && slices.ContainsFunc(m.rules, func(r *modelRule) bool { return r.given() && r.Per != guard.Network })
		counted := slices.Contains(c.book.pool, c.slip) && (as == doorward.Failed || as == doorward.Malformed)
		x := c.book.settle(c.key, c.slip, as, uncounted)
		if page := c.slip.page; counted && page != c.book.over && now < page.lockEnd {
			of := &reported
			if c.rule.Action == guard.Refuse {
				of = &lockout
			}
			*of = max(*of, time.Duration(page.lockEnd-now))
		}
		if c.rule.Per == guard.Pair && c.rule.Lockout != nil {
			pairs = append(pairs, x)
		}
		cleared = max(cleared, x.n)
	}
	for _, c := range p.charges {
		if o == doorward.Succeeded && c.rule.given() && c.slip != nil {
			if c.book.giveBack(c.key, pairs) {
				m.seen["given back"]++
			} else if slices.ContainsFunc(pairs, func(w wiped) bool { return w.apart }) {
				m.seen["apart, not given back"]++
			}
		}
	}
	if lockout == 0 {
		lockout = reported
	}
	return cleared, lockout
}

// clears reports whether a success clears what r counted (G3).
func (r *modelRule) clears() bool {
	if r.Throttle != nil {
		return r.Per == guard.Pair
	}
	return r.Lockout != nil && (r.OnSuccess == guard.Clear || r.Per == guard.Pair || r.Per == guard.Challenge || r.Per == guard.Device)
}

// listed reports whether a is in ps, by the address it is counted as (K1, K3).
func listed(ps []netip.Prefix, a netip.Addr) bool {
	if word := doorward.KeyFromAddr(a).String(); word != "unknown" && !strings.Contains(word, ":") {
		a = netip.MustParseAddr(word)
	}
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}
