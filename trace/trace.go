// Package trace is the format in which Doorward writes down what happened at its doors:
// JSON lines, one object a line. The audit log is in it, so is the stream of events of the
// admin API, and what replays attempts reads it.
//
// It promises that a record is one line, whatever callers put into it: all that is not
// printable ASCII is escaped, texts are cut at a length, keys come once each and in one order, and
// no text can end its string. So a program that matches lines from their start, as
// fail2ban does, is never told something by a caller. Parse(AppendLine(r)) is r, as far
// as a line holds it: times to the microsecond, texts up to their length, in UTF-8.
//
// It gives up to say what a caller really sent: bytes that are no UTF-8 become U+FFFD,
// and names of subjects are keyed hashes. It is not a log of requests: there is no
// status, no size, no query.
//
// # Fields
//
// A field that has nothing to say is left out. Durations are seconds, a decimal number
// with at most nine decimals. Times are RFC 3339, in UTC, with six decimals.
//
//	time         when it happened
//	event        what happened, one of the constants of type Event
//	of           dropped: which event was not written
//	door         at which door
//	realm        whose rules it has, if that is not the door itself
//	client       refused, settled, locked: the network that it is charged to, such as
//	             192.0.2.7, 2001:db8::/64 or, redacted, 192.0.2.0/24; "unknown" if there
//	             is no address
//	how          how the address was found: peer, header, all-trusted, fallback, unknown
//	subject      what was guessed at, if that was read before the refusal: 32 hexadecimal
//	             digits, see Hash
//	rule         which rule refused or locked
//	per          what that rule charges: network, network6/48, subject, pair, ...
//	reason       why: locked, busy, spent, ceiling, blocked, unavailable
//	retry_after  how long to wait
//	overflow     true: by the entry that all keys share while a table is full
//	outcome      settled: failed, succeeded, malformed, void, exempt
//	step_up      true: a stronger proof was asked for
//	shadow       rules that would have refused, were they not shadows
//	lockout      locked: how long
//	until        locked, listed: until when
//	method       of the request, at most 16 bytes
//	path         of the request, without its query, at most 200 bytes
//	agent        of the request, at most 200 bytes
//	key          unlocked: which key was forgotten
//	network      listed, unlisted: which network
//	action       listed, unlisted: exempt or block
//	actor        who changed something
//	why          the reason that the actor gave
//	error        why a reload failed, a request was malformed, or the process stopped
//	version      started: of the program
//	config       started, reloaded: a digest of the configuration
//	dropped      how many lines of this event (or of) and door were not written before
//	             this one and since that was last said
//
// Fields may be added, and events. A reader skips what it does not know.
package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
)

// A Record is one line. Its fields are in the order of the line; the package comment says
// which event has which.
type Record struct {
	Time       time.Time // years 0 to 9999
	Event      Event
	Of         Event
	Door       string
	Realm      string
	Client     netip.Prefix // the zero Prefix is "unknown" where an event has a client
	How        clientip.How
	Subject    Hash
	Rule       string
	Per        string
	Reason     doorward.Reason
	RetryAfter time.Duration // what is negative is left out
	Overflow   bool
	Outcome    string
	StepUp     bool
	Shadow     []string // at most MaxShadow
	Lockout    time.Duration
	Until      time.Time
	Method     string
	Path       string
	Agent      string
	Key        string
	Network    netip.Prefix
	Action     string
	Actor      string
	Why        string
	Error      string
	Version    string
	Config     string
	Dropped    uint64
}

// An Event is what happened. Others than these may come.
type Event string

const (
	Refused  Event = "refused"  // an attempt was refused
	Settled  Event = "settled"  // an attempt ended
	Locked   Event = "locked"   // a failure started a lockout
	Unlocked Event = "unlocked" // somebody made a key forgotten
	Cleared  Event = "cleared"  // somebody made all keys of a door or a rule forgotten
	Listed   Event = "listed"   // somebody exempted or blocked a network
	Unlisted Event = "unlisted" // that ended
	Reloaded Event = "reloaded" // the configuration was read again; with an error: was not
	Started  Event = "started"
	Stopped  Event = "stopped"
	Dropped  Event = "dropped" // lines were not written, and none came to say so
)

// ofCaller reports whether a line has a client, if only an unknown one.
func (e Event) ofCaller() bool { return e == Refused || e == Settled || e == Locked }

// How long texts and lines may be, in bytes. A longer text is cut, and ends in "...".
const (
	MaxText   = 500
	MaxMethod = 16
	MaxPath   = 200
	MaxAgent  = 200
	MaxShadow = 16      // rules
	MaxLine   = 1 << 17 // no line is longer, its end included
)

// A Hash stands for a subject. The zero Hash is none.
type Hash [16]byte

// HashOf returns the first 16 bytes of HMAC-SHA-256 over the bytes of k (AppendBinary)
// under a secret. Who does not know the secret cannot test a guess at the name. The Unknown key
// has the zero Hash.
func HashOf(secret []byte, k doorward.Key) (h Hash) {
	if k == (doorward.Key{}) {
		return h
	}
	b, _ := k.MarshalBinary()
	mac := hmac.New(sha256.New, secret)
	mac.Write(b)
	copy(h[:], mac.Sum(nil))
	return h
}

// String returns 32 hexadecimal digits, "" for the zero Hash.
func (h Hash) String() string {
	if h == (Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}
