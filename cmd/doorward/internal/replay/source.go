package replay

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/lines"
	"github.com/doorward/doorward/cmd/doorward/internal/ordered"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/cmd/doorward/internal/reader"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/door"
)

// A Log is a log to be read.
type Log struct {
	Name    string
	Reader  io.Reader
	ModTime time.Time // of the file; now, for a stream
}

// samples is how many lines that could not be read are kept, and sampleBytes how much of
// each.
const (
	samples     = 5
	sampleBytes = 160
)

// A source is one log: its attempts in the order of time.
type source struct {
	replay *Replay
	file   *File
	from   *twice
	lines  *lines.Reader
	reader *reader.Reader
	queue  *ordered.Queue[event]
	emit   func(*reader.Record)
	end    bool
	fault  error // of the log or of how it is to be judged

	at   int64 // of the next attempt
	next event
	late bool
}

// open makes a log ready. An error is about that log.
func (r *Replay) open(l Log) (*source, error) {
	s := &source{replay: r, file: &File{Name: l.Name}, from: newTwice(l.Reader)}
	r.files = append(r.files, s.file)
	s.queue = ordered.New[event](int64(r.options.Reorder), MaxHeld)
	s.emit = s.take
	var err error
	if s.lines, err = lines.New(s.from); err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	sample, format := s.lines.Sample(), r.options.Format
	if format == "" || format == "auto" {
		format, _ = reader.Detect(sample)
	}
	switch s.file.Format = format; {
	case format == "" && len(sample) > 0:
		s.lines.Close()
		return nil, fmt.Errorf("%s: its first lines are of no format that is known: name it with --format", l.Name)
	case format == "":
		format = reader.Names()[0] // of an empty file
	}
	o := reader.Options{Zone: r.options.Zone, Year: r.options.Year, ModTime: l.ModTime, Pattern: r.options.Pattern}
	if s.reader, err = reader.New(format, o); err != nil {
		s.lines.Close()
		return nil, err
	}
	if s.reader.Surveys() {
		whole, err := s.survey()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		if !whole { // what it knows may be wrong
			if s.reader, err = reader.New(format, o); err != nil {
				return nil, err
			}
		}
	}
	s.from.forget()
	return s, nil
}

// survey reads the log once ahead, if the whole of it can be read again.
func (s *source) survey() (whole bool, err error) {
	for s.from.canRewind() && !whole {
		line, _, tooLong, err := s.lines.Next()
		switch {
		case err != nil:
			whole = true // as far as it can be read
		case !tooLong:
			s.reader.Survey(line)
		}
	}
	s.lines.Close()
	if err := s.from.rewind(); err != nil {
		return false, err
	}
	s.lines, err = lines.New(s.from)
	return whole, err
}

// advance finds the next attempt and reports whether there is one.
func (s *source) advance() bool {
	for {
		var ok bool
		if s.at, s.next, s.late, ok = s.queue.Pop(s.end); ok {
			return true
		}
		if s.end || s.fault != nil {
			return false
		}
		s.line()
	}
}

// line reads one line.
func (s *source) line() {
	line, _, tooLong, err := s.lines.Next()
	if err != nil {
		s.end = true
		s.lines.Close()
		s.reader.Close(s.emit)
		if err != io.EOF {
			s.fault = fmt.Errorf("%s: cannot be read any further: %w", s.file.Name, err)
		}
		return
	}
	s.file.Lines++
	s.replay.lines++
	if s.replay.lines&0xffff == 0 && s.replay.options.Progress != nil {
		s.replay.options.Progress(s.replay.lines)
	}
	skip := reader.TooLong
	if !tooLong {
		skip = s.reader.Line(line, s.emit)
	}
	switch skip {
	case reader.Read:
	case reader.NotAttempt:
		s.replay.notAttempts++
	default:
		s.replay.unread(s.file, skip, line)
	}
}

// Times beyond these cannot be reckoned with: nanoseconds would not fit.
var (
	earliest = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)
)

// An event is an attempt at a door of one policy or of several.
type event struct {
	addr               netip.Addr
	caller             uint32 // as Replay.callers has it
	agent, target      uint32 // as Replay.agents and Replay.targets have them
	account            uint32 // as Replay.accounts has it
	repeat             int32
	subject, challenge doorward.Key
	at                 [MaxPolicies]place
}

// A place is where an attempt was, and how it went.
type place struct {
	guard   uint8 // its place in Policy.Guards, and one
	outcome doorward.Outcome
}

// take judges what the log tells of.
func (s *source) take(rec *reader.Record) {
	r := s.replay
	if rec.Time.Before(earliest) || rec.Time.After(latest) {
		r.unread(s.file, reader.NoTime, nil)
		return
	}
	e := event{addr: rec.Addr, repeat: int32(max(rec.Repeat, 1))}
	name := rec.Subject
	r.requests = r.requests || rec.HTTP
	any := false
	for i, j := range r.judges {
		p, named, ok := s.judge(j, rec, &e)
		if !ok {
			continue
		}
		e.at[i], any = p, true
		if named != nil {
			name = named
		}
	}
	if !any {
		r.notAttempts++
		return
	}
	if len(name) > 0 {
		if canonical := subject.Canonical(string(name)); canonical != "" {
			e.subject = doorward.KeyFromName(canonical)
			e.account = r.accounts.place(e.subject)
		}
	}
	e.caller = r.callers.place(doorward.KeyFromAddr(rec.Addr))
	e.agent = r.agents.place(rec.UserAgent)
	target := rec.Target
	for i, b := range target {
		if b == '?' {
			target = target[:i]
			break
		}
	}
	e.target = r.targets.place(target)
	s.file.Attempts += int64(e.repeat)
	s.queue.Push(rec.Time.UnixNano(), e)
}

// judge returns where rec was by one policy, and the subject if its target names it.
func (s *source) judge(j *judge, rec *reader.Record, e *event) (p place, name []byte, ok bool) {
	switch {
	case !rec.HTTP && j.Named && rec.Door != "":
		for _, d := range j.Doors {
			if d.Name == rec.Door {
				return place{uint8(d.Guard) + 1, rec.Outcome}, nil, true
			}
		}
		return p, nil, false
	case !rec.HTTP && j.Messages < 0:
		s.fail(ErrGuard)
		return p, nil, false
	case !rec.HTTP:
		return place{uint8(j.Messages) + 1, rec.Outcome}, nil, true
	case len(j.doors) == 0:
		s.fail(ErrDoors)
		return p, nil, false
	case !j.mayKnock(rec):
		return p, nil, false
	}
	authorization := ""
	if rec.Subject != nil {
		authorization = "Basic x" // it is only asked whether there is some
	}
	method, target := string(rec.Method), string(rec.Target)
	i, match := proxy.Logged(j.doors, method, string(rec.Host), target, authorization)
	switch match {
	case door.Bad:
		if j == s.replay.judges[0] {
			s.replay.bad++
		}
		return p, nil, false
	case door.None:
		return p, nil, false
	}
	p = place{guard: uint8(j.Doors[i].Guard) + 1}
	if c := j.outcomes[i]; c != nil {
		var header map[string][]string
		if rec.Location != nil {
			s.replay.locations = true
			header = map[string][]string{"Location": {string(rec.Location)}}
		}
		p.outcome = c.Classify(rec.Status, header).Outcome
	}
	request := subject.Request{Method: method, Target: target}
	if n := j.names[i].subject; n != nil {
		found, _ := n.Name(request)
		name = append([]byte{}, found...)
	}
	if n := j.names[i].challenge; n != nil {
		if found, err := n.Name(request); err == nil {
			if found = subject.Canonical(found); found != "" {
				e.challenge = doorward.KeyFromName(found)
			}
		}
	}
	return p, name, true
}

// fail ends the replay with an error that names the log.
func (s *source) fail(err error) {
	if s.fault == nil {
		s.fault = fmt.Errorf("%s: %w", s.file.Name, err)
	}
}

// A table tells things apart, up to a bound. Place 0 is what is beyond it.
type table[K comparable] struct {
	places map[K]uint32
	most   int
	all    []K
	beyond bool
}

func newTable[K comparable](most int) table[K] {
	return table[K]{places: map[K]uint32{}, most: most, all: make([]K, 1)}
}

func (t *table[K]) place(k K) uint32 {
	if p, ok := t.places[k]; ok {
		return p
	}
	if len(t.all) > t.most {
		t.beyond = true
		return 0
	}
	p := uint32(len(t.all))
	t.places[k] = p
	t.all = append(t.all, k)
	return p
}

// A words tells texts apart as a table does, each up to maxText bytes of it.
type words struct{ table[string] }

const maxText = 200

func (t *words) place(b []byte) uint32 {
	b = b[:min(len(b), maxText)]
	if p, ok := t.places[string(b)]; ok { // looks up without making a string
		return p
	}
	return t.table.place(string(b))
}
