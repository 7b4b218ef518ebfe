package lockout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward/lockout"
)

// What matters of one entry at one instant, everything relative to it.
type spot struct {
	count, lock, clock, forget int8
	leases                     [maxFree]int8 // what is left of each, longest first
}

const maxFree = 3

// strategies finds, tick by tick, the most attempts that any sequence of moves gets
// admitted by then, from an empty entry. best[t] is that maximum at tick t.
func strategies(p rules, reserve bool, ticks int) (best []int) {
	now := map[spot]int{{}: 0} // where one can be, and the most admitted on the way
	for t := range ticks {
		most, next := 0, map[spot]int{}
		todo := make([]spot, 0, len(now))
		for s := range now {
			todo = append(todo, s)
		}
		reach := func(s spot, admitted int) {
			if old, ok := now[s]; !ok || old < admitted {
				now[s] = admitted
				todo = append(todo, s)
			}
		}
		for len(todo) > 0 {
			s := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			admitted := now[s]
			if e := s.at(t); p.reason(e, int64(t)) == 0 {
				p.fail(e, int64(t))
				reach(p.spot(e, t), admitted+1)
				if reserve {
					e = s.at(t)
					e.pending = append(e.pending, &reservation{end: int64(t) + int64(p.Lease)})
					reach(p.spot(e, t), admitted+1)
				}
			}
			for i := range s.at(t).pending { // settle one of them as failed
				e := s.at(t)
				e.pending = slices.Delete(e.pending, i, i+1)
				p.fail(e, int64(t))
				reach(p.spot(e, t), admitted)
			}
		}
		for s, admitted := range now {
			most = max(most, admitted)
			e := s.at(t)
			p.advance(e, int64(t+1))
			s = p.spot(e, t+1)
			next[s] = max(next[s], admitted)
		}
		best = append(best, most)
		now = next
	}
	return best
}

func (s spot) at(t int) *entry {
	e := &entry{count: int(s.count), clock: int64(t) + int64(s.clock), forget: int64(t) + int64(s.forget)}
	if s.lock > 0 {
		e.lockEnd = int64(t) + int64(s.lock)
	}
	for _, l := range s.leases {
		if l > 0 {
			e.pending = append(e.pending, &reservation{end: int64(t) + int64(l)})
		}
	}
	return e
}

func (p rules) spot(e *entry, t int) (s spot) {
	if e.count > 0 {
		s = spot{count: int8(e.count), lock: int8(max(0, e.lockEnd-int64(t)))}
		if p.Decay {
			s.clock = int8(e.clock - int64(t))
		} else {
			s.forget = int8(e.forget - int64(t))
		}
	}
	if len(e.pending) > maxFree {
		panic(name(p) + ": more reservations pending than FreeFailures")
	}
	for i, r := range e.pending {
		s.leases[i] = int8(r.end - int64(t))
	}
	slices.SortFunc(s.leases[:], func(a, b int8) int { return int(b) - int(a) })
	return s
}

// L6: whatever is reserved and however it ends, no more is admitted by any instant
// than the most that attempts get by then. Every strategy is tried, for every small
// policy.
func TestReserveNeverBeatsAttempt(t *testing.T) {
	policies := 0
	for _, p := range smallPolicies() {
		policies++
		ticks := 3*int(p.Window) + 2*int(p.MaxLockout) + 2
		attempts, reserves := strategies(p, false, ticks), strategies(p, true, ticks)
		for i := range ticks {
			if reserves[i] > attempts[i] {
				t.Errorf("%s: by tick %d reservations get %d admitted, attempts %d", name(p), i, reserves[i], attempts[i])
				break
			}
		}
	}
	t.Logf("%d policies", policies)
}

func smallPolicies() (ps []rules) {
	for free := 1; free <= maxFree; free++ {
		for window := 1; window <= 7; window++ {
			for lease := 1; lease <= window; lease++ {
				for _, lockouts := range [][2]int{{1, 1}, {1, 4}, {2, 3}, {3, 3}, {3, 8}, {5, 5}} {
					for _, decay := range []bool{false, true} {
						ps = append(ps, rules(lockout.Policy{
							FreeFailures: free, Window: time.Duration(window), Lease: time.Duration(lease), Decay: decay,
							FirstLockout: time.Duration(lockouts[0]), MaxLockout: time.Duration(lockouts[1]),
						}))
					}
				}
			}
		}
	}
	return ps
}

func name(p rules) string {
	return fmt.Sprintf("free=%d window=%d first=%d max=%d lease=%d decay=%v",
		p.FreeFailures, p.Window, p.FirstLockout, p.MaxLockout, p.Lease, p.Decay)
}
