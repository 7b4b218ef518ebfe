package replay

import (
	"errors"
	"fmt"
	"sync"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/reader"
	"github.com/doorward/doorward/guard"
)

// A Replay takes the attempts of logs through policies. It is not safe for concurrent use.
type Replay struct {
	options Options
	judges  []*judge
	runs    []*run
	alone   []*alone

	callers  table[doorward.Key]
	accounts table[doorward.Key]
	agents   words
	targets  words

	files       []*File
	lines       int64
	notAttempts int64
	bad         int64 // requests that are answered with 400
	late        int64 // attempts that came too late to be put in order
	requests    bool  // whether the log is of requests
	locations   bool  // whether the log has the Location of an answer
	unreadable  map[reader.Skip]int64
	samples     []Sample

	kept    []kept // for Suggest
	keptAll bool
}

// A timed event is one that has its place in the order of time.
type timed struct {
	when int64
	event
}

// New returns a replay of up to MaxPolicies policies.
func New(o Options, policies ...Policy) (*Replay, error) {
	if len(policies) == 0 || len(policies) > MaxPolicies {
		return nil, fmt.Errorf("replay: policies must be 1 to %d, got %d", MaxPolicies, len(policies))
	}
	r := &Replay{
		options: o, unreadable: map[reader.Skip]int64{}, keptAll: o.Suggest,
		callers: newTable[doorward.Key](MaxCallers), accounts: newTable[doorward.Key](MaxSubjects),
		agents: words{newTable[string](MaxNames)}, targets: words{newTable[string](MaxNames)},
	}
	for i, p := range policies {
		j, err := newJudge(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		r.judges = append(r.judges, j)
		r.runs = append(r.runs, newRun(j, i))
	}
	r.runs[0].main = &details{}
	if !o.Alone {
		return r, nil
	}
	for at, g := range r.judges[0].guards {
		if r.isAlone() {
			break
		}
		for i := range g.Rules() {
			a, err := newAlone(r.judges[0], at, i)
			if err != nil {
				return nil, err
			}
			r.alone = append(r.alone, a)
		}
	}
	return r, nil
}

// isAlone reports whether the first policy has one rule, which refuses.
func (r *Replay) isAlone() bool {
	guards := r.judges[0].guards
	return len(guards) == 1 && len(guards[0].Rules()) == 1 && guards[0].Rules()[0].Action == guard.Refuse
}

// batch is how many attempts go to the policies at a time.
const batch = 2048

// Run reads the logs to their ends and takes their attempts through the policies, in the
// order of time over all of them. Errors of logs that cannot be read are joined, and
// what could be read counts.
func (r *Replay) Run(logs ...Log) error {
	var faults []error
	var opened, sources []*source
	var readers []*reader.Reader
	for _, l := range logs {
		s, err := r.open(l)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		opened, readers = append(opened, s), append(readers, s.reader)
	}
	reader.Share(readers)
	for _, s := range opened {
		if s.advance() {
			sources = append(sources, s)
		} else if s.fault != nil {
			faults = append(faults, s.fault)
		}
	}
	out := newPlayers(r)
	now, begun := int64(0), false
	for len(sources) > 0 {
		// The first log has the next attempt, up to the first of another.
		first, until := earliestOf(sources)
		s := sources[first]
		for {
			if s.late || begun && s.at < now {
				r.late += int64(s.next.repeat)
				s.at = max(s.at, now)
			}
			now, begun = s.at, true
			r.keep(s.at, &s.next)
			out.play(timed{s.at, s.next})
			if !s.advance() {
				if s.fault != nil {
					faults = append(faults, s.fault)
				}
				sources = append(sources[:first], sources[first+1:]...)
				break
			}
			if s.at > until {
				break
			}
		}
	}
	out.end()
	return errors.Join(faults...)
}

// earliestOf returns the place of the source with the earliest attempt, the first of
// several, and when the next of another is.
func earliestOf(sources []*source) (first int, until int64) {
	const never = 1<<63 - 1
	until = never
	for i, s := range sources {
		switch {
		case i == 0:
		case s.at < sources[first].at:
			until, first = sources[first].at-1, i // those of the log before come first
		default:
			until = min(until, s.at)
		}
	}
	return first, until
}

// players take batches through all runs, beside the reading of the next.
type players struct {
	sets    [][]func([]timed)
	batch   []timed
	playing []timed
	wait    sync.WaitGroup
}

func newPlayers(r *Replay) *players {
	p := &players{batch: make([]timed, 0, batch), playing: make([]timed, 0, batch)}
	for _, run := range r.runs {
		p.sets = append(p.sets, []func([]timed){run.attempts})
	}
	var alone []func([]timed)
	for _, a := range r.alone {
		alone = append(alone, a.attempts)
	}
	p.sets = append(p.sets, alone)
	return p
}

func (p *players) play(t timed) {
	p.batch = append(p.batch, t)
	if len(p.batch) == cap(p.batch) {
		p.flush()
	}
}

func (p *players) flush() {
	p.wait.Wait()
	p.batch, p.playing = p.playing[:0], p.batch
	for _, set := range p.sets {
		p.wait.Go(func() {
			for _, play := range set {
				play(p.playing)
			}
		})
	}
}

func (p *players) end() {
	p.flush()
	p.wait.Wait()
}

// A kept attempt is what Suggest needs of one.
type kept struct {
	when    int64
	caller  uint32
	outcome doorward.Outcome
}

// MaxKept is how many attempts Suggest takes.
const MaxKept = 4 << 20

func (r *Replay) keep(when int64, e *event) {
	if !r.keptAll || e.at[0].guard == 0 {
		return
	}
	if len(r.kept)+int(e.repeat) > MaxKept || e.caller == 0 {
		r.keptAll, r.kept = false, nil
		return
	}
	for range e.repeat {
		r.kept = append(r.kept, kept{when, e.caller, e.at[0].outcome})
	}
}

// unread counts a line that could not be read, and keeps some.
func (r *Replay) unread(f *File, skip reader.Skip, line []byte) {
	r.unreadable[skip]++
	n := 0
	for _, s := range r.samples {
		if s.Kind == string(skip) {
			n++
		}
	}
	if n < samples && line != nil {
		r.samples = append(r.samples, Sample{string(skip), f.Name, f.Lines, string(line[:min(len(line), sampleBytes)])})
	}
}
