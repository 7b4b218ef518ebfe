package replay

import (
	"fmt"
	"strings"

	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// A Verdict says whether rules on addresses can stop the guessers at all.
type Verdict struct {
	// Helpless is true if no rule on addresses can: one try for each address, for ever,
	// would admit half of the guesses or more.
	Helpless bool `json:"no_rule_on_addresses_can_help"`
	// Floor is how many guesses get through any rule on addresses that lets each try
	// once, and FloorWider the same of /24 and /48 networks. Guards count apart: once at each.
	Floor      int64    `json:"admitted_at_one_try_per_address"`
	FloorWider int64    `json:"admitted_at_one_try_per_wider_network"`
	Words      []string `json:"words"`
}

// fewGuesses is how many guesses are too few to say anything of.
const fewGuesses = 20

func verdict(p *Report) Verdict {
	g := &p.Guessers
	v := Verdict{Floor: g.first, FloorWider: g.firstWider, Words: []string{}}
	say := func(format string, args ...any) { v.Words = append(v.Words, fmt.Sprintf(format, args...)) }
	n := plain.Count[int64]
	if g.Guesses == 0 {
		say("Nobody guessed wrong without a success as well: there is nobody to stop.")
		return v
	}
	say("%s that had no success made %s: %s on average, %s at most, and %s came once. They came from %s.",
		many(g.Callers, "caller"), many(g.Guesses, "guess"), ratio(g.Guesses, g.Callers), n(g.Most), n(g.Once), many(g.Wider, "network")+" /24 or /48")
	if g.Gaps > 0 {
		say("Of %s between two guesses of one caller %s below a minute and %s below an hour; the median is %s, the shortest %s.",
			many(g.Gaps, "gap"), isAre(g.GapsMinute), n(g.GapsHour), seconds(*g.MedianGap), seconds(*g.LeastGap))
	}
	switch {
	case g.Admitted == 0:
		say("None of these guesses got through.")
		return v
	case g.Admitted < g.Guesses:
		say("%s of these guesses got through (%s), from %s. %s of them were the first of their caller, which no rule on addresses stops.",
			n(g.Admitted), percent(g.Admitted, g.Guesses), many(g.Through, "caller"), n(g.Through))
	default:
		text := "All of these guesses got through: none of these callers came back fast enough"
		if g.Gaps == 0 {
			text = "All of these guesses got through: none of these callers came back"
		}
		if g.LeastLeft != nil && *g.LeastLeft > 0 {
			text += fmt.Sprintf(". The nearest that one of them came to a refusal was %s short of it", many(*g.LeastLeft, "failure"))
		}
		say("%s.", text)
	}
	if g.Guesses < fewGuesses {
		return v
	}
	v.Helpless = 2*v.Floor >= g.Guesses
	if !v.Helpless {
		return v
	}
	tries := "one try for ever"
	if g.first > g.Callers {
		tries = "one try for ever at each door, which count apart"
	}
	say("No rule on addresses can stop this: if each address had %s, %s of %s guesses would still get through (%s).",
		tries, n(v.Floor), n(g.Guesses), percent(v.Floor, g.Guesses))
	if 2*v.FloorWider >= g.Guesses {
		say("Nor can one on wider networks: at one try for each /24 or /48, %s would (%s), and neighbours would pay for it.", n(v.FloorWider), percent(v.FloorWider, g.Guesses))
	} else {
		say("On wider networks, one try for each /24 or /48 would let %s through (%s), at the price of all their neighbours.", n(v.FloorWider), percent(v.FloorWider, g.Guesses))
	}
	switch {
	case g.Accounts > 0:
		say("What can: rules on what is guessed at. %s guessed at, %s at most at one of them: see per: subject.", accounts(g), many(g.MostAtOne, "guess"))
	default:
		say("What can: rules on what is guessed at (per: subject), which this log does not name; a ceiling for everyone (per: everyone); a second proof; or what the guessers have in common, below.")
	}
	return v
}

func accounts(g *Guessers) string {
	if g.Accounts == 1 {
		return "1 account was"
	}
	return plain.Count(g.Accounts) + " accounts were"
}

func isAre(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return plain.Count(n) + " are"
}

// many writes a number of things.
func many(n int64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun == "guess":
		return plain.Count(n) + " guesses"
	}
	return plain.Count(n) + " " + noun + "s"
}

func percent(part, of int64) string {
	if of == 0 {
		return "0 %"
	}
	p := 100 * float64(part) / float64(of)
	switch {
	case p > 0 && p < 1:
		return fmt.Sprintf("%.1f %%", p)
	case p < 100 && p > 99:
		return fmt.Sprintf("%.1f %%", p-0.05) // never 100 unless it is
	}
	return fmt.Sprintf("%.0f %%", p)
}

func ratio(a, b int64) string { return fmt.Sprintf("%.1f", float64(a)/float64(max(b, 1))) }

// seconds writes a number of seconds as people say it.
func seconds(s float64) string {
	switch {
	case s < 120:
		return fmt.Sprintf("%.3g s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 2*86400:
		return fmt.Sprintf("%.1f hours", s/3600)
	}
	return fmt.Sprintf("%.1f days", s/86400)
}

// notes says what is to be known of the figures.
func (r *Replay) notes(p *Report) {
	say := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	for i, d := range r.judges[0].Doors {
		if d.AllFailed {
			continue
		}
		s := d.Outcome.Succeeded
		unseen := ""
		switch {
		case s.SetCookie != "":
			unseen = "a cookie"
		case d.Outcome.Header && len(s.Status) == 0 && s.Location == "":
			unseen = "a header of the application's"
		case s.Location != "" && !r.locations:
			unseen = "a redirect"
		}
		if unseen != "" && r.requests {
			say("door %q: a success shows by %s, which the log does not have: every attempt counts as failed. --succeeded STATUSES or --failed any says it otherwise.", r.judges[0].Doors[i].Name, unseen)
		}
	}
	var idle []string
	for _, rule := range p.Rules {
		if !rule.Exercised {
			idle = append(idle, rule.Name)
		}
	}
	if len(idle) > 0 {
		say("The log does not name what these rules charge, so they had nothing to decide: %s.", strings.Join(idle, ", "))
	}
	if p.Late > 0 {
		say("%s came later than --reorder allows for, and were judged at the latest time until then.", many(p.Late, "attempt"))
	}
	if p.Bad > 0 {
		say("%s at doors would be answered with 400, uncharged: servers disagree on what their targets mean.", many(p.Bad, "request"))
	}
	if !p.KeysExact {
		say("Only the first %s callers are told apart: figures of callers are of them alone.", plain.Count(MaxCallers))
	}
	if p.Shared > 0 {
		say("%s met a full table (capacity of a rule) and were charged to the entry that all share.", many(p.Shared, "attempt"))
	}
	if p.Attempts == 0 && p.Lines > 0 {
		say("No attempt was found: see the door's route, and whether the log is of the format that it was read as.")
	}
}
