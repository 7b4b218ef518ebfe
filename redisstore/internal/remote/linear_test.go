package remote

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/server"
)

// Parallel histories of several clients, at one moment and so with nothing forgotten, are those
// of a lockout that does one thing after the other: the model below, which is written from the
// rules. Two keys have an entry of their own, more share the overflow entry.
const (
	linearFree = 3
	linearKeys = 4
	linearOwn  = 2
)

type linearCall struct {
	key     int
	settle  bool
	over    bool // of what is settled
	ticket  doorward.Ticket
	outcome doorward.Outcome
}

type linearAnswer struct {
	decision doorward.Decision
	ticket   doorward.Ticket
	cleared  int
}

// A linearState is what is counted: of each key, and last of the overflow entry.
type linearState struct {
	failures, pending [linearKeys + 1]int
	tickets           [40]doorward.Ticket // in flight
}

func (s *linearState) live(k int) bool { return s.failures[k]+s.pending[k] > 0 }

// seat returns who k is charged to.
func (s *linearState) seat(k int) int {
	n := 0
	for other := range linearKeys {
		if s.live(other) {
			n++
		}
	}
	if s.live(k) || n < linearOwn {
		return k
	}
	return linearKeys
}

func (s *linearState) find(t doorward.Ticket) int {
	for i, have := range s.tickets {
		if have == t {
			return i
		}
	}
	return -1
}

func (s linearState) step(c linearCall, a linearAnswer) (bool, linearState) {
	if c.settle {
		i := s.find(c.ticket)
		if i < 0 {
			return a.cleared == 0, s
		}
		s.tickets[i] = doorward.Ticket{}
		k := c.key
		if c.over {
			k = linearKeys
		}
		s.pending[k]--
		want := 0
		switch {
		case c.outcome == doorward.Failed:
			s.failures[k]++
		case c.outcome == doorward.Succeeded && !c.over:
			want, s.failures[k] = s.failures[k], 0
		}
		return a.cleared == want, s
	}
	k := s.seat(c.key)
	want := doorward.Decision{Overflow: k == linearKeys}
	switch left := linearFree - s.failures[k] - s.pending[k]; {
	case s.failures[k] >= linearFree:
		want.Reason, want.RetryAfter = doorward.Locked, time.Hour
	case left > 0:
		want.Allowed, want.Remaining = true, left-1
	default:
		want.Reason, want.RetryAfter = doorward.Busy, time.Second
	}
	if a.decision != want {
		return false, s
	}
	if want.Allowed {
		s.pending[k]++
		s.tickets[s.find(doorward.Ticket{})] = a.ticket
	}
	return true, s
}

var linearModel = porcupine.Model{
	Init: func() any { return linearState{} },
	Step: func(s, in, out any) (bool, any) {
		ok, next := s.(linearState).step(in.(linearCall), out.(linearAnswer))
		return ok, next
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

func TestLinearizable(t *testing.T) {
	at := server.Start(t)
	const clients, calls, histories = 4, 10, 150
	var stores [clients]*Store
	for c := range stores {
		stores[c] = timed(server.Client(t, at), config("", 1))
	}
	overflow, locked, overlaps := 0, 0, 0
	for seed := range uint64(histories) {
		rs := rules(t, guard.Rule{Name: fmt.Sprint("h", seed), OnSuccess: guard.Clear, Lockout: lock(linearFree, time.Hour, time.Hour, holds(linearOwn))})
		var mu sync.Mutex
		var history []porcupine.Operation
		begin := time.Now()
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(c)))
				type held struct {
					charge guard.Charge
					key    int
				}
				var flying []held
				for range calls {
					var in linearCall
					var out linearAnswer
					var called, returned time.Duration
					if n := len(flying); n > 0 && rnd.IntN(2) == 0 {
						h := flying[n-1]
						if rnd.IntN(5) > 0 { // else it is settled twice
							flying = flying[:n-1]
						}
						in = linearCall{key: h.key, settle: true, over: h.charge.Decision.Overflow, ticket: h.charge.Ticket, outcome: []doorward.Outcome{doorward.Failed, doorward.Succeeded, doorward.Void}[rnd.IntN(3)]}
						called = time.Since(begin)
						got := settle(t, stores[c], h.charge, in.outcome, start)
						returned = time.Since(begin)
						out.cleared = got.Cleared.N
					} else {
						in.key = rnd.IntN(linearKeys)
						called = time.Since(begin)
						got := reserve(t, stores[c], &rs[0], addr(in.key), start)
						returned = time.Since(begin)
						out.decision, out.ticket = got.Decision, got.Ticket
						if got.Decision.Allowed {
							flying = append(flying, held{got, in.key})
						}
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: c, Input: in, Output: out, Call: int64(called), Return: int64(returned)})
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for i, op := range history {
			d := op.Output.(linearAnswer).decision
			if d.Overflow {
				overflow++
			}
			if d.Reason == doorward.Locked {
				locked++
			}
			if i > 0 && op.Call < history[i-1].Return {
				overlaps++
			}
		}
		if !porcupine.CheckOperations(linearModel, history) {
			for _, op := range history {
				t.Log(op.ClientId, op.Call, op.Return, linearModel.DescribeOperation(op.Input, op.Output))
			}
			t.Fatalf("seed %d: not linearizable", seed)
		}
	}
	if overflow == 0 || locked == 0 || overlaps == 0 {
		t.Errorf("%d decisions of overflow, %d of lockouts, %d calls that overlapped: nothing was tested", overflow, locked, overlaps)
	}
}
