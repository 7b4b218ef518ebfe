package attack

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/bench/internal/peer"
	"github.com/doorward/doorward/lockout"
)

var write = flag.String("write", "", "the `folder` that TestAttacks writes to")

// want is what is not zero of ours, by row and limiter, and why it may be.
var want = map[string]Results{
	// W1 and R1: a fixed window forgets all at once, 2 x Limit - 1 across its edge.
	"the window's edge": {"throttle": {Beyond: Limit - 1}, "window": {Beyond: Limit - 1}},
	// A window counts requests, right or wrong.
	"an office logs in": {"window": {Refused: people - Limit}, "window, sliding": {Refused: people - Limit}},
	// T4: newcomers share one entry while the table is full of live ones.
	"more addresses than the table holds": {
		"lockout": {Refused: people}, "throttle": {Refused: people},
		"window": {Refused: people}, "window, sliding": {Refused: people},
	},
}

// TestAttacks is the short form of what command attacks does with -write, which then
// also writes the document.
func TestAttacks(t *testing.T) {
	size, folder := Full, *write
	if folder == "" {
		size, folder = Small, t.TempDir()
	}
	results := Run(size, func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
	docs := Documents(size, results)
	for _, row := range Rows {
		if row.Stepped && !canStep {
			continue
		}
		bites := false
		for _, c := range Contenders {
			got := results[row.Name][c.Name]
			if want := want[row.Name][c.Name]; c.Ours && got != want {
				t.Errorf("%s, %s: %d beyond and %d refused, want %d and %d", row.Name, c.Name, got.Beyond, got.Refused, want.Beyond, want.Refused)
			}
			bites = bites || got != Figures{}
		}
		if !bites {
			t.Errorf("%s: every limiter stands it, so it shows nothing", row.Name)
		}
		if n := strings.Count(docs["attacks.md"], "| "+row.Name+" |"); n != 2 {
			t.Errorf("%s is in %d tables, want 2", row.Name, n)
		}
	}
	for name, text := range docs {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A clock that is set forward and back gains nothing, and costs nobody more than the
// policy does: an edge passes on times that have a monotonic reading.
func TestClockSteps(t *testing.T) {
	l, err := lockout.New(peer.Lockout(peer.Config{Limit: Limit, Window: time.Minute, Keys: 10}))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	a, b := doorward.KeyFromName("a"), doorward.KeyFromName("b")
	guesses := func(k doorward.Key, now time.Time) (allowed int) {
		for range 2 * Limit {
			if l.Attempt(k, now).Allowed {
				allowed++
			}
		}
		return allowed
	}
	if n := guesses(a, start); n != Limit {
		t.Fatalf("%d allowed, want %d", n, Limit)
	}
	for _, step := range []time.Duration{time.Hour, -time.Hour, 0} {
		if n := guesses(a, stepped(start, step)); n != 0 {
			t.Errorf("%d allowed after a step of %v", n, step)
		}
		if n := guesses(b, stepped(start, step)); step == time.Hour && n != Limit {
			t.Errorf("%d allowed to another key", n)
		}
	}
	if n := guesses(b, stepped(start.Add(time.Minute), 0)); n != 1 {
		t.Errorf("%d allowed at the end of the lockout, want 1", n)
	}
}

// stepped returns t as a clock shows it whose wall reading was set ahead by d.
func stepped(t time.Time, d time.Duration) time.Time {
	s := t
	wall := (*uint64)(unsafe.Pointer(&s)) // seconds stand above 30 bits of nanoseconds
	*wall += uint64(d/time.Second) << 30
	if got := s.Round(0).Sub(t.Round(0)); got != d {
		panic("time.Time is laid out otherwise")
	}
	return s
}
