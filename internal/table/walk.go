package table

import (
	"math"
	"time"
)

// Stats counts what a table did since it was made.
type Stats struct {
	Charged   uint64 // attempts charged to overflow
	Refused   uint64 // refusals that overflow gave
	Reclaimed uint64 // forgotten entries that made room for a new key
	PoolFull  uint64 // refusals because of a full pool
}

// Stats returns what was counted, how many keys are tracked, and how many reservations
// are pending.
func (t *Table[S]) Stats() (s Stats, tracked, pending int) {
	t.lock()
	defer t.mu.Unlock()
	return t.stats, t.tracked(), t.pool.n
}

// An Item is a key and what is known of it.
type Item[S any] struct {
	Key      Key
	State    S // zero if nothing is remembered
	Overflow bool
	Pending  int
}

// Look returns what is known of k, if it has a live entry of its own, and what Check
// would answer, at the time at on the table's clock. It charges and counts nothing.
func (t *Table[S]) Look(k Key, now time.Time) (it Item[S], known bool, a Answer, p Policy[S], at int64) {
	hash := t.seed.hash(k)
	t.lock()
	defer t.mu.Unlock()
	at = t.tick(now)
	a = t.peek(k, hash, at)
	if i := t.lookup(k, hash); i != vacant {
		known = t.item(i, at, &it)
	}
	return it, known, a, t.policy, at
}

// Peek answers as Check and does not count the answer.
func (t *Table[S]) Peek(k Key, now time.Time) Answer {
	hash := t.seed.hash(k)
	t.lock()
	defer t.mu.Unlock()
	return t.peek(k, hash, t.tick(now))
}

func (t *Table[S]) peek(k Key, hash uint64, at int64) Answer {
	refused := t.stats.Refused
	a := t.judge(t.find(k, hash, at), at)
	t.stats.Refused = refused
	return a
}

// Tick moves the clock to now, unless it is later already, and applies the leases that
// ended. It returns now on the table's clock, which may be later by then.
func (t *Table[S]) Tick(now time.Time) int64 {
	t.lock()
	defer t.mu.Unlock()
	t.tick(now)
	return t.Since(now)
}

// Page fills items with the live entries in the next len(items) places from a place on,
// overflow and reserved keys first. It returns how many there are and the place to go on
// from, 0 at the end. A key whose entry exists from the first page to the last is seen
// exactly once; one that was forgotten and came back may be seen twice, the later state
// last, or not at all. Clear and Replace begin anew.
func (t *Table[S]) Page(from uint32, items []Item[S], now time.Time) (n int, next uint32, p Policy[S], at int64) {
	t.lock()
	defer t.mu.Unlock()
	at = t.tick(now)
	to := uint32(min(uint64(from)+uint64(len(items)), uint64(t.unused)))
	for i := from; i < to; i++ {
		if t.item(i, at, &items[n]) {
			n++
		}
	}
	if next = to; to <= from || to == t.unused {
		next = 0
	}
	return n, next, t.policy, at
}

// item fills in entry i and reports whether it is live.
func (t *Table[S]) item(i uint32, at int64, it *Item[S]) bool {
	e := &t.entries[i]
	*it = Item[S]{Key: e.key(), State: t.state(i, at), Overflow: i == overflow, Pending: int(e.pending)}
	return e.pending > 0 || t.policy.Forget(&e.state) > at
}

// Held is a reservation in flight.
type Held struct {
	Key      Key
	Overflow bool // charged to overflow
	Tagged   bool
	End      int64 // of its lease
}

// Pending fills held with the reservations in the next len(held) slots from a slot on, as
// Page does with entries.
func (t *Table[S]) Pending(from uint32, held []Held, now time.Time) (n int, next uint32) {
	t.lock()
	defer t.mu.Unlock()
	t.tick(now)
	to := uint32(min(uint64(from)+uint64(len(held)), uint64(t.pool.unused)))
	for r := max(from, 1); r < to; r++ {
		s := &t.pool.slots[r]
		if s.end < 0 {
			continue
		}
		i := s.entry()
		held[n] = Held{Key: t.entries[i].key(), Overflow: i == overflow, Tagged: s.tag() != 0, End: s.end}
		n++
	}
	if next = to; to <= from || to == t.pool.unused {
		next = 0
	}
	return n, next
}

// Lease and InFlight return how the table was configured.
func (t *Table[S]) Lease() int64 {
	t.lock()
	defer t.mu.Unlock()
	return t.lease
}

func (t *Table[S]) InFlight() int { return len(t.pool.slots) - 1 }

// View calls f with the policy under the lock.
func (t *Table[S]) View(f func(Policy[S])) {
	t.lock()
	defer t.mu.Unlock()
	f(t.policy)
}

// Stage returns an empty table under policy p, of the same size as t and for the same
// keys, to be filled and to take t's place by Replace. Its clock began at base, and shows
// at until it is given a later now. It is for one goroutine.
func (t *Table[S]) Stage(p Policy[S], base time.Time, at int64) *Table[S] {
	t.lock()
	defer t.mu.Unlock()
	return &Table[S]{
		policy: p, lease: t.lease, seed: t.seed, started: true, base: base, now: at,
		index: newIndex(len(t.entries) - firstOwn), entries: make([]entry[S], len(t.entries)), unused: firstOwn,
		order: newOrder(len(t.entries)), pool: newPool(len(t.pool.slots) - 1),
	}
}

// Put gives k, or overflow, the state s instead of what it had. It reports false if k
// finds no room for an entry of its own. All states come before all reservations.
func (t *Table[S]) Put(k Key, over bool, s *S) bool {
	hash := t.seed.hash(k)
	forget := t.policy.Forget(s)
	if forget <= t.now {
		return true
	}
	i := t.seat(k, hash, over)
	if i == overflow && !over {
		return false
	}
	i = t.claim(i, k, hash)
	t.entries[i].state = *s
	t.put(i, forget, t.now)
	return true
}

// Advance moves the clock to at, unless it is later already.
func (t *Table[S]) Advance(at int64) { t.now = max(t.now, at) }

// Hold adds a reservation that no ticket names: it becomes a failure when its lease ends,
// now if there is no room for it. They must come in the order of their ends. A key without
// room for an entry is charged to overflow.
func (t *Table[S]) Hold(h Held) {
	hash := t.seed.hash(h.Key)
	i := t.claim(t.seat(h.Key, hash, h.Overflow), h.Key, hash)
	e := &t.entries[i]
	var tag Event
	if h.Tagged {
		tag = Tagged
	}
	if t.pool.full() || e.pending == math.MaxUint16 {
		t.step(i, Failed|tag, h.End-t.lease, t.now)
		return
	}
	r := t.pool.add(i, tag, h.End)
	e.link = t.pool.join(e.link, r, e.pending == 0)
	if e.pending++; e.pending == 1 && i >= firstOwn {
		t.reorder(i, Never)
	}
}

// seat is find for what is put back.
func (t *Table[S]) seat(k Key, hash uint64, over bool) uint32 {
	if over {
		return overflow
	}
	return t.find(k, hash, t.now)
}

// Replace makes t what o is, policy included, but for what Stats counted. Tickets of before
// change nothing from then on. o must not be used any more, and t by nobody else meanwhile.
func (t *Table[S]) Replace(o *Table[S]) {
	t.lock()
	defer t.mu.Unlock()
	t.policy, t.lease, t.base, t.started, t.now = o.policy, o.lease, o.base, o.started, o.now
	t.index, t.entries, t.unused, t.free, t.order, t.own = o.index, o.entries, o.unused, o.free, o.order, o.own
	t.pool = o.pool
}
