// Package explain says in numbers what the doors of a configuration admit: how many
// guesses a caller gets, how far that gets them with a secret, what honest people meet,
// and where a door is weak. It computes everything by package budget and knows no
// figures of its own.
package explain

import (
	"fmt"
	"math"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/guard"
)

// A Door is what one guard stands before.
type Door struct {
	Name     string   // of the guard: that of the realm or of the door
	Doors    []string // the doors, with their routes
	Subjects bool     // whether requests name one
	Guard    guard.Config
	Warnings []string // of its configuration, in full sentences
}

// Options say what is asked.
type Options struct {
	Networks int             // addresses of a botnet
	Spans    []time.Duration // at least one
	Secret   Secret
	Chances  bool // asked for, also where rules count requests and not guesses
	Compare  bool
}

// A Report answers for all doors.
type Report struct {
	Secret    Secret       `json:"secret"`
	Doors     []DoorReport `json:"doors"`
	Elsewhere []Elsewhere  `json:"elsewhere,omitempty"`
}

// A DoorReport answers for one guard.
type DoorReport struct {
	Name       string            `json:"name"`
	Doors      []string          `json:"doors,omitempty"`
	Rules      []string          `json:"rules"`
	Refuse     []string          `json:"rules_that_refuse"` // the others only report
	Targets    []TargetReport    `json:"targets"`
	FirstWaits []FirstWait       `json:"first_waits"`
	Closers    []Closers         `json:"closers"`
	Warnings   []string          `json:"warnings"`
	Weaknesses []budget.Weakness `json:"weaknesses"`
	chances    bool              // whether they are of interest
}

// A TargetReport says what callers get at one thing that is guessed at.
type TargetReport struct {
	Target  string         `json:"target"` // one_challenge, one_subject, every_subject
	Callers []CallerReport `json:"callers"`
}

// A CallerReport says what one caller gets.
type CallerReport struct {
	Caller string `json:"caller"`
	// AtOnce is a burst, LongRun what patience gets.
	AtOnce  Most    `json:"at_once"`
	Spans   []Most  `json:"spans"`
	LongRun LongRun `json:"long_run"`
	// OnePercent is how long it takes until the secret is guessed with a chance of 1 %,
	// in seconds, null if longer than 292 years.
	OnePercent *float64 `json:"one_percent_seconds"`
}

// Most is the most attempts in a span.
type Most struct {
	Span     string  `json:"span,omitempty"`
	Seconds  float64 `json:"span_seconds,omitempty"`
	Attempts *int64  `json:"attempts"` // null if nothing limits them
	Rule     string  `json:"rule,omitempty"`
	// Played is what play against the guard reached, null if there were too many.
	Played *int64   `json:"played"`
	Chance *float64 `json:"chance"` // null if nothing limits the attempts
}

// LongRun is a rate.
type LongRun struct {
	PerDay *float64 `json:"per_day"` // null if nothing limits it
	Rule   string   `json:"rule,omitempty"`
}

// A FirstWait says when somebody who mistypes has to wait.
type FirstWait struct {
	Who     string  `json:"who"`
	After   int64   `json:"after"`
	Seconds float64 `json:"wait_seconds"`
	Rule    string  `json:"rule"`
	All     bool    `json:"right_ones_count"`
	wait    time.Duration
}

// Closers says how many callers use up what others share.
type Closers struct {
	Rule   string `json:"rule"`
	Shared string `json:"shared"`
	Caller string `json:"caller"`
	AtOnce int64  `json:"at_once"`
	Day    int64  `json:"in_a_day"`
}

// Elsewhere is a control that people run elsewhere.
type Elsewhere struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	Settings string `json:"settings"`
	Note     string `json:"note,omitempty"`
	Source   string `json:"source"`
	AtOnce   Most   `json:"at_once"`
	Spans    []Most `json:"spans"`
}

// Doors explains doors. An error names the door and is that of its guard.
func Doors(doors []Door, o Options) (Report, error) {
	r := Report{Secret: o.Secret, Doors: []DoorReport{}}
	for _, d := range doors {
		b, err := budget.NewDoor(d.Guard)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", d.Name, err)
		}
		r.Doors = append(r.Doors, explain(d, b, o))
	}
	if o.Compare {
		r.Elsewhere = elsewhere(o)
	}
	return r, nil
}

// Warnings returns what is to be said about doors in one line each: the warnings of
// their configuration and their weak spots.
func Warnings(doors []Door) (all []string, err error) {
	for _, d := range doors {
		b, err := budget.NewDoor(d.Guard)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		all = append(all, d.Warnings...)
		for _, w := range b.Weaknesses(d.Subjects) {
			all = append(all, d.Name+": "+w.String())
		}
	}
	return all, nil
}

type caller struct {
	name string
	budget.Caller
}

// bots is where the botnet is among callers.
const bots = 5

// callers are those that a door is explained for.
func callers(o Options) []caller {
	return []caller{
		{"one IPv4 address", budget.Address},
		{"one IPv4 /24", budget.Network24},
		{"one IPv6 /64", budget.Subscriber},
		{"one IPv6 /48", budget.Site},
		{"one IPv6 /32", budget.Provider},
		{plain.Count(int64(o.Networks)) + " IPv4 addresses", budget.Botnet(o.Networks)},
	}
}

func explain(d Door, b *budget.Door, o Options) DoorReport {
	out := DoorReport{
		Name: d.Name, Doors: d.Doors, Refuse: []string{}, chances: o.Chances,
		FirstWaits: []FirstWait{}, Closers: []Closers{},
		Warnings: append([]string{}, d.Warnings...), Weaknesses: append([]budget.Weakness{}, b.Weaknesses(d.Subjects)...),
	}
	charged := map[guard.Per]bool{}
	for _, r := range b.Rules() {
		out.Rules = append(out.Rules, r.Name)
		if r.Action == guard.Refuse {
			charged[r.Per] = true
			out.Refuse = append(out.Refuse, r.Name)
			out.chances = out.chances || r.Window == nil
		}
	}
	onePercent := o.Secret.guesses(0.01)
	report := func(name string, t budget.Target, who []caller) {
		out.Targets = append(out.Targets, target(name, t, b, who, onePercent, o))
	}
	named := charged[guard.Subject] || charged[guard.Pair] || charged[guard.Challenge]
	if charged[guard.Challenge] {
		report("one_challenge", budget.OneChallenge, callers(o))
	}
	if named {
		who := callers(o)
		if charged[guard.Device] {
			// Its token may be used from anywhere.
			who = append(who, caller{"a stolen device", budget.Caller{Networks: o.Networks, Bits: 32, Device: true}})
		}
		report("one_subject", budget.OneSubject, who)
	}
	report("every_subject", budget.EverySubject, callers(o))
	out.FirstWaits = append(out.FirstWaits, firstWaits(b, named)...)
	out.Closers = append(out.Closers, closers(b)...)
	return out
}

func target(name string, t budget.Target, b *budget.Door, who []caller, onePercent int64, o Options) TargetReport {
	out := TargetReport{Target: name}
	for _, c := range who {
		r := CallerReport{Caller: c.name, AtOnce: most(b, c.Caller, t, 1, o)}
		r.AtOnce.Span, r.AtOnce.Seconds = "", 0
		for _, span := range o.Spans {
			r.Spans = append(r.Spans, most(b, c.Caller, t, span, o))
		}
		if rate, rule := b.Rate(c.Caller, t); rule != "" {
			perDay := rate.In(24 * time.Hour)
			r.LongRun = LongRun{&perDay, rule}
		}
		if d, ok := b.Shortest(c.Caller, t, onePercent); ok {
			seconds := d.Seconds()
			r.OnePercent = &seconds
		}
		out.Callers = append(out.Callers, r)
	}
	return out
}

func most(b *budget.Door, c budget.Caller, t budget.Target, span time.Duration, o Options) Most {
	limit := b.Most(c, t, span)
	m := newMost(span)
	if limit.Rule == "" {
		return m
	}
	m.set(limit.Most, o.Secret)
	m.Rule = limit.Rule
	if played, ok := b.Play(c, t, span); ok {
		m.Played = &played
	}
	return m
}

func newMost(span time.Duration) Most {
	return Most{Span: config.ShowDuration(span), Seconds: span.Seconds()}
}

func (m *Most) set(attempts int64, s Secret) {
	chance := s.Chance(attempts)
	m.Attempts, m.Chance = &attempts, &chance
}

func firstWaits(b *budget.Door, named bool) (all []FirstWait) {
	try := func(who string, c budget.Caller, t budget.Target) {
		if w := b.FirstWait(c, t); w.Rule != "" {
			all = append(all, FirstWait{who, w.After, w.Wait.Seconds(), w.Rule, w.All, w.Wait})
		}
	}
	if named {
		try("one person at one account", budget.Address, budget.OneSubject)
	}
	try("all at one IPv4 address", budget.Address, budget.EverySubject)
	try("all in one IPv6 /64", budget.Subscriber, budget.EverySubject)
	return all
}

// closers finds out who can use up the keys that strangers share.
func closers(b *budget.Door) (all []Closers) {
	for _, r := range b.Rules() {
		shared := ""
		switch {
		case r.Action != guard.Refuse:
			continue
		case r.Per == guard.Subject:
			shared = "an account"
		case r.Per == guard.Everyone || r.Throttle != nil:
			shared = "the door"
		case r.Per == guard.Network && r.V4 > 0 && r.V4 < 32:
			shared = fmt.Sprintf("an IPv4 /%d", r.V4)
		case r.Per == guard.Network && r.V6 > 0 && r.V6 < 64:
			shared = fmt.Sprintf("an IPv6 /%d", r.V6)
		default:
			continue
		}
		c := caller{"IPv4 addresses", budget.Address}
		if r.Per == guard.Network && r.V4 < 0 {
			c = caller{"IPv6 /64s", budget.Subscriber}
		}
		if day := b.Closers(r.Name, c.Caller, 24*time.Hour); day > 0 {
			all = append(all, Closers{r.Name, shared, c.name, b.Closers(r.Name, c.Caller, 1), day})
		}
	}
	return all
}

func elsewhere(o Options) (all []Elsewhere) {
	for _, c := range budget.Elsewhere() {
		e := Elsewhere{Name: c.Name, Key: c.Key, Settings: c.Settings, Note: c.Note, Source: c.Source}
		of := func(span time.Duration) Most {
			m := newMost(span)
			if n := c.Most(span); n < math.MaxInt64 {
				m.set(n, o.Secret)
			}
			return m
		}
		e.AtOnce = of(1)
		e.AtOnce.Span, e.AtOnce.Seconds = "", 0
		for _, span := range o.Spans {
			e.Spans = append(e.Spans, of(span))
		}
		all = append(all, e)
	}
	return all
}

// A Secret is what is guessed: one of so many that are as likely as each other.
type Secret struct {
	Name string  `json:"name"`
	Of   float64 `json:"possible"`
	Live int     `json:"live"` // how many of them are right at the same time
}

// Chance returns how likely it is that one of n guesses, no two of them the same, is
// right. Where codes change meanwhile it is a little less.
func (s Secret) Chance(n int64) float64 {
	if n <= 0 {
		return 0
	}
	// Guesses among secrets or secrets among guesses: the chance is the same.
	few, many := min(n, int64(s.Live)), float64(max(n, int64(s.Live)))
	if many+float64(few) > s.Of {
		return 1
	}
	log := 0.0 // of the chance that all are wrong
	for i := range few {
		log += math.Log1p(-many / (s.Of - float64(i)))
	}
	return -math.Expm1(log)
}

// guesses returns the fewest guesses with at least this chance.
func (s Secret) guesses(chance float64) int64 {
	low, high := int64(0), int64(math.MaxInt64) // Chance(low) < chance <= Chance(high)
	for high-low > 1 {
		if mid := low + (high-low)/2; s.Chance(mid) < chance {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
