package recent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
)

var (
	a, b   = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::7")
	alice  = doorward.KeyFromName("alice")
	nobody doorward.Key
)

func event(sec int64, addr netip.Addr, subject doorward.Key) *proxy.Event {
	return &proxy.Event{Time: time.Unix(sec, 0), Addr: addr, Subject: subject, Path: "/secret", Agent: "curl", Method: "POST"}
}

func TestOf(t *testing.T) {
	v := New()
	for _, e := range []*proxy.Event{
		event(1, a, alice), event(2, b, alice), event(3, a, nobody), event(4, a, nobody),
		event(5, netip.MustParseAddr("2001:db8::8"), nobody), event(6, a, nobody), event(7, a, nobody),
	} {
		v.Add(e)
	}
	ka, kb := doorward.KeyFromAddr(a), doorward.KeyFromAddr(b)
	for _, row := range []struct {
		name            string
		caller, subject doorward.Key
		want            []int64
	}{
		{"the last four", ka, nobody, []int64{3, 4, 6, 7}},
		{"a /64 is one caller", kb, nobody, []int64{2, 5}},
		{"a subject", nobody, alice, []int64{1, 2}},
		{"both, each event once", kb, alice, []int64{1, 2, 5}},
		{"nobody", nobody, nobody, nil},
		{"a stranger", doorward.KeyFromAddr(netip.MustParseAddr("198.51.100.1")), doorward.KeyFromName("bob"), nil},
	} {
		var got []int64
		for _, e := range v.Of(row.caller, row.subject) {
			got = append(got, e.Time.Unix())
			if e.Path != "" || e.Agent != "" || e.Method != "" {
				t.Errorf("%s: keeps the caller's words", row.name)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// A flood from one network pushes out nothing but its own, and who shares its place.
func TestFlood(t *testing.T) {
	v := New()
	others := 0
	for n := range 500 {
		v.Add(event(int64(n), netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}), nobody))
	}
	for n := range 100_000 {
		v.Add(event(int64(n), a, nobody))
	}
	for n := range 500 {
		others += len(v.Of(doorward.KeyFromAddr(netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)})), nobody))
	}
	if others < 490 { // some five share it at the most unlikely
		t.Errorf("%d of 500 are left", others)
	}
}

// Who shares a place with others is not told of them.
func TestOthers(t *testing.T) {
	v := New()
	addr := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}) }
	for n := range 3 * Places {
		v.Add(event(1, addr(n), doorward.KeyFromName(addr(n).String())))
	}
	for n := range 3 * Places {
		for _, e := range append(v.Of(doorward.KeyFromAddr(addr(n)), nobody), v.Of(nobody, doorward.KeyFromName(addr(n).String()))...) {
			if e.Addr != addr(n) {
				t.Fatalf("asked for %v, told of %v", addr(n), e.Addr)
			}
		}
	}
}

func TestAllocations(t *testing.T) {
	v, e := New(), event(1, a, alice)
	if n := testing.AllocsPerRun(1000, func() { v.Add(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	v := New()
	b.RunParallel(func(pb *testing.PB) {
		for e := event(1, a, alice); pb.Next(); {
			v.Add(e)
		}
	})
}
