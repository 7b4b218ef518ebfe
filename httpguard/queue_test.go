package httpguard

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/doorward/doorward"
)

// TestQueueModel compares random comings and goings with lines as slices.
func TestQueueModel(t *testing.T) {
	addrs := []netip.Addr{
		{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("127.0.0.1"),
		netip.MustParseAddr("2001:db8:0:1::1"), netip.MustParseAddr("2001:db8:0:1::2"), netip.MustParseAddr("2001:db8:0:2::1"), netip.MustParseAddr("::1"),
	}
	for range 20 {
		var q queue
		q.limit(1 + rand.IntN(40))
		lines := map[doorward.Key][]*waiter{}
		var all []*waiter
		for step := range 2000 {
			if rand.IntN(2) == 0 || step > 1900 {
				if len(all) == 0 {
					continue
				}
				i := rand.IntN(len(all))
				w := all[i]
				all = slices.Delete(all, i, i+1)
				lines[w.network] = slices.DeleteFunc(lines[w.network], func(o *waiter) bool { return o == w })
				q.leave(w)
			} else {
				addr := addrs[rand.IntN(len(addrs))]
				inWide := 0
				for _, w := range all {
					if w.wide == doorward.KeyFromPrefix(addr, 24, 48) {
						inWide++
					}
				}
				w := q.join(addr)
				if (w != nil) != (len(all) < q.max && inWide < max(q.max/4, 1)) {
					t.Fatalf("%d of %d wait, %d in the wide network: joined %v", len(all), q.max, inWide, w != nil)
				}
				if w != nil {
					all, lines[w.network] = append(all, w), append(lines[w.network], w)
				}
			}
			if q.total != len(all) {
				t.Fatalf("%d wait, want %d", q.total, len(all))
			}
			for _, addr := range addrs {
				if q.waits(addr) != (len(lines[doorward.KeyFromAddr(addr)]) > 0) {
					t.Fatalf("%v waits: %v", addr, q.waits(addr))
				}
			}
			for _, line := range lines {
				for i, w := range line {
					if w.isFirst() != (i == 0) {
						t.Fatalf("place %d of %d is first: %v", i, len(line), w.isFirst())
					}
				}
			}
		}
		for _, w := range all {
			q.leave(w)
		}
		if q.total != 0 || len(q.wide) != 0 || len(q.lines) != 0 {
			t.Fatalf("nobody waits: %+v", &q)
		}
	}
}
