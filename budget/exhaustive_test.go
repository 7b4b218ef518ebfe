package budget_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// A game is what can be done to one entry, in whole nanoseconds. The zero S remembers
// nothing.
type game[S comparable] struct {
	moves func(S) []move[S] // what takes no time
	wait  func(S) S         // one nanosecond
}

// A move leads to a state, and admits an attempt or none.
type move[S comparable] struct {
	to       S
	admitted int64
}

// worst plays every strategy from every state that any other strategy can have left
// behind. worst[n] is the most attempts admitted in a span of n nanoseconds.
func (g game[S]) worst(spans int) []int64 {
	var states []S
	type edge struct {
		to       int
		admitted int64
	}
	var moves [][]edge
	var wait []int
	number := map[S]int{}
	find := func(s S) int {
		i, ok := number[s]
		if !ok {
			i = len(states)
			number[s], states = i, append(states, s)
		}
		return i
	}
	find(*new(S))
	for i := 0; i < len(states); i++ {
		var es []edge
		for _, m := range g.moves(states[i]) {
			es = append(es, edge{find(m.to), m.admitted})
		}
		moves, wait = append(moves, es), append(wait, find(g.wait(states[i])))
	}

	// Moves never lead back, so in this order every state comes before where it leads.
	var order []int
	seen := make([]bool, len(states))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, e := range moves[i] {
			visit(e.to)
		}
		order = append(order, i)
	}
	for i := range states {
		visit(i)
	}
	slices.Reverse(order)

	worst := make([]int64, spans+1)
	now, next := make([]int64, len(states)), make([]int64, len(states))
	for n := 1; n <= spans; n++ {
		for i := range next {
			next[i] = math.MinInt64 / 2 // not reached
		}
		for _, i := range order {
			for _, e := range moves[i] {
				now[e.to] = max(now[e.to], now[i]+e.admitted)
			}
			worst[n] = max(worst[n], now[i])
			next[wait[i]] = max(next[wait[i]], now[i])
		}
		now, next = next, now
	}
	return worst
}

// compare holds a bound against the worst that was found: in every span, the other way
// round, and in the long run.
func compare(t *testing.T, name string, b budget.Bound, worst []int64) {
	t.Helper()
	for n, want := range worst {
		if got := b.Most(time.Duration(n)); got != want {
			t.Errorf("%s: Most(%d) is %d, want %d", name, n, got, want)
			return
		}
	}
	n := int64(0)
	for span, most := range worst {
		for ; n <= most; n++ { // the first span that holds n
			if got, ok := b.Shortest(n); got != time.Duration(span) || !ok {
				t.Errorf("%s: Shortest(%d) is %d, %v, want %d", name, n, got, ok, span)
				return
			}
		}
	}
	// Once all that is worth it only once is over, as many come in each period.
	rate := b.Rate()
	for last := len(worst) - 1; last > len(worst)*3/4; last-- {
		first := last - len(worst)/2/int(rate.Per)*int(rate.Per)
		if first == last {
			t.Fatalf("%s: %v is too long a period to see here", name, rate)
		}
		if got, periods := worst[last]-worst[first], int64(last-first)/int64(rate.Per); got != periods*rate.Attempts {
			t.Errorf("%s: %d in %d periods of %v", name, got, periods, rate)
			return
		}
	}
}

// knocks is one entry of a lockout. What is left of a time is counted down.
type knocks struct {
	failures, locked uint8
	memory           uint8            // until all failures are forgotten
	clock            uint8            // with Decay, until one is
	leases           [maxLeases]uint8 // of what is pending, the longest first
}

const maxLeases = 3

// failed is L2, L4 and L10.
func (s knocks) failed(p lockout.Policy) knocks {
	if s.failures == 0 && p.Decay {
		s.clock = uint8(max(1, int(p.Window)/p.FreeFailures))
	}
	s.failures++
	length := func(failures uint8) uint8 {
		d := p.FirstLockout
		for range int(failures) - p.FreeFailures {
			d = min(2*d, p.MaxLockout)
		}
		return uint8(d)
	}
	if over := int(s.failures) > p.FreeFailures; over && length(s.failures-1) == uint8(p.MaxLockout) {
		s.failures-- // with Decay a rule, else all the same
	}
	if int(s.failures) >= p.FreeFailures {
		s.locked = length(s.failures)
		s.clock = s.locked + uint8(max(1, int(p.Window)/p.FreeFailures))
	}
	if p.Decay {
		return s
	}
	s.clock, s.memory = 0, s.locked+uint8(p.Window)
	return s
}

func (s knocks) pending() (n int) {
	for _, left := range s.leases {
		if left > 0 {
			n++
		}
	}
	return n
}

// with returns s with another lease in place of one of them.
func (s knocks) with(old, lease uint8) knocks {
	s.leases[slices.Index(s.leases[:], old)] = lease
	slices.SortFunc(s.leases[:], func(a, b uint8) int { return int(b) - int(a) })
	return s
}

func lockoutGame(p lockout.Policy, reserve bool) game[knocks] {
	return game[knocks]{
		moves: func(s knocks) (ms []move[knocks]) {
			pending := s.pending()
			if s.locked == 0 && (int(s.failures)+pending < p.FreeFailures || pending == 0) { // L3, L6
				ms = append(ms, move[knocks]{s.failed(p), 1})
				if reserve {
					ms = append(ms, move[knocks]{s.with(0, uint8(p.Lease)), 1})
				}
			}
			for i := range pending {
				ms = append(ms, move[knocks]{s.with(s.leases[i], 0).failed(p), 0})
			}
			return ms
		},
		wait: func(s knocks) knocks {
			if s.locked > 0 {
				s.locked--
			}
			if s.memory > 0 {
				if s.memory--; s.memory == 0 {
					s.failures = 0
				}
			}
			if s.clock > 0 {
				if s.clock--; s.clock == 0 {
					if s.failures--; s.failures > 0 {
						s.clock = uint8(max(1, int(p.Window)/p.FreeFailures))
					}
				}
			}
			before := s.pending()
			for i := range before {
				s.leases[i]--
			}
			for range before - s.pending() { // L7
				s = s.failed(p)
			}
			return s
		},
	}
}

func nanoseconds(p lockout.Policy) string {
	return fmt.Sprintf("free=%d window=%d first=%d max=%d decay=%v lease=%d",
		p.FreeFailures, p.Window, p.FirstLockout, p.MaxLockout, p.Decay, p.Lease)
}

func lockoutBound(p lockout.Policy) budget.Bound {
	b, err := budget.Lockout(p)
	if err != nil {
		panic(err)
	}
	return b
}

func windowBound(p window.Policy) budget.Bound {
	b, err := budget.Window(p)
	if err != nil {
		panic(err)
	}
	return b
}

func throttleBounds(p throttle.Policy) (source, all budget.Bound) {
	source, all, err := budget.Throttle(p)
	if err != nil {
		panic(err)
	}
	return source, all
}

func TestEveryStrategyAgainstLockout(t *testing.T) {
	for free := 1; free <= 4; free++ {
		for window := 1; window <= 8; window++ {
			for first := 1; first <= 4; first++ {
				for longest := first; longest <= 9; longest++ {
					for _, decay := range []bool{false, true} {
						p := lockout.Policy{
							FreeFailures: free, Window: time.Duration(window), Decay: decay,
							FirstLockout: time.Duration(first), MaxLockout: time.Duration(longest),
						}
						compare(t, nanoseconds(p), lockoutBound(p), lockoutGame(p, false).worst(100))
					}
				}
			}
		}
	}
}

// Ladders of many rungs, where rounds of different heights compete.
func TestEveryStrategyAgainstHighLadders(t *testing.T) {
	for free := 1; free <= 3; free++ {
		for _, window := range []int{1, 2, 3, 5, 7, 11, 13, 23} {
			for _, lockouts := range [][2]int{{1, 32}, {1, 50}, {2, 50}, {3, 49}} {
				for _, decay := range []bool{false, true} {
					p := lockout.Policy{
						FreeFailures: free, Window: time.Duration(window), Decay: decay,
						FirstLockout: time.Duration(lockouts[0]), MaxLockout: time.Duration(lockouts[1]),
					}
					compare(t, nanoseconds(p), lockoutBound(p), lockoutGame(p, false).worst(800))
				}
			}
		}
	}
}

// L6 holds from every state, not only from an empty entry: what is pending when the
// span begins, and however it ends, is worth nothing.
func TestReservationsNeverBeatTheBound(t *testing.T) {
	for free := 1; free <= maxLeases; free++ {
		for window := 1; window <= 4; window++ {
			for lease := 1; lease <= window; lease++ {
				for _, lockouts := range [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 3}, {3, 3}, {5, 5}} {
					for _, decay := range []bool{false, true} {
						p := lockout.Policy{
							FreeFailures: free, Window: time.Duration(window), Decay: decay, Lease: time.Duration(lease),
							FirstLockout: time.Duration(lockouts[0]), MaxLockout: time.Duration(lockouts[1]),
						}
						compare(t, nanoseconds(p), lockoutBound(p), lockoutGame(p, true).worst(60))
					}
				}
			}
		}
	}
}

// reel is the slices of a window, the current one first. A fixed window is one slice.
type reel struct {
	counts [9]uint8
	age    uint8 // of the current one
}

func (s reel) sum() (n int) {
	for _, c := range s.counts {
		n += int(c)
	}
	return n
}

// windowGame is W1 and W2.
func windowGame(p window.Policy) game[reel] {
	counting, length := 1, uint8(p.Window)
	if p.Sliding {
		counting, length = 9, uint8((p.Window+7)/8)
	}
	return game[reel]{
		moves: func(s reel) (ms []move[reel]) {
			if s.sum() < p.Limit {
				s.counts[0]++
				ms = append(ms, move[reel]{s, 1})
			}
			return ms
		},
		wait: func(s reel) reel {
			if s.age++; s.age == length {
				copy(s.counts[1:counting], s.counts[:])
				s.counts[0], s.age = 0, 0
			}
			if s.sum() == 0 {
				return reel{} // at rest: the next one begins a slice
			}
			return s
		},
	}
}

func TestEveryStrategyAgainstWindow(t *testing.T) {
	for limit := 1; limit <= 4; limit++ {
		for length := 1; length <= 9; length++ {
			p := window.Policy{Limit: limit, Window: time.Duration(length)}
			compare(t, fmt.Sprintf("%+v", p), windowBound(p), windowGame(p).worst(100))
		}
		for _, length := range []int{1, 8, 11, 16, 24} { // rounded up to 8, 8, 16, 16, 24
			p := window.Policy{Limit: limit, Window: time.Duration(length), Sliding: true}
			compare(t, fmt.Sprintf("%+v", p), windowBound(p), windowGame(p).worst(120))
		}
	}
}

// A tally is a fixed window: what it counts, and for how long still.
type tally struct{ count, left uint8 }

func (s tally) charged(window time.Duration) tally {
	if s.count == 0 {
		s.left = uint8(window)
	}
	s.count++
	return s
}

func (s tally) wait() tally {
	if s.left--; s.count == 0 || s.left == 0 {
		return tally{}
	}
	return s
}

// spent is a throttle as one source and all together see it. What is pending is still
// so when the span is over: a lease is a minute.
type spent struct {
	own, all               tally
	ownPending, allPending uint8
}

func (s spent) room(p throttle.Policy) (own, all bool) { // R2, R7
	return int(s.own.count+s.ownPending) < p.PerSource, int(s.all.count+s.allPending) < p.Global
}

func (s spent) wait() spent {
	s.own, s.all = s.own.wait(), s.all.wait()
	return s
}

// throttleMoves are what one source can do and what others do to the count of all.
// What admits counts for the one or for all.
func throttleMoves(p throttle.Policy, reserve, forAll bool) func(s spent) []move[spent] {
	mine, others := int64(1), int64(0)
	if forAll {
		others = 1
	}
	return func(s spent) (ms []move[spent]) {
		own, all := s.room(p)
		add := func(admitted int64, change func(s *spent)) {
			s := s
			change(&s)
			ms = append(ms, move[spent]{s, admitted})
		}
		failed := func(s *spent) { s.own, s.all = s.own.charged(p.Window), s.all.charged(p.Window) } // R3
		if own && all {
			add(mine, failed)
		}
		if all { // a source of which nothing is remembered
			add(others, func(s *spent) { s.all = s.all.charged(p.Window) })
		}
		if !reserve {
			return ms
		}
		if own && all {
			add(mine, func(s *spent) { s.ownPending++; s.allPending++ })
		}
		if all {
			add(others, func(s *spent) { s.allPending++ })
		}
		if s.ownPending > 0 {
			add(0, func(s *spent) { s.ownPending--; s.allPending--; failed(s) })
		}
		if s.allPending > s.ownPending {
			add(0, func(s *spent) { s.allPending--; s.all = s.all.charged(p.Window) })
			if !forAll {
				add(0, func(s *spent) { s.allPending-- }) // not failed: nothing of it is counted
			}
		}
		return ms
	}
}

func TestEveryStrategyAgainstThrottle(t *testing.T) {
	for perSource := 1; perSource <= 3; perSource++ {
		for global := 1; global <= 4; global++ {
			for length := 1; length <= 4; length++ {
				p := throttle.Policy{PerSource: perSource, Global: global, Window: time.Duration(length)}
				source, all := throttleBounds(p)
				for _, reserve := range []bool{false, true} {
					name := fmt.Sprintf("%+v, reserve %v, ", p, reserve)
					g := game[spent]{throttleMoves(p, reserve, false), spent.wait}
					compare(t, name+"source", source, g.worst(40))
					g = game[spent]{throttleMoves(p, reserve, true), spent.wait}
					compare(t, name+"all", all, g.worst(40))
				}
			}
		}
	}
}
