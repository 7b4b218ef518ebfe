package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// A Screen is where text goes. The zero Screen has no colours and no end.
type Screen struct {
	Colour        bool
	Width, Height int // 0 is no limit
}

// Colours of ANSI, by what they mean here.
const (
	red    = "31;1"
	yellow = "33"
	green  = "32"
	bold   = "1"
)

var levels = map[Level]string{Quiet: green, Refusing: yellow, Attack: red}

func (s Screen) paint(colour, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// cut keeps a line within the terminal, if there is one.
func (s Screen) cut(line string) string {
	if s.Width <= 0 {
		return line
	}
	return plain.Cut(line, s.Width)
}

// A section is a head and a table, or lines of words.
type section struct {
	head  string
	rows  [][]string // the first is a head of its own
	words int        // columns of words at the end
	note  string     // instead of rows
}

func (s section) lines() []string {
	if len(s.rows) == 0 {
		return []string{"  " + s.note}
	}
	var b strings.Builder
	plain.Table(&b, s.rows, s.words)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// Status is one screen that says whether this is an attack, and on what.
func (s Screen) Status(l Look, zone *time.Location) string {
	var b strings.Builder
	level, text := l.Judge()
	s.say(&b, levels[level], text)
	s.say(&b, "", l.Basis())
	b.WriteByte('\n')
	l.daemon(&b, s, zone)
	for _, sec := range l.sections(zone) {
		b.WriteString("\n" + s.paint(bold, sec.head) + "\n")
		for _, line := range sec.lines() {
			b.WriteString(s.cut(line) + "\n")
		}
	}
	return b.String()
}

// daemon says what runs, and what is wrong with it.
func (l Look) daemon(b *strings.Builder, s Screen, zone *time.Location) {
	is := l.Is
	line := fmt.Sprintf("%s, up %s", plain.Clean(is.Version), plain.Left(is.Now.Sub(is.Started)))
	if is.Config != "" {
		line += ", configuration " + plain.Clean(is.Config)
	}
	plain.Wrap(b, "daemon    ", line)
	plain.Wrap(b, "listens   ", plain.Clean(strings.Join(is.Listen, ", ")))
	var copies []string
	down := false
	for _, c := range is.Upstream {
		name := plain.Clean(c.URL)
		if !c.Healthy {
			name, down = name+" (unhealthy)", true
		}
		copies = append(copies, name)
	}
	head := "upstream  "
	if down {
		head = s.paint(red, "upstream") + "  "
	}
	b.WriteString(head + strings.Join(copies, ", ") + "\n")
	if r := is.Reloads; r.Last != nil {
		text := fmt.Sprintf("last at %s, %d done, %d failed", clock(*r.Last, is.Now, zone), r.Done, r.Failed)
		if r.Error != "" {
			text += "; the last one failed and the old configuration stays: " + plain.Clean(r.Error)
		}
		plain.Wrap(b, "reloads   ", text)
	}
	if st := is.State; st != nil {
		text := plain.Clean(st.File)
		switch {
		case st.Error != "":
			text += ", not written: " + plain.Clean(st.Error)
		case st.Saved != nil:
			text += ", written " + plain.Left(is.Now.Sub(*st.Saved)) + " ago"
		default:
			text += ", not written yet"
		}
		plain.Wrap(b, "state     ", text)
	}
	if st := is.Store; st != nil {
		text, head := plain.Clean(strings.Join(st.Addresses, ", ")), "store     "
		if !st.Up {
			head = s.paint(red, "store") + "     "
			text += ", away"
			if st.Since != nil {
				text += " for " + plain.Left(is.Now.Sub(*st.Since))
			}
			text += ": " + plain.Clean(st.Error) + "; " + l.alone()
		}
		plain.Wrap(b, head, text)
	}
	for _, w := range is.Warnings {
		plain.Wrap(b, "warning   ", plain.Clean(w))
	}
}

// alone says what decides while the store is away.
func (l Look) alone() string {
	modes := map[string][]string{}
	for _, g := range l.Is.Guards {
		if g.Alone != nil {
			modes[g.Alone.Mode] = append(modes[g.Alone.Mode], plain.Clean(g.Name))
		}
	}
	var all []string
	for _, m := range slices.Sorted(maps.Keys(modes)) {
		all = append(all, plain.Clean(m)+": "+strings.Join(modes[m], ", "))
	}
	return "until then " + strings.Join(all, "; ")
}

// sections are the tables of a status.
func (l Look) sections(zone *time.Location) []section {
	doors := section{head: "Doors", words: 0, note: "none"}
	doors.rows = [][]string{{"door", "attempts/s", "refused/s", "share", "attempts", "refused", "lockouts", "in flight"}}
	for _, f := range l.flows() {
		doors.rows = append(doors.rows, []string{plain.Clean(f.name), plain.Figure(f.attempts), plain.Figure(f.refused), percent(f.refused, f.attempts),
			plain.Count(f.allAttempts), plain.Count(f.allRefused), plain.Count(f.allLockouts), plain.Count(f.inFlight)})
	}
	all := []section{doors, l.rules(true), l.heaviest()}
	if len(l.Is.Networks) > 0 {
		n := section{head: "Exempt or blocked for a time", words: 2, rows: networkRows(l.Is.Networks, l.Is.Now, zone)}
		all = append(all, n)
	}
	return all
}

// rules is the table of rules: with what they are, or those first that refuse now.
func (l Look) rules(policies bool) section {
	sec := section{head: "Rules", words: 0, note: "none"}
	head := []string{"rule", "refused", "lockouts", "tracked", "of", "pending", "overflow"}
	if policies {
		head, sec.words = append(head, "policy"), 1
	}
	sec.rows = [][]string{head}
	type ruleOf struct {
		api.Rule
		name string
		now  float64
	}
	var all []ruleOf
	for _, g := range l.Is.Guards {
		for _, r := range g.Rules {
			all = append(all, ruleOf{r, ruleName(g, r.Name), l.per(l.rule(g.Name, r.Name).Refused, r.Refused)})
		}
	}
	if !policies {
		slices.SortStableFunc(all, func(a, b ruleOf) int { return cmp.Compare(b.now, a.now) })
	}
	for _, r := range all {
		row := []string{plain.Clean(r.name), plain.Count(r.Refused), plain.Count(r.Lockouts), plain.Count(r.Tracked),
			plain.Count(r.Capacity), plain.Count(r.Pending), plain.Count(r.OverflowCharged + r.OverflowRefused)}
		if policies {
			row = append(row, policy(r.Per, r.Policy, r.Action))
		}
		sec.rows = append(sec.rows, row)
	}
	return sec
}

// policy is what a rule does, in words.
func policy(per, text, action string) string {
	text = plain.Clean(per + ": " + text)
	if action != "" && action != "refuse" {
		text += " (" + plain.Clean(action) + ")"
	}
	return text
}

// heaviest is the table of networks that are refused most.
func (l Look) heaviest() section {
	sec := section{head: "Networks refused most of late", note: "none"}
	if len(l.Is.Heaviest) == 0 {
		return sec
	}
	sec.rows = [][]string{{"network", "refused"}}
	for _, h := range l.Is.Heaviest {
		n := plain.Count(h.Refused)
		if h.Error > 0 {
			n = plain.Count(h.Refused-min(h.Error, h.Refused)) + "-" + n
		}
		sec.rows = append(sec.rows, []string{plain.Clean(h.Client), n})
	}
	return sec
}

// clock is a moment as a person near it says it.
func clock(t, now time.Time, zone *time.Location) string {
	t, now = t.In(zone), now.In(zone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// Top is the same for a live screen: no more lines and columns than there are. What refuses
// most comes first, and the tables that are longest give way.
func (s Screen) Top(l Look, zone *time.Location) string {
	level, text := l.Judge()
	doors := section{head: "Doors", rows: [][]string{{"door", "attempts/s", "refused/s", "share", "wrong/s", "lockouts/s", "in flight"}}}
	flows := l.flows()
	slices.SortStableFunc(flows, func(a, b flow) int { return cmp.Compare(b.refused, a.refused) })
	for _, f := range flows {
		doors.rows = append(doors.rows, []string{plain.Clean(f.name), plain.Figure(f.attempts), plain.Figure(f.refused), percent(f.refused, f.attempts),
			plain.Figure(f.failed), plain.Figure(f.lockouts), plain.Count(f.inFlight)})
	}
	title := fmt.Sprintf("%s  %s, up %s", clock(l.Is.Now, l.Is.Now, zone), plain.Clean(l.Is.Version), plain.Left(l.Is.Now.Sub(l.Is.Started)))
	var b strings.Builder
	s.say(&b, levels[level], text)
	lines := append([]string{s.cut(title)}, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
	lines = append(lines, s.cut(l.Basis()))
	secs := [][]string{}
	for _, sec := range []section{doors, l.rules(false), l.heaviest()} {
		secs = append(secs, append([]string{"", sec.head}, sec.lines()...))
	}
	if s.Height > 0 {
		fit(secs, s.Height-len(lines))
	}
	for _, sec := range secs {
		for i, line := range sec {
			line = s.cut(line)
			if i == 1 {
				line = s.paint(bold, line)
			}
			lines = append(lines, line)
		}
	}
	if s.Height > 0 && len(lines) > s.Height {
		lines = lines[:s.Height]
	}
	return strings.Join(lines, "\n")
}

// fit shortens sections, the longest first, until they have no more than so many lines.
// Each keeps its heads and a row, and says how many it does not show.
func fit(secs [][]string, room int) {
	const least = 5 // a blank, a head, the head of the table, a row, how many more
	all := 0
	for _, sec := range secs {
		all += len(sec)
	}
	hidden := make([]int, len(secs))
	for all > room {
		i := 0
		for j := range secs {
			if len(secs[j]) >= len(secs[i]) {
				i = j
			}
		}
		if len(secs[i]) <= least {
			break
		}
		secs[i] = secs[i][:len(secs[i])-1]
		hidden[i]++
		all--
	}
	for i, n := range hidden {
		if n > 0 {
			last := len(secs[i]) - 1
			secs[i] = slices.Clone(secs[i])
			secs[i][last] = fmt.Sprintf("  ... %d more", n+1)
		}
	}
}

// say writes a text in lines of a colour.
func (s Screen) say(b *strings.Builder, colour, text string) {
	width := plain.Width
	if s.Width > 0 {
		width = min(width, s.Width)
	}
	line := ""
	end := func() {
		if colour != "" {
			line = s.paint(colour, line)
		}
		b.WriteString(line + "\n")
	}
	for _, word := range strings.Fields(text) {
		word = plain.Cut(word, width)
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			end()
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	end()
}

// Round is a look in one line, for where there is no screen.
func Round(l Look, zone *time.Location) string {
	_, text := l.Judge()
	return clock(l.Is.Now, l.Is.Now, zone) + "  " + text + " " + l.Basis()
}

func networkRows(list []api.Network, now time.Time, zone *time.Location) [][]string {
	rows := [][]string{{"id", "network", "what", "door", "for", "until", "actor", "reason"}}
	for _, n := range list {
		door := n.Guard
		if door == "" {
			door = "all"
		}
		rows = append(rows, []string{plain.Clean(n.ID), plain.Clean(n.Network), plain.Clean(n.Action), plain.Clean(door),
			plain.Left(n.Until.Sub(now)), clock(n.Until, now, zone), plain.Clean(n.Actor), plain.Clean(n.Reason)})
	}
	return rows
}

// Lost is a line that says why nothing new is shown.
func (s Screen) Lost(why string) string {
	text := "No answer, trying again: " + plain.Clean(why)
	return s.paint(red, s.cut(text))
}
