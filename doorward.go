// Package doorward holds the words that every part of Doorward shares: who an
// attempt is charged to (Key), what was decided (Decision, Reason), how it ended
// (Outcome), and which reservation is meant (Ticket). They are values: small,
// comparable, free of pointers and of behaviour.
//
// Doorward limits attempts at endpoints that must answer strangers: login,
// one-time codes, pairing, password reset. It decides before the costly work is
// done whether an attempt may be made, and learns afterwards how it went.
// Package lockout counts failures per key, package guard decides several such
// rules together, package httpguard puts a guard in front of a net/http handler.
//
// This package decides nothing and keeps nothing.
package doorward

import (
	"fmt"
	"strconv"
	"time"
)

// Decision is the answer to one attempt. The zero Decision refuses.
type Decision struct {
	// Allowed says whether the attempt may be made.
	Allowed bool
	// Reason says why not. It is 0 when Allowed.
	Reason Reason
	// RetryAfter is how long to wait, positive when refused and a time is known,
	// else 0. An attempt that waits exactly as long is answered anew; if nothing
	// else happened to the key, it is allowed.
	RetryAfter time.Duration
	// Remaining is how many attempts the key could still start right now, after
	// this one. It is 0 on a refusal and once the free attempts are used up.
	Remaining int
	// Overflow says that the attempt was charged to, or refused by, the one entry
	// that all keys share while the table is full.
	Overflow bool
}

// Reason says why an attempt was refused.
type Reason uint8

const (
	// Locked: the key failed too often and waits out a lockout.
	Locked Reason = iota + 1
	// Busy: other attempts of the key are in flight, and their outcome decides.
	Busy
	// Spent: the key has used its budget for this window.
	Spent
	// Ceiling: all keys together have used the budget that they share.
	Ceiling
	// Blocked: the network is blocked by configuration.
	Blocked
	// Unavailable: no decision could be made.
	Unavailable
)

var reasons = [...]string{"", "locked", "busy", "spent", "ceiling", "blocked", "unavailable"}

// String returns the word used in logs, metrics and JSON, "" for 0.
func (r Reason) String() string { return word(reasons[:], "Reason", uint8(r)) }

// MarshalText writes the word of a known reason.
func (r Reason) MarshalText() ([]byte, error) { return marshalWord(reasons[:], "Reason", uint8(r)) }

// UnmarshalText reads a word that MarshalText wrote.
func (r *Reason) UnmarshalText(text []byte) error {
	n, err := parseWord(reasons[:], "Reason", text)
	if err == nil {
		*r = Reason(n)
	}
	return err
}

// Outcome is how an attempt ended. The zero Outcome is Failed: what is not known
// to have gone well has not.
type Outcome uint8

const (
	// Failed: a wrong guess, or anything unknown.
	Failed Outcome = iota
	// Succeeded: the secret was right.
	Succeeded
	// Malformed: refused before any costly work. Charged to the caller's own keys,
	// never to keys that others share.
	Malformed
	// Void: never judged. The attempt is taken back as if it had not been made.
	Void
)

var outcomes = [...]string{"failed", "succeeded", "malformed", "void"}

// String returns the word used in logs, metrics and JSON.
func (o Outcome) String() string { return word(outcomes[:], "Outcome", uint8(o)) }

// MarshalText writes the word of a known outcome.
func (o Outcome) MarshalText() ([]byte, error) { return marshalWord(outcomes[:], "Outcome", uint8(o)) }

// UnmarshalText reads a word that MarshalText wrote.
func (o *Outcome) UnmarshalText(text []byte) error {
	n, err := parseWord(outcomes[:], "Outcome", text)
	if err == nil {
		*o = Outcome(n)
	}
	return err
}

// Ticket names one reservation for ever: no other reservation of this process or
// a later one has the same. The zero Ticket names none. Only the limiter that
// issued a ticket can read it. The top bit of B is 0 in all that limiters issue: whoever
// passes on tickets of two kinds can tell them apart by it.
type Ticket struct{ A, B uint64 }

// Cleared says how many failures a success cleared and when the first of them was
// counted.
type Cleared struct {
	N     int
	First time.Time
}

func word(words []string, kind string, n uint8) string {
	if int(n) < len(words) {
		return words[n]
	}
	return kind + "(" + strconv.Itoa(int(n)) + ")"
}

func marshalWord(words []string, kind string, n uint8) ([]byte, error) {
	if int(n) < len(words) {
		return []byte(words[n]), nil
	}
	return nil, fmt.Errorf("doorward: %s %d has no word", kind, n)
}

func parseWord(words []string, kind string, text []byte) (uint8, error) {
	for i, w := range words {
		if w == string(text) {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("doorward: %s must be one of %q, got %q", kind, words, text)
}
