package redisstore

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/redisstore/internal/line"
	"github.com/doorward/doorward/redisstore/internal/server"
	"github.com/redis/rueidis"
)

// A node is one of several processes with one server.
type node struct {
	*guard.Guard
	store  *Store
	client *Client
}

// nodes starts so many on a server, with the door Login.
func nodes(t *testing.T, n int, addr string, m Mode) (all []node) {
	t.Helper()
	for range n {
		o := options(addr)
		o.Deadline = 500 * time.Millisecond // what is tested is not how fast a busy machine is
		c, err := Dial(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		s, err := c.Store("login", m)
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.New(guard.Config{Rules: []guard.Rule{{Name: "own", Lockout: &lockout.Login}}, Store: s})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, node{g, s, c})
	}
	return all
}

func from(addr string) guard.Request { return guard.Request{Addr: netip.MustParseAddr(addr)} }

// guesses makes n wrong attempts, 30 at once and in turns over the nodes, and returns how many
// were admitted, and the first error.
func guesses(all []node, n int, q guard.Request) (admitted int, first error) {
	var count atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	for i := range n {
		wg.Go(func() {
			p, err := all[i%len(all)].AttemptContext(ctx, q, time.Now())
			if p.Allowed {
				count.Add(1)
				p.SettleContext(ctx, doorward.Failed, time.Now())
			}
			if err != nil {
				once.Do(func() { first = err })
			}
		})
		if i%30 == 29 {
			wg.Wait()
		}
	}
	wg.Wait()
	return int(count.Load()), first
}

// await waits until all nodes say that their server is up, or away.
func await(t *testing.T, all []node, up bool) {
	t.Helper()
	server.Await(t, fmt.Sprintf("up: %v", up), func() (same bool) {
		same = true
		for _, n := range all {
			p, _ := n.AttemptContext(ctx, from("203.0.113.9"), time.Now())
			p.SettleContext(ctx, doorward.Void, time.Now())
			same = same && n.client.Health().Up == up
		}
		return same
	})
}

// hot reports whether a node refuses without asking the server.
func (n node) hot(q guard.Request) bool {
	return n.store.Check([]guard.Charge{{Rule: &n.Rules()[0], Key: doorward.KeyFromAddr(q.Addr), Now: time.Now(), MayRefuse: true}})
}

// Three nodes have one budget; a caller who is locked out costs the server nothing; an unlock on
// one node reaches the others; and while the server is away, paused or dead, each mode admits what
// it says.
func TestThreeNodes(t *testing.T) {
	for _, x := range []struct {
		mode         Mode
		down, before int // admitted while it is away: from a stranger, from whom the server has locked
		after        int // of the stranger, when it is back
	}{
		{Local, 15, 0, 5},
		{Closed, 0, 0, 5},
		{FailOpen, 300, 0, 5},
	} {
		t.Run(x.mode.String(), func(t *testing.T) {
			one := server.Run(t)
			all := nodes(t, 3, one.Addr, x.mode)
			wait := func(what string, is func(n node) bool) {
				t.Helper()
				for i, n := range all {
					server.Await(t, fmt.Sprintf("%s on node %d", what, i), func() bool { return is(n) })
				}
			}
			q := from("192.0.2.1")
			if n, err := guesses(all, 3000, q); n != 5 || err != nil {
				t.Fatalf("3,000 guesses: %d admitted, %v; want 5", n, err)
			}
			for i, n := range all {
				if a := n.store.Alone(); a.Local+a.Open+a.Unavailable != 0 || !n.hot(q) {
					t.Errorf("node %d: %+v, hot %v", i, a, n.hot(q))
				}
			}
			// It is hot for longer than a second only where a node is told of unlocks.
			calls, began := all[0].client.Calls().Calls, time.Now()
			for ; time.Since(began) < 1100*time.Millisecond; time.Sleep(time.Millisecond) {
				for i, n := range all {
					if !n.hot(q) {
						t.Fatalf("node %d forgets whom it knows to be locked out after %v", i, time.Since(began))
					}
				}
			}
			if asked := all[0].client.Calls().Calls - calls; asked > 3 { // signs of life
				t.Errorf("asked the server %d times about whom it knows to be locked out", asked)
			}
			if err := all[0].UnlockContext(ctx, "own", doorward.KeyFromAddr(q.Addr)); err != nil {
				t.Fatal(err)
			}
			unlocked := time.Now()
			wait("the unlock", func(n node) bool { return !n.hot(q) }) // else it is hot for a minute
			t.Logf("all knew of the unlock after %v", time.Since(unlocked))
			if n, err := guesses(all, 300, q); n != 5 || err != nil {
				t.Errorf("unlocked: %d admitted, %v; want 5", n, err)
			}
			wait("the lockout", func(n node) bool { guesses([]node{n}, 1, q); return n.hot(q) })

			one.Pause()
			await(t, all, false)
			stranger := from("192.0.2.7")
			if n, err := guesses(all, 300, stranger); n != x.down || (err != nil) != (x.mode == Closed) {
				t.Errorf("paused: %d admitted, %v; want %d", n, err, x.down)
			}
			if n, _ := guesses(all, 300, q); n != x.before {
				t.Errorf("paused: %d admitted of who is locked out, want %d", n, x.before)
			}
			one.Resume()
			await(t, all, true)
			if n, err := guesses(all, 300, stranger); n != x.after || err != nil {
				t.Errorf("back: %d admitted, %v; want %d", n, err, x.after)
			}

			one.Kill()
			await(t, all, false)
			if n, _ := guesses(all, 300, from("192.0.2.8")); n != x.down {
				t.Errorf("killed: %d admitted, want %d", n, x.down)
			}
			if h := all[0].client.Health(); h.Up || h.Err == nil || h.Downs < 2 || h.Since.IsZero() || h.Fault != nil {
				t.Errorf("%+v", h)
			}
		})
	}
}

// The mode changes for the attempts that come.
func TestSetMode(t *testing.T) {
	all := nodes(t, 1, "127.0.0.1:1", Closed)
	q := from("192.0.2.1")
	for _, x := range []struct {
		mode Mode
		want int
	}{{Closed, 0}, {FailOpen, 20}, {Local, 5}, {Closed, 0}} {
		if err := all[0].store.SetMode(x.mode); err != nil || all[0].store.Mode() != x.mode {
			t.Fatal(err)
		}
		q.Addr = q.Addr.Next()
		if n, _ := guesses(all, 20, q); n != x.want {
			t.Errorf("%v: %d admitted, want %d", x.mode, n, x.want)
		}
	}
	if err := all[0].store.SetMode(FailOpen + 1); err == nil {
		t.Error("a mode that is none")
	}
	if _, err := ParseMode("ajar"); err == nil || err.Error() != `redisstore: front: Mode must be local, closed or open, got "ajar"` {
		t.Error(err)
	}
}

// What a server answers that cannot decide for anybody takes it for away; what a caller can bring
// about does not.
func TestAway(t *testing.T) {
	addr := server.Start(t)
	c := server.Client(t, addr)
	answer := func(text string) error {
		return fmt.Errorf("redisstore: %w", c.Do(ctx, c.B().Arbitrary("EVAL", "return redis.error_reply(ARGV[1])", "0", text).Build()).Error())
	}
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                          true,
		"CLUSTERDOWN The cluster is down":                                         true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set": true,
		"READONLY You can't write against a read only replica":                    true,
		"NOREPLICAS Not enough good replicas to write":                            true,
		"TRYAGAIN Multiple keys request during rehashing of slot":                 true,
		"OOM command not allowed when used memory > 'maxmemory'":                  false,
		"ERR an error that tells of LOADING":                                      false,
		"NOPERM this user has no permissions to run the 'fcall' command":          false,
	} {
		err := answer(text)
		if got := away(err); line.Unreachable(got) != want || !errors.Is(got, err) || said(err) == want {
			t.Errorf("%q: unreachable %v, said %v; want away %v", text, line.Unreachable(got), said(err), want)
		}
	}
	never := &Client{err: errors.New("maxmemory-policy is allkeys-lru now")}
	if _, _, err := never.get(); !line.Unreachable(err) || !errors.Is(err, never.err) {
		t.Errorf("a server that there never was: %v", err)
	}
	if away(nil) != nil || line.Unreachable(away(errors.New("reply must be 14 bytes"))) || !line.Unreachable(away(fmt.Errorf("x: %w", rueidis.ErrClosing))) {
		t.Error("nil, an answer and no connection are not told apart")
	}
}

// A server that becomes a replica is away. That is noticed without a caller.
func TestReplicaIsAway(t *testing.T) {
	addr := server.Start(t)
	all := nodes(t, 1, addr, Closed)
	client, c := all[0].client, server.Client(t, addr)
	server.Await(t, "a sign of life", func() bool { return client.Calls().Calls > 0 && client.Health().Up })
	server.Do(t, c, "REPLICAOF", "127.0.0.1", "1")
	server.Await(t, "its end", func() bool { return !client.Health().Up })
	charges := []guard.Charge{{Rule: &all[0].Rules()[0], Key: doorward.KeyFromAddr(from("192.0.2.1").Addr)}}
	if err := all[0].store.far.Reserve(ctx, charges); !line.Unreachable(err) {
		t.Errorf("a replica answers %v, which is not that it is away", err)
	}
	server.Do(t, c, "REPLICAOF", "NO", "ONE")
	server.Await(t, "another one", func() bool { return client.Health().Up })
	if n, err := guesses(all, 20, from("192.0.2.1")); n != 5 || err != nil {
		t.Errorf("%d admitted, %v", n, err)
	}
	calls, sum := client.Calls(), uint64(0)
	for _, n := range calls.Took {
		sum += n
	}
	if len(calls.Took) != len(Buckets())+1 || sum+5 < calls.Calls || sum > calls.Calls || calls.Waited <= 0 {
		t.Errorf("%+v", calls)
	}
	clocks, err := client.Clocks(ctx)
	if d, ok := clocks[addr]; err != nil || !ok || d > time.Second || d < -time.Second {
		t.Errorf("clocks %v, %v", clocks, err)
	}
	if ttl := server.Do(t, c, "PTTL", DefaultPrefix+"life"); ttl == "-1" {
		t.Error("the sign of life has no expiry")
	}
}

// A store that is closed listens no more, and the client goes on.
func TestStoreCloses(t *testing.T) {
	addr := server.Start(t)
	all := nodes(t, 1, addr, Closed)
	c := server.Client(t, addr)
	channel := func() bool {
		return server.Do(t, c, "EVAL", "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]", "0", DefaultPrefix+"login:forgotten") == "1"
	}
	server.Await(t, "the subscription", channel)
	all[0].store.Close()
	server.Await(t, "the end of it", func() bool { return !channel() })
	if again, err := all[0].client.Store("login", Local); err != nil {
		t.Error(err)
	} else {
		server.Await(t, "another subscription", channel)
		again.Close()
	}
}

// Many first attempts at once load the functions once, not each: that would take longer than any
// deadline.
func TestLoadedOnce(t *testing.T) {
	addr := server.Start(t)
	all := nodes(t, 1, addr, Closed)
	c := server.Client(t, addr)
	for round := 1; round <= 2; round++ {
		if n, err := guesses(all, 30, from(fmt.Sprintf("192.0.2.%d", round))); n != 5 || err != nil {
			t.Fatalf("%d admitted, %v", n, err)
		}
		if stats, want := server.Do(t, c, "INFO", "commandstats"), fmt.Sprintf("cmdstat_function|load:calls=%d,", round); !strings.Contains(stats, want) {
			t.Errorf("no %s in\n%s", want, stats)
		}
		server.Do(t, c, "FUNCTION", "FLUSH")
	}
}
