package linear

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

// A limiter is what histories are recorded of.
type limiter interface {
	Attempt(k doorward.Key, now time.Time) doorward.Decision
	Succeeded(k doorward.Key, now time.Time)
	Check(k doorward.Key, now time.Time) doorward.Decision
	Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket)
	Settle(k doorward.Key, t doorward.Ticket, o doorward.Outcome, now time.Time) doorward.Cleared
}

// epoch is the time 0 of histories, and of what they clear.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func name(k int) doorward.Key {
	return doorward.KeyFromAddr(netip.AddrFrom4([4]byte{[...]byte{127, 10, 10, 10, 10, 10}[k], 0, 0, byte(max(k, 1))}))
}

// do makes the call.
func do(l limiter, c call) (out result) {
	k, now := name(c.Key), epoch.Add(time.Duration(c.Now))
	switch c.Op {
	case "attempt":
		out.Decision = l.Attempt(k, now)
	case "succeeded":
		l.Succeeded(k, now)
	case "check":
		out.Decision = l.Check(k, now)
	case "reserve":
		out.Decision, out.Ticket = l.Reserve(k, now)
	case "settle":
		if cleared := l.Settle(k, c.Ticket, c.Outcome, now); cleared.N > 0 {
			out.Cleared, out.First = cleared.N, int64(cleared.First.Sub(epoch))
		}
	}
	return out
}

// Clients of a history, and what each of them does.
const (
	clients = 4
	calls   = 10
)

// policies are small enough that all of their rules take part in a short history.
func policy(r *rand.Rand) lockout.Policy {
	p := lockout.Policy{
		FreeFailures: 1 + r.IntN(3), Window: 60, FirstLockout: 10, MaxLockout: 35, Lease: 15,
		Capacity: 1 + r.IntN(4), InFlight: 64, Decay: r.IntN(3) == 0,
	}
	if r.IntN(3) == 0 {
		p.OnSuccess = lockout.TakeBack
	}
	return p
}

// record lets clients loose on l, all at once, and returns what they saw. The clock they
// share runs while they do; what they read of it may be late when they use it.
func record(l limiter, seed uint64) []porcupine.Operation {
	var clock, order atomic.Int64
	var all [clients][]porcupine.Operation
	var start, done sync.WaitGroup
	start.Add(1)
	for id := range clients {
		done.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(id)))
			var held []call // reservations to settle
			start.Wait()
			for range calls {
				c := next(r, held)
				c.Now = clock.Add(r.Int64N(8))
				began := order.Add(1)
				if r.IntN(2) == 0 {
					runtime.Gosched()
				}
				out := do(l, c)
				all[id] = append(all[id], porcupine.Operation{ClientId: id, Input: c, Call: began, Output: out, Return: order.Add(1)})
				if out.Ticket != (doorward.Ticket{}) {
					held = append(held, call{Key: c.Key, Ticket: out.Ticket})
				}
			}
		})
	}
	start.Done()
	done.Wait()
	var history []porcupine.Operation
	for _, ops := range all {
		history = append(history, ops...)
	}
	return history
}

// next chooses a call. Settlements are mostly of what is held, now and then a second
// time, or for another key.
func next(r *rand.Rand, held []call) call {
	c := call{Key: r.IntN(keys)}
	switch n := r.IntN(20); {
	case n < 6:
		c.Op = "attempt"
	case n < 8:
		c.Op = "check"
	case n < 10:
		c.Op = "succeeded"
	case n < 15 || len(held) == 0:
		c.Op = "reserve"
	default:
		h := held[max(0, len(held)-1-r.IntN(3))]
		c.Op, c.Ticket, c.Outcome = "settle", h.Ticket, doorward.Outcome(r.IntN(4))
		if r.IntN(10) > 0 {
			c.Key = h.Key
		}
	}
	return c
}
