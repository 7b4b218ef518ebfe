package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/redisstore/internal/script"
	"github.com/doorward/doorward/redisstore/internal/server"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
	"github.com/redis/rueidis"
)

// start lies so far ahead that nothing expires by the server's clock before it is forgotten by
// the test's.
var start = time.Now().Truncate(time.Microsecond).AddDate(10, 0, 0)

// timed is New with the library whose time is that of the charges.
func timed(client rueidis.Client, c Config) *Store {
	s := New(always(client), c)
	s.functions = script.New("local function clock(args) return tonumber(table.remove(args)) end")
	s.skew = 0 // all have one clock
	s.clock = func(charges []guard.Charge) []string {
		if len(charges) == 0 {
			return []string{"0"} // the latest that an entry has seen
		}
		return []string{strconv.FormatInt(charges[0].Now.UnixMicro(), 10)}
	}
	return s
}

// always is connected.
func always(client rueidis.Client) Connect {
	return func() (rueidis.Client, bool, error) {
		return client, client.Mode() == rueidis.ClientModeCluster, nil
	}
}

func config(name string, partitions int) Config {
	return Config{Guard: name, Prefix: "doorward:", Secret: []byte("a secret of tests"), Partitions: partitions}
}

func lock(free int, window, first time.Duration, more ...func(*lockout.Policy)) *lockout.Policy {
	p := &lockout.Policy{FreeFailures: free, Window: window, FirstLockout: first, MaxLockout: 4*first - time.Second, Lease: 10 * time.Second}
	for _, f := range more {
		f(p)
	}
	return p
}

func decays(p *lockout.Policy) { p.Decay = true }

func holds(n int) func(*lockout.Policy) { return func(p *lockout.Policy) { p.Capacity = n } }

// doors are rules between which nothing in common is left out.
var doors = map[string][]guard.Rule{
	"lockouts": {
		{Name: "burst", Lockout: lock(3, 10*time.Second, 5*time.Second, holds(2))},
		{Name: "day", Lockout: lock(6, time.Minute, 3*time.Second, decays)},
		{Name: "site", V4: 24, V6: 48, Lockout: lock(8, time.Minute, 2*time.Second, decays, holds(1))},
		{Name: "trial", Action: guard.Shadow, Lockout: lock(2, 20*time.Second, 5*time.Second)},
		{Name: "pair", Per: guard.Pair, Lockout: lock(2, 20*time.Second, 5*time.Second, holds(4))},
		{Name: "pair-long", Per: guard.Pair, Lockout: lock(4, time.Minute, 5*time.Second)},
		{Name: "subject", Per: guard.Subject, Lockout: lock(5, time.Minute, 5*time.Second, decays, holds(3))},
		{Name: "code", Per: guard.Challenge, Lockout: lock(2, time.Minute, 5*time.Second)},
		{Name: "device", Per: guard.Device, Lockout: lock(3, time.Minute, 5*time.Second, holds(1))},
		{Name: "all", Per: guard.Everyone, Lockout: lock(12, time.Minute, time.Second, decays)},
	},
	"network": {
		{Lockout: lock(3, 10*time.Second, 5*time.Second, holds(2))},
	},
	"cleared": {
		{OnSuccess: guard.Clear, Lockout: lock(4, 30*time.Second, 5*time.Second, holds(2))},
	},
	"throttles": {
		{Throttle: &throttle.Policy{PerSource: 2, Global: 5, Window: 90 * time.Second, Sources: 3}},
		{Name: "pair", Per: guard.Pair, Throttle: &throttle.Policy{PerSource: 3, Global: 9, Window: 30 * time.Second, Sources: 2}},
	},
	"windows": {
		{Name: "fixed", Window: &window.Policy{Limit: 4, Window: 20 * time.Second, Capacity: 2}},
		{Name: "sliding", Window: &window.Policy{Limit: 7, Window: 40 * time.Second, Sliding: true, Capacity: 3}},
		{Name: "long", Per: guard.Subject, Window: &window.Policy{Limit: 20, Window: 10 * time.Minute, Sliding: true, Capacity: 2}},
	},
	"mixed": {
		{Name: "pair", Per: guard.Pair, Lockout: lock(3, 30*time.Second, 5*time.Second, holds(2))},
		{Name: "net", Lockout: lock(9, time.Minute, 5*time.Second, decays, holds(3))},
		{Name: "work", Throttle: &throttle.Policy{PerSource: 5, Global: 12, Window: time.Minute, Sources: 4}},
		{Name: "hour", Per: guard.Everyone, Window: &window.Policy{Limit: 40, Window: 5 * time.Minute, Sliding: true}},
	},
}

// The same histories through memory and through Redis end in the same decisions.
func TestSameAsMemory(t *testing.T) { same(t, server.Client(t, server.Start(t)), 12) }

// Where each rule is on a server of its own, too: what is charged and taken back is seen by
// nobody if nobody comes between.
func TestSameAsMemoryInCluster(t *testing.T) { same(t, server.Client(t, server.Cluster(t, 3)...), 6) }

func same(t *testing.T, client rueidis.Client, seeds uint64) {
	for name, rules := range doors {
		t.Run(name, func(t *testing.T) {
			seen := map[string]int{}
			for seed := range seeds {
				tell(t, client, fmt.Sprint(name, seed), rules, seed, 400, seen)
			}
			t.Log(seen)
			for _, what := range []string{"allowed", "refused", "overflow", "settled late"} {
				if seen[what] == 0 {
					t.Errorf("nothing was %s", what)
				}
			}
		})
	}
}

func tell(t *testing.T, client rueidis.Client, name string, rules []guard.Rule, seed uint64, steps int, seen map[string]int) {
	t.Helper()
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(seed, 8))
	memory, err := guard.New(guard.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	remote, err := guard.New(guard.Config{Rules: rules, Store: timed(client, config(name, 1))})
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		memory, remote guard.Permit
		at             time.Time
	}
	var flying []pair
	now := start
	for step := range steps {
		switch rnd.IntN(4) {
		case 0:
			now = now.Add(time.Duration(rnd.IntN(5_000_000)) * time.Microsecond)
		case 1:
			now = now.Add(time.Duration(rnd.IntN(3)) * time.Second)
		}
		if rnd.IntN(60) == 0 {
			now = now.Add(time.Duration(rnd.IntN(100)) * time.Second)
		}
		if n := len(flying); n > 0 && rnd.IntN(2) == 0 {
			i := rnd.IntN(n)
			p := flying[i]
			if rnd.IntN(8) > 0 { // else it stays and is settled twice
				flying[i] = flying[n-1]
				flying = flying[:n-1]
			}
			o := doorward.Outcome(rnd.IntN(4))
			m := p.memory.Settle(o, now)
			r, err := p.remote.SettleContext(ctx, o, now)
			if m != r || err != nil {
				t.Fatalf("seed %d step %d: settled as %+v in memory, %+v, %v in the store", seed, step, m, r, err)
			}
			if now.Sub(p.at) >= memory.Lease() {
				seen["settled late"]++
			}
			if m.Cleared > 0 {
				seen["cleared"]++
			}
			continue
		}
		q := guard.Request{How: clientip.Peer}
		switch rnd.IntN(8) {
		case 0, 1, 2, 3:
			q.Addr = netip.AddrFrom4([4]byte{192, 0, byte(rnd.IntN(2)), byte(rnd.IntN(3))})
		case 4, 5:
			q.Addr = netip.MustParseAddr(fmt.Sprintf("2001:db8:%d:%d::1", rnd.IntN(2), rnd.IntN(3)))
		case 6:
			q.Addr = netip.MustParseAddr([]string{"127.0.0.1", "::1"}[rnd.IntN(2)])
		}
		if rnd.IntN(2) == 0 {
			q.Subject = doorward.KeyFromName(fmt.Sprint("s", rnd.IntN(5)))
			q.Challenge = doorward.KeyFromName(fmt.Sprint("c", rnd.IntN(3)))
			if rnd.IntN(4) == 0 {
				q.Device = doorward.KeyFromName(fmt.Sprint("d", rnd.IntN(2)))
			}
		}
		m := memory.Attempt(q, now)
		r, err := remote.AttemptContext(ctx, q, now)
		if m.Verdict != r.Verdict || err != nil {
			t.Fatalf("seed %d step %d at %v: %+v in memory, %+v, %v in the store", seed, step, now.Sub(start), m.Verdict, r.Verdict, err)
		}
		switch {
		case m.Allowed:
			flying = append(flying, pair{m, r, now})
			seen["allowed"]++
		default:
			seen["refused"]++
			seen[m.Reason.String()]++
		}
		if m.Overflow {
			seen["overflow"]++
		}
	}
}
