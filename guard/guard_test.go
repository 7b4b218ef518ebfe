package guard_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func from(addr string) guard.Request {
	r := guard.Request{How: clientip.Peer}
	if addr != "" {
		r.Addr = netip.MustParseAddr(addr)
	}
	return r
}

func (s story) on(addr, subject string) guard.Request {
	r := from(addr)
	r.Subject = doorward.KeyFromName(subject)
	return r
}

// A story plays attempts against one guard.
type story struct {
	*testing.T
	*guard.Guard
}

func tell(t *testing.T, c guard.Config) story {
	t.Helper()
	g, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return story{t, g}
}

// admitted tries once and expects to get in, with the outcome o.
func (s story) admitted(second float64, r guard.Request, o doorward.Outcome) guard.Verdict {
	s.Helper()
	p := s.Attempt(r, at(second))
	if !p.Allowed {
		s.Fatalf("at %v: refused by %q as %v, retry after %v; want admitted", second, p.Rule, p.Reason, p.RetryAfter)
	}
	p.Settle(o, at(second))
	return p.Verdict
}

// refused tries once and expects rule to refuse for the rest of its wait.
func (s story) refused(second float64, r guard.Request, rule string, wait float64) guard.Verdict {
	s.Helper()
	p := s.Attempt(r, at(second))
	want := time.Duration(wait * float64(time.Second))
	if p.Allowed || p.Rule != rule || p.RetryAfter != want {
		s.Fatalf("at %v: allowed %t, rule %q, retry after %v; want a refusal by %q, %v", second, p.Allowed, p.Rule, p.RetryAfter, rule, want)
	}
	if s := p.Settle(doorward.Succeeded, at(second)); s.Settled {
		panic("a refused permit was settled")
	}
	return p.Verdict
}

func free(n int, window, first time.Duration) *lockout.Policy {
	return &lockout.Policy{FreeFailures: n, Window: window, FirstLockout: first, MaxLockout: time.Hour, Capacity: 64, InFlight: 64}
}

func decaying(n int, window, first time.Duration) *lockout.Policy {
	p := free(n, window, first)
	p.Decay = true
	return p
}

func TestZeroValuesRefuse(t *testing.T) {
	var v guard.Verdict
	if v.Allowed {
		t.Error("the zero Verdict allows")
	}
	var p guard.Permit
	if p.Allowed || p.Settle(doorward.Succeeded, start).Settled {
		t.Error("the zero Permit allows or settles")
	}
}

// G1: if one rule refuses, none is charged, and the longest wait is named.
func TestAllOrNothing(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "burst", Lockout: free(2, time.Minute, time.Minute)},
		guard.Rule{Name: "day", Lockout: free(4, time.Hour, 30*time.Second)},
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: free(9, time.Hour, 10*time.Second)},
	))
	a, b := from("192.0.2.1"), from("192.0.2.2")
	s.admitted(0, a, doorward.Failed)
	s.admitted(0, a, doorward.Failed)
	for range 50 {
		s.refused(1, a, "burst", 59)
	}
	s.admitted(60, a, doorward.Failed)  // third: burst locks until 180
	s.refused(61, a, "burst", 119)      // the 50 refusals were charged to no rule
	s.admitted(180, a, doorward.Failed) // fourth: burst until 420, day until 210
	s.refused(181, a, "burst", 239)     // the longest wait is named
	for i := range 2 {                  // the neighbour has its own budget
		s.admitted(182+float64(i), b, doorward.Failed)
	}
	s.refused(184, b, "burst", 59)
	s.admitted(420, a, doorward.Failed) // fifth of day: 60 s, burst 480 s
	s.admitted(421, b, doorward.Failed) // eighth of site
	s.admitted(900, a, doorward.Failed) // ninth: site locks for 10 s
	s.refused(900, from("192.0.2.77"), "site", 10)
	s.admitted(900, from("198.51.100.1"), doorward.Failed)
}

func TestWiderNetworks(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "own", Lockout: free(2, time.Minute, time.Minute)},
		guard.Rule{Name: "v6", V4: -1, V6: 48, Lockout: free(3, time.Minute, time.Minute)},
		guard.Rule{Name: "v4", V4: 24, V6: -1, Lockout: free(3, time.Minute, time.Minute)},
	))
	for i := range 3 {
		s.admitted(0, from(fmt.Sprintf("2001:db8:1:%d::1", i)), doorward.Failed)
	}
	s.refused(0, from("2001:db8:1:9::1"), "v6", 60)
	s.admitted(0, from("2001:db8:2::1"), doorward.Failed)
	for i := range 3 {
		s.admitted(0, from(fmt.Sprintf("192.0.2.%d", i)), doorward.Failed)
	}
	s.refused(0, from("192.0.2.99"), "v4", 60)
	s.refused(0, from("::ffff:192.0.2.98"), "v4", 60)
	s.admitted(0, from("64:ff9b::8.8.8.8"), doorward.Failed) // counts as IPv4
	s.admitted(0, from("8.8.8.9"), doorward.Failed)
	s.admitted(0, from("64:ff9b::808:80a"), doorward.Failed)
	s.refused(0, from("8.8.8.11"), "v4", 60)
}

// Unknown belongs to both families, and to one table of a rule that has both.
func TestUnknownCallers(t *testing.T) {
	for _, row := range []struct {
		name string
		rule guard.Rule
	}{
		{"both", guard.Rule{}},
		{"IPv4 only", guard.Rule{V4: 24, V6: -1}},
		{"IPv6 only", guard.Rule{V4: -1, V6: 48}},
		{"everyone", guard.Rule{Per: guard.Everyone}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.rule.Name, row.rule.Lockout = "r", free(2, time.Minute, time.Minute)
			s := tell(t, rules(row.rule))
			s.admitted(0, from(""), doorward.Failed)
			s.admitted(0, from("224.0.0.1"), doorward.Failed)
			s.refused(1, from(""), "r", 59)
		})
	}
}

func TestEveryone(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "all", Per: guard.Everyone, Lockout: decaying(3, time.Minute, time.Minute)},
		guard.Rule{Name: "own", Lockout: free(2, time.Minute, time.Minute)},
	))
	s.admitted(0, from("192.0.2.1"), doorward.Failed)
	s.admitted(0, from("2001:db8::1"), doorward.Failed)
	s.admitted(0, from("192.0.2.3"), doorward.Malformed) // not charged to what all share
	s.admitted(0, from("192.0.2.4"), doorward.Succeeded)
	s.admitted(0, from("192.0.2.5"), doorward.Failed)
	if v := s.refused(1, from("192.0.2.6"), "all", 59); v.Per != guard.Everyone {
		t.Errorf("refused per %v, want everyone", v.Per)
	}
}

// G3: a success takes back its own attempt and clears nothing that others share.
func TestSuccessWashesNothingOff(t *testing.T) {
	s := tell(t, rules(guard.Rule{Name: "own", Lockout: free(5, time.Hour, time.Minute)}))
	a := from("192.0.2.1")
	for range 4 {
		s.admitted(0, a, doorward.Failed)
		s.admitted(0, a, doorward.Succeeded)
	}
	s.admitted(0, a, doorward.Failed)
	s.refused(0, a, "own", 60)
}

func TestOnSuccessClear(t *testing.T) {
	s := tell(t, rules(guard.Rule{Name: "own", OnSuccess: guard.Clear, Lockout: free(5, time.Hour, time.Minute)}))
	a := from("192.0.2.1")
	for range 10 {
		for range 4 {
			s.admitted(0, a, doorward.Failed)
		}
		s.admitted(0, a, doorward.Succeeded)
	}
}

// G3: what was cleared on the pair is given back on the network, if it is surely
// still counted there.
func TestTypoCostsNothing(t *testing.T) {
	config := rules(
		guard.Rule{Name: "own", Lockout: free(6, time.Hour, time.Minute)},
		guard.Rule{Name: "pair", Per: guard.Pair, Lockout: free(5, time.Hour, time.Minute)},
		guard.Rule{Name: "subject", Per: guard.Subject, Lockout: free(9, time.Hour, time.Minute)},
	)
	t.Run("corrected at once", func(t *testing.T) {
		s := tell(t, config)
		for i := range 20 {
			who := s.on("192.0.2.1", fmt.Sprint("person ", i))
			s.admitted(float64(i), who, doorward.Failed)
			s.admitted(float64(i), who, doorward.Failed)
			s.admitted(float64(i), who, doorward.Succeeded)
		}
	})
	t.Run("own account after guesses at others", func(t *testing.T) {
		s := tell(t, config)
		for i := range 6 {
			s.admitted(0, s.on("192.0.2.1", fmt.Sprint("victim ", i)), doorward.Failed)
			if i < 5 {
				s.admitted(0, s.on("192.0.2.1", "mine"), doorward.Succeeded)
			}
		}
		s.refused(0, s.on("192.0.2.1", "victim 7"), "own", 60)
	})
	t.Run("failures that the network forgot are not given back", func(t *testing.T) {
		s := tell(t, rules(
			guard.Rule{Name: "own", Lockout: free(6, time.Minute, time.Minute)},
			guard.Rule{Name: "pair", Per: guard.Pair, Lockout: free(5, time.Hour, time.Minute)},
		))
		for range 4 {
			s.admitted(0, s.on("192.0.2.1", "mine"), doorward.Failed)
		}
		for i := range 5 {
			s.admitted(61, s.on("192.0.2.1", fmt.Sprint("victim ", i)), doorward.Failed)
		}
		s.admitted(62, s.on("192.0.2.1", "mine"), doorward.Succeeded)
		s.admitted(62, s.on("192.0.2.1", "victim 9"), doorward.Failed)
		s.refused(62, s.on("192.0.2.1", "victim 10"), "own", 60)
	})
}

// G4: malformed is charged to the caller's own keys alone.
func TestMalformed(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "own", Lockout: free(3, time.Hour, time.Minute)},
		guard.Rule{Name: "subject", Per: guard.Subject, Lockout: free(3, time.Hour, time.Hour)},
	))
	for range 3 {
		s.admitted(0, s.on("192.0.2.1", "victim"), doorward.Malformed)
	}
	s.refused(0, s.on("192.0.2.1", "victim"), "own", 60)
	s.admitted(0, s.on("192.0.2.2", "victim"), doorward.Failed)
	s.admitted(0, s.on("192.0.2.3", "victim"), doorward.Failed)
	s.admitted(0, s.on("192.0.2.4", "victim"), doorward.Failed)
	s.refused(0, s.on("192.0.2.5", "victim"), "subject", 3600)
}

// G5: a shadow rule reports and never refuses; it is charged when all admit.
func TestShadow(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "own", Lockout: free(4, time.Hour, time.Minute)},
		guard.Rule{Name: "trial", Action: guard.Shadow, Lockout: free(2, time.Hour, 30*time.Second)},
	))
	a := from("192.0.2.1")
	for second, want := range []uint16{0, 0, 1 << 1, 1 << 1} {
		if v := s.admitted(float64(second), a, doorward.Failed); v.Shadow != want {
			t.Errorf("at %d: shadow %b, want %b", second, v.Shadow, want)
		}
	}
	// Locked for 30 s from 1: charged by neither the two attempts above nor this one.
	if v := s.refused(32, a, "own", 31); v.Shadow != 0 {
		t.Errorf("shadow %b at 32, want none: its lockout is over", v.Shadow)
	}
	s.admitted(63, a, doorward.Failed) // third of trial: 60 s
	if v := s.refused(122, a, "own", 61); v.Shadow != 1<<1 {
		t.Errorf("shadow %b at 122, want the trial rule", v.Shadow)
	}
}

// G6: blocked networks are refused, exempt ones pass if they earned it.
func TestLists(t *testing.T) {
	c := rules(guard.Rule{Name: "own", Lockout: free(1, time.Hour, time.Minute)})
	c.Exempt = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:8.8.8.0/120")}
	c.Blocked = []netip.Prefix{netip.MustParsePrefix("10.6.6.0/24"), netip.MustParsePrefix("2001:db8:bad::/48"), netip.MustParsePrefix("64:ff9b::909:0/112"), netip.MustParsePrefix("8.8.4.0/24")}
	s := tell(t, c)
	for _, addr := range []string{"10.1.2.3", "::ffff:10.1.2.3", "8.8.8.8", "64:ff9b::808:808"} {
		for range 3 {
			if v := s.admitted(0, from(addr), doorward.Failed); !v.Exempt {
				t.Errorf("%s is not exempt", addr)
			}
		}
	}
	for _, how := range []clientip.How{clientip.Unknown, clientip.AllTrusted, clientip.Fallback} {
		r := from("10.1.2.3")
		r.How = how
		if p := s.Attempt(r, at(0)); p.Exempt {
			t.Errorf("exempt although found as %v", how)
		}
	}
	header := from("10.1.2.3")
	header.How = clientip.Header
	if p := s.Attempt(header, at(0)); !p.Exempt {
		t.Error("not exempt although found in the header proper")
	}
	for _, addr := range []string{"10.6.6.6", "2001:db8:bad:1::1", "64:ff9b::8.8.4.4", "64:ff9b::9.9.9.9"} {
		if p := s.Attempt(from(addr), at(0)); p.Allowed || p.Reason != doorward.Blocked || p.RetryAfter != 0 {
			t.Errorf("%s: %+v, want blocked", addr, p.Verdict)
		}
		if v := s.Check(from(addr), at(0)); v.Allowed || v.Reason != doorward.Blocked {
			t.Errorf("Check of %s: %+v, want blocked", addr, v)
		}
	}
}

// L6, D3: what is in flight is not failed, but uses up what is free.
func TestBusy(t *testing.T) {
	s := tell(t, rules(guard.Rule{Name: "own", Lockout: free(2, time.Hour, time.Minute)}))
	a := from("192.0.2.1")
	p1, p2 := s.Attempt(a, at(0)), s.Attempt(a, at(0))
	if p1.Remaining != 1 || p2.Remaining != 0 {
		t.Errorf("remaining %d, %d; want 1, 0", p1.Remaining, p2.Remaining)
	}
	if v := s.refused(0, a, "own", 1); v.Reason != doorward.Busy {
		t.Errorf("reason %v, want busy", v.Reason)
	}
	copied := p1
	if s := p1.Settle(doorward.Void, at(1)); !s.Settled || s.Outcome != doorward.Void {
		t.Errorf("settled as %+v", s)
	}
	if s := p1.Settle(doorward.Failed, at(1)); s.Settled {
		t.Error("settled twice")
	}
	copied.Settle(doorward.Failed, at(1)) // the ticket is spent: changes nothing
	p2.Settle(99, at(1))                  // no outcome: failed
	s.admitted(1, a, doorward.Failed)
	s.refused(1, a, "own", 60)
}

// L7: a permit that is dropped becomes a failure.
func TestDroppedPermit(t *testing.T) {
	s := tell(t, rules(guard.Rule{Name: "own", Lockout: free(1, time.Hour, time.Minute)}))
	p := s.Attempt(from("192.0.2.1"), at(0))
	s.refused(59.5, from("192.0.2.1"), "own", 0.5)
	s.refused(60, from("192.0.2.1"), "own", 60)
	p.Settle(doorward.Void, at(61)) // too late
	s.refused(61, from("192.0.2.1"), "own", 59)
}

// G11: who is spent on a wide key adds no entries to narrower tables.
func TestWideFirst(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "own", Lockout: free(5, time.Hour, time.Minute)},
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: free(3, time.Hour, time.Hour)},
	))
	for i := range 100 {
		p := s.Attempt(from(fmt.Sprintf("2001:db8:1:%x::1", i)), at(0))
		p.Settle(doorward.Failed, at(0))
	}
	// 61 more keys fit beside the three that were charged: nothing overflows.
	for i := range 61 {
		if v := s.admitted(1, from(fmt.Sprintf("2001:db8:%x::1", 100+i)), doorward.Failed); v.Overflow {
			t.Fatalf("key %d overflows", i)
		}
	}
	if v := s.admitted(1, from("2001:db8:ffff::1"), doorward.Failed); !v.Overflow {
		t.Error("the table has more than 64 keys")
	}
	if v := s.admitted(1, from("192.0.2.1"), doorward.Failed); v.Overflow {
		t.Error("IPv4 shares the table of IPv6")
	}
}

func TestReload(t *testing.T) {
	first := rules(
		guard.Rule{Name: "own", Lockout: free(5, time.Hour, time.Minute)},
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: free(50, time.Hour, time.Minute)},
	)
	s := tell(t, first)
	a := from("192.0.2.1")
	for range 4 {
		s.admitted(0, a, doorward.Failed)
	}
	inFlight := s.Attempt(a, at(0))

	second := rules(
		guard.Rule{Name: "own", Lockout: free(3, time.Hour, 2*time.Minute)},
		guard.Rule{Name: "site", V4: 24, V6: 56, Lockout: free(2, time.Hour, time.Minute)}, // another key: starts anew
		guard.Rule{Name: "all", Per: guard.Everyone, Lockout: free(9, time.Hour, time.Minute)},
	)
	if err := s.CheckReload(second); err != nil {
		t.Error(err)
	}
	s.refused(0, from("192.0.2.1"), "own", 1) // busy, by the rules of before
	g, err := s.Reload(second)
	if err != nil {
		t.Fatal(err)
	}
	after := story{t, g}
	if p := after.Attempt(a, at(1)); p.Reason != doorward.Busy {
		t.Errorf("while one is in flight: %+v, want busy", p.Verdict)
	}
	inFlight.Settle(doorward.Failed, at(2)) // through the guard of before: fifth failure, 2 min x 2^2
	after.refused(2, a, "own", 480)
	after.admitted(2, from("192.0.2.2"), doorward.Failed)

	for _, row := range []struct {
		name string
		edit func(*lockout.Policy)
	}{
		{"invalid", func(p *lockout.Policy) { p.Window = -1 }},
		{"capacity", func(p *lockout.Policy) { p.Capacity = 65 }},
		{"in flight", func(p *lockout.Policy) { p.InFlight = 65 }},
	} {
		bad := rules(
			guard.Rule{Name: "own", Lockout: free(100, time.Hour, time.Second)},
			guard.Rule{Name: "all", Per: guard.Everyone, Lockout: free(9, time.Hour, time.Minute)},
		)
		row.edit(bad.Rules[1].Lockout)
		asked := g.CheckReload(bad)
		if _, err := g.Reload(bad); err == nil || asked == nil || asked.Error() != err.Error() {
			t.Errorf("%s: error %v, and asked before %v", row.name, err, asked)
		}
		after.refused(2, a, "own", 480) // the running rules are as they were
	}
}

// G1: what a later rule refuses although it was asked before is taken back from the
// earlier ones. Here its pool of reservations is full, which only charging shows.
func TestTakenBack(t *testing.T) {
	one := free(5, time.Hour, time.Minute)
	one.InFlight = 1
	s := tell(t, rules(
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: free(2, time.Hour, time.Minute)},
		guard.Rule{Name: "own", Lockout: one},
	))
	first := s.Attempt(from("192.0.2.1"), at(0))
	for range 5 {
		if v := s.refused(0, from("192.0.2.2"), "own", 1); v.Reason != doorward.Busy {
			t.Fatalf("refused as %v, want busy", v.Reason)
		}
	}
	first.Settle(doorward.Void, at(0))
	s.admitted(0, from("192.0.2.2"), doorward.Failed)
	s.admitted(70, from("192.0.2.2"), doorward.Failed) // nothing was left that lapsed meanwhile
	s.refused(70, from("192.0.2.3"), "site", 60)
}
