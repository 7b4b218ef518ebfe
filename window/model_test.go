package window_test

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

// model is the Limiter as its rules read, without a thought for speed: a list of the
// requests that were admitted, and a scan of everything before every call. It is what
// the real one is compared with, so it shares no code with it.
type model struct {
	policy   window.Policy
	started  bool
	base     time.Time // T9: the first now
	now      int64     // T9: the latest now, in nanoseconds since base
	own      map[doorward.Key]*entry
	overflow *entry
	issued   int
	// past holds what was admitted and not voided by each entry, counted or not, for
	// as long as an interval of length Window may reach back to it.
	past map[doorward.Key][]*request
}

// shared is the key that past knows the overflow entry by: no address of the tests.
var shared = doorward.KeyFromName("overflow")

// entry is what is remembered about one key. Zero means nothing.
type entry struct {
	origin   int64 // the first request after rest
	admitted []*request
	pending  []*reservation
	past     doorward.Key
}

type request struct{ at int64 }

// reservation is a request that can be taken back. Its entry has it or it is no more.
type reservation struct {
	key     doorward.Key // who holds the ticket; the entry may be the overflow
	entry   *entry
	request *request
	end     int64 // of its lease
	n       int   // how many were issued before
}

func newModel(p window.Policy) *model {
	m := &model{policy: p}
	m.Clear()
	return m
}

func (m *model) AllowN(k doorward.Key, n int, now time.Time) doorward.Decision {
	m.advance(now)
	e, d := m.judge(k, n)
	if d.Allowed && n > 0 {
		m.admit(m.keep(k, e), n)
	}
	return d
}

func (m *model) Check(k doorward.Key, now time.Time) doorward.Decision {
	m.advance(now)
	_, d := m.judge(k, 1)
	return d
}

func (m *model) Reserve(k doorward.Key, now time.Time) (doorward.Decision, *reservation) {
	m.advance(now)
	e, d := m.judge(k, 1)
	if all := m.pending(); d.Allowed && len(all) == m.policy.InFlight { // T7
		wait := min(time.Second, time.Duration(all[0].end-m.now))
		d = doorward.Decision{Reason: doorward.Busy, RetryAfter: wait}
	}
	if !d.Allowed {
		return d, nil
	}
	e = m.keep(k, e)
	m.issued++
	r := &reservation{key: k, entry: e, request: m.admit(e, 1), end: plus(m.now, int64(time.Minute)), n: m.issued}
	e.pending = append(e.pending, r)
	return d, r
}

// Settle takes back what counts still; all else changes nothing (W5).
func (m *model) Settle(k doorward.Key, r *reservation, o doorward.Outcome, now time.Time) {
	m.advance(now)
	if !m.holds(r) || r.key != k { // L7
		return
	}
	m.drop(r)
	if o == doorward.Void && slices.Contains(r.entry.admitted, r.request) {
		is := func(x *request) bool { return x == r.request }
		r.entry.admitted = slices.DeleteFunc(r.entry.admitted, is)
		m.past[r.entry.past] = slices.DeleteFunc(m.past[r.entry.past], is)
	}
}

func (m *model) Unlock(k doorward.Key) {
	delete(m.own, k)
	delete(m.past, k)
}

func (m *model) Clear() {
	m.own = map[doorward.Key]*entry{}
	m.overflow = &entry{past: shared}
	m.past = map[doorward.Key][]*request{}
}

// admit counts n requests of e now, and returns the last.
func (m *model) admit(e *entry, n int) (r *request) {
	if len(e.admitted) == 0 {
		e.origin = m.now
	}
	m.past[e.past] = slices.DeleteFunc(m.past[e.past], func(x *request) bool { return x.at < m.now-m.span() })
	for range n {
		r = &request{m.now}
		e.admitted = append(e.admitted, r)
		m.past[e.past] = append(m.past[e.past], r)
	}
	return r
}

// most is the largest number of requests, admitted by one entry and not voided, in an
// interval of length Window that ends now; both its ends belong to it if closed.
func (m *model) most(closed bool) (most int) {
	for _, past := range m.past {
		n := 0
		for _, r := range past {
			if age := m.now - r.at; age < m.span() || closed && age == m.span() {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// span is Window, rounded up with Sliding.
func (m *model) span() int64 {
	w := int64(m.policy.Window)
	for m.policy.Sliding && w%8 != 0 && w < math.MaxInt64 {
		w++
	}
	return w
}

// expiry is when a request of e counts no more: at the end of the window (W1), or when
// nine slices have passed from the beginning of its own (W2).
func (m *model) expiry(e *entry, r *request) int64 {
	if !m.policy.Sliding {
		return plus(e.origin, m.span())
	}
	width := m.span() / 8
	if m.span()%8 != 0 { // it could not be rounded up any more
		width++
	}
	hi, lo := bits.Mul64(uint64((r.at-e.origin)/width+9), uint64(width))
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return plus(e.origin, int64(lo))
}

// counted is how many requests of e would still count at a time.
func (m *model) counted(e *entry, at int64) (n int) {
	for _, r := range e.admitted {
		if at < m.expiry(e, r) {
			n++
		}
	}
	return n
}

// live is how many keys have a live entry, reserved ones included (T0).
func (m *model) live() (n int) {
	for _, e := range m.own {
		if len(e.admitted) > 0 || len(e.pending) > 0 {
			n++
		}
	}
	return n
}

// moments are the instants ahead at which something ends on its own.
func (m *model) moments() (ms []int64) {
	for _, r := range m.pending() {
		ms = append(ms, r.end)
	}
	for _, e := range m.everything() {
		for _, r := range e.admitted {
			ms = append(ms, m.expiry(e, r))
		}
	}
	slices.Sort(ms)
	return slices.Compact(ms)
}

// advance moves time on, never back (T9), and forgets what counts no more.
func (m *model) advance(t time.Time) {
	if !m.started {
		m.started, m.base = true, t
	}
	m.now = max(m.now, min(int64(t.Sub(m.base)), math.MaxInt64-1))
	for _, r := range m.pending() {
		if r.end <= m.now {
			m.drop(r)
		}
	}
	for k, e := range m.own {
		m.fade(e)
		if len(e.admitted) == 0 && len(e.pending) == 0 {
			delete(m.own, k)
		}
	}
	m.fade(m.overflow)
}

func (m *model) fade(e *entry) {
	e.admitted = slices.DeleteFunc(e.admitted, func(r *request) bool { return m.expiry(e, r) <= m.now })
}

// judge finds the entry that k is charged to and asks it. The entry is nil if k would
// get a new one.
func (m *model) judge(k doorward.Key, n int) (*entry, doorward.Decision) {
	e := m.own[k]
	if e == nil && (reserved(k) || m.unreserved() < m.policy.Capacity) { // T3, T5
		return nil, m.answer(&entry{}, n, false)
	}
	if e == nil { // T4
		return m.overflow, m.answer(m.overflow, n, true)
	}
	return e, m.answer(e, n, false)
}

func (m *model) answer(e *entry, n int, over bool) doorward.Decision {
	n = max(0, n)
	if left := m.policy.Limit - len(e.admitted) - n; left >= 0 {
		return doorward.Decision{Allowed: true, Remaining: left, Overflow: over}
	}
	d := doorward.Decision{Reason: doorward.Spent, Overflow: over}
	for _, r := range e.admitted { // oldest first
		at := m.expiry(e, r)
		if m.counted(e, at)+n <= m.policy.Limit {
			d.RetryAfter = time.Duration(at - m.now)
			break
		}
	}
	return d
}

func (m *model) keep(k doorward.Key, e *entry) *entry {
	if e == nil {
		e = &entry{past: k}
		m.own[k] = e
	}
	return e
}

func (m *model) holds(r *reservation) bool { return r != nil && slices.Contains(m.pending(), r) }

func (m *model) drop(r *reservation) {
	r.entry.pending = slices.DeleteFunc(r.entry.pending, func(x *reservation) bool { return x == r })
}

func (m *model) everything() []*entry {
	all := []*entry{m.overflow}
	for _, e := range m.own {
		all = append(all, e)
	}
	return all
}

// pending is all of it, in the order of its leases.
func (m *model) pending() (all []*reservation) {
	for _, e := range m.everything() {
		all = append(all, e.pending...)
	}
	slices.SortFunc(all, func(a, b *reservation) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.n, b.n))
	})
	return all
}

func (m *model) unreserved() (n int) {
	for k := range m.own {
		if !reserved(k) {
			n++
		}
	}
	return n
}

func reserved(k doorward.Key) bool { return k == loopback4 || k == loopback6 }

// plus saturates (T9).
func plus(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
