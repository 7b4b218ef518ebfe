package proxy

import (
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/guard"
)

// told collects events.
type told struct {
	mu     sync.Mutex
	events []Event
}

func (t *told) tell(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, *e)
}

// TestEvents: every attempt is told once when it ends, and every refusal once; the failure
// that starts a lockout says so, and what was malformed says why.
func TestEvents(t *testing.T) {
	var told told
	a, g := listen(t, reads(wrong)), lockoutGuard(t, 2)
	s := serve(t, a.addr, behind(t), subjects(t, subject.Source{Form: "user"}), func(c *Config) {
		c.Tell = told.tell
		c.Doors[0].Guard = g
	})
	s.via("192.0.2.7", "/login?secret", "user=alice")
	s.via("192.0.2.7", "/login", "nobody=alice")
	s.via("192.0.2.7", "/login", "user=alice")
	s.via("192.0.2.7", "/elsewhere", "user=alice")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	alice := doorward.KeyFromName("alice")
	lock := guard.Lockout{Rule: "network", For: time.Minute}
	want := []Event{
		{Subject: alice, Settlement: guard.Settlement{Settled: true}},
		{Malformed: "the request names no subject", Settlement: guard.Settlement{Settled: true, Outcome: doorward.Malformed, Lockout: lock}},
		{Verdict: guard.Verdict{Rule: "network", Decision: doorward.Decision{Reason: doorward.Locked}}},
	}
	if len(told.events) != len(want) {
		t.Fatalf("%d events, want %d: %+v", len(told.events), len(want), told.events)
	}
	for i, e := range told.events {
		w := want[i]
		w.Verdict.Allowed = w.Settlement.Settled
		if e.Time.IsZero() || e.Took <= 0 || e.Took > patience {
			t.Errorf("event %d: at %v, took %v", i, e.Time, e.Took)
		}
		if e.Door != "login" || e.Guard != g || e.Addr != netip.MustParseAddr("192.0.2.7") || e.How != clientip.Header || e.Method != http.MethodPost || e.Path != "/login" {
			t.Errorf("event %d: %+v", i, e)
		}
		if e.Subject != w.Subject || e.Settlement != w.Settlement || e.Malformed != w.Malformed ||
			e.Verdict.Allowed != w.Verdict.Allowed || e.Verdict.Reason != w.Verdict.Reason || e.Verdict.Rule != w.Verdict.Rule {
			t.Errorf("event %d: %+v, want %+v", i, e, w)
		}
	}
	n := map[string]uint64{}
	s.proxy.Lines(func(kind string, total uint64) { n[kind] = total })
	if n["settled"] != 2 || n["refused"] != 2 || n["door is full"] != 0 {
		t.Errorf("lines: %v", n)
	}
}
