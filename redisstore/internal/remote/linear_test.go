package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/process"
	"github.com/doorward/doorward/redisstore/internal/server"
	"golang.org/x/sys/unix"
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
	Key     int
	Settle  bool
	Over    bool // of what is settled
	Ticket  doorward.Ticket
	Outcome doorward.Outcome
}

type linearAnswer struct {
	Decision doorward.Decision
	Ticket   doorward.Ticket
	Cleared  int
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
	if c.Settle {
		i := s.find(c.Ticket)
		if i < 0 {
			return a.Cleared == 0, s
		}
		s.tickets[i] = doorward.Ticket{}
		k := c.Key
		if c.Over {
			k = linearKeys
		}
		s.pending[k]--
		want := 0
		switch {
		case c.Outcome == doorward.Failed:
			s.failures[k]++
		case c.Outcome == doorward.Succeeded && !c.Over:
			want, s.failures[k] = s.failures[k], 0
		}
		return a.Cleared == want, s
	}
	k := s.seat(c.Key)
	want := doorward.Decision{Overflow: k == linearKeys}
	switch left := linearFree - s.failures[k] - s.pending[k]; {
	case s.failures[k] >= linearFree:
		want.Reason, want.RetryAfter = doorward.Locked, time.Hour
	case left > 0:
		want.Allowed, want.Remaining = true, left-1
	default:
		want.Reason, want.RetryAfter = doorward.Busy, time.Second
	}
	if a.Decision != want {
		return false, s
	}
	if want.Allowed {
		s.pending[k]++
		s.tickets[s.find(doorward.Ticket{})] = a.Ticket
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

// linearCalls is how many calls a client makes in a history.
const linearCalls = 10

// A linearOp is a call by the clock of the machine, which all processes have.
type linearOp struct {
	Call         linearCall
	Answer       linearAnswer
	Begun, Ended int64
}

func machineTime(t *testing.T) int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		t.Fatal(err)
	}
	return at.Nano()
}

// linearHistory makes the calls of one client in the history of a seed.
func linearHistory(t *testing.T, s *Store, seed, client uint64) (history []linearOp) {
	rs := rules(t, guard.Rule{Name: fmt.Sprint("h", seed), OnSuccess: guard.Clear, Lockout: lock(linearFree, time.Hour, time.Hour, holds(linearOwn))})
	rnd := rand.New(rand.NewPCG(seed, client))
	type held struct {
		charge guard.Charge
		key    int
	}
	var flying []held
	for range linearCalls {
		var op linearOp
		if n := len(flying); n > 0 && rnd.IntN(2) == 0 {
			h := flying[n-1]
			if rnd.IntN(5) > 0 { // else it is settled twice
				flying = flying[:n-1]
			}
			op.Call = linearCall{Key: h.key, Settle: true, Over: h.charge.Decision.Overflow, Ticket: h.charge.Ticket, Outcome: []doorward.Outcome{doorward.Failed, doorward.Succeeded, doorward.Void}[rnd.IntN(3)]}
			op.Begun = machineTime(t)
			got := settle(t, s, h.charge, op.Call.Outcome, start)
			op.Ended = machineTime(t)
			op.Answer.Cleared = got.Cleared.N
		} else {
			op.Call.Key = rnd.IntN(linearKeys)
			op.Begun = machineTime(t)
			got := reserve(t, s, &rs[0], addr(op.Call.Key), start)
			op.Ended = machineTime(t)
			op.Answer.Decision, op.Answer.Ticket = got.Decision, got.Ticket
			if got.Decision.Allowed {
				flying = append(flying, held{got, op.Call.Key})
			}
		}
		history = append(history, op)
	}
	return history
}

// checkLinear checks histories, of which client makes that of one client for a seed.
func checkLinear(t *testing.T, clients, histories int, client func(seed uint64, c int) []linearOp) {
	overflow, locked, overlaps := 0, 0, 0
	for seed := range uint64(histories) {
		all := make([][]linearOp, clients)
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() { all[c] = client(seed, c) })
		}
		wg.Wait()
		var history []porcupine.Operation
		var last int64
		for c, ops := range all {
			for _, op := range ops {
				history = append(history, porcupine.Operation{ClientId: c, Input: op.Call, Output: op.Answer, Call: op.Begun, Return: op.Ended})
			}
		}
		slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range history {
			d := op.Output.(linearAnswer).Decision
			if d.Overflow {
				overflow++
			}
			if d.Reason == doorward.Locked {
				locked++
			}
			if op.Call < last {
				overlaps++
			}
			last = max(last, op.Return)
		}
		if len(history) != clients*linearCalls || !porcupine.CheckOperations(linearModel, history) {
			for _, op := range history {
				t.Log(op.ClientId, op.Call, op.Return, linearModel.DescribeOperation(op.Input, op.Output))
			}
			t.Fatalf("seed %d: not linearizable", seed)
		}
	}
	t.Logf("%d decisions of overflow, %d of lockouts, %d calls that overlapped", overflow, locked, overlaps)
	if overflow == 0 || locked == 0 || overlaps == 0 {
		t.Error("nothing was tested")
	}
}

func TestLinearizable(t *testing.T) {
	at := server.Start(t)
	const clients = 4
	var stores [clients]*Store
	for c := range stores {
		stores[c] = timed(server.Client(t, at), config("", 1))
	}
	checkLinear(t, clients, 150, func(seed uint64, c int) []linearOp {
		return linearHistory(t, stores[c], seed, uint64(c))
	})
}

// TestLinearClient is a client in a process of its own. For "SEED" it answers its history.
func TestLinearClient(t *testing.T) {
	process.Serve(t, func(args []string) func(string) string {
		s := timed(server.Client(t, args[0]), config("", 1))
		client, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ahead, err := strconv.ParseInt(args[2], 10, 64) // all must make their calls at one moment
		if err != nil {
			t.Fatal(err)
		}
		start = time.UnixMicro(ahead)
		return func(line string) string {
			seed, err := strconv.ParseUint(line, 10, 64)
			if err != nil {
				return "what?"
			}
			b, err := json.Marshal(linearHistory(t, s, seed, client))
			if err != nil {
				return err.Error()
			}
			return string(b)
		}
	})
}

// Those of several processes are, too.
func TestLinearizableProcesses(t *testing.T) {
	at := server.Start(t)
	var clients []*process.Process
	for c := range 4 {
		clients = append(clients, process.Start(t, "TestLinearClient", at, fmt.Sprint(c), fmt.Sprint(start.UnixMicro())))
	}
	checkLinear(t, len(clients), 150, func(seed uint64, c int) (history []linearOp) {
		clients[c].Say(t, "%d", seed)
		if text := clients[c].Hear(t); json.Unmarshal([]byte(text), &history) != nil {
			t.Errorf("a process answered %q", text)
		}
		return history
	})
}
