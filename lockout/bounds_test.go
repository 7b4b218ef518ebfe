package lockout_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

// D1: one row for each thing that can be wrong with a policy.
func TestPolicyErrors(t *testing.T) {
	for _, row := range []struct {
		change func(*lockout.Policy)
		want   string
	}{
		{func(p *lockout.Policy) { *p = lockout.Policy{} }, "FreeFailures must be 1 to 65535, got 0"},
		{func(p *lockout.Policy) { p.FreeFailures = -1 }, "FreeFailures must be 1 to 65535, got -1"},
		{func(p *lockout.Policy) { p.FreeFailures = 65_536 }, "FreeFailures must be 1 to 65535, got 65536"},
		{func(p *lockout.Policy) { p.Window = 0 }, "Window must be positive, got 0s"},
		{func(p *lockout.Policy) { p.Window = -5 * time.Second }, "Window must be positive, got -5s"},
		{func(p *lockout.Policy) { p.FirstLockout = 0 }, "FirstLockout must be positive, got 0s"},
		{func(p *lockout.Policy) { p.MaxLockout = time.Minute - 1 }, "MaxLockout must be at least FirstLockout (1m0s), got 59.999999999s"},
		{func(p *lockout.Policy) { p.OnSuccess = 2 }, "OnSuccess must be Clear or TakeBack, got 2"},
		{func(p *lockout.Policy) { p.Lease = -1 }, "Lease must be positive and at most Window (1m0s), got -1ns"},
		{func(p *lockout.Policy) { p.Lease = time.Minute + 1 }, "Lease must be positive and at most Window (1m0s), got 1m0.000000001s"},
		{func(p *lockout.Policy) { p.Capacity = -1 }, "Capacity must be 1 to 1073741824, got -1"},
		{func(p *lockout.Policy) { p.Capacity = 1<<30 + 1 }, "Capacity must be 1 to 1073741824, got 1073741825"},
		{func(p *lockout.Policy) { p.InFlight = -1 }, "InFlight must be 1 to 1073741824, got -1"},
		{func(p *lockout.Policy) { p.InFlight = 1<<30 + 1 }, "InFlight must be 1 to 1073741824, got 1073741825"},
	} {
		p := lockout.Login
		row.change(&p)
		if l, err := lockout.New(p); err == nil || err.Error() != "lockout: "+row.want || l != nil {
			t.Errorf("got %v, %v, want %s", l, err, row.want)
		}
	}
}

func TestPolicyLimits(t *testing.T) {
	for _, p := range []lockout.Policy{
		lockout.Login, lockout.Enroll, lockout.PasskeyLogin, // L9
		{FreeFailures: 1, Window: 1, FirstLockout: 1, MaxLockout: 1, Lease: 1, Capacity: 1, InFlight: 1},
		{FreeFailures: 65_535, Window: math.MaxInt64, FirstLockout: 1, MaxLockout: math.MaxInt64, Decay: true, Capacity: 1, InFlight: 1},
	} {
		if _, err := lockout.New(p); err != nil {
			t.Error(err)
		}
	}
	p := must(lockout.New(lockout.Login)).Policy()
	if p.Lease != time.Minute || p.Capacity != 65_536 || p.InFlight != 65_536 {
		t.Errorf("D1, T7: defaults are %+v", p)
	}
}

// L9: the presets as values.
func TestPresets(t *testing.T) {
	for _, row := range []struct {
		got    lockout.Policy
		free   int
		window time.Duration
	}{{lockout.Login, 5, time.Minute}, {lockout.Enroll, 5, 10 * time.Minute}, {lockout.PasskeyLogin, 30, time.Minute}} {
		want := lockout.Policy{FreeFailures: row.free, Window: row.window, FirstLockout: time.Minute, MaxLockout: time.Hour}
		if row.got != want {
			t.Errorf("got %+v, want %+v", row.got, want)
		}
	}
}

// parallel calls f n times at once and returns how many said yes.
func parallel(n int, f func(i int) bool) int {
	var yes atomic.Int64
	var done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		done.Go(func() {
			<-begin
			if f(i) {
				yes.Add(1)
			}
		})
	}
	close(begin)
	done.Wait()
	return int(yes.Load())
}

// L1, L6, T6: 1,000 at once, all wrong, however they are made.
func TestParallelWrong(t *testing.T) {
	k := address(1)
	for name, try := range map[string]func(l *lockout.Limiter, i int) bool{
		"Attempt": func(l *lockout.Limiter, i int) bool { return l.Attempt(k, start).Allowed },
		"Reserve": reserveWrong,
		"mixed": func(l *lockout.Limiter, i int) bool {
			if i%2 == 0 {
				return l.Attempt(k, start).Allowed
			}
			return reserveWrong(l, i)
		},
	} {
		for round := range 20 {
			l := must(lockout.New(lockout.Login))
			if n := parallel(1000, func(i int) bool { return try(l, i) }); n != 5 {
				t.Errorf("%s, round %d: %d admitted, want 5", name, round, n)
			}
			if d := l.Check(k, start); d.Reason != doorward.Locked || d.RetryAfter != time.Minute {
				t.Errorf("%s: left %+v", name, d)
			}
		}
	}
}

func reserveWrong(l *lockout.Limiter, i int) bool {
	for {
		d, ticket := l.Reserve(address(1), start)
		switch {
		case d.Allowed:
			runtime.Gosched()
			l.Settle(address(1), ticket, []doorward.Outcome{doorward.Failed, doorward.Malformed}[i/2%2], start)
			return true
		case d.Reason != doorward.Busy:
			return false
		}
		runtime.Gosched() // comes back, as a Busy caller may
	}
}

// L6: 1,000 right ones at once lock nobody out, and all get in that try again.
func TestParallelRight(t *testing.T) {
	for _, onSuccess := range []lockout.OnSuccess{lockout.Clear, lockout.TakeBack} {
		p := lockout.Login
		p.OnSuccess = onSuccess
		l := must(lockout.New(p))
		n := parallel(1000, func(int) bool {
			for {
				d, ticket := l.Reserve(address(1), start)
				if d.Allowed {
					runtime.Gosched()
					l.Settle(address(1), ticket, doorward.Succeeded, start)
					return true
				}
				if d.Reason != doorward.Busy {
					return false
				}
				runtime.Gosched()
			}
		})
		if n != 1000 {
			t.Errorf("%d got in, want 1000", n)
		}
		if d := l.Check(address(1), start); !d.Allowed || d.Remaining != 4 || l.Tracked() != 0 {
			t.Errorf("left %+v, %d tracked", d, l.Tracked())
		}
	}
}

// T2, T3, T4: a flood while time stands still. 4,096 addresses have entries of their
// own, five attempts each, and all others share five more.
func TestFlood(t *testing.T) {
	p := lockout.Login
	p.Capacity = 4096
	l := must(lockout.New(p))
	admitted := 0
	for i := range 30_000 {
		for range 10 {
			if l.Attempt(address(i), start).Allowed {
				admitted++
			}
		}
	}
	if admitted != 20_485 {
		t.Errorf("%d admitted, want 20485", admitted)
	}
	for i := range 30_000 {
		want := doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Minute, Overflow: i >= 4096}
		if d := l.Check(address(i), start); d != want {
			t.Fatalf("address %d: %+v, want %+v", i, d, want)
		}
	}
	if n := l.Tracked(); n != 4096 {
		t.Errorf("%d tracked", n)
	}
}

// D3: whoever is refused is refused until one nanosecond before RetryAfter has passed,
// and allowed once it has, if nothing happens to the key in between.
func TestRetryAfter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	own, overflow := 0, 0
	for i := range 3000 {
		p := policies[i%len(policies)]
		if p.MaxLockout > time.Hour {
			continue // ends where the clock does not reach
		}
		p.Capacity, p.InFlight = 1+i%3, 8
		l, now := must(lockout.New(p)), start
		for range 25 {
			k := address(random.IntN(p.Capacity + 2))
			now = now.Add(time.Duration(random.Int64N(2 * int64(min(p.FirstLockout, time.Hour)))))
			d := l.Attempt(k, now)
			if d.Reason != doorward.Locked {
				continue
			}
			before, after := now.Add(d.RetryAfter-1), now.Add(d.RetryAfter)
			if d.Overflow {
				overflow++ // may be allowed sooner, when room is made
			} else if own++; l.Check(k, before).Allowed {
				t.Fatalf("%+v: %+v was allowed a nanosecond early", p, d)
			}
			if !l.Check(k, after).Allowed {
				t.Fatalf("%+v: %+v was refused when the time had passed", p, d)
			}
			now = after
		}
	}
	if own < 1000 || overflow < 100 {
		t.Errorf("%d refusals seen, %d by overflow", own, overflow)
	}
}

// T9: sums that are too large end where the clock does not reach.
func TestSaturation(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	p := lockout.Policy{FreeFailures: 1, Window: forever, FirstLockout: forever, MaxLockout: forever, Lease: forever, Capacity: 4, InFlight: 4}
	for _, p.Decay = range []bool{false, true} {
		l := must(lockout.New(p))
		a, b := address(1), address(2)
		l.Check(a, start)
		l.Attempt(a, start.Add(time.Hour))
		l.Reserve(b, start.Add(time.Hour))
		late := start.Add(forever).Add(forever).Add(forever)
		for _, now := range []time.Time{start.Add(2 * time.Hour), late, start, time.Time{}} {
			if d := l.Attempt(a, now); d.Reason != doorward.Locked || d.RetryAfter <= 0 {
				t.Errorf("at %v: %+v", now, d)
			}
			if d := l.Attempt(b, now); d.Reason != doorward.Busy || d.RetryAfter <= 0 {
				t.Errorf("at %v: %+v", now, d)
			}
		}
	}
}

// T9: the clock is the monotonic reading where there is one.
func TestMonotonic(t *testing.T) {
	l := must(lockout.New(policyOf("free=1 window=60 first=10 max=10")))
	now := time.Now()
	l.Attempt(address(1), now)
	if d := l.Check(address(1), now.Add(4*time.Second)); d.RetryAfter != 6*time.Second {
		t.Errorf("%+v", d)
	}
}

// T7: no operation allocates, at a full table and a full pool either.
func TestNothingAllocates(t *testing.T) {
	for _, decay := range []bool{false, true} {
		p := lockout.Policy{FreeFailures: 3, Window: time.Minute, FirstLockout: time.Second, MaxLockout: time.Hour, Decay: decay, Capacity: 64, InFlight: 16}
		for _, p.OnSuccess = range []lockout.OnSuccess{lockout.Clear, lockout.TakeBack} {
			l, now, i := must(lockout.New(p)), start, 0
			keys := make([]doorward.Key, 500)
			for j := range keys {
				keys[j] = address(j)
			}
			for name, f := range map[string]func(k doorward.Key){
				"Attempt":   func(k doorward.Key) { l.Attempt(k, now) },
				"Check":     func(k doorward.Key) { l.Check(k, now) },
				"Succeeded": func(k doorward.Key) { l.Succeeded(k, now) },
				"Reserve":   func(k doorward.Key) { l.Reserve(k, now) },
				"Settle": func(k doorward.Key) {
					_, ticket := l.Reserve(k, now)
					l.Settle(k, ticket, doorward.Outcome(i%4), now)
				},
				"GiveBack": func(k doorward.Key) { l.GiveBack(k, doorward.Cleared{N: 1, First: now}, now) },
				"Unlock":   func(k doorward.Key) { l.Unlock(k) },
				"Tracked":  func(doorward.Key) { l.Tracked() },
				"Clear":    func(doorward.Key) { l.Clear() },
			} {
				for _, k := range keys { // fill the table
					l.Attempt(k, now)
				}
				n := testing.AllocsPerRun(2000, func() {
					now = now.Add(time.Second)
					i++
					f(keys[i*7%len(keys)])
				})
				if n != 0 {
					t.Errorf("%s allocates %v times", name, n)
				}
			}
		}
	}
}

// T7: at most 64 bytes per key and 32 per reservation, and a little for the rest.
func TestBytesPerKey(t *testing.T) {
	const keys, inFlight, rest = 1_000_000, 1000, 8192
	p := lockout.Login
	p.Capacity, p.InFlight = keys, inFlight
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := must(lockout.New(p))
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(l)
	perKey := float64(after.TotalAlloc-before.TotalAlloc-32*inFlight-rest) / keys
	if perKey > 64 {
		t.Errorf("%.2f bytes per key, want at most 64", perKey)
	}
	t.Logf("%.2f bytes per key", perKey)
}

// Reload keeps what was counted, locked and reserved.
func TestReload(t *testing.T) {
	l := must(lockout.New(policyOf(three + "capacity=8 inflight=8")))
	history := func(l *lockout.Limiter, lines string) {
		t.Helper()
		tickets := map[string]doorward.Ticket{}
		for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
			event, want, _ := strings.Cut(strings.TrimSpace(line), " -> ")
			if got := perform(l, tickets, strings.Fields(event)); got != want {
				t.Errorf("%s\n\tgot %s", line, got)
			}
		}
	}
	history(l, `
		0 locked attempt -> allowed 2
		0 locked attempt -> allowed 1
		0 locked attempt -> allowed 0
		0 failed attempt -> allowed 2
		0 failed attempt -> allowed 1`)
	_, ticket := l.Reserve(keyOf("pending"), start)

	p := policyOf("free=5 window=120 first=10 max=35 capacity=8 inflight=8 takeback")
	if err := l.Reload(p); err != nil {
		t.Fatal(err)
	}
	if got := l.Policy(); got != p.WithDefaults() {
		t.Errorf("policy %+v", got)
	}
	history(l, `
		1 locked check  -> locked 9
		1 failed check  -> allowed 2
		1 pending check -> allowed 3
		1 failed succeeded
		1 failed check -> allowed 3`) // TakeBack by now
	if c := l.Settle(keyOf("pending"), ticket, doorward.Failed, sec("2")); c.N != 0 {
		t.Errorf("cleared %+v", c)
	}
	history(l, `
		2 pending check -> allowed 3
		61 pending check -> allowed 3
		119.999999999 failed check -> allowed 3
		120 failed check -> allowed 4`)

	for _, row := range []struct{ policy, want string }{
		{three + "capacity=9 inflight=8", "lockout: Capacity cannot change in a reload, from 8 to 9"},
		{three + "inflight=8", "lockout: Capacity cannot change in a reload, from 8 to 65536"},
		{three + "capacity=8 inflight=9", "lockout: InFlight cannot change in a reload, from 8 to 9"},
		{"free=0", "lockout: FreeFailures must be 1 to 65535, got 0"},
	} {
		if err := l.Reload(policyOf(row.policy)); fmt.Sprint(err) != row.want {
			t.Errorf("got %v, want %s", err, row.want)
		}
	}
	if l.Policy() != p.WithDefaults() {
		t.Error("a reload that was refused changed the policy")
	}
}

// F1: what is no outcome counts as a failure.
func TestNoOutcome(t *testing.T) {
	for _, o := range []doorward.Outcome{4, 0x40, 0x80, 0xc0, 0xff} {
		l := must(lockout.New(policyOf("free=1 window=60 first=10 max=35 capacity=8 inflight=8")))
		_, ticket := l.Reserve(keyOf("k"), start)
		l.Settle(keyOf("k"), ticket, o, start)
		if d := l.Check(keyOf("k"), start); d.Reason != doorward.Locked {
			t.Errorf("settled as %v: %+v, want locked", o, d)
		}
	}
}

// What was reserved apart is not given back, whenever the clocks began.
func TestApartIsNotGivenBack(t *testing.T) {
	for _, begin := range []time.Time{{}, start, time.Now()} {
		pair := must(lockout.New(policyOf("free=5 window=60 first=10 max=35 capacity=8 inflight=8")))
		network := must(lockout.New(policyOf("free=5 window=60 first=10 max=35 capacity=8 inflight=8 takeback")))
		k := keyOf("k")
		network.Attempt(k, begin)
		_, ticket := pair.ReserveApart(k, begin)
		pair.Settle(k, ticket, doorward.Failed, begin)
		_, ticket = pair.Reserve(k, begin)
		cleared := pair.Settle(k, ticket, doorward.Succeeded, begin)
		if cleared.N != 1 {
			t.Errorf("from %v: cleared %+v, want one failure", begin, cleared)
		}
		network.GiveBack(k, cleared, begin)
		if d := network.Check(k, begin); d.Remaining != 3 {
			t.Errorf("from %v: %+v after nothing was given back, want 3 remaining", begin, d)
		}
	}
}
