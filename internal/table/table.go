// Package table holds the bounded table that every policy keeps its entries in. It
// promises three things: a live entry is never evicted, reset or shortened by what
// other keys do; a new key gets an entry of its own if and only if fewer than
// Capacity entries are live; and no operation scans, pauses or allocates.
//
// It gives up telling keys apart once Capacity of them are live: from then on new
// keys share one overflow entry until an entry is forgotten. It knows nothing of
// policies: a Policy says when an attempt is allowed, what an outcome does to a
// state, and when a state means nothing any more.
//
// Everything is allocated by New. Tables hold no goroutine, and nothing here reads
// a clock.
package table

import (
	"math"
	"sync"
	"time"
)

// Config sizes a Table. All fields are required.
type Config struct {
	Capacity int           // keys with an entry of their own, at most MaxCapacity
	InFlight int           // reservations pending at once, at most MaxCapacity
	Lease    time.Duration // how long a reservation may stay unsettled
}

// MaxCapacity bounds Capacity and InFlight: entries are numbered in 32 bits.
const MaxCapacity = 1 << 30

// Table maps keys to states of a policy. It is safe for concurrent use.
type Table[S any] struct {
	mu     sync.Mutex
	policy Policy[S]
	lease  int64

	started bool
	base    time.Time // the first now that the table was given
	now     int64     // the latest now, in nanoseconds since base

	seed    seed
	index   index // of entries that are not of reserved keys
	entries []entry[S]
	unused  uint32 // first entry that was never used
	free    uint32 // first of the entries given back, linked by link; 0 is none
	order   order  // of entries that are not of reserved keys and have nothing pending
	own     int    // entries in use, those of reserved keys not counted
	pool    pool
	stats   Stats
	blank   S // what is known of a key without an entry
	scratch S // what Try and Update hand to their f; a variable of theirs would be allocated
}

// An entry is 24 bytes and the state. Its key is kept in halves of words, so that it needs
// no more alignment than the state does. One that is in use and has nothing pending
// remembers something, one that is free nothing: Forget of its state tells them apart.
type entry[S any] struct {
	hi, lo  [2]uint32
	kind    uint8
	width   uint8
	pending uint16 // reservations in flight
	link    uint32 // the first of them, or the next free entry
	state   S
}

func (e *entry[S]) is(k Key) bool { return e.key() == k }

func (e *entry[S]) key() Key { return Key{join(e.hi), join(e.lo), e.kind, e.width} }

func (e *entry[S]) name(k Key) {
	e.hi, e.lo, e.kind, e.width = halves(k.Hi), halves(k.Lo), k.Kind, k.Width
}

func halves(x uint64) [2]uint32 { return [2]uint32{uint32(x), uint32(x >> 32)} }

func join(h [2]uint32) uint64 { return uint64(h[0]) | uint64(h[1])<<32 }

// Entries with a fixed place. They are in neither index nor order.
const (
	overflow  = iota
	Loopback4 // 127.0.0.1
	Loopback6 // ::1
	firstOwn
)

// vacant stands for the entry that a new key will get once it is charged.
const vacant = math.MaxUint32

// New returns an empty table.
func New[S any](p Policy[S], c Config) *Table[S] {
	return &Table[S]{
		policy:  p,
		lease:   int64(c.Lease),
		seed:    newSeed(),
		index:   newIndex(c.Capacity),
		entries: make([]entry[S], firstOwn+c.Capacity),
		unused:  firstOwn,
		order:   newOrder(firstOwn + c.Capacity),
		pool:    newPool(c.InFlight),
	}
}

// Attempt judges an attempt on k and, if it is allowed, charges it in the same step.
func (t *Table[S]) Attempt(k Key, now time.Time) Answer {
	hash := t.seed.hash(k)
	t.lock()
	at := t.tick(now)
	i := t.find(k, hash, at)
	a := t.judge(i, at)
	if a.Verdict == Allowed {
		i = t.claim(i, k, hash)
		t.step(i, Charged, at, at)
	}
	t.mu.Unlock()
	return a
}

// Try answers an attempt on k by f of the policy, the state, what is pending and the
// time. If f allows it, the state is kept as f leaves it.
func (t *Table[S]) Try(k Key, now time.Time, f func(p Policy[S], s *S, n Pending, at int64) Answer) Answer {
	hash := t.seed.hash(k)
	t.lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	i := t.find(k, hash, at)
	t.scratch = t.state(i, at)
	a := t.finish(i, f(t.policy, &t.scratch, t.pendingOf(i), at), at)
	if a.Verdict == Allowed {
		t.keep(t.claim(i, k, hash), at)
	}
	return a
}

// Check answers as Attempt would and charges nothing.
func (t *Table[S]) Check(k Key, now time.Time) Answer {
	hash := t.seed.hash(k)
	t.lock()
	at := t.tick(now)
	a := t.judge(t.find(k, hash, at), at)
	t.mu.Unlock()
	return a
}

// Reserve judges an attempt on k and, if it is allowed, keeps it pending until
// Settle or the end of its lease, when it becomes a failure. The policy is reminded
// of a tag, which is 0 or Tagged, when it ends.
func (t *Table[S]) Reserve(k Key, tag Event, now time.Time) (Answer, Ticket) {
	hash := t.seed.hash(k)
	t.lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	i := t.find(k, hash, at)
	a := t.judge(i, at)
	switch {
	case a.Verdict != Allowed:
		return a, Ticket{}
	case t.pool.full():
		t.stats.PoolFull++
		return Answer{Verdict: Busy, Wait: t.busy(t.pool.oldest, at)}, Ticket{}
	case t.pendingOf(i).Own == math.MaxUint16:
		return t.finish(i, Answer{Verdict: Busy}, at), Ticket{}
	}
	i = t.claim(i, k, hash)
	e := &t.entries[i]
	t.policy.Step(&e.state, Reserved, at, at)
	// Leases end in the order they began, also when a reload made them shorter.
	end := max(Add(at, t.lease), t.pool.lastEnd())
	r := t.pool.add(i, tag, end)
	e.link = t.pool.join(e.link, r, e.pending == 0)
	if e.pending++; e.pending == 1 && i >= firstOwn {
		t.reorder(i, Never)
	}
	return a, t.pool.ticket(r, hash)
}

// Settle ends the reservation that ticket names as e, or as shared if it was charged
// to overflow. It returns the state just before, the time on the table's clock, and
// the policy that was applied if the reservation was k's own, else nil. A ticket that
// names no reservation of k changes nothing.
func (t *Table[S]) Settle(k Key, ticket Ticket, e, shared Event, now time.Time) (before S, at int64, p Policy[S]) {
	hash := t.seed.hash(k)
	t.lock()
	defer t.mu.Unlock()
	at = t.tick(now)
	r := t.pool.find(ticket, hash)
	if r == 0 {
		return before, at, nil
	}
	switch i := t.pool.slots[r].entry(); {
	case i == overflow:
		t.end(r, shared, at)
	case t.entries[i].is(k):
		before, p = t.state(i, at), t.policy
		t.end(r, e, at)
	}
	return before, at, p
}

// Update changes the state of k by f of the policy, the state and the time on the
// table's clock. A key without an entry of its own is left alone.
func (t *Table[S]) Update(k Key, now time.Time, f func(p Policy[S], s *S, at int64)) {
	hash := t.seed.hash(k)
	t.lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	if i := t.lookup(k, hash); i != vacant {
		t.scratch = t.state(i, at)
		f(t.policy, &t.scratch, at)
		t.keep(i, at)
	}
}

// Unlock forgets k. Tickets of its reservations change nothing from then on.
func (t *Table[S]) Unlock(k Key) {
	hash := t.seed.hash(k)
	t.lock()
	defer t.mu.Unlock()
	i := t.lookup(k, hash)
	if i == vacant {
		return
	}
	for e := &t.entries[i]; e.pending > 0; {
		t.release(e.link)
	}
	t.remove(i)
}

// Clear forgets every key, the overflow entry and all reservations.
func (t *Table[S]) Clear() {
	t.lock()
	defer t.mu.Unlock()
	t.index.reset()
	clear(t.entries[:t.unused])
	t.unused, t.free, t.own = firstOwn, 0, 0
	t.order.reset()
	t.pool.reset()
	if r, ok := t.policy.(Resetter); ok {
		r.Reset()
	}
}

// Policy returns the policy that applies now.
func (t *Table[S]) Policy() Policy[S] {
	t.lock()
	defer t.mu.Unlock()
	return t.policy
}

// Reload replaces the policy and the lease. Reservations stay, and so do states unless
// the policy is an Adopter.
func (t *Table[S]) Reload(p Policy[S], lease time.Duration) {
	t.lock()
	defer t.mu.Unlock()
	old := t.policy
	t.policy, t.lease = p, int64(lease)
	if a, ok := p.(Adopter[S]); ok {
		for i := range t.unused {
			t.adopt(i, old, a)
		}
	}
	for l := range t.order.at {
		for node := range t.order.at[l] {
			t.contest(l, node)
		}
	}
}

// adopt leaves no entry in use that remembers nothing.
func (t *Table[S]) adopt(i uint32, old Policy[S], a Adopter[S]) {
	e := &t.entries[i]
	used := old.Forget(&e.state) != 0
	e.state = a.Adopt(old, e.state, t.now)
	if used && e.pending == 0 && t.policy.Forget(&e.state) == 0 {
		t.remove(i)
	}
}

// Tracked returns how many keys have an entry, forgotten ones that were not
// reclaimed yet included: at most Capacity + 2.
func (t *Table[S]) Tracked() int {
	t.lock()
	defer t.mu.Unlock()
	return t.tracked()
}

func (t *Table[S]) tracked() int {
	n := t.own
	for _, i := range []uint32{Loopback4, Loopback6} {
		if t.occupied(i) {
			n++
		}
	}
	return n
}

// Time converts a time on the table's clock. It must follow an operation that was
// given a now.
func (t *Table[S]) Time(at int64) time.Time { return t.base.Add(time.Duration(at)) }

// Since converts a time to the table's clock, negative before it began.
func (t *Table[S]) Since(at time.Time) int64 { return int64(at.Sub(t.base)) }

// lock takes the lock. It tries for a while first: the lock is held for less time than
// a goroutine takes to go to sleep and wake up.
func (t *Table[S]) lock() {
	for range spins {
		if t.mu.TryLock() {
			return
		}
	}
	t.mu.Lock()
}

const spins = 200

// tick moves the clock to now, unless it is later already, and applies the leases
// that ended.
func (t *Table[S]) tick(now time.Time) int64 {
	if !t.started {
		t.started, t.base = true, now
	}
	t.now = max(t.now, min(int64(now.Sub(t.base)), Never-1))
	for r := t.pool.oldest; r != 0 && t.pool.slots[r].end <= t.now; r = t.pool.oldest {
		t.end(r, Failed, t.pool.slots[r].end)
	}
	return t.now
}

// end settles reservation r as e at the time at.
func (t *Table[S]) end(r uint32, e Event, at int64) {
	v := &t.pool.slots[r]
	i, began := v.entry(), v.end-t.lease
	e |= v.tag()
	t.release(r)
	t.step(i, e, began, at)
}

// release gives reservation r back to the pool. An entry whose last one it was is
// in order again only after step or put.
func (t *Table[S]) release(r uint32) {
	e := &t.entries[t.pool.slots[r].entry()]
	e.link = t.pool.leave(e.link, r)
	e.pending--
	t.pool.remove(r)
}

// find returns the entry that an attempt of k is charged to: its own, vacant if it
// would get one, or overflow.
func (t *Table[S]) find(k Key, hash uint64, at int64) uint32 {
	i := t.lookup(k, hash)
	if i == vacant && k.Kind != Loopback && t.full() && t.order.first() > at {
		return overflow
	}
	return i
}

// full reports whether as many keys have an entry as may have one, forgotten ones
// included.
func (t *Table[S]) full() bool { return t.own == len(t.entries)-firstOwn }

// lookup returns the entry of k, or vacant.
func (t *Table[S]) lookup(k Key, hash uint64) uint32 {
	if k.Kind == Loopback {
		if t.occupied(uint32(k.Width)) {
			return uint32(k.Width)
		}
		return vacant
	}
	for pos := t.index.home(hash); ; pos = t.index.after(pos) {
		slot := t.index.slots[pos]
		if slot == 0 {
			return vacant
		}
		if i := uint32(slot); slot>>32 == hash>>32 && t.entries[i].is(k) {
			return i
		}
	}
}

// state returns what entry i, which is not vacant or else blank, means at the time at.
func (t *Table[S]) state(i uint32, at int64) (s S) {
	if i != vacant && t.policy.Forget(&t.entries[i].state) > at {
		s = t.entries[i].state
	}
	return s
}

// judge answers an attempt that is charged to entry i.
func (t *Table[S]) judge(i uint32, at int64) Answer {
	s := &t.blank
	if i != vacant {
		s = &t.entries[i].state
	}
	return t.finish(i, t.policy.Judge(s, t.pendingOf(i), at), at)
}

// step lets e happen to entry i.
func (t *Table[S]) step(i uint32, e Event, began, at int64) {
	t.put(i, t.policy.Step(&t.entries[i].state, e, began, at), at)
}

// keep makes scratch the state of entry i.
func (t *Table[S]) keep(i uint32, at int64) {
	t.entries[i].state = t.scratch
	t.put(i, t.policy.Forget(&t.scratch), at)
}

func (t *Table[S]) pendingOf(i uint32) Pending {
	n := Pending{All: t.pool.n}
	if i != vacant {
		n.Own = int(t.entries[i].pending)
	}
	return n
}

// finish fills in what the table knows of an answer for entry i.
func (t *Table[S]) finish(i uint32, a Answer, at int64) Answer {
	if i == overflow {
		a.Overflow = true
		if a.Verdict != Allowed {
			t.stats.Refused++
		}
	}
	if a.Verdict == Busy {
		first := t.pool.oldest // busy with others' keys
		if i != vacant && t.entries[i].pending > 0 {
			first = t.entries[i].link
		}
		a.Wait = t.busy(first, at)
	}
	return a
}

// busy returns how long to wait for others' reservations: a second, or until the
// lease of the first of them, r, has ended.
func (t *Table[S]) busy(r uint32, at int64) int64 {
	return min(int64(time.Second), t.pool.slots[r].end-at)
}

// claim makes i, which find returned, the entry of k.
func (t *Table[S]) claim(i uint32, k Key, hash uint64) uint32 {
	if i != vacant {
		if i == overflow {
			t.stats.Charged++
		}
		return i
	}
	if k.Kind == Loopback {
		t.entries[k.Width].name(k)
		return uint32(k.Width)
	}
	if t.full() {
		t.stats.Reclaimed++
		t.remove(t.order.firstEntry())
	}
	if i = t.free; i != 0 {
		t.free = t.entries[i].link
	} else {
		i = t.unused
		t.unused++
		t.order.extend(i)
	}
	t.own++
	t.entries[i].name(k)
	t.index.add(hash, i)
	return i
}

// put keeps entry i where it belongs now that its state is forgotten at another time: one
// with nothing pending in order, one with nothing to remember nowhere.
func (t *Table[S]) put(i uint32, forget, at int64) {
	switch {
	case t.entries[i].pending > 0:
	case forget <= at:
		t.remove(i)
	case i >= firstOwn:
		t.reorder(i, forget)
	}
}

// remove empties entry i, which has nothing pending.
func (t *Table[S]) remove(i uint32) {
	e := &t.entries[i]
	if i < firstOwn {
		*e = entry[S]{}
		return
	}
	t.index.remove(t.seed.hash(e.key()), i)
	*e = entry[S]{link: t.free}
	t.reorder(i, Never)
	t.free = i
	t.own--
}

// occupied reports whether a reserved key has its entry.
func (t *Table[S]) occupied(i uint32) bool { return t.entries[i].kind != 0 }

// Never is a time that the clock does not reach: sums that are too large end there.
const Never = math.MaxInt64

// Add returns the time d after at, for d >= 0.
func Add(at, d int64) int64 {
	if at > Never-d {
		return Never
	}
	return at + d
}
