// Package view says in words and tables what a daemon answered: are we under attack, who
// is locked out, was it us.
//
// It promises that a first sentence answers the question and that the figures behind it
// follow, that nothing a stranger wrote moves the cursor, and that a screen never has more
// lines than the terminal. It asks nobody: everything is a function of answers of the admin
// API. Its words are for people and change between versions; scripts take the JSON.
package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// A Look is two answers of the same daemon, the second some time after the first. What
// happened between them is what happens now.
type Look struct{ Was, Is api.Status }

// A Level says how bad it is.
type Level int

const (
	Quiet    Level = iota // nothing is refused
	Refusing              // some is, as on any day
	Attack                // more than honest people cause
)

// What honest people do not cause, at one door.
const (
	manyRefused = 10.0 // a second, and as much as is admitted or more
	manyFailed  = 10.0 // a second, and
	mostFailed  = 0.8  // of what is admitted
)

// flow is what happens at a door, per second.
type flow struct {
	name                                 string
	attempts, refused, failed, lockouts  float64
	allAttempts, allRefused, allLockouts uint64
	inFlight                             int
}

func (f flow) admitted() float64 { return f.attempts - f.refused }

// seconds is how long the look took, by the daemon's clock.
func (l Look) seconds() float64 {
	return max(l.Is.Now.Sub(l.Was.Now).Seconds(), 1e-3)
}

// same reports whether both answers count from the same start.
func (l Look) same() bool { return l.Was.Started.Equal(l.Is.Started) }

// per returns how fast a count grows. One that is lower than it was began anew.
func (l Look) per(was, is uint64) float64 {
	if is < was || !l.same() {
		was = 0
	}
	return float64(is-was) / l.seconds()
}

func sum(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

// flows returns what happens at each door, in the order of the configuration.
func (l Look) flows() (all []flow) {
	for _, is := range l.Is.Doors {
		var was api.Door
		if i := slices.IndexFunc(l.Was.Doors, func(d api.Door) bool { return d.Name == is.Name }); i >= 0 {
			was = l.Was.Doors[i]
		}
		f := flow{name: is.Name, inFlight: is.InFlight, allLockouts: is.Lockouts}
		f.allRefused = sum(is.Refused)
		f.allAttempts = sum(is.Outcomes) + f.allRefused
		f.attempts = l.per(sum(was.Outcomes)+sum(was.Refused), f.allAttempts)
		f.refused = l.per(sum(was.Refused), f.allRefused)
		f.failed = l.per(was.Outcomes["failed"], is.Outcomes["failed"])
		f.lockouts = l.per(was.Lockouts, is.Lockouts)
		all = append(all, f)
	}
	return all
}

func total(all []flow) (t flow) {
	for _, f := range all {
		t.attempts += f.attempts
		t.refused += f.refused
		t.lockouts += f.lockouts
		t.failed += f.failed
	}
	return t
}

// full returns the rules that charged strangers to the entry that all share.
func (l Look) full() (names []string) {
	for _, g := range l.Is.Guards {
		for _, r := range g.Rules {
			was := l.rule(g.Name, r.Name)
			if l.per(was.OverflowCharged+was.OverflowRefused, r.OverflowCharged+r.OverflowRefused) > 0 {
				names = append(names, ruleName(g, r.Name))
			}
		}
	}
	return names
}

// rule returns what a rule was.
func (l Look) rule(guard, name string) api.Rule {
	for _, g := range l.Was.Guards {
		if i := slices.IndexFunc(g.Rules, func(r api.Rule) bool { return r.Name == name }); g.Name == guard && i >= 0 {
			return g.Rules[i]
		}
	}
	return api.Rule{}
}

func ruleName(g api.Guard, rule string) string { return g.Name + "/" + rule }

// Judge says in one sentence how bad it is, and where from.
func (l Look) Judge() (Level, string) {
	flows := l.flows()
	if len(flows) == 0 {
		return Quiet, "No doors are guarded."
	}
	worst := slices.MaxFunc(flows, func(a, b flow) int { return cmp.Compare(a.refused, b.refused) })
	guessed := slices.MaxFunc(flows, func(a, b flow) int { return cmp.Compare(a.failed, b.failed) })
	level, text := Quiet, "Quiet: nothing is refused."
	switch {
	case worst.refused >= manyRefused && worst.refused >= worst.admitted():
		level, text = Attack, fmt.Sprintf("Under attack: %s refusals a second at door %s%s.", plain.Figure(worst.refused), plain.Clean(worst.name), l.from())
	case guessed.failed >= manyFailed && guessed.failed >= mostFailed*guessed.admitted():
		level, text = Attack, fmt.Sprintf("Under attack: %s wrong guesses a second get through at door %s, from networks below their limits.", plain.Figure(guessed.failed), plain.Clean(guessed.name))
	case worst.refused > 0:
		level, text = Refusing, fmt.Sprintf("Some refusals: %s a second at door %s%s.", plain.Figure(worst.refused), plain.Clean(worst.name), l.from())
	}
	if full := l.full(); len(full) > 0 {
		if text += " The"; level == Quiet {
			text = "Under attack: the"
		}
		level, text = Attack, fmt.Sprintf("%s table of rule %s is full, and newcomers share one budget.", text, plain.Clean(full[0]))
	}
	return level, text
}

// from says which network is refused most, if one stands out.
func (l Look) from() string {
	var sum, most float64
	name := ""
	for _, is := range l.Is.Heaviest {
		var was uint64
		if i := slices.IndexFunc(l.Was.Heaviest, func(h api.Heavy) bool { return h.Client == is.Client }); i >= 0 && l.same() {
			was = l.Was.Heaviest[i].Refused
		}
		if is.Refused <= was { // it fades
			continue
		}
		n := float64(is.Refused - was)
		sum += n
		if n > most {
			most, name = n, is.Client
		}
	}
	if refused := total(l.flows()).refused * l.seconds(); refused > 0 && most >= refused/2 {
		return ", most from " + plain.Clean(name)
	}
	if name != "" {
		return ", from many networks"
	}
	return ""
}

// Basis says what the sentence of Judge was computed from.
func (l Look) Basis() string {
	t := total(l.flows())
	share := ""
	if t.attempts > 0 {
		share = fmt.Sprintf(" (%s)", percent(t.refused, t.attempts))
	}
	return fmt.Sprintf("In the last %s: %s attempts a second, %s refused%s, %s wrong, %s lockouts.", spent(l.Is.Now.Sub(l.Was.Now)),
		plain.Figure(t.attempts), plain.Figure(t.refused), share, plain.Figure(t.failed), plain.Figure(t.lockouts))
}

// spent is a span of looking: about a second, mostly.
func spent(d time.Duration) string {
	return plain.Trim(fmt.Sprintf("%.1f", d.Seconds())) + " s"
}

func percent(part, whole float64) string {
	if whole == 0 {
		return "-"
	}
	p := 100 * part / whole
	switch {
	case part > 0 && p < 1:
		return "< 1 %"
	case part < whole && p > 99:
		return "> 99 %"
	}
	return fmt.Sprintf("%.0f %%", p)
}
