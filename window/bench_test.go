package window_test

import (
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

// BenchmarkAllow asks for one key and for many, and for ever new ones against a full
// table.
func BenchmarkAllow(b *testing.B) {
	for _, bm := range []struct {
		name string
		p    window.Policy
		keys int
	}{
		{"fixed/keys=1", window.Policy{Limit: 60_000}, 1},
		{"fixed/keys=65536", window.Policy{Limit: 60_000}, 65_536},
		{"fixed/flood", window.Policy{Capacity: 4096}, 1 << 20},
		{"sliding/keys=1", window.Policy{Limit: 60_000, Window: time.Millisecond, Sliding: true}, 1},
		{"sliding/keys=65536", window.Policy{Limit: 60_000, Window: time.Millisecond, Sliding: true}, 65_536},
		{"sliding/flood", window.Policy{Capacity: 4096, Sliding: true}, 1 << 20},
	} {
		b.Run(bm.name, func(b *testing.B) {
			l := must(window.New(bm.p))
			keys := make([]doorward.Key, bm.keys)
			for i := range keys {
				keys[i] = address(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Allow(keys[i%len(keys)], start.Add(time.Duration(i)))
			}
		})
	}
}
