package window_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

// D1: one row for each thing that can be wrong with a policy.
func TestPolicyErrors(t *testing.T) {
	for _, row := range []struct {
		p    window.Policy
		want string
	}{
		{window.Policy{Limit: -1}, "Limit must be 1 to 2147483647, got -1"},
		{window.Policy{Limit: -1, Sliding: true}, "Limit must be 1 to 65535, got -1"},
		{window.Policy{Limit: 65_536, Sliding: true}, "Limit must be 1 to 65535, got 65536"},
		{window.Policy{Window: -5 * time.Second}, "Window must be positive, got -5s"},
		{window.Policy{Capacity: -1}, "Capacity must be 1 to 1073741824, got -1"},
		{window.Policy{Capacity: 1<<30 + 1}, "Capacity must be 1 to 1073741824, got 1073741825"},
		{window.Policy{InFlight: -1}, "InFlight must be 1 to 1073741824, got -1"},
		{window.Policy{InFlight: 1<<30 + 1}, "InFlight must be 1 to 1073741824, got 1073741825"},
	} {
		if l, err := window.New(row.p); err == nil || err.Error() != "window: "+row.want || l != nil {
			t.Errorf("got %v, %v, want %s", l, err, row.want)
		}
	}
}

func TestPolicyLimits(t *testing.T) {
	for _, p := range []window.Policy{
		{Limit: 1, Window: 1, Capacity: 1, InFlight: 1},
		{Limit: 1, Window: 1, Sliding: true, Capacity: 1, InFlight: 1},
		{Limit: math.MaxInt32, Window: math.MaxInt64, Capacity: 1, InFlight: 1},
		{Limit: 65_535, Window: math.MaxInt64, Sliding: true, Capacity: 1, InFlight: 1},
	} {
		if l, err := window.New(p); err != nil || l.Policy() != p {
			t.Error(p, err)
		}
	}
	want := window.Policy{Limit: 10, Window: time.Minute, Capacity: 65_536, InFlight: 65_536}
	if p := must(window.New(window.Policy{})).Policy(); p != want {
		t.Errorf("D1, T7: defaults are %+v", p)
	}
}

// W1, W2: the most that passes in an interval of length Window. A fixed window lets
// 2 x Limit - 1 through across its edge, or 2 x Limit if its first request was taken
// back; a sliding one Limit.
func TestAcrossTheEdge(t *testing.T) {
	for _, row := range []struct {
		policy   string
		takeBack bool
		want     int
	}{
		{"limit=5 window=60", false, 9},
		{"limit=5 window=60", true, 10},
		{"limit=5 window=60 sliding", false, 4},
		{"limit=5 window=60 sliding", true, 5},
	} {
		l, passed := must(window.New(policyOf(row.policy))), 0
		try := func(at string) {
			for range 20 {
				if l.Allow(address(1), sec(at)).Allowed {
					passed++
				}
			}
		}
		_, first := l.Reserve(address(1), sec("0"))
		if row.takeBack { // what keeps the window running after it
			l.Allow(address(1), sec("0.000000001"))
			passed++
			l.Settle(address(1), first, doorward.Void, sec("0.000000002"))
		}
		try("59.999999999")
		try("60") // 60 s after the first
		if passed != row.want {
			t.Errorf("%s, the first taken back is %v: %d passed, want %d", row.policy, row.takeBack, passed, row.want)
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

// T6: of 1,000 requests at once exactly Limit pass, however they are made and end.
func TestParallel(t *testing.T) {
	for _, p := range []window.Policy{{}, {Sliding: true}} {
		for name, try := range map[string]func(l *window.Limiter, i int) bool{
			"Allow": func(l *window.Limiter, _ int) bool { return l.Allow(address(1), start).Allowed },
			"mixed": func(l *window.Limiter, i int) bool {
				if i%2 == 0 {
					return l.Allow(address(1), start).Allowed
				}
				d, ticket := l.Reserve(address(1), start)
				runtime.Gosched()
				l.Settle(address(1), ticket, doorward.Outcome(i/2%3), start) // not void
				return d.Allowed
			},
		} {
			l := must(window.New(p))
			if n := parallel(1000, func(i int) bool { return try(l, i) }); n != 10 {
				t.Errorf("%s: %d passed, want 10", name, n)
			}
		}
	}
}

// W5: 1,000 that are taken back leave nothing.
func TestParallelVoid(t *testing.T) {
	l := must(window.New(window.Policy{Sliding: true}))
	parallel(1000, func(int) bool {
		d, ticket := l.Reserve(address(1), start)
		runtime.Gosched()
		l.Settle(address(1), ticket, doorward.Void, start)
		return d.Allowed
	})
	if d := l.Check(address(1), start); d.Remaining != 9 || l.Tracked() != 0 {
		t.Errorf("left %+v, %d tracked", d, l.Tracked())
	}
}

// An outcome that nobody knows is not void.
func TestUnknownOutcome(t *testing.T) {
	l := must(window.New(window.Policy{}))
	for _, o := range []doorward.Outcome{4, 63, 64, 127, 128, 131, 254, 255} {
		_, ticket := l.Reserve(address(int(o)), start)
		l.Settle(address(int(o)), ticket, o, start)
		if d := l.Check(address(int(o)), start); d.Remaining != 8 {
			t.Errorf("outcome %d left %+v", o, d)
		}
	}
}

// W4, T2 to T4: a flood while time stands still, and room again when it is over.
func TestFlood(t *testing.T) {
	for _, sliding := range []bool{false, true} {
		l, passed := must(window.New(window.Policy{Sliding: sliding, Capacity: 4096})), 0
		for i := range 20_000 {
			for range 12 {
				if l.Allow(address(i), start).Allowed {
					passed++
				}
			}
		}
		if passed != 40_970 || l.Tracked() != 4096 {
			t.Errorf("%d passed, want 40970; %d tracked", passed, l.Tracked())
		}
		later := start.Add(time.Minute * 9 / 8)
		for i := range 4096 {
			if d := l.Allow(address(50_000+i), later); !d.Allowed || d.Overflow {
				t.Fatalf("%+v", d)
			}
		}
		if l.Tracked() != 4096 {
			t.Errorf("%d tracked", l.Tracked())
		}
	}
}

// D3: whoever is refused is refused until one nanosecond before RetryAfter has passed,
// and allowed once it has, if nothing happens in between; and so for many at once.
func TestRetryAfter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	own, overflow := 0, 0
	for i := range 3000 {
		p := policies[i%len(policies)]
		if p.Window > time.Hour {
			continue // ends where the clock does not reach
		}
		p.Capacity, p.InFlight = 1+i%3, 8
		l, now := must(window.New(p)), start
		fits := func(k doorward.Key, n int, at time.Time) bool {
			if n == 1 {
				return l.Check(k, at).Allowed
			}
			return l.AllowN(k, n, at).Allowed
		}
		for range 40 {
			k, n := address(random.IntN(p.Capacity+2)), 1+random.IntN(min(3, p.Limit))
			now = now.Add(time.Duration(random.Int64N(1 + int64(p.Window)/4)))
			d := l.AllowN(k, n, now)
			if d.Allowed {
				continue
			}
			before, after := now.Add(d.RetryAfter-1), now.Add(d.RetryAfter)
			if d.Overflow {
				overflow++ // may be allowed sooner, when room is made
			} else if own++; fits(k, n, before) {
				t.Fatalf("%+v: %d, %+v was allowed a nanosecond early", p, n, d)
			}
			if !fits(k, n, after) {
				t.Fatalf("%+v: %d, %+v was refused when the time had passed", p, n, d)
			}
			now = after
		}
	}
	if own < 5000 || overflow < 500 {
		t.Errorf("%d refusals seen, %d by overflow", own, overflow)
	}
}

// T9: sums that are too large end where the clock does not reach.
func TestSaturation(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	late := start.Add(forever).Add(forever).Add(forever)
	for _, p := range []window.Policy{
		{Limit: 1, Window: forever},
		{Limit: 1, Window: forever, Sliding: true},
		{Limit: 1, Window: forever - 1, Sliding: true},
		{Limit: 1, Window: forever / 9 * 8, Sliding: true},
	} {
		p.Capacity, p.InFlight = 4, 4
		l := must(window.New(p))
		l.Check(address(1), start)
		l.Allow(address(1), start.Add(time.Hour))
		for _, now := range []time.Time{start.Add(2 * time.Hour), late, start, {}} {
			if d := l.Allow(address(1), now); d.Reason != doorward.Spent || d.RetryAfter <= 0 {
				t.Errorf("%+v at %v: %+v", p, now, d)
			}
		}
		if d := l.Allow(address(2), late); !d.Allowed {
			t.Errorf("%+v", d)
		}
	}
}

// T7: a key has at most 65,535 reservations pending.
func TestPendingOfOneKey(t *testing.T) {
	l := must(window.New(window.Policy{Limit: 100_000, InFlight: 70_000, Capacity: 2}))
	for range 65_535 {
		l.Reserve(address(1), start)
	}
	want := doorward.Decision{Reason: doorward.Busy, RetryAfter: time.Second}
	if d, _ := l.Reserve(address(1), start); d != want {
		t.Errorf("%+v", d)
	}
	if d := l.Allow(address(1), start); d.Remaining != 100_000-65_536 {
		t.Errorf("%+v", d)
	}
	if d, _ := l.Reserve(address(2), start); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

// T7: no operation allocates, at a full table and a full pool either.
func TestNothingAllocates(t *testing.T) {
	for _, sliding := range []bool{false, true} {
		l, now, i := must(window.New(window.Policy{Sliding: sliding, Capacity: 64, InFlight: 16})), start, 0
		keys := make([]doorward.Key, 500)
		for j := range keys {
			keys[j] = address(j)
		}
		for name, f := range map[string]func(k doorward.Key){
			"Allow":   func(k doorward.Key) { l.Allow(k, now) },
			"AllowN":  func(k doorward.Key) { l.AllowN(k, i%4, now) },
			"Check":   func(k doorward.Key) { l.Check(k, now) },
			"Reserve": func(k doorward.Key) { l.Reserve(k, now) },
			"Settle": func(k doorward.Key) {
				_, ticket := l.Reserve(k, now)
				l.Settle(k, ticket, doorward.Outcome(i%4), now)
			},
			"Unlock":  func(k doorward.Key) { l.Unlock(k) },
			"Tracked": func(doorward.Key) { l.Tracked() },
			"Clear":   func(doorward.Key) { l.Clear() },
		} {
			for _, k := range keys { // fill the table
				l.Allow(k, now)
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

// T7: at most 64 bytes per key and 32 per reservation, and a little for the rest.
func TestBytesPerKey(t *testing.T) {
	const keys, inFlight, rest = 1_000_000, 1000, 8192
	for _, sliding := range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l := must(window.New(window.Policy{Sliding: sliding, Capacity: keys, InFlight: inFlight}))
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(l)
		perKey := float64(after.TotalAlloc-before.TotalAlloc-32*inFlight-rest) / keys
		if perKey > 64 {
			t.Errorf("%.2f bytes per key, want at most 64", perKey)
		}
		t.Logf("%.2f bytes per key", perKey)
	}
}
