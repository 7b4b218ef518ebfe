package proxy

import (
	"testing"
	"time"
)

// How many requests are at a door lives on in a reload; the limit is the new one. An error
// changes nothing.
func TestReloadPlaces(t *testing.T) {
	c := baseConfig(t, "127.0.0.1:1", lockoutGuard(t, 5), newRecord())
	c.Doors[0].MaxInFlight = 2
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	places := p.set.Load().doors[0].inFlight
	places.Enter()
	next := c
	next.Doors = append([]Door(nil), c.Doors...)
	next.Doors[0].MaxInFlight = 1
	if err := p.Check(next); err != nil || p.set.Load().doors[0].MaxInFlight != 2 {
		t.Errorf("asked only: %v, %d", err, p.set.Load().doors[0].MaxInFlight)
	}
	if err := p.Reload(next); err != nil {
		t.Fatal(err)
	}
	now := p.set.Load().doors[0].inFlight
	if now.Enter() {
		t.Error("a second one is let in")
	}
	places.Leave()
	if !now.Enter() {
		t.Error("no place, though one has left")
	}
	for _, edit := range []option{
		func(c *Config) { c.Timeouts.Write = time.Second },
		func(c *Config) { c.Timeouts.Response = time.Second },
		func(c *Config) { c.Timeouts.Body = -1 },
		func(c *Config) { c.Doors = append(c.Doors, Door{Name: "x"}) },
	} {
		bad := c
		bad.Doors = append([]Door(nil), c.Doors...)
		edit(&bad)
		before := p.set.Load()
		if err := p.Reload(bad); err == nil || p.set.Load() != before {
			t.Errorf("error %v, or changed", err)
		}
	}
}
