package guard_test

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

func TestParallelWrong(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "burst", Lockout: free(5, time.Minute, time.Minute)},
		guard.Rule{Name: "day", Lockout: decaying(20, 24*time.Hour, time.Minute)},
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: decaying(40, time.Minute, time.Minute)},
	))
	var admitted, ceiling atomic.Int64
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			for {
				p := s.Attempt(from("192.0.2.1"), at(0))
				switch {
				case p.Allowed:
					admitted.Add(1)
					p.Settle(doorward.Failed, at(0))
				case p.Reason == doorward.Busy:
					continue // G15: an edge waits
				case p.Reason == doorward.Ceiling:
					ceiling.Add(1)
				}
				return
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 5 || ceiling.Load() != 0 {
		t.Errorf("%d admitted, %d saw a ceiling; want 5, 0", admitted.Load(), ceiling.Load())
	}
	s.refused(1, from("192.0.2.1"), "burst", 59)
	// Nothing leaked into the other rules: the day rule has 15 left, the site 35.
	for i := range 35 {
		s.admitted(1, from(fmt.Sprintf("192.0.2.%d", 100+i)), doorward.Failed)
	}
	s.refused(1, from("192.0.2.200"), "site", 60)
}

func TestParallelRight(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "burst", Lockout: free(5, time.Minute, time.Minute)},
		guard.Rule{Name: "day", Lockout: decaying(20, 24*time.Hour, time.Minute)},
	))
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			for {
				p := s.Attempt(from("192.0.2.1"), at(0))
				if p.Allowed {
					p.Settle(doorward.Succeeded, at(0))
					return
				}
				if p.Reason != doorward.Busy {
					t.Errorf("refused as %v", p.Reason)
					return
				}
			}
		})
	}
	wg.Wait()
	if v := s.admitted(0, from("192.0.2.1"), doorward.Failed); v.Remaining != 4 {
		t.Errorf("remaining %d after 1,000 right ones, want 4", v.Remaining)
	}
}

// G14: three rules in memory allocate nothing.
func TestAllocations(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "burst", Lockout: free(5, time.Minute, time.Minute)},
		guard.Rule{Name: "day", Lockout: decaying(20, 24*time.Hour, time.Minute)},
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: decaying(40, time.Minute, time.Minute)},
	))
	i := 0
	for _, o := range []doorward.Outcome{doorward.Succeeded, doorward.Failed, doorward.Void, doorward.Malformed} {
		if n := testing.AllocsPerRun(1000, func() {
			i++
			a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			p := s.Attempt(guard.Request{Addr: a}, at(float64(i)))
			p.Settle(o, at(float64(i)))
		}); n != 0 {
			t.Errorf("%v allocations for an attempt that ended as %v, want 0", n, o)
		}
	}
}
