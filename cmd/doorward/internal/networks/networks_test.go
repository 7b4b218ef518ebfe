package networks

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

var t0 = time.Unix(1_700_000_000, 0).UTC()

func listed(prefix, guard string, block bool, seconds int) Network {
	d := time.Duration(seconds) * time.Second
	return Network{Prefix: netip.MustParsePrefix(prefix), Guard: guard, Block: block, Until: t0.Add(d), For: d, Actor: "ann", Reason: "why"}
}

func list(t *testing.T, all ...Network) (l List) {
	t.Helper()
	for _, n := range all {
		var err error
		if l, err = l.With(n); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// show writes a list in short.
func show(l List) string {
	var words []string
	for _, n := range l.All() {
		words = append(words, n.Action()+" "+n.Prefix.String()+"@"+n.Guard)
	}
	return strings.Join(words, ", ")
}

func TestList(t *testing.T) {
	a, b := listed("192.0.2.0/24", "", true, 20), listed("192.0.2.0/24", "login", false, 10)
	c := listed("2001:db8::/48", "", false, 30)
	l := list(t, c, a, b)
	if got, want := show(l), "exempt 192.0.2.0/24@login, block 192.0.2.0/24@, exempt 2001:db8::/48@"; got != want {
		t.Errorf("in the order of their ends: %s, want %s", got, want)
	}
	exempt, blocked := l.Of("login")
	if len(exempt) != 2 || len(blocked) != 1 {
		t.Errorf("login: %v and %v", exempt, blocked)
	}
	if exempt, blocked = l.Of("reset"); len(exempt) != 1 || len(blocked) != 1 {
		t.Errorf("reset: %v and %v", exempt, blocked)
	}
	// Said anew it is as it was said last, and keeps its name.
	again := list(t, append(l.All(), listed("192.0.2.0/24", "", false, 40))...)
	if got, want := show(again), "exempt 192.0.2.0/24@login, exempt 2001:db8::/48@, exempt 192.0.2.0/24@"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if a.ID() == b.ID() || a.ID() == c.ID() || a.ID() != again.All()[2].ID() {
		t.Error("an ID is of a network and a guard")
	}
	less, n, ok := l.Without(a.ID())
	if !ok || n != a || show(less) != "exempt 192.0.2.0/24@login, exempt 2001:db8::/48@" || len(l.All()) != 3 {
		t.Errorf("%v %v, left %s", n, ok, show(less))
	}
	if _, _, ok := less.Without(a.ID()); ok {
		t.Error("it was taken off before")
	}
}

func TestAt(t *testing.T) {
	l := list(t, listed("192.0.2.1/32", "", true, 10), listed("192.0.2.2/32", "", true, 10), listed("192.0.2.3/32", "", true, 11))
	for _, row := range []struct {
		at   time.Duration
		left int
	}{{10*time.Second - 1, 3}, {10 * time.Second, 1}, {11 * time.Second, 0}} {
		left, ended := l.At(t0.Add(row.at))
		if len(left.All()) != row.left || len(ended) != 3-row.left {
			t.Errorf("at %v: %d left and %d ended, want %d", row.at, len(left.All()), len(ended), row.left)
		}
	}
}

func TestMax(t *testing.T) {
	var l List
	for i := range Max {
		l.all = append(l.all, Network{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32), Until: t0})
	}
	if _, err := l.With(listed("192.0.2.1/32", "", true, 10)); err == nil || !strings.Contains(err.Error(), "at most 10000") {
		t.Errorf("error %v", err)
	}
	if _, err := l.With(listed("10.0.0.1/32", "", true, 10)); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}

func TestParse(t *testing.T) {
	l := list(t, listed("192.0.2.0/24", "", true, 20), listed("2001:db8::/48", "login", false, 30))
	b, err := l.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		now  time.Time
		want List
	}{
		{"at once", t0, l},
		{"one has ended", t0.Add(20 * time.Second), List{l.all[1:]}},
		{"the clock was set back", t0.Add(-time.Hour), func() List {
			n := List{append([]Network{}, l.all...)}
			for i := range n.all {
				n.all[i].Until = n.all[i].Until.Add(-time.Hour)
			}
			return n
		}()},
	} {
		got, err := Parse(b, row.now)
		if err != nil || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %+v, %v, want %+v", row.name, got, err, row.want)
		}
	}
	// What is left of its time is counted from the start on, as it is before a restart: with the
	// monotonic clock, and not with one that somebody may set.
	now := time.Now()
	l = list(t, Network{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Until: now.Add(time.Hour), For: 2 * time.Hour})
	if b, err = l.MarshalBinary(); err != nil {
		t.Fatal(err)
	}
	if l, err = Parse(b, now); err != nil || !strings.Contains(l.all[0].Until.String(), " m=") || l.all[0].Until.Sub(now) != time.Hour {
		t.Errorf("%v, %v, want an hour from %v", l, err, now)
	}
	for _, bad := range []string{"", "{}", `{"version":2}`, `{"version":1,"networks":[{"network":"192.0.2.1/24","for":1}]}`, `{"version":1,"networks":[{"network":"192.0.2.0/24","for":0}]}`, `{"version":1,"networks":[{"for":1}]}`} {
		if _, err := Parse([]byte(bad), t0); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
