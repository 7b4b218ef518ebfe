package count

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/doorward/doorward"
)

func key(addr string) doorward.Key { return doorward.KeyFromAddr(netip.MustParseAddr(addr)) }

// TestLimits: as many as the limits say, one more not, and room again after one left.
func TestLimits(t *testing.T) {
	for all := range 4 {
		c := New(all, 1)
		for i := range all {
			if !c.Enter() {
				t.Errorf("limit %d: number %d has no room", all, i+1)
			}
		}
		if c.Enter() {
			t.Errorf("limit %d: one more has room", all)
		}
		if c.N() != all {
			t.Errorf("limit %d: %d are there", all, c.N())
		}
		for range all {
			c.Leave()
		}
		if c.N() != 0 {
			t.Errorf("limit %d: %d are there after all left", all, c.N())
		}
		for range all {
			c.Enter()
		}
		if all > 0 {
			if c.Leave(); !c.Enter() || c.Enter() {
				t.Errorf("limit %d: not one more after one left", all)
			}
		}
	}
	c := New(9, 2)
	a, b := key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::")
	if !c.Join(a) || !c.Join(b) || c.Join(a) {
		t.Error("one /64 is not one network of two")
	}
	if !c.Join(key("2001:db8:1:3::")) {
		t.Error("one network takes the room of another")
	}
	if c.Part(b); !c.Join(a) || c.Join(a) {
		t.Error("not one more after one parted")
	}
	c.Part(a)
	c.Part(a)
	c.Part(key("2001:db8:1:3::"))
	if len(c.per) != 0 {
		t.Errorf("%d networks are remembered that have nothing here", len(c.per))
	}
}

// TestRace: what enters at once passes no limit.
func TestRace(t *testing.T) {
	c := New(50, 20)
	var entered, joined atomic.Int64
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if c.Enter() {
				entered.Add(1)
			}
			if c.Join(key("192.0.2.1")) {
				joined.Add(1)
			}
		})
	}
	wg.Wait()
	if entered.Load() != 50 || joined.Load() != 20 {
		t.Errorf("%d entered and %d joined, want 50 and 20", entered.Load(), joined.Load())
	}
}
