package throttle_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/throttle"
)

// model is the Limiter as its rules read, without a thought for speed: refusals are
// lists of times, and every call scans everything. It is what the real one is compared
// with, so it shares no code with it.
type model struct {
	policy   throttle.Policy
	started  bool
	base     time.Time // T9: the first now
	now      int64     // T9: the latest now, in nanoseconds since base
	own      map[doorward.Key]*entry
	overflow *entry
	all      refusals
}

// refusals are the times of those in the window that runs; the first began it (R1).
type refusals []int64

// entry is what is remembered about one key. Zero means nothing.
type entry struct {
	refusals
	pending []*reservation
}

// reservation is a pending attempt. Its entry has it or it is no more.
type reservation struct {
	key   doorward.Key // who holds the ticket; the entry may be the overflow
	entry *entry
	end   int64 // of its lease
	n     int   // how many there were before
}

func newModel(p throttle.Policy) *model {
	m := &model{policy: p}
	m.Clear()
	return m
}

func (m *model) Blocked(k doorward.Key, now time.Time) doorward.Decision {
	m.advance(now)
	_, d := m.judge(k)
	return d
}

// Refused charges both (R3).
func (m *model) Refused(k doorward.Key, now time.Time) {
	m.RefusedBySource(k, now)
	m.charge(&m.all, m.now)
}

// RefusedBySource charges the key alone (R3).
func (m *model) RefusedBySource(k doorward.Key, now time.Time) {
	m.advance(now)
	e, _ := m.judge(k)
	m.charge(&m.keep(k, e).refusals, m.now)
}

// Accepted clears a key's own refusals (R4).
func (m *model) Accepted(k doorward.Key, now time.Time) {
	m.advance(now)
	if e := m.own[k]; e != nil {
		e.refusals = nil
	}
}

func (m *model) Reserve(k doorward.Key, now time.Time) (doorward.Decision, *reservation) {
	m.advance(now)
	e, d := m.judge(k)
	if d.Allowed && len(m.pending()) == m.policy.InFlight { // T7
		d = m.busy(m.pending(), false)
	}
	if !d.Allowed {
		return d, nil
	}
	e = m.keep(k, e)
	r := &reservation{key: k, entry: e, end: plus(m.now, time.Minute), n: len(m.pending())}
	e.pending = append(e.pending, r)
	return d, r
}

func (m *model) Settle(k doorward.Key, r *reservation, o doorward.Outcome, now time.Time) (c doorward.Cleared) {
	m.advance(now)
	if !m.holds(r) || r.key != k { // L7
		return c
	}
	e := r.entry
	m.drop(r)
	switch {
	case o == doorward.Void: // R7: taken back
	case o == doorward.Malformed:
		m.charge(&e.refusals, m.now)
	case o != doorward.Succeeded:
		m.charge(&e.refusals, m.now)
		m.charge(&m.all, m.now)
	case e != m.overflow && len(e.refusals) > 0: // R4, R5
		c = doorward.Cleared{N: len(e.refusals), First: m.base.Add(time.Duration(e.refusals[0]))}
		e.refusals = nil
	}
	return c
}

func (m *model) Unlock(k doorward.Key) { delete(m.own, k) }

func (m *model) Clear() {
	m.own = map[doorward.Key]*entry{}
	m.overflow = &entry{}
	m.all = nil
}

// live is how many keys have a live entry, reserved ones included (T0).
func (m *model) live() (n int) {
	for _, e := range m.own {
		if len(e.refusals) > 0 || len(e.pending) > 0 {
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
		if len(e.refusals) > 0 {
			ms = append(ms, m.end(e.refusals))
		}
	}
	if len(m.all) > 0 {
		ms = append(ms, m.end(m.all))
	}
	slices.Sort(ms)
	return ms
}

// advance moves time on, never back (T9), and lets all that time does happen: leases
// end in order, each Refused then (R7), windows end (R1), and with them entries (T0).
func (m *model) advance(t time.Time) {
	if !m.started {
		m.started, m.base = true, t
	}
	m.now = max(m.now, min(int64(t.Sub(m.base)), math.MaxInt64-1))
	for {
		all := m.pending()
		if len(all) == 0 || m.now < all[0].end {
			break
		}
		m.drop(all[0])
		m.charge(&all[0].entry.refusals, all[0].end)
		m.charge(&m.all, all[0].end)
	}
	m.all = m.running(m.all, m.now)
	for k, e := range m.own {
		e.refusals = m.running(e.refusals, m.now)
		if len(e.refusals) == 0 && len(e.pending) == 0 {
			delete(m.own, k)
		}
	}
	m.overflow.refusals = m.running(m.overflow.refusals, m.now)
}

func (m *model) end(l refusals) int64 { return plus(l[0], m.policy.Window) }

// running is l, or nothing if its window has ended.
func (m *model) running(l refusals, now int64) refusals {
	if len(l) > 0 && m.end(l) <= now {
		return nil
	}
	return l
}

func (m *model) charge(l *refusals, now int64) { *l = append(m.running(*l, now), now) }

// judge finds the entry that k is charged to and asks it. The entry is nil if k would
// get a new one.
func (m *model) judge(k doorward.Key) (*entry, doorward.Decision) {
	e := m.own[k]
	if e == nil && (reserved(k) || m.unreserved() < m.policy.Sources) { // T3, T5
		return nil, m.answer(&entry{}, false)
	}
	if e == nil { // T4, R5
		return m.overflow, m.answer(m.overflow, true)
	}
	return e, m.answer(e, false)
}

func (m *model) answer(e *entry, over bool) doorward.Decision {
	d := doorward.Decision{Overflow: over}
	switch {
	case len(e.refusals) >= m.policy.PerSource: // R2
		d.Reason, d.RetryAfter = doorward.Spent, m.wait(e)
	case len(m.all) >= m.policy.Global:
		d.Reason, d.RetryAfter = doorward.Ceiling, m.wait(e)
	case !m.room(e, m.now):
		if len(e.pending) > 0 {
			return m.busy(e.pending, over)
		}
		return m.busy(m.pending(), over)
	default:
		d.Allowed = true
		for one := (&entry{e.refusals, append(slices.Clone(e.pending), nil)}); m.roomBeside(one, m.now, d.Remaining+1); {
			d.Remaining++
			one.pending = append(one.pending, nil)
		}
	}
	return d
}

// room reports whether e may start an attempt at the time at, if nothing happens until
// then.
func (m *model) room(e *entry, at int64) bool { return m.roomBeside(e, at, 0) }

// roomBeside counts that many attempts more than there are towards the limit of all.
func (m *model) roomBeside(e *entry, at int64, more int) bool {
	return len(m.running(e.refusals, at))+len(e.pending) < m.policy.PerSource &&
		len(m.running(m.all, at))+len(m.pending())+more < m.policy.Global
}

// wait is the time until there is room if nothing happens (D3): until the end of one of
// the two windows. Where what is pending fills a limit alone it is the later end of a
// window whose limit is full.
func (m *model) wait(e *entry) time.Duration {
	var ends []int64
	if l := e.refusals; len(l) > 0 && len(l)+len(e.pending) >= m.policy.PerSource {
		ends = append(ends, m.end(l))
	}
	if l := m.all; len(l) > 0 && len(l)+len(m.pending()) >= m.policy.Global {
		ends = append(ends, m.end(l))
	}
	slices.Sort(ends)
	for _, at := range ends {
		if m.room(e, at) {
			return time.Duration(at - m.now)
		}
	}
	return time.Duration(ends[len(ends)-1] - m.now)
}

// busy refuses for a second, or until the first of these leases ends (D3).
func (m *model) busy(rs []*reservation, over bool) doorward.Decision {
	wait := time.Second
	for _, r := range rs {
		wait = min(wait, time.Duration(r.end-m.now))
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
func plus(t int64, d time.Duration) int64 {
	if t > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return t + int64(d)
}
