package redisstore

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/process"
	"github.com/doorward/doorward/redisstore/internal/server"
)

// TestNode is a node in a process of its own. "guess KEY N" makes N wrong guesses at once and answers
// how many were admitted, "leave KEY" makes one that never ends, "up" answers whether the server is.
func TestNode(t *testing.T) {
	process.Serve(t, func(args []string) func(string) string {
		m, err := ParseMode(args[1])
		if err != nil {
			t.Fatal(err)
		}
		c, err := Dial(Options{Addresses: args[:1], Secret: []byte("a secret of tests"), Deadline: MaxDeadline})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Store("login", m)
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.New(guard.Config{Rules: []guard.Rule{chaosRule()}, Store: s})
		if err != nil {
			t.Fatal(err)
		}
		return func(line string) string {
			var word string
			var key, n int
			fmt.Sscan(line, &word, &key, &n)
			switch word {
			case "guess":
				var admitted atomic.Int64
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						p, err := g.AttemptContext(ctx, caller(key), time.Now())
						if err == nil && p.Allowed {
							admitted.Add(1)
							p.SettleContext(ctx, doorward.Failed, time.Now())
						}
					})
				}
				wg.Wait()
				return fmt.Sprint(admitted.Load())
			case "leave":
				p, _ := g.AttemptContext(ctx, caller(key), time.Now())
				return fmt.Sprint(p.Allowed)
			case "up":
				return fmt.Sprint(c.Health().Up)
			}
			return "what?"
		}
	})
}

type processes []*process.Process

// guess lets all of them make n guesses at once, and returns how many were admitted.
func (ps processes) guess(t *testing.T, key, n int) (admitted int) {
	t.Helper()
	for _, p := range ps {
		p.Say(t, "guess %d %d", key, n)
	}
	for _, p := range ps {
		n, err := strconv.Atoi(p.Hear(t))
		if err != nil {
			t.Fatal(err)
		}
		admitted += n
	}
	return admitted
}

// await waits until all of them know that the server is up, or not.
func (ps processes) await(t *testing.T, up bool) {
	t.Helper()
	server.Await(t, fmt.Sprintf("all processes to have up %v", up), func() bool {
		ps.guess(t, 1<<20, 5) // at somebody else
		for _, p := range ps {
			p.Say(t, "up")
		}
		all := true
		for _, p := range ps {
			all = p.Hear(t) == fmt.Sprint(up) && all
		}
		return all
	})
}

// Four processes have one budget, with all that may end a process: what is left in flight stays
// counted. While the server is away each has one of its own, and so has one that starts then.
func TestProcesses(t *testing.T) {
	for _, x := range []struct {
		mode              Mode
		paused, restarted int // admitted while it is away, and then by one that started
	}{
		{Local, 4 * policy, policy},
		{Closed, 0, 0},
	} {
		t.Run(x.mode.String(), func(t *testing.T) {
			one := server.Run(t)
			start := func() *process.Process { return process.Start(t, "TestNode", one.Addr, x.mode.String()) }
			ps := processes{start(), start(), start(), start()}
			ps.await(t, true)
			if n := ps.guess(t, 1, 750); n != policy {
				t.Errorf("3,000 guesses at once: %d admitted, want %d", n, policy)
			}
			if n := ps.guess(t, 1, 1); n != 0 { // now all have been told that it is locked
				t.Errorf("then %d admitted", n)
			}
			for range 2 {
				ps[0].Say(t, "leave 2")
				if got := ps[0].Hear(t); got != "true" {
					t.Fatalf("an attempt that is left: %s", got)
				}
			}
			ps[0].Kill()
			ps[0] = start()
			ps.await(t, true)
			if n := ps.guess(t, 2, 100); n != policy-2 {
				t.Errorf("two in flight in a process that was killed: %d more admitted, want %d", n, policy-2)
			}
			one.Pause()
			ps.await(t, false)
			if n := ps.guess(t, 3, 100); n != x.paused {
				t.Errorf("paused: %d admitted, want %d", n, x.paused)
			}
			if n := ps.guess(t, 1, 100); n != x.restarted {
				t.Errorf("paused: %d admitted of who is locked out, want %d, by the process that started anew", n, x.restarted)
			}
			one.Resume()
			ps.await(t, true)
			n := 0
			server.Await(t, "what came too late to be taken back", func() bool {
				n += ps.guess(t, 3, 100)
				return n >= policy
			})
			if n += ps.guess(t, 3, 100); n != policy {
				t.Errorf("back: %d admitted, want %d", n, policy)
			}
			ps[3].Kill()
			one.Kill()
			ps[3] = start() // it finds no server
			if n := ps[3:].guess(t, 3, 100); n != x.restarted {
				t.Errorf("started without a server: %d admitted, want %d", n, x.restarted)
			}
			ps[:3].await(t, false)
			if n := ps.guess(t, 3, 100); n != 0 {
				t.Errorf("killed: %d admitted, and all had guessed before", n)
			}
		})
	}
}
