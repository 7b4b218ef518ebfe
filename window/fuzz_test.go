package window_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

// TestAgainstModel makes the same random calls on a Limiter and on the model and
// compares every answer: a million steps in each run, from a seed that differs.
func TestAgainstModel(t *testing.T) {
	const trials, steps = 640, 1600
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	script := make([]byte, setupLen+stepLen*steps)
	seen := map[string]int{}
	for i := range trials {
		for j := range script {
			script[j] = byte(random.Uint32())
		}
		script[0] = byte(i) // each of ours equally often
		play(t, script, seen)
		if t.Failed() {
			return
		}
	}
	for _, what := range []string{
		"allowed", "spent", "no time will do", "overflow allowed", "overflow spent", "pool full", "taken back", "as much as there may be",
		"late or foreign ticket", "time went back", "forgotten, not reclaimed",
	} {
		if seen[what] < trials/2 {
			t.Errorf("%q was seen %d times: the steps do not reach it", what, seen[what])
		}
	}
	t.Log(seen)
}

func FuzzModel(f *testing.F) {
	for i := range policies {
		script := make([]byte, setupLen+200*stepLen)
		random := rand.New(rand.NewPCG(uint64(i), 1))
		for j := range script {
			script[j] = byte(random.Uint32())
		}
		script[0] = byte(i)
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > setupLen+4000*stepLen {
			t.Skip("a shorter one shows the same")
		}
		play(t, script, map[string]int{})
	})
}

var policies = []window.Policy{
	{Limit: 1, Window: 40},
	{Limit: 3, Window: 60e9},
	{Limit: 2, Window: 100e9},
	{Limit: 5, Window: 7e9},
	{Limit: 3, Window: 1<<63 - 1},
	{Limit: 1, Window: 40, Sliding: true},
	{Limit: 2, Window: 1, Sliding: true},
	{Limit: 3, Window: 37, Sliding: true},
	{Limit: 3, Window: 7e9, Sliding: true},
	{Limit: 5, Window: 60e9, Sliding: true},
	{Limit: 12, Window: 60e9, Sliding: true},
	{Limit: 4, Window: 600e9 + 3, Sliding: true},
	{Limit: 3, Window: 1 << 62, Sliding: true},
	{Limit: 3, Window: 1<<63 - 1, Sliding: true},
}

var capacities = []int{1, 1, 2, 2, 3, 4, 5, 7, 8}

const (
	setupLen = 4
	stepLen  = 4
)

// A trial plays one script on both.
type trial struct {
	tb      testing.TB
	l       *window.Limiter
	m       *model
	now     time.Time
	keys    []doorward.Key
	tickets []held
	foreign doorward.Ticket
	last    [40]call
	calls   int
	seen    map[string]int
}

// held is a ticket, what the model knows it as, and who got it.
type held struct {
	ticket doorward.Ticket
	r      *reservation
	key    doorward.Key
}

func play(tb testing.TB, script []byte, seen map[string]int) {
	if len(script) < setupLen {
		return
	}
	p := policies[int(script[0])%len(policies)]
	p.Capacity = capacities[int(script[1])%len(capacities)]
	p.InFlight = 1 + int(script[2])%(4+p.Capacity)
	l, other := must(window.New(p)), must(window.New(p))
	x := &trial{tb: tb, l: l, m: newModel(p), now: start, seen: seen}
	_, x.foreign = other.Reserve(address(0), start)
	x.keys = []doorward.Key{loopback4, loopback6, {}}
	for i := range p.Capacity + 1 + int(script[3])%3 {
		x.keys = append(x.keys, address(i))
	}
	for i := setupLen; i+stepLen <= len(script); i += stepLen {
		x.step(script[i], script[i+1], script[i+2], script[i+3])
		if tb.Failed() {
			x.report()
			tb.Logf("policy %+v, script %x", p, script[:i+stepLen])
			return
		}
	}
}

// step moves time, makes one call on both, and compares.
func (x *trial) step(what, who, when, how byte) {
	x.move(when, how)
	k := x.keys[int(who)%len(x.keys)]
	if who >= 96 {
		k = x.keys[int(who)%5] // often the same few
	}
	switch what %= 64; {
	case what < 16:
		x.same("Allow", k, 1, x.l.Allow(k, x.now), x.m.AllowN(k, 1, x.now))
	case what < 22:
		n := []int{-1, 0, 2, 2, 3, 4, x.m.policy.Limit, x.m.policy.Limit + 1}[how%8]
		x.same("AllowN", k, n, x.l.AllowN(k, n, x.now), x.m.AllowN(k, n, x.now))
	case what < 38:
		got, ticket := x.l.Reserve(k, x.now)
		want, r := x.m.Reserve(k, x.now)
		x.same("Reserve", k, 1, got, want)
		if r == nil && ticket != (doorward.Ticket{}) {
			x.tb.Errorf("Reserve refused and gave the ticket %v", ticket)
		}
		if h := (held{ticket, r, k}); len(x.tickets) < 8 {
			x.tickets = append(x.tickets, h)
		} else if r != nil {
			x.tickets[int(how)%len(x.tickets)] = h
		}
	case what < 56:
		x.settle(k, doorward.Outcome(what%4), how)
	case what < 62:
		x.same("Check", k, 1, x.l.Check(k, x.now), x.m.Check(k, x.now))
	case what == 62 && how < 64:
		x.l.Unlock(k)
		x.m.Unlock(k)
		x.note("Unlock", k, "")
	case what == 63 && how < 8:
		x.l.Clear()
		x.m.Clear()
		x.note("Clear", k, "")
	}
	if n := x.l.Tracked(); n < x.m.live() || n > x.m.policy.Capacity+2 {
		x.tb.Errorf("Tracked() = %d, with %d live and a capacity of %d", n, x.m.live(), x.m.policy.Capacity)
	} else if n > x.m.live() {
		x.seen["forgotten, not reclaimed"]++
	}
}

// settle uses a ticket: most often a fresh one as its holder, else one that was used
// before, is late, was never given, or is another's.
func (x *trial) settle(k doorward.Key, o doorward.Outcome, how byte) {
	h := held{ticket: x.foreign, key: k}
	if n := len(x.tickets); n > 0 && how%16 != 0 {
		h = x.tickets[int(how/4)%n]
	}
	if how%16 == 1 {
		h.key = k
	}
	if !x.m.holds(h.r) {
		x.seen["late or foreign ticket"]++
	}
	if how >= 252 {
		o = []doorward.Outcome{4, 64, 128, 255}[how-252] // unknown: failed
	}
	if h.r != nil && x.m.holds(h.r) && h.r.key == h.key && o == doorward.Void {
		x.seen["taken back"]++
	}
	if got := x.l.Settle(h.key, h.ticket, o, x.now); got != (doorward.Cleared{}) {
		x.tb.Errorf("Settle cleared %v", got)
	}
	x.m.Settle(h.key, h.r, o, x.now)
	x.note("Settle "+o.String(), h.key, "")
}

// move lets time stand still more often than not; else it goes to one of the instants at
// which something ends, or a nanosecond to either side, or anywhere, or back.
func (x *trial) move(when, how byte) {
	w := min(x.m.policy.Window, 1<<61)
	switch {
	case when < 160:
	case when < 195:
		if ahead := x.m.moments(); len(ahead) > 0 {
			at := ahead[int(how)%len(ahead)] + int64(when%3) - 1
			x.now = x.m.base.Add(time.Duration(at))
		}
	case when < 225:
		x.now = x.now.Add(w / 256 * time.Duration(how) / 8)
	case when < 240:
		x.now = x.now.Add(time.Minute / 256 * time.Duration(how) / 16)
	case when < 246:
		x.now = x.now.Add(time.Duration(how))
	case when < 254:
		x.now = x.now.Add(-w / 256 * time.Duration(how) / 4)
		x.seen["time went back"]++
	default:
		x.now = x.now.Add(2 * min(w, time.Hour) * time.Duration(how%8))
	}
	// Sums of Time itself do not saturate, and a reservation that begins in the last
	// minute of the clock is not taken back.
	if x.now.Before(start.Add(-time.Hour)) || x.now.After(start.Add(1<<63-1-2*time.Minute)) {
		x.now = x.m.base
	}
}

// same compares two answers, and counts what was admitted anew: sliding never holds
// more than Limit in an interval of length Window (W2), a fixed window never more than
// twice as many (W1; one of them more than without taking back).
func (x *trial) same(call string, k doorward.Key, n int, got, want doorward.Decision) {
	x.note(fmt.Sprint(call, " ", n), k, got)
	if got != want {
		x.tb.Errorf("%s(%v, %d) = %+v, the model %+v", call, k, n, got, want)
	}
	limit := x.m.policy.Limit
	if !x.m.policy.Sliding {
		limit *= 2
	}
	if most := x.m.most(x.m.policy.Sliding); most > limit {
		x.tb.Errorf("%s(%v, %d) makes it %d within one Window", call, k, n, most)
	} else if most == limit {
		x.seen["as much as there may be"]++
	}
	what := "allowed"
	if !got.Allowed {
		what = got.Reason.String()
	}
	if got.Reason == doorward.Spent && got.RetryAfter == 0 {
		what = "no time will do"
	}
	if got.Reason == doorward.Spent && got.RetryAfter > time.Duration(plus(x.m.span(), x.m.span()/8+1)) {
		x.tb.Errorf("RetryAfter is %v, more than 9/8 of Window", got.RetryAfter)
	}
	if got.Overflow {
		what = "overflow " + what
	}
	x.seen[what]++
	if got.Reason == doorward.Busy {
		x.seen["pool full"]++
	}
}

// A call is kept as it was made and written out only when something differs.
type call struct {
	at     time.Duration
	name   string
	key    doorward.Key
	answer any
}

func (x *trial) note(name string, k doorward.Key, answer any) {
	x.last[x.calls%len(x.last)] = call{x.now.Sub(start), name, k, answer}
	x.calls++
}

func (x *trial) report() {
	for i := max(0, x.calls-len(x.last)); i < x.calls; i++ {
		c := x.last[i%len(x.last)]
		x.tb.Logf("%12d  %s(%v)  %+v", c.at, c.name, c.key, c.answer)
	}
}
