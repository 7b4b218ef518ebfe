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
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"
	"unsafe"
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

	seed    maphash.Seed
	buckets []uint32 // first entry of each hash chain, 0 is none
	entries []entry[S]
	unused  uint32 // first entry that was never used
	free    uint32 // first of the entries given back, linked by next; 0 is none
	order   heap   // entries that are not reserved keys and have nothing pending
	own     int    // entries in use, those of reserved keys not counted
	pool    pool
}

// An entry is 28 bytes and the state. Policies keep S free of pointers and of
// fields that need an alignment above 4.
type entry[S any] struct {
	key     [18]byte
	pending uint16 // reservations in flight
	link    uint32 // with some pending the first of them, else the place in order
	next    uint32 // in the hash chain or the free list
	state   S
}

// Entries with a fixed place. They are in no hash chain and not in order.
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
		seed:    maphash.MakeSeed(),
		buckets: make([]uint32, c.Capacity-c.Capacity/8),
		entries: make([]entry[S], firstOwn+c.Capacity),
		unused:  firstOwn,
		order:   newHeap(c.Capacity, unsafe.Sizeof(entry[S]{}) <= smallEntry),
		pool:    newPool(c.InFlight),
	}
}

// Attempt judges an attempt on k and, if it is allowed, charges it as failed, in one
// step.
func (t *Table[S]) Attempt(k Key, now time.Time) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	hash := t.hash(&k.Bytes)
	i, s := t.find(&k, hash, at)
	a := t.judge(i, s, at)
	if a.Allowed {
		t.put(t.claim(i, &k, hash), t.policy.Step(s, Failed, at, at), at)
	}
	return a
}

// Try answers an attempt on k by f of the policy, the state, what is pending and the
// time, and stores the state that f returns if it allows.
func (t *Table[S]) Try(k Key, now time.Time, f func(p Policy[S], s S, n Pending, at int64) (S, Answer)) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	hash := t.hash(&k.Bytes)
	i, s := t.find(&k, hash, at)
	s, a := f(t.policy, s, t.pendingOf(i), at)
	a = t.finish(i, a, at)
	if a.Allowed {
		t.put(t.claim(i, &k, hash), s, at)
	}
	return a
}

// Check answers as Attempt would and charges nothing.
func (t *Table[S]) Check(k Key, now time.Time) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	i, s := t.find(&k, t.hash(&k.Bytes), at)
	return t.judge(i, s, at)
}

// Reserve judges an attempt on k and, if it is allowed, keeps it pending until
// Settle or the end of its lease, when it becomes a failure. The policy is reminded
// of a tag, which is 0 or Tagged, when it ends.
func (t *Table[S]) Reserve(k Key, tag Event, now time.Time) (Answer, Ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	hash := t.hash(&k.Bytes)
	i, s := t.find(&k, hash, at)
	a := t.judge(i, s, at)
	switch {
	case a.Allowed && t.pool.full():
		a = Answer{Busy: true, Wait: t.busy(t.pool.oldest, at)}
	case a.Allowed && t.pendingOf(i).Own == math.MaxUint16:
		a = t.finish(i, Answer{Busy: true}, at)
	}
	if !a.Allowed {
		return a, Ticket{}
	}
	i = t.claim(i, &k, hash)
	e := &t.entries[i]
	if e.pending == 0 {
		t.leaveOrder(i)
	}
	e.state = t.policy.Step(s, Reserved, at, at)
	// Leases end in the order they began, also when a reload made them shorter.
	end := max(Add(at, t.lease), t.pool.lastEnd())
	r := t.pool.add(i, tag, end)
	e.link = t.pool.join(e.link, r, e.pending == 0)
	e.pending++
	return a, t.pool.ticket(r, hash)
}

// Settle ends the reservation that ticket names as e, or as shared if it was charged
// to overflow. It returns the state just before, the time on the table's clock, and
// the policy that was applied if the reservation was k's own, else nil. A ticket that
// names no reservation of k changes nothing.
func (t *Table[S]) Settle(k Key, ticket Ticket, e, shared Event, now time.Time) (before S, at int64, p Policy[S]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = t.tick(now)
	r := t.pool.find(ticket, t.hash(&k.Bytes))
	if r == 0 {
		return before, at, nil
	}
	switch i := t.pool.slots[r].entry(); {
	case i == overflow:
		t.end(r, shared, at)
	case t.entries[i].key == k.Bytes:
		before, p = t.state(i, at), t.policy
		t.end(r, e, at)
	}
	return before, at, p
}

// Update replaces the state of k by f of the policy, the state and the time on the
// table's clock. A key without an entry of its own is left alone.
func (t *Table[S]) Update(k Key, now time.Time, f func(p Policy[S], s S, at int64) S) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.tick(now)
	if i := t.lookup(&k, t.hash(&k.Bytes)); i != vacant {
		t.put(i, f(t.policy, t.state(i, at), at), at)
	}
}

// Unlock forgets k. Tickets of its reservations change nothing from then on.
func (t *Table[S]) Unlock(k Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.lookup(&k, t.hash(&k.Bytes))
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
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.buckets)
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
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.policy
}

// Reload replaces the policy and the lease. Reservations stay, and so do states unless
// the policy is an Adopter.
func (t *Table[S]) Reload(p Policy[S], lease time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, ok := p.(Adopter[S]); ok {
		for i := range t.entries[:t.unused] {
			e := &t.entries[i]
			e.state = a.Adopt(t.policy, e.state, t.now)
		}
	}
	t.policy, t.lease = p, int64(lease)
	for pos, i := range t.order.entry {
		t.place(pos, p.Forget(t.entries[i].state), i)
	}
	for pos := len(t.order.entry) - 1; pos >= 0; pos-- {
		t.siftDown(pos)
	}
}

// Tracked returns how many keys have an entry, forgotten ones that were not
// reclaimed yet included: at most Capacity + 2.
func (t *Table[S]) Tracked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
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
	i := t.pool.slots[r].entry()
	s, began := t.state(i, at), t.pool.slots[r].end-t.lease
	e |= t.pool.slots[r].tag()
	t.release(r)
	t.put(i, t.policy.Step(s, e, began, at), at)
}

// release gives reservation r back to the pool. An entry whose last one it was is
// in order again only after put.
func (t *Table[S]) release(r uint32) {
	e := &t.entries[t.pool.slots[r].entry()]
	e.link = t.pool.leave(e.link, r)
	e.pending--
	t.pool.remove(r)
}

// find returns the entry that an attempt of k is charged to and its state: its own,
// vacant if it would get one, or overflow.
func (t *Table[S]) find(k *Key, hash uint64, at int64) (uint32, S) {
	i := t.lookup(k, hash)
	if i == vacant {
		if k.Reserved != 0 || t.own < t.order.capacity() || t.due(at) {
			var zero S
			return vacant, zero
		}
		i = overflow
	}
	return i, t.state(i, at)
}

// lookup returns the entry of k, or vacant.
func (t *Table[S]) lookup(k *Key, hash uint64) uint32 {
	if k.Reserved != 0 {
		if t.occupied(uint32(k.Reserved)) {
			return uint32(k.Reserved)
		}
		return vacant
	}
	for i := t.buckets[t.bucket(hash)]; i != 0; i = t.entries[i].next {
		if t.entries[i].key == k.Bytes {
			return i
		}
	}
	return vacant
}

// state returns what entry i means at the time at.
func (t *Table[S]) state(i uint32, at int64) S {
	s := t.entries[i].state
	if t.policy.Forget(s) <= at {
		var zero S
		return zero
	}
	return s
}

func (t *Table[S]) judge(i uint32, s S, at int64) Answer {
	return t.finish(i, t.policy.Judge(s, t.pendingOf(i), at), at)
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
	a.Overflow = i == overflow
	if a.Busy {
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
func (t *Table[S]) claim(i uint32, k *Key, hash uint64) uint32 {
	if i != vacant {
		return i
	}
	if k.Reserved != 0 {
		t.entries[k.Reserved].key = k.Bytes
		return uint32(k.Reserved)
	}
	if t.own == t.order.capacity() {
		t.remove(t.order.entry[0])
	}
	if i = t.free; i != 0 {
		t.free = t.entries[i].next
	} else {
		i = t.unused
		t.unused++
	}
	t.own++
	b := t.bucket(hash)
	e := &t.entries[i]
	e.key, e.link, e.next = k.Bytes, notInOrder, t.buckets[b]
	t.buckets[b] = i
	return i
}

// put stores a state and keeps the entry where it then belongs: an entry with
// nothing pending in order, one with nothing to remember nowhere.
func (t *Table[S]) put(i uint32, s S, at int64) {
	e := &t.entries[i]
	e.state = s
	if e.pending > 0 {
		return
	}
	forget := t.policy.Forget(s)
	switch {
	case forget <= at:
		t.remove(i)
	case i >= firstOwn:
		t.setOrder(i, forget)
	}
}

// remove empties entry i, which has nothing pending.
func (t *Table[S]) remove(i uint32) {
	if i < firstOwn {
		t.entries[i] = entry[S]{}
		return
	}
	t.leaveOrder(i)
	e := &t.entries[i]
	link := &t.buckets[t.bucket(t.hash(&e.key))]
	for *link != i {
		link = &t.entries[*link].next
	}
	*link = e.next
	*e = entry[S]{next: t.free}
	t.free = i
	t.own--
}

// occupied reports whether a reserved key has its entry.
func (t *Table[S]) occupied(i uint32) bool { return t.entries[i].key != [18]byte{} }

// hash is seeded, so nobody can aim at a bucket.
func (t *Table[S]) hash(key *[18]byte) uint64 { return maphash.Bytes(t.seed, key[:]) }

func (t *Table[S]) bucket(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(t.buckets)))
	return int(hi)
}

// Never is a time that the clock does not reach: sums that are too large end there.
const Never = math.MaxInt64

// Add returns the time d after at, for d >= 0.
func Add(at, d int64) int64 {
	if at > Never-d {
		return Never
	}
	return at + d
}
