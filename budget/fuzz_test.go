package budget_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/window"
)

// FuzzMost compares small policies with every strategy there is, and asks large ones
// for what holds of any bound.
func FuzzMost(f *testing.F) {
	f.Add(uint8(0), uint16(5), uint64(10), uint64(1), uint64(60), uint64(90), uint64(200))
	f.Add(uint8(1), uint16(1), uint64(7), uint64(3), uint64(20), uint64(80), uint64(10))
	f.Add(uint8(1), uint16(65_535), uint64(math.MaxUint64), uint64(1), uint64(math.MaxUint64), uint64(1)<<50, uint64(math.MaxUint64))
	f.Add(uint8(2), uint16(4), uint64(9), uint64(0), uint64(0), uint64(30), uint64(60))
	f.Add(uint8(3), uint16(3), uint64(16), uint64(0), uint64(0), uint64(41), uint64(18))
	f.Add(uint8(3), uint16(65_535), uint64(math.MaxUint64), uint64(0), uint64(0), uint64(math.MaxUint64), uint64(1)<<62)
	f.Fuzz(func(t *testing.T, kind uint8, limit uint16, length, first, longest, a, b uint64) {
		within := func(n, most uint64) time.Duration { return time.Duration(1 + n%most) }
		var bound budget.Bound
		var name string
		kind %= 4
		if kind < 2 {
			p := lockout.Policy{FreeFailures: 1 + int(limit)%65_535, Window: within(length, math.MaxInt64), FirstLockout: within(first, math.MaxInt64), Decay: kind == 1}
			p.MaxLockout = p.FirstLockout + time.Duration(longest%uint64(ever-p.FirstLockout+1))
			bound, name = lockoutBound(p), nanoseconds(p)
			small := p
			small.FreeFailures, small.Window, small.FirstLockout = 1+int(limit)%6, within(length, 40), within(first, 20)
			small.MaxLockout = small.FirstLockout + within(longest, 60) - 1
			small.Lease = 0
			agree(t, nanoseconds(small), lockoutBound(small), lockoutGame(small, false).worst(400))
		} else {
			p := window.Policy{Limit: 1 + int(limit)%65_535, Window: within(length, math.MaxInt64), Sliding: kind == 3}
			bound, name = windowBound(p), fmt.Sprintf("%+v", p)
			small := window.Policy{Limit: 1 + int(limit)%4, Window: within(length, 40), Sliding: kind == 3}
			agree(t, fmt.Sprintf("%+v", small), windowBound(small), windowGame(small).worst(200))
		}

		// The bound of two spans end to end is no more than that of both.
		long, short := within(max(a, b), math.MaxInt64), within(min(a, b), math.MaxInt64)
		long, short = max(long, short), min(long, short)
		most := bound.Most
		if most(short) > most(long) {
			t.Errorf("%s: %d in %d, but %d in %d", name, most(short), short, most(long), long)
		}
		if short <= ever-long {
			if both, sum := most(long+short), most(long)+most(short); both > sum && sum > 0 {
				t.Errorf("%s: %d in %d + %d, %d and %d in each", name, both, long, short, most(long), most(short))
			}
		}
		if n := most(long); n < math.MaxInt64 {
			if span, ok := bound.Shortest(n); !ok || span > long || most(span) != n || most(span-1) >= n {
				t.Errorf("%s: Shortest(%d) is %d, %v", name, n, span, ok)
			}
		}
		// No plan makes more than Most says, and what a plan makes it makes in the span.
		var sum int64
		steps := 0
		for at, n := range bound.Plan(long) {
			if at >= long || n <= 0 {
				t.Errorf("%s: a plan of %d makes %d at %d", name, long, n, at)
			}
			if at >= 0 {
				sum += n
			}
			if steps++; steps > 1000 {
				return
			}
		}
		if sum != most(long) {
			t.Errorf("%s: a plan of %d makes %d, Most is %d", name, long, sum, most(long))
		}
	})
}

func agree(t *testing.T, name string, b budget.Bound, worst []int64) {
	t.Helper()
	for n, want := range worst {
		if got := b.Most(time.Duration(n)); got != want {
			t.Fatalf("%s: Most(%d) is %d, want %d", name, n, got, want)
		}
	}
}
