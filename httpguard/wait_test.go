package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

// occupy takes one attempt of the caller, which keeps a network with one free failure
// Busy until it is settled.
func occupy(t *testing.T, g *guard.Guard, caller string) *guard.Permit {
	t.Helper()
	p := g.Attempt(guard.Request{Addr: addr(caller)}, time.Now())
	if !p.Allowed {
		t.Fatal(p.Verdict)
	}
	return &p
}

// TestWait: how long a request waits for a Busy key, and what it gets.
func TestWait(t *testing.T) {
	for _, tt := range []struct {
		name       string
		after      time.Duration // until the other attempt is settled
		as         doorward.Outcome
		gone       time.Duration // until the caller hangs up
		max        int           // MaxWaiting
		status     int
		retryAfter string
		from, to   time.Duration // when it is answered
		left       int           // attempts then
	}{
		{"freed", 300 * ms, doorward.Succeeded, 0, 0, 401, "", 300 * ms, 350 * ms, 0},
		{"freed at once", 0, doorward.Succeeded, 0, 0, 401, "", 0, 50 * ms, 0},
		{"freed at the last moment", 1000*ms - 1, doorward.Succeeded, 0, 0, 401, "", 1000*ms - 1, 1000 * ms, 0},
		{"freed too late", 1000*ms + 1, doorward.Succeeded, 0, 0, 429, "1", 1000 * ms, 1000 * ms, 1},
		{"locked", 300 * ms, doorward.Failed, 0, 0, 429, "60", 300 * ms, 350 * ms, 0},
		{"gone", 500 * ms, doorward.Succeeded, 200 * ms, 0, 429, "1", 200 * ms, 200 * ms, 1},
		{"gone before", 500 * ms, doorward.Succeeded, 1, 0, 429, "1", 1, 1, 1},
		{"nobody may wait", 300 * ms, doorward.Succeeded, 0, -1, 429, "1", 0, 0, 1},
		{"one may wait", 300 * ms, doorward.Succeeded, 0, 1, 401, "", 300 * ms, 350 * ms, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, perNetwork(1))
				gate := newGate(t, httpguard.Options{Guard: g, MaxWaiting: tt.max})
				other := occupy(t, g, "192.0.2.7")
				start := time.Now()
				var answered time.Duration
				time.AfterFunc(tt.after, func() { other.Settle(tt.as, time.Now()) })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.gone > 0 {
					time.AfterFunc(tt.gone, cancel)
				}
				h := gate.Handler(wrong)
				w := do(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					answered = time.Since(start)
				}), from("192.0.2.7", "POST", "x").WithContext(ctx))
				if w.Code != tt.status || w.Header().Get("Retry-After") != tt.retryAfter {
					t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
				}
				if answered < tt.from || answered > tt.to {
					t.Errorf("answered after %v, want %v to %v", answered, tt.from, tt.to)
				}
				time.Sleep(2 * time.Second) // virtual: the other attempt is over by now
				if n := remaining(g, "192.0.2.7"); n != tt.left {
					t.Errorf("%d attempts left, want %d", n, tt.left)
				}
			})
		})
	}
}

// late is a context that is done from a time on, of which Done tells nothing yet: the
// caller hangs up in the moment in which the gate asks again.
type late struct {
	context.Context
	from time.Time
}

func (late) Done() <-chan struct{} { return nil }

func (l late) Err() error {
	if time.Now().Before(l.from) {
		return nil
	}
	return context.Canceled
}

// TestGoneWhenFreed: even if the key is free in the moment in which the caller hangs
// up, nothing is charged.
func TestGoneWhenFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, perNetwork(1))
		gate := newGate(t, httpguard.Options{Guard: g})
		other := occupy(t, g, "192.0.2.7")
		start := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { other.Settle(doorward.Void, time.Now()) })
		ctx := late{t.Context(), start.Add(100 * time.Millisecond)}
		if p := gate.Check(from("192.0.2.7", "POST", "").WithContext(ctx)); p.Verdict().Allowed {
			t.Error("admitted")
		}
		if d := time.Since(start); d < 100*time.Millisecond || d > 150*time.Millisecond {
			t.Errorf("answered after %v", d)
		}
		synctest.Wait()
		if remaining(g, "192.0.2.7") != 1 {
			t.Error("charged")
		}
	})
}

const (
	far  = "2001:db8:%x::%x"
	near = "2001:db8:0:%x::%x"
)

// TestMaxWaiting: who may wait, in all and of one network, which is in a /48 of its own
// unless the callers are neighbours.
func TestMaxWaiting(t *testing.T) {
	for _, tt := range []struct {
		max, callers, each int
		wait               int    // in all
		caller             string // the networks of the callers
	}{
		{8, 1, 5, 2, far},
		{8, 1, 2, 2, far},
		{8, 1, 1, 1, far},
		{8, 4, 2, 8, far},
		{8, 5, 2, 8, far},
		{8, 9, 1, 8, far},
		{1, 1, 2, 1, far},
		{3, 1, 2, 1, far},
		{3, 4, 2, 3, far},
		{-1, 3, 3, 0, far},
		{0, 1, 300, 256, far},
		{0, 5, 256, 1024, far},
		{8, 4, 2, 2, near},
		{8, 2, 1, 2, near},
		{8, 3, 1, 2, near},
		{0, 4, 100, 256, near},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, perNetwork(1))
				gate := newGate(t, httpguard.Options{Guard: g, MaxWaiting: tt.max})
				for round := range 2 { // whoever waited has left the queue
					var permits []*guard.Permit
					for c := range tt.callers {
						permits = append(permits, occupy(t, g, fmt.Sprintf(tt.caller, c, 1)))
					}
					var waited atomic.Int64
					var wg sync.WaitGroup
					for c := range tt.callers {
						for i := range tt.each {
							wg.Go(func() {
								start := time.Now()
								// One subscriber's addresses are one network.
								p := gate.Check(from(fmt.Sprintf(tt.caller, c, i), "POST", ""))
								if p.Verdict().Allowed {
									t.Error("admitted")
								}
								if time.Since(start) > 0 {
									waited.Add(1)
								}
							})
						}
					}
					wg.Wait()
					if n := int(waited.Load()); n != tt.wait {
						t.Errorf("round %d: %d waited, want %d", round, n, tt.wait)
					}
					for _, p := range permits {
						p.Settle(doorward.Void, time.Now())
					}
				}
			})
		})
	}
}

// store is a guard.Store that answers as it is told.
type store struct {
	mu       sync.Mutex
	answer   func() (doorward.Decision, error)
	settle   error
	asked    []time.Time
	settled  []doorward.Outcome
	canceled bool // a context was, when settling
}

func (s *store) Reserve(ctx context.Context, charges []guard.Charge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	d, err := s.answer()
	for i := range charges {
		charges[i].Decision, charges[i].Ticket = d, doorward.Ticket{A: 1}
	}
	return err
}

func (s *store) Settle(ctx context.Context, charges []guard.Charge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceled = s.canceled || ctx.Err() != nil
	s.settled = append(s.settled, charges[0].Outcome)
	return s.settle
}

func stored(t *testing.T, s *store) *guard.Guard {
	c := perNetwork(5)
	c.Store = s
	return newGuard(t, c)
}

// TestPolls: a Busy key is asked for at intervals of 5 to 15 ms, that are not the same
// for all.
func TestPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 50 {
			s := &store{answer: func() (doorward.Decision, error) {
				return doorward.Decision{Reason: doorward.Busy, RetryAfter: time.Second}, nil
			}}
			gate := newGate(t, httpguard.Options{Guard: stored(t, s)})
			start := time.Now()
			gate.Check(from("192.0.2.7", "POST", ""))
			if d := time.Since(start); d != time.Second {
				t.Errorf("waited %v", d)
			}
			for i := 1; i < len(s.asked); i++ {
				d := s.asked[i].Sub(s.asked[i-1])
				seen[d] = true
				if last := i == len(s.asked)-1; d > 15*time.Millisecond || d < 5*time.Millisecond && !last {
					t.Errorf("asked again after %v", d)
				}
			}
			if n := len(s.asked); n < 68 || n > 201 {
				t.Errorf("asked %d times", n)
			}
		}
		if len(seen) < 100 {
			t.Errorf("only %d different intervals", len(seen))
		}
	})
}

// TestStoreFails: what cannot be decided is refused, and what cannot be settled is
// reported.
func TestStoreFails(t *testing.T) {
	down := errors.New("down")
	for _, d := range []doorward.Decision{{}, {Allowed: true}, {Reason: doorward.Locked}} {
		s := &store{answer: func() (doorward.Decision, error) { return d, down }}
		reached, calls := false, record()
		var refused *httpguard.Permit
		gate := newGate(t, httpguard.Options{Guard: stored(t, s), Settled: calls.callback, Refuse: func(w http.ResponseWriter, r *http.Request, v guard.Verdict) {
			refused = httpguard.FromRequest(r)
			httpguard.Refuse(w, r, v)
		}})
		w := do(gate.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })), from("192.0.2.7", "POST", "x"))
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || reached {
			t.Errorf("%+v: %d %v, reached %v", d, w.Code, w.Header(), reached)
		}
		if v := refused.Verdict(); v.Reason != doorward.Unavailable || v.Allowed || !errors.Is(refused.Err(), down) || refused.Settle(doorward.Succeeded) {
			t.Errorf("%+v: %+v, %v", d, v, refused.Err())
		}
		calls.none(t)
	}

	s := &store{settle: down, answer: func() (doorward.Decision, error) { return doorward.Decision{Allowed: true}, nil }}
	calls := record()
	gate := newGate(t, httpguard.Options{Guard: stored(t, s), Settled: calls.callback})
	do(gate.Handler(wrong), from("192.0.2.7", "POST", "x"))
	if got := calls.next(t); got.outcome != doorward.Failed || !errors.Is(got.permit.Err(), down) {
		t.Errorf("settled as %v, %v", got.outcome, got.permit.Err())
	}
}

// TestSettleOutlivesCaller: who hangs up does not keep the store from hearing of it.
func TestSettleOutlivesCaller(t *testing.T) {
	s := &store{answer: func() (doorward.Decision, error) { return doorward.Decision{Allowed: true}, nil }}
	ctx, cancel := context.WithCancel(t.Context())
	h := newGate(t, httpguard.Options{Guard: stored(t, s)}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	h.ServeHTTP(httptest.NewRecorder(), from("192.0.2.7", "POST", "x").WithContext(ctx))
	if s.canceled || len(s.settled) != 1 {
		t.Errorf("settled %v, canceled %v", s.settled, s.canceled)
	}
}
