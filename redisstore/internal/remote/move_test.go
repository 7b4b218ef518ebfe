package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/server"
	"github.com/doorward/doorward/throttle"
)

// While a slot moves from server to server, what all keys of a partition share may be on another one than
// the key. Then nothing is decided: else it would be counted twice.
func TestSlotMoves(t *testing.T) {
	for _, x := range []struct {
		name   string
		rule   guard.Rule
		last   string // of what is shared, the end of the key that moves last
		before int    // attempts of others
		after  int    // that are left
	}{
		{"the ceiling of a throttle", guard.Rule{Throttle: &throttle.Policy{PerSource: 2, Global: 5}}, "g", 3, 2},
		{"overflow", guard.Rule{Lockout: lock(3, time.Hour, time.Hour, holds(1))}, "+", 2, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			all := server.Replicated(t, 3, 0)
			var addrs []string
			for _, p := range all {
				addrs = append(addrs, p.Addr)
			}
			client := server.Client(t, addrs...)
			s := New(always(client), config("login", 1))
			r := &rules(t, x.rule)[0]
			at := s.rule(r).place(addr(1))
			base := at.base
			for i := range x.before {
				if d := attempt(t, s, r, addr(1+i), time.Now()); !d.Allowed {
					t.Fatalf("attempt %d: %+v", i, d)
				}
			}
			slot := server.Ask(t, addrs[0], "CLUSTER", "KEYSLOT", at.key)
			from, to := all[0], all[1]
			for _, p := range all {
				if server.Ask(t, p.Addr, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0" {
					from = p
				} else {
					to = p
				}
			}
			tried := false
			server.MoveSlot(t, slot, from, to, all, func(keys []string) []string {
				var some []string
				for _, k := range keys {
					if k != base+x.last {
						some = append(some, k)
					}
				}
				if len(some) > 0 {
					return some
				}
				tried = true
				for _, k := range []doorward.Key{addr(1), addr(2), addr(77)} {
					c := []guard.Charge{{Rule: r, Key: k, Now: time.Now(), MayRefuse: true}}
					if err := s.Reserve(ctx, c); err == nil || !strings.Contains(err.Error(), "TRYAGAIN") {
						t.Errorf("%v: %+v, %v; want TRYAGAIN", k, c[0].Decision, err)
					}
				}
				return keys
			})
			if !tried {
				t.Fatalf("%q is not among the keys", base+x.last)
			}
			admitted := 0
			for i := range 10 {
				if attempt(t, s, r, addr(100+i), time.Now()).Allowed {
					admitted++
				}
			}
			if admitted != x.after {
				t.Errorf("after it moved %d were admitted, want %d", admitted, x.after)
			}
		})
	}
}
