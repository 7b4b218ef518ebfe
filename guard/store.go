package guard

import (
	"context"
	"time"

	"github.com/doorward/doorward"
)

// A Store keeps the counts of a guard outside of its memory, for many processes
// together. Deadlines, retries and what happens while it cannot be reached are its
// business.
type Store interface {
	// Reserve judges all charges and fills in Decision and Ticket of each. If one with
	// MayRefuse refuses, nothing stays charged and the tickets mean nothing; else each
	// that allows is charged. An error means that no decision could be made; what was
	// charged all the same becomes a failure when its lease ends.
	Reserve(ctx context.Context, charges []Charge) error
	// Settle ends the reservations that the charges name, each as its Outcome, and
	// fills in Cleared and Lockout. Charges that clear come first. A charge with GiveBack then
	// also takes back what the pair rules before it cleared, as lockout.GiveBack
	// does: of several the one that gives back most.
	Settle(ctx context.Context, charges []Charge) error
}

// A Charge is one rule applied to one attempt.
type Charge struct {
	// Rule is the rule, with name and defaults filled in. It must not be changed.
	Rule *Rule
	// Key is what is charged.
	Key doorward.Key
	// Now is when, by the clock of the process that asks.
	Now time.Time
	// MayRefuse is false for rules that only report. Known is true for rules whose
	// overflow entry must not refuse this attempt, since it comes from a known device.
	MayRefuse, Known bool
	// Given is true for rules that are given back what a success clears on the pair.
	// Reserve charges pairs after all of these, and apart (lockout.ReserveApart) if
	// one of them is not charged, or on its overflow entry, or if Apart is set;
	// Settle settles apart what has Apart.
	Given, Apart bool
	// Decision and Ticket are filled in by Reserve.
	Decision doorward.Decision
	Ticket   doorward.Ticket
	// Outcome and GiveBack are read, and Cleared and Lockout filled in, by Settle.
	Outcome  doorward.Outcome
	GiveBack bool
	Cleared  doorward.Cleared
	Lockout  time.Duration // that it started, as lockout.SettleTold has it
}

// A Checker is a Store that knows some refusals by heart.
type Checker interface {
	// Check reports whether Reserve would refuse the attempt without asking far away, and
	// fills in Decision of each charge if so. It charges nothing.
	Check(charges []Charge) (refused bool)
}

// An Operator is a Store that also shows what it counts, and forgets it, for whoever is
// on call. Rules are those of the guard; they must not be changed.
type Operator interface {
	// Stats returns the live figures of a rule, as far as the store has them.
	Stats(ctx context.Context, rule *Rule) (doorward.Stats, error)
	// Look returns what is known of a key, whether it has an entry of its own, and what
	// it would be answered. It charges and counts nothing. By the clock of the process
	// that asks it is now.
	Look(ctx context.Context, rule *Rule, k doorward.Key, now time.Time) (doorward.Entry, bool, doorward.Decision, error)
	// Unlock forgets a key: what it counted, its lockout, and its reservations.
	Unlock(ctx context.Context, rule *Rule, k doorward.Key) error
	// Clear forgets everything that a rule counted, overflow entries too.
	Clear(ctx context.Context, rule *Rule) error
}

// A Lister is an Operator that lists its entries by names of its own, since it does not
// know their keys. A name is of letters and digits, and always the same for a key of a rule.
type Lister interface {
	Operator
	// AppendEntries appends to dst a page of the live entries of a rule, at most one for
	// each place that it looks at, and returns where to go on, 0 at the end.
	AppendEntries(ctx context.Context, dst []doorward.Entry, rule *Rule, c Cursor, places int, now time.Time) ([]doorward.Entry, Cursor, error)
	// LookNamed is Look by a name; there is no entry of one that the rule does not have.
	LookNamed(ctx context.Context, rule *Rule, name string, now time.Time) (doorward.Entry, bool, doorward.Decision, error)
	// UnlockNamed is Unlock by a name.
	UnlockNamed(ctx context.Context, rule *Rule, name string) error
	// Name returns the name of a key.
	Name(rule *Rule, k doorward.Key) string
}
