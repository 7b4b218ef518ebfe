package linear

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

// The keys of a history: 127.0.0.1, which always has an entry of its own, and others.
const (
	loopback = iota
	first
	keys = first + 5
)

// A call is an operation, at a time in nanoseconds.
type call struct {
	Op      string
	Key     int
	Now     int64
	Ticket  doorward.Ticket  `json:",omitzero"`
	Outcome doorward.Outcome `json:",omitempty"`
}

// A result is what it returned.
type result struct {
	Decision doorward.Decision `json:",omitzero"`
	Ticket   doorward.Ticket   `json:",omitzero"`
	Cleared  int               `json:",omitempty"`
	First    int64             `json:",omitempty"` // of what was cleared
}

// An entry is what the rules remember of a key. The zero entry is forgotten.
type entry struct {
	count  int64
	first  int64 // when the first failure was counted
	locked int64 // the end of the lockout
	forget int64 // without decay, when all failures are forgotten
	clock  int64 // with decay, when the next one began to be
}

// A reservation is pending.
type reservation struct {
	ticket doorward.Ticket
	key    int
	own    bool // not charged to overflow
	end    int64
}

// A state is all that a limiter remembers. It is comparable.
type state struct {
	begun    bool
	now      int64
	own      [keys]entry
	overflow entry
	pending  [64]reservation // in the order of their leases
	n        int
}

var seed = maphash.MakeSeed()

func (s state) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, s.now)
	maphash.WriteComparable(&h, s.own)
	maphash.WriteComparable(&h, s.overflow)
	for _, p := range s.pending[:s.n] {
		maphash.WriteComparable(&h, p.ticket)
	}
	return h.Sum64()
}

// rules are a policy, in the words of the specification.
type rules struct{ lockout.Policy }

// model returns the rules as a sequential specification.
func (r rules) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, in, out any) (bool, any) {
			next := s.(state)
			ok := r.step(&next, in.(call), out.(result))
			return ok, next
		},
		Hash:              func(s any) uint64 { return s.(state).hash() },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
}

// step applies c to s and reports whether it may return out.
func (r rules) step(s *state, c call, out result) bool {
	r.advance(s, c.Now)
	e, own := s.seat(r, c.Key)
	ok := true
	switch c.Op {
	case "check":
		ok = r.answers(s, *e, own, c.Key, out.Decision)
	case "attempt": // L1
		if ok = r.answers(s, *e, own, c.Key, out.Decision); out.Decision.Allowed {
			r.fail(e, s.now)
		}
	case "reserve":
		if ok = r.answers(s, *e, own, c.Key, out.Decision); out.Decision.Allowed {
			ok = ok && out.Ticket != doorward.Ticket{} && s.find(out.Ticket) < 0
			s.pending[s.n] = reservation{out.Ticket, c.Key, own, s.now + int64(r.Lease)}
			s.n++
		} else {
			ok = ok && out.Ticket == doorward.Ticket{}
		}
	case "succeeded": // L5, L8
		if own {
			r.succeed(e, s.now)
		}
	case "settle": // L6 to L8
		ok = r.settle(s, c, out)
	}
	r.reclaim(s)
	return ok
}

// advance is T9 and L7: the latest now counts, and leases that ended come first, in
// order, each at its time.
func (r rules) advance(s *state, now int64) {
	if !s.begun || now > s.now {
		s.begun, s.now = true, now
	}
	for s.n > 0 && s.pending[0].end <= s.now {
		p := s.pending[0]
		s.drop(0)
		r.fail(s.charged(p), p.end)
	}
	r.reclaim(s)
}

// reclaim is T0: what is remembered no longer means nothing.
func (r rules) reclaim(s *state) {
	for k := range s.own {
		r.age(&s.own[k], s.now)
	}
	r.age(&s.overflow, s.now)
}

// age forgets what is forgotten at now: L4, L10.
func (r rules) age(e *entry, now int64) {
	switch {
	case e.count == 0:
		*e = entry{}
	case !r.Decay && now >= e.forget:
		*e = entry{}
	case r.Decay && now > e.clock:
		step := int64(r.Window) / int64(r.FreeFailures)
		forgotten := (now - e.clock) / step
		if e.count -= forgotten; e.count <= 0 {
			*e = entry{}
			return
		}
		e.clock += forgotten * step
	}
}

// seat is T3 to T5: the entry that k is charged to, and whether it is its own.
func (s *state) seat(r rules, k int) (e *entry, own bool) {
	live := 0
	for other := first; other < keys; other++ {
		if s.live(other) {
			live++
		}
	}
	if k == loopback || s.live(k) || live < r.Capacity {
		return &s.own[k], true
	}
	return &s.overflow, false
}

func (s *state) live(k int) bool {
	n, _ := s.waiting(k, true)
	return s.own[k].count > 0 || n > 0
}

// waiting counts the reservations of an entry, and says when the first lease ends.
func (s *state) waiting(k int, own bool) (n, end int64) {
	for _, p := range s.pending[:s.n] {
		if p.own == own && (p.key == k || !own) {
			if n == 0 {
				end = p.end
			}
			n++
		}
	}
	return n, end
}

func (s *state) charged(p reservation) *entry {
	if p.own {
		return &s.own[p.key]
	}
	return &s.overflow
}

func (s *state) find(t doorward.Ticket) int {
	for i, p := range s.pending[:s.n] {
		if p.ticket == t {
			return i
		}
	}
	return -1
}

func (s *state) drop(i int) {
	copy(s.pending[i:s.n], s.pending[i+1:s.n])
	s.n--
	s.pending[s.n] = reservation{}
}

// answers reports whether d answers an attempt on e: L3, L6 and D3.
func (r rules) answers(s *state, e entry, own bool, k int, d doorward.Decision) bool {
	pending, end := s.waiting(k, own)
	want := doorward.Decision{Overflow: !own}
	if rest := e.locked - s.now; rest > 0 {
		want.Reason, want.RetryAfter = doorward.Locked, time.Duration(rest)
	} else if left := int64(r.FreeFailures) - e.count - pending; left > 0 {
		want.Allowed, want.Remaining = true, int(left-1)
	} else if pending == 0 {
		want.Allowed = true
	} else {
		want.Reason, want.RetryAfter = doorward.Busy, min(time.Second, time.Duration(end-s.now))
	}
	if !own && d.RetryAfter > 0 && d.RetryAfter < want.RetryAfter {
		// Sooner is right where room is made sooner.
		for other := first; other < keys; other++ {
			n, _ := s.waiting(other, true)
			if n == 0 && s.own[other].count > 0 && r.forgets(s.own[other])-s.now <= int64(d.RetryAfter) {
				want.RetryAfter = d.RetryAfter
			}
		}
	}
	return d == want
}

func (r rules) forgets(e entry) int64 {
	if r.Decay {
		return e.clock + e.count*(int64(r.Window)/int64(r.FreeFailures))
	}
	return e.forget
}

// fail is L2, L4 and L10.
func (r rules) fail(e *entry, now int64) {
	r.age(e, now)
	if e.count == 0 {
		*e = entry{first: now, clock: now}
	}
	if !r.Decay || r.lasts(e.count) < int64(r.MaxLockout) || e.count < int64(r.FreeFailures) {
		e.count++
	}
	e.forget = now + int64(r.Window)
	if e.count >= int64(r.FreeFailures) {
		e.locked = now + r.lasts(e.count)
		e.forget, e.clock = e.locked+int64(r.Window), e.locked
	}
}

// lasts is how long the failure that makes it count locks.
func (r rules) lasts(count int64) int64 {
	d := int64(r.FirstLockout)
	for i := int64(r.FreeFailures); i < count && d < int64(r.MaxLockout); i++ {
		d *= 2
	}
	return min(d, int64(r.MaxLockout))
}

// succeed is a success of an attempt that was counted as a failure.
func (r rules) succeed(e *entry, now int64) {
	if r.OnSuccess == lockout.Clear || e.count <= 1 {
		*e = entry{}
		return
	}
	e.count--
	if e.locked > now {
		e.locked, e.clock = now, now
	}
}

// settle ends a reservation, once, and only the key's own.
func (r rules) settle(s *state, c call, out result) bool {
	want := result{}
	i := s.find(c.Ticket)
	if i < 0 || s.pending[i].key != c.Key {
		return out == want
	}
	p := s.pending[i]
	s.drop(i)
	e := s.charged(p)
	switch c.Outcome {
	case doorward.Failed, doorward.Malformed:
		r.fail(e, s.now)
	case doorward.Succeeded:
		if p.own && r.OnSuccess == lockout.Clear {
			if want.Cleared = int(e.count); e.count > 0 {
				want.First = e.first
			}
			*e = entry{}
		}
	}
	if r.Decay {
		want.First = out.First // the rules do not say which one that is
	}
	return out == want
}
