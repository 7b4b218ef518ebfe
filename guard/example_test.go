package guard_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

// A lockout that outlives the process.
func ExampleGuard_Save() {
	key := bytes.Repeat([]byte("?"), guard.MinStateKey) // random bytes of your own
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	caller := guard.Request{Addr: netip.MustParseAddr("192.0.2.7")}

	g, _ := guard.New(guard.Pairing)
	for range 5 {
		p := g.Attempt(caller, start)
		p.Settle(doorward.Failed, start)
	}
	var file bytes.Buffer
	if err := g.Save(&file, key, start.Add(10*time.Second)); err != nil {
		fmt.Println(err)
	}

	// The next process, 15 seconds later.
	now := start.Add(25 * time.Second)
	g, _ = guard.New(guard.Pairing)
	if _, err := g.Load(&file, key, now); err != nil {
		fmt.Println(err) // start without it, or do not start
	}
	found, _ := g.Lookup(caller, now)
	for _, f := range found {
		if !f.LockedUntil.IsZero() {
			fmt.Println(f.Rule, f.Key, "failed", f.Count, "times, retry in", f.Decision.RetryAfter)
		}
	}
	// Output: network 192.0.2.7 failed 5 times, retry in 35s
}
