package httpguard_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

const ms = time.Millisecond

// arrival is what one request got.
type arrival struct {
	verdict guard.Verdict
	after   time.Duration // from the start of the test
}

// A scene is a gate and when who came. All requests are of one /64 unless said
// otherwise.
type scene struct {
	t     *testing.T
	gate  *httpguard.Gate
	start time.Time
	wg    sync.WaitGroup
}

func play(t *testing.T, o httpguard.Options) *scene {
	return &scene{t: t, gate: newGate(t, o), start: time.Now()}
}

// come lets a request come after a time, stay for hold if it is admitted, and be
// taken back then. What it got is there when the scene is over.
func (s *scene) come(ctx context.Context, addr string, after, hold time.Duration, admitted func()) *arrival {
	a := new(arrival)
	s.wg.Go(func() {
		time.Sleep(after - time.Since(s.start))
		p := s.gate.Check(from(addr, "POST", "").WithContext(ctx))
		a.verdict, a.after = p.Verdict(), time.Since(s.start)
		if a.verdict.Allowed {
			if admitted != nil {
				admitted()
			}
			time.Sleep(hold)
			p.Void()
		}
	})
	return a
}

// TestFirstCome: within a network who came first is served first, with others who
// come all the time.
func TestFirstCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, httpguard.Options{Guard: newGuard(t, perNetwork(1))})
		var order, want []int
		for i := range 100 {
			want = append(want, i)
			// One comes every 7 ms and stays for 2 ms, but the first stays for 90.
			hold := 2 * ms
			if i == 0 {
				hold = 90 * ms
			}
			s.come(t.Context(), fmt.Sprintf("2001:db8::%x", i), time.Duration(i)*7*ms, hold, func() { order = append(order, i) })
		}
		s.wg.Wait()
		if !slices.Equal(order, want) {
			t.Errorf("served %v", order)
		}
	})
}

// TestTurns: a hundred connections of one network do not keep a neighbour from a key
// that both charge.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, guard.Config{Rules: []guard.Rule{{V4: 24, V6: -1, Lockout: free(1)}}})
		h := newGate(t, httpguard.Options{Guard: g}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * ms) // virtual
			httpguard.FromRequest(r).Succeeded()
		}))
		over := make(chan struct{})
		var wg sync.WaitGroup
		attacks := 0
		var mu sync.Mutex
		for range 100 {
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					if w := do(h, from("192.0.2.66", "POST", "")); w.Code == 200 {
						mu.Lock()
						attacks++
						mu.Unlock()
					}
				}
			})
		}
		synctest.Wait()
		served := 0
		for range 100 {
			if w := do(h, from("192.0.2.7", "POST", "")); w.Code == 200 {
				served++
			}
		}
		close(over)
		wg.Wait()
		// They take turns, so that nobody loses a second's worth of them.
		if served != 100 || attacks < 20 {
			t.Errorf("served %d of 100 times, the others %d times", served, attacks)
		}
	})
}

// TestFront: what happens to those behind when the first of a line leaves, and to who
// comes when there is no place. The key is busy for another from the beginning.
func TestFront(t *testing.T) {
	here := func(n int) string { return fmt.Sprintf("2001:db8::%x", n) }
	type want struct {
		reason   doorward.Reason // 0: admitted
		from, to time.Duration
	}
	for _, tt := range []struct {
		name    string
		after   time.Duration // until the other is settled
		as      doorward.Outcome
		max     int
		comes   []time.Duration
		gone    time.Duration // until the first hangs up
		want    []want
		exempts bool // the last
	}{
		{"the first is gone", 1 * ms, doorward.Void, 0, []time.Duration{0, 0, 0}, 2 * ms,
			[]want{{doorward.Busy, 2 * ms, 2 * ms}, {0, 2 * ms, 2 * ms}, {0, 7 * ms, 17 * ms}}, false},
		{"all are locked", 1 * ms, doorward.Failed, 0, []time.Duration{0, 0, 2 * ms, 3 * ms}, 0,
			[]want{{doorward.Locked, 5 * ms, 15 * ms}, {doorward.Locked, 5 * ms, 15 * ms}, {doorward.Locked, 2 * ms, 2 * ms}, {doorward.Locked, 3 * ms, 3 * ms}}, false},
		{"nobody overtakes", 1 * ms, doorward.Void, 0, []time.Duration{0, 2 * ms}, 0,
			[]want{{0, 5 * ms, 15 * ms}, {0, 10 * ms, 30 * ms}}, false},
		{"no place", 1 * ms, doorward.Void, 4, []time.Duration{0, 2 * ms}, 0,
			[]want{{0, 5 * ms, 15 * ms}, {doorward.Busy, 2 * ms, 2 * ms}}, false},
		{"no place, and locked", 1 * ms, doorward.Failed, 4, []time.Duration{0, 2 * ms}, 0,
			[]want{{doorward.Locked, 5 * ms, 15 * ms}, {doorward.Locked, 2 * ms, 2 * ms}}, false},
		{"exempt", 100 * ms, doorward.Void, 4, []time.Duration{0, 2 * ms}, 0,
			[]want{{0, 100 * ms, 115 * ms}, {0, 2 * ms, 2 * ms}}, true},
		{"a second each", 3 * time.Second, doorward.Void, 0, []time.Duration{0, 0, 400 * ms}, 0,
			[]want{{doorward.Busy, 1000 * ms, 1000 * ms}, {doorward.Busy, 1000 * ms, 1000 * ms}, {doorward.Busy, 1400 * ms, 1400 * ms}}, false},
		{"a second each, and locked", 999 * ms, doorward.Failed, 0, []time.Duration{0, 0, 0}, 0,
			[]want{{doorward.Locked, 999 * ms, 1000 * ms}, {doorward.Locked, 999 * ms, 1000 * ms}, {doorward.Locked, 999 * ms, 1000 * ms}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := perNetwork(1)
				c.Exempt = prefixes("2001:db8::ffff/128")
				g := newGuard(t, c)
				other := occupy(t, g, here(0))
				s := play(t, httpguard.Options{Guard: g, MaxWaiting: tt.max})
				time.AfterFunc(tt.after, func() { other.Settle(tt.as, time.Now()) })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.gone > 0 {
					time.AfterFunc(tt.gone, cancel)
				}
				var got []*arrival
				var mu sync.Mutex
				var order []int
				for i, after := range tt.comes {
					caller, of := here(i+1), t.Context()
					if i == 0 {
						of = ctx
					}
					if tt.exempts && i == len(tt.comes)-1 {
						caller = here(0xffff)
					}
					got = append(got, s.come(of, caller, after, 2*ms, func() { mu.Lock(); order = append(order, i); mu.Unlock() }))
					synctest.Wait() // one after the other
				}
				s.wg.Wait()
				for i, w := range tt.want {
					a := got[i]
					if a.verdict.Reason != w.reason || a.verdict.Allowed != (w.reason == 0) || a.after < w.from || a.after > w.to {
						t.Errorf("%d: %v after %v, want %v after %v to %v", i, a.verdict.Reason, a.after, w.reason, w.from, w.to)
					}
				}
				time.Sleep(5 * time.Second)
				if n := remaining(g, here(1)); n != 1 && tt.as != doorward.Failed {
					t.Errorf("%d attempts left", n)
				}
				if !tt.exempts && !slices.IsSorted(order) {
					t.Errorf("order %v", order)
				}
			})
		})
	}
}

// TestGoneInLine: who hangs up in the middle of a line is charged nothing, and those
// behind keep their places.
func TestGoneInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, perNetwork(1))
		other := occupy(t, g, "192.0.2.7")
		s := play(t, httpguard.Options{Guard: g})
		time.AfterFunc(100*ms, func() { other.Settle(doorward.Void, time.Now()) })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		var order []int
		for i := range 9 {
			of := t.Context()
			if i%3 == 1 {
				of = ctx
			}
			a := s.come(of, "192.0.2.7", time.Duration(i)*ms, 2*ms, func() { order = append(order, i) })
			if i%3 == 1 {
				defer func() {
					if a.verdict.Reason != doorward.Busy || a.after != 50*ms {
						t.Errorf("%d: %+v", i, a)
					}
				}()
			}
		}
		s.wg.Wait()
		if want := []int{0, 2, 3, 5, 6, 8}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
		if n := remaining(g, "192.0.2.7"); n != 1 {
			t.Errorf("%d attempts left", n)
		}
	})
}

// TestSlowFirst: who waits behind a request that a store leaves without an answer
// waits a second all the same, and asks nothing.
func TestSlowFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		slow := &store{answer: func() (doorward.Decision, error) {
			if asked++; asked == 2 {
				time.Sleep(3 * time.Second) // virtual
			}
			return doorward.Decision{Reason: doorward.Busy, RetryAfter: time.Second}, nil
		}}
		s := play(t, httpguard.Options{Guard: stored(t, slow)})
		s.come(t.Context(), "192.0.2.7", 0, 0, nil)
		behind := s.come(t.Context(), "192.0.2.7", 1*ms, 0, nil)
		s.wg.Wait()
		if behind.verdict.Reason != doorward.Busy || behind.after != 1001*ms || asked != 2 {
			t.Errorf("%+v, asked %d times", behind, asked)
		}
	})
}
