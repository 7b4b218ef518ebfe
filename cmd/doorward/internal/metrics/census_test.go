package metrics

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

// lockoutRule locks a key for a minute after its second failure.
func lockoutRule(name string, capacity int) guard.Rule {
	return guard.Rule{Name: name, V4: 32, V6: 64, Lockout: &lockout.Policy{
		FreeFailures: 2, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Minute, Capacity: capacity,
	}}
}

// fail charges n addresses of each family one failure.
func fail(g *guard.Guard, n int, now time.Time) {
	for i := range n {
		for _, addr := range []netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
			netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, byte(i >> 8), byte(i)}),
		} {
			p := g.Attempt(guard.Request{Addr: addr, How: clientip.Peer}, now)
			p.Settle(doorward.Failed, now)
		}
	}
}

func TestCensus(t *testing.T) {
	one := newGuard(t, lockoutRule("net", 1_000), lockoutRule("same", 2_000))
	fail(one, 300, start)
	fail(one, 40, start)
	fail(one, 300, start) // 260 more are locked; 40 are refused
	guards := map[string]*guard.Guard{"one": one}
	c := census{places: placesAtOnce}
	for _, step := range []struct {
		after        time.Duration // since start
		live, locked int
		counted      time.Duration
	}{
		{0, 600, 600, 0},
		{15*time.Second - 1, 600, 600, 0},
		{15 * time.Second, 600, 600, 15 * time.Second},
		{60 * time.Second, 600, 0, 60 * time.Second},
		{75*time.Second - 1, 600, 0, 60 * time.Second},
		{61 * time.Minute, 0, 0, 61 * time.Minute},
	} {
		counts, at := c.take(guards, start.Add(step.after))
		if got := at.Sub(start); got != step.counted {
			t.Errorf("after %v: counted at %v, want %v", step.after, got, step.counted)
		}
		want := keys{live: [2]int{step.live / 2, step.live / 2}, locked: step.locked}
		for _, rule := range []string{"net", "same"} {
			if got := counts[ruleName{"one", rule}]; got != want {
				t.Errorf("after %v: %s: %+v, want %+v", step.after, rule, got, want)
			}
		}
	}
	counts, _ := c.take(guards, start.Add(2*time.Hour))
	if len(counts) != 2 {
		t.Errorf("counts %v", counts)
	}
}

// One scrape looks at so many places and no more; the counts are there when all are counted,
// and not before. A guard or a rule that goes away meanwhile is left out.
func TestCensusInSteps(t *testing.T) {
	a, b := newGuard(t, lockoutRule("net", 2_000), lockoutRule("rest", 2_000)), newGuard(t, lockoutRule("net", 2_000))
	for _, g := range []*guard.Guard{a, b} {
		fail(g, 1_000, start)
	}
	guards := map[string]*guard.Guard{"a": a, "b": b}
	c := census{places: 3 * guard.MaxPage}
	// Of each family 1,000 keys: 4 pages, some keys on a fifth perhaps; six tables.
	steps := 0
	for c.counts == nil {
		if counts, at := c.take(guards, start.Add(time.Duration(steps)*time.Second)); counts != nil && !at.Equal(start) {
			t.Errorf("counted at %v", at)
		}
		if steps++; steps > 20 {
			t.Fatal("does not end")
		}
	}
	if steps < 8 || steps > 10 {
		t.Errorf("%d steps, want 8 to 10", steps)
	}
	want := fmt.Sprint(map[ruleName]keys{{"a", "net"}: {live: [2]int{1_000, 1_000}}, {"a", "rest"}: {live: [2]int{1_000, 1_000}}, {"b", "net"}: {live: [2]int{1_000, 1_000}}})
	if got := fmt.Sprint(c.counts); got != want {
		t.Errorf("counts %s, want %s", got, want)
	}

	again := start.Add(time.Minute)
	if counts, at := c.take(guards, again); fmt.Sprint(counts) != want || !at.Equal(start) {
		t.Errorf("while counting: %v of %v", counts, at)
	}
	// The rule that is under way goes, and the next one is counted from its beginning.
	if c.walk.cursor == 0 {
		t.Fatal("no rule is under way")
	}
	gone := census{places: 3 * guard.MaxPage}
	gone.take(guards, start)
	for range 10 {
		gone.take(map[string]*guard.Guard{"b": b}, start)
	}
	if want := (keys{live: [2]int{1_000, 1_000}}); gone.counts[ruleName{"b", "net"}] != want {
		t.Errorf("after a rule that is gone: %v, want %v", gone.counts, want)
	}

	less, err := a.Reload(guard.Config{Rules: []guard.Rule{lockoutRule("net", 2_000)}})
	if err != nil {
		t.Fatal(err)
	}
	guards = map[string]*guard.Guard{"a": less}
	for range 10 {
		c.take(guards, again)
	}
	if want := fmt.Sprint(map[ruleName]keys{{"a", "net"}: {live: [2]int{1_000, 1_000}}}); fmt.Sprint(c.counts) != want || !c.began.Equal(again) {
		t.Errorf("after a reload: %v of %v", c.counts, c.began)
	}
}

func TestRatio(t *testing.T) {
	both, one := lockoutRule("", 100), lockoutRule("", 100)
	one.V6 = -1
	ceiling := rules()[4] // 16 places for both families
	for _, tt := range []struct {
		name string
		rule guard.Rule
		keys keys
		want float64
	}{
		{"a table each", both, keys{live: [2]int{30, 60}}, 0.6},
		{"one family", one, keys{live: [2]int{30, 0}}, 0.3},
		{"one table for both", ceiling, keys{live: [2]int{4, 8}}, 0.75},
	} {
		if got := tt.keys.ratio(tt.rule); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
