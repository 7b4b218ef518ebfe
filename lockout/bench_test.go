package lockout

import (
	"net/netip"
	"testing"
	"time"

	"github.com/doorward/doorward"
)

// BenchmarkAttempt attempts on one key and on many, and from ever new ones against a
// full table.
func BenchmarkAttempt(b *testing.B) {
	start := time.Now()
	key := func(i int) doorward.Key {
		return doorward.KeyFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	for _, bm := range []struct {
		name string
		keys int
	}{{"keys=1", 1}, {"keys=4096", 4096}, {"keys=1000000", 1_000_000}} {
		b.Run(bm.name, func(b *testing.B) {
			l, _ := New(Policy{FreeFailures: 60_000, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour, Capacity: 1_000_000})
			keys := make([]doorward.Key, bm.keys)
			for i := range keys {
				keys[i] = key(i)
				l.Attempt(keys[i], start)
			}
			b.ReportAllocs()
			x := uint32(1)
			for i := 0; b.Loop(); i++ {
				x = x*1664525 + 1013904223
				l.Attempt(keys[int(x>>4)%len(keys)], start.Add(time.Duration(i)))
			}
		})
	}
	b.Run("flood=4096", func(b *testing.B) {
		p := Login
		p.Capacity = 4096
		l, _ := New(p)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			l.Attempt(key(i), start.Add(time.Duration(i)))
		}
	})
}
