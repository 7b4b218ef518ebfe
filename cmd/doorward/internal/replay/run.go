package replay

import (
	"math"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
)

// Totals say what became of the attempts.
type Totals struct {
	Attempts int64 `json:"attempts"`
	// A failed attempt is a guess, a succeeded one was right, a void one was never
	// judged.
	AdmittedFailed    int64 `json:"admitted_failed"`
	RefusedFailed     int64 `json:"refused_failed"`
	AdmittedSucceeded int64 `json:"admitted_succeeded"`
	RefusedSucceeded  int64 `json:"refused_succeeded"`
	AdmittedVoid      int64 `json:"admitted_void"`
	RefusedVoid       int64 `json:"refused_void"`
	// Keys are the callers: an IPv4 address or an IPv6 /64 each.
	Keys int64 `json:"keys"`
	// KeysLocked are those that a lockout kept out: the next attempt after one of theirs
	// would have been refused as locked, whether it came or not.
	KeysLocked int64 `json:"keys_locked"`
	// KeysRefused are those of which an attempt was refused, for whatever reason.
	KeysRefused int64 `json:"keys_refused"`
	// Honest are those of which an attempt succeeded, had all been admitted, and
	// HonestRefused those of them of which one was refused.
	Honest        int64 `json:"honest"`
	HonestRefused int64 `json:"honest_refused"`
	Lockouts      int64 `json:"lockouts"`
	// Longest is the longest lockout that began, in seconds.
	Longest float64 `json:"longest_lockout_seconds"`
	Exempt  int64   `json:"exempt"`   // admitted uncharged, and among those admitted
	StepUp  int64   `json:"step_up"`  // asked for a stronger proof, and among those admitted
	Shared  int64   `json:"overflow"` // charged to an entry that all share since a table was full
}

// add counts one attempt.
func (t *Totals) add(o doorward.Outcome, admitted bool) {
	t.Attempts++
	to := [...]*int64{&t.RefusedFailed, &t.AdmittedFailed, &t.RefusedSucceeded, &t.AdmittedSucceeded, &t.RefusedVoid, &t.AdmittedVoid}
	i := 0
	switch o {
	case doorward.Succeeded:
		i = 2
	case doorward.Void:
		i = 4
	}
	if admitted {
		i++
	}
	*to[i]++
}

// A caller is what is known of a network.
type caller struct {
	admittedFailed, refusedFailed       uint32
	admittedSucceeded, refusedSucceeded uint32
	first, last                         int64 // attempts
	firstRefused                        int64
	lastThrough                         int64  // the last guess that was admitted
	at                                  uint64 // guards that it guessed wrong at, a bit each
	left                                uint16 // the least Remaining of attempts that were admitted
	seen, locked, refused, through      bool
}

func (c *caller) succeeded() int64 { return int64(c.admittedSucceeded) + int64(c.refusedSucceeded) }
func (c *caller) failed() int64    { return int64(c.admittedFailed) + int64(c.refusedFailed) }

// A run is one policy on its way through the attempts.
type run struct {
	judge   *judge
	n       int // its place in event.at
	totals  Totals
	callers []caller // by event.caller
	rules   [][]ruled
	time    timeline
	main    *details // of the first policy only
}

// ruled is what one rule did.
type ruled struct {
	refused  int64 // named it, as the one with the longest wait
	lockouts int64
	longest  time.Duration
}

// details are what only the first policy is asked for.
type details struct {
	agents, targets []int64 // guesses that were admitted
	accounts        []int64 // failed attempts
	subjects        int64   // attempts that named one
	challenges      int64
	gaps            gaps
}

func newRun(j *judge, n int) *run {
	r := &run{judge: j, n: n}
	for _, g := range j.guards {
		r.rules = append(r.rules, make([]ruled, len(g.Rules())))
	}
	return r
}

// attempts judges attempts in the order of time.
func (r *run) attempts(batch []timed) {
	for i := range batch {
		b := &batch[i]
		p := b.at[r.n]
		if p.guard == 0 {
			continue
		}
		for range b.repeat {
			r.attempt(&b.event, p, b.when)
		}
	}
}

func (r *run) attempt(e *event, p place, when int64) {
	g := r.judge.guards[p.guard-1]
	rules := r.rules[p.guard-1]
	now := time.Unix(0, when)
	request := guard.Request{Addr: e.addr, How: clientip.Peer, Subject: e.subject, Challenge: e.challenge}
	permit := g.Attempt(request, now)
	c := r.caller(e.caller)
	if !c.seen {
		c.seen, c.first = true, when
	}
	c.last = when
	if p.outcome == doorward.Failed || p.outcome == doorward.Malformed {
		c.at |= 1 << ((p.guard - 1) % 64)
	}
	r.totals.add(p.outcome, permit.Allowed)
	r.time.add(when, p.outcome, permit.Allowed)
	if permit.Overflow {
		r.totals.Shared++
	}
	if permit.Allowed {
		permit.Settle(p.outcome, now)
		switch {
		case permit.Exempt:
			r.totals.Exempt++
		case permit.StepUp:
			r.totals.StepUp++
		}
		switch p.outcome {
		case doorward.Succeeded:
			c.admittedSucceeded++
		case doorward.Failed, doorward.Malformed:
			c.admittedFailed++
			c.left = min(c.left, uint16(min(permit.Remaining, math.MaxUint16)))
			if permit.Remaining == 0 && !permit.Exempt {
				r.locked(g, rules, request, now, c)
			}
		}
	} else {
		if !c.refused {
			c.refused, c.firstRefused = true, when
		}
		switch p.outcome {
		case doorward.Succeeded:
			c.refusedSucceeded++
		case doorward.Failed, doorward.Malformed:
			c.refusedFailed++
		}
		c.locked = c.locked || permit.Reason == doorward.Locked
		for i, rule := range g.Rules() {
			if rule.Name == permit.Rule {
				rules[i].refused++
			}
		}
	}
	if r.main != nil {
		r.main.attempt(e, p, when, permit.Allowed, c)
	}
}

// locked notes which lockouts a failure began that left nothing.
func (r *run) locked(g *guard.Guard, rules []ruled, request guard.Request, now time.Time, c *caller) {
	found, err := g.Lookup(request, now)
	if err != nil {
		return // a guard with a Store, which these are not
	}
	any := false
	for _, f := range found {
		if f.Action != guard.Refuse || f.Decision.Allowed || f.Decision.Reason != doorward.Locked {
			continue
		}
		any = true
		r.totals.Longest = max(r.totals.Longest, f.Decision.RetryAfter.Seconds())
		for i, rule := range g.Rules() {
			if rule.Name == f.Rule {
				rules[i].lockouts++
				rules[i].longest = max(rules[i].longest, f.Decision.RetryAfter)
			}
		}
		r.totals.Lockouts++
	}
	c.locked = c.locked || any
}

// caller returns what is known of the caller at a place.
func (r *run) caller(place uint32) *caller {
	for int(place) >= len(r.callers) {
		r.callers = append(r.callers, caller{left: math.MaxUint16})
	}
	return &r.callers[place]
}

// attempt notes one of the first policy's attempts.
func (d *details) attempt(e *event, p place, when int64, admitted bool, c *caller) {
	if e.subject != (doorward.Key{}) {
		d.subjects++
	}
	if e.challenge != (doorward.Key{}) {
		d.challenges++
	}
	if p.outcome != doorward.Failed {
		return
	}
	count(&d.accounts, e.account)
	if !admitted {
		return
	}
	count(&d.agents, e.agent)
	count(&d.targets, e.target)
	if e.caller != 0 {
		if c.through {
			d.gaps.add(time.Duration(when - c.lastThrough))
		}
		c.through, c.lastThrough = true, when
	}
}

func count(of *[]int64, place uint32) {
	for int(place) >= len(*of) {
		*of = append(*of, 0)
	}
	(*of)[place]++
}

// An alone is one rule that judges by itself.
type alone struct {
	guard int // its place in the policy
	rule  int // its place in the guard
	g     *guard.Guard
	Totals
}

// newAlone returns a guard of one rule that refuses, whatever it does beside others.
func newAlone(j *judge, at, rule int) (*alone, error) {
	c := small(j.Guards[at].Config)
	r := j.guards[at].Rules()[rule]
	c.Rules = []guard.Rule{r}
	c.Rules[0].Action = guard.Refuse
	g, err := guard.New(small(c))
	if err != nil {
		return nil, err
	}
	return &alone{guard: at, rule: rule, g: g}, nil
}

func (a *alone) attempts(batch []timed) {
	for i := range batch {
		b := &batch[i]
		p := b.at[0]
		if int(p.guard)-1 != a.guard {
			continue
		}
		now := time.Unix(0, b.when)
		for range b.repeat {
			permit := a.g.Attempt(guard.Request{Addr: b.addr, How: clientip.Peer, Subject: b.subject, Challenge: b.challenge}, now)
			permit.Settle(p.outcome, now)
			a.add(p.outcome, permit.Allowed)
		}
	}
}

// gaps are the times between one caller's guesses: to the second up to a day, to the
// hour up to a year.
type gaps struct {
	seconds [86_400]uint32
	hours   [366 * 24]uint32
	n       int64
	least   time.Duration
}

func (g *gaps) add(d time.Duration) {
	if g.n == 0 || d < g.least {
		g.least = d
	}
	g.n++
	if s := int(d / time.Second); s < len(g.seconds) {
		g.seconds[s]++
		return
	}
	g.hours[min(int(d/time.Hour), len(g.hours)-1)]++
}

// median returns the middle gap, rounded down.
func (g *gaps) median() time.Duration {
	rest := (g.n + 1) / 2
	for s, n := range g.seconds {
		if rest -= int64(n); rest <= 0 {
			return time.Duration(s) * time.Second
		}
	}
	for h, n := range g.hours {
		if rest -= int64(n); rest <= 0 {
			return time.Duration(h) * time.Hour
		}
	}
	return 0
}

// within returns how many gaps are shorter than d, a whole number of seconds.
func (g *gaps) within(d time.Duration) (n int64) {
	for s := 0; s < min(int(d/time.Second), len(g.seconds)); s++ {
		n += int64(g.seconds[s])
	}
	for h := 0; h < min(int(d/time.Hour), len(g.hours)); h++ {
		n += int64(g.hours[h])
	}
	return n
}
