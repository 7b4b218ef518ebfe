package guard_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

func permitRules() guard.Config {
	return rules(
		guard.Rule{Name: "own", Lockout: free(2, time.Hour, time.Minute)},
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: free(5, time.Hour, time.Minute)},
		guard.Rule{Name: "pair", Per: guard.Pair, Lockout: free(2, time.Hour, time.Minute)},
	)
}

// A permit goes to bytes and comes back with the same way home.
func TestPermitBytes(t *testing.T) {
	for _, addr := range []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "fe80::1%eth0", ""} {
		s := tell(t, permitRules())
		who := s.on(addr, "alice")
		p := s.Attempt(who, at(0))
		b, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		back, err := s.ReadPermit(b)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := back.MarshalBinary(); !bytes.Equal(b, again) {
			t.Errorf("%q: % x became % x", addr, b, again)
		}
		if got := back.Settle(doorward.Failed, at(0)); !got.Settled {
			t.Errorf("%q: the permit that was read settles nothing", addr)
		}
		p.Settle(doorward.Void, at(0)) // the other one came first
		s.admitted(0, who, doorward.Failed)
		s.refused(0, who, "own", 60)

		b, _ = back.MarshalBinary() // settled by now
		if back, err = s.ReadPermit(b); err != nil || back.Settle(doorward.Failed, at(0)).Settled {
			t.Errorf("%q: a settled permit was settled again after %v", addr, err)
		}
	}
}

// A permit is settled by rule name, also in a guard that has other rules by now.
func TestPermitOutlivesReload(t *testing.T) {
	s := tell(t, permitRules())
	a := from("192.0.2.1")
	p := s.Attempt(a, at(0))
	b, _ := p.MarshalBinary()
	c := permitRules()
	c.Rules[0], c.Rules[2] = c.Rules[2], c.Rules[0]
	c.Rules = append(c.Rules[1:], guard.Rule{Name: "new", Per: guard.Everyone, Lockout: free(9, time.Hour, time.Minute)})
	g, err := s.Reload(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := g.ReadPermit(b)
	if err != nil {
		t.Fatal(err)
	}
	back.Settle(doorward.Failed, at(0))
	after := story{t, g}
	after.admitted(0, a, doorward.Failed)
	after.refused(0, a, "own", 60)
}

func TestPermitErrors(t *testing.T) {
	s := tell(t, permitRules())
	p := s.Attempt(s.on("192.0.2.1", "alice"), at(0))
	whole, _ := p.MarshalBinary()
	for n := range whole {
		if _, err := s.ReadPermit(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes make a permit", n, len(whole))
		}
	}
	for _, row := range []struct {
		name string
		b    []byte
		want string
	}{
		{"more", append(bytes.Clone(whole), 0), "cut off or have more"},
		{"version", append([]byte{9}, whole[1:]...), "version 1, got 9"},
		{"key", append(append(bytes.Clone(whole[:8]), 77), whole[9:]...), "permit key"},
	} {
		if _, err := s.ReadPermit(row.b); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", row.name, err, row.want)
		}
	}
	if _, err := (guard.Permit{}).MarshalBinary(); err == nil {
		t.Error("the zero Permit has a binary form")
	}
}

func FuzzReadPermit(f *testing.F) {
	g, err := guard.New(permitRules())
	if err != nil {
		f.Fatal(err)
	}
	p := g.Attempt(guard.Request{Subject: doorward.KeyFromName("alice")}, start)
	b, _ := p.MarshalBinary()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := g.ReadPermit(b)
		if err != nil {
			return
		}
		p.Settle(doorward.Failed, start) // of a made-up ticket: changes nothing, and does not panic
		again, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.ReadPermit(again); err != nil {
			t.Errorf("what was read and written cannot be read: %v", err)
		}
	})
}

func TestQuotas(t *testing.T) {
	c := permitRules()
	c.Rules = append(c.Rules, guard.Rule{Name: "trial", Action: guard.Shadow, Lockout: free(1, time.Hour, time.Minute)})
	s := tell(t, c)
	who := s.on("192.0.2.1", "alice")
	s.admitted(0, who, doorward.Failed)
	expect := func(second float64, want ...guard.Quota) {
		t.Helper()
		if got := s.Quotas(who, at(second)); !slices.Equal(got, want) {
			t.Errorf("at %v: quotas %+v, want %+v", second, got, want)
		}
	}
	expect(0,
		guard.Quota{Rule: "site", Limit: 5, Window: time.Hour, Remaining: 4},
		guard.Quota{Rule: "own", Limit: 2, Window: time.Hour, Remaining: 1})
	s.admitted(0, who, doorward.Failed)
	expect(1,
		guard.Quota{Rule: "site", Limit: 5, Window: time.Hour, Remaining: 3},
		guard.Quota{Rule: "own", Limit: 2, Window: time.Hour, Reset: 59 * time.Second})
}
