package table

import "math/rand/v2"

// A reservation is an attempt in flight, 32 bytes. Slot 0 of the pool stands for
// none.
type reservation struct {
	end          int64  // of the lease; -1 in a free slot
	id           uint32 // of this use of the slot
	charged      uint32 // the entry it is charged to, and in the top bit its tag
	prev, next   uint32 // of the same entry, in a ring, oldest first; next of a free slot
	older, newer uint32 // of all, by the end of the lease
}

const tagBit = 1 << 31

func (r *reservation) entry() uint32 { return r.charged &^ tagBit }

func (r *reservation) tag() Event {
	if r.charged&tagBit != 0 {
		return Tagged
	}
	return 0
}

// A pool holds the reservations of a table, at most as many as it was made for.
type pool struct {
	slots          []reservation
	unused         uint32 // first slot that was never used
	free           uint32 // first of the slots given back, linked by next
	oldest, newest uint32
	n              int // reservations pending
	id             uint32
	nonce          uint64 // makes the tickets of each table its own
}

func newPool(n int) pool {
	return pool{slots: make([]reservation, n+1), unused: 1, id: rand.Uint32(), nonce: rand.Uint64()}
}

// reset frees every slot. The ids run on, so old tickets stay dead.
func (p *pool) reset() {
	for i := uint32(1); i < p.unused; i++ {
		p.slots[i].end = -1
	}
	p.unused, p.free, p.oldest, p.newest, p.n = 1, 0, 0, 0, 0
}

func (p *pool) full() bool { return p.free == 0 && int(p.unused) == len(p.slots) }

// lastEnd returns the latest end of a lease, 0 if nothing is pending.
func (p *pool) lastEnd() int64 { return p.slots[p.newest].end }

// add takes a slot for a reservation that is charged to entry. The end must not be
// before lastEnd.
func (p *pool) add(entry uint32, tag Event, end int64) uint32 {
	r := p.free
	if r != 0 {
		p.free = p.slots[r].next
	} else {
		r = p.unused
		p.unused++
	}
	p.id++
	p.n++
	if tag != 0 {
		entry |= tagBit
	}
	p.slots[r] = reservation{end: end, id: p.id, charged: entry, older: p.newest}
	if p.newest != 0 {
		p.slots[p.newest].newer = r
	} else {
		p.oldest = r
	}
	p.newest = r
	return r
}

// remove frees the slot of r, which has left its entry.
func (p *pool) remove(r uint32) {
	s := &p.slots[r]
	if s.older != 0 {
		p.slots[s.older].newer = s.newer
	} else {
		p.oldest = s.newer
	}
	if s.newer != 0 {
		p.slots[s.newer].older = s.older
	} else {
		p.newest = s.older
	}
	p.n--
	s.end, s.next = -1, p.free
	p.free = r
}

// join adds r at the end of the ring that starts at first, or starts one. It
// returns the start.
func (p *pool) join(first, r uint32, start bool) uint32 {
	if start {
		p.slots[r].prev, p.slots[r].next = r, r
		return r
	}
	last := p.slots[first].prev
	p.slots[r].prev, p.slots[r].next = last, first
	p.slots[last].next, p.slots[first].prev = r, r
	return first
}

// leave takes r out of the ring that starts at first and returns its new start, 0 if
// none is left.
func (p *pool) leave(first, r uint32) uint32 {
	s := &p.slots[r]
	if s.next == r {
		return 0
	}
	p.slots[s.prev].next, p.slots[s.next].prev = s.next, s.prev
	if first == r {
		return s.next
	}
	return first
}

// The top bit of a ticket is 0: there are fewer slots than that.
const _ = uint(1<<31 - 1 - MaxCapacity)

// ticket names r for ever. A ticket tells slot, use of the slot, end of the lease,
// key and table, so it matches no other reservation: the same slot would have to
// be used 2^32 times within one nanosecond.
func (p *pool) ticket(r uint32, key uint64) Ticket {
	s := &p.slots[r]
	return Ticket{A: uint64(s.end) ^ p.nonce ^ key, B: uint64(r)<<32 | uint64(s.id)}
}

// find returns the pending reservation that t names for key, 0 if there is none.
func (p *pool) find(t Ticket, key uint64) uint32 {
	r := uint32(t.B >> 32)
	if r == 0 || r >= p.unused || p.slots[r].end < 0 || p.ticket(r, key) != t {
		return 0
	}
	return r
}
