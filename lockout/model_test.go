package lockout_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

// model is the Limiter as its rules read, without a thought for speed: one map, one
// slice per entry, a scan of everything before every call. It is what the real one
// is compared with, so it shares no code with it.
type model struct {
	rules    rules
	capacity int
	inFlight int
	started  bool
	base     time.Time // T9: the first now
	now      int64     // T9: the latest now, in nanoseconds since base
	own      map[doorward.Key]*entry
	overflow *entry
}

// rules is a lockout.Policy with its defaults filled in.
type rules lockout.Policy

// entry is what is remembered about one key. Zero means nothing.
type entry struct {
	count   int   // failures that count
	began   int64 // when the first of them was counted
	forgot  int64 // G3: when any were last forgotten: count began, decay step, end of a lockout
	lockEnd int64 // locked before it
	clock   int64 // L10: the next failure is forgotten one step after it
	forget  int64 // L4: all failures are forgotten at it
	pending []*reservation
}

// reservation is a pending attempt. Its entry has it or it is no more.
type reservation struct {
	key doorward.Key // who holds the ticket; the entry may be the overflow
	end int64        // of its lease
}

func newModel(p lockout.Policy) *model {
	if p.Lease == 0 {
		p.Lease = min(time.Minute, p.Window)
	}
	if p.Capacity == 0 {
		p.Capacity = lockout.DefaultCapacity
	}
	if p.InFlight == 0 {
		p.InFlight = lockout.DefaultInFlight
	}
	m := &model{rules: rules(p), capacity: p.Capacity, inFlight: p.InFlight}
	m.Clear()
	return m
}

// Attempt is a reservation settled as failed at once (L6), without the pool.
func (m *model) Attempt(k doorward.Key, now time.Time) doorward.Decision {
	m.advance(now)
	e, d := m.judge(k)
	if d.Allowed {
		m.rules.fail(m.keep(k, e), m.now)
	}
	return d
}

// Check answers as an attempt would be answered.
func (m *model) Check(k doorward.Key, now time.Time) doorward.Decision {
	m.advance(now)
	_, d := m.judge(k)
	return d
}

func (m *model) Reserve(k doorward.Key, now time.Time) (doorward.Decision, *reservation) {
	m.advance(now)
	e, d := m.judge(k)
	if d.Allowed && m.pooled() == m.inFlight { // T7
		d = m.busy(m.everything(), false)
	}
	if !d.Allowed {
		return d, nil
	}
	r := &reservation{key: k, end: plus(m.now, m.rules.Lease)}
	e = m.keep(k, e)
	e.pending = append(e.pending, r)
	return d, r
}

func (m *model) Settle(k doorward.Key, r *reservation, o doorward.Outcome, now time.Time) (c doorward.Cleared) {
	m.advance(now)
	e := m.holder(r)
	if e == nil || r.key != k { // L7
		return c
	}
	e.pending = slices.DeleteFunc(e.pending, func(x *reservation) bool { return x == r })
	switch {
	case o == doorward.Void: // L6: taken back
	case o != doorward.Succeeded:
		m.rules.fail(e, m.now)
	case e == m.overflow || m.rules.OnSuccess == lockout.TakeBack: // T4, L8
	case e.count > 0: // L6: clears failures, not others' pending
		c = doorward.Cleared{N: e.count, First: m.base.Add(time.Duration(e.began))}
		*e = entry{pending: e.pending}
	}
	return c
}

func (m *model) Succeeded(k doorward.Key, now time.Time) {
	m.advance(now)
	e := m.own[k]
	switch {
	case e == nil: // L5: nothing of its own
	case m.rules.OnSuccess == lockout.TakeBack: // L8
		m.rules.takeBack(e, 1, m.now)
	default: // L5
		*e = entry{pending: e.pending}
	}
}

// GiveBack takes back failures that the entry surely still counts (G3). A lockout that
// runs has its end, where the entry begins anew, still ahead: nothing is given back.
func (m *model) GiveBack(k doorward.Key, c doorward.Cleared, now time.Time) {
	m.advance(now)
	e := m.own[k]
	if e == nil || c.N <= 0 || m.now < e.lockEnd || c.First.Before(m.base.Add(time.Duration(e.forgot))) {
		return
	}
	m.rules.takeBack(e, c.N, m.now)
}

func (m *model) Unlock(k doorward.Key) { delete(m.own, k) }

func (m *model) Clear() {
	m.own = map[doorward.Key]*entry{}
	m.overflow = &entry{}
}

// live is how many keys have a live entry, reserved ones included (T0).
func (m *model) live() (n int) {
	for _, e := range m.own {
		if e.count > 0 || len(e.pending) > 0 {
			n++
		}
	}
	return n
}

// count is how many failures of k count.
func (m *model) count(k doorward.Key) int {
	if e := m.own[k]; e != nil {
		return e.count
	}
	return 0
}

// moments are the instants ahead at which something ends on its own.
func (m *model) moments() (ms []int64) {
	for _, e := range m.everything() {
		for _, r := range e.pending {
			ms = append(ms, r.end)
		}
		if e.lockEnd > m.now {
			ms = append(ms, e.lockEnd)
		}
		if e.count > 0 && m.rules.Decay {
			ms = append(ms, plus(e.clock, m.rules.decayStep()))
		} else if e.count > 0 {
			ms = append(ms, e.forget)
		}
	}
	slices.Sort(ms)
	return ms
}

// advance moves time on, never back (T9), and lets all that time does happen: leases
// end (L7), failures are forgotten (L4, L10), and with them entries (T0).
func (m *model) advance(t time.Time) {
	if !m.started {
		m.started, m.base = true, t
	}
	m.now = max(m.now, min(int64(t.Sub(m.base)), math.MaxInt64-1)) // what saturates stays ahead
	for k, e := range m.own {
		m.rules.advance(e, m.now)
		if e.count == 0 && len(e.pending) == 0 {
			delete(m.own, k)
		}
	}
	m.rules.advance(m.overflow, m.now)
}

// judge finds the entry that k is charged to and asks it. The entry is nil if k would
// get a new one.
func (m *model) judge(k doorward.Key) (*entry, doorward.Decision) {
	e := m.own[k]
	if e == nil && (reserved(k) || m.unreserved() < m.capacity) { // T3, T5
		return nil, m.answer(&entry{}, false)
	}
	if e == nil { // T4
		return m.overflow, m.answer(m.overflow, true)
	}
	return e, m.answer(e, false)
}

func (m *model) answer(e *entry, over bool) doorward.Decision {
	switch m.rules.reason(e, m.now) {
	case doorward.Locked: // L3
		return doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Duration(e.lockEnd - m.now), Overflow: over}
	case doorward.Busy:
		return m.busy([]*entry{e}, over)
	}
	free := m.rules.FreeFailures - e.count - len(e.pending)
	return doorward.Decision{Allowed: true, Remaining: max(0, free-1), Overflow: over}
}

// busy refuses for a second, or until the first lease of these entries ends (D3).
func (m *model) busy(entries []*entry, over bool) doorward.Decision {
	wait := time.Second
	for _, e := range entries {
		for _, r := range e.pending {
			wait = min(wait, time.Duration(r.end-m.now))
		}
	}
	return doorward.Decision{Reason: doorward.Busy, RetryAfter: wait, Overflow: over}
}

func (m *model) keep(k doorward.Key, e *entry) *entry {
	if e == nil {
		e = &entry{}
		m.own[k] = e
	}
	return e
}

func (m *model) holder(r *reservation) *entry {
	for _, e := range m.everything() {
		if r != nil && slices.Contains(e.pending, r) {
			return e
		}
	}
	return nil
}

func (m *model) everything() []*entry {
	all := []*entry{m.overflow}
	for _, e := range m.own {
		all = append(all, e)
	}
	return all
}

func (m *model) pooled() (n int) {
	for _, e := range m.everything() {
		n += len(e.pending)
	}
	return n
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

// reason is why an attempt is refused, 0 when it is not (L3, L6).
func (p rules) reason(e *entry, now int64) doorward.Reason {
	switch {
	case now < e.lockEnd:
		return doorward.Locked
	case e.count+len(e.pending) < p.FreeFailures || len(e.pending) == 0:
		return 0
	}
	return doorward.Busy
}

// advance applies the leases that ended, in order, each dated then (L7), and forgets.
func (p rules) advance(e *entry, now int64) {
	for len(e.pending) > 0 {
		first := slices.MinFunc(e.pending, func(a, b *reservation) int { return cmp.Compare(a.end, b.end) })
		if now < first.end {
			break
		}
		e.pending = slices.DeleteFunc(e.pending, func(r *reservation) bool { return r == first })
		p.fade(e, first.end)
		p.fail(e, first.end)
	}
	p.fade(e, now)
}

// fade forgets what is forgotten by now (L4, L10).
func (p rules) fade(e *entry, now int64) {
	if e.lockEnd <= now {
		e.forgot = max(e.forgot, e.lockEnd)
	}
	if p.Decay {
		for e.count > 0 && plus(e.clock, p.decayStep()) <= now {
			e.count--
			e.clock = plus(e.clock, p.decayStep())
			e.forgot = e.clock
		}
	} else if e.count > 0 && e.forget <= now {
		e.count = 0
	}
	if e.count == 0 {
		*e = entry{pending: e.pending}
	}
}

// fail counts a failure at now (L2), and locks.
func (p rules) fail(e *entry, now int64) {
	if e.count == 0 {
		e.began, e.forgot, e.clock = now, now, now
	}
	if e.count++; p.Decay {
		e.count = min(e.count, p.highest())
	}
	e.forget = plus(now, p.Window)
	if e.count >= p.FreeFailures {
		e.lockEnd = plus(now, p.lockoutAt(e.count))
		e.clock = e.lockEnd
		e.forget = plus(e.lockEnd, p.Window)
	}
}

// takeBack lowers the count by n and ends a lockout that runs (L8).
func (p rules) takeBack(e *entry, n int, now int64) {
	e.count = max(0, e.count-n)
	if now < e.lockEnd {
		e.lockEnd, e.clock, e.forgot = now, now, now
	}
	if e.count == 0 {
		*e = entry{pending: e.pending}
	}
}

// lockoutAt is FirstLockout x 2^(count-FreeFailures), at most MaxLockout.
func (p rules) lockoutAt(count int) time.Duration {
	d := p.FirstLockout
	for range count - p.FreeFailures {
		if d > p.MaxLockout/2 {
			return p.MaxLockout
		}
		d *= 2
	}
	return min(d, p.MaxLockout)
}

// highest is the first count that gives MaxLockout (L10).
func (p rules) highest() int {
	c := p.FreeFailures
	for p.lockoutAt(c) < p.MaxLockout {
		c++
	}
	return c
}

func (p rules) decayStep() time.Duration {
	return max(1, p.Window/time.Duration(p.FreeFailures))
}

// plus saturates (T9).
func plus(t int64, d time.Duration) int64 {
	if t > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return t + int64(d)
}
