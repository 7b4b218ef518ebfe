package trace

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/doorward/doorward/clientip"
)

// AppendLine appends r as one line to b, with its end. It allocates nothing if b has
// room.
func (r *Record) AppendLine(b []byte) []byte { return append(r.append(b), '\n') }

// MarshalJSON returns the line without its end.
func (r Record) MarshalJSON() ([]byte, error) { return r.append(nil), nil }

func (r *Record) append(b []byte) []byte {
	b = appendTime(append(b, `{"time":`...), r.Time)
	b = appendText(append(b, `,"event":`...), string(r.Event), MaxText)
	b = member(b, "of", string(r.Of), MaxText)
	b = member(b, "door", r.Door, MaxText)
	b = member(b, "realm", r.Realm, MaxText)
	switch {
	case r.Client.IsValid():
		b = appendNetwork(append(b, `,"client":`...), r.Client)
	case r.Event.ofCaller():
		b = member(b, "client", unknown, MaxText)
	}
	if r.How != clientip.Unknown || r.Event.ofCaller() {
		b = member(b, "how", r.How.String(), MaxText)
	}
	if r.Subject != (Hash{}) {
		b = append(b, `,"subject":"`...)
		b = append(hex.AppendEncode(b, r.Subject[:]), '"')
	}
	b = member(b, "rule", r.Rule, MaxText)
	b = member(b, "per", r.Per, MaxText)
	b = member(b, "reason", r.Reason.String(), MaxText)
	b = seconds(b, "retry_after", r.RetryAfter)
	b = yes(b, "overflow", r.Overflow)
	b = member(b, "outcome", r.Outcome, MaxText)
	b = yes(b, "step_up", r.StepUp)
	for i, name := range r.Shadow[:min(len(r.Shadow), MaxShadow)] {
		if i == 0 {
			b = append(b, `,"shadow":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendText(b, name, MaxText)
	}
	if len(r.Shadow) > 0 {
		b = append(b, ']')
	}
	b = seconds(b, "lockout", r.Lockout)
	if !r.Until.IsZero() {
		b = appendTime(append(b, `,"until":`...), r.Until)
	}
	b = member(b, "method", r.Method, MaxMethod)
	b = member(b, "path", r.Path, MaxPath)
	b = member(b, "agent", r.Agent, MaxAgent)
	b = member(b, "key", r.Key, MaxText)
	if r.Network.IsValid() {
		b = appendNetwork(append(b, `,"network":`...), r.Network)
	}
	b = member(b, "action", r.Action, MaxText)
	b = member(b, "actor", r.Actor, MaxText)
	b = member(b, "why", r.Why, MaxText)
	b = member(b, "error", r.Error, MaxText)
	b = member(b, "version", r.Version, MaxText)
	b = member(b, "config", r.Config, MaxText)
	if r.Dropped > 0 {
		b = strconv.AppendUint(append(b, `,"dropped":`...), r.Dropped, 10)
	}
	return append(b, '}')
}

// key appends what goes before a value. Names are ours and need no escapes.
func key(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func member(b []byte, name, text string, most int) []byte {
	if text == "" {
		return b
	}
	return appendText(key(b, name), text, most)
}

func yes(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(key(b, name), "true"...)
}

func seconds(b []byte, name string, d time.Duration) []byte {
	if d <= 0 {
		return b
	}
	return appendSeconds(key(b, name), d)
}

// appendSeconds is exact, as a float64 would not be.
func appendSeconds(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	rest := int64(d % time.Second)
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int64(time.Second) / 10; rest > 0; unit /= 10 {
		b = append(b, byte('0'+rest/unit))
		rest %= unit
	}
	return b
}

// unknown stands for a client without an address.
const unknown = "unknown"

const timeFormat = `"2006-01-02T15:04:05.000000Z"`

// Times that the format has no digits for become the nearest that it has.
var (
	first = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(10_000, 1, 1, 0, 0, 0, -1000, time.UTC)
)

func appendTime(b []byte, t time.Time) []byte {
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}
	return t.UTC().AppendFormat(b, timeFormat)
}

func appendNetwork(b []byte, p netip.Prefix) []byte {
	b = append(b, '"')
	if p = p.Masked(); p.IsSingleIP() {
		b = p.Addr().AppendTo(b)
	} else {
		b = p.AppendTo(b)
	}
	return append(b, '"')
}

const (
	digits   = "0123456789abcdef"
	ellipsis = "..."
)

// cut returns s, or what of it goes before an ellipsis if it has more than most bytes. A
// byte that is no UTF-8 counts as the three of U+FFFD, so that what was cut once is not
// cut again.
func cut(s string, most int) (text, end string) {
	n, fits := 0, 0
	for i, r := range s {
		if n <= most-len(ellipsis) {
			fits = i
		}
		if n += utf8.RuneLen(r); n > most {
			return s[:fits], ellipsis
		}
	}
	return s, ""
}

// appendText appends s as a JSON string of printable ASCII, cut if it is longer than
// most.
func appendText(b []byte, s string, most int) []byte {
	s, end := cut(s, most)
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case ' ' <= c && c <= '~':
			b = append(b, c)
			i++
		case c < utf8.RuneSelf:
			b = appendEscape(b, rune(c))
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
				b = appendEscape(appendEscape(b, high), low)
			} else {
				b = appendEscape(b, r)
			}
			i += n
		}
	}
	b = append(b, end...)
	return append(b, '"')
}

// appendEscape appends a UTF-16 unit.
func appendEscape(b []byte, r rune) []byte {
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
