package doorward

import "time"

// Stats are the live figures of a limiter. Tracked and Pending are what is now, the
// others count since the limiter was made.
type Stats struct {
	// Tracked is how many keys have an entry of their own, forgotten ones that were not
	// reclaimed yet included.
	Tracked int
	// Pending is how many reservations are in flight.
	Pending int
	// OverflowCharged is how many attempts were charged to the overflow entry, and
	// OverflowRefused how often it said no: to attempts, and to a Check before one.
	OverflowCharged, OverflowRefused uint64
	// Reclaimed is how many forgotten entries made room for a new key.
	Reclaimed uint64
	// PoolFull is how many reservations were refused because too many were in flight.
	PoolFull uint64
}

// Plus returns the sum of both, field by field.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		s.Tracked + o.Tracked, s.Pending + o.Pending,
		s.OverflowCharged + o.OverflowCharged, s.OverflowRefused + o.OverflowRefused,
		s.Reclaimed + o.Reclaimed, s.PoolFull + o.PoolFull,
	}
}

// Entry is what a limiter remembers of one key. Times are wall time.
type Entry struct {
	// Key is whose entry it is: Unknown for the overflow entry.
	Key Key
	// Name is what a store calls the key, if it knows no other: Key is Unknown then.
	Name string
	// Overflow says that it is the entry that all keys share while the table is full.
	Overflow bool
	// Count is how many failures, refusals or requests count now.
	Count int
	// Pending is how many reservations are in flight.
	Pending int
	// LockedUntil is when the key's own lockout, or the window that it has spent,
	// ends. It is zero if the key is not locked.
	LockedUntil time.Time
	// ForgottenAt is when nothing is remembered any more, as if nothing were pending.
	// It is zero if nothing is remembered.
	ForgottenAt time.Time
}

// Show says which entries are meant.
type Show uint8

const (
	ShowAll     Show = iota // all that are live
	ShowLocked              // those that are locked
	ShowPending             // those with reservations in flight
)

// Includes reports whether e is meant.
func (s Show) Includes(e Entry) bool {
	switch s {
	case ShowLocked:
		return !e.LockedUntil.IsZero()
	case ShowPending:
		return e.Pending > 0
	}
	return true
}
