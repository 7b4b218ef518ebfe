package table

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// A note is the simplest state: when it is forgotten, as two words of alignment 4.
type note [2]uint32

func noteUntil(at int64) note   { return note{uint32(at), uint32(at >> 32)} }
func (n note) forgotten() int64 { return int64(n[0]) | int64(n[1])<<32 }

// keep remembers a failure for a while that the test sets; success forgets it. Up to
// three may be pending.
type keep struct{ ttl int64 }

// The events of keep.
const (
	succeeded = Failed + 1 + iota
	malformed
	void
)

func (p *keep) Judge(_ *note, n Pending, _ int64) Answer {
	if n.Own >= 3 {
		return Answer{Verdict: Busy}
	}
	return Answer{Verdict: Allowed}
}

func (p *keep) Step(s *note, e Event, _, now int64) int64 {
	switch e &^ Tagged {
	case succeeded:
		*s = note{}
	case void, Reserved:
		if s.forgotten() <= now {
			*s = note{}
		}
	default:
		*s = noteUntil(Add(now, p.ttl))
	}
	return s.forgotten()
}

func (p *keep) Forget(s *note) int64 { return s.forgotten() }

var start = time.Unix(1_000_000_000, 0)

func at(ns int64) time.Time { return start.Add(time.Duration(ns)) }

func key(i int) Key { return Key{Hi: uint64(i) + 1} }

var home4, home6 = Key{Kind: Loopback, Width: Loopback4}, Key{Kind: Loopback, Width: Loopback6}

func hashOf(b *Table[note], k Key) uint64 { return b.seed.hash(k) }

// check fails the test unless everything in the table fits together.
func check(t *testing.T, b *Table[note]) {
	t.Helper()
	checkIndex(t, b)
	checkOrder(t, b)
	checkPool(t, b)
}

// used returns the entries that the index knows.
func used(b *Table[note]) map[uint32]bool {
	found := map[uint32]bool{}
	for _, slot := range b.index.slots {
		if slot != 0 {
			found[uint32(slot)] = true
		}
	}
	return found
}

// checkIndex: each entry in use has one slot and is found by its key; all others that were
// ever used are free and empty.
func checkIndex(t *testing.T, b *Table[note]) {
	t.Helper()
	full := 0
	for _, slot := range b.index.slots {
		if slot == 0 {
			continue
		}
		full++
		i := uint32(slot)
		if i < firstOwn || i >= b.unused {
			t.Fatalf("entry %d is in the index, and never was in use", i)
		}
		k := b.entries[i].key()
		if found := b.lookup(k, b.seed.hash(k)); found != i {
			t.Fatalf("the key of entry %d has entry %d", i, found)
		}
	}
	inUse := used(b)
	free := 0
	for i := b.free; i != 0; i = b.entries[i].link {
		if inUse[i] || b.entries[i] != (entry[note]{link: b.entries[i].link}) {
			t.Fatalf("entry %d is free and in use", i)
		}
		free++
	}
	if full != len(inUse) || full != b.own || b.own+free != int(b.unused)-firstOwn || b.own > capacity(b) {
		t.Fatalf("%d slots are full with %d entries, %d are free, %d counted as own of %d used", full, len(inUse), free, b.own, b.unused-firstOwn)
	}
}

func capacity(b *Table[note]) int { return len(b.entries) - firstOwn }

// checkOrder: nodes hold the earliest time below them, and whose it is. There is one root.
func checkOrder(t *testing.T, b *Table[note]) {
	t.Helper()
	o, inUse := &b.order, used(b)
	below := make([]int64, b.unused)
	for i := range below {
		below[i] = Never
		if e := &b.entries[i]; inUse[uint32(i)] && e.pending == 0 {
			below[i] = b.policy.Forget(&e.state)
		}
	}
	for l := range o.root + 1 {
		if len(o.at[l]) != (len(below)-1)/fan+1 || len(o.least[l]) != len(o.at[l]) {
			t.Fatalf("%d nodes of level %d are above %d", len(o.at[l]), l, len(below))
		}
		for node, at := range o.at[l] {
			children, least := below[node*fan:min(node*fan+fan, len(below))], o.least[l][node]
			if at != slices.Min(children) || at != Never && children[least] != at {
				t.Fatalf("node %d of level %d has %d of %d, below are %d", node, l, at, least, children)
			}
		}
		below = o.at[l]
	}
	if len(below) != 1 || o.first() != below[0] {
		t.Fatalf("%d roots", len(below))
	}
}

// checkPool: each pending reservation is in the ring of its entry and in the order of
// all, which is by the end of the lease; the other slots are free.
func checkPool(t *testing.T, b *Table[note]) {
	t.Helper()
	p := &b.pool
	inRing := map[uint32]bool{}
	inUse := used(b)
	for i := range b.unused {
		e := b.entries[i]
		for r, n := e.link, uint16(0); n < e.pending; r, n = p.slots[r].next, n+1 {
			if inRing[r] || p.slots[r].entry() != i || p.slots[p.slots[r].next].prev != r {
				t.Fatalf("reservation %d is in the ring of entry %d, but belongs to %d", r, i, p.slots[r].entry())
			}
			inRing[r] = true
			if n == e.pending-1 && p.slots[r].next != e.link {
				t.Fatalf("the ring of entry %d is longer than %d", i, e.pending)
			}
		}
		if e.pending > 0 && i >= firstOwn && !inUse[i] {
			t.Fatalf("entry %d is free and has %d pending", i, e.pending)
		}
	}
	all, before := 0, uint32(0)
	for r := p.oldest; r != 0; before, r = r, p.slots[r].newer {
		if !inRing[r] || p.slots[r].older != before || p.slots[r].end < p.slots[before].end {
			t.Fatalf("reservation %d is out of order", r)
		}
		all++
	}
	free := 0
	for r := p.free; r != 0; r = p.slots[r].next {
		if inRing[r] || p.slots[r].end >= 0 {
			t.Fatalf("reservation %d is free and pending", r)
		}
		free++
	}
	if p.newest != before || all != len(inRing) || all != p.n || all+free != int(p.unused)-1 {
		t.Fatalf("%d reservations in rings, %d in order, %d free of %d", len(inRing), all, free, p.unused-1)
	}
}

// After every random operation at every capacity from 1 to 64 everything fits together,
// and a new key gets an entry of its own if and only if fewer than capacity are live
// (T1 to T5, T10).
func TestExactAtEveryCapacity(t *testing.T) {
	for capacity := 1; capacity <= 64; capacity++ {
		random := rand.New(rand.NewPCG(uint64(capacity), 7))
		p := &keep{}
		x := &exact{
			t: t, p: p, live: map[Key]int64{}, pending: map[Key]int{},
			b: New(p, Config{Capacity: capacity, InFlight: 1 + capacity/2, Lease: 40}),
		}
		for range 600 {
			x.now += []int64{0, 0, 0, 1, 7, 40}[random.IntN(6)]
			p.ttl = 1 + random.Int64N(100)
			k := key(random.IntN(capacity + 3))
			if random.IntN(10) == 0 {
				k = []Key{home4, home6, {}}[random.IntN(3)]
			}
			x.step(random, k)
			check(t, x.b)
		}
	}
}

// exact keeps beside the table which keys are live: those whose forget time lies ahead,
// and those with reservations, which this test settles before their leases end.
type exact struct {
	t       *testing.T
	b       *Table[note]
	p       *keep
	now     int64
	live    map[Key]int64
	pending map[Key]int
	held    []heldTicket
}

type heldTicket struct {
	k      Key
	ticket Ticket
	own    bool
	end    int64
}

func (x *exact) step(random *rand.Rand, k Key) {
	for len(x.held) > 0 && (x.held[0].end <= x.now || random.IntN(6) == 0) {
		x.settle(Event(random.IntN(4)))
	}
	for k, forget := range x.live {
		if forget <= x.now && x.pending[k] == 0 {
			delete(x.live, k)
		}
	}
	switch n := random.IntN(10); {
	case n < 5:
		d := x.b.Attempt(k, at(x.now))
		x.compare(k, d)
		if d.Verdict == Allowed && !d.Overflow {
			x.live[k] = x.now + x.p.ttl
		}
	case n < 8:
		over := x.overflows(k)
		d, ticket := x.b.Reserve(k, 0, at(x.now))
		if d.Verdict == Allowed {
			x.compare(k, d)
			x.held = append(x.held, heldTicket{k, ticket, !over, x.now + 40})
		}
		if d.Verdict == Allowed && !over {
			x.live[k] = max(x.live[k], x.now)
			x.pending[k]++
		}
	case n < 9:
		x.compare(k, x.b.Check(k, at(x.now)))
	case random.IntN(8) == 0:
		x.b.Unlock(k)
		delete(x.live, k)
		delete(x.pending, k)
		x.held = slices.DeleteFunc(x.held, func(h heldTicket) bool { return h.own && h.k == k })
	}
	if n := x.b.Tracked(); n < len(x.live) || n > capacity(x.b)+2 {
		x.t.Fatalf("%d tracked, %d live", n, len(x.live))
	}
}

// settle ends the oldest reservation, a nanosecond before its lease would have.
func (x *exact) settle(e Event) {
	h := x.held[0]
	x.held = x.held[1:]
	when := min(x.now, h.end-1)
	x.b.Settle(h.k, h.ticket, e, e, at(x.now))
	if when != x.now { // its lease has ended, and it failed then
		e, when = Failed, h.end
	}
	if !h.own {
		return
	}
	x.pending[h.k]--
	switch e &^ Tagged {
	case succeeded:
		x.live[h.k] = 0
	case Failed, malformed:
		x.live[h.k] = when + x.p.ttl
	}
}

func (x *exact) overflows(k Key) bool {
	n := len(x.live)
	for _, home := range []Key{home4, home6} {
		if _, ok := x.live[home]; ok {
			n--
		}
	}
	_, own := x.live[k]
	return !own && k != home4 && k != home6 && n >= capacity(x.b)
}

func (x *exact) compare(k Key, d Answer) {
	if want := x.overflows(k); d.Overflow != want {
		x.t.Fatalf("%v: overflow is %v with %d live of %d", k, d.Overflow, len(x.live), capacity(x.b))
	}
}

// T7: whatever the table holds, an operation changes at most 2 log2(n) + 2 nodes of the
// order, those that are made for the first time not counted.
func TestMovesPerOperation(t *testing.T) {
	for _, capacity := range []int{1, 5, 64, 300, 2000} {
		most := 2*int(math.Ceil(math.Log2(float64(capacity)))) + 2
		p := &keep{ttl: 1000}
		b := New(p, Config{Capacity: capacity, InFlight: 2, Lease: 10})
		random := rand.New(rand.NewPCG(1, uint64(capacity)))
		moves := func(what string, operation func()) {
			t.Helper()
			before := nodes(b)
			operation()
			if capacity < 300 {
				check(t, b)
			}
			if n := changed(before, nodes(b)); n > most {
				t.Fatalf("%s at capacity %d changed %d nodes, want at most %d", what, capacity, n, most)
			}
		}
		now := int64(0)
		for i := range capacity {
			moves("filling", func() { b.Attempt(key(i), at(now)) })
		}
		for i := range 2 * capacity {
			moves("a flood of a full table", func() { b.Attempt(key(i), at(now)) })
		}
		now += 1000 // all of them are forgotten together
		for i := range 3 * capacity {
			moves("a flood after all is forgotten", func() { b.Attempt(key(10_000+i), at(now)) })
		}
		for range 2 * capacity {
			p.ttl = 1 + random.Int64N(1000)
			now += random.Int64N(3)
			k := key(10_000 + random.IntN(2*capacity))
			moves("anything", func() { b.Attempt(k, at(now)) })
			moves("a reservation", func() {
				_, ticket := b.Reserve(k, 0, at(now))
				e := Event(random.IntN(4))
				b.Settle(k, ticket, e, e, at(now))
			})
		}
		for i := range capacity {
			p.ttl = 1_000_000 - int64(i) // each goes from the end to the front
			moves("the latest first", func() { b.Attempt(key(20_000+i), at(now+5000)) })
		}
		for i := range capacity {
			moves("unlocking", func() { b.Unlock(key(20_000 + i)) })
		}
		check(t, b)
	}
}

func nodes(b *Table[note]) []int64 { return slices.Concat(b.order.at[:b.order.root+1]...) }

func changed(before, after []int64) (n int) {
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// T7: sizes in memory. 28 bytes are the largest state of the policies.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(entry[[3]int64]{}); n != 48 {
		t.Errorf("an entry with a state of 24 bytes takes %d, want 48", n)
	}
	if n := unsafe.Sizeof(entry[[7]uint32]{}); n != 52 {
		t.Errorf("an entry with a state of 28 bytes takes %d, want 52", n)
	}
	if n := unsafe.Sizeof(reservation{}); n != 32 {
		t.Errorf("a reservation takes %d, want 32", n)
	}
	if n := len(New(&keep{}, Config{Capacity: 10, InFlight: 7}).pool.slots); n != 8 {
		t.Errorf("%d slots for 7 reservations and none", n)
	}
	const million = 1_000_000
	b := New(&keep{}, Config{Capacity: million, InFlight: 1})
	size := len(b.entries)*52 + cap(b.index.slots)*8
	for l := range b.order.at {
		size += cap(b.order.at[l])*8 + cap(b.order.least[l])
	}
	if size > 64*million {
		t.Errorf("%d bytes for a million keys, want 64 each", size)
	}
}

// T8: keys that differ in little are looked for as if they were random.
func TestHashSpreads(t *testing.T) {
	const n = 100_000
	for what, key := range map[string]func(i int) Key{
		"the low bits":  func(i int) Key { return Key{Lo: uint64(i), Kind: 4, Width: 32} },
		"the high bits": func(i int) Key { return Key{Hi: uint64(i) << 40, Kind: 5, Width: 64} },
		"the width":     func(i int) Key { return Key{Hi: uint64(i&^31) << 40, Kind: 5, Width: uint8(i & 31)} },
		"the kind":      func(i int) Key { return Key{Lo: uint64(i &^ 15), Kind: uint8(i & 15)} },
	} {
		x, s := newIndex(n), newSeed()
		for i := range n {
			x.add(s.hash(key(i)), uint32(i)+firstOwn)
		}
		far := 0
		for pos, slot := range x.slots {
			if slot != 0 {
				far += x.between(x.home(slot), pos)
			}
		}
		// Random ones are 1.5 slots from home when three quarters are full.
		if far > 2*n {
			t.Errorf("keys that differ in %s are %.1f slots from home", what, float64(far)/n)
		}
	}
}

// T8: two tables put the same keys into different buckets.
func TestSeeded(t *testing.T) {
	a, b := New(&keep{}, Config{Capacity: 1000, InFlight: 1}), New(&keep{}, Config{Capacity: 1000, InFlight: 1})
	same := 0
	for i := range 1000 {
		if a.index.home(hashOf(a, key(i))) == b.index.home(hashOf(b, key(i))) {
			same++
		}
	}
	if same > 50 {
		t.Errorf("%d of 1000 keys share their bucket", same)
	}
}

// T7: leases that ended cost their number and no more, and leave nothing pending.
func TestAllLeasesEnd(t *testing.T) {
	b := New(&keep{ttl: 100}, Config{Capacity: 50, InFlight: 120, Lease: 10})
	for i := range 120 {
		b.Reserve(key(i%60), 0, at(int64(i%2)))
	}
	check(t, b)
	b.Check(key(0), at(11))
	check(t, b)
	if b.pool.oldest != 0 || b.pool.full() {
		t.Error("something is pending still")
	}
}

// A policy that forgets in the opposite order puts every entry elsewhere.
func TestReloadReorders(t *testing.T) {
	p := &keep{}
	b := New(p, Config{Capacity: 100, InFlight: 10, Lease: 10})
	for i := range 100 {
		p.ttl = int64(100 + i)
		b.Attempt(key(i), at(0))
	}
	b.Reserve(key(3), 0, at(0))
	b.Reload(&reversed{keep{ttl: 1000}}, 5)
	check(t, b)
	if first := b.entries[b.order.firstEntry()].key(); first != key(99) {
		t.Errorf("%v is forgotten first", first)
	}
	b.Reserve(key(4), 0, at(1)) // a shorter lease, which may not end before the longer one
	check(t, b)
	b.Check(key(0), at(20))
	check(t, b)
}

type reversed struct{ keep }

func (p *reversed) Step(s *note, e Event, began, now int64) int64 {
	p.keep.Step(s, e, began, now)
	return p.Forget(s)
}

func (*reversed) Forget(s *note) int64 {
	if *s == (note{}) {
		return 0
	}
	return 10_000 - s.forgotten()
}

// L7: a ticket names one reservation for ever, and only where it was issued.
func TestTickets(t *testing.T) {
	b, other := New(&keep{ttl: 9}, Config{Capacity: 4, InFlight: 2, Lease: 10}), New(&keep{ttl: 9}, Config{Capacity: 4, InFlight: 2, Lease: 10})
	seen := map[Ticket]bool{{}: true}
	for i := range 120 {
		_, ticket := b.Reserve(key(i%3), 0, at(0))
		if seen[ticket] {
			t.Fatalf("ticket %v was there before", ticket)
		}
		seen[ticket] = true
		other.Reserve(key(i%3), 0, at(0))
		for s := range seen {
			if r := other.pool.find(s, hashOf(other, key(i%3))); r != 0 {
				t.Fatalf("ticket %v is good for another table", s)
			}
			if s != ticket && b.pool.find(s, hashOf(b, key(i%3))) != 0 {
				t.Fatalf("ticket %v came back as %v", s, ticket)
			}
		}
		switch i % 4 {
		case 0:
			b.Clear()
			other.Clear()
		case 1:
			b.Unlock(key(i % 3))
			other.Unlock(key(i % 3))
		default:
			b.Settle(key(i%3), ticket, void, void, at(0))
			other.Clear()
		}
		check(t, b)
	}
}
