package throttle_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/throttle"
)

// BenchmarkReserve reserves and settles on one key and on many, a million of which are
// all that the table holds, and from ever new ones on a full table.
func BenchmarkReserve(b *testing.B) {
	for _, bm := range []struct {
		name          string
		keys, sources int
	}{
		{"keys=1", 1, 4096}, {"keys=4096", 4096, 4096}, {"keys=1000000", 1_000_000, 1_000_000},
		{"flood=4096", 1 << 20, 4096}, {"flood=65536", 1 << 20, 65_536}, {"flood=1000000", 1 << 21, 1_000_000},
	} {
		b.Run(bm.name, func(b *testing.B) {
			l := throttle.New(throttle.Policy{PerSource: 60_000, Global: math.MaxInt, Sources: bm.sources})
			keys := make([]doorward.Key, bm.keys)
			for i := range keys {
				keys[i] = address(i)
				l.RefusedBySource(keys[i], start)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k, now := keys[scattered(i, len(keys))], start.Add(time.Duration(i))
				_, ticket := l.Reserve(k, now)
				l.Settle(k, ticket, doorward.Failed, now)
			}
		})
	}
}

// BenchmarkBlocked asks and charges nothing.
func BenchmarkBlocked(b *testing.B) {
	for _, n := range []int{1, 4096, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			l := throttle.New(throttle.Policy{Global: math.MaxInt, Sources: 1_000_000})
			keys := make([]doorward.Key, n)
			for i := range keys {
				keys[i] = address(i)
				l.Refused(keys[i], start)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Blocked(keys[scattered(i, n)], start.Add(time.Duration(i)))
			}
		})
	}
}

// scattered spreads i over 0 to n-1, so that no two that follow each other are close.
func scattered(i, n int) int { return int(uint64(uint32(i)*2654435761) * uint64(n) >> 32) }
