package throttle_test

import (
	"math"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/throttle"
)

// BenchmarkReserve reserves and settles on one key and on many, and from ever new ones
// against a full table.
func BenchmarkReserve(b *testing.B) {
	for _, bm := range []struct {
		name string
		keys int
		end  doorward.Outcome
	}{{"keys=1", 1, doorward.Succeeded}, {"keys=4096", 4096, doorward.Failed}, {"flood", 1 << 20, doorward.Failed}} {
		b.Run(bm.name, func(b *testing.B) {
			l := throttle.New(throttle.Policy{PerSource: 60_000, Global: math.MaxInt})
			keys := make([]doorward.Key, bm.keys)
			for i := range keys {
				keys[i] = address(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k, now := keys[i%len(keys)], start.Add(time.Duration(i))
				_, ticket := l.Reserve(k, now)
				l.Settle(k, ticket, bm.end, now)
			}
		})
	}
}
