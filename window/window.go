// Package window admits so many requests of a key per window of time, whatever becomes
// of them. A fixed window begins with the first request of a key and forgets all of
// them at its end; across that edge twice Policy.Limit less one may be admitted within
// one Window. A sliding one promises more: no interval of length Window ever holds more
// than Limit requests that were admitted and not taken back.
//
// The price of sliding is that requests count in slices of an eighth of Window, so that
// one is forgotten up to an eighth of Window late: the long-run rate is Limit in 9/8 of
// Window at worst. Either way the package gives up telling keys apart once
// Policy.Capacity of them are remembered; from then on new keys share one count. It
// forgets everything when the process ends.
//
// Use it where each request has its price, right or wrong: mails and messages sent,
// accounts created. Where only wrong attempts should count use package lockout or
// throttle, which leave honest callers alone.
//
// All names longer than doorward.MaxNameLength share one key, and so do all callers
// without an address. An operation takes time logarithmic in Capacity at worst,
// whatever is remembered, and allocates nothing.
package window

import (
	"fmt"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/limiter"
	"github.com/doorward/doorward/internal/table"
)

// A Limiter applies one Policy to many keys. It is safe for concurrent use. Every
// call is judged at the latest now that the limiter has seen.
type Limiter struct {
	table limiter.Limiter[state]
}

// lease is how long a reservation can be taken back.
const lease = time.Minute

// New returns a limiter that remembers nothing yet. An error names the field that is
// wrong. All memory is allocated here: 64 bytes for each key of Capacity, 32 for each
// reservation of InFlight.
func New(p Policy) (*Limiter, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.WithDefaults()
	return &Limiter{limiter.New[state](newStepper(p), table.Config{Capacity: p.Capacity, InFlight: p.InFlight, Lease: lease})}, nil
}

// Policy returns the policy in force, with its defaults filled in.
func (l *Limiter) Policy() Policy { return l.table.Policy().(*stepper).policy }

// Reload replaces the policy. What was counted and reserved stays, under the new
// limits. Where Sliding changes, or Window does with Sliding, all that counts still
// counts as if it had been admitted at the latest time before the reload; nothing older
// can be taken back then. Capacity and InFlight cannot change. An error names the
// field, and leaves the policy as it was.
func (l *Limiter) Reload(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	old, p := l.Policy(), p.WithDefaults()
	if p.Capacity != old.Capacity {
		return fmt.Errorf("window: Capacity cannot change in a reload, from %d to %d", old.Capacity, p.Capacity)
	}
	if p.InFlight != old.InFlight {
		return fmt.Errorf("window: InFlight cannot change in a reload, from %d to %d", old.InFlight, p.InFlight)
	}
	if p != old {
		l.table.Reload(newStepper(p), lease)
	}
	return nil
}

// Allow decides on one request of k and counts it if it is allowed.
func (l *Limiter) Allow(k doorward.Key, now time.Time) doorward.Decision {
	return l.table.Attempt(k, now)
}

// AllowN decides on n requests of k at once and counts all of them or none. More than
// Limit are refused without a RetryAfter, since no time will do. An n that is not
// positive is allowed, counts nothing and tells what Remaining is.
func (l *Limiter) AllowN(k doorward.Key, n int, now time.Time) doorward.Decision {
	return l.table.Try(k, now, func(p table.Policy[state], s *state, _ table.Pending, at int64) table.Answer {
		r := p.(*stepper)
		a := r.judge(*s, int64(n), at)
		if a.Verdict == table.Allowed {
			*s = r.charge(*s, int64(n), at)
		}
		return a
	})
}

// Check answers as Allow would, counts nothing and adds no entry.
func (l *Limiter) Check(k doorward.Key, now time.Time) doorward.Decision {
	return l.table.Check(k, now)
}

// Reserve is Allow of a request that Settle can take back within a minute. The key
// keeps its entry for as long.
func (l *Limiter) Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket) {
	return l.table.Reserve(k, now)
}

// Settle ends the reservation that t names. Void takes its request back if that still
// counts; every other outcome leaves it counted. It clears nothing, so what it returns
// is zero. A ticket that was settled, whose minute has passed, that Unlock or Clear
// forgot, or that names another key's reservation changes nothing.
func (l *Limiter) Settle(k doorward.Key, t doorward.Ticket, o doorward.Outcome, now time.Time) doorward.Cleared {
	if o != doorward.Void {
		o = doorward.Failed // a success is not taken back from the overflow entry either
	}
	l.table.Settle(k, t, o, now)
	return doorward.Cleared{}
}

// Unlock forgets k: its requests and reservations.
func (l *Limiter) Unlock(k doorward.Key) { l.table.Unlock(k) }

// Clear forgets every key and the overflow entry.
func (l *Limiter) Clear() { l.table.Clear() }

// Tracked returns how many keys have an entry of their own, forgotten ones that were
// not reclaimed yet included: at most Capacity + 2.
func (l *Limiter) Tracked() int { return l.table.Tracked() }

// Stats returns the live figures. It takes constant time.
func (l *Limiter) Stats() doorward.Stats { return l.table.Stats() }

// Ledger is for package guard, which shows and saves what is counted.
func (l *Limiter) Ledger() limiter.Ledger { return l.table }

// A stepper lets the table apply the rules.
type stepper struct {
	rules
	policy Policy
}

func newStepper(p Policy) *stepper { return &stepper{newRules(p), p} }

// Judge does not ask what is pending: it was counted when it was reserved.
func (r *stepper) Judge(s *state, _ table.Pending, now int64) table.Answer {
	return r.judge(*s, 1, now)
}

func (r *stepper) Step(s *state, e table.Event, began, now int64) int64 {
	switch {
	case e == table.Charged, e == table.Reserved:
		*s = r.charge(*s, 1, now)
	case r.forget(s) <= now:
		*s = state{}
	case e == table.Event(doorward.Void):
		*s = r.takeBack(*s, began, now)
	}
	return r.forget(s)
}

func (r *stepper) Forget(s *state) int64 { return r.forget(s) }

func (r *stepper) Adopt(old table.Policy[state], s state, now int64) state {
	return r.adopt(&old.(*stepper).rules, s, now)
}
