package tally

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/guard"
)

const us = time.Microsecond

func refused(door, rule string, reason doorward.Reason) *proxy.Event {
	return &proxy.Event{Door: door, How: clientip.Peer, Verdict: guard.Verdict{Decision: doorward.Decision{Reason: reason}, Rule: rule}, Took: us}
}

func settled(door string, o doorward.Outcome) *proxy.Event {
	return &proxy.Event{
		Door: door, How: clientip.Header, Verdict: guard.Verdict{Decision: doorward.Decision{Allowed: true}},
		Settlement: guard.Settlement{Settled: true, Outcome: o}, Took: us + 1,
	}
}

var doors = []Door{{"login", "accounts", []string{"burst", "day"}}, {"reset", "accounts", []string{"burst", "day"}}}

// Every kind of event, and the one number that it adds to.
func TestCount(t *testing.T) {
	with := func(e *proxy.Event, change func(*proxy.Event)) *proxy.Event { change(e); return e }
	for _, row := range []struct {
		name string
		e    *proxy.Event
		of   func(c Counts) uint64
	}{
		{"failed", settled("login", doorward.Failed), func(c Counts) uint64 { return c.Outcomes[doorward.Failed] }},
		{"void", settled("login", doorward.Void), func(c Counts) uint64 { return c.Outcomes[doorward.Void] }},
		{"exempt", with(settled("login", doorward.Succeeded), func(e *proxy.Event) { e.Verdict.Exempt = true }), func(c Counts) uint64 { return c.Exempt }},
		{"locked", refused("login", "day", doorward.Locked), func(c Counts) uint64 { return c.Rules[2].Refused[doorward.Locked] }},
		{"blocked", refused("login", "", doorward.Blocked), func(c Counts) uint64 { return c.Rules[0].Refused[doorward.Blocked] }},
		{"unavailable", refused("login", "", doorward.Unavailable), func(c Counts) uint64 { return c.Rules[0].Total() }},
	} {
		counts := New()
		counts.Configure(doors)
		counts.Count(row.e)
		s := counts.Snapshot()
		if n := row.of(s.Doors[0]); n != 1 {
			t.Errorf("%s: %d, want 1", row.name, n)
		}
		if n := total(s.Doors[0]); n != 1 {
			t.Errorf("%s: counted %d times", row.name, n)
		}
		if n := total(s.Doors[1]); n != 0 {
			t.Errorf("%s: counted at another door", row.name)
		}
		if c := s.Doors[0]; c.Hows[row.e.How] != 1 || c.Took != row.e.Took || c.Door != "login" || c.Guard != "accounts" || c.Rules[1].Name != "burst" {
			t.Errorf("%s: %+v", row.name, c)
		}
	}
}

// total is how many attempts were counted, each in one place.
func total(c Counts) (n uint64) {
	for _, m := range c.Outcomes {
		n += m
	}
	for _, r := range c.Rules {
		n += r.Total()
	}
	return n + c.Exempt
}

// Lockouts, rules that only watch, and asked for more come on top of outcomes.
func TestBeside(t *testing.T) {
	counts := New()
	counts.Configure(doors)
	e := settled("login", doorward.Failed)
	e.Settlement.Lockout = guard.Lockout{Rule: "day", For: time.Minute}
	e.Verdict.Shadow, e.Verdict.StepUp = 0b101, true // of the third there is none
	counts.Count(e)
	c := counts.Snapshot().Doors[0]
	if total(c) != 1 || c.Rules[1].Lockouts != 0 || c.Rules[2].Lockouts != 1 || c.Rules[1].Shadow != 1 || c.Rules[2].Shadow != 0 || c.StepUp != 1 {
		t.Errorf("%+v", c)
	}
}

func TestBuckets(t *testing.T) {
	for _, row := range []struct {
		took time.Duration
		want int
	}{{0, 0}, {us, 0}, {us + 1, 1}, {2500, 1}, {2501, 2}, {100 * time.Millisecond, 15}, {100*time.Millisecond + 1, 16}, {time.Hour, 16}} {
		counts := New()
		counts.Configure(doors)
		e := settled("login", doorward.Failed)
		e.Took = row.took
		counts.Count(e)
		if c := counts.Snapshot().Doors[0]; c.Decisions[row.want] != 1 || c.Took != row.took {
			t.Errorf("%v: %v, want one at %d", row.took, c.Decisions, row.want)
		}
	}
	for i := range Buckets[1:] {
		if Buckets[i] >= Buckets[i+1] {
			t.Errorf("bucket %d is not shorter than the next", i)
		}
	}
}

// A reload keeps what has the same name, and nothing else.
func TestConfigure(t *testing.T) {
	counts := New()
	counts.Count(settled("login", doorward.Failed)) // there is no such door yet
	counts.Configure(doors)
	for _, e := range []*proxy.Event{settled("login", doorward.Failed), settled("reset", doorward.Failed), refused("login", "burst", doorward.Busy), refused("login", "day", doorward.Busy)} {
		counts.Count(e)
	}
	counts.Configure([]Door{{"reset", "other", []string{"burst"}}, {"login", "accounts", []string{"new", "day"}}})
	counts.Count(refused("login", "burst", doorward.Busy)) // began before
	s := counts.Snapshot()
	if len(s.Doors) != 2 || total(s.Doors[0]) != 0 {
		t.Errorf("of another guard now: %+v", s.Doors)
	}
	c := s.Doors[1]
	if c.Door != "login" || len(c.Rules) != 3 || c.Outcomes[doorward.Failed] != 1 || c.Rules[1].Name != "new" || c.Rules[1].Total() != 0 || c.Rules[2].Refused[doorward.Busy] != 1 {
		t.Errorf("%+v", c)
	}
	at, bad := time.Unix(1, 0), errors.New("bad")
	counts.Reloaded(at, nil)
	counts.Reloaded(at, bad)
	if r := counts.Snapshot().Reloads; r != (Reloads{1, 1, at, bad}) {
		t.Errorf("%+v", r)
	}
}

// Nothing is lost when many count, and reload, at once.
func TestParallel(t *testing.T) {
	counts := New()
	counts.Configure(doors)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 5_000 {
				counts.Count(settled("login", doorward.Succeeded))
				counts.Count(refused("reset", "day", doorward.Locked))
			}
		})
	}
	running.Go(func() {
		for range 100 {
			counts.Configure(doors)
			counts.Snapshot()
		}
	})
	running.Wait()
	s := counts.Snapshot()
	if n, m := s.Doors[0].Outcomes[doorward.Succeeded], s.Doors[1].Rules[2].Refused[doorward.Locked]; n != 40_000 || m != 40_000 {
		t.Errorf("%d and %d, want 40000 each", n, m)
	}
	if n := s.Doors[0].Decisions[1]; n != 40_000 || s.Doors[0].Took != 40_000*(us+1) {
		t.Errorf("%d decisions in %v", n, s.Doors[0].Took)
	}
}

func TestAllocations(t *testing.T) {
	counts := New()
	counts.Configure(doors)
	e := refused("login", "day", doorward.Locked)
	if n := testing.AllocsPerRun(1000, func() { counts.Count(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCount(b *testing.B) {
	counts := New()
	counts.Configure(doors)
	b.RunParallel(func(pb *testing.PB) {
		e := refused("login", "day", doorward.Locked)
		for pb.Next() {
			counts.Count(e)
		}
	})
}
