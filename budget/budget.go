// Package budget computes the bound: how many attempts one key, or whoever commands
// many of them, is admitted at worst in a span of time. The bound of one policy is
// exact: the best strategy there is reaches it (staying just below the lockout,
// riding it, waiting until it is forgotten, or any mix), and Plan tells when it
// makes its attempts. The bound of a door with several rules is the least of theirs,
// which together they may keep lower still; Play says how far a caller really gets.
//
// What counts are attempts that are charged and stay charged: wrong guesses under a
// lockout or a throttle, all requests under a window. Right guesses are not bounded;
// where one clears a key, wrong ones start anew after it, and so they do after Unlock,
// Clear and a restart. Voided attempts do not count, but one that began a window leaves
// its clock running: then one request more may fit in before the window ends. Likewise
// what a login gives back leaves the clock of a decaying lockout running: one guess may
// come earlier, by less than a step. Malformed attempts are no guesses: under a throttle
// they are charged to the source alone.
//
// Every answer is computed from the policy, not simulated: in microseconds, for any
// span from a nanosecond to 292 years. Counts that do not fit end at the largest int64.
// Nothing here reads a clock.
package budget

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"time"

	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// A Bound is how many attempts one key is admitted under one policy. The zero Bound
// admits none.
type Bound struct{ curve curve }

// A curve is the bound of one kind of policy. Spans are in nanoseconds and positive.
type curve interface {
	most(span int64) int64
	rate() Rate
	plan(span int64) iter.Seq2[int64, int64]
}

// Lockout returns the bound of one key under p, or the error that lockout.New returns.
// The worst span begins with the first attempt of an empty entry.
func Lockout(p lockout.Policy) (Bound, error) {
	if err := p.Validate(); err != nil {
		return Bound{}, err
	}
	l := doubling(int64(p.FirstLockout), int64(p.MaxLockout))
	if p.Decay {
		return Bound{decaying{ladder: l, free: int64(p.FreeFailures), step: max(1, int64(p.Window)/int64(p.FreeFailures))}}, nil
	}
	return Bound{forgetting{ladder: l, free: int64(p.FreeFailures), window: int64(p.Window)}}, nil
}

// Window returns the bound of one key under p, or the error that window.New returns.
// The worst span begins where one window ends: of a fixed one, twice Limit less one in
// a span of one Window.
func Window(p window.Policy) (Bound, error) {
	if err := p.Validate(); err != nil {
		return Bound{}, err
	}
	p = p.WithDefaults()
	if p.Sliding {
		return Bound{sliding{limit: int64(p.Limit), slice: (int64(p.Window)-1)/8 + 1}}, nil
	}
	return Bound{fixed{limit: int64(p.Limit), window: int64(p.Window)}}, nil
}

// Throttle returns the bound of one source and that of all together under p, or the
// error of p.Validate.
func Throttle(p throttle.Policy) (source, all Bound, err error) {
	if err := p.Validate(); err != nil {
		return Bound{}, Bound{}, err
	}
	p = p.WithDefaults()
	of := func(limit int) Bound { return Bound{fixed{limit: int64(limit), window: int64(p.Window)}} }
	return of(min(p.PerSource, p.Global)), of(p.Global), nil
}

// Most returns the most attempts that are admitted in any half-open span of this
// length, whatever came before.
func (b Bound) Most(span time.Duration) int64 {
	if b.curve == nil || span <= 0 {
		return 0
	}
	return b.curve.most(int64(span))
}

// Rate returns how often attempts are admitted in the long run.
func (b Bound) Rate() Rate {
	if b.curve == nil {
		return Rate{0, 1}
	}
	return b.curve.rate()
}

// Shortest returns the shortest span in which n attempts may be admitted. ok is false
// if there is none within 292 years.
func (b Bound) Shortest(n int64) (span time.Duration, ok bool) { return shortest(b.Most, n) }

// shortest inverts a bound, which never falls as spans grow.
func shortest(most func(time.Duration) int64, n int64) (time.Duration, bool) {
	if n <= 0 {
		return 0, true
	}
	if most(math.MaxInt64) < n {
		return 0, false
	}
	low, high := time.Duration(0), time.Duration(math.MaxInt64) // most(low) < n <= most(high)
	for high-low > 1 {
		if mid := low + (high-low)/2; most(mid) < n {
			low = mid
		} else {
			high = mid
		}
	}
	return high, true
}

// Plan returns a schedule that reaches Most(span): how many attempts to make at which
// time, counted from the beginning of the span. Times never fall, but one may come
// twice. What comes before the beginning, at negative times, is not counted. It may be
// long: a lockout with Decay has an attempt at each step.
func (b Bound) Plan(span time.Duration) iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		if b.curve == nil || span <= 0 {
			return
		}
		for at, n := range b.curve.plan(int64(span)) {
			if n > 0 && !yield(time.Duration(at), n) {
				return
			}
		}
	}
}

// Rate is a number of attempts per a span of time.
type Rate struct {
	Attempts int64
	Per      time.Duration // positive
}

// In returns how many attempts a span has room for at this rate.
func (r Rate) In(span time.Duration) float64 {
	return float64(r.Attempts) * (float64(span) / float64(r.Per))
}

// Compare returns -1, 0 or +1 as r is lower than, equal to or higher than s.
func (r Rate) Compare(s Rate) int {
	rh, rl := bits.Mul64(uint64(r.Attempts), uint64(s.Per))
	sh, sl := bits.Mul64(uint64(s.Attempts), uint64(r.Per))
	return cmp.Or(cmp.Compare(rh, sh), cmp.Compare(rl, sl))
}

func duration(ns int64) time.Duration { return time.Duration(ns) }

// add and mul saturate. Their arguments are not negative.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func mul(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
