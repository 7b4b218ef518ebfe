package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/hub"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/guard"
)

// told is a daemon of one door, and a refusal at it.
func told(t testing.TB) (*daemon, *proxy.Event) {
	t.Helper()
	c := config.Config{Doors: []config.Door{{Name: "login", Guard: guard.Config{Rules: config.DefaultRules()}}}}
	d := newDaemon(c)
	d.chooseSecret(c)
	g, err := guard.New(c.Doors[0].Guard)
	if err != nil {
		t.Fatal(err)
	}
	d.guards = map[string]*guard.Guard{"login": g}
	d.counted(c, d.guards)
	return d, &proxy.Event{
		Time: time.Now(), Door: "login", Guard: g, Addr: netip.MustParseAddr("192.0.2.7"), How: clientip.Peer,
		Subject: doorward.KeyFromName("alice"), Method: "POST", Path: "/login", Agent: "curl",
		Verdict: guard.Verdict{Decision: doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Minute}, Rule: "burst"}, Took: 300,
	}
}

// A flood allocates nothing on the way through those who are told of it, and one small thing
// for all who watch and do not read.
func TestTellAllocatesNothing(t *testing.T) {
	d, e := told(t)
	if n := testing.AllocsPerRun(1000, func() { d.tell(e) }); n != 0 {
		t.Errorf("unwatched: %v allocations", n)
	}
	s, err := d.hub.Watch(hub.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for range hub.Queue {
		d.tell(e)
	}
	if n := len(s.Queue()); n != hub.Queue {
		t.Fatalf("%d wait, want %d", n, hub.Queue)
	}
	if n := testing.AllocsPerRun(1000, func() { d.tell(e) }); n > 1 {
		t.Errorf("watched by who does not read: %v allocations", n)
	}
}

func BenchmarkTell(b *testing.B) {
	for _, row := range []struct {
		name    string
		streams int
	}{{"unwatched", 0}, {"watched", 1}, {"watched by all who may", hub.Streams}} {
		b.Run(row.name, func(b *testing.B) {
			d, e := told(b)
			for range row.streams {
				if _, err := d.hub.Watch(hub.Filter{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				d.tell(e)
			}
		})
	}
}
