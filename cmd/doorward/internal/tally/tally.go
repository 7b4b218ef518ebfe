// Package tally counts what becomes of attempts: by door, rule, reason and outcome, and
// how long decisions take.
//
// It promises that each event is counted once, in the same fields for everybody who
// asks, by adding to a few numbers: no lock, no allocation, nothing that a caller can make
// grow. What a door or a rule counted stays over a reload that keeps its name.
//
// It gives up on consistency between fields: a Snapshot in the middle of an event may have
// one number of it and not the other. An event of a door or rule that a reload took away
// meanwhile is not counted.
package tally

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
)

// Door is a door to count for, and the rules of its guard by name, in the order of its
// configuration.
type Door struct {
	Name  string
	Guard string
	Rules []string
}

// reasons, outcomes and hows are how many words there are of each.
const (
	reasons  = int(doorward.Unavailable) + 1
	outcomes = int(doorward.Void) + 1
	hows     = int(clientip.Fallback) + 1
)

// Buckets are the upper bounds of the decision times that are told apart.
var Buckets = [...]time.Duration{
	1 * time.Microsecond, 2500 * time.Nanosecond, 5 * time.Microsecond,
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond,
}

// A Tally is safe for concurrent use.
type Tally struct {
	set atomic.Pointer[set]

	mu      sync.Mutex // of what is rare
	reloads Reloads
}

// A set is what is counted under one configuration.
type set struct {
	doors []*door
	named map[string]*door
}

type door struct {
	Door
	rules map[string]*rule // "" is none: networks that are blocked, stores that are down
	order []*rule          // as Door.Rules
	n     *doorCounts
}

type doorCounts struct {
	outcomes [outcomes]atomic.Uint64
	exempt   atomic.Uint64
	stepUp   atomic.Uint64
	hows     [hows]atomic.Uint64
	buckets  [len(Buckets) + 1]atomic.Uint64
	took     atomic.Int64 // nanoseconds, in all
}

type rule struct {
	name     string
	refused  [reasons]atomic.Uint64
	lockouts atomic.Uint64
	shadow   atomic.Uint64
}

// New returns a Tally of no doors.
func New() *Tally {
	t := new(Tally)
	t.set.Store(&set{})
	return t
}

// Configure says which doors there are from now on. Call it before the first event of a
// new door. Doors that keep their name and guard keep their counts, and so do their rules.
func (t *Tally) Configure(doors []Door) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.set.Load()
	next := &set{named: make(map[string]*door, len(doors))}
	for _, c := range doors {
		was := old.named[c.Name]
		if was != nil && was.Guard != c.Guard {
			was = nil
		}
		d := &door{Door: c, rules: make(map[string]*rule, len(c.Rules)+1), n: new(doorCounts)}
		if was != nil {
			d.n = was.n
		}
		for _, name := range append([]string{""}, c.Rules...) {
			r := &rule{name: name}
			if was != nil && was.rules[name] != nil {
				r = was.rules[name]
			}
			d.rules[name] = r
			if name != "" {
				d.order = append(d.order, r)
			}
		}
		next.doors, next.named[c.Name] = append(next.doors, d), d
	}
	t.set.Store(next)
}

// Count counts one event. It is for proxy.Config.Tell.
func (t *Tally) Count(e *proxy.Event) {
	d := t.set.Load().named[e.Door]
	if d == nil {
		return
	}
	if int(e.How) < hows {
		d.n.hows[e.How].Add(1)
	}
	v := &e.Verdict
	for i, shadow := 0, v.Shadow; shadow != 0 && i < len(d.order); i, shadow = i+1, shadow>>1 {
		if shadow&1 != 0 {
			d.order[i].shadow.Add(1)
		}
	}
	switch {
	case !v.Allowed:
		if r := d.rules[v.Rule]; r != nil && int(v.Reason) < reasons {
			r.refused[v.Reason].Add(1)
		}
	case v.Exempt:
		d.n.exempt.Add(1)
	case int(e.Settlement.Outcome) < outcomes:
		d.n.outcomes[e.Settlement.Outcome].Add(1)
		if v.StepUp {
			d.n.stepUp.Add(1)
		}
		if l := &e.Settlement.Lockout; l.For > 0 && d.rules[l.Rule] != nil {
			d.rules[l.Rule].lockouts.Add(1)
		}
	}
	d.n.took.Add(int64(e.Took))
	d.n.buckets[bucket(e.Took)].Add(1)
}

// bucket returns the place of a decision time, len(Buckets) if it is longer than all.
func bucket(took time.Duration) int {
	for i := range Buckets {
		if took <= Buckets[i] {
			return i
		}
	}
	return len(Buckets)
}

// Reloads counts attempts to change the configuration.
type Reloads struct {
	Done, Failed uint64
	Last         time.Time // of either, the zero Time if there was none
	Err          error     // of the last, if it failed
}

// Reloaded counts one reload, failed if err is not nil.
func (t *Tally) Reloaded(now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.reloads.Failed++
	} else {
		t.reloads.Done++
	}
	t.reloads.Last, t.reloads.Err = now, err
}

// A Snapshot is what was counted since the start, in the order of the configuration.
type Snapshot struct {
	Doors   []Counts
	Reloads Reloads
}

// Counts are those of one door.
type Counts struct {
	Door, Guard string
	Outcomes    [outcomes]uint64 // by doorward.Outcome; without those of exempt callers
	Exempt      uint64
	StepUp      uint64       // of Outcomes, those that were asked for a stronger proof
	Hows        [hows]uint64 // by clientip.How, of all attempts
	// Rules are those of the guard, in its order; the first one has no name, and
	// refused what no rule did: networks that are blocked.
	Rules []Rule
	// Decisions is how many took how long: up to Buckets[i], but not up to the bucket
	// before it; the last one is for those that took longer than all.
	Decisions [len(Buckets) + 1]uint64
	Took      time.Duration // of all decisions together
}

// Rule is what a rule did at one door.
type Rule struct {
	Name     string
	Refused  [reasons]uint64 // by doorward.Reason
	Lockouts uint64
	Shadow   uint64 // how often it would have refused
}

// Total returns how many attempts the rule refused.
func (r Rule) Total() (n uint64) {
	for _, m := range r.Refused {
		n += m
	}
	return n
}

// Snapshot returns what was counted so far.
func (t *Tally) Snapshot() Snapshot {
	set := t.set.Load()
	s := Snapshot{Doors: make([]Counts, 0, len(set.doors))}
	for _, d := range set.doors {
		c := Counts{Door: d.Name, Guard: d.Guard, Exempt: d.n.exempt.Load(), StepUp: d.n.stepUp.Load(), Took: time.Duration(d.n.took.Load())}
		load(c.Outcomes[:], d.n.outcomes[:])
		load(c.Hows[:], d.n.hows[:])
		load(c.Decisions[:], d.n.buckets[:])
		for _, r := range slices.Concat([]*rule{d.rules[""]}, d.order) {
			n := Rule{Name: r.name, Lockouts: r.lockouts.Load(), Shadow: r.shadow.Load()}
			load(n.Refused[:], r.refused[:])
			c.Rules = append(c.Rules, n)
		}
		s.Doors = append(s.Doors, c)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Reloads = t.reloads
	return s
}

func load(to []uint64, from []atomic.Uint64) {
	for i := range from {
		to[i] = from[i].Load()
	}
}
