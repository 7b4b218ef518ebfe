package guard_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// R2, R6: a throttle's ceiling is one for both families, and one noisy caller cannot
// close the door.
func TestCeiling(t *testing.T) {
	s := tell(t, rules(guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 3, Global: 7, Window: time.Hour}}))
	for range 100 {
		s.try(from("192.0.2.1"), doorward.Failed)
	}
	s.refused(0, from("192.0.2.1"), "ceiling", 3600)
	for _, addr := range []string{"192.0.2.2", "2001:db8::1", "2001:db8:0:1::1", "192.0.2.3"} {
		s.admitted(0, from(addr), doorward.Failed)
	}
	for _, addr := range []string{"192.0.2.9", "2001:db8:0:9::1"} {
		if v := s.refused(10, from(addr), "ceiling", 3590); v.Reason != doorward.Ceiling {
			t.Errorf("%s: refused as %v, want ceiling", addr, v.Reason)
		}
	}
	s.admitted(3600, from("192.0.2.9"), doorward.Failed)
}

// G3: a throttle takes a success for void, except on a pair.
func TestThrottleAndSuccess(t *testing.T) {
	for per, want := range map[guard.Per]bool{guard.Network: false, guard.Subject: false, guard.Pair: true} {
		s := tell(t, rules(guard.Rule{Name: "r", Per: per, Throttle: &throttle.Policy{PerSource: 2, Global: 100, Window: time.Hour}}))
		who := s.on("192.0.2.1", "alice")
		s.admitted(0, who, doorward.Failed)
		s.admitted(0, who, doorward.Succeeded)
		s.admitted(0, who, doorward.Failed)
		if got := s.try(who, doorward.Failed); got != want {
			t.Errorf("per %v: admitted %t after a success, want %t", per, got, want)
		}
	}
}

// G3, G4, W5: a window keeps every charge but what is void.
func TestWindowKeepsCharges(t *testing.T) {
	for _, row := range []struct {
		per  guard.Per
		o    doorward.Outcome
		kept bool
	}{
		{guard.Network, doorward.Succeeded, true}, {guard.Network, doorward.Failed, true},
		{guard.Network, doorward.Malformed, true}, {guard.Network, doorward.Void, false},
		{guard.Pair, doorward.Malformed, true}, {guard.Subject, doorward.Malformed, false},
		{guard.Subject, doorward.Succeeded, true}, {guard.Everyone, doorward.Malformed, false},
		{guard.Everyone, doorward.Failed, true}, {guard.Challenge, doorward.Malformed, false},
	} {
		s := tell(t, rules(guard.Rule{Name: "r", Per: row.per, Window: &window.Policy{Limit: 1, Window: time.Hour, Sliding: true}}))
		who := s.on("192.0.2.1", "alice")
		who.Challenge = doorward.KeyFromName("code")
		s.admitted(0, who, row.o)
		if kept := !s.try(who, doorward.Failed); kept != row.kept {
			t.Errorf("per %v, %v: kept %t, want %t", row.per, row.o, kept, row.kept)
		}
	}
}

// G9: a step-up rule asks for more instead of refusing, and is then not charged.
func TestStepUp(t *testing.T) {
	s := tell(t, rules(guard.Rule{Name: "more", Per: guard.Subject, Action: guard.StepUp, Lockout: free(2, time.Hour, time.Minute)}))
	for i, want := range []bool{false, false, true, true} {
		if v := s.admitted(float64(i), s.on(fmt.Sprintf("192.0.2.%d", i), "alice"), doorward.Failed); v.StepUp != want {
			t.Errorf("attempt %d: step-up %t, want %t", i+1, v.StepUp, want)
		}
	}
	if v := s.admitted(61, s.on("192.0.2.9", "alice"), doorward.Failed); v.StepUp {
		t.Error("what asked for more was charged")
	}
	if v := s.Check(s.on("192.0.2.1", "alice"), at(62)); !v.Allowed || !v.StepUp {
		t.Errorf("Check: %+v, want allowed with step-up", v)
	}
}

func deviceRules() guard.Config {
	return rules(
		guard.Rule{Name: "network", Lockout: free(20, time.Hour, time.Minute)},
		guard.Rule{Name: "pair", Per: guard.Pair, Lockout: free(15, time.Hour, time.Minute)},
		guard.Rule{Name: "subject", Per: guard.Subject, Lockout: decaying(10, 24*time.Hour, time.Hour)},
		guard.Rule{Name: "device", Per: guard.Device, Lockout: free(10, 24*time.Hour, 30*time.Second)},
	)
}

func (s story) with(r guard.Request, device string) guard.Request {
	r.Device = doorward.KeyFromName(device)
	return r
}

// G8: 40 networks fail on one subject: strangers are refused, the owner's device is in.
func TestBotnet(t *testing.T) {
	s := tell(t, deviceRules())
	for i := range 40 {
		s.try(s.on(fmt.Sprintf("198.51.100.%d", i), "alice"), doorward.Failed)
	}
	s.refused(1, s.on("192.0.2.1", "alice"), "subject", 3599)
	s.admitted(1, s.with(s.on("192.0.2.1", "alice"), "phone"), doorward.Succeeded)
	s.refused(1, s.on("192.0.2.1", "alice"), "subject", 3599) // which let no stranger in
}

// G8: a stolen token has its own budget exactly, and the owner's second device its own.
func TestThief(t *testing.T) {
	s := tell(t, deviceRules())
	guesses := 0
	for i := range 100 {
		if s.try(s.with(s.on(fmt.Sprintf("198.51.100.%d", i), "alice"), "stolen"), doorward.Failed) {
			guesses++
		}
	}
	if guesses != 10 {
		t.Errorf("%d guesses with one token, want 10", guesses)
	}
	s.refused(0, s.with(s.on("203.0.113.1", "alice"), "stolen"), "device", 30)
	s.admitted(0, s.with(s.on("192.0.2.1", "alice"), "laptop"), doorward.Succeeded)
	s.admitted(0, s.on("192.0.2.2", "alice"), doorward.Failed) // nor is the subject charged
}

// G8: a token without an entry of its own counts as a stranger, and a known device is
// not refused by the overflow entries of network and pair rules.
func TestDevicesAndOverflow(t *testing.T) {
	c := deviceRules()
	c.Rules[3].Lockout.Capacity = 1
	s := tell(t, c)
	s.admitted(0, s.with(s.on("192.0.2.1", "alice"), "phone"), doorward.Failed)
	for i := range 10 {
		s.admitted(0, s.on(fmt.Sprintf("198.51.100.%d", i), "bob"), doorward.Failed)
	}
	s.refused(0, s.with(s.on("192.0.2.1", "bob"), "tablet"), "subject", 3600)

	c = deviceRules()
	c.Rules[0].Lockout.Capacity = 1
	s = tell(t, c)
	s.admitted(0, from("198.51.100.1"), doorward.Failed)
	for range 20 {
		s.admitted(0, from("198.51.100.2"), doorward.Failed)
	}
	s.refused(0, s.on("192.0.2.1", "alice"), "network", 60)
	s.admitted(0, s.with(s.on("192.0.2.1", "alice"), "phone"), doorward.Failed)
}

// Without a device rule a token means nothing.
func TestDeviceWithoutRule(t *testing.T) {
	c := deviceRules()
	c.Rules = c.Rules[:3]
	s := tell(t, c)
	for i := range 10 {
		s.admitted(0, s.with(s.on(fmt.Sprintf("198.51.100.%d", i), "alice"), "phone"), doorward.Failed)
	}
	s.refused(0, s.with(s.on("192.0.2.1", "alice"), "phone"), "subject", 3600)
}

// G7: the empty subject never makes a key.
func TestNoSubject(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "subject", Per: guard.Subject, Lockout: free(1, time.Hour, time.Minute)},
		guard.Rule{Name: "pair", Per: guard.Pair, Lockout: free(1, time.Hour, time.Minute)},
		guard.Rule{Name: "code", Per: guard.Challenge, Lockout: free(1, time.Hour, time.Minute)},
	))
	for range 10 {
		s.admitted(0, s.on("192.0.2.1", ""), doorward.Failed)
	}
}

// G11: one address cannot fill a table of subjects.
func TestJunkSubjects(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "subject", Per: guard.Subject, Lockout: free(5, time.Hour, time.Minute)},
		guard.Rule{Name: "network", Lockout: free(20, time.Hour, time.Hour)},
	))
	for i := range 100_000 {
		s.try(s.on("192.0.2.1", fmt.Sprint("junk ", i)), doorward.Failed)
	}
	for i := range 40 {
		if v := s.admitted(1, s.on(fmt.Sprintf("198.51.100.%d", i), fmt.Sprint("person ", i)), doorward.Failed); v.Overflow {
			t.Fatalf("person %d shares an entry", i)
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, same := range [][]string{
		{"alice", "Alice", "ALICE", " alice\t", "aLiCe\n", "\u00a0alice\u2003"},
		{"straße", "STRAßE"}, {"σίσυφος", "ΣΊΣΥΦΟΣ", "σίσυφοσ"}, {"k", "K", "\u212a"},
	} {
		for _, s := range same {
			if guard.Canonical(s) != guard.Canonical(same[0]) {
				t.Errorf("%q and %q differ", s, same[0])
			}
			if c := guard.Canonical(s); guard.Canonical(c) != c {
				t.Errorf("%q is not at rest", c)
			}
		}
	}
	for _, two := range [][2]string{{"alice", "alice1"}, {"a b", "ab"}, {"é", "e"}, {"ss", "ß"}} {
		if guard.Canonical(two[0]) == guard.Canonical(two[1]) {
			t.Errorf("%q and %q are one", two[0], two[1])
		}
	}
}

// G14, with all kinds of rule.
func TestAllocationsOfAllKinds(t *testing.T) {
	c := deviceRules()
	c.Rules = append(c.Rules,
		guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 1000, Global: 60_000}},
		guard.Rule{Name: "hour", Window: &window.Policy{Limit: 60_000, Window: time.Hour, Sliding: true}})
	s := tell(t, c)
	who := s.on("192.0.2.1", "alice")
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		i++
		who.Addr = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		p := s.Attempt(who, at(float64(i)))
		p.Settle(doorward.Outcome(i%2), at(float64(i)))
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
