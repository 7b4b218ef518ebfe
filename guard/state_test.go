package guard_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/internal/seal"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// saved returns the state at a second after start.
func (s story) saved(second float64) []byte {
	s.Helper()
	var b bytes.Buffer
	if err := s.Save(&b, stateKey, at(second)); err != nil {
		s.Fatal(err)
	}
	return b.Bytes()
}

// restored returns a guard of c with a state, loaded at a second after start.
func restored(t *testing.T, c guard.Config, state []byte, second float64) (story, guard.Loaded) {
	t.Helper()
	s := tell(t, c)
	n, err := s.Load(bytes.NewReader(state), stateKey, at(second))
	if err != nil {
		t.Fatal(err)
	}
	return s, n
}

func stateRules() guard.Config {
	return rules(
		guard.Rule{Name: "site", V4: 24, V6: 48, Lockout: decaying(40, time.Hour, time.Minute)},
		guard.Rule{Name: "own", Lockout: free(3, time.Hour, time.Minute)},
		guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 30, Global: 90, Window: time.Hour, Sources: 64}},
		guard.Rule{Name: "both", Per: guard.Pair, Lockout: free(5, time.Hour, time.Minute)},
		guard.Rule{Name: "work", Per: guard.Subject, Window: &window.Policy{Limit: 20, Window: time.Hour, Sliding: true}},
	)
}

// A lockout goes on where it was; time that passed while stopped counts.
func TestStateOutlivesRestart(t *testing.T) {
	s := tell(t, stateRules())
	for range 3 {
		s.admitted(0, s.on("192.0.2.1", "alice"), doorward.Failed)
	}
	for _, row := range []struct{ saved, loaded, wait float64 }{{0, 0, 60}, {1, 1, 59}, {1, 31, 29}, {10, 59.5, 0.5}} {
		after, n := restored(t, stateRules(), s.saved(row.saved), row.loaded)
		passed := time.Duration((row.loaded - row.saved) * float64(time.Second))
		if n.Entries != 5 || n.Passed != passed || !n.Saved.Equal(at(row.saved)) || n.Pending+n.Forgotten != 0 || n.SetBack != 0 {
			t.Errorf("%+v", n)
		}
		after.refused(row.loaded, from("192.0.2.1"), "own", row.wait)
		after.admitted(row.loaded+row.wait, from("192.0.2.1"), doorward.Failed)
		after.refused(row.loaded+row.wait, from("192.0.2.1"), "own", 120) // it doubles
	}
	after, n := restored(t, stateRules(), s.saved(1), 4060)
	if n.Entries != 0 || n.Forgotten != 5 {
		t.Errorf("when all is over: %+v", n)
	}
	after.admitted(4060, from("192.0.2.1"), doorward.Failed)
}

// However the clock jumped, no lockout ends later than it would have from the moment that
// the state was written.
func TestClockSetBack(t *testing.T) {
	s := tell(t, stateRules())
	for range 3 {
		s.admitted(1e6, from("192.0.2.1"), doorward.Failed)
	}
	state := s.saved(1e6 + 20)
	for _, second := range []float64{1e6 + 19, 1e6, 0, -1e8} {
		after, n := restored(t, stateRules(), state, second)
		if n.Passed != 0 || n.SetBack != time.Duration((1e6+20-second)*1e9) {
			t.Errorf("%+v", n)
		}
		after.refused(second, from("192.0.2.1"), "own", 40)
		after.admitted(second+40, from("192.0.2.1"), doorward.Failed)
		// Once more: what was restored is saved and restored as well.
		again, _ := restored(t, stateRules(), after.saved(second+41), second+50)
		again.refused(second+50, from("192.0.2.1"), "own", 110)
	}
	// A table that has seen a later time than a save is given judges at that.
	s.Check(from(""), at(1e6+30))
	after, _ := restored(t, stateRules(), s.saved(1e6+20), 1e6+20)
	after.refused(1e6+20, from("192.0.2.1"), "own", 30)
}

// What was in flight becomes a failure when its lease ends, dated then, and nobody can
// settle it.
func TestPendingCountAsFailed(t *testing.T) {
	s := tell(t, stateRules())
	for range 2 {
		s.admitted(0, from("192.0.2.1"), doorward.Failed)
	}
	p := s.Attempt(from("192.0.2.1"), at(10))
	state := s.saved(20)
	p.Settle(doorward.Succeeded, at(21))

	after, n := restored(t, stateRules(), state, 30)
	if n.Pending != 3 { // of three rules
		t.Errorf("%+v", n)
	}
	b, _ := p.MarshalBinary()
	back, err := after.ReadPermit(b)
	if err != nil {
		t.Fatal(err)
	}
	back.Settle(doorward.Succeeded, at(31))
	if v := after.Attempt(from("192.0.2.1"), at(69.5)); v.Reason != doorward.Busy || v.RetryAfter != time.Second/2 {
		t.Errorf("%+v, want busy until the lease ends", v.Verdict)
	}
	after.refused(70, from("192.0.2.1"), "own", 60)

	after, _ = restored(t, stateRules(), state, 100) // it ended while stopped
	after.refused(100, from("192.0.2.1"), "own", 30)
}

// Rules are known by name, key and kind of policy. What else changed is as after Reload.
func TestStateOfOtherRules(t *testing.T) {
	s := tell(t, stateRules())
	for range 2 {
		s.admitted(0, s.on("192.0.2.1", "alice"), doorward.Failed)
	}
	c := stateRules()
	c.Rules[0].V6 = 56                                                                          // another key
	c.Rules[1].Lockout.FreeFailures = 4                                                         // another limit
	c.Rules[2].Name = "other"                                                                   // another rule
	c.Rules[3] = guard.Rule{Name: "both", Per: guard.Pair, Window: &window.Policy{}}            // another kind
	c.Rules[4].Window = &window.Policy{Limit: 3, Window: 2 * time.Hour, Sliding: true}          // another width
	c.Rules = append(c.Rules, guard.Rule{Name: "new", Lockout: free(50, time.Hour, time.Hour)}) // new
	after, n := restored(t, c, s.saved(1), 1)
	slices.Sort(n.Skipped)
	slices.Sort(n.Fresh)
	if !slices.Equal(n.Skipped, []string{"both", "ceiling", "site"}) || !slices.Equal(n.Fresh, []string{"both", "new", "other", "site"}) {
		t.Errorf("%+v", n)
	}
	after.admitted(1, s.on("192.0.2.1", "alice"), doorward.Failed)
	after.admitted(1, from("192.0.2.1"), doorward.Failed)
	after.refused(1, from("192.0.2.1"), "own", 60)
	after.refused(1, s.on("192.0.2.2", "alice"), "work", 2.25*3600) // all three from the reload on
}

// A table that is too small refuses, and the guard is as it was; one of the same size
// never does.
func TestStateRoom(t *testing.T) {
	c := rules(guard.Rule{Name: "own", Lockout: free(3, time.Hour, time.Minute)})
	c.Rules[0].Lockout.Capacity, c.Rules[0].Lockout.InFlight = 8, 8
	s := tell(t, c)
	for i := range 12 {
		s.admitted(0, from(fmt.Sprintf("192.0.2.%d", i)), doorward.Void)
		if i < 8 {
			s.admitted(float64(i), from(fmt.Sprintf("192.0.2.%d", i)), doorward.Failed)
		}
	}
	s.admitted(8, from("127.0.0.1"), doorward.Failed)
	s.admitted(8, from("192.0.2.99"), doorward.Failed) // overflow
	for range 2 {
		s.Attempt(from("192.0.2.1"), at(8))
	}
	state := s.saved(9)
	if _, n := restored(t, c, state, 9); n.Entries != 9 || n.Pending != 2 {
		t.Errorf("%+v", n)
	}
	small := rules(guard.Rule{Name: "own", Lockout: free(3, time.Hour, time.Minute)})
	for _, row := range []struct {
		capacity, inFlight int
		second             float64
		want               string
	}{
		{7, 8, 9, `guard: state of rule "own" holds more than there is room for: more live keys than its capacity`},
		{8, 1, 9, `guard: state of rule "own" holds more than there is room for: more reservations than may be in flight`},
		{7, 2, 3600, ""}, // one is forgotten by then
		{7, 2, 3599.9, `guard: state of rule "own" holds more than there is room for: more live keys than its capacity`},
	} {
		small.Rules[0].Lockout.Capacity, small.Rules[0].Lockout.InFlight = row.capacity, row.inFlight
		after := tell(t, small)
		after.admitted(0, from("198.51.100.1"), doorward.Failed)
		_, err := after.Load(bytes.NewReader(state), stateKey, at(row.second))
		if got := fmt.Sprint(err); row.want != "" && got != row.want || row.want == "" && err != nil {
			t.Errorf("%+v: %v", row, err)
		}
		if found, _ := after.Lookup(from("198.51.100.1"), at(1)); row.want != "" && (!errors.Is(err, guard.ErrRoom) || found[0].Count != 1) {
			t.Errorf("%+v: the guard has changed: %+v", row, found)
		}
	}
}

// What is wrong is named, and the guard is as it was.
func TestStateErrors(t *testing.T) {
	s := tell(t, stateRules())
	s.admitted(0, s.on("192.0.2.1", "alice"), doorward.Failed)
	state := s.saved(1)
	other := bytes.Repeat([]byte{8}, guard.MinStateKey)
	edit := func(i int) []byte {
		b := bytes.Clone(state)
		b[i] ^= 1
		return b
	}
	for _, row := range []struct {
		name  string
		state []byte
		key   []byte
		is    error
		text  string
	}{
		{"empty", nil, stateKey, guard.ErrTruncated, "guard: state is cut off"},
		{"cut off", state[:len(state)-1], stateKey, guard.ErrTruncated, "guard: state is cut off"},
		{"foreign", []byte("{}\n"), stateKey, guard.ErrForeign, "guard: state is not a state of doorward"},
		{"future", edit(15), stateKey, guard.ErrVersion, "guard: state has a version that this program cannot read: 0, not 1"},
		{"key", state, other, guard.ErrKey, "guard: state was written with another key"},
		{"header", edit(30), stateKey, guard.ErrDamaged, "guard: state is damaged"},
		{"body", edit(len(state) / 2), stateKey, guard.ErrDamaged, "guard: state is damaged"},
		{"end", edit(len(state) - 1), stateKey, guard.ErrDamaged, "guard: state is damaged"},
	} {
		g := tell(t, stateRules())
		g.admitted(0, from("198.51.100.1"), doorward.Failed)
		before := g.sight(t)
		_, err := g.Load(bytes.NewReader(row.state), row.key, at(1))
		if !errors.Is(err, row.is) || err.Error() != row.text {
			t.Errorf("%s: %v", row.name, err)
		}
		if after := g.sight(t); after != before {
			t.Errorf("%s: was %s, is %s", row.name, before, after)
		}
	}
	if err := s.Save(io.Discard, stateKey[1:], at(1)); err == nil || err.Error() != "guard: state: key must have at least 32 bytes, got 31" {
		t.Error(err)
	}
	c := stateRules()
	c.Store = &limiterStore{}
	if _, err := tell(t, c).Load(bytes.NewReader(state), stateKey, at(1)); !errors.Is(err, guard.ErrStore) {
		t.Error(err)
	}
	if err := tell(t, c).Save(io.Discard, stateKey, at(1)); !errors.Is(err, guard.ErrStore) {
		t.Error(err)
	}
}

// sight returns all entries of all rules in words.
func (s story) sight(t *testing.T) string {
	var b strings.Builder
	for _, r := range s.Rules() {
		all, _ := s.entries(r.Name, doorward.ShowAll, 99, 1, func() {})
		fmt.Fprintln(&b, r.Name, all)
	}
	return b.String()
}

// No name or address is in a state in clear, nor its key.
func TestStateHidesKeys(t *testing.T) {
	s := tell(t, stateRules())
	s.admitted(0, s.on("192.0.2.1", "alice"), doorward.Failed)
	state := s.saved(1)
	for _, k := range []doorward.Key{doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1")), doorward.KeyFromName("alice")} {
		b, _ := k.MarshalBinary()
		if bytes.Contains(state, b[10:]) || bytes.Contains(state, []byte("site")) {
			t.Errorf("%v can be read", k)
		}
	}
}

// Saving takes the same few buffers however much there is.
func TestSaveAllocations(t *testing.T) {
	var counts []float64
	for _, n := range []int{10, 20_000} {
		p := free(3, time.Hour, time.Minute)
		p.Capacity = 30_000
		s := tell(t, rules(guard.Rule{Name: "own", Lockout: p}))
		for i := range n {
			s.admitted(0, guard.Request{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}, doorward.Failed)
		}
		counts = append(counts, testing.AllocsPerRun(3, func() { s.Save(io.Discard, stateKey, at(1)) }))
	}
	if counts[1] > counts[0]+2 {
		t.Errorf("%v allocations for 10 entries and 20,000", counts)
	}
}

// A meddler does something at each write.
type meddler struct {
	bytes.Buffer
	each func(n int)
	n    int
}

func (m *meddler) Write(p []byte) (int, error) {
	m.n++
	m.each(m.n)
	return m.Buffer.Write(p)
}

// Failures that came in while a state was written may be on a pair and not on its network.
// They must not be given back: that would wash off others' failures.
func TestSaveWhileAttemptsGoOn(t *testing.T) {
	c := rules(
		guard.Rule{Name: "own", Lockout: decaying(60, time.Hour, time.Minute)},
		guard.Rule{Name: "filler", Per: guard.Challenge, Lockout: free(5, time.Hour, time.Minute)},
		guard.Rule{Name: "both", Per: guard.Pair, Lockout: free(9, time.Hour, time.Minute)},
	)
	c.Rules[1].Lockout.Capacity = 3000
	for _, decay := range []bool{false, true} {
		c.Rules[2].Lockout.Decay = decay
		s := tell(t, c)
		for range 20 { // somebody else's
			s.admitted(0, from("192.0.2.1"), doorward.Failed)
		}
		for range 3 { // honest typos before
			s.admitted(1, s.on("192.0.2.1", "bob"), doorward.Failed)
		}
		for i := range 3000 { // more than a chunk between networks and pairs
			r := from("198.51.100.1")
			r.Challenge = doorward.KeyFromName(fmt.Sprint(i))
			s.admitted(1, r, doorward.Failed)
			s.Unlock("own", doorward.KeyFromAddr(r.Addr))
		}
		m := &meddler{each: func(n int) {
			if n == 2 { // the first chunk: the network was read
				for range 4 {
					s.admitted(2.5, s.on("192.0.2.1", "mallory"), doorward.Failed)
				}
			}
		}}
		if err := s.Save(m, stateKey, at(2)); err != nil {
			t.Fatal(err)
		}
		if m.n < 5 {
			t.Fatalf("%d writes: the attempts came too late", m.n)
		}
		count := func(s story, second float64) int {
			found, _ := s.Lookup(from("192.0.2.1"), at(second))
			return found[0].Count
		}
		after, _ := restored(t, c, m.Bytes(), 3)
		if n := count(after, 3); n != 23 {
			t.Fatalf("%d failures of the network are in the state, want 23", n)
		}
		found, _ := after.Lookup(s.on("192.0.2.1", "mallory"), at(3))
		if found[1].Count != 4 {
			t.Fatalf("%d failures of the pair are in the state, want 4", found[1].Count)
		}
		after.admitted(3, s.on("192.0.2.1", "mallory"), doorward.Succeeded)
		if n := count(after, 3); n != 23 {
			t.Errorf("decay %t: %d failures after a success, want 23: nobody else's are given back", decay, n)
		}
		want := 20
		if decay { // of those that decay nothing is known
			want = 23
		}
		after.admitted(3, s.on("192.0.2.1", "bob"), doorward.Succeeded)
		if n := count(after, 3); n != want {
			t.Errorf("decay %t: %d failures after bob's success, want %d", decay, n, want)
		}
	}
}

// Save is safe beside attempts, and what is locked all the time is in every state.
func TestSaveInParallel(t *testing.T) {
	s := tell(t, stateRules())
	for range 3 {
		s.admitted(0, from("192.0.2.1"), doorward.Failed)
	}
	var workers sync.WaitGroup
	done := make(chan struct{})
	for w := range 2 {
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				p := s.Attempt(s.on(fmt.Sprintf("198.51.%d.%d", w, i%250), "bob"), at(1))
				p.Settle(doorward.Outcome(i%4), at(1))
				s.Stats("own")
				s.Lookup(from("192.0.2.1"), at(1))
				s.AppendEntries(nil, "own", doorward.ShowLocked, 0, 9, at(1))
			}
		})
	}
	for range 50 {
		after, _ := restored(t, stateRules(), s.saved(1), 1)
		if d := after.Check(from("192.0.2.1"), at(1)); d.Reason != doorward.Locked || d.RetryAfter != 59*time.Second {
			t.Errorf("%+v", d)
		}
	}
	close(done)
	workers.Wait()
}

// What Load takes for true must not break a guard, even from one who has the key.
func FuzzLoad(f *testing.F) {
	open := func(state []byte) (text []byte) {
		r, err := seal.NewReader(bytes.NewReader(state), stateKey)
		for err == nil {
			var b []byte
			if b, err = r.Next(1); err == nil {
				text = append(text, b...)
			}
		}
		return text
	}
	t := &testing.T{}
	s := tell(t, stateRules())
	f.Add(open(s.saved(0)))
	for i := range 30 {
		s.Attempt(s.on(fmt.Sprintf("192.0.2.%d", i%4), "alice"), at(1))
		s.admitted(1, s.on(fmt.Sprintf("198.51.100.%d", i), fmt.Sprint(i%7)), doorward.Failed)
	}
	f.Add(open(s.saved(2)))
	s.admitted(1, s.on("127.0.0.1", "root"), doorward.Failed)
	long := open(s.saved(90))
	f.Add(long)
	f.Add(binary.BigEndian.AppendUint64(slices.Clone(long[:12]), math.MaxUint64))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b bytes.Buffer
		w, err := seal.NewWriter(&b, stateKey)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(text)
		w.Close()
		s := tell(t, stateRules())
		s.admitted(0, from("192.0.2.200"), doorward.Failed)
		before := s.sight(t)
		n, err := s.Load(&b, stateKey, at(3))
		if err != nil {
			if after := s.sight(t); after != before {
				t.Fatalf("%v, and was %s, is %s", err, before, after)
			}
			return
		}
		for i, second := range []float64{3, 3, 50, 3600, 1e6, 1e9} {
			for _, name := range []string{"alice", "1", "new"} {
				p := s.Attempt(s.on(fmt.Sprintf("192.0.2.%d", i), name), at(second))
				s.Lookup(s.on("198.51.100.7", name), at(second))
				if i%2 == 0 {
					p.Settle(doorward.Outcome(i/2), at(second))
				}
			}
			s.sight(t)
			for _, r := range s.Rules() {
				if x := s.stats(r.Name); x.Tracked > 2*(64+2) && r.Name != "work" || x.Tracked < 0 || x.Pending < 0 {
					t.Fatalf("%+v after %+v", x, n)
				}
			}
			if _, err := tell(t, stateRules()).Load(bytes.NewReader(s.saved(second)), stateKey, at(second)); err != nil {
				t.Fatalf("what was loaded cannot be saved: %v", err)
			}
		}
		s.Clear("")
		s.admitted(1e9, from("192.0.2.1"), doorward.Failed)
	})
}

// Lists of networks change without touching what was counted, also under permits in
// flight.
func TestReloadLists(t *testing.T) {
	c := stateRules()
	s := tell(t, c)
	for range 2 {
		s.admitted(0, from("192.0.2.1"), doorward.Failed)
	}
	p, q := s.Attempt(from("192.0.2.1"), at(0)), s.Attempt(from("192.0.2.2"), at(0))
	c.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	c.Blocked = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32")}
	g, err := s.Reload(c)
	if err != nil {
		t.Fatal(err)
	}
	lists := story{t, g}
	if v := lists.admitted(1, from("192.0.2.1"), doorward.Failed); !v.Exempt {
		t.Errorf("%+v", v)
	}
	if v := lists.Check(from("192.0.2.2"), at(1)); v.Reason != doorward.Blocked {
		t.Errorf("%+v", v)
	}
	p.Settle(doorward.Failed, at(2)) // of before the lists: it counts
	q.Settle(doorward.Succeeded, at(2))
	if g, err = lists.Reload(stateRules()); err != nil {
		t.Fatal(err)
	}
	after := story{t, g}
	after.refused(2, from("192.0.2.1"), "own", 60)
	after.admitted(2, from("192.0.2.2"), doorward.Failed)
	if st := after.stats("own"); st.Pending != 0 || st.Tracked != 2 {
		t.Errorf("%+v", st)
	}
}

// BenchmarkReload replaces lists, or a limit, under a guard of many keys.
func BenchmarkReload(b *testing.B) {
	c := rules(guard.Rule{Name: "own", Lockout: &lockout.Policy{FreeFailures: 9, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Hour, Capacity: 1 << 20}})
	g, err := guard.New(c)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1 << 20 {
		p := g.Attempt(guard.Request{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}, at(0))
		p.Settle(doorward.Failed, at(0))
	}
	for _, limit := range []bool{false, true} {
		b.Run(fmt.Sprintf("limit=%t", limit), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if limit {
					c.Rules[0].Lockout.FreeFailures = 9 + i%2
				}
				c.Blocked = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i)}), 24)}
				if _, err := g.Reload(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkState saves and loads 65,536 entries.
func BenchmarkState(b *testing.B) {
	g, err := guard.New(rules(guard.Rule{Name: "own", Lockout: &lockout.Policy{FreeFailures: 9, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Hour}}))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1 << 16 {
		p := g.Attempt(guard.Request{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}, at(0))
		p.Settle(doorward.Failed, at(0))
	}
	var buf bytes.Buffer
	b.Run("save", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf.Reset()
			g.Save(&buf, stateKey, at(1))
		}
		b.ReportMetric(float64(buf.Len())/(1<<16), "bytes/entry")
	})
	b.Run("load", func(b *testing.B) {
		buf.Reset()
		g.Save(&buf, stateKey, at(1))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.Load(bytes.NewReader(buf.Bytes()), stateKey, at(1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	var page []doorward.Entry
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			page, _, _ = g.AppendEntries(page[:0], "own", doorward.ShowAll, 0, guard.MaxPage, at(1))
		}
	})
}

// An attempt that ends while a state is written is counted there, if twice, and nothing
// is forgotten earlier for it.
func TestSaveWhileAttemptsEnd(t *testing.T) {
	p := free(9, time.Hour, time.Minute)
	p.Capacity, p.InFlight = 4096, 4096
	c := rules(guard.Rule{Name: "own", Lockout: p})
	const n = 2500 // more than a chunk of reservations, and of entries
	who := func(i int) guard.Request {
		return guard.Request{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}
	}
	for write := 2; write < 7; write++ {
		s := tell(t, c)
		var inFlight []guard.Permit
		for i := range n {
			s.admitted(0, who(i), doorward.Failed)
			inFlight = append(inFlight, s.Attempt(who(i), at(0)))
		}
		m := &meddler{each: func(n int) {
			if n != write {
				return
			}
			for i := range inFlight {
				second := 5.
				if i%2 == 1 { // the lease has ended, and there is another failure
					second = 62
				}
				if inFlight[i].Settle(doorward.Failed, at(second)); i%2 == 1 {
					s.admitted(62, who(i), doorward.Failed)
				}
			}
		}}
		if err := s.Save(m, stateKey, at(4)); err != nil {
			t.Fatal(err)
		}
		after, _ := restored(t, c, m.Bytes(), 4)
		twice := 0
		for i := range n {
			found, _ := after.Lookup(who(i), at(122))
			if f := found[0]; f.Count < 2 || f.Count > 4 || f.ForgottenAt.Before(at(3605)) {
				t.Fatalf("write %d, %d: %+v", write, i, f.Entry)
			} else if f.Count > 3 {
				twice++
				if f.ForgottenAt.Before(at(3662)) {
					t.Fatalf("write %d, %d: forgotten before its last failure is: %+v", write, i, f.Entry)
				}
			}
		}
		t.Logf("write %d: %d were counted twice", write, twice)
	}
}

// An attempt in flight that some rule does not count stays apart over a restart: what it
// becomes is not given back where it never was.
func TestPendingStayApart(t *testing.T) {
	c := rules(
		guard.Rule{Name: "account", Per: guard.Subject, Lockout: free(20, time.Hour, time.Minute)},
		guard.Rule{Name: "device", Per: guard.Device, Lockout: free(20, time.Hour, time.Minute)},
		guard.Rule{Name: "both", Per: guard.Pair, Lockout: free(20, time.Hour, time.Minute)},
	)
	for _, known := range []bool{false, true} {
		s := tell(t, c)
		for range 5 {
			s.admitted(0, s.on("198.51.100.1", "alice"), doorward.Failed)
		}
		r := s.on("192.0.2.1", "alice")
		if known { // not charged to the account
			r.Device = doorward.KeyFromName("phone")
		}
		s.Attempt(r, at(1))
		after, _ := restored(t, c, s.saved(2), 2)
		after.admitted(100, s.on("192.0.2.1", "alice"), doorward.Succeeded) // clears the pair
		if found, _ := after.Lookup(s.on("192.0.2.1", "alice"), at(100)); found[0].Count != 5 || found[1].Count != 0 {
			t.Errorf("known %t: %d failures of the account and %d of the pair, want 5 and 0", known, found[0].Count, found[1].Count)
		}
	}
}

// A state whose end is wrong changes nothing, whatever came before.
func TestStateErrorsAtTheEnd(t *testing.T) {
	c := stateRules()
	c.Rules[1].Lockout.Capacity = 4096
	c.Rules[0].Lockout.Capacity = 4096
	c.Rules[2].Throttle.Global, c.Rules[2].Throttle.Sources = 4096, 4096
	s := tell(t, c)
	for i := range 3000 {
		s.admitted(float64(i), guard.Request{Addr: netip.AddrFrom4([4]byte{10, byte(i), byte(i >> 8), 1})}, doorward.Malformed)
	}
	state := s.saved(3000)
	if len(state) < 3*32<<10 {
		t.Fatalf("%d bytes are too few", len(state))
	}
	bad := bytes.Clone(state)
	bad[len(bad)-1] ^= 1
	for name, b := range map[string][]byte{"cut off": state[:len(state)-1], "damaged": bad} {
		g := tell(t, c)
		g.admitted(0, from("198.51.100.1"), doorward.Failed)
		before := g.sight(t)
		if _, err := g.Load(bytes.NewReader(b), stateKey, at(3000)); err == nil {
			t.Errorf("%s: no error", name)
		}
		if after := g.sight(t); after != before {
			t.Errorf("%s: was %.300s, is %.300s", name, before, after)
		}
	}
}

// What a locked pair counted is given back after a restart as before it.
func TestLockedPairIsGivenBack(t *testing.T) {
	c := rules(
		guard.Rule{Name: "own", Lockout: free(20, time.Hour, time.Minute)},
		guard.Rule{Name: "both", Per: guard.Pair, Lockout: free(3, time.Hour, time.Minute)},
	)
	s := tell(t, c)
	for range 3 {
		s.admitted(0, s.on("192.0.2.1", "alice"), doorward.Failed)
	}
	after, _ := restored(t, c, s.saved(10), 20)
	after.refused(20, s.on("192.0.2.1", "alice"), "both", 40)
	after.admitted(60, s.on("192.0.2.1", "alice"), doorward.Succeeded)
	if found, _ := after.Lookup(s.on("192.0.2.1", "alice"), at(60)); found[0].Count != 0 || found[1].Count != 0 {
		t.Errorf("%+v", found)
	}
}

// A section is one by hand, as it is written.
type section struct {
	kind, family, per byte
	v4, v6            int8
	name              string
	clock             int64
	pending           []string // records
	stateLen          byte
	own               string
	entries           []string // records
	latest            int64
}

func (s section) append(b []byte) []byte {
	b = append(b, s.kind, s.family, s.per, byte(s.v4), byte(s.v6), byte(len(s.name)))
	b = binary.BigEndian.AppendUint64(append(b, s.name...), uint64(s.clock))
	b = append(append(b, strings.Join(s.pending, "")...), 0, s.stateLen, byte(len(s.own)))
	b = append(append(append(b, s.own...), strings.Join(s.entries, "")...), 0)
	return binary.BigEndian.AppendUint64(b, uint64(s.latest))
}

// numbers returns them in 8 bytes each.
func numbers(ns ...int64) string {
	var b []byte
	for _, n := range ns {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return string(b)
}

// A state that no guard wrote is damaged, even if it was sealed with the key.
func TestStateOfNoGuard(t *testing.T) {
	const own, all, tagged = "\x01", "\x02", "\x04"
	const zero = "\x00\x00\x00\x00\x00\x00\x00\x00"
	key := string(must(doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1")).MarshalBinary()))
	home := string(must(loopback4.MarshalBinary()))
	marks := func(count, marks int64) string { return numbers(count<<32 | marks) }
	lockout := section{kind: 1, v4: 32, v6: 64, name: "own", clock: 9, stateLen: 24, latest: 9}
	throttle := section{kind: 2, v4: 32, v6: 64, name: "ceiling", clock: 9, stateLen: 16, own: numbers(3, 1), latest: 9}
	window := section{kind: 3, per: 1, name: "work", clock: 9, stateLen: 28, own: numbers(1e9) + "\x08", latest: 9}
	fixed := window
	fixed.own = numbers(1e9) + "\x00"
	name := string(must(doorward.KeyFromName("alice").MarshalBinary()))
	for _, row := range []struct {
		what string
		good bool
		base section
		edit func(*section)
	}{
		{"lockout", true, lockout, func(s *section) { s.entries = []string{own + key + numbers(1, 5) + marks(2, 3)} }},
		{"overflow", true, lockout, func(s *section) { s.entries = []string{all + "\x00\x00" + zero + zero + numbers(1, 5) + marks(2, 0)} }},
		{"pending", true, lockout, func(s *section) { s.pending = []string{own + key + numbers(99), "\x05" + key + numbers(98)} }},
		{"loopback", true, lockout, func(s *section) { s.entries = []string{own + "\xff\x01" + zero + zero + numbers(1, 5) + marks(2, 0)} }},
		{"throttle", true, throttle, func(s *section) { s.entries = []string{own + key + numbers(1, 5)} }},
		{"window", true, window, func(s *section) { s.entries = []string{own + name + numbers(1) + "\x00\x00\x00\x01" + zero + zero} }},
		{"fixed", true, fixed, func(s *section) { s.entries = []string{own + name + numbers(1) + "\x00\x00\x00\x01" + zero + zero} }},
		{"another rule", true, lockout, func(s *section) {
			s.name = "x"
			s.entries = []string{own + "what it likes: 18 and 24 bytes, of no kind"}
		}},
		{"latest before the clock", false, lockout, func(s *section) { s.latest = 8 }},
		{"latest never", false, lockout, func(s *section) { s.latest = math.MaxInt64 }},
		{"clock never", false, lockout, func(s *section) { s.clock, s.latest = math.MaxInt64, math.MaxInt64 }},
		{"clock before all", false, lockout, func(s *section) { s.clock = math.MinInt64 }},
		{"family", false, lockout, func(s *section) { s.family = 2 }},
		{"name", false, lockout, func(s *section) { s.name = "o n" }},
		{"no name", false, lockout, func(s *section) { s.name = "" }},
		{"state length", false, lockout, func(s *section) { s.stateLen = 25 }},
		{"own", false, lockout, func(s *section) { s.own = "x" }},
		{"kind of record", false, lockout, func(s *section) { s.entries = []string{"\x03" + key + numbers(1, 5) + marks(2, 0)} }},
		{"tagged entry", false, lockout, func(s *section) { s.entries = []string{"\x05" + key + numbers(1, 5) + marks(2, 0)} }},
		{"tag of nobody", false, lockout, func(s *section) { s.pending = []string{tagged + key + numbers(99)} }},
		{"kind of pending", false, lockout, func(s *section) { s.pending = []string{"\x11" + key + numbers(99)} }},
		{"key of overflow", false, lockout, func(s *section) { s.entries = []string{all + key + numbers(1, 5) + marks(2, 0)} }},
		{"no key", false, lockout, func(s *section) { s.entries = []string{own + "\x77" + key[1:] + numbers(1, 5) + marks(2, 0)} }},
		{"no loopback", false, lockout, func(s *section) { s.entries = []string{own + "\xff\x03" + zero + zero + numbers(1, 5) + marks(2, 0)} }},
		{"loopback by its bytes", false, lockout, func(s *section) { s.entries = []string{own + home + numbers(1, 5) + marks(2, 0)} }},
		{"end before all", false, lockout, func(s *section) { s.pending = []string{own + key + numbers(-1)} }},
		{"no failures", false, lockout, func(s *section) { s.entries = []string{own + key + numbers(1, 5) + marks(0, 0)} }},
		{"too many", false, lockout, func(s *section) { s.entries = []string{own + key + numbers(1, 5) + marks(1<<31, 0)} }},
		{"marks", false, lockout, func(s *section) { s.entries = []string{own + key + numbers(1, 5) + marks(2, 4)} }},
		{"began before all", false, lockout, func(s *section) { s.entries = []string{own + key + numbers(-1, 5) + marks(2, 0)} }},
		{"ended before all", false, lockout, func(s *section) { s.entries = []string{own + key + numbers(1, -5) + marks(2, 0)} }},
		{"no refusals", false, throttle, func(s *section) { s.entries = []string{own + key + numbers(1, 0)} }},
		{"too many refusals", false, throttle, func(s *section) { s.entries = []string{own + key + numbers(1, 1<<16)} }},
		{"refused before all", false, throttle, func(s *section) { s.entries = []string{own + key + numbers(-1, 1)} }},
		{"ceiling before all", false, throttle, func(s *section) { s.own = numbers(-3, 1) }},
		{"less than no ceiling", false, throttle, func(s *section) { s.own = numbers(3, -1) }},
		{"half a ceiling", false, throttle, func(s *section) { s.own = numbers(3) }},
		{"no requests", false, window, func(s *section) { s.entries = []string{own + name + numbers(1) + "\x00\x00\x00\x00" + zero + zero} }},
		{"too many requests", false, window, func(s *section) { s.entries = []string{own + name + numbers(1) + "\x00\x01\x00\x00" + zero + zero} }},
		{"far too many", false, fixed, func(s *section) { s.entries = []string{own + name + numbers(1) + "\x80\x00\x00\x00" + zero + zero} }},
		{"slices of none", false, fixed, func(s *section) {
			s.entries = []string{own + name + numbers(1) + "\x00\x00\x00\x01" + zero + numbers(1)}
		}},
		{"requested before all", false, window, func(s *section) { s.entries = []string{own + name + numbers(-1) + "\x00\x00\x00\x01" + zero + zero} }},
		{"no width", false, window, func(s *section) { s.own = numbers(0) + "\x08" }},
		{"seven slices", false, window, func(s *section) { s.own = numbers(1e9) + "\x07" }},
		{"half a width", false, window, func(s *section) { s.own = numbers(1e9) }},
	} {
		x := row.base
		row.edit(&x)
		for _, times := range []int{1, 2, 33, -1} {
			text := binary.BigEndian.AppendUint32([]byte(numbers(at(1).Unix())), 0)
			for range max(1, times) {
				text = x.append(text)
			}
			if text = append(text, 0); times < 0 {
				text = append(text, 0) // more than there should be
			}
			var b bytes.Buffer
			w := must(seal.NewWriter(&b, stateKey))
			w.Write(text)
			w.Close()
			n, err := tell(t, stateRules()).Load(&b, stateKey, at(1))
			good := row.good && (times == 1 || times == 2 && x.name == "x") // one section of a rule, 32 in all
			if good != (err == nil) || err != nil && !errors.Is(err, guard.ErrDamaged) {
				t.Errorf("%s, %d times: %v, %+v", row.what, times, err, n)
			}
			if good && x.name != "x" && n.Entries+n.Pending != len(x.entries)+len(x.pending)-strings.Count(row.what, "overflow") {
				t.Errorf("%s: %+v", row.what, n)
			}
		}
	}
}
