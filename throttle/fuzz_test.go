package throttle_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/throttle"
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
		"allowed", "spent", "ceiling", "busy", "overflow allowed", "overflow spent", "overflow ceiling", "overflow busy",
		"pool full", "cleared", "late or foreign ticket", "time went back", "forgotten, not reclaimed",
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

var policies = []throttle.Policy{
	{PerSource: 1, Global: 1, Window: 40},
	{PerSource: 1, Global: 3, Window: 7e9},
	{PerSource: 2, Global: 3, Window: 60e9},
	{PerSource: 2, Global: 5, Window: 20e9},
	{PerSource: 3, Global: 4, Window: 100e9},
	{PerSource: 3, Global: 8, Window: 61e9},
	{PerSource: 4, Global: 2, Window: 30e9},
	{PerSource: 2, Global: 100, Window: 60e9},
	{PerSource: 5, Global: 12, Window: 600e9},
	{PerSource: 2, Global: 6, Window: 1 << 62},
	{PerSource: 2, Global: 6, Window: 1<<63 - 1},
}

var capacities = []int{1, 1, 2, 2, 3, 4, 5, 7, 8}

const (
	setupLen = 4
	stepLen  = 4
)

// A trial plays one script on both.
type trial struct {
	tb      testing.TB
	l       *throttle.Limiter
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
	p.Sources = capacities[int(script[1])%len(capacities)]
	p.InFlight = 1 + int(script[2])%(4+p.Sources)
	l, other := throttle.New(p), throttle.New(p)
	x := &trial{tb: tb, l: l, m: newModel(p), now: start, seen: seen}
	_, x.foreign = other.Reserve(address(0), start)
	x.keys = []doorward.Key{loopback4, loopback6, {}}
	for i := range p.Sources + 1 + int(script[3])%3 {
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
	case what < 8:
		x.same("Blocked", k, x.l.Blocked(k, x.now), x.m.Blocked(k, x.now))
	case what < 12:
		x.l.Refused(k, x.now)
		x.m.Refused(k, x.now)
		x.note("Refused", k, "")
	case what < 15:
		x.l.RefusedBySource(k, x.now)
		x.m.RefusedBySource(k, x.now)
		x.note("RefusedBySource", k, "")
	case what < 38:
		got, ticket := x.l.Reserve(k, x.now)
		want, r := x.m.Reserve(k, x.now)
		x.same("Reserve", k, got, want)
		if r == nil && ticket != (doorward.Ticket{}) {
			x.tb.Errorf("Reserve refused and gave the ticket %v", ticket)
		}
		if h := (held{ticket, r, k}); len(x.tickets) < 8 {
			x.tickets = append(x.tickets, h)
		} else if r != nil {
			x.tickets[int(how)%len(x.tickets)] = h
		}
	case what < 54:
		x.settle(k, doorward.Outcome(what%4), how)
	case what < 56:
		x.l.Accepted(k, x.now)
		x.m.Accepted(k, x.now)
		x.note("Accepted", k, "")
	case what < 62:
		x.same("Check", k, x.l.Check(k, x.now), x.m.Blocked(k, x.now))
	case what == 62 && how < 64:
		x.l.Unlock(k)
		x.m.Unlock(k)
		x.note("Unlock", k, "")
	case what == 63 && how < 8:
		x.l.Clear()
		x.m.Clear()
		x.note("Clear", k, "")
	}
	if n := x.l.Tracked(); n < x.m.live() || n > x.m.policy.Sources+2 {
		x.tb.Errorf("Tracked() = %d, with %d live and %d sources", n, x.m.live(), x.m.policy.Sources)
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
	got, want := x.l.Settle(h.key, h.ticket, o, x.now), x.m.Settle(h.key, h.r, o, x.now)
	x.note("Settle "+o.String(), h.key, got)
	if got.N != want.N || !got.First.Equal(want.First) {
		x.tb.Errorf("Settle cleared %v, the model %v", got, want)
	}
	if got.N > 0 {
		x.seen["cleared"]++
	}
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
	if x.now.Before(start.Add(-time.Hour)) || x.now.After(start.Add(1<<63-1)) {
		x.now = x.m.base // sums of Time itself do not saturate
	}
}

func (x *trial) same(call string, k doorward.Key, got, want doorward.Decision) {
	x.note(call, k, got)
	if got != want {
		x.tb.Errorf("%s(%v) = %+v, the model %+v", call, k, got, want)
	}
	what := "allowed"
	if !got.Allowed {
		what = got.Reason.String()
	}
	if got.Overflow {
		what = "overflow " + what
	}
	x.seen[what]++
	if call == "Reserve" && got.Reason == doorward.Busy && len(x.m.pending()) == x.m.policy.InFlight {
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
