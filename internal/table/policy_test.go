package table

import "testing"

// counting is keep with a count that all keys share.
type counting struct {
	keep
	steps int
}

func (p *counting) Step(s *note, e Event, began, now int64) int64 {
	p.steps++
	return p.keep.Step(s, e, began, now)
}

func (p *counting) Reset() { p.steps = 0 }

// Adopt turns what another policy wrote into what is remembered for ten more.
func (p *counting) Adopt(old Policy[note], s note, now int64) note {
	if _, same := old.(*counting); same || s == (note{}) {
		return s
	}
	return noteUntil(now + 10)
}

// Clear forgets what a policy keeps of its own as well.
func TestClearResets(t *testing.T) {
	p := &counting{keep: keep{ttl: 9}}
	b := New(p, Config{Capacity: 4, InFlight: 2, Lease: 10})
	b.Attempt(key(1), at(0))
	if p.steps != 1 {
		t.Fatalf("%d steps", p.steps)
	}
	if b.Clear(); p.steps != 0 {
		t.Errorf("%d steps after Clear", p.steps)
	}
}

// A policy may read all states anew, also of entries that are not in order.
func TestReloadAdopts(t *testing.T) {
	b := New(&keep{ttl: 1000}, Config{Capacity: 4, InFlight: 4, Lease: 100})
	for _, k := range []Key{key(1), key(2), key(3), home4} {
		b.Attempt(k, at(0))
	}
	b.Unlock(key(3))
	_, ticket := b.Reserve(key(2), 0, at(5))
	b.Reload(&counting{keep: keep{ttl: 1000}}, 100)
	check(t, b)
	b.Settle(key(2), ticket, void, void, at(5))
	b.Reload(&counting{keep: keep{ttl: 1000}}, 100) // the same: nothing changes
	check(t, b)
	for _, k := range []Key{key(1), key(2), home4} {
		for _, now := range []int64{14, 15} {
			known := false
			b.Update(k, at(now), func(_ Policy[note], s *note, _ int64) { known = *s != note{} })
			if want := now < 15; known != want {
				t.Errorf("%v at %d: known is %v", k, now, known)
			}
		}
		b.Unlock(k)
		b.now = 5
	}
	check(t, b)
}

// What a policy reads as nothing is forgotten at once, and its room is free.
func TestReloadForgets(t *testing.T) {
	b := New(&keep{ttl: 1000}, Config{Capacity: 20, InFlight: 4, Lease: 100})
	for i := range 20 {
		b.Attempt(key(i), at(int64(i)))
	}
	b.Attempt(home4, at(20))
	_, ticket := b.Reserve(key(2), 0, at(20))
	b.Unlock(key(3))
	b.Reload(&forgetful{keep{ttl: 1000}}, 100)
	check(t, b)
	if n := b.Tracked(); n != 1 {
		t.Errorf("%d tracked, want the one with a reservation", n)
	}
	b.Settle(key(2), ticket, void, void, at(20))
	check(t, b)
	for i := range 21 {
		if a := b.Attempt(key(100+i), at(20)); a.Overflow != (i == 20) {
			t.Errorf("key %d: overflow is %v", i, a.Overflow)
		}
	}
}

type forgetful struct{ keep }

func (*forgetful) Adopt(Policy[note], note, int64) note { return note{} }

// No key has more pending than an entry can count.
func TestPendingOfOneKey(t *testing.T) {
	p := &always{keep{ttl: 1}}
	b := New(p, Config{Capacity: 1, InFlight: 70_000, Lease: 500})
	for i := range 65_535 {
		if a, _ := b.Reserve(key(1), 0, at(0)); a.Verdict != Allowed {
			t.Fatalf("reservation %d: %+v", i, a)
		}
	}
	if a, ticket := b.Reserve(key(1), 0, at(1)); a != (Answer{Verdict: Busy, Wait: 499}) || ticket != (Ticket{}) {
		t.Errorf("one too many: %+v", a)
	}
	if a, _ := b.Reserve(home4, 0, at(1)); a.Verdict != Allowed {
		t.Errorf("another key: %+v", a)
	}
}

type always struct{ keep }

func (*always) Judge(*note, Pending, int64) Answer { return Answer{Verdict: Allowed} }
