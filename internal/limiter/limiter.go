// Package limiter puts the project's words on a table: what the policies have in
// common. A policy package wraps a Limiter and adds its own rules. It promises and
// gives up what package table does.
package limiter

import (
	"encoding/binary"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/table"
)

// A Limiter keeps one state of type S for each key.
type Limiter[S any] struct{ table *table.Table[S] }

// New returns a limiter that remembers nothing.
func New[S any](p Policy[S], c table.Config) Limiter[S] {
	return Limiter[S]{table.New(p, c)}
}

// Policy returns the policy in force.
func (l Limiter[S]) Policy() table.Policy[S] { return l.table.Policy() }

// Reload replaces the policy and the lease, and keeps what was counted.
func (l Limiter[S]) Reload(p Policy[S], lease time.Duration) { l.table.Reload(p, lease) }

// Attempt judges an attempt on k and charges it if it is allowed.
func (l Limiter[S]) Attempt(k doorward.Key, now time.Time) (d doorward.Decision) {
	fill(&d, l.table.Attempt(key(k), now))
	return d
}

// Try judges an attempt on k by f and keeps the state as f leaves it if f allows.
func (l Limiter[S]) Try(k doorward.Key, now time.Time, f func(p table.Policy[S], s *S, n table.Pending, at int64) table.Answer) (d doorward.Decision) {
	fill(&d, l.table.Try(key(k), now, f))
	return d
}

// Check answers as Attempt would and charges nothing.
func (l Limiter[S]) Check(k doorward.Key, now time.Time) (d doorward.Decision) {
	fill(&d, l.table.Check(key(k), now))
	return d
}

// Reserve judges an attempt on k and keeps it pending if it is allowed.
func (l Limiter[S]) Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket) {
	return l.ReserveTagged(k, 0, now)
}

// ReserveTagged is Reserve with a tag, 0 or table.Tagged, that the policy is told when
// the reservation ends.
func (l Limiter[S]) ReserveTagged(k doorward.Key, tag table.Event, now time.Time) (d doorward.Decision, ticket doorward.Ticket) {
	a, t := l.table.Reserve(key(k), tag, now)
	fill(&d, a)
	return d, doorward.Ticket(t)
}

// Settle ends a reservation of k. One that was charged to overflow is taken back on
// success: nobody clears what all share. It returns the state just before, the time
// on the table's clock, and the policy that was applied if the reservation was k's own,
// else nil.
func (l Limiter[S]) Settle(k doorward.Key, t doorward.Ticket, o doorward.Outcome, now time.Time) (before S, at int64, p table.Policy[S]) {
	return l.SettleTagged(k, t, o, 0, now)
}

// SettleTagged is Settle with a tag, as if the reservation had begun with it.
func (l Limiter[S]) SettleTagged(k doorward.Key, t doorward.Ticket, o doorward.Outcome, tag table.Event, now time.Time) (before S, at int64, p table.Policy[S]) {
	if o > doorward.Void {
		o = doorward.Failed // no outcome is a failure
	}
	shared := o
	if o == doorward.Succeeded {
		shared = doorward.Void
	}
	return l.table.Settle(key(k), table.Ticket(t), table.Event(o)|tag, table.Event(shared), now)
}

// Update changes the state of k, if it has an entry of its own.
func (l Limiter[S]) Update(k doorward.Key, now time.Time, f func(p table.Policy[S], s *S, at int64)) {
	l.table.Update(key(k), now, f)
}

// Unlock forgets k and its reservations.
func (l Limiter[S]) Unlock(k doorward.Key) { l.table.Unlock(key(k)) }

// Clear forgets everything.
func (l Limiter[S]) Clear() { l.table.Clear() }

// Tracked returns how many keys have an entry.
func (l Limiter[S]) Tracked() int { return l.table.Tracked() }

// Time converts a time on the table's clock. It must follow a call with a now.
func (l Limiter[S]) Time(at int64) time.Time { return l.table.Time(at) }

// Since converts a time to the table's clock.
func (l Limiter[S]) Since(at time.Time) int64 { return l.table.Since(at) }

// key reads a key from its bytes: kind, width, two words.
func key(k doorward.Key) table.Key {
	if k.IsLoopback() {
		if k.Prefix().Addr().Is6() {
			return table.Key{Kind: table.Loopback, Width: table.Loopback6}
		}
		return table.Key{Kind: table.Loopback, Width: table.Loopback4}
	}
	var b [18]byte
	k.AppendBinary(b[:0]) // never fails
	return table.Key{Kind: b[0], Width: b[1], Hi: binary.BigEndian.Uint64(b[2:]), Lo: binary.BigEndian.Uint64(b[10:])}
}

// fill writes an answer into the result where it is: a Decision has too many fields for
// registers, and would be copied.
func fill(d *doorward.Decision, a table.Answer) {
	d.Allowed, d.Reason = a.Verdict == table.Allowed, reason(a.Verdict)
	d.RetryAfter, d.Remaining, d.Overflow = time.Duration(a.Wait), a.Remaining, a.Overflow
}

func reason(v table.Verdict) doorward.Reason {
	switch v {
	case table.Allowed:
		return 0
	case table.Busy:
		return doorward.Busy
	}
	return doorward.Reason(v)
}
