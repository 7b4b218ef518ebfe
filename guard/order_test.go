package guard

import (
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/window"
)

// G1, G11: rules are charged from wide to narrow, networks before subjects, windows last.
func TestChargingOrder(t *testing.T) {
	l := lockout.Login
	l.Capacity, l.InFlight = 1, 1
	w := window.Policy{Limit: 1, Window: time.Minute, Capacity: 1, InFlight: 1}
	g, err := New(Config{Rules: []Rule{
		{Name: "hour", Per: Everyone, Window: &w},
		{Name: "pair", Per: Pair, Lockout: &l},
		{Name: "own", Lockout: &l},
		{Name: "subject", Per: Subject, Lockout: &l},
		{Name: "site24", V4: 24, V6: -1, Lockout: &l},
		{Name: "site32", V4: -1, V6: 32, Lockout: &l},
		{Name: "all", Per: Everyone, Lockout: &l},
		{Name: "site48", V4: -1, V6: 48, Lockout: &l},
		{Name: "code", Per: Challenge, Lockout: &l},
		{Name: "device", Per: Device, Lockout: &l},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range g.rules {
		names = append(names, r.Name)
	}
	want := []string{"all", "site32", "site24", "site48", "own", "subject", "code", "pair", "device", "hour"}
	if !slices.Equal(names, want) {
		t.Errorf("charged in the order %v, want %v", names, want)
	}
}
