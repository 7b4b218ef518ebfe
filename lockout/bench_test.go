package lockout_test

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

var benchmarkSizes = []int{1, 4096, 1_000_000}

// benchmarkPolicy admits all that a benchmark asks for: its lockouts take a nanosecond.
func benchmarkPolicy(capacity int) lockout.Policy {
	return lockout.Policy{FreeFailures: 60_000, Window: time.Minute, FirstLockout: 1, MaxLockout: 1, Capacity: capacity}
}

func benchmarkKeys(n int) []doorward.Key {
	keys := make([]doorward.Key, n)
	for i := range keys {
		keys[i] = doorward.KeyFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	return keys
}

// fill attempts once on each of n keys that benchmarkKeys has not, a nanosecond apart.
func fill(l *lockout.Limiter, n int, start time.Time) {
	for i := range n {
		l.Attempt(doorward.KeyFromAddr(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})), start.Add(time.Duration(i)))
	}
}

// A lottery draws evenly, and cheaply.
type lottery uint32

func (x *lottery) draw(n int) int {
	*x = *x*1664525 + 1013904223
	return int(uint64(*x) * uint64(n) >> 32)
}

// BenchmarkAttempt attempts on one key and on many at random, all of which the table
// holds; a million are all that it can.
func BenchmarkAttempt(b *testing.B) {
	for _, n := range benchmarkSizes {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			l, keys, start := must(lockout.New(benchmarkPolicy(1_000_000))), benchmarkKeys(n), time.Now()
			for i, k := range keys {
				l.Attempt(k, start.Add(time.Duration(i)))
			}
			start = start.Add(time.Duration(n))
			b.ReportAllocs()
			var x lottery
			for i := 0; b.Loop(); i++ {
				l.Attempt(keys[x.draw(n)], start.Add(time.Duration(i)))
			}
		})
	}
}

// BenchmarkFloor does what no limiter can do without: it hashes a key, takes a lock that
// is free, and counts in one of as many places of 64 bytes.
func BenchmarkFloor(b *testing.B) {
	for _, n := range benchmarkSizes {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			keys, seed, places := benchmarkKeys(n), maphash.MakeSeed(), make([][8]uint64, n)
			for i := range places {
				places[i][0] = 1
			}
			var mu sync.Mutex
			var x lottery
			for b.Loop() {
				var buf [18]byte
				keys[x.draw(n)].AppendBinary(buf[:0])
				hash := maphash.Bytes(seed, buf[:])
				mu.Lock()
				places[hash>>32*uint64(n)>>32][0]++
				mu.Unlock()
			}
		})
	}
}

// BenchmarkFlood attempts from a new address each time on a table that is full: of live
// entries, and of ones that were all forgotten at the same time.
func BenchmarkFlood(b *testing.B) {
	for _, n := range []int{4096, 65_536, 1_000_000} {
		b.Run(fmt.Sprintf("live=%d", n), func(b *testing.B) {
			l, keys, start := must(lockout.New(benchmarkPolicy(n))), benchmarkKeys(1<<20), time.Now()
			fill(l, n, start)
			start = start.Add(time.Duration(n))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Attempt(keys[i&(1<<20-1)], start.Add(time.Duration(i)))
			}
		})
		b.Run(fmt.Sprintf("forgotten=%d", n), func(b *testing.B) {
			l, keys, start := must(lockout.New(benchmarkPolicy(n))), benchmarkKeys(1<<20), time.Now()
			fill(l, n, start)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%n == 0 {
					start = start.Add(time.Hour)
				}
				l.Attempt(keys[i&(1<<20-1)], start.Add(time.Duration(i)))
			}
		})
	}
}

// BenchmarkReserve reserves and settles on one key and on many at random.
func BenchmarkReserve(b *testing.B) {
	for _, n := range benchmarkSizes {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			l, keys, start := must(lockout.New(benchmarkPolicy(1_000_000))), benchmarkKeys(n), time.Now()
			for i, k := range keys {
				l.Attempt(k, start.Add(time.Duration(i)))
			}
			start = start.Add(time.Duration(n))
			b.ReportAllocs()
			var x lottery
			for i := 0; b.Loop(); i++ {
				k, now := keys[x.draw(n)], start.Add(time.Duration(i))
				_, ticket := l.Reserve(k, now)
				l.Settle(k, ticket, doorward.Failed, now)
			}
		})
	}
}

// BenchmarkParallel attempts from every processor, on one key and on many. Compare -cpu 1,2.
func BenchmarkParallel(b *testing.B) {
	for _, n := range benchmarkSizes {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			l, keys, start := must(lockout.New(benchmarkPolicy(1_000_000))), benchmarkKeys(n), time.Now()
			for i, k := range keys {
				l.Attempt(k, start.Add(time.Duration(i)))
			}
			start = start.Add(time.Duration(n))
			b.ReportAllocs()
			var workers atomic.Uint32
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				x := lottery(workers.Add(1) << 16)
				for i := 0; pb.Next(); i++ {
					l.Attempt(keys[x.draw(n)], start.Add(time.Duration(i)))
				}
			})
		})
	}
}
