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
