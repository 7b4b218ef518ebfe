package guard_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// entries walks over all of a rule, so many places at a time.
func (s story) entries(rule string, show doorward.Show, places int, second float64, between func()) (all []doorward.Entry, pages int) {
	s.Helper()
	for c := guard.Cursor(0); ; between() {
		var err error
		n := len(all)
		if all, c, err = s.AppendEntries(all, rule, show, c, places, at(second)); err != nil {
			s.Fatal(err)
		}
		if pages++; len(all)-n > max(1, places) {
			s.Fatalf("%d entries on a page of %d places", len(all)-n, places)
		}
		if c == 0 {
			return all, pages
		}
	}
}

func (s story) stats(rule string) doorward.Stats {
	s.Helper()
	n, err := s.Stats(rule)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

func TestStats(t *testing.T) {
	p := free(3, time.Minute, time.Minute)
	p.Capacity, p.InFlight = 2, 4
	s := tell(t, rules(guard.Rule{Name: "own", Lockout: p}, guard.Rule{Name: "six", V4: -1, Lockout: p}))
	s.admitted(0, from("192.0.2.1"), doorward.Failed)
	s.admitted(0, from("192.0.2.2"), doorward.Failed)
	s.admitted(0, from("2001:db8::1"), doorward.Failed) // in the other table
	for range 3 {
		s.admitted(1, from("192.0.2.3"), doorward.Failed)
	}
	s.refused(1, from("192.0.2.4"), "own", 60)
	s.Check(from("192.0.2.4"), at(1))
	want := doorward.Stats{Tracked: 3, OverflowCharged: 3, OverflowRefused: 2}
	if n := s.stats("own"); n != want {
		t.Errorf("%+v, want %+v", n, want)
	}
	s.Lookup(from("192.0.2.4"), at(1))
	s.Quotas(from("192.0.2.4"), at(1))
	if n := s.stats("own"); n != want {
		t.Errorf("questions of others were counted: %+v", n)
	}
	s.admitted(60, from("192.0.2.5"), doorward.Failed)
	for range 2 {
		s.Attempt(from("192.0.2.5"), at(60))
	}
	want.Pending, want.Reclaimed = 2, 1
	if n := s.stats("own"); n != want {
		t.Errorf("%+v, want %+v", n, want)
	}
	s.Attempt(from("192.0.2.6"), at(61))
	s.Attempt(from("127.0.0.1"), at(61))
	s.Attempt(from("127.0.0.1"), at(61)) // pool full
	want.Pending, want.Tracked, want.Reclaimed, want.PoolFull = 4, 4, 2, 1
	if n := s.stats("own"); n != want {
		t.Errorf("%+v, want %+v", n, want)
	}
	if n := s.stats("six"); n != (doorward.Stats{Tracked: 1}) {
		t.Errorf("six: %+v", n)
	}
}

func TestEntries(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "own", Lockout: free(2, time.Hour, time.Minute)},
		guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 2, Global: 90, Window: time.Hour}},
		guard.Rule{Name: "all", Window: &window.Policy{Limit: 3, Window: time.Hour}},
	))
	s.admitted(0, from("192.0.2.1"), doorward.Failed)
	s.admitted(0, from("192.0.2.1"), doorward.Failed)
	s.admitted(0, from("192.0.2.2"), doorward.Failed)
	s.Attempt(from("2001:db8::1"), at(0))
	for range 3 { // right ones, which only the window counts
		s.admitted(0, from("192.0.2.4"), doorward.Succeeded)
	}
	one, two, four, six := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1")), doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.2")),
		doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.4")), doorward.KeyFromAddr(netip.MustParseAddr("2001:db8::1"))
	hour := at(3600)
	for _, row := range []struct {
		rule string
		show doorward.Show
		want []doorward.Entry
	}{
		{"own", doorward.ShowAll, []doorward.Entry{
			{Key: one, Count: 2, LockedUntil: at(60), ForgottenAt: at(3660)}, {Key: two, Count: 1, ForgottenAt: hour}, {Key: six, Pending: 1}}},
		{"own", doorward.ShowLocked, []doorward.Entry{{Key: one, Count: 2, LockedUntil: at(60), ForgottenAt: at(3660)}}},
		{"own", doorward.ShowPending, []doorward.Entry{{Key: six, Pending: 1}}},
		{"ceiling", doorward.ShowAll, []doorward.Entry{
			{Key: one, Count: 2, LockedUntil: hour, ForgottenAt: hour}, {Key: two, Count: 1, ForgottenAt: hour}, {Key: six, Pending: 1}}},
		{"ceiling", doorward.ShowLocked, []doorward.Entry{{Key: one, Count: 2, LockedUntil: hour, ForgottenAt: hour}}},
		{"all", doorward.ShowLocked, []doorward.Entry{{Key: four, Count: 3, LockedUntil: hour, ForgottenAt: hour}}},
		{"all", doorward.ShowPending, []doorward.Entry{{Key: six, Count: 1, Pending: 1, ForgottenAt: hour}}},
	} {
		for _, places := range []int{0, 1, 2, 5, 1 << 20} {
			got, _ := s.entries(row.rule, row.show, places, 0, func() {})
			for i := range got {
				got[i].LockedUntil, got[i].ForgottenAt = utc(got[i].LockedUntil), utc(got[i].ForgottenAt)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%s, show %d, %d places:\n got %+v\nwant %+v", row.rule, row.show, places, got, row.want)
			}
		}
	}
	if got, _ := s.entries("all", doorward.ShowLocked, 9, 30, func() {}); len(got) != 1 || !got[0].LockedUntil.Equal(hour) {
		t.Errorf("half a minute later: %+v", got)
	}
	if got, _ := s.entries("own", doorward.ShowAll, 9, 3600, func() {}); len(got) != 2 || got[0].Key != one || got[1].Key != six || got[1].Count != 1 {
		t.Errorf("an hour later there is %+v, want the lockout and the failure that was pending", got)
	}
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// What is there from the first page to the last is seen once, in tables of both families.
func TestEntriesWhileOthersComeAndGo(t *testing.T) {
	p := free(9, time.Hour, time.Minute)
	p.Capacity = 400
	s := tell(t, rules(guard.Rule{Name: "own", Lockout: p}))
	address := func(net byte, i int) guard.Request {
		if i%2 == 0 {
			return guard.Request{Addr: netip.AddrFrom4([4]byte{net, 0, 1, byte(i)})}
		}
		return guard.Request{Addr: netip.AddrFrom16([16]byte{0x20, net, 7: byte(i)})}
	}
	for i := range 200 {
		s.admitted(0, address(1, i), doorward.Failed)
	}
	n := 0
	got, pages := s.entries("own", doorward.ShowAll, 7, 0, func() {
		n++
		s.admitted(0, address(9, n%256), doorward.Failed)
		s.Unlock("", doorward.KeyFromAddr(address(9, n*7%256).Addr))
	})
	if pages < 200/7 || pages > 80 {
		t.Errorf("%d pages", pages)
	}
	seen := map[doorward.Key]int{}
	for _, e := range got {
		seen[e.Key]++
	}
	for i := range 200 {
		if k := doorward.KeyFromAddr(address(1, i).Addr); seen[k] != 1 {
			t.Errorf("%v was seen %d times", k, seen[k])
		}
	}
	var page []doorward.Entry
	page, _, _ = s.AppendEntries(page, "own", doorward.ShowAll, 0, guard.MaxPage, at(0))
	if n := testing.AllocsPerRun(100, func() { s.AppendEntries(page[:0], "own", doorward.ShowAll, 0, guard.MaxPage, at(0)) }); n > 4 {
		t.Errorf("a page takes %v allocations", n)
	}
}

func TestLookup(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: decaying(90, time.Hour, time.Minute)},
		guard.Rule{Name: "own", Lockout: free(4, time.Hour, time.Minute)},
		guard.Rule{Name: "account", Per: guard.Subject, Action: guard.StepUp, Lockout: free(9, time.Hour, time.Minute)},
		guard.Rule{Name: "code", Per: guard.Challenge, Lockout: free(3, time.Hour, time.Minute)},
		guard.Rule{Name: "both", Per: guard.Pair, Lockout: free(3, time.Hour, time.Minute)},
		guard.Rule{Name: "device", Per: guard.Device, Lockout: free(3, time.Hour, time.Minute)},
	))
	r := s.on("192.0.2.1", "alice")
	for range 3 {
		s.admitted(0, r, doorward.Failed)
	}
	r.Challenge, r.Device = doorward.KeyFromName("123"), doorward.KeyFromName("phone")
	var before []guard.Finding
	for range 20 { // it charges nothing
		found, err := s.Lookup(r, at(10))
		if err != nil || before != nil && !slices.Equal(found, before) {
			t.Fatalf("%v\n%+v\n%+v", err, before, found)
		}
		before = found
	}
	locked := doorward.Decision{Reason: doorward.Locked, RetryAfter: 50 * time.Second}
	want := []guard.Finding{
		{Rule: "site", Entry: doorward.Entry{Count: 3, ForgottenAt: at(120)}, Tracked: true, Decision: doorward.Decision{Allowed: true, Remaining: 86}},
		{Rule: "own", Entry: doorward.Entry{Count: 3, ForgottenAt: at(3600)}, Tracked: true, Decision: doorward.Decision{Allowed: true}},
		{Rule: "code", Per: guard.Challenge, Decision: doorward.Decision{Allowed: true, Remaining: 2}},
		{Rule: "both", Per: guard.Pair, Entry: doorward.Entry{Count: 3, LockedUntil: at(60), ForgottenAt: at(3660)}, Tracked: true, Decision: locked},
		{Rule: "device", Per: guard.Device, Decision: doorward.Decision{Allowed: true, Remaining: 2}},
	}
	net := netip.MustParseAddr("192.0.2.1")
	for i, k := range []doorward.Key{doorward.KeyFromPrefix(net, 24, 48), doorward.KeyFromAddr(net), r.Challenge, doorward.KeyFromPair(r.Subject, doorward.KeyFromAddr(net)), r.Device} {
		want[i].Key = k
	}
	for i := range before {
		before[i].LockedUntil, before[i].ForgottenAt = utc(before[i].LockedUntil), utc(before[i].ForgottenAt)
	}
	if !slices.Equal(before, want) {
		t.Errorf("\n got %+v\nwant %+v", before, want)
	}
	r.Device = doorward.Key{}
	if found, _ := s.Lookup(r, at(10)); len(found) != 5 || found[2].Rule != "account" || found[2].Action != guard.StepUp || found[2].Count != 3 {
		t.Errorf("a stranger: %+v", found)
	}
}

// Unlock forgets one key, in one rule or in all; what was in flight changes nothing there.
func TestUnlock(t *testing.T) {
	c := rules(
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: free(9, time.Hour, time.Minute)},
		guard.Rule{Name: "own", Lockout: free(4, time.Hour, time.Minute)},
		guard.Rule{Name: "other", Lockout: free(9, time.Hour, time.Minute)},
		guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 9, Global: 90, Window: time.Hour}},
		guard.Rule{Name: "work", Window: &window.Policy{Limit: 20, Window: time.Hour}},
	)
	k := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1"))
	for _, rule := range []string{"own", ""} {
		for _, o := range []doorward.Outcome{doorward.Failed, doorward.Succeeded, doorward.Malformed, doorward.Void} {
			s := tell(t, c)
			for range 2 {
				s.admitted(0, from("192.0.2.1"), doorward.Failed)
			}
			inFlight := []guard.Permit{s.Attempt(from("192.0.2.1"), at(0)), s.Attempt(from("192.0.2.1"), at(0))}
			if err := s.Unlock(rule, k); err != nil {
				t.Fatal(err)
			}
			s.admitted(1, from("192.0.2.1"), doorward.Void)
			count := func(second float64) map[string]int {
				m := map[string]int{}
				found, _ := s.Lookup(from("192.0.2.1"), at(second))
				for _, f := range found {
					m[f.Rule] = f.Count + 100*f.Pending
				}
				return m
			}
			before := count(1)
			if before["own"] != 0 || before["site"] != 202 || (before["other"] == 0) != (rule == "") || (before["ceiling"] == 0) != (rule == "") {
				t.Errorf("after Unlock(%q): %v", rule, before)
			}
			s.admitted(1, from("192.0.2.1"), doorward.Failed)
			for i := range inFlight {
				inFlight[i].Settle(o, at(2))
			}
			after := count(2)
			if after["own"] != 1 || rule == "" && (after["other"] != 1 || after["ceiling"] != 1 || after["work"] != 1) {
				t.Errorf("Unlock(%q), then in flight ended as %v: %v, want 1 failure", rule, o, after)
			}
			if after = count(61.5); after["own"] != 1 {
				t.Errorf("Unlock(%q), lease over: %v", rule, after)
			}
		}
	}
	s := tell(t, c)
	for range 4 {
		s.admitted(0, from("192.0.2.1"), doorward.Failed)
	}
	s.Unlock("other", k)
	s.refused(0, from("192.0.2.1"), "own", 60)
	s.Unlock("own", k)
	s.admitted(0, from("192.0.2.1"), doorward.Failed)
}

func TestClear(t *testing.T) {
	s := tell(t, rules(
		guard.Rule{Name: "own", Lockout: free(2, time.Hour, time.Minute)},
		guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 9, Global: 2, Window: time.Hour}},
	))
	fail := func() (inFlight guard.Permit) {
		inFlight = s.Attempt(from("2001:db8::1"), at(0))
		s.admitted(0, from("192.0.2.1"), doorward.Failed)
		return inFlight
	}
	p := fail()
	p.Settle(doorward.Failed, at(0))
	s.refused(0, from("192.0.2.9"), "ceiling", 3600)
	if err := s.Clear("ceiling"); err != nil {
		t.Fatal(err)
	}
	if found, _ := s.Lookup(from("192.0.2.1"), at(0)); found[0].Count != 1 || found[1].Count != 0 {
		t.Errorf("%+v", found)
	}
	p = fail()
	s.refused(0, from("192.0.2.1"), "own", 60)
	if err := s.Clear(""); err != nil {
		t.Fatal(err)
	}
	p.Settle(doorward.Failed, at(1))
	for _, rule := range []string{"own", "ceiling"} {
		if got, _ := s.entries(rule, doorward.ShowAll, 99, 1, func() {}); len(got) > 0 || s.stats(rule).Tracked > 0 {
			t.Errorf("%s has %+v", rule, got)
		}
	}
	s.admitted(1, from("192.0.2.1"), doorward.Failed)
}

func TestLiveErrors(t *testing.T) {
	with := rules(guard.Rule{Name: "own", Lockout: free(2, time.Hour, time.Minute)})
	s := tell(t, with)
	with.Store = &limiterStore{}
	remote := tell(t, with)
	for name, f := range map[string]func(s story, rule string) error{
		"Stats":         func(s story, rule string) error { _, err := s.Stats(rule); return err },
		"AppendEntries": func(s story, rule string) error { _, _, err := s.AppendEntries(nil, rule, 0, 0, 1, at(0)); return err },
		"Unlock":        func(s story, rule string) error { return s.Unlock(rule, doorward.Key{}) },
		"Clear":         func(s story, rule string) error { return s.Clear(rule) },
	} {
		if err := f(s, "own"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := f(s, "none"); err == nil || err.Error() != `guard: no rule is named "none"` {
			t.Errorf("%s of no rule: %v", name, err)
		}
		if err := f(remote, "own"); !errors.Is(err, guard.ErrStore) {
			t.Errorf("%s with a Store: %v", name, err)
		}
	}
	if _, err := remote.Lookup(from(""), at(0)); !errors.Is(err, guard.ErrStore) {
		t.Errorf("Lookup with a Store: %v", err)
	}
	if got, c, err := s.AppendEntries(nil, "own", 0, 1<<40, 5, at(0)); got != nil || c != 0 || err != nil {
		t.Errorf("a cursor of no page: %v %v %v", got, c, err)
	}
}
