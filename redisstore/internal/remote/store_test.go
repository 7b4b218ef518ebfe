package remote

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/redisstore/internal/server"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
	"github.com/redis/rueidis"
)

var ctx = context.Background()

func rules(t *testing.T, rules ...guard.Rule) []guard.Rule {
	t.Helper()
	c, err := guard.Config{Rules: rules}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return c.Rules
}

func addr(n int) doorward.Key {
	return doorward.KeyFromAddr(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}))
}

func reserve(t *testing.T, s *Store, r *guard.Rule, k doorward.Key, now time.Time) guard.Charge {
	t.Helper()
	c := []guard.Charge{{Rule: r, Key: k, Now: now, MayRefuse: true}}
	if err := s.Reserve(ctx, c); err != nil {
		t.Fatal(err)
	}
	return c[0]
}

func settle(t *testing.T, s *Store, c guard.Charge, o doorward.Outcome, now time.Time) guard.Charge {
	t.Helper()
	c.Outcome, c.Now = o, now
	cs := []guard.Charge{c}
	if err := s.Settle(ctx, cs); err != nil {
		t.Fatal(err)
	}
	return cs[0]
}

func attempt(t *testing.T, s *Store, r *guard.Rule, k doorward.Key, now time.Time) doorward.Decision {
	t.Helper()
	c := reserve(t, s, r, k, now)
	if c.Decision.Allowed {
		settle(t, s, c, doorward.Failed, now)
	}
	return c.Decision
}

// Three nodes, whose clocks are an hour apart, have one budget and one clock: the server's.
func TestOneBudget(t *testing.T) {
	client := server.Client(t, server.Start(t))
	var nodes []*guard.Guard
	for range 3 {
		g, err := guard.New(guard.Config{
			Rules: []guard.Rule{{Lockout: &lockout.Policy{FreeFailures: 5, Window: time.Hour, FirstLockout: time.Hour, MaxLockout: time.Hour}}},
			Store: New(always(client), config("login", 64)),
		})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, g)
	}
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for i := range 3000 {
		wg.Go(func() {
			n := i % 3
			now := time.Now().Add(time.Duration(n-1) * time.Hour)
			p, err := nodes[n].AttemptContext(ctx, guard.Request{Addr: netip.MustParseAddr("192.0.2.1"), How: clientip.Peer}, now)
			if err != nil {
				t.Error(err)
			}
			if p.Allowed {
				allowed.Add(1)
				if _, err := p.SettleContext(ctx, doorward.Failed, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 5 {
		t.Errorf("%d of 3,000 parallel wrong guesses were admitted, want 5", allowed.Load())
	}
	p, err := nodes[2].AttemptContext(ctx, guard.Request{Addr: netip.MustParseAddr("192.0.2.1"), How: clientip.Peer}, time.Now().Add(2*time.Hour))
	if err != nil || p.Reason != doorward.Locked || p.RetryAfter < 59*time.Minute || p.RetryAfter > time.Hour {
		t.Errorf("by a clock that is two hours ahead: %+v, %v, want locked for an hour less a moment", p.Verdict, err)
	}
}

// A count that decays has an end where the lockouts have: more would only be remembered for longer.
func TestCountEnds(t *testing.T) {
	s := timed(server.Client(t, server.Start(t)), config("login", 1))
	rs := rules(t, guard.Rule{Lockout: lock(2, time.Minute, time.Second, decays)}) // locks for 1, 2, 3, 3 ... s
	now := start
	for i, want := range []int{1, 2, 3, 4, 4, 4} {
		if d := attempt(t, s, &rs[0], addr(1), now); !d.Allowed {
			t.Fatalf("attempt %d: %+v", i, d)
		}
		if e, _, _, err := s.Look(ctx, &rs[0], addr(1), now); err != nil || e.Count != want {
			t.Errorf("attempt %d: %d failures, %v, want %d", i, e.Count, err, want)
		}
		now = now.Add(3 * time.Second)
	}
}

// A ticket names one reservation for ever, on every node.
func TestTickets(t *testing.T) {
	client := server.Client(t, server.Start(t))
	for name, policy := range map[string]guard.Rule{
		"lockout":  {Lockout: lock(2, time.Minute, time.Minute)},
		"throttle": {Throttle: &throttle.Policy{PerSource: 2}},
		"window":   {Window: &window.Policy{Limit: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			policy.Name = "one"
			other := policy
			other.Name = "other"
			rs := rules(t, policy, other)
			s := timed(client, config(name, 8))
			node := timed(client, config(name, 8))
			k, now := addr(1), start
			left := func() int { return reserveLeft(t, s, &rs[0], k, now) }
			c := reserve(t, s, &rs[0], k, now)
			if got := left(); got != 1 {
				t.Fatalf("one pending: %d left, want 1", got)
			}
			wrong := c
			wrong.Key = addr(2)
			settle(t, s, wrong, doorward.Void, now)
			wrong = c
			wrong.Rule = &rs[1]
			settle(t, s, wrong, doorward.Void, now)
			wrong = c
			wrong.Ticket.A ^= 1 << 20
			settle(t, s, wrong, doorward.Void, now)
			settle(t, s, guard.Charge{Rule: &rs[0], Key: k}, doorward.Void, now)
			if got := left(); got != 1 {
				t.Fatalf("tickets of others took it back: %d left, want 1", got)
			}
			settle(t, node, c, doorward.Void, now)
			if got := left(); got != 2 {
				t.Fatalf("taken back on another node: %d left, want 2", got)
			}
			second := reserve(t, s, &rs[0], k, now)
			settle(t, s, c, doorward.Void, now)
			if got := left(); got != 1 {
				t.Fatalf("a ticket that was settled took another back: %d left, want 1", got)
			}
			if err := s.Unlock(ctx, &rs[0], k); err != nil {
				t.Fatal(err)
			}
			third := reserve(t, s, &rs[0], k, now)
			settle(t, s, second, doorward.Void, now)
			if got := left(); got != 1 {
				t.Fatalf("a ticket of before Unlock took another back: %d left, want 1", got)
			}
			if err := s.Clear(ctx, &rs[0]); err != nil {
				t.Fatal(err)
			}
			if got := left(); got != 2 {
				t.Fatalf("after Clear: %d left, want 2", got)
			}
			reserve(t, s, &rs[0], k, now)
			settle(t, s, third, doorward.Void, now)
			if got := left(); got != 1 {
				t.Fatalf("a ticket of before Clear took another back: %d left, want 1", got)
			}
		})
	}
}

// A ticket that was charged to the overflow entry settles there, for its own key only, and a
// success takes back no more than itself.
func TestTicketsOfOverflow(t *testing.T) {
	client := server.Client(t, server.Start(t))
	rs := rules(t, guard.Rule{OnSuccess: guard.Clear, Lockout: lock(3, time.Minute, time.Minute, holds(1))})
	s := timed(client, config("login", 1))
	attempt(t, s, &rs[0], addr(1), start)
	attempt(t, s, &rs[0], addr(2), start)
	c := reserve(t, s, &rs[0], addr(3), start)
	if !c.Decision.Overflow || c.Decision.Remaining != 1 {
		t.Fatalf("%+v, want overflow with one failure", c.Decision)
	}
	wrong := c
	wrong.Key = addr(4)
	settle(t, s, wrong, doorward.Void, start)
	if got := reserveLeft(t, s, &rs[0], addr(4), start); got != 1 {
		t.Errorf("another key's ticket took it back: %d left, want 1", got)
	}
	if got := settle(t, s, c, doorward.Succeeded, start); got.Cleared.N != 0 {
		t.Errorf("a success cleared %+v of what all share", got.Cleared)
	}
	if got := reserveLeft(t, s, &rs[0], addr(4), start); got != 2 {
		t.Errorf("after its success: %d left, want 2", got)
	}
}

// reserveLeft returns how many attempts k could start now.
func reserveLeft(t *testing.T, s *Store, r *guard.Rule, k doorward.Key, now time.Time) int {
	t.Helper()
	_, _, d, err := s.Look(ctx, r, k, now)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Allowed {
		return 0
	}
	return d.Remaining + 1
}

// keys returns all keys of a server.
func keys(t *testing.T, c rueidis.Client) []string {
	t.Helper()
	all, err := c.Do(ctx, c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// No key is without an expiry, whatever happens to it, and one that lost it gets it back.
func TestEveryKeyExpires(t *testing.T) {
	client := server.Client(t, server.Start(t))
	s := New(always(client), config("login", 4))
	rs := rules(t,
		guard.Rule{Lockout: lock(3, time.Minute, time.Minute, holds(8))},
		guard.Rule{Name: "decays", Per: guard.Subject, Lockout: lock(3, time.Minute, time.Minute, decays)},
		guard.Rule{Name: "throttle", Throttle: &throttle.Policy{Sources: 8}},
		guard.Rule{Name: "window", Window: &window.Policy{Sliding: true, Capacity: 8}})
	rnd := rand.New(rand.NewPCG(1, 1))
	// Twice a lease, the longest lockout, and five failures that are forgotten one by one.
	longest := 2*(10+239+100)*time.Second + time.Second
	check := func() {
		t.Helper()
		for _, k := range keys(t, client) {
			ttl, err := client.Do(ctx, client.B().Pttl().Key(k).Build()).AsInt64()
			if err != nil || ttl <= 0 || time.Duration(ttl)*time.Millisecond > longest {
				t.Fatalf("%q expires in %d ms, %v; want at most %v", k, ttl, err, longest)
			}
		}
	}
	var flying []guard.Charge
	for range 400 {
		r := &rs[rnd.IntN(len(rs))]
		k := addr(rnd.IntN(30))
		if rnd.IntN(8) == 0 {
			k = doorward.KeyFromAddr(netip.IPv6Loopback())
		}
		if c := reserve(t, s, r, k, time.Now()); c.Decision.Allowed {
			flying = append(flying, c)
		}
		if n := len(flying); n > 0 && rnd.IntN(2) == 0 {
			settle(t, s, flying[n-1], doorward.Outcome(rnd.IntN(4)), time.Now())
			flying = flying[:n-1]
		}
		check()
	}
	lost := 0
	for _, k := range keys(t, client) {
		client.Do(ctx, client.B().Persist().Key(k).Build())
		lost++
	}
	if lost < 40 {
		t.Fatalf("only %d keys", lost)
	}
	k := addr(1 << 16)
	attempt(t, s, &rs[1], k, time.Now())
	for _, key := range keys(t, client) {
		at := s.rule(&rs[1]).place(k)
		if key != at.key && key != at.base+"o" {
			continue
		}
		if server.Do(t, client, "PTTL", key) == "-1" {
			t.Errorf("%q was found without an expiry and left so", key)
		}
	}
}

// Names and addresses are nowhere on the server in clear, and what two guards count of one
// name is called otherwise.
func TestNamesAreKeyed(t *testing.T) {
	client := server.Client(t, server.Start(t))
	rs := rules(t, guard.Rule{Lockout: lock(3, time.Minute, time.Minute)}, guard.Rule{Per: guard.Subject, Lockout: lock(3, time.Minute, time.Minute)})
	one, two := New(always(client), config("one", 1)), New(always(client), config("two", 1))
	k, subject := doorward.KeyFromAddr(netip.MustParseAddr("198.51.100.77")), doorward.KeyFromName("alice@example.com")
	for _, s := range []*Store{one, two} {
		attempt(t, s, &rs[0], k, time.Now())
		attempt(t, s, &rs[1], subject, time.Now())
	}
	var raw [][]byte
	for _, k := range []doorward.Key{k, subject} {
		b, _ := k.AppendBinary(nil)
		raw = append(raw, bytes.TrimLeft(b[2:], "\x00"))
	}
	raw = append(raw, []byte("alice"), []byte("198.51"))
	all := keys(t, client)
	if len(all) != 8 {
		t.Fatalf("%d keys, want an entry and an order of two rules of two guards", len(all))
	}
	for _, key := range all {
		text := key + server.Do(t, client, "DUMP", key)
		for _, r := range raw {
			if strings.Contains(text, string(r)) {
				t.Errorf("%q has %q", key, r)
			}
		}
	}
	if a, b := one.rule(&rs[0]).place(k).name, two.rule(&rs[0]).place(k).name; a == b {
		t.Error("two guards have one name for one address")
	}
	c := config("one", 1)
	c.Secret = []byte("another secret of tests")
	if a, b := one.rule(&rs[0]).place(k).name, New(always(client), c).rule(&rs[0]).place(k).name; a == b {
		t.Error("two secrets make one name of one address")
	}
}

// A server that has forgotten the functions is given them again, and what it counted stays.
func TestFlushedFunctions(t *testing.T) {
	for name, start := range map[string]func() []string{
		"server":  func() []string { return []string{server.Start(t)} },
		"cluster": func() []string { return server.Cluster(t, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			addrs := start()
			client := server.Client(t, addrs...)
			s := New(always(client), config("login", 16))
			rs := rules(t, guard.Rule{Lockout: lock(3, time.Minute, time.Minute)}, guard.Rule{Name: "long", Lockout: lock(9, time.Hour, time.Minute)})
			now := time.Now()
			for i := range 5 {
				charges := []guard.Charge{
					{Rule: &rs[0], Key: addr(1), Now: now, MayRefuse: true}, {Rule: &rs[1], Key: addr(1), Now: now, MayRefuse: true},
				}
				if err := s.Reserve(ctx, charges); err != nil {
					t.Fatal(err)
				}
				if got := charges[0].Decision.Allowed; got != (i < 3) {
					t.Fatalf("attempt %d: %+v", i, charges[0].Decision)
				}
				for _, node := range client.Nodes() {
					server.Do(t, node, "FUNCTION", "FLUSH")
					server.Do(t, node, "SCRIPT", "FLUSH")
				}
				for i := range charges {
					charges[i].Outcome = doorward.Failed
				}
				if err := s.Settle(ctx, charges); err != nil {
					t.Fatal(err)
				}
			}
			if e, _, _, err := s.Look(ctx, &rs[1], addr(1), now); err != nil || e.Count != 3 {
				t.Errorf("%+v, %v: want 3 failures, those of the attempts that no rule refused", e, err)
			}
		})
	}
}

// What one node unlocks or clears, others are told of, by heartbeats too.
func TestFollow(t *testing.T) {
	client := server.Client(t, server.Start(t))
	rs := rules(t, guard.Rule{Lockout: lock(3, time.Minute, time.Minute)})
	one, two := New(always(client), config("login", 4)), New(always(client), config("login", 4))
	f := &follower{told: make(chan string, 100)}
	following, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- two.Follow(following, f) }()
	f.await(t, "subscribed")
	f.await(t, "heard")
	k := doorward.KeyFromName("alice")
	if err := one.Unlock(ctx, &rs[0], k); err != nil {
		t.Fatal(err)
	}
	f.await(t, "forget network "+k.String())
	if err := one.UnlockNamed(ctx, &rs[0], two.Name(&rs[0], addr(7))); err != nil {
		t.Fatal(err)
	}
	f.await(t, "forget meant network "+addr(7).String())
	if err := one.Clear(ctx, &rs[0]); err != nil {
		t.Fatal(err)
	}
	f.await(t, "forget all network")
	server.Do(t, client, "PUBLISH", one.channel(), "nothing of ours")
	client.Do(ctx, client.B().Publish().Channel(one.channel()).Message(notice{rule: "network"}.seal(New(always(client), config("other", 4)).seal)).Build())
	f.await(t, "heard")
	f.await(t, "heard")
	if slices.Contains(f.all, "forget all network") && f.count("forget all network") != 1 {
		t.Errorf("a notice of another guard was believed: %q", f.all)
	}
	stop()
	if err := <-ended; err != context.Canceled && err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("Follow ended with %v", err)
	}
}

type follower struct {
	told chan string
	all  []string
}

func (f *follower) Subscribed(time.Time)               { f.told <- "subscribed" }
func (f *follower) Heard(time.Time)                    { f.told <- "heard" }
func (f *follower) Forget(rule string, k doorward.Key) { f.told <- "forget " + rule + " " + k.String() }
func (f *follower) ForgetFunc(rule string, meant func(doorward.Key) bool, _ time.Time) {
	for i := range 100 {
		if meant(addr(i)) {
			f.told <- "forget meant " + rule + " " + addr(i).String()
		}
	}
}
func (f *follower) ForgetAll(rule string) { f.told <- "forget all " + rule }

func (f *follower) count(what string) (n int) {
	for _, s := range f.all {
		if s == what {
			n++
		}
	}
	return n
}

func (f *follower) await(t *testing.T, what string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case s := <-f.told:
			f.all = append(f.all, s)
			if s == what {
				return
			}
		case <-deadline:
			t.Fatalf("was not told %q, only %q", what, f.all)
		}
	}
}

// What operators see is what was counted.
func TestOperator(t *testing.T) {
	client := server.Client(t, server.Start(t))
	rs := rules(t, guard.Rule{Lockout: lock(3, time.Minute, 30*time.Second, holds(8))})
	s := timed(client, config("login", 2))
	now := start
	for i := range 20 {
		attempt(t, s, &rs[0], addr(i), now)
	}
	reserve(t, s, &rs[0], doorward.KeyFromAddr(netip.IPv6Loopback()), now)
	stats, err := s.Stats(ctx, &rs[0])
	if err != nil || stats.Tracked != 8 || stats.OverflowCharged == 0 || stats.OverflowRefused == 0 || stats.OverflowCharged+stats.OverflowRefused != 12 {
		t.Errorf("%+v, %v: want 8 tracked, 12 charged to or refused by two overflow entries", stats, err)
	}
	var all []doorward.Entry
	over, pages := 0, 0
	for c := guard.Cursor(0); ; pages++ {
		before := len(all)
		if all, c, err = s.AppendEntries(ctx, all, &rs[0], c, 3, now); err != nil || len(all) > before+3 {
			t.Fatalf("%d on a page of 3, %v", len(all)-before, err)
		}
		if c == 0 {
			break
		}
	}
	names := map[string]bool{}
	for _, e := range all {
		names[e.Name] = true
		if e.Overflow {
			over++
			continue
		}
		if strings.HasSuffix(e.Name, hex.EncodeToString([]byte("6"))) && len(e.Name) == 6 {
			if e.Pending != 1 || e.Count != 0 {
				t.Errorf("%+v: want one pending", e)
			}
		} else if e.Count != 1 || !e.ForgottenAt.Equal(now.Add(time.Minute)) {
			t.Errorf("%+v: want one failure, forgotten in a minute", e)
		}
	}
	if len(all) != 11 || over != 2 || len(names) != 10 || pages < 4 {
		t.Errorf("%d entries, %d of them overflow, %d names, on %d pages", len(all), over, len(names), pages)
	}
	for range 2 {
		attempt(t, s, &rs[0], addr(0), now)
	}
	e, tracked, d, err := s.Look(ctx, &rs[0], addr(0), now.Add(time.Second))
	if err != nil || !tracked || d.Reason != doorward.Locked || d.RetryAfter != 29*time.Second || e.Count != 3 ||
		!e.LockedUntil.Equal(now.Add(30*time.Second)) || !e.ForgottenAt.Equal(now.Add(90*time.Second)) || e.Key != addr(0) {
		t.Errorf("%+v, %v, %+v, %v", e, tracked, d, err)
	}
	if e, tracked, d, err := s.Look(ctx, &rs[0], addr(1000), now.Add(time.Second)); err != nil || tracked || !d.Overflow || e.Count != 0 {
		t.Errorf("a stranger: %+v, %v, %+v, %v", e, tracked, d, err)
	}
}

// Every entry is listed once, wherever it is kept, and a name from the list does what the key does.
func TestNamed(t *testing.T) {
	for what, servers := range map[string][]string{"one server": {server.Start(t)}, "a cluster": server.Cluster(t, 3)} {
		t.Run(what, func(t *testing.T) {
			client := server.Client(t, servers...)
			rs := rules(t,
				guard.Rule{Lockout: lock(1, time.Hour, time.Hour, holds(1000))},
				guard.Rule{Name: "other", Lockout: lock(9, time.Hour, time.Hour, holds(1000))})
			s := New(always(client), config("login", 8))
			now := time.Now()
			want := map[string]doorward.Key{}
			keys := []doorward.Key{doorward.KeyFromAddr(netip.MustParseAddr("127.0.0.1")), doorward.KeyFromAddr(netip.IPv6Loopback())}
			for i := range 50 {
				v6 := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, byte(i)})
				keys = append(keys, addr(i), doorward.KeyFromPrefix(v6, 32, 64))
			}
			for _, k := range keys {
				attempt(t, s, &rs[0], k, now)
				attempt(t, s, &rs[1], k, now)
				want[s.Name(&rs[0], k)] = k
			}
			if len(want) != len(keys) {
				t.Fatalf("%d names of %d keys", len(want), len(keys))
			}
			for _, places := range []int{1, 2, 3, 4, 7, 100, 1000} {
				seen := map[string]int{}
				for c, more := guard.Cursor(0), true; more; more = c != 0 {
					page, next, err := s.AppendEntries(ctx, nil, &rs[0], c, places, now)
					if err != nil || len(page) > places {
						t.Fatalf("a page of %d has %d, %v", places, len(page), err)
					}
					for _, e := range page {
						seen[e.Name]++
						if _, known := want[e.Name]; !known || e.Count != 1 || e.LockedUntil.IsZero() || e.Overflow || e.Key != (doorward.Key{}) {
							t.Errorf("%+v", e)
						}
					}
					c = next
				}
				for n := range want {
					if seen[n] != 1 {
						t.Errorf("by %d, %s is listed %d times", places, n, seen[n])
					}
				}
			}
			for n, k := range want {
				e, tracked, d, err := s.LookNamed(ctx, &rs[0], n, now)
				if err != nil || !tracked || d.Reason != doorward.Locked || e.Name != n || e.Count != 1 {
					t.Fatalf("%v: %+v, %v, %+v, %v", k, e, tracked, d, err)
				}
				if err := s.UnlockNamed(ctx, &rs[0], n); err != nil {
					t.Fatal(err)
				}
				if e, tracked, _, err := s.Look(ctx, &rs[0], k, now); err != nil || tracked || e.Count != 0 {
					t.Errorf("%v after its unlock: %+v, %v, %v", k, e, tracked, err)
				}
				if e, tracked, _, err := s.Look(ctx, &rs[1], k, now); err != nil || !tracked || e.Count != 1 {
					t.Errorf("%v in the other rule: %+v, %v, %v", k, e, tracked, err)
				}
			}
			mine := s.Name(&rs[1], addr(0))
			for _, n := range []string{"", "0", "zz", "0000", "00002b", "00006f", "ffff" + mine[4:], mine + "00", mine[:len(mine)-2], s.Name(&rs[0], addr(0))} {
				if e, tracked, _, err := s.LookNamed(ctx, &rs[1], n, now); tracked || e.Count != 0 || err != nil {
					t.Errorf("%q: %+v, %v, %v", n, e, tracked, err)
				}
				if err := s.UnlockNamed(ctx, &rs[1], n); err != nil {
					t.Errorf("%q: %v", n, err)
				}
			}
			if _, tracked, _, err := s.LookNamed(ctx, &rs[1], mine, now); err != nil || !tracked {
				t.Errorf("names of nothing unlocked something, %v", err)
			}
			if page, c, err := s.AppendEntries(ctx, nil, &rs[0], 16<<32, 1, now); len(page) != 0 || c != 0 || err != nil {
				t.Errorf("past the end: %v, %d, %v", page, c, err)
			}
		})
	}
}

// Bytes is what a key costs, measured: an entry and its place in the order.
func TestBytes(t *testing.T) {
	const n = 20_000
	client := server.Client(t, server.Start(t))
	rs := rules(t, guard.Rule{Lockout: lock(5, time.Hour, time.Minute, holds(n))})
	s := New(always(client), config("login", 16))
	used := func() int {
		for line := range strings.Lines(server.Do(t, client, "INFO", "memory")) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory_dataset:"); ok {
				n, _ := strconv.Atoi(v)
				return n
			}
		}
		t.Fatal("INFO does not say")
		return 0
	}
	attempt(t, s, &rs[0], addr(1<<20), time.Now())
	before := used()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				attempt(t, s, &rs[0], addr(i), time.Now())
			}
		})
	}
	wg.Wait()
	each := float64(used()-before) / n
	t.Logf("%.0f bytes a key", each)
	if each < 100 || each > 450 {
		t.Errorf("%.0f bytes a key, want 100 to 450", each)
	}
}

// Entries that are forgotten make room, and no more than there is room for stay.
func TestRoom(t *testing.T) {
	client := server.Client(t, server.Start(t))
	const capacity = 50
	rs := rules(t, guard.Rule{Lockout: lock(3, time.Minute, time.Minute, holds(capacity))})
	s := timed(client, config("login", 1))
	now := start
	for round := range 3 {
		over := 0
		for i := range capacity + 10 {
			if attempt(t, s, &rs[0], addr(round<<16|i), now).Overflow {
				over++
			}
		}
		if over != 10 {
			t.Fatalf("round %d: %d of %d keys were charged to overflow, want 10", round, over, capacity+10)
		}
		for i := range capacity { // all of them later than the order knows
			attempt(t, s, &rs[0], addr(round<<16|i), now.Add(30*time.Second))
		}
		now = now.Add(time.Minute)
		if d := attempt(t, s, &rs[0], addr(1<<20), now); !d.Overflow {
			t.Fatalf("round %d: %+v while all are live, want overflow", round, d)
		}
		now = now.Add(29*time.Second + 999*time.Millisecond + 999*time.Microsecond)
		if d := attempt(t, s, &rs[0], addr(2<<20), now); !d.Overflow {
			t.Fatalf("round %d: %+v a microsecond before they are forgotten, want overflow", round, d)
		}
		if now = now.Add(time.Microsecond); attempt(t, s, &rs[0], addr(3<<20), now).Overflow {
			t.Fatalf("round %d: overflow though all are forgotten", round)
		}
		if n := server.Do(t, client, "ZCARD", s.rule(&rs[0]).place(addr(0)).base+"o"); n != fmt.Sprint(capacity-1) {
			t.Fatalf("%s entries, want one to have come and two to have gone", n)
		}
		now = now.Add(10 * time.Minute)
	}
}

// The order of a partition outlives all its entries, however long they are kept alive without
// one more.
func TestOrderOutlivesEntries(t *testing.T) {
	client := server.Client(t, server.Start(t))
	rs := rules(t, guard.Rule{Lockout: lock(1000, time.Minute, time.Minute)})
	s := timed(client, config("login", 1))
	at := s.rule(&rs[0]).place(addr(1))
	until := func(key string) int {
		n, err := strconv.Atoi(server.Do(t, client, "PEXPIRETIME", key))
		if err != nil || n <= 0 {
			t.Fatalf("%q expires at %d, %v", key, n, err)
		}
		return n
	}
	for i := range 100 {
		now := start.Add(time.Duration(i) * 30 * time.Second)
		attempt(t, s, &rs[0], addr(1), now)
		if entry, order := until(at.key), until(at.base+"o"); entry > order {
			t.Fatalf("after %v the entry expires at %d, the order at %d", now.Sub(start), entry, order)
		}
	}
}

// One entry has so many reservations and no more; more of others' leases than end in one call end
// in the next.
func TestManyInFlight(t *testing.T) {
	client := server.Client(t, server.Start(t))
	rs := rules(t,
		guard.Rule{Lockout: lock(5000, time.Minute, time.Minute)},
		guard.Rule{Name: "throttle", Throttle: &throttle.Policy{PerSource: 100, Global: 1500, Window: time.Hour}},
		guard.Rule{Name: "few", Throttle: &throttle.Policy{PerSource: 100, Global: 1500, Window: time.Hour, InFlight: 3}})
	s := timed(client, config("login", 1))
	for i := range 1024 {
		if c := reserve(t, s, &rs[0], addr(1), start.Add(time.Duration(i)*time.Microsecond)); !c.Decision.Allowed {
			t.Fatalf("reservation %d: %+v", i, c.Decision)
		}
	}
	if c := reserve(t, s, &rs[0], addr(1), start.Add(2*time.Millisecond)); c.Decision.Reason != doorward.Busy || c.Decision.RetryAfter != time.Second {
		t.Errorf("one more than an entry may have: %+v, want busy for a second", c.Decision)
	}
	e, _, d, err := s.Look(ctx, &rs[0], addr(1), start.Add(time.Hour))
	if err != nil || e.Count != 0 || !d.Allowed {
		t.Errorf("an hour later: %+v, %+v, %v", e, d, err)
	}
	for i := range 1400 {
		reserve(t, s, &rs[1], addr(i), start)
	}
	late := start.Add(2 * time.Minute)
	if d := reserve(t, s, &rs[1], addr(5000), late).Decision; !d.Allowed || d.Remaining != 99 {
		t.Errorf("with 400 leases that are still to end: %+v, want 100 left", d)
	}
	if d := reserve(t, s, &rs[1], addr(5001), late).Decision; !d.Allowed || d.Remaining != 98 {
		t.Errorf("with 1,400 leases that have ended: %+v, want 98 left of 1,500 but 1,400 and one pending", d)
	}
	for i := range 4 {
		if d := reserve(t, s, &rs[2], addr(i), start).Decision; d.Allowed != (i < 3) || i == 3 && (d.Reason != doorward.Busy || d.RetryAfter != time.Second) {
			t.Errorf("with %d of 3 in flight: %+v", i, d)
		}
	}
}

// A success gives back to the network what it cleared on the pair, and nothing that others
// spent, in one call or in two. In a cluster, where clocks differ, what both counted first at the same
// time stays.
func TestGivenBack(t *testing.T) {
	for name, addrs := range map[string]func() []string{
		"server":  func() []string { return []string{server.Start(t)} },
		"cluster": func() []string { return server.Cluster(t, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			client := server.Client(t, addrs()...)
			s := timed(client, config("login", 16))
			last := 0
			if name == "cluster" {
				s.skew, last = New(always(client), config("login", 16)).skew, 1
			}
			g, err := guard.New(guard.Config{Store: s, Rules: []guard.Rule{
				{Lockout: lock(10, time.Hour, time.Minute, decays)},
				{Per: guard.Pair, Lockout: lock(5, time.Hour, time.Minute)},
			}})
			if err != nil {
				t.Fatal(err)
			}
			addr := netip.MustParseAddr("192.0.2.1")
			now := start
			for _, x := range []struct {
				after   time.Duration
				subject string
				outcome doorward.Outcome
				count   int // of the network, after it
			}{
				{0, "bob", doorward.Failed, 1},
				{100 * time.Millisecond, "alice", doorward.Failed, 2},
				{0, "alice", doorward.Failed, 3},
				{0, "alice", doorward.Void, 3},
				{0, "alice", doorward.Succeeded, 1},
				{0, "alice", doorward.Succeeded, 1},
				{99_999 * time.Microsecond, "bob", doorward.Succeeded, last},
			} {
				now = now.Add(x.after)
				q := guard.Request{Addr: addr, How: clientip.Peer, Subject: doorward.KeyFromName(x.subject)}
				p, err := g.AttemptContext(ctx, q, now)
				if err != nil || !p.Allowed {
					t.Fatalf("%+v, %v", p.Verdict, err)
				}
				if _, err := p.SettleContext(ctx, x.outcome, now); err != nil {
					t.Fatal(err)
				}
				e, _, _, err := s.Look(ctx, &g.Rules()[0], doorward.KeyFromAddr(addr), now)
				if err != nil || e.Count != x.count || e.Pending != 0 {
					t.Fatalf("%s %v: %+v, %v, want a count of %d", x.subject, x.outcome, e, err, x.count)
				}
			}
		})
	}
}

// Going back in time admits nothing more: a key is judged at the latest time it has seen.
func TestClockGoesBack(t *testing.T) {
	s := timed(server.Client(t, server.Start(t)), config("login", 1))
	rs := rules(t, guard.Rule{Lockout: lock(1, time.Minute, time.Minute)})
	attempt(t, s, &rs[0], addr(1), start.Add(100*time.Second))
	if d := attempt(t, s, &rs[0], addr(1), start.Add(50*time.Second)); d.Reason != doorward.Locked || d.RetryAfter != time.Minute {
		t.Errorf("50 seconds earlier: %+v, want locked for a minute", d)
	}
	if d := attempt(t, s, &rs[0], addr(1), start.Add(160*time.Second)); !d.Allowed {
		t.Errorf("at the end of the lockout: %+v", d)
	}
}

// What is pending of a key that is unlocked uses up nothing any more.
func TestUnlockedThrottle(t *testing.T) {
	s := timed(server.Client(t, server.Start(t)), config("login", 1))
	rs := rules(t, guard.Rule{Throttle: &throttle.Policy{PerSource: 2, Global: 2}})
	for range 2 {
		reserve(t, s, &rs[0], addr(1), start)
	}
	if d := reserve(t, s, &rs[0], addr(2), start).Decision; d.Reason != doorward.Busy {
		t.Fatalf("while two are pending: %+v, want busy", d)
	}
	if err := s.Unlock(ctx, &rs[0], addr(1)); err != nil {
		t.Fatal(err)
	}
	if d := reserve(t, s, &rs[0], addr(2), start).Decision; !d.Allowed || d.Remaining != 1 {
		t.Errorf("after Unlock: %+v, want one more left", d)
	}
}
