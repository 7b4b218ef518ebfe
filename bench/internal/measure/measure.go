// Package measure takes the figures that benchmarks report: time and allocations per
// decision, bytes per key, what the collector pays, pauses and floods. It measures one
// limiter in one process, so that no other's memory is in the way; who compares runs
// several processes in turn.
package measure

import (
	"io"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/doorward/doorward/bench/internal/peer"
)

// picks is how long a Trace is. It is far longer than any cache.
const picks = 1 << 20

// A Bench is a limiter with a number of live keys and a sequence of callers.
type Bench struct {
	limiter peer.Limiter
	next    [2]int // where each worker goes on
}

// NewBench makes a limiter that knows keys callers, and loads a trace of them.
func NewBench(p peer.Peer, keys int, zipf bool) *Bench {
	// A limit that only a single hammered key reaches.
	l := p.New(peer.Config{Limit: 60_000, Window: time.Hour, Keys: keys})
	fill(l, keys)
	if zipf {
		l.Load(peer.Zipf(picks, keys))
	} else {
		l.Load(peer.Uniform(picks, keys))
	}
	return &Bench{limiter: l, next: [2]int{0, picks / 2}}
}

func fill(l peer.Limiter, keys int) {
	l.Load(peer.Each(0, keys))
	for i := range keys {
		l.Decide(0, i)
	}
}

// A Speed is what decisions took and allocated, per decision of all workers.
type Speed struct {
	Ns     float64 // on the wall
	CPU    float64 // nanoseconds that this process had a processor
	Allocs float64
}

// Speed decides for d on procs processors, as many workers at once.
func (b *Bench) Speed(procs int, d time.Duration) Speed {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	b.run(procs, forTime(d/10)) // caches, and the collector at its pace
	objects, used, start := mallocs(), processorTime(), time.Now()
	n := float64(b.run(procs, forTime(d)))
	return Speed{float64(time.Since(start)) / n, float64(processorTime()-used) / n, float64(mallocs()-objects) / n}
}

// Allocations returns how many there are in n decisions of each of procs workers.
func (b *Bench) Allocations(procs, n int) int {
	b.run(procs, func(done int) bool { return done < n })
	before := mallocs()
	b.run(procs, func(done int) bool { return done < n })
	return int(mallocs() - before)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func forTime(d time.Duration) func(int) bool {
	end := time.Now().Add(d)
	return func(int) bool { return time.Now().Before(end) }
}

// run lets each worker decide while more says so of what it has done.
func (b *Bench) run(procs int, more func(done int) bool) int {
	var all [2]int
	var wg sync.WaitGroup
	for w := range procs {
		wg.Go(func() {
			i, n := b.next[w], 0
			for ; n == 0 || more(n); n += 1024 {
				for range 1024 {
					b.limiter.Decide(w, i)
					i = (i + 1) & (picks - 1)
				}
			}
			b.next[w], all[w] = i, n
		})
	}
	wg.Wait()
	return all[0] + all[1]
}

// Memory is what a limiter with many keys costs.
type Memory struct {
	BytesPerKey float64
	Scanned     float64       // of these, what a collection looks for pointers in
	With        time.Duration // a forced collection with the limiter live
	Without     time.Duration // and without
}

// Bytes fills a limiter with keys callers and weighs it. Reservations in flight have a
// pool of their own, which is left out.
func Bytes(p peer.Peer, keys int) Memory {
	before, scanned := heap(), scannable()
	l := p.New(peer.Config{Limit: 5, Window: time.Hour, Keys: keys, InFlight: 1})
	for i := range keys {
		l.Load(peer.Each(i, 1)) // a string of its own for each caller
		l.Decide(0, 0)
	}
	l.Load(nil)
	m := Memory{BytesPerKey: float64(heap()-before) / float64(keys)}
	m.Scanned = float64(scannable()-scanned) / float64(keys)
	m.With = collect()
	if c, ok := l.(io.Closer); ok {
		c.Close()
	}
	runtime.KeepAlive(l)
	l = nil
	heap()
	m.Without = collect()
	return m
}

// Held lets n callers attempt once each at a limiter that is set up for keys, and
// returns the bytes that it then holds.
func Held(p peer.Peer, keys, n int) int64 {
	before := heap()
	l := p.New(peer.Config{Limit: 5, Window: time.Hour, Keys: keys})
	for i := range n {
		l.Load(peer.Each(i, 1))
		l.Decide(0, 0)
	}
	l.Load(nil)
	held := heap() - before
	if c, ok := l.(io.Closer); ok {
		c.Close()
	}
	runtime.KeepAlive(l)
	return held
}

// heap returns the bytes that are live.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// scannable returns how much of the heap the last collection looked for pointers in.
func scannable() int64 {
	sample := []metrics.Sample{{Name: "/gc/scan/heap:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

func collect() time.Duration {
	took := make([]time.Duration, 5)
	for i := range took {
		start := time.Now()
		runtime.GC()
		took[i] = time.Since(start)
	}
	return Median(took)
}

// Growth lets keys callers attempt once each at a new limiter, and returns how long the
// longest attempt took. One during which the system gave the processor to others does
// not count.
func Growth(p peer.Peer, keys int) time.Duration {
	l := p.New(peer.Config{Limit: 5, Window: time.Hour, Keys: keys})
	l.Load(peer.Each(0, keys))
	runtime.GC()
	longest := time.Duration(0)
	watch := watchThread()
	defer watch.done()
	last := time.Now()
	for i := range keys {
		l.Decide(0, i)
		now := time.Now()
		if took := now.Sub(last); took > longest && !watch.lost(took) {
			longest = took
		}
		last = now
	}
	return longest
}

// Times are how long single attempts took, with two readings of the clock in each.
// Attempts during which the system gave the processor to others are left out.
type Times struct{ Median, P9999, Longest time.Duration }

// A Flood is a limiter whose table is full of live entries.
type Flood struct {
	limiter  peer.Limiter
	keeps    bool // what it knows, whoever comes
	keys     int
	attempts int  // timed at once, if there is time
	full     bool // of callers that the limiter knows
	fresh    int  // the next caller that was never seen
}

// floodTime is how long attempts are timed at once, at most.
const floodTime = 250 * time.Millisecond

// NewFlood makes a limiter that keys callers fill, to time so many attempts.
func NewFlood(p peer.Peer, keys, attempts int) *Flood {
	l := p.New(peer.Config{Limit: 5, Window: time.Hour, Keys: keys})
	return &Flood{limiter: l, keeps: p.Ours, keys: keys, attempts: attempts, fresh: 1 << 20}
}

// Known times attempts of callers that the table holds.
func (f *Flood) Known() Times {
	f.fill()
	return f.times(func() peer.Trace { return peer.Uniform(f.attempts, f.keys) }, nil)
}

// New times attempts of callers that it does not, each from a new address.
func (f *Flood) New() Times {
	f.fill()
	f.full = f.keeps
	return f.times(func() peer.Trace { return f.strangers(f.attempts) }, nil)
}

// Returning times attempts of callers whose entries have all just been forgotten
// together, once each. The limiter must be a peer.Shifter.
func (f *Flood) Returning() Times {
	return f.forgotten(func(n int) peer.Trace { return peer.Each(0, n) })
}

// Forgotten times attempts from new addresses just after that.
func (f *Flood) Forgotten() Times { return f.forgotten(f.strangers) }

func (f *Flood) forgotten(next func(n int) peer.Trace) Times {
	s, ok := f.limiter.(peer.Shifter)
	if !ok {
		return Times{}
	}
	return f.times(func() peer.Trace { return next(min(f.keys, f.attempts)) }, func() {
		f.full = false
		f.fill()
		s.Shift(1000 * time.Hour) // no lockout lasts as long
		f.full = false
	})
}

func (f *Flood) fill() {
	if f.full {
		return
	}
	if s, ok := f.limiter.(peer.Shifter); ok {
		s.Shift(1000 * time.Hour) // else each caller that returns may cost a scan
	}
	fill(f.limiter, f.keys)
	f.full = true
}

func (f *Flood) strangers(n int) peer.Trace {
	if f.fresh+n > 1<<24 {
		f.fresh = 1 << 20
	}
	t := peer.Each(f.fresh, n)
	f.fresh += n
	return t
}

// times takes traces until there are enough attempts, calling before before each.
func (f *Flood) times(next func() peer.Trace, before func()) Times {
	var took []time.Duration
	var disturbed time.Duration // the shortest of those left out
	watch := watchThread()
	defer watch.done()
	for spent := time.Duration(0); len(took) < f.attempts && spent < floodTime; {
		if before != nil {
			before()
		}
		t := next()
		f.limiter.Load(t)
		if took == nil {
			runtime.GC() // not in the middle of what is timed
		}
		start := time.Now()
		last := start
		for i := range t {
			f.limiter.Decide(0, i)
			now := time.Now()
			if d := now.Sub(last); !watch.lost(d) {
				took = append(took, d)
			} else if disturbed == 0 || d < disturbed {
				disturbed = d
			}
			last = now
			if i%16 == 15 && now.Sub(start) > floodTime {
				break
			}
		}
		spent += last.Sub(start)
	}
	if took == nil {
		took = append(took, disturbed) // each took so long that others had their turn
	}
	slices.Sort(took)
	return Times{took[len(took)/2], took[len(took)*9999/10_000], took[len(took)-1]}
}

// Median returns the middle of vs.
func Median[T interface{ ~int64 | ~float64 }](vs []T) T {
	s := slices.Sorted(slices.Values(vs))
	return s[len(s)/2]
}
