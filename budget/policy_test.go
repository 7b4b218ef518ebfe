package budget_test

import (
	"math"
	"testing"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// Figures worked out by hand.
func TestFigures(t *testing.T) {
	decaying := lockout.Login
	decaying.Decay = true
	// 10, 20, then 35 seconds.
	three := lockout.Policy{FreeFailures: 3, Window: 60 * time.Second, FirstLockout: 10 * time.Second, MaxLockout: 35 * time.Second}
	of := func(free int, window, first, longest time.Duration) budget.Bound {
		return lockoutBound(lockout.Policy{FreeFailures: free, Window: window, FirstLockout: first, MaxLockout: longest})
	}
	decayOf := func(free int, window, first, longest time.Duration) budget.Bound {
		return lockoutBound(lockout.Policy{FreeFailures: free, Window: window, FirstLockout: first, MaxLockout: longest, Decay: true})
	}
	source, all := throttleBounds(throttle.Policy{}) // 5 and 100 a minute
	shared, _ := throttleBounds(throttle.Policy{PerSource: 5, Global: 3})
	fixed, sliding := windowBound(window.Policy{}), windowBound(window.Policy{Sliding: true}) // 10 a minute
	const s, saturated = time.Second, math.MaxInt64

	for _, row := range []struct {
		name string
		b    budget.Bound
		span time.Duration
		want int64
	}{
		{"zero", budget.Bound{}, 0, 0},
		{"zero", budget.Bound{}, day, 0},
		{"zero", budget.Bound{}, ever, 0},

		{"login", lockoutBound(lockout.Login), 0, 0},
		{"login", lockoutBound(lockout.Login), -1, 0},
		{"login", lockoutBound(lockout.Login), math.MinInt64, 0},
		{"login", lockoutBound(lockout.Login), 1, 5},
		{"login", lockoutBound(lockout.Login), time.Minute, 5},
		{"login", lockoutBound(lockout.Login), time.Minute + 1, 9},     // 4, then 5 a minute later
		{"login", lockoutBound(lockout.Login), day, 5761},              // 4 in each of the first 1,439 minutes, 5 in the last
		{"login", lockoutBound(lockout.Login), day + 1, 5765},          // one minute more begins
		{"enroll", lockoutBound(lockout.Enroll), 10 * time.Minute, 8},  // the ladder: 5, at 1, 3 and 7 minutes
		{"enroll", lockoutBound(lockout.Enroll), 13 * time.Minute, 11}, // 4 and 5, and after each a lockout of a minute
		// m rounds cost 10 minutes each and leave the rest of 1,440 to m+1 ladders. With
		// 112: 4 * 112 + 5 attempts, 320 minutes for 113 first rungs and 103 second ones.
		{"enroll", lockoutBound(lockout.Enroll), day, 4*112 + 5 + 113 + 103},
		{"passkey", lockoutBound(lockout.PasskeyLogin), day, 29*1439 + 30},
		{"login, decaying", lockoutBound(decaying), day, 5 + 7199}, // one each 12 seconds, at the end of the last not
		{"login, decaying", lockoutBound(decaying), 12 * s, 5},
		{"login, decaying", lockoutBound(decaying), 12*s + 1, 6},

		{"three", lockoutBound(three), 10 * s, 3},
		{"three", lockoutBound(three), 10*s + 1, 4},
		{"three", lockoutBound(three), 30 * s, 4},
		{"three", lockoutBound(three), 30*s + 1, 5},
		{"three", lockoutBound(three), 60*s + 1, 5}, // as many as two at once, three a window later
		{"three", lockoutBound(three), 65*s + 1, 6}, // 10, 20 and 35 seconds

		// A second's ladder of 1, 2, 4 ... seconds has 2^n - 1 of them behind n lockouts.
		{"ladder", of(1, ever, s, ever), 1023 * s, 1 + 9},
		{"ladder", of(1, ever, s, ever), 1023*s + 1, 1 + 10},
		{"ladder of ns", of(1, ever, 1, ever), ever, 1 + 62}, // 2^63 - 2 ns: 62 rungs, for 63 one is missing
		{"ladder of ns, decaying", decayOf(1, ever, 1, ever), ever, 1 + 62},
		{"once", of(1, ever, ever, ever), ever, 1},
		{"thrice", of(3, ever, ever, ever), ever, 3},
		{"just twice", of(2, ever-1, ever, ever), ever, 3}, // 1, and 2 at the last moment
		{"just twice", of(2, ever-1, ever, ever), ever - 1, 2},
		{"just one more", of(2, ever, ever-1, ever), ever, 3},
		{"just one more, decaying", decayOf(1, ever, ever-1, ever), ever, 2},
		{"half and half, decaying", decayOf(1, ever/2, ever/2, ever/2), ever, 3}, // lockouts alone: step and lockout are twice as long
		{"halves, decaying", decayOf(2, ever, ever, ever), ever, 4},              // steps of 2^62 - 1 ns: at 0, and two of them
		{"each ns", of(1, 1, 1, 1), ever, ever.Nanoseconds()},
		{"each ns, decaying", decayOf(1, 1, 1, 1), ever, ever.Nanoseconds()},
		{"two each ns", of(3, 1, 1, 1), 1 << 61, 1<<62 + 1},
		{"two each ns", of(3, 1, 1, 1), 1 << 62, saturated}, // 2^63 + 1
		{"most each ns", of(65_535, 1, 1, 1), 1000, 65_534*1000 + 1},
		{"most each ns", of(65_535, 1, 1, 1), year, saturated}, // 2 * 10^21
		{"most each ns", of(65_535, 1, ever, ever), ever, saturated},
		{"most each ns, decaying", decayOf(65_535, 1, 1, 1), year, 65_534 + int64(year)}, // a step is at least 1 ns
		{"most each ns, decaying", decayOf(65_535, 1, 1, 1), ever, saturated},

		{"fixed", fixed, 0, 0},
		{"fixed", fixed, 1, 10},
		{"fixed", fixed, 2, 19}, // nine at the end of a window, ten in the next
		{"fixed", fixed, time.Minute, 19},
		{"fixed", fixed, time.Minute + 1, 20},
		{"fixed", fixed, time.Minute + 2, 29},
		{"fixed", fixed, day, 14_409},
		{"fixed, each ns", windowBound(window.Policy{Limit: 10, Window: 1}), day, 10 * int64(day)},
		{"fixed, each ns", windowBound(window.Policy{Limit: 10, Window: 1}), ever, saturated},
		{"fixed, most", windowBound(window.Policy{Limit: math.MaxInt32, Window: 1}), 1 << 32, math.MaxInt32 << 32},
		{"fixed, most", windowBound(window.Policy{Limit: math.MaxInt32, Window: 1}), 1<<32 + 1<<20, saturated},
		{"fixed, ever", windowBound(window.Policy{Limit: 10, Window: ever}), ever, 19},
		{"fixed, one, ever", windowBound(window.Policy{Limit: 1, Window: ever}), ever, 1},

		// Slices of 7.5 seconds; what a slice holds is forgotten nine slices later.
		{"sliding", sliding, 0, 0},
		{"sliding", sliding, 1, 10},
		{"sliding", sliding, time.Minute, 10},
		{"sliding", sliding, time.Minute + 1, 10},
		{"sliding", sliding, time.Minute + 2, 19}, // nine at the end of a slice, ten after eight more
		{"sliding", sliding, 67500 * time.Millisecond, 19},
		{"sliding", sliding, 67500*time.Millisecond + 1, 20},
		{"sliding", sliding, day, 12_809}, // 1,280 times nine slices, and nine in front
		{"sliding, ever", windowBound(window.Policy{Limit: 10, Window: ever, Sliding: true}), ever, 10}, // no Window holds more
		{"sliding, each ns", windowBound(window.Policy{Limit: 65_535, Window: 8, Sliding: true}), 9001, 65_535 * 1001},
		{"sliding, each ns", windowBound(window.Policy{Limit: 65_535, Window: 8, Sliding: true}), ever, saturated},

		{"source", source, 1, 5},
		{"source", source, time.Minute, 9},
		{"source", source, day, 7204},
		{"all", all, 1, 100},
		{"all", all, time.Minute, 199},
		{"all", all, day, 144_099},
		{"source below a lower ceiling", shared, time.Minute, 5},
	} {
		if got := row.b.Most(row.span); got != row.want {
			t.Errorf("%s: Most(%v) is %d, want %d", row.name, row.span, got, row.want)
		}
	}
}

func TestRates(t *testing.T) {
	decaying := lockout.PasskeyLogin
	decaying.Decay = true
	source, all := throttleBounds(throttle.Policy{})
	for _, row := range []struct {
		b    budget.Bound
		want budget.Rate
	}{
		{budget.Bound{}, budget.Rate{Attempts: 0, Per: 1}},
		{lockoutBound(lockout.Login), budget.Rate{Attempts: 4, Per: time.Minute}},
		{lockoutBound(lockout.Enroll), budget.Rate{Attempts: 6, Per: 13 * time.Minute}}, // two lockouts beat none, one and three
		{lockoutBound(lockout.PasskeyLogin), budget.Rate{Attempts: 29, Per: time.Minute}},
		{lockoutBound(decaying), budget.Rate{Attempts: 1, Per: 2 * time.Second}},
		{lockoutBound(lockout.Policy{FreeFailures: 1, Window: 9, FirstLockout: 2, MaxLockout: 7}), budget.Rate{Attempts: 1, Per: 7}},                // riding the longest beats 2 in 9 + 2 + 4
		{lockoutBound(lockout.Policy{FreeFailures: 1, Window: 9, FirstLockout: 2, MaxLockout: 8}), budget.Rate{Attempts: 2, Per: 15}},               // and loses to them
		{lockoutBound(lockout.Policy{FreeFailures: 1, Window: 9, FirstLockout: 2, MaxLockout: 12, Decay: true}), budget.Rate{Attempts: 1, Per: 11}}, // step and first lockout
		{windowBound(window.Policy{}), budget.Rate{Attempts: 10, Per: time.Minute}},
		{windowBound(window.Policy{Sliding: true}), budget.Rate{Attempts: 10, Per: 67500 * time.Millisecond}},
		{source, budget.Rate{Attempts: 5, Per: time.Minute}},
		{all, budget.Rate{Attempts: 100, Per: time.Minute}},
	} {
		if got := row.b.Rate(); got.Compare(row.want) != 0 || got.Per <= 0 {
			t.Errorf("got %v, want %v", got, row.want)
		}
	}

	login := lockoutBound(lockout.Login).Rate()
	if n := login.In(day); n != 5760 {
		t.Errorf("%v in a day, want 5760", n)
	}
	for _, row := range []struct {
		r, s budget.Rate
		want int
	}{
		{budget.Rate{Attempts: 1, Per: 3}, budget.Rate{Attempts: 2, Per: 6}, 0},
		{budget.Rate{Attempts: 0, Per: 3}, budget.Rate{Attempts: 0, Per: 6}, 0},
		{budget.Rate{Attempts: math.MaxInt64, Per: ever}, budget.Rate{Attempts: 1, Per: 1}, 0},
		{budget.Rate{Attempts: math.MaxInt64 - 1, Per: ever}, budget.Rate{Attempts: 1, Per: 1}, -1},
		{budget.Rate{Attempts: math.MaxInt64, Per: ever - 1}, budget.Rate{Attempts: math.MaxInt64 - 1, Per: ever - 2}, -1}, // apart by 10^-38
		{budget.Rate{Attempts: math.MaxInt64, Per: 2}, budget.Rate{Attempts: math.MaxInt64, Per: 3}, 1},
	} {
		if got, back := row.r.Compare(row.s), row.s.Compare(row.r); got != row.want || back != -row.want {
			t.Errorf("%v and %v: %d, %d, want %d", row.r, row.s, got, back, row.want)
		}
	}
}

func TestShortest(t *testing.T) {
	login := lockoutBound(lockout.Login)
	never := lockoutBound(lockout.Policy{FreeFailures: 3, Window: ever, FirstLockout: ever, MaxLockout: ever})
	for _, row := range []struct {
		b    budget.Bound
		n    int64
		want time.Duration
		ok   bool
	}{
		{budget.Bound{}, 0, 0, true},
		{budget.Bound{}, 1, 0, false},
		{login, math.MinInt64, 0, true},
		{login, 0, 0, true},
		{login, 1, 1, true},
		{login, 5, 1, true},
		{login, 6, time.Minute + 1, true},
		{login, 9, time.Minute + 1, true},
		{login, 10, 2*time.Minute + 1, true},
		{login, 5761, 1439*time.Minute + 1, true},
		{login, math.MaxInt64, 0, false},
		{never, 3, 1, true},
		{never, 4, 0, false},
		{windowBound(window.Policy{Limit: 10, Window: ever}), 11, 2, true},
		{windowBound(window.Policy{Limit: 10, Window: ever}), 20, 0, false},
		{lockoutBound(lockout.Policy{FreeFailures: 1, Window: 1, FirstLockout: 1, MaxLockout: 1}), math.MaxInt64, ever, true},
	} {
		if got, ok := row.b.Shortest(row.n); got != row.want || ok != row.ok {
			t.Errorf("Shortest(%d) is %d, %v, want %d, %v", row.n, got, ok, row.want, row.ok)
		}
	}
}

// A policy that no limiter takes has no bound.
func TestPolicyErrors(t *testing.T) {
	for _, row := range []struct {
		bound func() error
		limit func() error
	}{
		{
			func() error { _, err := budget.Lockout(lockout.Policy{}); return err },
			func() error { _, err := lockout.New(lockout.Policy{}); return err },
		},
		{
			func() error { _, err := budget.Window(window.Policy{Limit: -1}); return err },
			func() error { _, err := window.New(window.Policy{Limit: -1}); return err },
		},
		{
			func() error { _, _, err := budget.Throttle(throttle.Policy{PerSource: 65_536}); return err },
			func() error { return throttle.Policy{PerSource: 65_536}.Validate() },
		},
	} {
		if got, want := row.bound(), row.limit(); got == nil || got.Error() != want.Error() {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// A plan ends where its reader does, wherever that is.
func TestPlanEndsEarly(t *testing.T) {
	decaying, single := lockout.Enroll, lockout.Enroll
	decaying.Decay, single.Decay, single.FreeFailures = true, true, 1
	source, _ := throttleBounds(throttle.Policy{})
	for name, b := range map[string]budget.Bound{
		"lockout": lockoutBound(lockout.Enroll), "decaying": lockoutBound(decaying), "single": lockoutBound(single),
		"fixed": windowBound(window.Policy{}), "sliding": windowBound(window.Policy{Sliding: true}), "source": source,
	} {
		steps := 0
		for range b.Plan(time.Hour) {
			steps++
		}
		for stop := 1; stop <= steps; stop++ {
			seen := 0
			for range b.Plan(time.Hour) {
				if seen++; seen == stop {
					break
				}
			}
			if seen != stop {
				t.Errorf("%s: %d steps of a plan of %d, want %d", name, seen, steps, stop)
			}
		}
		for _, span := range []time.Duration{0, -1, math.MinInt64} {
			for at, n := range b.Plan(span) {
				t.Errorf("%s: a plan of %d makes %d at %d", name, span, n, at)
			}
		}
	}
	for at, n := range (budget.Bound{}).Plan(time.Hour) {
		t.Errorf("no bound: a plan makes %d at %d", n, at)
	}
}
