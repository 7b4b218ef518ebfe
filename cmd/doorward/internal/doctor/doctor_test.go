package doctor

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
)

var t0 = time.Unix(1_700_000_000, 0)

// Set by a second or more, either way, is told, once; slewed is not.
func TestClock(t *testing.T) {
	for _, row := range []struct {
		name string
		set  time.Duration
		told bool
	}{
		{"on", time.Second, true}, {"back", -time.Second, true}, {"far back", -time.Hour, true},
		{"slewed", time.Second - time.Millisecond, false}, {"slewed back", -time.Second + time.Millisecond, false}, {"not", 0, false},
	} {
		var w Watch
		at := 5 * time.Hour // by both clocks, which began at different times
		tick := func(set time.Duration) bool {
			at += time.Second
			_, found := w.Clock(time.Duration(t0.UnixNano())+at+set, at, t0)
			return found
		}
		for range 3 {
			if tick(0) {
				t.Errorf("%s: told before anything was set", row.name)
			}
		}
		if tick(row.set) != row.told {
			t.Errorf("%s: told %v", row.name, !row.told)
		}
		if tick(row.set) {
			t.Errorf("%s: told twice", row.name)
		}
	}
}

// All attempts from one address are suspect once there are fifty, of five people.
func TestOneAddress(t *testing.T) {
	here, there := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	for _, row := range []struct {
		name   string
		n      int
		people int
		change func(i int, e *proxy.Event)
		want   int // when it is told
	}{
		{"by program", 200, 5, nil, 50},
		{"one program too few", 200, 4, nil, 0},
		{"by account", 200, 1, func(i int, e *proxy.Event) { e.Subject = doorward.KeyFromName(fmt.Sprint(i % 5)) }, 50},
		{"one account", 200, 5, func(i int, e *proxy.Event) { e.Subject = doorward.KeyFromName("a") }, 0},
		{"people come late", 200, 1, func(i int, e *proxy.Event) { e.Agent = fmt.Sprint(min(i/30, 9)) }, 121},
		{"another address first", 200, 5, func(i int, e *proxy.Event) {
			if i == 0 {
				e.Addr = there
			}
		}, 0},
		{"another address in time", 200, 5, func(i int, e *proxy.Event) {
			if i == 49 {
				e.Addr = there
			}
		}, 0},
		{"a trusted proxy says so", 200, 5, func(i int, e *proxy.Event) { e.How = clientip.Header }, 0},
		{"no address", 200, 5, func(i int, e *proxy.Event) { e.Addr, e.How = netip.Addr{}, clientip.Unknown }, 50},
	} {
		var w Watch
		told := 0
		for i := range row.n {
			e := proxy.Event{Time: t0, Addr: here, How: clientip.Peer, Agent: fmt.Sprint(i % row.people)}
			if row.change != nil {
				row.change(i, &e)
			}
			if _, found := w.Tell(&e); found {
				if told != 0 {
					t.Errorf("%s: told twice", row.name)
				}
				told = i + 1
			}
		}
		if told != row.want {
			t.Errorf("%s: told with attempt %d, want %d", row.name, told, row.want)
		}
		if n := len(w.Found()); n != min(told, 1) {
			t.Errorf("%s: %d findings", row.name, n)
		}
	}
}

// What is kept is bounded, and the same thing is kept once.
func TestSuspect(t *testing.T) {
	var w Watch
	for i := range 1000 {
		w.Suspect(proxy.Suspicion{What: proxy.Ignored, Peer: fmt.Sprintf("10.0.%d.%d", i/250, i%250)}, t0)
		w.Suspect(proxy.Suspicion{What: proxy.Closed, Peer: "127.0.0.1", Fix: "x"}, t0.Add(time.Duration(i)))
	}
	found := w.Found()
	if len(found) != maxFound {
		t.Errorf("%d findings, want %d", len(found), maxFound)
	}
	if last := found[len(found)-1]; last.Check != Loopback || !last.At.Equal(t0.Add(999)) || !strings.HasSuffix(last.String(), "; x") {
		t.Errorf("%+v", last)
	}
	w.Forget()
	if found := w.Found(); len(found) != 0 {
		t.Errorf("%d findings after Forget", len(found))
	}
}

// The default rules, and connections that files suffice for, are fine.
func TestClean(t *testing.T) {
	c, err := config.Parse("x", []byte("upstream: http://127.0.0.1:1\ndoors: [{name: a, routes: [/], outcome: {succeeded: {status: 302}}}]\n"), config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if found := append(Rules(c), Connections(c, 2*config.DefaultConnections)...); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if found := Connections(c, 2*config.DefaultConnections-1); len(found) != 1 || found[0].Check != Files {
		t.Errorf("found %v", found)
	}
}

// Clocks of a cluster may be a tenth of a second apart, and theirs and ours a second.
func TestClocks(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		ahead map[string]time.Duration
		want  []string
	}{
		{nil, nil},
		{map[string]time.Duration{"a:1": time.Second, "b:1": time.Second - 100*ms}, nil},
		{map[string]time.Duration{"a:1": -time.Second}, nil},
		{map[string]time.Duration{"a:1": -50 * ms, "b:1": 0, "c:1": 51 * ms}, []string{"the clocks of a:1 and c:1 are 101ms apart"}},
		{map[string]time.Duration{"a:1": -1001 * ms}, []string{"the clock of a:1 differs from this machine's by -1.001s"}},
		{map[string]time.Duration{"a:1": 0, "b:1": time.Hour}, []string{"the clocks of a:1 and b:1 are 1h0m0s apart", "the clock of b:1 differs from this machine's by 1h0m0s"}},
	} {
		found := Clocks(row.ahead)
		if len(found) != len(row.want) {
			t.Errorf("%v: found %v", row.ahead, found)
			continue
		}
		for i, f := range found {
			if f.Check != Store || !strings.HasPrefix(f.Text, row.want[i]) || f.Fix == "" {
				t.Errorf("%v: %v, want %s", row.ahead, f, row.want[i])
			}
		}
	}
}
