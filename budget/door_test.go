package budget_test

import (
	"maps"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// Policies in nanoseconds, of little memory.
func lock(free int, length, first, longest time.Duration) *lockout.Policy {
	return &lockout.Policy{FreeFailures: free, Window: length, FirstLockout: first, MaxLockout: longest, Capacity: 4096, InFlight: 64}
}

func fading(free int, length, first, longest time.Duration) *lockout.Policy {
	p := lock(free, length, first, longest)
	p.Decay = true
	return p
}

func fixed(limit int, length time.Duration) *window.Policy {
	return &window.Policy{Limit: limit, Window: length, Capacity: 4096, InFlight: 64}
}

func sliding(limit int, length time.Duration) *window.Policy {
	p := fixed(limit, length)
	p.Sliding = true
	return p
}

func ceiling(source, all int, length time.Duration) *throttle.Policy {
	return &throttle.Policy{PerSource: source, Global: all, Window: length, Sources: 4096, InFlight: 64}
}

func rules(r ...guard.Rule) guard.Config { return guard.Config{Rules: r} }

// sized returns c with no more memory than for so many keys and reservations.
func sized(c guard.Config, keys, inFlight int) guard.Config {
	c, err := c.Complete()
	if err != nil {
		panic(err)
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		switch {
		case r.Lockout != nil:
			r.Lockout.Capacity, r.Lockout.InFlight = min(r.Lockout.Capacity, keys), min(r.Lockout.InFlight, inFlight)
		case r.Throttle != nil:
			r.Throttle.Sources, r.Throttle.InFlight = min(r.Throttle.Sources, keys), min(r.Throttle.InFlight, inFlight)
		default:
			r.Window.Capacity, r.Window.InFlight = min(r.Window.Capacity, keys), min(r.Window.InFlight, inFlight)
		}
	}
	return c
}

func newGuard(t testing.TB, c guard.Config) *guard.Guard {
	t.Helper()
	g, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// from returns an address of the caller's network n; host tells its addresses apart.
func from(c budget.Caller, n, host uint64) netip.Addr {
	n %= uint64(max(1, c.Networks))
	if !c.IPv6 {
		first := bits.Reverse8(uint8(n))
		switch {
		case first == 0, first == 127: // this host, loopback
			first ^= 1
		case first>>4 == 14: // multicast
			first |= 16
		}
		a := uint32(first)<<24 | uint32(n)<<8 | 1
		if c.Bits < 32 {
			a = a&^(math.MaxUint32>>c.Bits) | bits.Reverse32(uint32(host))>>c.Bits
		}
		return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
	}
	a := 0x2600<<48 | n<<32
	if c.Bits < 64 {
		a = a&^(math.MaxUint64>>c.Bits) | bits.Reverse64(host)>>c.Bits
	}
	var b [16]byte
	for i := range 8 {
		b[i] = byte(a >> (56 - 8*i))
	}
	b[15] = 7
	return netip.AddrFrom16(b)
}

// request is the caller's attempt number i, from the next of its networks.
func request(c budget.Caller, t budget.Target, i uint64) guard.Request {
	n := uint64(max(1, c.Networks))
	r := guard.Request{Addr: from(c, i%n, i/n), How: clientip.Peer, Subject: doorward.KeyFromName("a"), Challenge: doorward.KeyFromName("a")}
	if t == budget.EverySubject {
		r.Subject = doorward.KeyFromName("a" + strconv.FormatUint(i, 10))
	}
	if t != budget.OneChallenge {
		r.Challenge = doorward.KeyFromName("c" + strconv.FormatUint(i, 10))
	}
	if c.Device && t != budget.EverySubject {
		r.Device = doorward.KeyFromName("d")
	}
	return r
}

const unlimited = math.MaxInt64

// How many keys of a rule a caller has: what a rule of one failure for ever admits. The
// real guard admits as many, to the one.
func TestKeysOfACaller(t *testing.T) {
	once := lock(1, time.Hour, time.Hour, time.Hour)
	per := func(p guard.Per) guard.Rule { return guard.Rule{Per: p, Lockout: once} }
	width := func(v4, v6 int) guard.Rule { return guard.Rule{V4: v4, V6: v6, Lockout: once} }
	few := func(r guard.Rule, keys int) guard.Rule {
		p := *once
		p.Capacity = keys
		r.Lockout = &p
		return r
	}
	shadow := per(guard.Device)
	shadow.Action = guard.Shadow
	known := func(c budget.Caller) budget.Caller { c.Device = true; return c }
	block := func(n, bits int) budget.Caller { return budget.Caller{Networks: n, Bits: bits} }
	block6 := func(n, bits int) budget.Caller { return budget.Caller{Networks: n, Bits: bits, IPv6: true} }
	const all, subject, challenge = budget.EverySubject, budget.OneSubject, budget.OneChallenge

	for i, row := range []struct {
		rules []guard.Rule
		c     budget.Caller
		t     budget.Target
		want  int64
	}{
		// Networks: one, as many as a wider one holds, as many as there are.
		{[]guard.Rule{width(0, 0)}, budget.Address, all, 1},
		{[]guard.Rule{width(0, 0)}, budget.Address, subject, 1},
		{[]guard.Rule{width(0, 0)}, budget.Subscriber, all, 1},
		{[]guard.Rule{width(0, 0)}, budget.Network24, all, 256},
		{[]guard.Rule{width(0, 0)}, budget.Botnet(1), all, 1},
		{[]guard.Rule{width(0, 0)}, budget.Botnet(0), all, 1},
		{[]guard.Rule{width(0, 0)}, budget.Botnet(-5), all, 1},
		{[]guard.Rule{width(0, 0)}, budget.Botnet(1000), subject, 1000},
		{[]guard.Rule{width(0, 0)}, block(3, 24), challenge, 768},
		{[]guard.Rule{width(0, 0)}, block(1, 20), all, 4096},
		{[]guard.Rule{width(0, 0)}, budget.Site, all, 4097}, // as many as are told apart
		{[]guard.Rule{width(0, 0)}, block6(3, 56), all, 768},
		{[]guard.Rule{width(0, 0)}, block6(7, 64), all, 7},
		{[]guard.Rule{width(24, -1)}, budget.Address, all, 1},
		{[]guard.Rule{width(24, -1)}, budget.Network24, all, 1},
		{[]guard.Rule{width(24, -1)}, block(1, 20), all, 16},
		{[]guard.Rule{width(24, -1)}, block(1000, 32), all, 1000}, // far apart
		{[]guard.Rule{width(24, -1)}, budget.Subscriber, all, unlimited},
		{[]guard.Rule{width(-1, 48)}, budget.Address, all, unlimited},
		{[]guard.Rule{width(-1, 48)}, budget.Subscriber, all, 1},
		{[]guard.Rule{width(-1, 48)}, budget.Site, all, 1},
		{[]guard.Rule{width(-1, 48)}, block6(1, 40), all, 256},
		{[]guard.Rule{width(-1, 48)}, block6(5, 44), all, 80},
		{[]guard.Rule{width(-1, 32)}, budget.Provider, all, 1},
		{[]guard.Rule{width(-1, 32)}, block6(1, 20), all, 4096},
		{[]guard.Rule{width(3, 64)}, block(1000, 32), all, 8}, // there are no more
		{[]guard.Rule{width(1, 64)}, block(1000, 8), all, 2},
		{[]guard.Rule{width(20, 40)}, block(1, 16), all, 16},
		{[]guard.Rule{width(20, 40)}, block6(1, 32), all, 256},

		// Subjects, challenges and pairs.
		{[]guard.Rule{per(guard.Subject)}, budget.Address, subject, 1},
		{[]guard.Rule{per(guard.Subject)}, budget.Botnet(1000), challenge, 1},
		{[]guard.Rule{per(guard.Subject)}, budget.Address, all, 4097},
		{[]guard.Rule{per(guard.Challenge)}, budget.Botnet(1000), challenge, 1},
		{[]guard.Rule{per(guard.Challenge)}, budget.Address, subject, 4097},
		{[]guard.Rule{per(guard.Challenge)}, budget.Address, all, 4097},
		{[]guard.Rule{per(guard.Pair)}, budget.Address, subject, 1},
		{[]guard.Rule{per(guard.Pair)}, budget.Address, challenge, 1},
		{[]guard.Rule{per(guard.Pair)}, budget.Address, all, 4097},
		{[]guard.Rule{per(guard.Pair)}, block(2, 26), subject, 128},
		{[]guard.Rule{per(guard.Pair)}, block6(2, 60), subject, 32},
		{[]guard.Rule{per(guard.Everyone)}, budget.Botnet(1000), all, 1},
		{[]guard.Rule{per(guard.Everyone)}, budget.Provider, subject, 1},

		// Known devices: off the subject, on the device, of one subject.
		{[]guard.Rule{per(guard.Device)}, known(budget.Botnet(1000)), subject, 1},
		{[]guard.Rule{per(guard.Device)}, budget.Address, subject, unlimited},
		{[]guard.Rule{per(guard.Device)}, known(budget.Address), all, unlimited},
		{[]guard.Rule{per(guard.Device), per(guard.Subject)}, known(budget.Address), all, 4097},
		{[]guard.Rule{shadow, per(guard.Subject)}, known(budget.Address), subject, unlimited},
		{[]guard.Rule{shadow, per(guard.Subject)}, budget.Address, subject, 1},
		{[]guard.Rule{per(guard.Subject)}, known(budget.Address), subject, 1}, // no budget for devices
		{[]guard.Rule{shadow, width(0, 0)}, known(budget.Botnet(1000)), subject, 1000},
		{[]guard.Rule{shadow, per(guard.Pair)}, known(budget.Botnet(1000)), subject, 1000},

		// Full tables: one more key than they have room for, but known devices go free.
		{[]guard.Rule{few(width(0, 0), 3)}, budget.Botnet(3), all, 3},
		{[]guard.Rule{few(width(0, 0), 3)}, budget.Botnet(4), all, 4},
		{[]guard.Rule{few(width(0, 0), 3)}, budget.Botnet(1000), all, 4},
		{[]guard.Rule{few(width(0, 0), 1)}, budget.Botnet(1000), all, 2},
		{[]guard.Rule{few(per(guard.Subject), 5)}, budget.Address, all, 6},
		{[]guard.Rule{shadow, few(width(0, 0), 3)}, known(budget.Botnet(3)), subject, 3},
		{[]guard.Rule{shadow, few(width(0, 0), 3)}, known(budget.Botnet(4)), subject, unlimited},
		{[]guard.Rule{shadow, few(per(guard.Pair), 3)}, known(budget.Botnet(4)), subject, unlimited},
		{[]guard.Rule{shadow, few(width(0, 0), 3)}, known(budget.Botnet(4)), all, 4},
		{[]guard.Rule{few(per(guard.Device), 1), few(per(guard.Everyone), 1)}, known(budget.Botnet(9)), subject, 1},
	} {
		d := door(t, rules(row.rules...))
		if got := d.Most(row.c, row.t, 1); got.Most != row.want || (got.Rule == "") != (row.want == unlimited) {
			t.Errorf("row %d: %+v at %d: %+v, want %d", i, row.c, row.t, got, row.want)
		}
		if row.want == unlimited {
			row.want = 6_000 / max(1, int64(row.c.Networks)) // from one network at least
		}
		// With far more attempts than keys, each from the next network.
		g := newGuard(t, sized(rules(row.rules...), 4096, 1))
		admitted := int64(0)
		for n := range uint64(6_000) {
			p := g.Attempt(request(row.c, row.t, n), epoch)
			if p.Settle(doorward.Failed, epoch).Settled {
				admitted++
			}
		}
		if most := d.Most(row.c, row.t, 1).Most; admitted != row.want && most < unlimited || admitted < row.want {
			t.Errorf("row %d: %+v at %d: the guard admits %d, want %d", i, row.c, row.t, admitted, row.want)
		}
	}
}

// The least of the rules counts, at each span another one; those that never refuse do
// not count.
func TestLeastRule(t *testing.T) {
	d := door(t, rules(
		guard.Rule{Name: "trial", Action: guard.Shadow, Lockout: lock(1, day, day, day)},
		guard.Rule{Name: "burst", Lockout: lock(3, time.Second, time.Second, time.Second)},
		guard.Rule{Name: "day", Lockout: fading(20, day, day, day)},
		guard.Rule{Name: "step-up", Per: guard.Subject, Action: guard.StepUp, Lockout: lock(1, day, day, day)},
		guard.Rule{Name: "same", Lockout: fading(20, day, day, day)},
		guard.Rule{Name: "wide", V4: 24, V6: -1, Window: fixed(25, day)},
	))
	for _, row := range []struct {
		c    budget.Caller
		span time.Duration
		most int64
		rule string
	}{
		{budget.Address, math.MinInt64, 0, "burst"},
		{budget.Address, 0, 0, "burst"},
		{budget.Address, 1, 3, "burst"},
		{budget.Address, 9 * time.Second, 19, "burst"}, // 3, and eight times 2
		{budget.Address, 10 * time.Second, 20, "day"},
		{budget.Address, day, 39, "day"},
		{budget.Address, 2 * day, 59, "day"},
		{budget.Address, 2*day + 1, 60, "day"},
		{budget.Network24, 1, 25, "wide"},
		{budget.Network24, 2, 49, "wide"},
		{budget.Botnet(10), 1, 30, "burst"},
		{budget.Botnet(10), day, 390, "day"},
		{budget.Subscriber, day, 39, "day"},
		{budget.Site, 1, 3 * 4097, "burst"},
	} {
		if got, want := d.Most(row.c, budget.EverySubject, row.span), (budget.Limit{Most: row.most, Rule: row.rule}); got != want {
			t.Errorf("%+v in %v: %+v, want %+v", row.c, row.span, got, want)
		}
	}
	if got := len(d.Rules()); got != 6 {
		t.Errorf("%d rules, want all 6", got)
	}
	if r := d.Rules()[1]; r.V4 != 32 || r.Lockout.Lease != time.Second {
		t.Errorf("Rules have no defaults: %+v", r)
	}
}

func TestDoorErrors(t *testing.T) {
	for want, c := range map[string]guard.Config{
		"guard: Rules must not be empty":                       {},
		`guard: rule "x": lockout: FreeFailures must be 1 to`:  rules(guard.Rule{Name: "x", Lockout: &lockout.Policy{}}),
		`guard: rule "x": exactly one of Lockout, Throttle`:    rules(guard.Rule{Name: "x"}),
		`guard: rule "w": window: Limit must be`:               rules(guard.Rule{Name: "w", Window: &window.Policy{Limit: -1}}),
		`guard: rule "t": throttle: PerSource must be at most`: rules(guard.Rule{Name: "t", Throttle: &throttle.Policy{PerSource: 1 << 20}}),
	} {
		_, err := budget.NewDoor(c)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s...", err, want)
		}
	}
}

// The zero Door, one whose rules never refuse, and one that does not apply limit nothing.
func TestUnboundedDoors(t *testing.T) {
	trial := guard.Rule{Action: guard.Shadow, Lockout: lock(1, day, day, day)}
	stronger := guard.Rule{Per: guard.Subject, Action: guard.StepUp, Lockout: lock(1, day, day, day)}
	for i, d := range []*budget.Door{{}, door(t, rules(trial, stronger)), door(t, rules(guard.Rule{V4: -1, V6: 48, Lockout: lock(1, day, day, day)}))} {
		if got, want := d.Most(budget.Address, budget.OneSubject, day), (budget.Limit{Most: unlimited}); got != want {
			t.Errorf("door %d: %+v, want %+v", i, got, want)
		}
		if rate, rule := d.Rate(budget.Address, budget.OneSubject); rule != "" || rate != (budget.Rate{}) {
			t.Errorf("door %d: rate %+v by %q, want none", i, rate, rule)
		}
		if got := d.FirstWait(budget.Address, budget.OneSubject); got != (budget.FirstWait{}) {
			t.Errorf("door %d: waits %+v, want never", i, got)
		}
		if n, ok := d.Play(budget.Address, budget.OneSubject, day); n != 0 || ok {
			t.Errorf("door %d: play of what has no end: %d, %t", i, n, ok)
		}
		if span, ok := d.Shortest(budget.Address, budget.OneSubject, unlimited); span != 1 || !ok {
			t.Errorf("door %d: all attempts within %v, %t, want at once", i, span, ok)
		}
	}
}

// A throttle limits a source and everyone; the ceiling does not grow with the callers.
func TestThrottledDoor(t *testing.T) {
	d := door(t, rules(guard.Rule{Name: "ceiling", Throttle: ceiling(5, 100, time.Minute)}))
	for _, row := range []struct {
		c    budget.Caller
		span time.Duration
		want int64
	}{
		{budget.Address, 1, 5}, {budget.Address, time.Minute, 9}, {budget.Subscriber, 2, 9},
		{budget.Botnet(3), 1, 15}, {budget.Botnet(3), time.Minute, 27},
		{budget.Botnet(20), 1, 100}, {budget.Botnet(1000), 1, 100}, {budget.Provider, time.Minute, 199},
		{budget.Botnet(20), time.Minute, 180}, {budget.Botnet(1000), time.Hour, 6099},
	} {
		if got := d.Most(row.c, budget.OneSubject, row.span).Most; got != row.want {
			t.Errorf("%+v in %v: %d, want %d", row.c, row.span, got, row.want)
		}
	}
	for c, want := range map[budget.Caller]budget.Rate{
		budget.Address: {Attempts: 5, Per: time.Minute}, budget.Botnet(20): {Attempts: 100, Per: time.Minute}, budget.Botnet(21): {Attempts: 100, Per: time.Minute},
	} {
		if got, rule := d.Rate(c, budget.OneSubject); got != want || rule != "ceiling" {
			t.Errorf("rate of %+v: %+v by %q, want %+v", c, got, rule, want)
		}
	}
}

// The lowest rate of all rules, which need not be that of the least bound of a day.
func TestDoorRate(t *testing.T) {
	d := door(t, rules(
		guard.Rule{Name: "network", Lockout: fading(10, day, time.Hour, day)}, // one in 2.4 hours
		guard.Rule{Name: "site", V4: 24, V6: -1, Window: fixed(100, day)},
		guard.Rule{Name: "week", Per: guard.Subject, Lockout: fading(500, 7*day, 30*day, 30*day)},
		guard.Rule{Name: "trial", Action: guard.Shadow, Lockout: lock(1, day, day, day)},
	))
	for _, row := range []struct {
		c    budget.Caller
		t    budget.Target
		want budget.Rate
		rule string
	}{
		{budget.Address, budget.EverySubject, budget.Rate{Attempts: 1, Per: day / 10}, "network"},
		{budget.Network24, budget.EverySubject, budget.Rate{Attempts: 100, Per: day}, "site"},
		{budget.Botnet(2), budget.EverySubject, budget.Rate{Attempts: 2, Per: day / 10}, "network"},
		{budget.Botnet(1000), budget.OneSubject, budget.Rate{Attempts: 1, Per: 7 * day / 500}, "week"},
		{budget.Site, budget.EverySubject, budget.Rate{Attempts: 4097, Per: day / 10}, "network"},
	} {
		if got, rule := d.Rate(row.c, row.t); got != row.want || rule != row.rule {
			t.Errorf("%+v at %d: %+v by %q, want %+v by %q", row.c, row.t, got, rule, row.want, row.rule)
		}
	}
}

// Counts that do not fit end at the largest int64, and are limits all the same.
func TestSaturatedDoor(t *testing.T) {
	d := door(t, rules(guard.Rule{Name: "n", Lockout: lock(65_535, 1, 1, 1)}, guard.Rule{Name: "m", Lockout: lock(65_535, 1, 1, 1)}))
	many := budget.Caller{Networks: math.MaxInt, Bits: 32}
	if got, want := d.Most(many, budget.EverySubject, ever), (budget.Limit{Most: unlimited, Rule: "n"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := d.Most(many, budget.EverySubject, 1), (budget.Limit{Most: 65_535 * 4097, Rule: "n"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, c := range []budget.Caller{{Networks: math.MaxInt, Bits: 8}, {Networks: math.MaxInt, Bits: 16, IPv6: true}} {
		if got := d.Most(c, budget.EverySubject, 1).Most; got != 65_535*4097 {
			t.Errorf("%+v: %d", c, got)
		}
	}
	// There are no more networks than bits for them.
	for bits, want := range map[int]int64{7: 128, 8: 256, 9: 512} {
		d := door(t, rules(guard.Rule{V4: bits, V6: -1, Lockout: lock(1, 1, 1, 1)}))
		if got := d.Most(budget.Caller{Networks: 1000, Bits: 8}, budget.EverySubject, 1).Most; bits <= 8 && got != want {
			t.Errorf("/%d of a thousand /8: %d, want %d", bits, got, want)
		}
		if got := d.Most(budget.Caller{Bits: 8}, budget.EverySubject, 1).Most; got != max(1, want>>8) {
			t.Errorf("/%d of one /8: %d, want %d", bits, got, max(1, want>>8))
		}
	}
	if rate, rule := d.Rate(many, budget.EverySubject); rate.Attempts != 65_534*4097 || rule != "n" {
		t.Errorf("rate %+v by %q", rate, rule)
	}
}

// Shortest is the first span in which Most is so many.
func TestShortestOfADoor(t *testing.T) {
	for name, c := range guard.Presets() {
		d := door(t, c)
		for _, caller := range []budget.Caller{budget.Address, budget.Site, budget.Botnet(1000)} {
			for _, target := range []budget.Target{budget.EverySubject, budget.OneSubject, budget.OneChallenge} {
				most := func(span time.Duration) int64 { return d.Most(caller, target, span).Most }
				for _, n := range []int64{1, 2, most(1), most(1) + 1, 500, 100_000} {
					span, ok := d.Shortest(caller, target, n)
					if !ok || most(span) < n || most(span-1) >= n {
						t.Errorf("%s: %+v at %d: %d within %v, %t: there %d, before %d", name, caller, target, n, span, ok, most(span), most(span-1))
					}
				}
			}
		}
	}
	d := door(t, rules(guard.Rule{Lockout: lock(2, ever, ever, ever)}))
	if span, ok := d.Shortest(budget.Address, budget.OneSubject, 3); ok || span != 0 {
		t.Errorf("three of two: %v, %t", span, ok)
	}
	if span, ok := d.Shortest(budget.Address, budget.OneSubject, 0); !ok || span != 0 {
		t.Errorf("none: %v, %t", span, ok)
	}
}

// Somebody who mistypes is admitted After times, and then again after Wait, to the
// nanosecond.
func TestFirstWait(t *testing.T) {
	configs := guard.Presets()
	configs["default"] = defaultRules()
	configs["two at once"] = rules(
		guard.Rule{Name: "short", Lockout: lock(3, time.Minute, time.Second, time.Minute)},
		guard.Rule{Name: "long", Per: guard.Pair, Lockout: lock(3, time.Minute, time.Minute, time.Minute)},
		guard.Rule{Name: "later", Per: guard.Subject, Lockout: lock(4, day, day, day)})
	configs["throttle"] = rules(guard.Rule{Throttle: ceiling(4, 6, time.Minute)})
	configs["fixed"] = rules(guard.Rule{Window: fixed(4, time.Minute)})
	known := budget.Address
	known.Device = true
	for name, c := range configs {
		d := door(t, c)
		for _, caller := range []budget.Caller{budget.Address, budget.Subscriber, budget.Network24, budget.Botnet(2), known} {
			for _, target := range []budget.Target{budget.EverySubject, budget.OneSubject, budget.OneChallenge} {
				first := d.FirstWait(caller, target)
				g := newGuard(t, sized(c, 4096, 1))
				// next makes one attempt from the first network that may.
				i := uint64(0)
				next := func(now time.Time) bool {
					for range 256 {
						p := g.Attempt(request(caller, target, i), now)
						i++
						if p.Settle(doorward.Failed, now).Settled {
							return true
						}
					}
					return false
				}
				n := int64(0)
				for next(epoch) {
					n++
				}
				early, due := next(epoch.Add(first.Wait-1)), next(epoch.Add(first.Wait))
				if n != first.After || early || !due {
					t.Errorf("%s: %+v at %d: %d at once, admitted 1 ns before the wait ends %t, at its end %t, want %+v", name, caller, target, n, early, due, first)
				}
			}
		}
	}
	for name, want := range map[string]budget.FirstWait{
		"login":       {After: 5, Wait: 30 * time.Second, Rule: "pair"},
		"two at once": {After: 3, Wait: time.Minute, Rule: "long"},
		"throttle":    {After: 4, Wait: time.Minute, Rule: "network"},
		"fixed":       {After: 4, Wait: time.Minute, Rule: "network", All: true},
		"signup":      {After: 5, Wait: 67*time.Minute + 30*time.Second, Rule: "network-hour", All: true},
	} {
		if got := door(t, configs[name]).FirstWait(budget.Address, budget.OneSubject); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A squad is a few attackers at a tiny guard. What each asks for is a request of its own.
type squad struct {
	guard    *guard.Guard
	requests []guard.Request
	base     time.Duration
}

// schedules makes every sequence of up to most attempts of each attacker in each of so
// many nanoseconds, from a clean start, and calls done with how many were admitted in each.
// What is refused once in an instant is not tried again.
func (s *squad) schedules(instants, most int, after func(now time.Time), done func(admitted []int64)) {
	digits := make([]int, instants*len(s.requests))
	admitted := make([]int64, instants)
	for {
		s.base += time.Second // everything is forgotten
		clear(admitted)
		for i, n := range digits {
			at := i / len(s.requests)
			now := epoch.Add(s.base + time.Duration(at))
			for range n {
				p := s.guard.Attempt(s.requests[i%len(s.requests)], now)
				if !p.Settle(doorward.Failed, now).Settled {
					break
				}
				admitted[at]++
			}
			if after != nil && i%len(s.requests) == len(s.requests)-1 {
				after(now)
			}
		}
		done(admitted)
		i := 0
		for ; i < len(digits) && digits[i] == most; i++ {
			digits[i] = 0
		}
		if i == len(digits) {
			return
		}
		digits[i]++
	}
}

// No schedule of two attackers beats the door, in any span of it; where no more than one
// rule binds them, the best reaches it.
func TestEveryScheduleAgainstSmallDoors(t *testing.T) {
	near := []guard.Request{request(budget.Network24, budget.EverySubject, 0), request(budget.Network24, budget.EverySubject, 1)}
	samePair := []guard.Request{request(budget.Address, budget.OneSubject, 0)}
	apart := []guard.Request{request(budget.Botnet(2), budget.OneSubject, 0), request(budget.Botnet(2), budget.OneSubject, 1)}
	two := budget.Caller{Bits: 31}
	wide := func(p *lockout.Policy) guard.Rule { return guard.Rule{V4: 24, V6: 48, Lockout: p} }
	network := func(p *lockout.Policy) guard.Rule { return guard.Rule{Lockout: p} }
	subject := func(p *lockout.Policy) guard.Rule { return guard.Rule{Per: guard.Subject, Lockout: p} }
	for i, row := range []struct {
		c        budget.Caller
		t        budget.Target
		requests []guard.Request
		rules    []guard.Rule
		reached  string // what the best gets in 1, 2 ... ns, if less than Most
	}{
		{two, budget.EverySubject, near, []guard.Rule{network(lock(2, 2, 1, 2))}, ""},
		{two, budget.EverySubject, near, []guard.Rule{network(fading(2, 4, 1, 2)), wide(fading(3, 6, 1, 3))}, ""},
		{two, budget.EverySubject, near, []guard.Rule{network(lock(1, 2, 2, 2)), wide(lock(3, 3, 1, 1))}, "2/2 2/2 3/4 4/4"},
		{two, budget.EverySubject, near, []guard.Rule{network(lock(2, 3, 1, 4)), wide(fading(3, 3, 2, 2))}, ""},
		{two, budget.EverySubject, near, []guard.Rule{{Throttle: ceiling(1, 2, 2)}}, ""},
		{two, budget.EverySubject, near, []guard.Rule{{Throttle: ceiling(2, 3, 3)}, network(lock(1, 2, 1, 1))}, "2/2 4/4 4/5 5/6"},
		{two, budget.EverySubject, near, []guard.Rule{{Window: fixed(2, 2)}, wide(lock(2, 3, 1, 1))}, ""},
		{two, budget.EverySubject, near, []guard.Rule{{Window: sliding(1, 2)}, {V4: 24, V6: -1, Window: fixed(2, 3)}}, ""},
		{budget.Botnet(2), budget.OneSubject, apart, []guard.Rule{network(lock(2, 2, 2, 2)), subject(fading(3, 3, 1, 2))}, ""},
		{budget.Botnet(2), budget.OneSubject, apart, []guard.Rule{{Per: guard.Pair, Window: fixed(1, 2)}, subject(lock(2, 2, 1, 1))}, "2/2 2/2 3/4 4/4"},
		{budget.Botnet(2), budget.OneSubject, apart, []guard.Rule{{Per: guard.Everyone, Lockout: fading(2, 4, 1, 1)}, network(lock(1, 1, 2, 2))}, "2/2 2/2 3/4 4/4"},
		{budget.Address, budget.OneSubject, samePair, []guard.Rule{{Per: guard.Pair, Lockout: lock(2, 3, 2, 2)}, network(fading(3, 6, 1, 2)), subject(lock(2, 1, 1, 1))}, ""},
		{budget.Address, budget.OneSubject, samePair, []guard.Rule{{Per: guard.Pair, Lockout: lock(3, 5, 1, 2)}, {Window: fixed(2, 3)}}, "2/2 2/3 3/3 3/4"},
		{budget.Address, budget.OneSubject, samePair, []guard.Rule{{Per: guard.Pair, Lockout: lock(3, 2, 5, 5)}, {Window: sliding(2, 3)}}, ""},
		{budget.Address, budget.OneSubject, samePair, []guard.Rule{{Lockout: lock(3, 2, 5, 5)}, {Lockout: lock(1, 1, 2, 2)}}, ""},
	} {
		const instants = 4
		d := door(t, rules(row.rules...))
		s := squad{guard: newGuard(t, sized(rules(row.rules...), 8, 1)), requests: row.requests}
		n := instants
		if len(row.requests) == 1 {
			n = 7 // of which some may come before the span
		}
		best := make([]int64, n+1)
		s.schedules(n, 3-len(row.requests)+1, nil, func(admitted []int64) {
			for from := range admitted {
				sum := int64(0)
				for to := from; to < len(admitted); to++ {
					sum += admitted[to]
					best[to-from+1] = max(best[to-from+1], sum)
				}
			}
		})
		var reached []string
		short := false
		for span := 1; span <= instants; span++ {
			most := d.Most(row.c, row.t, time.Duration(span)).Most
			if best[span] > most {
				t.Errorf("row %d: %d admitted in %d ns, Most is %d", i, best[span], span, most)
			}
			short = short || best[span] < most
			reached = append(reached, strconv.FormatInt(best[span], 10)+"/"+strconv.FormatInt(most, 10))
		}
		got := ""
		if short {
			got = strings.Join(reached, " ")
		}
		if got != row.reached {
			t.Errorf("row %d: the best schedule reaches %q of Most, want %q", i, got, row.reached)
		}
	}
}

// So many attackers close the key that they share, and no fewer.
func TestClosersOfSmallDoors(t *testing.T) {
	wide := func(p *lockout.Policy) guard.Rule { return guard.Rule{Name: "wide", V4: 24, V6: 48, Lockout: p} }
	network := func(p *lockout.Policy) guard.Rule { return guard.Rule{Lockout: p} }
	outsider := request(budget.Network24, budget.EverySubject, 200)
	for i, row := range []struct {
		rules []guard.Rule
		exact bool
	}{
		{[]guard.Rule{wide(fading(2, 4, 2, 2)), network(lock(1, 3, 3, 3))}, true},
		{[]guard.Rule{wide(fading(3, 6, 2, 2)), network(fading(2, 6, 2, 2))}, true},
		{[]guard.Rule{wide(fading(4, 8, 2, 2)), network(lock(2, 2, 3, 3))}, true},
		{[]guard.Rule{wide(fading(3, 3, 2, 2)), network(lock(1, 1, 1, 1))}, true},
		{[]guard.Rule{wide(fading(4, 16, 1, 1)), network(fading(2, 8, 8, 8))}, true},
		{[]guard.Rule{wide(lock(3, 4, 1, 1)), network(lock(1, 3, 3, 3))}, true},
		{[]guard.Rule{wide(lock(4, 2, 2, 2)), network(fading(2, 6, 3, 3))}, false},
		{[]guard.Rule{wide(lock(3, 2, 1, 1)), network(lock(1, 2, 2, 2))}, false},
		{[]guard.Rule{{Name: "wide", V4: 24, V6: 48, Window: fixed(3, 4)}, network(lock(1, 2, 2, 2))}, true},
		{[]guard.Rule{{Name: "wide", V4: 24, V6: 48, Window: fixed(4, 2)}, {Window: fixed(1, 2)}}, true},
		{[]guard.Rule{{Name: "wide", Throttle: ceiling(4, 4, 3)}, network(lock(1, 2, 2, 2))}, true},
		{[]guard.Rule{{Name: "wide", Throttle: ceiling(2, 4, 3)}, network(lock(3, 2, 2, 2))}, true},
		// They share a key of another rule too, as wide or narrower.
		{[]guard.Rule{wide(fading(4, 8, 2, 2)), network(lock(2, 9, 9, 9)), {V4: 24, V6: -1, Lockout: lock(3, 3, 1, 1)}}, true},
		{[]guard.Rule{wide(fading(4, 8, 2, 2)), network(lock(2, 9, 9, 9)), {Per: guard.Everyone, Lockout: lock(3, 9, 9, 9)}}, true},
		{[]guard.Rule{wide(fading(4, 8, 2, 2)), network(lock(2, 9, 9, 9)), {V4: 25, V6: -1, Lockout: lock(3, 9, 9, 9)}}, false},
	} {
		d := door(t, rules(row.rules...))
		var said, did []int64
		for instants := 1; instants <= 4; instants++ {
			said = append(said, min(d.Closers("wide", budget.Address, time.Duration(instants)), 3))
			if said[instants-1] == 0 {
				said[instants-1] = 3
			}
			least := int64(3)
			for m := int64(2); m > 0; m-- {
				s := squad{guard: newGuard(t, sized(rules(row.rules...), 8, 1))}
				for n := range m {
					s.requests = append(s.requests, request(budget.Network24, budget.EverySubject, uint64(n)))
				}
				s.schedules(instants, 2, func(now time.Time) {
					if v := s.guard.Check(outsider, now); !v.Allowed && v.Rule == "wide" {
						least = min(least, m)
					}
				}, func([]int64) {})
			}
			did = append(did, least)
		}
		for k := range said {
			if said[k] > did[k] || row.exact && said[k] != did[k] {
				t.Errorf("row %d: closers within 1 to 4 ns (3 is more than 2): %v, the guard is closed by %v", i, said, did)
				break
			}
		}
	}
}

// At once it is exact on the presets: so many, who each make what they are admitted, close
// it for a stranger, and one fewer do not.
func TestClosersAtOnce(t *testing.T) {
	configs := guard.Presets()
	configs["default"] = defaultRules()
	tried := 0
	var held []string // by another rule on the same key
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		c := configs[name]
		d := door(t, c)
		for _, r := range d.Rules() {
			if r.Action != guard.Refuse || r.Per == guard.Pair || r.Per == guard.Challenge || r.Per == guard.Device {
				continue
			}
			target, stranger := budget.EverySubject, guard.Request{Subject: doorward.KeyFromName("z"), How: clientip.Peer}
			if r.Per == guard.Subject {
				target, stranger.Subject = budget.OneSubject, doorward.KeyFromName("a")
			}
			for _, one := range []budget.Caller{budget.Address, budget.Network24, budget.Subscriber, budget.Site} {
				width := r.V4
				if one.IPv6 {
					width = r.V6
				}
				if r.Per == guard.Network && r.Throttle == nil && (width < 0 || width >= one.Bits) {
					continue
				}
				closers := d.Closers(r.Name, one, 1)
				if closers == 0 {
					held = append(held, name+" "+r.Name)
					continue
				}
				// The callers lie in one network of the rule, the stranger too; or anywhere.
				at := func(k, i uint64) netip.Addr {
					outer := budget.Caller{Networks: 200, Bits: one.Bits, IPv6: one.IPv6}
					if r.Per == guard.Network && r.Throttle == nil {
						outer = budget.Caller{Bits: width, IPv6: one.IPv6}
						k, i = 0, k+i<<(one.Bits-width)
					}
					return from(outer, k, i)
				}
				for _, m := range []int64{closers - 1, closers} {
					g := newGuard(t, sized(c, 2048, 1))
					for k := range uint64(m) {
						for i := uint64(0); i < 600; i++ {
							q := request(one, target, k<<32+i)
							q.Addr = at(k, i)
							p := g.Attempt(q, epoch)
							p.Settle(doorward.Failed, epoch)
						}
					}
					stranger.Addr = at(uint64(closers)+1, 0)
					v := g.Check(stranger, epoch)
					if closed := !v.Allowed && v.Rule == r.Name; closed != (m == closers) {
						t.Errorf("%s: rule %s: %d of %+v close it: %t (%s), Closers is %d", name, r.Name, m, one, closed, v.Rule, closers)
					}
				}
				tried++
			}
		}
	}
	if got, want := strings.Join(slices.Compact(held), ", "), "default site48-day, default site24-day, password_reset subject-day, signup site48-day, signup site24-day"; got != want {
		t.Errorf("held by other rules: %s, want %s", got, want)
	}
	if tried < 60 {
		t.Errorf("tried only %d", tried)
	}
}

func TestClosersOfNothing(t *testing.T) {
	d := door(t, rules(
		guard.Rule{Name: "fading", V4: 24, V6: -1, Lockout: fading(10, 10*time.Minute, time.Hour, time.Hour)}, // one a minute
		guard.Rule{Name: "network", Lockout: fading(2, day, day, day)},
		guard.Rule{Name: "trial", Action: guard.Shadow, Lockout: lock(1, day, day, day)},
		guard.Rule{Name: "alone", V4: -1, V6: 64, Lockout: lock(7, day, day, day)},
	))
	for _, row := range []struct {
		rule   string
		c      budget.Caller
		within time.Duration
		want   int64
	}{
		{"fading", budget.Address, day, 5}, {"fading", budget.Address, 0, 5}, {"fading", budget.Botnet(5), 1, 1},
		{"no such rule", budget.Address, day, 0},
		{"trial", budget.Address, day, 0},
		{"alone", budget.Subscriber, 60 * time.Hour, 0}, // one each 12 hours
		{"alone", budget.Subscriber, 60*time.Hour + 1, 1},
		{"alone", budget.Address, 9 * day, 0},
	} {
		if got := d.Closers(row.rule, row.c, row.within); got != row.want {
			t.Errorf("%s by %+v within %v: %d, want %d", row.rule, row.c, row.within, got, row.want)
		}
	}
	// One that comes back each 10 ns is forgotten each time, each 9 ns it is not.
	for wait, want := range map[time.Duration]int64{9: 1, 10: 2} {
		d := door(t, rules(guard.Rule{Name: "site", V4: 24, V6: -1, Lockout: lock(3, 10, day, day)}, guard.Rule{Lockout: lock(1, day, wait, wait)}))
		if got := d.Closers("site", budget.Address, day); got != want {
			t.Errorf("one each %d ns: %d, want %d", wait, got, want)
		}
	}
	// Nothing else holds one back.
	d = door(t, rules(guard.Rule{Name: "only", Lockout: lock(7, day, day, day)}))
	if got := d.Closers("only", budget.Address, day); got != 1 {
		t.Errorf("%d, want 1", got)
	}
}
