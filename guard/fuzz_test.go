package guard_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// TestAgainstModel takes the same random steps with a Guard and with the model and
// compares every answer: a million steps in each run, from a seed that differs, over
// thousands of random configurations.
func TestAgainstModel(t *testing.T) {
	const workers, trials, steps = 2, 1250, 420
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var seen [workers]map[string]int
	var all sync.WaitGroup
	for w := range workers {
		seen[w] = map[string]int{}
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			script := make([]byte, setupLen+stepLen*steps)
			for range trials {
				for j := range script {
					script[j] = byte(random.Uint32())
				}
				play(t, script, seen[w])
				if t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	for _, what := range []string{
		"allowed", "locked", "busy", "spent", "ceiling", "blocked", "exempt", "step-up", "shadow", "overflow allowed",
		"overflow locked", "pool full", "known device", "known device past overflow", "cleared", "lockout", "given back", "apart, not given back",
		"late", "twice", "by bytes", "step to a boundary", "restart", "pending across a restart",
	} {
		n := 0
		for w := range workers {
			n += seen[w][what]
		}
		if n < trials/10 && !t.Failed() {
			t.Errorf("%q was seen %d times: the steps do not reach it", what, n)
		}
	}
	t.Log(seen[0])
}

func FuzzGuard(f *testing.F) {
	for i := range 8 {
		script := make([]byte, setupLen+100*stepLen)
		random := rand.New(rand.NewPCG(uint64(i), 1))
		for j := range script {
			script[j] = byte(random.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > setupLen+1000*stepLen {
			t.Skip("a shorter one shows the same")
		}
		play(t, script, map[string]int{})
	})
}

const (
	ruleLen  = 6
	setupLen = 4 + 8*ruleLen
	stepLen  = 5
)

// randomConfig reads a configuration of 1 to 8 rules from setupLen bytes. Half of them
// have what a success is given back to: pairs, networks, a subject.
func randomConfig(b []byte) (c guard.Config) {
	unit := time.Second
	if b[0]%8 == 0 {
		unit = 1
	}
	size := []int{64, 64, 64, 1, 2, 3}[b[1]%6]
	flight := []int{64, 64, 64, 1, 2, 4}[b[2]%6]
	lease := unit * []time.Duration{0, 2, 5, 11, 29}[b[3]%5]
	for i := range 1 + int(b[0]/8%8) {
		r := b[4+ruleLen*i:]
		c.Rules = append(c.Rules, randomRule(r, unit, lease, size, flight, b[0] >= 128 && i < 3, i))
	}
	if b[3] >= 128 {
		c.Exempt = []netip.Prefix{netip.MustParsePrefix("9.9.9.16/28"), netip.MustParsePrefix("2001:db8:2::/48")}
		c.Blocked = []netip.Prefix{netip.MustParsePrefix("9.9.9.17/32")}
	}
	return c
}

func randomRule(b []byte, unit, lease time.Duration, size, flight int, given bool, i int) (r guard.Rule) {
	r.Per = guard.Per(b[0] % 6)
	policy := b[1] % 4
	if given {
		r.Per, policy = [...]guard.Per{guard.Pair, guard.Network, [...]guard.Per{guard.Subject, guard.Pair, guard.Network}[b[0]%3]}[i], 0
	}
	if r.Per == guard.Network {
		widths := [][2]int{{0, 0}, {24, 48}, {24, -1}, {-1, 32}, {32, 64}, {-1, 64}, {16, 60}}[b[0]/6%7]
		r.V4, r.V6 = widths[0], widths[1]
	}
	switch {
	case b[2]%5 == 0:
		r.Action = guard.Shadow
	case b[2]%3 == 0 && r.Per == guard.Subject:
		r.Action = guard.StepUp
	}
	length := unit * []time.Duration{29, 40, 61, 90, 240, 600}[b[3]%6]
	limit := 1 + int(b[4]%6)
	switch {
	case policy == 2 && r.Per != guard.Everyone:
		r.Throttle = &throttle.Policy{PerSource: limit, Global: limit + int(b[5]%9), Window: length, Sources: size, InFlight: flight}
	case policy == 3:
		r.Window = &window.Policy{Limit: limit, Window: length, Sliding: b[5]%2 == 0, Capacity: size, InFlight: flight}
	default:
		first := unit * []time.Duration{1, 3, 10, 35, 100}[b[5]%5]
		r.Lockout = &lockout.Policy{
			FreeFailures: limit, Window: length, FirstLockout: first, MaxLockout: first * time.Duration(1+b[5]/5%9),
			Decay: b[3]/6%2 == 0, Lease: lease, Capacity: size, InFlight: flight,
		}
		narrow := r.Per == guard.Network && (r.V4 == 0 || r.V4 == 32)
		if (narrow || r.Per == guard.Pair || r.Per == guard.Challenge || r.Per == guard.Device) && b[2]/16 == 0 {
			r.OnSuccess = guard.Clear
		}
	}
	return r
}

// Callers of both families: neighbours, two spellings of one, some of no family, and
// two that are never crowded out.
var (
	callers = addrs("192.0.2.1", "192.0.2.2", "192.0.77.1", "::ffff:192.0.2.1", "2001:db8:1:1::1", "2001:db8:1:1::2",
		"2001:db8:1:2::1", "2001:db8:3::1", "64:ff9b::9.9.9.9", "9.9.9.9", "64:ff9b::10.0.0.1", "2002:c000:201:7::1", "127.0.0.9", "::1",
		"9.9.9.17", "64:ff9b::9.9.9.17", "64:ff9b::9.9.9.18", "2001:db8:2::1")
	names = keys("alice", "bob", "carol")
	codes = keys("code 1", "code 2")
	phone = keys("phone 1", "phone 2")
)

func addrs(ss ...string) (as []netip.Addr) {
	for _, s := range ss {
		as = append(as, netip.MustParseAddr(s))
	}
	return append(as, netip.Addr{})
}

func keys(ss ...string) (ks []doorward.Key) {
	for _, s := range ss {
		ks = append(ks, doorward.KeyFromName(s))
	}
	return append(ks, doorward.Key{})
}

// A trial plays one script on both.
type trial struct {
	g       *guard.Guard
	config  guard.Config
	m       *model
	now     time.Duration // since start
	permits []heldPermit
	seen    map[string]int
}

type heldPermit struct {
	real    guard.Permit
	model   *modelPermit
	settled bool
}

// play runs a script, and once more in words if something differs.
func play(tb testing.TB, script []byte, seen map[string]int) {
	if len(script) < setupLen {
		return
	}
	if differs := run(script, seen, nil); differs != "" {
		run(script, map[string]int{}, func(line string) { tb.Log(line) })
		tb.Errorf("%s\nscript %x", differs, script)
	}
}

func run(script []byte, seen map[string]int, tell func(string)) string {
	c := randomConfig(script)
	g, err := guard.New(c)
	if err != nil {
		return "configuration: " + err.Error()
	}
	x := &trial{g: g, config: c, m: newModel(g, c, seen), seen: seen}
	for _, r := range g.Rules() {
		if tell != nil {
			tell(fmt.Sprintf("%s: %+v lockout %+v throttle %+v window %+v", r.Name, r, r.Lockout, r.Throttle, r.Window))
		}
	}
	for i := setupLen; i+stepLen <= len(script); i += stepLen {
		line, differs := x.step(script[i:i+stepLen], tell != nil)
		if tell != nil {
			tell(line)
		}
		if differs != "" {
			return differs
		}
	}
	return ""
}

// step moves time, makes one attempt or settles one, and compares.
func (x *trial) step(b []byte, words bool) (line, differs string) {
	x.move(b[4], b[3])
	now := start.Add(x.now)
	if b[0]%16 < 9 {
		r := x.request(b[1], b[2], b[3])
		if b[0] >= 240 {
			got, want := x.g.Check(r, now), x.m.check(r, int64(x.now))
			line = fmt.Sprintf("%v check %v: %+v", x.now, r, got)
			if got != want {
				differs = fmt.Sprintf("at %v Check(%+v)\n     = %+v\nmodel %+v", x.now, r, got, want)
			}
			return line, differs
		}
		p := x.g.Attempt(r, now)
		want, mp := x.m.attempt(r, int64(x.now))
		if words {
			line = fmt.Sprintf("%v attempt %v %v %v %v: %+v", x.now, r.Addr, r.Subject, r.Challenge, r.Device, p.Verdict)
		}
		if p.Verdict != want {
			return line, fmt.Sprintf("at %v Attempt(%+v)\n     = %+v\nmodel %+v", x.now, r, p.Verdict, want)
		}
		x.count(p.Verdict)
		if h := (heldPermit{real: p, model: mp}); mp == nil && b[3] < 240 {
			return line, "" // there is nothing to settle, which is tried sometimes
		} else if len(x.permits) < 6 {
			x.permits = append(x.permits, h)
		} else {
			x.permits[int(b[4])%len(x.permits)] = h
		}
		return line, ""
	}
	if b[0] == 255 {
		passed := time.Duration(0)
		if b[1] < 192 {
			passed = time.Duration(b[1]) * time.Duration(b[2]) * time.Second / 256
		}
		return fmt.Sprintf("%v restart after %v", x.now, passed), x.restart(passed, x.request(b[1], b[2], b[3]))
	}
	if len(x.permits) == 0 {
		return "", ""
	}
	i := int(b[1]) % len(x.permits)
	if b[1] >= 64 { // most often the newest
		i = len(x.permits) - 1
	}
	h := &x.permits[i]
	o := doorward.Outcome(b[2] % 4)
	switch {
	case b[2] >= 252:
		o = 77
	case b[2] >= 160:
		o = doorward.Failed
	}
	p := &h.real
	if b[3] < 32 && h.real.Allowed {
		bytes, err := h.real.MarshalBinary()
		if err != nil {
			return "", err.Error()
		}
		back, err := x.g.ReadPermit(bytes)
		if err != nil {
			return "", err.Error()
		}
		p = &back
		x.seen["by bytes"]++
	}
	got := p.Settle(o, now)
	cleared, lockout := x.m.settle(h.model, o, int64(x.now))
	want := guard.Settlement{Cleared: cleared, Lockout: guard.Lockout{For: lockout}}
	if lockout > 0 { // which of several rules is named, if they lock for as long, is not said
		want.Lockout.Rule, want.Lockout.Action = got.Lockout.Rule, got.Lockout.Action
		x.seen["lockout"]++
	}
	if h.settled {
		x.seen["twice"]++
	} else if h.real.Allowed {
		want.Settled, want.Outcome = true, o
		if o > doorward.Void {
			want.Outcome = doorward.Failed
		}
	}
	h.settled = true
	if words {
		line = fmt.Sprintf("%v settle %v as %v: %+v", x.now, h.model, o, got)
	}
	if got != want {
		differs = fmt.Sprintf("at %v Settle(%v) = %+v, the model %+v", x.now, o, got, want)
	}
	if h.real.Settle(doorward.Outcome(b[3]%4), now); h.real.Settle(o, now).Settled {
		differs = fmt.Sprintf("at %v a permit was settled twice", x.now)
	}
	if want.Cleared > 0 {
		x.seen["cleared"]++
	}
	if b[3] >= 64 { // kept for once more sometimes
		x.permits = slices.Delete(x.permits, i, i+1)
	}
	return line, differs
}

func (x *trial) request(who, what, how byte) guard.Request {
	r := guard.Request{Addr: callers[int(who)%len(callers)], How: clientip.Peer, Subject: names[what%4]}
	if who >= 50 {
		r.Addr = callers[[]int{0, 0, 0, 1, 4, 6}[who%6]]
	}
	if what >= 60 {
		r.Subject = names[min(1, what%3)]
	}
	r.Challenge = codes[how%3]
	if how >= 190 {
		r.Device = phone[how%2]
	}
	if how%16 == 3 {
		r.How = clientip.How(how / 16 % 5)
	}
	return r
}

// move lets time stand still more often than not; else it goes to an instant at which
// something ends, or a nanosecond to either side, or some way.
func (x *trial) move(when, how byte) {
	to := x.now
	switch {
	case when < 216:
	case when < 240:
		var ahead []int64
		r := x.m.rules[int(how)%len(x.m.rules)]
		for _, b := range r.books {
			if b != nil {
				ahead = append(ahead, b.moments()...)
			}
		}
		slices.Sort(ahead)
		if i, _ := slices.BinarySearch(ahead, int64(x.now)+1); i < len(ahead) {
			i += int(how) / 16 % min(3, len(ahead)-i)
			to = time.Duration(ahead[i] + int64(when%3) - 1)
			x.seen["step to a boundary"]++
		}
	case when < 246:
		to += time.Duration(how) * time.Second / 16
	case when < 254:
		to += time.Duration(how)
	default:
		to += time.Duration(how) * 8 * time.Second
	}
	x.now = max(x.now, to)
}

func (x *trial) count(v guard.Verdict) {
	what := cmp.Or(v.Reason.String(), "allowed")
	if v.Allowed {
		what = "allowed"
	}
	x.seen[what]++
	if v.Overflow {
		x.seen["overflow "+what]++
	}
	for name, is := range map[string]bool{"exempt": v.Exempt, "step-up": v.StepUp, "shadow": v.Shadow != 0} {
		if is {
			x.seen[name]++
		}
	}
}
