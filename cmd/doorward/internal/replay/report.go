package replay

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/guard"
)

// A Report is what a replay found. Its JSON form is documented in docs/replay.md; fields
// are added, and none changes what it means. The totals on top are those of the first
// policy.
type Report struct {
	Policy string `json:"policy"`
	Totals
	KeysExact  bool             `json:"keys_exact"` // false: there were more than MaxCallers
	First      *time.Time       `json:"first"`      // attempt; nil if there was none
	Last       *time.Time       `json:"last"`
	Lines      int64            `json:"lines"`
	NotAttempt int64            `json:"not_attempts"` // lines that were understood and are no attempt at a door
	Bad        int64            `json:"bad_requests"` // of these, requests that would be answered with 400
	Late       int64            `json:"late"`         // attempts that came too late to be put in order
	Unreadable int64            `json:"unreadable"`   // lines
	Kinds      map[string]int64 `json:"unreadable_by_kind"`
	Samples    []Sample         `json:"unreadable_samples"`
	Files      []*File          `json:"files"`
	Rules      []Rule           `json:"rules"`
	HonestList []HonestCaller   `json:"honest_refused_list"`
	Networks   []Network        `json:"networks"`       // the heaviest
	Wider      []Network        `json:"wider_networks"` // IPv4 /24 and IPv6 /48
	Guessers   Guessers         `json:"guessers"`
	Verdict    Verdict          `json:"verdict"`
	Notes      []string         `json:"notes"` // what is to be known of these figures
	Timeline   Timeline         `json:"timeline"`
	Compared   []Compared       `json:"compared"`
	Suggested  *Suggestions     `json:"suggested,omitempty"`
}

// A File is one log.
type File struct {
	Name     string `json:"name"`
	Format   string `json:"format"`
	Lines    int64  `json:"lines"`
	Attempts int64  `json:"attempts"`
}

// A Sample is a line that could not be read.
type Sample struct {
	Kind string `json:"kind"`
	File string `json:"file"`
	Line int64  `json:"line"`
	Text string `json:"text"`
}

// A Rule is what one rule of the first policy did.
type Rule struct {
	Guard  string `json:"guard"`
	Name   string `json:"name"`
	Per    string `json:"per"`
	Action string `json:"action"` // refuse, step_up or shadow
	Limit  string `json:"limit"`
	// Refused is how many attempts it refused, of several that refused as the one with
	// the longest wait.
	Refused  int64   `json:"refused"`
	Lockouts int64   `json:"lockouts"`
	Longest  float64 `json:"longest_lockout_seconds"`
	// Exercised is false if the rule applied to no attempt, since the log does not name
	// what it charges.
	Exercised bool `json:"exercised"`
	// Alone is what it would have refused as the only rule, shadow or not.
	AloneFailed    *int64 `json:"alone_refused_failed,omitempty"`
	AloneSucceeded *int64 `json:"alone_refused_succeeded,omitempty"`
}

// An HonestCaller had a success and was refused.
type HonestCaller struct {
	Network           string    `json:"network"`
	AdmittedSucceeded int64     `json:"admitted_succeeded"`
	RefusedSucceeded  int64     `json:"refused_succeeded"`
	AdmittedFailed    int64     `json:"admitted_failed"`
	RefusedFailed     int64     `json:"refused_failed"`
	FirstRefused      time.Time `json:"first_refused"`
}

// A Network is what came from one.
type Network struct {
	Network        string `json:"network"`
	Callers        int64  `json:"callers"`
	AdmittedFailed int64  `json:"admitted_failed"`
	RefusedFailed  int64  `json:"refused_failed"`
	Succeeded      int64  `json:"succeeded"` // admitted or refused
	Locked         bool   `json:"locked"`    // at least one of its callers
}

func (n *Network) attempts() int64 { return n.AdmittedFailed + n.RefusedFailed + n.Succeeded }

// Guessers are the callers that guessed wrong and had no success, and what those have in
// common that were admitted.
type Guessers struct {
	Callers  int64 `json:"callers"`
	Guesses  int64 `json:"guesses"`
	Admitted int64 `json:"admitted"`
	Through  int64 `json:"callers_admitted"`
	Wider    int64 `json:"wider_networks"` // that they came from
	Once     int64 `json:"callers_once"`   // that guessed once
	// first guesses are those of a caller, or of a wider network, at a guard.
	first, firstWider int64
	Most              int64 `json:"most_by_one"` // guesses
	// LeastLeft is how many more failures the caller had that came nearest to being
	// refused, of those that never were.
	LeastLeft *int64 `json:"least_left"`
	// Gaps are between admitted guesses of one caller, of all callers.
	Gaps        int64    `json:"gaps"`
	LeastGap    *float64 `json:"least_gap_seconds"`
	MedianGap   *float64 `json:"median_gap_seconds"`
	GapsMinute  int64    `json:"gaps_below_minute"`
	GapsHour    int64    `json:"gaps_below_hour"`
	Agents      []Share  `json:"user_agents"` // of all admitted guesses
	Targets     []Share  `json:"paths"`
	Accounts    int64    `json:"accounts"`          // that were guessed at
	MostAtOne   int64    `json:"most_at_one"`       // guesses at one account
	AccountsAll bool     `json:"accounts_exact"`    // false: there were more than MaxSubjects
	AgentsAll   bool     `json:"user_agents_exact"` // false: more than MaxNames, the rest is not told apart
}

// A Share is how many admitted guesses have something in common.
type Share struct {
	Value   string `json:"value"`
	Guesses int64  `json:"guesses"`
}

// Compared is what another policy would have done.
type Compared struct {
	Policy string `json:"policy"`
	Totals
	Timeline Timeline `json:"timeline"`
}

// How long lists are.
const (
	maxHonest   = 1000
	maxNetworks = 100
	maxShares   = 10
)

// Report returns what was found.
func (r *Replay) Report() *Report {
	main := r.runs[0]
	main.sum()
	p := &Report{
		Policy: main.judge.Name, Totals: main.totals, KeysExact: !r.callers.beyond,
		Lines: r.lines, NotAttempt: r.notAttempts, Bad: r.bad, Late: r.late,
		Kinds: map[string]int64{}, Samples: append([]Sample{}, r.samples...), Files: r.files,
		Timeline: main.time.report(), Compared: []Compared{}, HonestList: []HonestCaller{},
		Networks: []Network{}, Wider: []Network{}, Rules: []Rule{}, Notes: []string{},
	}
	for kind, n := range r.unreadable {
		p.Kinds[string(kind)] = n
		p.Unreadable += n
	}
	p.First, p.Last = main.span()
	for _, run := range r.runs[1:] {
		run.sum()
		p.Compared = append(p.Compared, Compared{run.judge.Name, run.totals, run.time.report()})
	}
	r.rules(p)
	r.honest(p)
	wider := r.networks(p)
	r.guessers(p, wider)
	p.Verdict = verdict(p)
	r.notes(p)
	return p
}

// sum fills in the totals that are of callers.
func (r *run) sum() {
	t := &r.totals
	t.Keys, t.KeysLocked, t.KeysRefused, t.Honest, t.HonestRefused = 0, 0, 0, 0, 0
	for i := 1; i < len(r.callers); i++ {
		c := &r.callers[i]
		if !c.seen {
			continue // at another policy's doors
		}
		t.Keys++
		t.KeysLocked += one(c.locked)
		t.KeysRefused += one(c.refused)
		t.Honest += one(c.succeeded() > 0)
		t.HonestRefused += one(c.succeeded() > 0 && c.refused)
	}
}

// span returns the times of the first and the last attempt.
func (r *run) span() (first, last *time.Time) {
	for i := range r.callers {
		c := &r.callers[i]
		if !c.seen {
			continue
		}
		if f := time.Unix(0, c.first).UTC(); first == nil || f.Before(*first) {
			first = &f
		}
		if l := time.Unix(0, c.last).UTC(); last == nil || l.After(*last) {
			last = &l
		}
	}
	return first, last
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func (r *Replay) rules(p *Report) {
	main := r.runs[0]
	for at, g := range main.judge.guards {
		for i, rule := range g.Rules() {
			d := main.rules[at][i]
			exercised := true
			switch rule.Per {
			case guard.Subject, guard.Pair:
				exercised = main.main.subjects > 0
			case guard.Challenge:
				exercised = main.main.challenges > 0
			case guard.Device:
				exercised = false
			}
			row := Rule{
				Guard: main.judge.Guards[at].Name, Name: rule.Name, Per: perOf(rule), Action: actions[rule.Action], Limit: limitOf(rule),
				Refused: d.refused, Lockouts: d.lockouts, Longest: d.longest.Seconds(), Exercised: exercised || p.Attempts == 0,
			}
			if r.options.Alone && r.isAlone() {
				row.AloneFailed, row.AloneSucceeded = &p.RefusedFailed, &p.RefusedSucceeded
			}
			for _, a := range r.alone {
				if a.guard == at && a.rule == i {
					failed, succeeded := a.RefusedFailed, a.RefusedSucceeded
					row.AloneFailed, row.AloneSucceeded = &failed, &succeeded
				}
			}
			p.Rules = append(p.Rules, row)
		}
	}
}

var actions = map[guard.Action]string{guard.Refuse: "refuse", guard.StepUp: "step_up", guard.Shadow: "shadow"}

// perOf says what a rule charges, as configuration files have it.
func perOf(r guard.Rule) string {
	switch {
	case r.Per != guard.Network:
		return r.Per.String()
	case r.V4 == 32 && r.V6 == 64:
		return "network"
	case r.V4 < 0:
		return fmt.Sprintf("network6/%d", r.V6)
	case r.V6 < 0:
		return fmt.Sprintf("network4/%d", r.V4)
	}
	return fmt.Sprintf("network4/%d-6/%d", r.V4, r.V6)
}

// limitOf says in short what a rule allows.
func limitOf(r guard.Rule) string {
	show := config.ShowDuration
	switch {
	case r.Lockout != nil:
		p := r.Lockout
		decays := ""
		if p.Decay {
			decays = ", decays"
		}
		return fmt.Sprintf("lockout %d / %s / %s / %s%s", p.FreeFailures, show(p.Window), show(p.FirstLockout), show(p.MaxLockout), decays)
	case r.Throttle != nil:
		p := r.Throttle
		return fmt.Sprintf("throttle %d, all %d / %s", p.PerSource, p.Global, show(p.Window))
	}
	p := r.Window
	return fmt.Sprintf("window %d / %s", p.Limit, show(p.Window))
}

func (r *Replay) honest(p *Report) {
	for i := 1; i < len(r.runs[0].callers); i++ {
		c := &r.runs[0].callers[i]
		if c.succeeded() == 0 || !c.refused {
			continue
		}
		p.HonestList = append(p.HonestList, HonestCaller{
			Network:           r.callers.all[i].String(),
			AdmittedSucceeded: int64(c.admittedSucceeded), RefusedSucceeded: int64(c.refusedSucceeded),
			AdmittedFailed: int64(c.admittedFailed), RefusedFailed: int64(c.refusedFailed),
			FirstRefused: time.Unix(0, c.firstRefused).UTC(),
		})
	}
	slices.SortStableFunc(p.HonestList, func(a, b HonestCaller) int {
		return cmp.Or(cmp.Compare(b.RefusedSucceeded, a.RefusedSucceeded), cmp.Compare(b.RefusedFailed, a.RefusedFailed), a.FirstRefused.Compare(b.FirstRefused))
	})
	p.HonestList = p.HonestList[:min(len(p.HonestList), maxHonest)]
}

// networks lists the heaviest, and returns the wider network of each caller.
func (r *Replay) networks(p *Report) map[uint32]doorward.Key {
	var all []Network
	sums := map[doorward.Key]*Network{}
	wider := map[uint32]doorward.Key{}
	for i := 1; i < len(r.runs[0].callers); i++ {
		c := &r.runs[0].callers[i]
		if !c.seen {
			continue
		}
		key := r.callers.all[i]
		n := Network{
			Network: key.String(), Callers: 1, AdmittedFailed: int64(c.admittedFailed), RefusedFailed: int64(c.refusedFailed),
			Succeeded: c.succeeded(), Locked: c.locked,
		}
		all = append(all, n)
		if len(all) >= 4*maxNetworks {
			all = heaviest(all)
		}
		var addr netip.Addr
		if prefix := key.Prefix(); prefix.IsValid() {
			addr = prefix.Addr()
		}
		site := doorward.KeyFromPrefix(addr, 24, 48)
		wider[uint32(i)] = site
		s := sums[site]
		if s == nil {
			s = &Network{Network: site.String()}
			sums[site] = s
		}
		s.Callers++
		s.AdmittedFailed += n.AdmittedFailed
		s.RefusedFailed += n.RefusedFailed
		s.Succeeded += n.Succeeded
		s.Locked = s.Locked || n.Locked
	}
	p.Networks = append(p.Networks, heaviest(all)...)
	all = all[:0]
	for _, s := range sums {
		all = append(all, *s)
	}
	p.Wider = append(p.Wider, heaviest(all)...)
	return wider
}

// heaviest sorts networks by their attempts and cuts the list.
func heaviest(all []Network) []Network {
	slices.SortFunc(all, func(a, b Network) int {
		return cmp.Or(cmp.Compare(b.attempts(), a.attempts()), cmp.Compare(a.Network, b.Network))
	})
	return all[:min(len(all), maxNetworks)]
}

func (r *Replay) guessers(p *Report, wider map[uint32]doorward.Key) {
	g := Guessers{AccountsAll: !r.accounts.beyond, AgentsAll: !r.agents.beyond, Agents: []Share{}, Targets: []Share{}}
	sites := map[doorward.Key]uint64{}
	main := r.runs[0]
	for i := 1; i < len(main.callers); i++ {
		c := &main.callers[i]
		if c.failed() == 0 || c.succeeded() > 0 {
			continue
		}
		g.Callers++
		g.Guesses += c.failed()
		g.Admitted += int64(c.admittedFailed)
		g.Through += one(c.admittedFailed > 0)
		g.Once += one(c.failed() == 1)
		g.Most = max(g.Most, c.failed())
		g.first += int64(bits.OnesCount64(c.at))
		sites[wider[uint32(i)]] |= c.at
		if left := int64(c.left); !c.refused && c.admittedFailed > 0 && (g.LeastLeft == nil || left < *g.LeastLeft) {
			g.LeastLeft = &left
		}
	}
	g.Wider = int64(len(sites))
	for _, at := range sites {
		g.firstWider += int64(bits.OnesCount64(at))
	}
	d := main.main
	if g.Gaps = d.gaps.n; g.Gaps > 0 {
		least, median := d.gaps.least.Seconds(), d.gaps.median().Seconds()
		g.LeastGap, g.MedianGap = &least, &median
		g.GapsMinute, g.GapsHour = d.gaps.within(time.Minute), d.gaps.within(time.Hour)
	}
	g.Agents = append(g.Agents, shares(d.agents, r.agents.all)...)
	g.Targets = append(g.Targets, shares(d.targets, r.targets.all)...)
	for place, n := range d.accounts {
		if place > 0 && n > 0 {
			g.Accounts++
			g.MostAtOne = max(g.MostAtOne, n)
		}
	}
	p.Guessers = g
}

// shares returns the most frequent texts. What was not told apart has none.
func shares(counts []int64, texts []string) (all []Share) {
	for place, n := range counts {
		if place > 0 && n > 0 && texts[place] != "" {
			all = append(all, Share{texts[place], n})
		}
	}
	slices.SortFunc(all, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Guesses, a.Guesses), cmp.Compare(a.Value, b.Value))
	})
	return all[:min(len(all), maxShares)]
}
