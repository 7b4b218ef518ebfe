package throttle_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/throttle"
)

// D1: what is not positive takes the default, what is too large the largest.
func TestPolicy(t *testing.T) {
	defaults := throttle.Policy{PerSource: 5, Global: 100, Window: time.Minute, Sources: 4096, InFlight: 65_536}
	most := throttle.Policy{PerSource: 65_535, Global: math.MaxInt, Window: math.MaxInt64, Sources: 1, InFlight: 1}
	over := most
	over.PerSource = 65_536
	for _, row := range []struct{ given, want throttle.Policy }{
		{throttle.Policy{}, defaults},
		{throttle.Policy{PerSource: -1, Global: -1, Window: -1, Sources: -1, InFlight: -1}, defaults},
		{throttle.Policy{PerSource: 1, Global: 1, Window: 1, Sources: 1, InFlight: 1}, throttle.Policy{PerSource: 1, Global: 1, Window: 1, Sources: 1, InFlight: 1}},
		{most, most},
		{over, most},
	} {
		if got := throttle.New(row.given).Policy(); got != row.want {
			t.Errorf("%+v is %+v, want %+v", row.given, got, row.want)
		}
	}
	if throttle.DefaultCapacity != 65_536 {
		t.Error("D1")
	}
}

// One row for each thing that can be too large.
func TestPolicyErrors(t *testing.T) {
	for _, row := range []struct {
		p    throttle.Policy
		want string
	}{
		{throttle.Policy{PerSource: 65_536}, "throttle: PerSource must be at most 65535, got 65536"},
		{throttle.Policy{Sources: 1<<30 + 1}, "throttle: Sources must be at most 1073741824, got 1073741825"},
		{throttle.Policy{InFlight: 1<<30 + 1}, "throttle: InFlight must be at most 1073741824, got 1073741825"},
	} {
		if err := row.p.Validate(); err == nil || err.Error() != row.want {
			t.Errorf("got %v, want %s", err, row.want)
		}
		l := throttle.New(throttle.Policy{Sources: 4, InFlight: 4})
		if err := l.Reload(row.p); err == nil || err.Error() != row.want || l.Policy().Window != time.Minute {
			t.Errorf("Reload: got %v, want %s", err, row.want)
		}
	}
	for _, p := range []throttle.Policy{{}, {PerSource: -7, Sources: -7, InFlight: -7}, {PerSource: 65_535, Sources: 1 << 30, InFlight: 1 << 30}} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// R1: across the end of a window twice the limit less one may be refused within one
// Window, and no more.
func TestAcrossTheEdge(t *testing.T) {
	l := throttle.New(policyOf("source=5 global=1000 window=60"))
	wrong := func(at string) (n int) {
		for {
			d, ticket := l.Reserve(address(1), sec(at))
			if !d.Allowed {
				return n
			}
			l.Settle(address(1), ticket, doorward.Failed, sec(at))
			n++
		}
	}
	_, first := l.Reserve(address(1), sec("0"))
	l.Settle(address(1), first, doorward.Failed, sec("0"))
	if n := wrong("59.999999999") + wrong("60"); n != 9 {
		t.Errorf("%d around the edge, want 9", n)
	}
	if n := wrong("119.999999999"); n != 0 {
		t.Errorf("%d more before the next", n)
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

// R7: of 1,000 wrong ones at once exactly PerSource of one source and exactly Global of
// all are admitted.
func TestParallelWrong(t *testing.T) {
	for _, row := range []struct{ sources, want int }{{1, 5}, {3, 15}, {1000, 100}} {
		l := throttle.New(throttle.Policy{})
		n := parallel(1000, func(i int) bool {
			k := address(i % row.sources)
			for {
				d, ticket := l.Reserve(k, start)
				switch {
				case d.Allowed:
					runtime.Gosched()
					l.Settle(k, ticket, doorward.Failed, start)
					return true
				case d.Reason != doorward.Busy:
					return false
				}
				runtime.Gosched() // comes back, as a Busy caller may
			}
		})
		if n != row.want {
			t.Errorf("%d sources: %d admitted, want %d", row.sources, n, row.want)
		}
	}
}

// R7: 1,000 right ones at once all get in that try again.
func TestParallelRight(t *testing.T) {
	l := throttle.New(throttle.Policy{Global: 8})
	n := parallel(1000, func(i int) bool {
		k := address(i % 10)
		for {
			d, ticket := l.Reserve(k, start)
			if d.Allowed {
				runtime.Gosched()
				l.Settle(k, ticket, doorward.Succeeded, start)
				return true
			}
			if d.Reason != doorward.Busy {
				return false
			}
			runtime.Gosched()
		}
	})
	if n != 1000 || l.Tracked() != 0 {
		t.Errorf("%d got in, want 1000; %d tracked", n, l.Tracked())
	}
}

// R6: what one source tries past its own limit costs others nothing.
func TestNoisySource(t *testing.T) {
	l := throttle.New(throttle.Policy{})
	for range 10_000 {
		if d, ticket := l.Reserve(address(1), start); d.Allowed {
			l.Settle(address(1), ticket, doorward.Failed, start)
		}
	}
	for i := range 95 { // 5 of 100 are spent
		if d := l.Blocked(address(2+i), start); !d.Allowed {
			t.Fatalf("source %d: %+v", i, d)
		}
		l.Refused(address(2+i), start)
	}
	if d := l.Blocked(address(0), start); d.Reason != doorward.Ceiling || d.RetryAfter != time.Minute {
		t.Errorf("%+v", d)
	}
}

// R7: an outcome that nobody knows is failed.
func TestUnknownOutcome(t *testing.T) {
	for _, o := range []doorward.Outcome{4, 63, 64, 127, 128, 129, 254, 255} {
		l := throttle.New(throttle.Policy{PerSource: 2, Global: 2, Sources: 4, InFlight: 4})
		_, ticket := l.Reserve(address(1), start)
		l.Settle(address(1), ticket, o, start)
		if d := l.Check(address(2), start); !d.Allowed || d.Remaining != 0 {
			t.Errorf("outcome %d left %+v", o, d)
		}
		if d := l.Check(address(1), start); !d.Allowed || d.Remaining != 0 {
			t.Errorf("outcome %d left %+v", o, d)
		}
	}
}

// R3: a count ends at 65,535.
func TestCountEnds(t *testing.T) {
	l := throttle.New(throttle.Policy{})
	_, ticket := l.Reserve(address(1), start)
	for range 70_000 {
		l.RefusedBySource(address(1), start)
	}
	want := doorward.Cleared{N: 65_535, First: start}
	if c := l.Settle(address(1), ticket, doorward.Succeeded, start); c != want {
		t.Errorf("cleared %+v", c)
	}
}

// D3: whoever is refused as Spent or Ceiling is refused until one nanosecond before
// RetryAfter has passed, and allowed once it has, if nothing happens in between: no
// lease ends, and what is pending does not fill a limit alone.
func TestRetryAfter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[doorward.Reason]int{}
	for i := range 3000 {
		p := policies[i%9]
		p.Sources, p.InFlight = 1+i%3, 8
		l, now := throttle.New(p), start
		var ends []time.Time
		var pending []doorward.Key
		for range 40 {
			k := address(random.IntN(p.Sources + 2))
			now = now.Add(time.Duration(random.Int64N(int64(p.Window) / 4)))
			for len(ends) > 0 && !now.Before(ends[0]) {
				ends, pending = ends[1:], pending[1:]
			}
			switch random.IntN(6) {
			case 0, 1:
				l.Refused(k, now)
			case 2:
				l.RefusedBySource(k, now)
			case 3:
				if d, _ := l.Reserve(k, now); d.Allowed {
					ends, pending = append(ends, now.Add(time.Minute)), append(pending, k)
				}
			}
			d := l.Check(k, now)
			if d.Reason != doorward.Spent && d.Reason != doorward.Ceiling {
				continue
			}
			before, after := now.Add(d.RetryAfter-1), now.Add(d.RetryAfter)
			full := d.Overflow || len(pending) >= p.Global || slices.Contains(pending, k)
			if full || len(ends) > 0 && !after.Before(ends[0]) {
				continue
			}
			seen[d.Reason]++
			if len(pending) > 0 {
				seen[0]++
			}
			if l.Check(k, before).Allowed {
				t.Fatalf("%+v: %+v was allowed a nanosecond early", p, d)
			}
			if !l.Check(k, after).Allowed {
				t.Fatalf("%+v: %+v was refused when the time had passed", p, d)
			}
			now = after
		}
	}
	if seen[doorward.Spent] < 1000 || seen[doorward.Ceiling] < 1000 || seen[0] < 1000 {
		t.Errorf("refusals seen: %v", seen)
	}
}

// T2 to T4: a flood while time stands still. Five refusals for each source that has an
// entry, five more for all others.
func TestFlood(t *testing.T) {
	l := throttle.New(throttle.Policy{Global: 1_000_000})
	admitted := 0
	for i := range 20_000 {
		for range 6 {
			if d, ticket := l.Reserve(address(i), start); d.Allowed {
				l.Settle(address(i), ticket, doorward.Failed, start)
				admitted++
			}
		}
	}
	if admitted != 20_485 || l.Tracked() != 4096 {
		t.Errorf("%d admitted, want 20485; %d tracked", admitted, l.Tracked())
	}
}

// T9: sums that are too large end where the clock does not reach.
func TestSaturation(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	l := throttle.New(throttle.Policy{PerSource: 1, Global: 2, Window: forever, Sources: 4, InFlight: 4})
	a, b := address(1), address(2)
	l.Check(a, start)
	l.Refused(a, start.Add(time.Hour))
	late := start.Add(forever).Add(forever).Add(forever)
	for _, now := range []time.Time{start.Add(2 * time.Hour), late, start, {}} {
		if d := l.Blocked(a, now); d.Reason != doorward.Spent || d.RetryAfter <= 0 {
			t.Errorf("at %v: %+v", now, d)
		}
		if d := l.Blocked(b, now); !d.Allowed {
			t.Errorf("at %v: %+v", now, d)
		}
	}
	l.Reserve(b, late)
	if d := l.Blocked(b, late); d.Reason != doorward.Busy || d.RetryAfter <= 0 {
		t.Errorf("%+v", d)
	}
}

// T7: no operation allocates, at a full table and a full pool either.
func TestNothingAllocates(t *testing.T) {
	l, now, i := throttle.New(throttle.Policy{Sources: 64, InFlight: 16}), start, 0
	keys := make([]doorward.Key, 500)
	for j := range keys {
		keys[j] = address(j)
	}
	for name, f := range map[string]func(k doorward.Key){
		"Blocked":         func(k doorward.Key) { l.Blocked(k, now) },
		"Check":           func(k doorward.Key) { l.Check(k, now) },
		"Refused":         func(k doorward.Key) { l.Refused(k, now) },
		"RefusedBySource": func(k doorward.Key) { l.RefusedBySource(k, now) },
		"Accepted":        func(k doorward.Key) { l.Accepted(k, now) },
		"Reserve":         func(k doorward.Key) { l.Reserve(k, now) },
		"Settle": func(k doorward.Key) {
			_, ticket := l.Reserve(k, now)
			l.Settle(k, ticket, doorward.Outcome(i%4), now)
		},
		"Unlock":  func(k doorward.Key) { l.Unlock(k) },
		"Tracked": func(doorward.Key) { l.Tracked() },
		"Clear":   func(doorward.Key) { l.Clear() },
	} {
		for _, k := range keys { // fill the table
			l.RefusedBySource(k, now)
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

// T7: at most 64 bytes per key and 32 per reservation, and a little for the rest.
func TestBytesPerKey(t *testing.T) {
	const keys, inFlight, rest = 1_000_000, 1000, 8192
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := throttle.New(throttle.Policy{Sources: keys, InFlight: inFlight})
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(l)
	perKey := float64(after.TotalAlloc-before.TotalAlloc-32*inFlight-rest) / keys
	if perKey > 64 {
		t.Errorf("%.2f bytes per key, want at most 64", perKey)
	}
	t.Logf("%.2f bytes per key", perKey)
}
