// Package lockout counts failures per key and answers the last free one with a
// lockout that doubles with each further failure. It promises that no key is
// admitted more attempts than its Policy says, whether they are made one after the
// other or all at once: an attempt is counted in the step that admits it.
//
// It gives up telling keys apart once Policy.Capacity of them are remembered; from
// then on new keys share one count. It forgets everything when the process ends; package
// guard can save it.
//
// Use Attempt and Succeeded where one key guards one secret. Use Reserve and Settle
// where right attempts may come many at a time; package guard does. Where every
// request costs the same, right or wrong, a lockout is the wrong tool: limit requests
// per window instead.
//
// An operation takes time logarithmic in Capacity at worst, whatever is remembered, and
// allocates nothing.
package lockout

import (
	"fmt"
	"math"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/limiter"
	"github.com/doorward/doorward/internal/table"
)

// A Limiter applies one Policy to many keys. It is safe for concurrent use. Every
// call is judged at the latest now that the limiter has seen.
type Limiter struct {
	table limiter.Limiter[state] // holds the rules as well, so that Reload replaces them under its lock
}

// New returns a limiter that remembers nothing yet. An error names the field that
// is wrong. All memory is allocated here: 64 bytes for each key of Capacity, 32 for
// each reservation of InFlight.
func New(p Policy) (*Limiter, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.WithDefaults()
	return &Limiter{limiter.New[state](newStepper(p), table.Config{Capacity: p.Capacity, InFlight: p.InFlight, Lease: p.Lease})}, nil
}

// Policy returns the policy in force, with its defaults filled in.
func (l *Limiter) Policy() Policy { return l.table.Policy().(*stepper).policy }

// Reload replaces the policy. What was counted, locked and reserved stays, under the
// new limits. The same policy again costs nothing, another looks at every entry under the
// lock. Capacity and InFlight cannot change. An error names the field, and leaves the
// policy as it was.
func (l *Limiter) Reload(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	old, p := l.Policy(), p.WithDefaults()
	if p.Capacity != old.Capacity {
		return fmt.Errorf("lockout: Capacity cannot change in a reload, from %d to %d", old.Capacity, p.Capacity)
	}
	if p.InFlight != old.InFlight {
		return fmt.Errorf("lockout: InFlight cannot change in a reload, from %d to %d", old.InFlight, p.InFlight)
	}
	if p != old {
		l.table.Reload(newStepper(p), p.Lease)
	}
	return nil
}

// Attempt decides on one attempt of k and counts it as a failure at once. Call
// Succeeded if it was right.
func (l *Limiter) Attempt(k doorward.Key, now time.Time) doorward.Decision {
	return l.table.Attempt(k, now)
}

// Succeeded says that an attempt of k was right. With Clear it forgets all failures
// of k, newer ones too, and ends its lockout; with TakeBack it takes one failure back
// and ends the lockout that runs. A key that was charged to overflow has nothing to
// clear.
func (l *Limiter) Succeeded(k doorward.Key, now time.Time) {
	l.table.Update(k, now, func(p table.Policy[state], s *state, at int64) {
		*s = p.(*stepper).succeeded(*s, at)
	})
}

// Check answers as Attempt would, charges nothing and adds no entry.
func (l *Limiter) Check(k doorward.Key, now time.Time) doorward.Decision {
	return l.table.Check(k, now)
}

// Reserve decides on one attempt of k and, if it is allowed, keeps it pending until
// Settle. While k is not locked it is allowed if failures and pending together are
// below FreeFailures, or if nothing else is pending. A reservation that is not settled
// within Policy.Lease becomes a failure.
func (l *Limiter) Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket) {
	return l.table.Reserve(k, now)
}

// Settle ends the reservation that t names, and returns the failures that a success
// cleared. Failed and Malformed count as failures and start lockouts from now;
// Succeeded clears the failures of k, but nobody's pending reservations; Void takes
// the reservation back, and so does Succeeded with TakeBack. A ticket that was
// settled, whose lease has ended, that Unlock or Clear forgot, or that names another
// key's reservation changes nothing.
func (l *Limiter) Settle(k doorward.Key, t doorward.Ticket, o doorward.Outcome, now time.Time) doorward.Cleared {
	c, _ := l.SettleTold(k, t, o, false, now)
	return c
}

// beforeAll is older than any failure: 292 years before the zero time, at which a
// clock may well begin.
var beforeAll = time.Time{}.Add(math.MinInt64)

// ReserveApart is Reserve of an attempt that is not charged everywhere else where the
// failures of k are counted. If it becomes a failure, nothing that a success clears
// until k is forgotten can be given back: Cleared then has a First before all clocks.
func (l *Limiter) ReserveApart(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket) {
	return l.table.ReserveTagged(k, table.Tagged, now)
}

// SettleTold is Settle, of an attempt whose outcome is not counted everywhere else if
// uncounted is set (see ReserveApart), and also returns the length of the lockout that the outcome
// started: 0 if it started none, or one of the overflow entry.
func (l *Limiter) SettleTold(k doorward.Key, t doorward.Ticket, o doorward.Outcome, uncounted bool, now time.Time) (c doorward.Cleared, lockout time.Duration) {
	var tag table.Event
	if uncounted {
		tag = table.Tagged
	}
	before, at, p := l.table.SettleTagged(k, t, o, tag, now)
	if p == nil {
		return c, 0
	}
	r := p.(*stepper)
	switch {
	case o == doorward.Void:
	case o != doorward.Succeeded:
		if s := r.failed(r.alive(before, at), at); s.count >= uint32(r.free) {
			lockout = time.Duration(s.at - at)
		}
	case !r.takeBack:
		switch s := r.age(before, at); {
		case s.count == 0:
		case s.marks&apart != 0:
			c = doorward.Cleared{N: int(s.count), First: beforeAll}
		default:
			c = doorward.Cleared{N: int(s.count), First: l.table.Time(s.began)}
		}
	}
	return c, lockout
}

// GiveBack takes back the failures that a success cleared on a narrower key, if k
// surely still counts them: not if the first of them is older than the last time k
// forgot any, and not while k is locked.
func (l *Limiter) GiveBack(k doorward.Key, c doorward.Cleared, now time.Time) {
	l.GiveBackMost(k, []doorward.Cleared{c}, now)
}

// GiveBackMost is GiveBack of that one of several, which are about the same failures,
// that gives back most.
func (l *Limiter) GiveBackMost(k doorward.Key, cs []doorward.Cleared, now time.Time) {
	l.table.Update(k, now, func(p table.Policy[state], s *state, at int64) {
		before := *s
		for _, c := range cs {
			if after := p.(*stepper).giveBack(before, int64(c.N), l.table.Since(c.First), at); after.count < s.count {
				*s = after
			}
		}
	})
}

// Unlock forgets k: failures, lockout and reservations.
func (l *Limiter) Unlock(k doorward.Key) { l.table.Unlock(k) }

// Clear forgets every key and the overflow entry.
func (l *Limiter) Clear() { l.table.Clear() }

// Tracked returns how many keys have an entry of their own, forgotten ones that
// were not reclaimed yet included: at most Capacity + 2.
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

func (r *stepper) Judge(s *state, p table.Pending, now int64) table.Answer {
	return r.judge(*s, int64(p.Own), now)
}

func (r *stepper) Step(s *state, e table.Event, _, now int64) int64 {
	switch e {
	case table.Charged:
		*s = r.failed(*s, now)
	case table.Reserved: // in flight is not failed
		*s = r.alive(*s, now)
	default:
		o := doorward.Outcome(e &^ table.Tagged)
		*s = r.settled(r.alive(*s, now), o, now)
		if e&table.Tagged != 0 && (o == doorward.Failed || o == doorward.Malformed) {
			s.marks |= apart
		}
	}
	return r.forget(*s)
}

func (r *stepper) Forget(s *state) int64 { return r.forget(*s) }
