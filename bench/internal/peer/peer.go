// Package peer puts the limiters that a Go program would choose from, this project's
// and others', behind one interface. Each is made as its own documentation shows, with
// the nearest equivalent of one policy: so many failures, or requests, per client and
// window. It promises that every limiter sees the same callers in the same order.
//
// It gives up what they do not share: that some count failures and others requests, and
// what they do to a caller that is over the limit. Package attack is about that.
package peer

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
)

// Config is the policy that all limiters are made with.
type Config struct {
	Limit  int           // failures or requests per client and Window
	Window time.Duration // and how long each lockout lasts
	Keys   int           // clients told apart, where the limiter has a bound

	InFlight int // reservations pending at once, 0 for the default; ours alone
}

// A Limiter decides on the picks of a Trace.
type Limiter interface {
	// Load prepares for the callers of t, so that Decide finds each of them ready and
	// the next one beside it.
	Load(t Trace)
	// Decide reads the clock once, or lets the limiter read it, and decides on an
	// attempt of pick i, which is counted if it is allowed. Parallel callers are
	// workers 0 and 1.
	Decide(worker, i int) bool
}

// A Shifter is a Limiter that can be told a time ahead of the clock.
type Shifter interface {
	Limiter
	Shift(d time.Duration)
}

// A Peer makes limiters of one kind.
type Peer struct {
	Name string
	Ours bool
	New  func(Config) Limiter
}

// A Trace is a sequence of callers, by number.
type Trace []uint32

// Addr returns the address of caller id, one of 16,777,216.
func Addr(id uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(id >> 16), byte(id >> 8), byte(id)})
}

// Uniform returns n picks among keys callers.
func Uniform(n, keys int) Trace {
	r := rand.New(rand.NewPCG(1, 2))
	t := make(Trace, n)
	for i := range t {
		t[i] = r.Uint32N(uint32(keys))
	}
	return t
}

// Zipf returns n picks among keys callers, some of which call far more often than
// others: the exponent is 1.1.
func Zipf(n, keys int) Trace {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(keys-1))
	// Neighbours in rank are not neighbours in memory.
	at := rand.New(rand.NewPCG(3, 4)).Perm(keys)
	t := make(Trace, n)
	for i := range t {
		t[i] = uint32(at[z.Uint64()])
	}
	return t
}

// Each returns the callers from first on, n of them, once each.
func Each(first, n int) Trace {
	t := make(Trace, n)
	for i := range t {
		t[i] = uint32(first + i)
	}
	return t
}

// texts are the callers of a Trace as strings that lie side by side and hold no
// pointers, so that the collector has nothing to follow that is not the limiter's.
type texts struct {
	all string
	end []uint32
}

func (s *texts) load(t Trace, suffix string) {
	var all []byte
	s.end = make([]uint32, len(t)+1)
	for i, id := range t {
		all = Addr(id).AppendTo(all)
		all = append(all, suffix...)
		s.end[i+1] = uint32(len(all))
	}
	s.all = string(all)
}

func (s *texts) at(i int) string { return s.all[s.end[i]:s.end[i+1]] }

func keys(t Trace) []doorward.Key {
	ks := make([]doorward.Key, len(t))
	for i, id := range t {
		ks[i] = doorward.KeyFromAddr(Addr(id))
	}
	return ks
}
