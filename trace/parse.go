package trace

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
)

// Parse reads a line, its end or not. Fields that it does not know are skipped, whatever they
// hold. A value of another type or form than the package comment says, a field
// that is there twice, and a line without time or event are errors that name the field.
func Parse(line []byte) (Record, error) {
	var r Record
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return Record{}, errors.New("trace: a line must be a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		name, _ := t.(string)
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return Record{}, fmt.Errorf("trace: a line must be a JSON object: %w", err)
		}
		if seen[name] {
			return Record{}, fmt.Errorf("trace: %s must be there once", shown(name))
		}
		seen[name] = true
		if want := r.set(name, value); want != "" {
			return Record{}, fmt.Errorf("trace: %s must be %s, got %s", shown(name), want, shown(string(value)))
		}
	}
	if _, err := dec.Token(); err != nil {
		return Record{}, fmt.Errorf("trace: a line must be a JSON object: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Record{}, errors.New("trace: a line must be one JSON object, there is more")
	}
	for _, name := range []string{"time", "event"} {
		if !seen[name] {
			return Record{}, fmt.Errorf("trace: %s is missing", name)
		}
	}
	return r, nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Record) UnmarshalJSON(b []byte) error {
	n, err := Parse(b)
	if err == nil {
		*r = n
	}
	return err
}

// Records reads the lines of a file, one after the other. A line that does not parse, or
// is longer than MaxLine, is an error that names its number, and the next line is read.
// Empty lines are skipped. An error of in ends it.
func Records(in io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		buf := bufio.NewReaderSize(in, MaxLine)
		for n := 1; ; n++ {
			line, err := buf.ReadSlice('\n')
			long := err == bufio.ErrBufferFull
			for err == bufio.ErrBufferFull {
				_, err = buf.ReadSlice('\n')
			}
			switch {
			case err != nil && err != io.EOF:
				yield(Record{}, fmt.Errorf("trace: line %d: %w", n, err))
				return
			case long:
				if !yield(Record{}, fmt.Errorf("trace: line %d: must be at most %d bytes", n, MaxLine)) {
					return
				}
			case len(bytes.TrimSpace(line)) > 0:
				r, bad := Parse(line)
				if bad != nil {
					bad = fmt.Errorf("trace: line %d: %s", n, strings.TrimPrefix(bad.Error(), "trace: "))
				}
				if !yield(r, bad) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// set reads one field. It returns what the value must be instead, if it is wrong.
func (r *Record) set(name string, raw json.RawMessage) (want string) {
	to := r.field(name)
	if to == nil {
		return ""
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "JSON"
	}
	text, isText := v.(string)
	_, isNumber := v.(float64)
	var ok bool
	switch to := to.(type) {
	case *string:
		*to, ok, want = text, isText, "a string"
	case *Event:
		*to, ok, want = Event(text), isText && text != "", "a string that is not empty"
	case *bool:
		*to, ok = v.(bool)
		want = "true or false"
	case *[]string:
		*to, ok = texts(v)
		want = "a list of strings"
	case *uint64:
		n, err := strconv.ParseUint(string(raw), 10, 64)
		*to, ok, want = n, isNumber && err == nil, "a whole number"
	case *time.Duration:
		*to, ok = parseSeconds(string(raw))
		ok, want = ok && isNumber, "seconds such as 0.5"
	case *time.Time:
		t, err := time.Parse(time.RFC3339Nano, text)
		*to, ok, want = t.UTC(), isText && err == nil, "a time such as 2026-01-02T03:04:05.678901Z"
	case *netip.Prefix:
		*to, ok = parseNetwork(text)
		ok, want = ok && isText, "a network such as 192.0.2.7 or 2001:db8::/64"
	case *Hash:
		b, err := hex.DecodeString(text)
		ok, want = isText && err == nil && copy(to[:], b) == len(b) && len(b) == len(to), "32 hexadecimal digits"
	case *doorward.Reason:
		ok, want = isText && to.UnmarshalText([]byte(text)) == nil, "locked, busy, spent, ceiling, blocked or unavailable"
	case *clientip.How:
		ok, want = isText && to.UnmarshalText([]byte(text)) == nil, "unknown, peer, header, all-trusted or fallback"
	}
	if ok {
		return ""
	}
	return want
}

// field returns what a field is read into, nil if it is not known.
func (r *Record) field(name string) any {
	switch name {
	case "time":
		return &r.Time
	case "event":
		return &r.Event
	case "of":
		return &r.Of
	case "door":
		return &r.Door
	case "realm":
		return &r.Realm
	case "client":
		return &r.Client
	case "how":
		return &r.How
	case "subject":
		return &r.Subject
	case "rule":
		return &r.Rule
	case "per":
		return &r.Per
	case "reason":
		return &r.Reason
	case "retry_after":
		return &r.RetryAfter
	case "overflow":
		return &r.Overflow
	case "outcome":
		return &r.Outcome
	case "step_up":
		return &r.StepUp
	case "shadow":
		return &r.Shadow
	case "lockout":
		return &r.Lockout
	case "until":
		return &r.Until
	case "method":
		return &r.Method
	case "path":
		return &r.Path
	case "agent":
		return &r.Agent
	case "key":
		return &r.Key
	case "network":
		return &r.Network
	case "action":
		return &r.Action
	case "actor":
		return &r.Actor
	case "why":
		return &r.Why
	case "error":
		return &r.Error
	case "version":
		return &r.Version
	case "config":
		return &r.Config
	case "dropped":
		return &r.Dropped
	}
	return nil
}

func texts(v any) (list []string, ok bool) {
	items, ok := v.([]any)
	for _, item := range items {
		text, isText := item.(string)
		list, ok = append(list, text), ok && isText
	}
	return list, ok
}

// parseSeconds reads what appendSeconds writes, and is as exact.
func parseSeconds(s string) (time.Duration, bool) {
	whole, part, fraction := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || n > math.MaxInt64/uint64(time.Second) || fraction && (part == "" || len(part) > 9) {
		return 0, false
	}
	ns, err := strconv.ParseUint((part + "000000000")[:9], 10, 63)
	d := time.Duration(n)*time.Second + time.Duration(ns)
	return d, err == nil && d >= 0
}

func parseNetwork(s string) (netip.Prefix, bool) {
	switch p, err := netip.ParsePrefix(s); {
	case err == nil:
		return p, p == p.Masked()
	case s == unknown:
		return netip.Prefix{}, true
	}
	addr, err := netip.ParseAddr(s)
	return netip.PrefixFrom(addr, addr.BitLen()), err == nil && addr.Zone() == ""
}

// shown cuts what is shown of a line, and escapes what is not printable.
func shown(s string) string {
	b := appendText(nil, s, 60)
	b = b[1 : len(b)-1]
	return string(bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(`\"`), []byte(`"`)), []byte(`\\`), []byte(`\`)))
}
