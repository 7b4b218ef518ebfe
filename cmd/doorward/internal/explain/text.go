package explain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i, d := range r.Doors {
		if i > 0 {
			b.WriteByte('\n')
		}
		d.write(&b, r.Secret)
	}
	if r.Elsewhere != nil {
		b.WriteByte('\n')
		writeElsewhere(&b, r.Elsewhere, r.Secret)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// targets say what is guessed at: in a title, in a sentence, and what is guessed.
var targets = map[string][3]string{
	"one_challenge": {"Attempts at one code, at most", " at one code", "that code"},
	"one_subject":   {"Attempts at one account, at most", " at one account", "the secret of that account"},
	"every_subject": {"Attempts in all, at most", "", "a secret"},
}

func (d DoorReport) write(b *strings.Builder, s Secret) {
	fmt.Fprintf(b, "%s\n%s\n", d.Name, strings.Repeat("=", utf8.RuneCountInString(d.Name)))
	for _, door := range d.Doors {
		plain.Wrap(b, "door   ", door)
	}
	plain.Wrap(b, "rules  ", strings.Join(d.Rules, ", "))
	if report := slices.DeleteFunc(slices.Clone(d.Rules), func(r string) bool { return slices.Contains(d.Refuse, r) }); len(report) > 0 {
		plain.Wrap(b, "       ", "of which only report and never refuse: "+strings.Join(report, ", "))
	}
	d.writeShort(b)
	less := false
	for _, t := range d.Targets {
		fmt.Fprintf(b, "\n%s\n", targets[t.Target][0])
		rows := [][]string{slices.Concat(heads(t.Callers[0].Spans), []string{"patient/day", "held by"})}
		for _, c := range t.Callers {
			row := []string{c.Caller, c.AtOnce.show(&less)}
			for _, m := range c.Spans {
				row = append(row, m.show(&less))
			}
			rows = append(rows, append(row, c.LongRun.show(), c.rules()))
		}
		plain.Table(b, rows, 1)
	}
	if less {
		b.WriteString("  x-y: play reached x, and no rule admits more than y.\n")
	}
	if d.chances {
		d.main().writeChances(b, s)
	}
	d.writeHonest(b)
	if len(d.Warnings)+len(d.Weaknesses) == 0 {
		b.WriteString("\nWeak spots: none found\n")
		return
	}
	b.WriteString("\nWeak spots\n")
	for _, w := range d.Warnings {
		plain.Wrap(b, "  warning: ", strings.TrimPrefix(w, d.Name+": "))
	}
	for _, w := range d.Weaknesses {
		text := w.Text
		if w.Rule != "" {
			text = fmt.Sprintf("rule %q: %s", w.Rule, text)
		}
		plain.Wrap(b, "  warning: ", text)
		plain.Wrap(b, "      fix: ", w.Fix)
	}
}

// main is the target that people ask about first: an account, if requests name one.
func (d DoorReport) main() TargetReport {
	i := slices.IndexFunc(d.Targets, func(t TargetReport) bool { return t.Target == "one_subject" })
	return d.Targets[max(i, 0)]
}

// writeShort says in words what a burst, a patient caller and a botnet get.
func (d DoorReport) writeShort(b *strings.Builder) {
	t := d.main()
	at := targets[t.Target][1]
	address, botnet := t.Callers[0], t.Callers[bots]
	burst, patient, many := "no limit", "no limit", "no limit"
	var less bool
	if m := address.Spans[0]; m.Attempts != nil {
		burst = fmt.Sprintf("%s at once%s, %s in %s", address.AtOnce.show(&less), at, m.show(&less), m.Span)
	}
	if address.LongRun.PerDay != nil {
		patient = fmt.Sprintf("%s a day%s for good", address.LongRun.show(), at)
	}
	m := botnet.Spans[len(botnet.Spans)-1]
	if m.Attempts != nil {
		many = fmt.Sprintf("%s at once%s, %s in %s", botnet.AtOnce.show(&less), at, m.show(&less), m.Span)
	}
	if d.chances {
		patient += ": a chance of 1 % after " + address.onePercent()
		many += ": a chance of " + m.chance()
	}
	fmt.Fprintf(b, "\nIn short\n  burst    %s: %s\n  patient  %s: %s\n  botnet   %s: %s\n",
		address.Caller, burst, address.Caller, patient, botnet.Caller, many)
}

func (d DoorReport) writeHonest(b *strings.Builder) {
	if len(d.FirstWaits) > 0 {
		rows := [][]string{{"", "after", "for", "by rule"}}
		for _, w := range d.FirstWaits {
			after := plain.Count(w.After) + " wrong"
			if w.All {
				after = plain.Count(w.After) + " of any kind"
			}
			rows = append(rows, []string{w.Who, after, config.ShowDuration(w.wait), w.Rule})
		}
		b.WriteString("\nHonest people wait for what they do themselves\n")
		plain.Table(b, rows, 1)
	}
	if len(d.Closers) > 0 {
		rows := [][]string{{"", "at once", "in 1d", "by rule"}}
		for _, c := range d.Closers {
			rows = append(rows, []string{c.Shared, c.show(c.AtOnce), c.show(c.Day), c.Rule})
		}
		b.WriteString("\nHonest people wait for others, if as many of them use up what they share\n")
		plain.Table(b, rows, 1)
	}
}

var singular = map[string]string{"IPv4 addresses": "IPv4 address", "IPv6 /64s": "IPv6 /64"}

func (c Closers) show(n int64) string {
	switch n {
	case 0:
		return "-"
	case 1:
		return "1 " + singular[c.Caller]
	}
	return plain.Count(n) + " " + c.Caller
}

// heads are the first columns of a table.
func heads(spans []Most) []string {
	row := []string{"", "at once"}
	for _, m := range spans {
		row = append(row, "in "+m.Span)
	}
	return row
}

func (t TargetReport) writeChances(b *strings.Builder, s Secret) {
	fmt.Fprintf(b, "\nChance to guess %s: %s\n", targets[t.Target][2], s.show())
	rows := [][]string{append(heads(t.Callers[0].Spans), "1 % after")}
	for _, c := range t.Callers {
		row := []string{c.Caller, c.AtOnce.chance()}
		for _, m := range c.Spans {
			row = append(row, m.chance())
		}
		rows = append(rows, append(row, c.onePercent()))
	}
	plain.Table(b, rows, 0)
}

func (c CallerReport) onePercent() string {
	if c.LongRun.PerDay == nil {
		return "no time"
	}
	if c.OnePercent == nil {
		return "more than 292 years"
	}
	return roughly(*c.OnePercent)
}

// rules names the rules that hold a caller, from the shortest span to the longest.
func (c CallerReport) rules() string {
	var names []string
	for _, m := range append([]Most{c.AtOnce}, c.Spans...) {
		if m.Rule != "" && (len(names) == 0 || names[len(names)-1] != m.Rule) {
			names = append(names, m.Rule)
		}
	}
	if c.LongRun.Rule != "" && len(names) > 0 && names[len(names)-1] != c.LongRun.Rule {
		names = append(names, c.LongRun.Rule)
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func (m Most) show(less *bool) string {
	switch {
	case m.Attempts == nil:
		return "no limit"
	case m.Played != nil && *m.Played < *m.Attempts:
		*less = true
		return plain.Count(*m.Played) + "-" + plain.Count(*m.Attempts)
	}
	return plain.Count(*m.Attempts)
}

func (m Most) chance() string {
	if m.Chance == nil {
		return "100 %"
	}
	return percent(*m.Chance)
}

func (l LongRun) show() string {
	if l.PerDay == nil {
		return "no limit"
	}
	return plain.Figure(*l.PerDay)
}

func (s Secret) show() string {
	if s.Live > 1 {
		return fmt.Sprintf("%s, %s right at once", s.Name, plain.Count(int64(s.Live)))
	}
	return s.Name
}

func writeElsewhere(b *strings.Builder, all []Elsewhere, s Secret) {
	b.WriteString("Elsewhere, with the settings it comes with: wrong guesses per key, at most\n")
	spans := all[0].Spans
	last := len(spans) - 1
	rows := [][]string{append(heads(spans), "chance in "+spans[last].Span, "key")}
	var less bool
	for _, e := range all {
		row := []string{e.Name, e.AtOnce.show(&less)}
		for _, m := range e.Spans {
			row = append(row, m.show(&less))
		}
		rows = append(rows, append(row, e.Spans[last].chance(), e.Key))
	}
	plain.Table(b, rows, 1)
	fmt.Fprintf(b, "  chance: to guess %s\n", s.show())
	for _, e := range all {
		fmt.Fprintf(b, "\n  %s\n", e.Name)
		for _, text := range []string{e.Settings, e.Note, e.Source} {
			if text != "" {
				plain.Wrap(b, "    ", text)
			}
		}
	}
}

func percent(p float64) string {
	switch {
	case p == 0:
		return "0 %"
	case p > 0.999:
		return "> 99.9 %"
	case p < 1e-15:
		return "< 1 in 10^15"
	case p < 1e-12:
		return "1 in " + plain.Figure(1e-12/p) + " trillion"
	case p < 1e-9:
		return "1 in " + plain.Figure(1e-9/p) + " billion"
	case p < 1e-6:
		return "1 in " + plain.Figure(1e-6/p) + " million"
	}
	digits := 1
	for q := 100 * p; q < 1; q *= 10 {
		digits++
	}
	return plain.Trim(strconv.FormatFloat(100*p, 'f', digits, 64)) + " %"
}

// roughly writes a number of seconds as people say it.
func roughly(seconds float64) string {
	const minute, hour, day, year = 60, 3600, 86400, 365.25 * 86400
	switch {
	case seconds < 1:
		return "at once"
	case seconds < 2*minute:
		return plain.Figure(seconds) + " s"
	case seconds < 2*hour:
		return plain.Figure(seconds/minute) + " min"
	case seconds < 2*day:
		return plain.Figure(seconds/hour) + " hours"
	case seconds < 2*year:
		return plain.Figure(seconds/day) + " days"
	}
	return plain.Figure(seconds/year) + " years"
}
