// Package reader reads what servers log: a Record for each request, or for each attempt
// that a service tells of in its own words.
//
// It promises that whose an attempt was is read only from where the server writes it,
// never from what a caller can put into a name, a path or a header; a line that could be
// read in two ways names nobody. It promises that no line is fatal, and that memory does
// not grow with the log.
//
// It gives up on what a log does not say: years and zones are assumed as Options say, a name
// in the place of an address is no address, and a log whose writer does not escape what
// callers send is read as far as the line end.
//
// It reads no clock and no file.
package reader

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward"
)

// A Record is what a log says of one request or one attempt. Byte slices are valid until
// the next call.
type Record struct {
	Time      time.Time
	Addr      netip.Addr       // the zero Addr: the log has none
	Subject   []byte           // account that was named, nil: none is known
	HTTP      bool             // a request, to be judged by door and status; else the service's own word: Outcome
	Method    []byte           // HTTP; nil for what was no request
	Host      []byte           // HTTP, if the format has it
	Target    []byte           // HTTP: the raw request target; the log's escapes are undone
	Status    int              // HTTP; 0 if none was sent
	UserAgent []byte           // if the format has it
	Location  []byte           // HTTP: if the format has the answer's Location
	Service   string           // message formats: "sshd", "dovecot", ...; "" for access logs
	Outcome   doorward.Outcome // not HTTP: Failed, Succeeded, and of doorward the others
	Repeat    int              // this many at Time; at least 1 ("message repeated N times")
	Door      string           // of doorward: the name of the door that the attempt was at
}

// Options say what a log does not.
type Options struct {
	Zone    *time.Location // of times without one; nil: UTC
	Year    int            // of the first line whose time has none; 0: as Survey finds, or the latest that puts that line not after ModTime
	ModTime time.Time      // the file's time, or now for a stream
	Pattern string         // of format "pattern"
}

// A Skip says what became of a line that gave no Record.
type Skip string

const (
	Read       Skip = ""               // it gave one, or waits for later lines
	NotAttempt Skip = "not an attempt" // understood, and no attempt
	CutOff     Skip = "cut off"
	NoTime     Skip = "no time"
	NoAddress  Skip = "no address" // or a name in its place
	Ambiguous  Skip = "ambiguous"  // two callers are possible
	Unreadable Skip = "unreadable"
	TooLong    Skip = "too long"
)

// MaxLine is how many bytes a line may have.
const MaxLine = 1 << 20

// maxTries is in how many ways a line is read at most, to see whether there are two.
const maxTries = 64

// A Reader reads one log, in files of whatever number. It is not safe for concurrent use.
type Reader struct {
	format
	rec     Record
	zone    *time.Location
	mod     time.Time
	pattern *pattern
	text    []byte // where escapes are undone, for one line
	own     int    // lines of the service, in a system log
	clf     stamp
	years   years
	held    held
	ssh     sshd
	logins  logins
}

// A format is a kind of log.
type format struct {
	name   string
	read   func(r *Reader, line []byte, emit func(*Record)) Skip
	survey bool // what a line means depends on others
}

// formats in the order of their names.
func formats() []format {
	return []format{
		{"alb", (*Reader).alb, false},
		{"authelia", (*Reader).authelia, false},
		{"authentik", (*Reader).authentik, false},
		{"caddy", (*Reader).caddy, false},
		{"combined", (*Reader).combined, false},
		{"doorward", (*Reader).doorward, false},
		{"dovecot", (*Reader).dovecot, true},
		{"envoy", (*Reader).envoy, false},
		{"gitea", (*Reader).gitea, false},
		{"grafana", (*Reader).grafana, false},
		{"haproxy", (*Reader).haproxy, false},
		{"homeassistant", (*Reader).homeAssistant, false},
		{"keycloak", (*Reader).keycloak, false},
		{"nextcloud", (*Reader).nextcloud, false},
		{"pattern", (*Reader).matched, true},
		{"postfix", (*Reader).postfix, true},
		{"sshd", (*Reader).sshd, true},
		{"traefik", (*Reader).traefik, false},
		{"vaultwarden", (*Reader).vaultwarden, false},
	}
}

// Names returns the names of all formats, sorted.
func Names() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// New returns a reader of the format of that name.
func New(name string, o Options) (*Reader, error) {
	all := formats()
	i := slices.IndexFunc(all, func(f format) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("reader: format must be one of %s, got %q", strings.Join(Names(), ", "), name)
	}
	if o.Year < 0 || o.Year > 9999 {
		return nil, fmt.Errorf("reader: Year must be 0 to 9999, got %d", o.Year)
	}
	r := &Reader{format: all[i], zone: o.Zone, mod: o.ModTime, years: years{given: o.Year}}
	if r.zone == nil {
		r.zone = time.UTC
	}
	if !r.mod.IsZero() {
		r.mod = r.mod.In(r.zone)
	}
	if name != "pattern" {
		if o.Pattern != "" {
			return nil, fmt.Errorf("reader: Pattern is for format pattern, got format %q", name)
		}
		return r, nil
	}
	var err error
	r.pattern, err = newPattern(o.Pattern)
	return r, err
}

// Surveys reports whether what a line says can depend on later ones: a year, or whether
// the log has a better line for the same attempt. If so, and if the log can be read
// twice, give all lines to Survey before the first goes to Line.
func (r *Reader) Surveys() bool { return r.survey }

// Survey looks at a line ahead of Line. See Surveys.
func (r *Reader) Survey(line []byte) {
	r.held.surveying = true
	r.line(line, func(*Record) {})
}

// Share tells readers of several files what the survey of each has found of hosts: one that
// logs its failures in one file does in all of that format. Call it after the surveys.
func Share(readers []*Reader) {
	of := map[string][]*held{}
	for _, r := range readers {
		of[r.name] = append(of[r.name], &r.held)
	}
	for _, all := range of {
		share(all)
	}
}

// begin ends the survey: all lines are seen once.
func (r *Reader) begin() {
	r.held.surveying = false
	r.held.surveyed = true
	r.years = r.years.surveyed(r.mod)
	r.ssh, r.logins = sshd{}, logins{}
}

// Line reads one line, without its line end, and calls emit for each Record that it
// completes: none, one or more. The Record is valid during the call.
func (r *Reader) Line(line []byte, emit func(*Record)) Skip {
	if r.held.surveying {
		r.begin()
	}
	return r.line(line, emit)
}

func (r *Reader) line(line []byte, emit func(*Record)) Skip {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > MaxLine {
		return TooLong
	}
	line = r.unwrap(line)
	if len(line) == 0 {
		return NotAttempt
	}
	r.text = r.text[:0]
	r.rec = Record{Repeat: 1}
	return r.read(r, line, emit)
}

// Close emits what waited for later lines.
func (r *Reader) Close(emit func(*Record)) { r.held.close(emit) }

// Detect names the format of a log by its first lines, some 64 KiB: the one that finds
// attempts or requests in most of them. Traefik's common form is combined too, and is
// taken for what is more. Of a system log without attempts it says whose lines are most.
func Detect(sample []byte) (name string, ok bool) {
	best, own := 0, 0
	var service string
	for _, f := range formats() {
		if f.name == "pattern" {
			continue
		}
		r, err := New(f.name, Options{})
		if err != nil {
			continue
		}
		n := 0
		for line := range bytes.Lines(sample) {
			if r.Line(bytes.TrimSuffix(line, []byte("\n")), func(*Record) {}) == Read {
				n++
			}
		}
		if n > 0 && n >= best {
			best, name = n, f.name
		}
		if r.own > own {
			own, service = r.own, f.name
		}
	}
	if best == 0 && own > 0 {
		return service, true
	}
	return name, best > 0
}
