package table

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestStats(t *testing.T) {
	b := New(&keep{ttl: 10}, Config{Capacity: 2, InFlight: 4, Lease: 100})
	expect := func(what string, want Stats, tracked, pending int) {
		t.Helper()
		if s, n, p := b.Stats(); s != want || n != tracked || p != pending {
			t.Errorf("%s: %+v, %d tracked, %d pending, want %+v, %d, %d", what, s, n, p, want, tracked, pending)
		}
	}
	b.Attempt(key(1), at(0))
	b.Attempt(key(2), at(0))
	b.Attempt(home4, at(0))
	expect("room for all", Stats{}, 3, 0)
	b.Attempt(key(3), at(1))
	expect("one too many", Stats{Charged: 1}, 3, 0)
	b.Try(key(3), at(1), func(_ Policy[note], s *note, _ Pending, at int64) Answer { return Answer{} })
	b.Try(key(3), at(1), func(_ Policy[note], s *note, _ Pending, at int64) Answer {
		*s = noteUntil(at + 10)
		return Answer{Verdict: Allowed}
	})
	expect("tried, refused and not", Stats{Charged: 2, Refused: 1}, 3, 0)
	for range 3 {
		b.Reserve(key(3), 0, at(1))
	}
	expect("three more pend", Stats{Charged: 5, Refused: 1}, 3, 3)
	b.Check(key(4), at(1))
	b.Attempt(key(4), at(1))
	b.Reserve(key(4), 0, at(1))
	expect("busy", Stats{Charged: 5, Refused: 4}, 3, 3)
	b.Look(key(4), at(1))
	expect("looked at", Stats{Charged: 5, Refused: 4}, 3, 3)
	b.Reserve(key(1), 0, at(1))
	b.Reserve(key(2), 0, at(1))
	expect("pool full", Stats{Charged: 5, Refused: 4, PoolFull: 1}, 3, 4)
	b.Attempt(key(5), at(10))
	expect("key 2 makes room", Stats{Charged: 5, Refused: 4, PoolFull: 1, Reclaimed: 1}, 3, 4)
	b.Clear()
	expect("what was counted stays", Stats{Charged: 5, Refused: 4, PoolFull: 1, Reclaimed: 1}, 0, 0)
}

// walk calls f for each page of so many places, and between the calls between.
func walk(b *Table[note], places int, now int64, f func(Item[note]), between func()) (pages int) {
	items := make([]Item[note], places)
	for from := uint32(0); ; {
		n, next, _, _ := b.Page(from, items, at(now))
		pages++
		for _, it := range items[:n] {
			f(it)
		}
		if next == 0 {
			return pages
		}
		from = next
		between()
	}
}

// A key that is there all the time is seen once, whatever comes and goes meanwhile.
func TestPage(t *testing.T) {
	b := New(&keep{ttl: 1000}, Config{Capacity: 100, InFlight: 100, Lease: 50})
	for i := range 60 {
		b.Attempt(key(i), at(0))
	}
	b.Attempt(home6, at(0))
	b.Reserve(key(99), 0, at(0)) // nothing counted, but pending
	for i := range 60 {
		if i%3 == 0 {
			b.Unlock(key(i))
		}
	}
	if pages := walk(b, 10, 0, func(Item[note]) {}, func() {}); pages != (firstOwn+61+9)/10 {
		t.Errorf("%d pages of 10 places for 61 entries and those with a fixed place", pages)
	}
	for places := 1; places < 70; places += 7 {
		seen := map[Key]int{}
		walk(b, places, 0, func(it Item[note]) {
			seen[it.Key]++
			if it.Overflow || (it.Key == key(99)) != (it.Pending == 1) || (it.Key == key(99)) != (it.State == note{}) {
				t.Fatalf("%+v", it)
			}
		}, func() {
			k := key(1000 + rand.IntN(30))
			if b.Attempt(k, at(0)); rand.IntN(2) == 0 {
				b.Unlock(k)
			}
		})
		for i := range 60 {
			if want := min(1, i%3); seen[key(i)] != want {
				t.Errorf("%d places: key %d was seen %d times, want %d", places, i, seen[key(i)], want)
			}
		}
		if seen[home6] != 1 || seen[key(99)] != 1 {
			t.Errorf("%d places: %d times ::1, %d times what is pending", places, seen[home6], seen[key(99)])
		}
	}
	walk(b, 9, 1000, func(it Item[note]) { // the reservation of 99 has failed, all else is forgotten
		if it.Key != key(99) {
			t.Errorf("%v is forgotten and seen", it.Key)
		}
	}, func() {})
	if n, next, _, _ := b.Page(1<<31, make([]Item[note], 4), at(1000)); n != 0 || next != 0 {
		t.Error("there is something past the end")
	}
	check(t, b)
}

// What is put and held is as it was in the table that it comes from.
func TestStage(t *testing.T) {
	for trial := range 300 {
		random := rand.New(rand.NewPCG(uint64(trial), 1))
		config := Config{Capacity: 1 + random.IntN(9), InFlight: 1 + random.IntN(9), Lease: 50}
		b := New(&keep{ttl: 70}, config)
		now := int64(0)
		event := func(b *Table[note], random *rand.Rand) (string, Answer) {
			k := key(random.IntN(12))
			switch random.IntN(6) {
			case 0:
				k = home4
			case 1:
				now += int64(random.IntN(20))
			case 2:
				a, _ := b.Reserve(k, Event(random.IntN(2))*Tagged, at(now))
				return "Reserve", a
			case 3:
				return "Check", b.Check(k, at(now))
			}
			return "Attempt", b.Attempt(k, at(now))
		}
		for range 60 {
			event(b, random)
		}
		c := copied(b, now)
		check(t, c)
		seed, then := random.Uint64(), now
		script := func(b *Table[note]) (said []any) {
			now = then
			random := rand.New(rand.NewPCG(seed, 2))
			for range 60 {
				name, a := event(b, random)
				_, _, pending := b.Stats() // forgotten ones may be reclaimed already
				said = append(said, name, a, pending)
			}
			return said
		}
		if was, is := script(b), script(c); !slices.Equal(was, is) {
			t.Fatalf("trial %d\nwas %v\n is %v", trial, was, is)
		}
		check(t, c)
	}
}

// copied returns a table with the contents of b, taken by pages.
func copied(b *Table[note], now int64) *Table[note] {
	var held []Held
	some := make([]Held, 3)
	for from, n := uint32(0), 0; ; {
		n, from = b.Pending(from, some, at(now))
		if held = append(held, some[:n]...); from == 0 {
			break
		}
	}
	c := New(b.policy, Config{Capacity: capacity(b), InFlight: b.InFlight(), Lease: 50})
	staged := c.Stage(b.policy, b.base, b.now)
	walk(b, 2, now, func(it Item[note]) {
		if it.State != (note{}) && !staged.Put(it.Key, it.Overflow, &it.State) {
			panic("no room")
		}
	}, func() {})
	slices.SortStableFunc(held, func(a, b Held) int { return cmp.Compare(a.End, b.End) })
	for _, h := range held {
		staged.Hold(h)
	}
	c.Replace(staged)
	return c
}

// There is no room for more than Capacity; what is pending then goes to overflow. A full
// pool fails the rest.
func TestStageRoom(t *testing.T) {
	c := New(&keep{ttl: 70}, Config{Capacity: 2, InFlight: 2, Lease: 50})
	s := c.Stage(c.policy, start, 5)
	put := func(k Key, over bool, forget int64) bool {
		n := noteUntil(forget)
		return s.Put(k, over, &n)
	}
	for i, want := range []bool{true, true, false} {
		if got := put(key(i), false, 20); got != want {
			t.Errorf("key %d: %t", i, got)
		}
	}
	if !put(key(0), false, 30) || !put(home4, false, 30) || !put(Key{}, true, 30) || !put(key(3), false, 5) {
		t.Error("no room for what has its place, or needs none")
	}
	s.Hold(Held{Key: key(7), End: 40})
	s.Hold(Held{Key: home6, End: 40})
	s.Hold(Held{Key: key(1), End: 45}) // one too many: failed at 5, known until 75
	check(t, s)
	c.Replace(s)
	found := map[Key]Item[note]{}
	walk(c, 5, 5, func(it Item[note]) {
		if it.Overflow {
			it.Key = Key{Kind: 99}
		}
		found[it.Key] = it
	}, func() {})
	for k, want := range map[Key]Item[note]{
		key(0): {State: noteUntil(30)}, key(1): {State: noteUntil(75)}, home4: {State: noteUntil(30)},
		{Kind: 99}: {State: noteUntil(30), Pending: 1, Overflow: true}, home6: {Pending: 1},
	} {
		if want.Key = k; found[k] != want {
			t.Errorf("%+v, want %+v", found[k], want)
		}
	}
	if len(found) != 5 {
		t.Errorf("%v", found)
	}
	check(t, c)
}
