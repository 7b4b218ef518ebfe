package reader

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward"
)

// A pattern is a regular expression whose named groups are the fields of a Record. It
// matches a line as a whole, so that nothing a caller sends can stand for the beginning.
type pattern struct {
	re     *regexp.Regexp
	groups map[string]int
	http   bool
}

// groups that a pattern may have.
var groupNames = []string{"time", "addr", "user", "method", "host", "target", "status", "agent", "location", "outcome", "service"}

// succeeded are the words of an outcome group that are no failure.
var succeeded = []string{"success", "successful", "succeeded", "accepted", "ok", "true", "granted", "allowed", "pass", "passed"}

func newPattern(s string) (*pattern, error) {
	if s == "" {
		return nil, errors.New(`reader: format pattern needs a Pattern, such as '(?P<time>\S+) (?P<addr>\S+) (?P<outcome>ok|failed).*'`)
	}
	if _, err := regexp.Compile(s); err != nil {
		return nil, fmt.Errorf("reader: Pattern must be a regular expression: %w", err)
	}
	re := regexp.MustCompile(`\A(?:` + s + `)\z`)
	p := &pattern{re: re, groups: map[string]int{}}
	for i, name := range re.SubexpNames() {
		if name == "" {
			continue
		}
		if !slices.Contains(groupNames, name) {
			return nil, fmt.Errorf("reader: Pattern must have groups of the names %s, got %q", strings.Join(groupNames, ", "), name)
		}
		if _, twice := p.groups[name]; twice {
			return nil, fmt.Errorf("reader: Pattern must have each group once, got %q twice", name)
		}
		p.groups[name] = i
	}
	for _, name := range []string{"time", "addr"} {
		if _, ok := p.groups[name]; !ok {
			return nil, fmt.Errorf("reader: Pattern must have a group (?P<%s>...), got %q", name, s)
		}
	}
	_, method := p.groups["method"]
	_, target := p.groups["target"]
	_, status := p.groups["status"]
	_, outcome := p.groups["outcome"]
	p.http = method && target
	switch {
	case method != target:
		return nil, errors.New("reader: Pattern must have the groups method and target both, or neither, got one")
	case p.http && outcome:
		return nil, errors.New("reader: Pattern must have the group outcome, or method and target, got all")
	case status && !p.http:
		return nil, errors.New("reader: Pattern must have the groups method and target where it has status, got neither")
	}
	return p, nil
}

// matched reads a line by the pattern. Without an outcome group every match is a failure.
func (r *Reader) matched(line []byte, emit func(*Record)) Skip {
	m := r.pattern.re.FindSubmatchIndex(line)
	if m == nil {
		return NotAttempt
	}
	group := func(name string) []byte {
		i, ok := r.pattern.groups[name]
		if !ok || m[2*i] < 0 {
			return nil
		}
		return dash(line[m[2*i]:m[2*i+1]])
	}
	rec := &r.rec
	var ok bool
	if rec.Time, ok = r.anyTime(group("time")); !ok {
		return NoTime
	}
	if rec.Addr = parseNode(group("addr")); !rec.Addr.IsValid() {
		return NoAddress
	}
	rec.Subject = group("user")
	rec.UserAgent = group("agent")
	rec.Service = string(group("service"))
	if r.pattern.http {
		rec.HTTP = true
		rec.Method, rec.Host, rec.Target, rec.Location = group("method"), group("host"), group("target"), group("location")
		if s := group("status"); s != nil {
			if rec.Status, ok = parseStatus(s); !ok {
				return Unreadable
			}
		}
		emit(rec)
		return Read
	}
	if slices.Contains(succeeded, strings.ToLower(string(group("outcome")))) {
		rec.Outcome = doorward.Succeeded
	}
	emit(rec)
	return Read
}

// anyTime reads a time in any of the forms that some format has: those of parseTime, of
// the common log, of the system log, and seconds since 1970.
func (r *Reader) anyTime(s []byte) (time.Time, bool) {
	if len(s) < 10 {
		return time.Time{}, false
	}
	if len(s) == 26 && s[2] == '/' {
		return r.clf.time(s)
	}
	if t, ok := r.parseTime(s); ok {
		return t, true
	}
	if len(s) == 24 && s[2] == '/' {
		return r.haproxyTime(s)
	}
	if monthOf(s[:3]) != 0 {
		var t time.Time
		if _, skip := r.stampOf(append(slices.Clip(s), ' '), &t); skip == Read {
			return t, true
		}
		return time.Time{}, false
	}
	return unixTime(s)
}
