package guard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

// G3: whatever a caller does to keys of their own gains no guess at others. Each
// row is a way to have something given back that was never counted.
func TestNothingIsWashedOff(t *testing.T) {
	pair := guard.Rule{Name: "pair", Per: guard.Pair, Lockout: free(5, time.Hour, time.Hour)}
	for _, row := range []struct {
		name  string
		rules []guard.Rule
		round func(s story, guess func() bool)
		want  int // guesses that the rule which is after them admits
	}{
		{"malformed on a key that does not count it", []guard.Rule{pair,
			{Name: "all", Per: guard.Everyone, Lockout: free(20, time.Hour, time.Hour)}},
			func(s story, guess func() bool) {
				for range 4 {
					guess()
				}
				for range 4 {
					s.try(s.on("192.0.2.1", "mine"), doorward.Malformed)
				}
				s.try(s.on("192.0.2.1", "mine"), doorward.Succeeded)
			}, 20},
		{"another network's failures on one's own challenge", []guard.Rule{
			{Name: "code", Per: guard.Challenge, Lockout: free(5, time.Hour, time.Hour)},
			{Name: "own", Lockout: free(5, time.Hour, time.Hour)}},
			func(s story, guess func() bool) {
				mine := func(addr string) guard.Request {
					r := from(addr)
					r.Challenge = doorward.KeyFromName("mine")
					return r
				}
				for range 4 {
					guess()
				}
				for range 4 {
					s.try(mine("198.51.100.1"), doorward.Failed)
				}
				s.try(mine("192.0.2.1"), doorward.Succeeded)
			}, 5},
		{"a network that clears, on wider keys", []guard.Rule{
			{Name: "own", OnSuccess: guard.Clear, Lockout: free(5, time.Hour, time.Hour)},
			{Name: "site", V4: 24, V6: 48, Lockout: free(10, time.Hour, time.Hour)}},
			func(s story, guess func() bool) {
				for range 4 {
					guess()
				}
				s.try(from("192.0.2.1"), doorward.Succeeded)
			}, 10},
		{"a device's failures, on the subject that does not count them", []guard.Rule{pair,
			{Name: "device", Per: guard.Device, Lockout: free(50, time.Hour, time.Hour)},
			{Name: "subject", Per: guard.Subject, Lockout: free(8, time.Hour, time.Hour)}},
			func(s story, guess func() bool) {
				for range 4 {
					guess()
				}
				owner := s.on("203.0.113.1", "victim")
				known := owner
				known.Device = doorward.KeyFromName("phone")
				for range 4 {
					s.try(known, doorward.Failed)
				}
				s.try(owner, doorward.Succeeded)
			}, 8},
		{"a shadow rule that was spent", []guard.Rule{pair,
			{Name: "own", Lockout: free(9, time.Hour, time.Hour)},
			{Name: "trial", Action: guard.Shadow, Lockout: free(1, time.Hour, time.Hour)}},
			func(s story, guess func() bool) {
				for range 4 {
					guess()
				}
				s.try(s.on("192.0.2.1", "mine"), doorward.Failed)
				s.try(s.on("192.0.2.1", "mine"), doorward.Succeeded)
			}, 9},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := tell(t, rules(row.rules...))
			guesses, victims := 0, 0
			guess := func() bool {
				victims++
				who := s.on("192.0.2.1", fmt.Sprint("victim ", victims))
				if row.rules[len(row.rules)-1].Per == guard.Subject {
					who = s.on(fmt.Sprintf("192.0.2.%d", victims), "victim")
				}
				if s.try(who, doorward.Failed) {
					guesses++
					return true
				}
				return false
			}
			for range 12 {
				row.round(s, guess)
			}
			if guesses > row.want {
				t.Errorf("%d guesses admitted, want at most %d", guesses, row.want)
			}
		})
	}
}

// try makes one attempt at second 0 and reports whether it was admitted.
func (s story) try(r guard.Request, o doorward.Outcome) bool {
	p := s.Attempt(r, at(0))
	p.Settle(o, at(0))
	return p.Allowed
}

// Failures in flight on the overflow entry are not those of the entry that the network
// gets later.
func TestOverflowIsNotGivenBack(t *testing.T) {
	tiny := free(5, time.Hour, time.Hour)
	tiny.Capacity = 1
	for _, lapse := range []bool{false, true} {
		s := tell(t, rules(
			guard.Rule{Name: "own", Lockout: tiny},
			guard.Rule{Name: "pair", Per: guard.Pair, Lockout: free(6, time.Hour, time.Hour)},
		))
		holder := s.Attempt(from("198.51.100.1"), at(0))
		var mine []guard.Permit
		for range 5 {
			mine = append(mine, s.Attempt(s.on("192.0.2.1", "mine"), at(0)))
		}
		holder.Settle(doorward.Void, at(1))
		guesses := 0
		guess := func(second float64) {
			if p := s.Attempt(s.on("192.0.2.1", fmt.Sprint("victim ", guesses)), at(second)); p.Allowed {
				guesses++
				p.Settle(doorward.Failed, at(second))
			}
		}
		for range 4 {
			guess(2)
		}
		second := 3.0
		if lapse {
			second = 61
		} else {
			for i := range mine {
				mine[i].Settle(doorward.Failed, at(second))
			}
		}
		p := s.Attempt(s.on("192.0.2.1", "mine"), at(second))
		if cleared := p.Settle(doorward.Succeeded, at(second)); cleared.Cleared != 5 {
			t.Fatalf("cleared %d on the pair, want 5", cleared.Cleared)
		}
		for range 10 {
			guess(second)
		}
		if guesses != 5 {
			t.Errorf("lapse %t: %d guesses, want 5", lapse, guesses)
		}
	}
}

// A permit that names a rule which does not apply to its caller any more settles
// nothing there.
func TestPermitOfAnotherFamily(t *testing.T) {
	s := tell(t, rules(guard.Rule{Name: "net", Lockout: free(5, time.Hour, time.Hour)}))
	p := s.Attempt(from("192.0.2.1"), at(0))
	b, _ := p.MarshalBinary()
	g, err := s.Reload(rules(guard.Rule{Name: "net", V4: -1, Lockout: free(5, time.Hour, time.Hour)}))
	if err != nil {
		t.Fatal(err)
	}
	back, err := g.ReadPermit(b)
	if err != nil {
		t.Fatal(err)
	}
	if !back.Settle(doorward.Failed, at(0)).Settled {
		t.Error("the permit cannot be settled")
	}
}
