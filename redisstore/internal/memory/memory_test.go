package memory_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/faulty"
	"github.com/doorward/doorward/redisstore/internal/memory"
	"github.com/doorward/doorward/window"
)

var (
	ctx   = context.Background()
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func at(second float64) time.Time { return start.Add(time.Duration(second * float64(time.Second))) }

func build(t testing.TB, c guard.Config) *guard.Guard {
	t.Helper()
	g, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The same histories through a guard without a Store and through one with this end in the
// same decisions, settlements, figures and entries.
func TestAgreesWithGuard(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		rules := faulty.Rules()
		if seed%2 == 1 {
			rules = faulty.Loose()
		}
		plain := build(t, guard.Config{Rules: rules})
		stored := build(t, guard.Config{Rules: rules, Store: memory.New()})
		type pair struct{ plain, stored guard.Permit }
		var flying []pair
		now, admitted := start, 0
		for step := range 1500 {
			now = now.Add(time.Duration(rnd.IntN(2500)) * time.Millisecond)
			if n := len(flying); n > 0 && rnd.IntN(2) == 0 {
				i := rnd.IntN(n)
				p := flying[i]
				flying[i] = flying[n-1]
				flying = flying[:n-1]
				o := doorward.Outcome(rnd.IntN(4))
				want := p.plain.Settle(o, now)
				if got, err := p.stored.SettleContext(ctx, o, now); got != want || err != nil {
					t.Fatalf("seed %d step %d: settled as %+v, %v, want %+v", seed, step, got, err, want)
				}
				continue
			}
			q := faulty.Request(rnd)
			if rnd.IntN(20) == 0 {
				rule := rules[rnd.IntN(len(rules))].Name
				k := doorward.KeyFromAddr(q.Addr)
				if err := plain.Unlock(rule, k); err != nil {
					t.Fatal(err)
				}
				if err := stored.UnlockContext(ctx, rule, k); err != nil {
					t.Fatal(err)
				}
			}
			want := plain.Attempt(q, now)
			got, err := stored.AttemptContext(ctx, q, now)
			if got.Verdict != want.Verdict || err != nil {
				t.Fatalf("seed %d step %d: %+v\ngot  %+v, %v\nwant %+v", seed, step, q, got.Verdict, err, want.Verdict)
			}
			if want.Allowed {
				admitted++
				flying = append(flying, pair{want, got})
			}
			if step%50 == 0 {
				want, err := plain.Lookup(q, now)
				got, err2 := stored.LookupContext(ctx, q, now)
				if !reflect.DeepEqual(got, want) || err != nil || err2 != nil {
					t.Fatalf("seed %d step %d: found %+v, want %+v, %v, %v", seed, step, got, want, err, err2)
				}
			}
		}
		if admitted < 100 {
			t.Errorf("seed %d: %d admitted are too few to tell", seed, admitted)
		}
		for _, r := range rules {
			// A device that has no room asks a Store twice: that is counted, and may reclaim.
			want, _ := plain.Stats(r.Name)
			got, err := stored.Stats(r.Name)
			if got.Pending != want.Pending || err != nil {
				t.Errorf("seed %d rule %s: %+v, %v, want %+v", seed, r.Name, got, err, want)
			}
		}
		if err := stored.Clear(""); err != nil {
			t.Error(err)
		}
		for _, r := range rules {
			if n, err := stored.Stats(r.Name); n.Tracked != 0 || n.Pending != 0 || err != nil {
				t.Errorf("seed %d rule %s after Clear: %+v, %v", seed, r.Name, n, err)
			}
		}
	}
}

// 1,000 attempts at once: each rule admits what it says, and what was charged before a
// refusal is taken back.
func TestParallel(t *testing.T) {
	s := memory.New()
	g := build(t, guard.Config{Store: s, Rules: []guard.Rule{
		{Name: "wide", V4: 24, V6: 48, Lockout: faulty.Free(50, time.Minute, time.Minute, 8)},
		{Name: "own", Lockout: faulty.Free(5, time.Minute, time.Minute, 8)},
	}})
	var admitted atomic.Int32
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			p, err := g.AttemptContext(ctx, guard.Request{Addr: netip.MustParseAddr("192.0.2.1")}, start)
			if err != nil {
				t.Error(err)
			}
			if p.Allowed {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 5 {
		t.Errorf("%d admitted, want 5", n)
	}
	for _, rule := range []string{"wide", "own"} {
		if n, _ := g.Stats(rule); n.Pending != 5 {
			t.Errorf("rule %s: %d pending, want 5", rule, n.Pending)
		}
	}
}

// A refusal charges nothing, and what was charged when another caller came in between is
// taken back.
func TestAllOrNothing(t *testing.T) {
	one := faulty.Free(1, time.Minute, time.Minute, 1)
	g := build(t, guard.Config{Store: memory.New(), Rules: []guard.Rule{
		{Name: "wide", V4: 24, V6: 48, Lockout: one}, {Name: "own", Lockout: faulty.Free(1, time.Hour, time.Hour, 8)},
	}})
	wide, own := &g.Rules()[0], &g.Rules()[1]
	k := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1"))
	s := memory.New()
	for _, c := range [][]guard.Charge{charge(wide, doorward.KeyForEveryone(), 0), charge(own, k, 0)} {
		s.Reserve(ctx, c)
		s.Settle(ctx, c)
	}
	// The entry in wide is forgotten by now, and a reservation would reclaim it.
	s.Reserve(ctx, append(charge(wide, k, 1000), charge(own, k, 1000)...))
	if n, _ := s.Stats(ctx, wide); n.Reclaimed != 0 || n.Tracked != 1 {
		t.Errorf("%+v after a refusal by another rule", n)
	}
	other := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.2"))
	twice := append(charge(own, other, 1000), charge(own, other, 1000)...)
	s.Reserve(ctx, twice)
	if n, _ := s.Stats(ctx, own); n.Pending != 0 || twice[1].Decision.Reason != doorward.Busy || twice[0].Ticket != (doorward.Ticket{}) {
		t.Errorf("%+v, charged as %+v", n, twice)
	}
}

func charge(r *guard.Rule, k doorward.Key, second float64) []guard.Charge {
	return []guard.Charge{{Rule: r, Key: k, Now: at(second), MayRefuse: true}}
}

func TestTickets(t *testing.T) {
	r := &build(t, guard.Config{Rules: faulty.Rules(), Store: memory.New()}).Rules()[0]
	k := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1"))
	s := memory.New()
	c := charge(r, k, 0)
	s.Reserve(ctx, c)
	if !c[0].Decision.Allowed || !memory.Issued(c[0].Ticket) {
		t.Fatalf("%+v", c[0])
	}
	if memory.Issued(doorward.Ticket{}) || memory.Issued(doorward.Ticket{A: 1 << 63, B: 1<<63 - 1}) {
		t.Error("a ticket of another Store is taken for one of this")
	}
	foreign := charge(r, k, 1)
	foreign[0].Ticket = c[0].Ticket
	foreign[0].Ticket.B &^= 1 << 63
	foreign[0].Cleared.N = 7
	s.Settle(ctx, foreign)
	if n, _ := s.Stats(ctx, r); n.Pending != 1 || foreign[0].Cleared.N != 0 {
		t.Errorf("a ticket without the mark settled something: %+v, %+v", n, foreign[0])
	}
	s.Settle(ctx, c)
	if n, _ := s.Stats(ctx, r); n.Pending != 0 || n.Tracked != 1 {
		t.Errorf("not settled: %+v", n)
	}
	for range 2 {
		c = charge(r, k, 2)
		s.Reserve(ctx, c)
		s.Settle(ctx, c)
	}
	if c = charge(r, k, 2); s.Reserve(ctx, c) != nil || c[0].Decision.Allowed || c[0].Ticket != (doorward.Ticket{}) {
		t.Errorf("locked: %+v", c[0])
	}
}

// What Note is told of counts like what was decided here, and what a success clears is
// given back only where it was counted.
func TestNote(t *testing.T) {
	g := build(t, guard.Config{Store: memory.New(), Rules: []guard.Rule{
		{Name: "own", Lockout: faulty.Free(5, time.Minute, time.Minute, 8)},
		{Name: "pair", Per: guard.Pair, Lockout: faulty.Free(4, time.Minute, time.Minute, 8)},
		{Name: "rate", Window: &window.Policy{Limit: 6}},
	}})
	ofOwn, ofPair, ofRate := &g.Rules()[0], &g.Rules()[1], &g.Rules()[2]
	k := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1"))
	pair := doorward.KeyFromPair(doorward.KeyFromName("ada"), k)
	told := func(o doorward.Outcome, second float64) []guard.Charge {
		foreign := doorward.Ticket{A: 1, B: 2}
		return []guard.Charge{ // as guard settles them
			{Rule: ofPair, Key: pair, Now: at(second), Outcome: o, Ticket: foreign},
			{Rule: ofOwn, Key: k, Now: at(second), Outcome: o, Ticket: foreign, GiveBack: o == doorward.Succeeded},
			{Rule: ofRate, Key: k, Now: at(second), Outcome: o, Ticket: foreign},
		}
	}
	left := func(s *memory.Store, r *guard.Rule, k doorward.Key) int {
		_, _, d, _ := s.Look(ctx, r, k, at(10))
		if !d.Allowed {
			return 0
		}
		return d.Remaining + 1
	}
	type lefts struct{ own, pair, rate int }
	for name, c := range map[string]struct {
		tell func(s *memory.Store)
		want lefts
	}{
		"nothing": {func(*memory.Store) {}, lefts{5, 4, 6}},
		"three failures": {func(s *memory.Store) {
			for i := range 3 {
				s.Note(told(doorward.Failed, float64(i)))
			}
		}, lefts{2, 1, 3}},
		"void": {func(s *memory.Store) { s.Note(told(doorward.Void, 1)) }, lefts{5, 4, 6}},
		"a typo": {func(s *memory.Store) {
			s.Note(told(doorward.Failed, 1))
			s.Note(told(doorward.Succeeded, 2))
		}, lefts{5, 4, 4}},
		"failures of others are not given back": {func(s *memory.Store) {
			s.Note(told(doorward.Failed, 1)[1:])
			s.Note(told(doorward.Failed, 2))
			s.Note(told(doorward.Succeeded, 3))
		}, lefts{4, 4, 3}},
		"what another rule does not count is not given back": {func(s *memory.Store) {
			s.Note(told(doorward.Failed, 1)[1:])
			apart := told(doorward.Failed, 2)[:1]
			apart[0].Apart = true
			s.Note(apart)
			s.Note(told(doorward.Succeeded, 3))
		}, lefts{4, 4, 4}},
		"no more than is free": {func(s *memory.Store) {
			for i := range 9 {
				s.Note(told(doorward.Failed, float64(i)/10))
			}
		}, lefts{0, 0, 0}},
	} {
		s := memory.New()
		c.tell(s)
		if got := (lefts{left(s, ofOwn, k), left(s, ofPair, pair), left(s, ofRate, k)}); got != c.want {
			t.Errorf("%s: %+v left, want %+v", name, got, c.want)
		}
		for _, r := range g.Rules() {
			if n, _ := s.Stats(ctx, &r); n.Pending != 0 {
				t.Errorf("%s: rule %s has %d pending", name, r.Name, n.Pending)
			}
		}
	}
	s := memory.New()
	charges := told(doorward.Failed, 0)
	s.Note(charges)
	if !reflect.DeepEqual(charges, told(doorward.Failed, 0)) {
		t.Errorf("Note changed what it was told: %+v", charges)
	}
	// A network whose attempts in flight leave no room does not count a failure here: the
	// pair is marked, and nothing is given back.
	s = memory.New()
	for i := range 4 {
		s.Note(told(doorward.Failed, float64(i))[1:2])
	}
	flying := charge(ofOwn, k, 5)
	flying[0].Outcome = doorward.Void
	s.Reserve(ctx, flying)
	s.Note(told(doorward.Failed, 6))
	s.Settle(ctx, flying)
	s.Note(told(doorward.Succeeded, 7))
	if e, _, _, _ := s.Look(ctx, ofOwn, k, at(8)); e.Count != 4 {
		t.Errorf("%d failures, want the four of others", e.Count)
	}
}

// Who is meant is forgotten in one rule, of both families.
func TestForgetFunc(t *testing.T) {
	rules := build(t, guard.Config{Store: memory.New(), Rules: []guard.Rule{
		{Name: "own", Lockout: faulty.Free(3, time.Minute, time.Minute, 2048)},
		{Name: "wide", V4: 24, V6: 48, Lockout: faulty.Free(3, time.Minute, time.Minute, 2048)},
	}}).Rules()
	s := memory.New()
	var keys []doorward.Key
	for i := range 600 { // more than a page
		a := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		if i%2 == 1 {
			a = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0, byte(i >> 8), byte(i)})
		}
		keys = append(keys, doorward.KeyFromAddr(a))
		for r := range rules {
			c := charge(&rules[r], keys[i], 0)
			s.Reserve(ctx, c)
			s.Settle(ctx, c)
		}
	}
	meant := map[doorward.Key]bool{keys[4]: true, keys[5]: true, keys[598]: true, keys[599]: true}
	s.ForgetFunc("own", func(k doorward.Key) bool { return meant[k] }, at(1))
	for _, k := range keys {
		own, _, _, _ := s.Look(ctx, &rules[0], k, at(1))
		wide, _, _, _ := s.Look(ctx, &rules[1], k, at(1))
		if own.Count == 0 != meant[k] || wide.Count != 1 {
			t.Errorf("%v counts %d and %d", k, own.Count, wide.Count)
		}
	}
}

// A guard that is reloaded goes on with what was counted, under its new limits.
func TestReload(t *testing.T) {
	k := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1"))
	rule := func(edit func(*guard.Rule)) *guard.Rule {
		r := guard.Rule{Name: "own", Lockout: faulty.Free(3, time.Minute, time.Minute, 8)}
		edit(&r)
		return &build(t, guard.Config{Rules: []guard.Rule{r}, Store: memory.New()}).Rules()[0]
	}
	for name, c := range map[string]struct {
		edit func(*guard.Rule)
		left int
	}{
		"the same":       {func(*guard.Rule) {}, 1},
		"more":           {func(r *guard.Rule) { r.Lockout.FreeFailures = 9 }, 7},
		"another size":   {func(r *guard.Rule) { r.Lockout.Capacity = 9 }, 3},
		"another lease":  {func(r *guard.Rule) { r.Lockout.Lease = time.Second }, 3},
		"another key":    {func(r *guard.Rule) { r.V6 = 48 }, 3},
		"another policy": {func(r *guard.Rule) { r.Lockout, r.Window = nil, &window.Policy{Limit: 4} }, 4},
	} {
		s := memory.New()
		old, next := rule(func(*guard.Rule) {}), rule(c.edit)
		for range 2 {
			charges := charge(old, k, 0)
			s.Reserve(ctx, charges)
			s.Settle(ctx, charges)
		}
		flying := charge(old, k, 0)
		flying[0].Outcome = doorward.Void
		s.Reserve(ctx, flying)
		s.Look(ctx, next, k, at(1)) // the new limits are in force
		s.Settle(ctx, flying)
		if _, _, d, err := s.Look(ctx, next, k, at(1)); d.Remaining+1 != c.left || err != nil {
			t.Errorf("%s: %+v, %v, want %d left", name, d, err, c.left)
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	s := memory.New()
	g := build(b, guard.Config{Store: memory.New(), Rules: faulty.Rules()[:3]})
	charges := make([]guard.Charge, 3)
	for i := range charges {
		charges[i] = guard.Charge{Rule: &g.Rules()[i], Key: doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1")), Now: start, MayRefuse: true, Outcome: doorward.Void}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Reserve(ctx, charges)
		s.Settle(ctx, charges)
	}
}

func TestNoAllocation(t *testing.T) {
	s := memory.New()
	g := build(t, guard.Config{Store: memory.New(), Rules: faulty.Rules()[:3]})
	var charges []guard.Charge
	for i := range g.Rules() {
		charges = append(charges, guard.Charge{Rule: &g.Rules()[i], Key: doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1")), Now: start, MayRefuse: true, Outcome: doorward.Void})
	}
	if n := testing.AllocsPerRun(100, func() {
		s.Reserve(ctx, charges)
		s.Settle(ctx, charges)
		s.Note(charges)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
