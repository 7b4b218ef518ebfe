package faulty

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// Free is a lockout after n failures, with a lease of four seconds.
func Free(n int, window, lockoutFor time.Duration, capacity int) *lockout.Policy {
	return &lockout.Policy{FreeFailures: n, Window: window, FirstLockout: lockoutFor, MaxLockout: time.Hour, Capacity: capacity, Lease: 4 * time.Second, InFlight: 64}
}

func decaying(n int, window, lockoutFor time.Duration, capacity int) *lockout.Policy {
	p := Free(n, window, lockoutFor, capacity)
	p.Decay = true
	return p
}

// Rules are of every kind, with little room in some tables.
func Rules() []guard.Rule {
	return []guard.Rule{
		{Name: "burst", Lockout: Free(3, 10*time.Second, 5*time.Second, 3)},
		{Name: "day", Lockout: decaying(6, time.Minute, 3*time.Second, 64)},
		{Name: "site", V4: 24, V6: 48, Lockout: decaying(8, time.Minute, 2*time.Second, 2)},
		{Name: "site6", V4: -1, V6: 32, Lockout: decaying(20, time.Minute, 2*time.Second, 1)},
		{Name: "trial", Action: guard.Shadow, Lockout: Free(2, 20*time.Second, 5*time.Second, 64)},
		{Name: "work", Throttle: &throttle.Policy{PerSource: 5, Global: 14, Window: 10 * time.Second, Sources: 4, InFlight: 64}},
		{Name: "pair", Per: guard.Pair, Lockout: Free(2, 20*time.Second, 5*time.Second, 3)},
		{Name: "pair-long", Per: guard.Pair, Lockout: Free(4, time.Minute, 5*time.Second, 64)},
		{Name: "subject", Per: guard.Subject, Lockout: decaying(5, time.Minute, 5*time.Second, 64)},
		{Name: "step", Per: guard.Subject, Action: guard.StepUp, Lockout: decaying(2, time.Minute, 5*time.Second, 64)},
		{Name: "code", Per: guard.Challenge, Lockout: Free(2, time.Minute, 5*time.Second, 64)},
		{Name: "device", Per: guard.Device, Lockout: Free(3, time.Minute, 5*time.Second, 1)},
		{Name: "all", Per: guard.Everyone, Lockout: decaying(12, time.Minute, time.Second, 64)},
		{Name: "rate", Window: &window.Policy{Limit: 4, Window: 5 * time.Second, Sliding: true, Capacity: 64, InFlight: 64}},
	}
}

// Loose are rules under which failures are often cleared and given back.
func Loose() []guard.Rule {
	return []guard.Rule{
		{Name: "own", Lockout: Free(9, time.Hour, time.Second, 3)},
		{Name: "trial", Action: guard.Shadow, Lockout: Free(2, 20*time.Second, 5*time.Second, 64)},
		{Name: "pair", Per: guard.Pair, Lockout: Free(6, time.Minute, time.Second, 64)},
		{Name: "subject", Per: guard.Subject, Lockout: Free(30, time.Hour, time.Second, 64)},
		{Name: "code", Per: guard.Challenge, Lockout: Free(9, time.Minute, time.Second, 64)},
	}
}

// Request returns one of some hundred requests.
func Request(rnd *rand.Rand) guard.Request {
	q := guard.Request{How: clientip.Peer}
	switch rnd.IntN(4) {
	case 0, 1:
		q.Addr = netip.AddrFrom4([4]byte{192, 0, byte(rnd.IntN(2)), byte(rnd.IntN(4))})
	case 2:
		q.Addr = netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%d::1", rnd.IntN(4)))
	}
	if rnd.IntN(2) == 0 {
		q.Subject = doorward.KeyFromName(fmt.Sprint("s", rnd.IntN(3)))
		q.Challenge = doorward.KeyFromName(fmt.Sprint("c", rnd.IntN(3)))
		if rnd.IntN(3) == 0 {
			q.Device = doorward.KeyFromName(fmt.Sprint("d", rnd.IntN(2)))
		}
	}
	return q
}
