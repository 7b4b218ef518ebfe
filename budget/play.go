package budget

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

// MostPlayed is the largest bound that Play plays to, which takes some milliseconds.
const MostPlayed = 3_000

// Play makes attempts at a guard of this configuration in virtual time, all of them
// wrong, and returns how many were admitted within span: by the schedule that is best
// against each of the rules alone, with and without care for the other ones, and by
// trying whenever the guard admits one, or whenever none of its lockouts would start.
// The best of these may be less than Most, and somebody may yet do better. ok is false if Most is more than MostPlayed, or if none of
// them came to an end in time.
func (d *Door) Play(c Caller, t Target, span time.Duration) (admitted int64, ok bool) {
	limit := d.Most(c, t, span)
	if span <= 0 || limit.Most > MostPlayed {
		return 0, false
	}
	// The rule that admits the least comes first: its schedule is most often the best.
	order := d.byMost(c, t, span)
	for _, careful := range []bool{false, true} {
		for _, i := range order {
			r := &d.rules[i]
			keys, _ := r.keys(c, t)
			plan := r.key.Plan(span)
			if n, _ := r.most(c, t, span); n < mul(keys, r.key.Most(span)) {
				plan, keys = r.all.Plan(span), 1
			}
			p := d.newPlayer(c, t, span, limit.Most)
			if careful {
				p.watch(d.rules, order, i)
			}
			if p.play(plan, keys) {
				admitted, ok = max(admitted, p.admitted), true
			}
			if admitted == limit.Most {
				return admitted, ok
			}
		}
	}
	for _, careful := range []bool{false, true} {
		p := d.newPlayer(c, t, span, limit.Most)
		if careful {
			p.watch(d.rules, order, -1)
		}
		if p.play(func(yield func(time.Duration, int64) bool) { yield(0, math.MaxInt64) }, 1) {
			admitted, ok = max(admitted, p.admitted), true
		}
	}
	return admitted, ok
}

// byMost returns the rules that apply to a caller, from the one that admits the least.
func (d *Door) byMost(c Caller, t Target, span time.Duration) (order []int) {
	most := make([]int64, len(d.rules))
	for i := range d.rules {
		applies := false
		if most[i], applies = d.rules[i].most(c, t, span); applies {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(most[i], most[j]) })
	return order
}

// A player is a caller at work.
type player struct {
	guard    *guard.Guard
	caller   Caller
	target   Target
	span     time.Duration
	n        uint64          // attempts so far: the next one comes from the next network
	work     int             // attempts that may still be made
	single   map[string]bool // the rules of which the caller has but one key
	watched  []*watch
	admitted int64
}

func (d *Door) newPlayer(c Caller, t Target, span time.Duration, most int64) *player {
	config := guard.Config{Rules: make([]guard.Rule, len(d.config.Rules))}
	work := 4*int(most) + 1000
	for i, r := range d.config.Rules {
		config.Rules[i] = smaller(r, work)
	}
	g, err := guard.New(config)
	if err != nil {
		panic("budget: " + err.Error()) // it was checked by NewDoor
	}
	p := &player{guard: g, caller: c, target: t, span: span, work: work, single: map[string]bool{}}
	for i := range d.rules {
		keys, applies := d.rules[i].keys(c, t)
		p.single[d.rules[i].Name] = applies && keys == 1
	}
	return p
}

// smaller returns r with no more memory than n keys take.
func smaller(r guard.Rule, n int) guard.Rule {
	switch {
	case r.Lockout != nil:
		p := *r.Lockout
		p.Capacity, p.InFlight = min(p.Capacity, n), min(p.InFlight, 1)
		r.Lockout = &p
	case r.Throttle != nil:
		p := *r.Throttle
		p.Sources, p.InFlight = min(p.Sources, n), min(p.InFlight, 1)
		r.Throttle = &p
	default:
		p := *r.Window
		p.Capacity, p.InFlight = min(p.Capacity, n), min(p.InFlight, 1)
		r.Window = &p
	}
	return r
}

// start is any time: only differences matter.
var start = time.Unix(1<<33, 0)

// play makes the attempts of a plan with each of the keys it is for, and those that are
// refused as soon as they may be made. It reports whether it came to an end.
func (p *player) play(plan iter.Seq2[time.Duration, int64], keys int64) bool {
	var owed int64 // attempts that the plan has called for
	now := time.Duration(math.MinInt64)
	// until makes what is owed, as soon as it may be, before the time at.
	until := func(at time.Duration) {
		for owed > 0 && p.work > 0 {
			wait := p.attempt(now)
			if wait == 0 {
				if owed--; now >= 0 {
					p.admitted++
				}
				continue
			}
			if wait < 0 || now >= at-wait {
				return
			}
			now += wait
		}
	}
	for at, n := range plan {
		if now > math.MinInt64 {
			until(at)
		}
		now = at
		owed = add(owed, mul(n, keys))
	}
	until(p.span)
	if p.watched != nil { // there is nothing left to be careful of
		p.watched, now = nil, p.span-1
		until(p.span)
	}
	return p.work > 0
}

// attempt makes one wrong attempt and returns 0, or how long to wait before the next
// one if none of a few networks is admitted; -1 if that is unknown.
func (p *player) attempt(at time.Duration) time.Duration {
	const tries = 64
	wait := time.Duration(-1)
	now := start.Add(at)
	for range min(tries, p.caller.networks()) {
		p.work--
		q := p.request()
		p.n++
		if held, only := p.held(q, at); held > 0 {
			if wait < 0 || held < wait {
				wait = held
			}
			if only {
				break // another network changes nothing
			}
			continue
		}
		permit := p.guard.Attempt(q, now)
		if permit.Allowed {
			permit.Settle(doorward.Failed, now)
			for _, w := range p.watched {
				w.failed(q, at)
			}
			return 0
		}
		if d := permit.RetryAfter; d > 0 && (wait < 0 || d < wait) {
			wait = d
		}
		if p.single[permit.Rule] {
			break
		}
	}
	return wait
}

func (p *player) request() guard.Request {
	name := func(kind string, fresh bool) doorward.Key {
		if fresh {
			kind += strconv.FormatUint(p.n, 10)
		}
		return doorward.KeyFromName(kind)
	}
	r := guard.Request{
		Addr:      p.caller.addr(p.n),
		How:       clientip.Peer,
		Subject:   name("subject", p.target == EverySubject),
		Challenge: name("challenge", p.target != OneChallenge),
	}
	if p.caller.Device && p.target != EverySubject {
		r.Device = name("device", false)
	}
	return r
}

// addr returns the address that the caller's attempt i comes from: from another of its
// networks each time, and within each from one as far as possible from those before.
func (c Caller) addr(i uint64) netip.Addr {
	n := uint64(max(1, c.Networks))
	network, host := i%n, i/n
	if !c.IPv6 {
		// The first octet is 1 to 126, then the others from the left.
		a := uint32(1+network%126)<<24 | uint32(bits.Reverse64(network/126)>>40)
		if c.Bits < 32 {
			mask := ^uint32(0) >> c.Bits
			a = a&^mask | uint32(bits.Reverse64(host)>>(32+c.Bits))
		}
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a)))
	}
	// 2400::/8 and on, then the bits to the right.
	a := (0x2400+network%0x0c00)<<48 | bits.Reverse64(network/0x0c00)>>16
	if c.Bits < 64 {
		mask := ^uint64(0) >> c.Bits
		a = a&^mask | bits.Reverse64(host)>>c.Bits
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], a)
	b[15] = 1
	return netip.AddrFrom16(b)
}

// A watch keeps a caller below the lockouts of one rule. It counts what the rule counts.
type watch struct {
	*rule
	limiter *lockout.Limiter
	// When the first failure was counted since nothing was, and the last.
	began, last map[doorward.Key]time.Duration
}

// watch makes the player careful of all lockouts that apply to it but those of one rule;
// -1 is none.
func (p *player) watch(rules []rule, applies []int, but int) {
	for _, i := range applies {
		r := &rules[i]
		if i == but || r.Lockout == nil || r.Lockout.FreeFailures == 1 {
			continue
		}
		l, err := lockout.New(*smaller(r.Rule, p.work).Lockout)
		if err != nil {
			panic("budget: " + err.Error()) // it was checked by NewDoor
		}
		p.watched = append(p.watched, &watch{r, l, map[doorward.Key]time.Duration{}, map[doorward.Key]time.Duration{}})
	}
}

// held returns how long an attempt has to wait so that no watched rule starts a lockout,
// 0 if it need not, and whether the caller has no other key of a rule that says so.
func (p *player) held(q guard.Request, at time.Duration) (wait time.Duration, only bool) {
	for _, w := range p.watched {
		k := w.charged(q)
		d := w.limiter.Check(k, start.Add(at))
		if d.Allowed && d.Remaining > 0 {
			continue
		}
		only = only || p.single[w.Name]
		if !w.Lockout.Decay {
			wait = max(wait, w.last[k]+w.Lockout.Window-at)
			continue
		}
		step := duration(w.key.curve.(decaying).step)
		wait = max(wait, step-(at-w.began[k])%step)
	}
	return wait, only
}

func (w *watch) failed(q guard.Request, at time.Duration) {
	k := w.charged(q)
	if d := w.limiter.Attempt(k, start.Add(at)); d.Remaining == w.Lockout.FreeFailures-1 {
		w.began[k] = at
	}
	w.last[k] = at
}

// charged returns a key for what r charges.
func (r *rule) charged(q guard.Request) doorward.Key {
	switch r.Per {
	case guard.Network:
		return doorward.KeyFromPrefix(q.Addr, max(1, r.V4), max(1, r.V6))
	case guard.Subject:
		return q.Subject
	case guard.Challenge:
		return q.Challenge
	case guard.Pair:
		return doorward.KeyFromPair(q.Subject, doorward.KeyFromAddr(q.Addr))
	case guard.Device:
		return q.Device
	}
	return doorward.KeyForEveryone()
}
