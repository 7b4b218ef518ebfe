package window_test

import (
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

// BenchmarkAllow asks for one key and for many, a million of which are all that the table
// holds, and for ever new ones on a full table.
func BenchmarkAllow(b *testing.B) {
	fixed := window.Policy{Limit: window.MaxLimit}
	sliding := window.Policy{Limit: 60_000, Window: time.Millisecond, Sliding: true}
	for _, bm := range []struct {
		name           string
		p              window.Policy
		keys, capacity int
	}{
		{"fixed/keys=1", fixed, 1, 4096},
		{"fixed/keys=4096", fixed, 4096, 4096},
		{"fixed/keys=1000000", fixed, 1_000_000, 1_000_000},
		{"fixed/flood=4096", fixed, 1 << 20, 4096},
		{"fixed/flood=65536", fixed, 1 << 20, 65_536},
		{"fixed/flood=1000000", fixed, 1 << 21, 1_000_000},
		{"sliding/keys=1", sliding, 1, 4096},
		{"sliding/keys=4096", sliding, 4096, 4096},
		{"sliding/keys=1000000", sliding, 1_000_000, 1_000_000},
	} {
		b.Run(bm.name, func(b *testing.B) {
			bm.p.Capacity = bm.capacity
			l := must(window.New(bm.p))
			keys := make([]doorward.Key, bm.keys)
			for i := range keys {
				keys[i] = address(i)
				l.Allow(keys[i], start)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Allow(keys[scattered(i, len(keys))], start.Add(time.Duration(i)))
			}
		})
	}
}

// scattered spreads i over 0 to n-1, so that no two that follow each other are close.
func scattered(i, n int) int { return int(uint64(uint32(i)*2654435761) * uint64(n) >> 32) }
