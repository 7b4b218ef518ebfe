// Package throttle counts refusals in fixed windows, per source and for all sources
// together, and answers no once either budget is spent. The budget per source stops one
// caller, the one for all bounds the work that refusals cost, however many callers
// there are. It promises that neither is exceeded by attempts made with Reserve, one
// after the other or all at once, and that what one source is refused by its own limit
// uses up nobody else's.
//
// It gives up three things. While the budget for all is spent, everybody is refused
// until its window ends: keep it far above what one network can bring about. Attempts
// in flight use up both budgets, so sources that start attempts and leave them
// unsettled keep others Busy, at worst for a minute each time; Global / PerSource such
// sources suffice. And a fixed window forgets all at once: twice the limit less one may
// be refused within one Window across its end. Once Policy.Sources keys are remembered,
// new ones share one count. All is forgotten when the process ends.
//
// Use it in front of work that costs the same for a right and a wrong attempt, where
// success need not be limited. Against guessing at one secret use package lockout;
// where every request counts, whatever its outcome, use package window.
//
// An operation takes time logarithmic in Sources at worst, whatever is remembered, and
// allocates nothing.
package throttle

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
	table limiter.Limiter[tally]
}

// lease is how long a reservation may stay unsettled before it counts as refused.
const lease = time.Minute

// New returns a limiter that remembers nothing yet. A value of p that is not positive
// takes its default, one that is too large (see Policy.Validate) the largest there
// is. All memory is allocated here: 64 bytes for each of Sources, 32 for each
// reservation of InFlight.
func New(p Policy) *Limiter {
	p = p.WithDefaults()
	p.PerSource = min(p.PerSource, MaxPerSource)
	p.Sources = min(p.Sources, table.MaxCapacity)
	p.InFlight = min(p.InFlight, table.MaxCapacity)
	return &Limiter{limiter.New[tally](newStepper(p, &tally{}), table.Config{Capacity: p.Sources, InFlight: p.InFlight, Lease: lease})}
}

// Policy returns the policy in force, with its defaults filled in.
func (l *Limiter) Policy() Policy { return l.table.Policy().(*stepper).policy }

// Reload replaces the policy. What was counted and reserved stays, under the new
// limits. Sources and InFlight cannot change. An error names the field, and leaves the
// policy as it was.
func (l *Limiter) Reload(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	old, p := l.table.Policy().(*stepper), p.WithDefaults()
	if p.Sources != old.policy.Sources {
		return fmt.Errorf("throttle: Sources cannot change in a reload, from %d to %d", old.policy.Sources, p.Sources)
	}
	if p.InFlight != old.policy.InFlight {
		return fmt.Errorf("throttle: InFlight cannot change in a reload, from %d to %d", old.policy.InFlight, p.InFlight)
	}
	if p != old.policy {
		l.table.Reload(newStepper(p, old.all), lease)
	}
	return nil
}

// Blocked says whether an attempt of k may be made, and charges nothing. It is refused
// as Spent while k has spent PerSource, as Ceiling while all keys together have spent
// Global, and as Busy while attempts in flight may yet spend one of them. Call Refused,
// RefusedBySource or Accepted when the outcome is known. Where attempts may come many
// at a time, use Reserve and Settle instead: between Blocked and Refused a burst passes.
func (l *Limiter) Blocked(k doorward.Key, now time.Time) doorward.Decision {
	return l.table.Check(k, now)
}

// Check is Blocked, by the name that it has in the other policies.
func (l *Limiter) Check(k doorward.Key, now time.Time) doorward.Decision {
	return l.table.Check(k, now)
}

// Refused charges a refusal to k and to all keys together, whatever was spent before.
func (l *Limiter) Refused(k doorward.Key, now time.Time) {
	l.table.Try(k, now, func(p table.Policy[tally], s *tally, _ table.Pending, at int64) table.Answer {
		p.Step(s, table.Event(doorward.Failed), at, at)
		return table.Answer{Verdict: table.Allowed}
	})
}

// RefusedBySource charges a refusal to k alone: for what was refused before it cost any
// work.
func (l *Limiter) RefusedBySource(k doorward.Key, now time.Time) {
	l.table.Try(k, now, func(p table.Policy[tally], s *tally, _ table.Pending, at int64) table.Answer {
		p.Step(s, table.Event(doorward.Malformed), at, at)
		return table.Answer{Verdict: table.Allowed}
	})
}

// Accepted forgets the refusals of k. What all keys share stays as it is, and so does
// the entry that a key is charged to while the table is full.
func (l *Limiter) Accepted(k doorward.Key, now time.Time) {
	l.table.Update(k, now, func(p table.Policy[tally], s *tally, at int64) {
		p.Step(s, table.Event(doorward.Succeeded), at, at)
	})
}

// Reserve decides on one attempt of k as Blocked does and, if it is allowed, counts it
// towards both limits until Settle. A reservation that is not settled within a minute
// is Refused.
func (l *Limiter) Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket) {
	return l.table.Reserve(k, now)
}

// Settle ends the reservation that t names: Failed is Refused, Malformed is
// RefusedBySource, Succeeded is Accepted, Void takes it back. It returns the refusals
// that a success cleared. A ticket that was settled, whose minute has passed, that
// Unlock or Clear forgot, or that names another key's reservation changes nothing.
func (l *Limiter) Settle(k doorward.Key, t doorward.Ticket, o doorward.Outcome, now time.Time) doorward.Cleared {
	if o > doorward.Void {
		o = doorward.Failed // unknown
	}
	before, _, p := l.table.Settle(k, t, o, now)
	if p == nil || o != doorward.Succeeded || before.count == 0 {
		return doorward.Cleared{}
	}
	return doorward.Cleared{N: int(before.count), First: l.table.Time(before.began)}
}

// Unlock forgets k: its refusals and reservations, not what it was charged for all.
func (l *Limiter) Unlock(k doorward.Key) { l.table.Unlock(k) }

// Clear forgets every key, the overflow entry, and what all keys spent together.
func (l *Limiter) Clear() { l.table.Clear() }

// Tracked returns how many keys have an entry of their own, forgotten ones that were
// not reclaimed yet included: at most Sources + 2.
func (l *Limiter) Tracked() int { return l.table.Tracked() }

// Stats returns the live figures. It takes constant time.
func (l *Limiter) Stats() doorward.Stats { return l.table.Stats() }

// Ledger is for package guard, which shows and saves what is counted.
func (l *Limiter) Ledger() limiter.Ledger { return l.table }

// A stepper lets the table apply the rules.
type stepper struct {
	rules
	policy Policy
	all    *tally // of all keys; the table's lock guards it, and a reload hands it on
}

func newStepper(p Policy, all *tally) *stepper {
	return &stepper{rules{int64(p.PerSource), int64(p.Global), int64(p.Window)}, p, all}
}

func (r *stepper) Judge(s *tally, p table.Pending, now int64) table.Answer {
	return r.judge(*s, *r.all, p, now)
}

func (r *stepper) Step(s *tally, e table.Event, _, now int64) int64 {
	*s = r.current(*s, now)
	if e != table.Reserved { // in flight is not refused
		*s, *r.all = r.settled(*s, *r.all, doorward.Outcome(e), now)
	}
	return r.end(*s)
}

func (r *stepper) Forget(s *tally) int64 { return r.end(*s) }

func (r *stepper) Reset() { *r.all = tally{} }
