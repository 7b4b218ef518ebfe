//go:build mutants

package linear

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

var keep = flag.Bool("record", false, "replace the histories in testdata")

// A toy is a lockout in a few lines, slow and without decay, that makes the mistake it
// is named after. Without one it follows the rules.
type toy struct {
	lockout.Policy
	mistake string
	mu      sync.Mutex
	begun   bool
	now     time.Time
	own     map[doorward.Key]*client
	over    client
	pending []*held
	tickets uint64
}

type client struct {
	failures      int
	first, locked time.Time
	forget        time.Time
	pending       int
}

type held struct {
	key    doorward.Key
	client *client
	ticket doorward.Ticket
	end    time.Time
}

func newToy(p lockout.Policy, mistake string) *toy {
	return &toy{Policy: p, mistake: mistake, own: map[doorward.Key]*client{}}
}

// enter takes the lock and moves the clock.
func (t *toy) enter(now time.Time) {
	t.mu.Lock()
	if !t.begun || now.After(t.now) {
		t.begun, t.now = true, now
	}
	for len(t.pending) > 0 && !t.pending[0].end.After(t.now) && t.mistake != "lease ignored" {
		h := t.pending[0]
		t.drop(h)
		t.fail(h.client, h.end)
	}
	t.sweep()
}

// sweep removes what is forgotten.
func (t *toy) sweep() {
	t.over.age(t.now)
	for k, c := range t.own {
		if c.age(t.now); c.failures == 0 && c.pending == 0 {
			delete(t.own, k)
		}
	}
}

func (c *client) age(now time.Time) {
	if !c.forget.After(now) {
		*c = client{pending: c.pending}
	}
}

// seat returns who k is charged to. A new client has no entry yet.
func (t *toy) seat(k doorward.Key) *client {
	if c := t.own[k]; c != nil {
		return c
	}
	n, room := 0, t.Capacity
	for other := range t.own {
		if other != name(loopback) && (t.mistake != "per-shard capacity" || shard(other) == shard(k)) {
			n++
		}
	}
	if t.mistake == "per-shard capacity" {
		room = (room + 1) / 2
	}
	if k == name(loopback) || n < room {
		return &client{}
	}
	if t.mistake == "evict when full" {
		for victim := range t.own {
			if victim != name(loopback) {
				delete(t.own, victim)
				return &client{}
			}
		}
	}
	return &t.over
}

func shard(k doorward.Key) byte { return k.Prefix().Addr().As4()[3] & 1 }

func (t *toy) judge(c *client) doorward.Decision {
	d := doorward.Decision{Overflow: c == &t.over}
	left := t.FreeFailures - c.failures - c.pending
	switch {
	case c.locked.After(t.now):
		d.Reason, d.RetryAfter = doorward.Locked, c.locked.Sub(t.now)
	case left > 0:
		d.Allowed, d.Remaining = true, left-1
	case c.pending == 0:
		d.Allowed = true
	default:
		d.Reason, d.RetryAfter = doorward.Busy, time.Second
		for _, h := range t.pending {
			if h.client == c {
				d.RetryAfter = min(d.RetryAfter, h.end.Sub(t.now))
				break
			}
		}
	}
	return d
}

func (t *toy) charge(k doorward.Key, c *client) {
	if c != &t.over {
		t.own[k] = c
	}
}

func (t *toy) fail(c *client, at time.Time) {
	c.age(at)
	if c.failures++; c.failures == 1 {
		c.first = at
	}
	c.forget = at.Add(t.Window)
	if over := c.failures - t.FreeFailures; over >= 0 {
		c.locked = at.Add(min(t.MaxLockout, t.FirstLockout<<min(over, 20)))
		c.forget = c.locked.Add(t.Window)
	}
}

func (t *toy) drop(h *held) {
	for i := range t.pending {
		if t.pending[i] == h {
			t.pending = append(t.pending[:i], t.pending[i+1:]...)
			break
		}
	}
	h.client.pending--
}

func (t *toy) Attempt(k doorward.Key, now time.Time) doorward.Decision {
	t.enter(now)
	defer t.mu.Unlock()
	d := t.judge(t.seat(k))
	if t.mistake == "check before count" {
		t.mu.Unlock()
		runtime.Gosched()
		t.mu.Lock()
	}
	if d.Allowed {
		c := t.seat(k)
		t.charge(k, c)
		t.fail(c, t.now)
		t.sweep()
	}
	return d
}

func (t *toy) Check(k doorward.Key, now time.Time) doorward.Decision {
	t.enter(now)
	defer t.mu.Unlock()
	return t.judge(t.seat(k))
}

func (t *toy) Succeeded(k doorward.Key, now time.Time) {
	t.enter(now)
	defer t.mu.Unlock()
	if c := t.own[k]; c != nil {
		*c = client{pending: c.pending}
		t.sweep()
	}
}

func (t *toy) Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket) {
	t.enter(now)
	defer t.mu.Unlock()
	c := t.seat(k)
	d := t.judge(c)
	if !d.Allowed {
		return d, doorward.Ticket{}
	}
	t.charge(k, c)
	c.pending++
	t.tickets++
	h := &held{k, c, doorward.Ticket{A: t.tickets}, t.now.Add(t.Lease)}
	t.pending = append(t.pending, h)
	return d, h.ticket
}

func (t *toy) Settle(k doorward.Key, ticket doorward.Ticket, o doorward.Outcome, now time.Time) (out doorward.Cleared) {
	t.enter(now)
	defer t.mu.Unlock()
	defer t.sweep()
	for _, h := range t.pending {
		if h.ticket != ticket || h.key != k {
			continue
		}
		t.drop(h)
		switch {
		case o == doorward.Failed || o == doorward.Malformed:
			t.fail(h.client, t.now)
		case o == doorward.Succeeded && h.client != &t.over:
			if out.N = h.client.failures; out.N > 0 {
				out.First = h.client.first
			}
			*h.client = client{pending: h.client.pending}
		}
		return out
	}
	if c := t.own[k]; c != nil && o == doorward.Succeeded && t.mistake == "clear by late settlement" {
		*c = client{pending: c.pending}
	}
	return out
}

// toyPolicy is one that a toy knows.
func toyPolicy(seed uint64) lockout.Policy {
	p := policy(rand.New(rand.NewPCG(seed, seed)))
	p.Decay, p.OnSuccess = false, lockout.Clear
	return p
}

// The toy without a mistake passes: it is the mistakes that are caught.
func TestToyIsLinearizable(t *testing.T) {
	for seed := range uint64(300) {
		p := toyPolicy(seed)
		if h := record(newToy(p, ""), seed); !porcupine.CheckOperations(rules{p}.model(), h) {
			t.Fatalf("seed %d, %+v: not linearizable:\n%s", seed, p, story(h))
		}
	}
}

// Every mistake is caught, and soon. With -record the histories are kept.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range mutants {
		t.Run(m, func(t *testing.T) {
			for seed := range uint64(2000) {
				p := toyPolicy(seed)
				h := record(newToy(p, m), seed)
				if porcupine.CheckOperations(rules{p}.model(), h) {
					continue
				}
				t.Logf("after %d histories", seed+1)
				if !*keep {
					return
				}
				text, err := json.MarshalIndent(saved{m, p, save(h)}, "", "\t")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path(m), append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Error("never caught")
		})
	}
}
