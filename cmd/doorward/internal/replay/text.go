package replay

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// Rows of lists at a terminal. JSON and HTML have more.
const (
	honestRows  = 20
	networkRows = 8
	shareRows   = 3
)

// WriteText writes the report for people.
func (p *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	title := fmt.Sprintf("Replay of %s", p.source())
	fmt.Fprintf(&b, "%s\n%s\n", title, strings.Repeat("=", utf8.RuneCountInString(title)))
	plain.Wrap(&b, "log     ", p.log())
	if p.First != nil {
		plain.Wrap(&b, "time    ", fmt.Sprintf("%s to %s (%s)", stamp(*p.First), stamp(*p.Last), seconds(p.Last.Sub(*p.First).Seconds())))
	}
	p.writeUnreadable(&b)
	for _, n := range p.Notes {
		plain.Wrap(&b, "note    ", n)
	}
	if len(p.Compared) > 0 {
		p.writeCompared(&b)
	} else {
		p.writeTotals(&b)
	}
	b.WriteString("\nIn short\n")
	for _, w := range p.Verdict.Words {
		plain.Wrap(&b, "  ", w)
	}
	p.writeRules(&b)
	p.writeHonest(&b)
	writeNetworks(&b, "Heaviest callers", p.Networks, false)
	writeNetworks(&b, "Heaviest wider networks", p.Wider, true)
	p.writeGuessers(&b)
	if p.Suggested != nil {
		p.Suggested.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Report) source() string {
	switch len(p.Files) {
	case 0:
		return "no log"
	case 1:
		return printable(p.Files[0].Name)
	}
	return fmt.Sprintf("%s and %s", printable(p.Files[0].Name), many(int64(len(p.Files)-1), "other"))
}

// log says what was read.
func (p *Report) log() string {
	var formats []string
	for _, f := range p.Files {
		if f.Format != "" && !slices.Contains(formats, f.Format) {
			formats = append(formats, f.Format)
		}
	}
	return fmt.Sprintf("%s, %s, %s at doors", strings.Join(append(formats, many(p.Lines, "line")), ", "), many(p.Unreadable, "unreadable line"), many(p.Attempts, "attempt"))
}

func (p *Report) writeUnreadable(b *strings.Builder) {
	for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
		plain.Wrap(b, "unread  ", fmt.Sprintf("%s: %s", many(p.Kinds[kind], "line"), kind))
		for _, s := range p.Samples {
			if s.Kind == kind {
				fmt.Fprintf(b, "          %s:%d: %s\n", printable(s.File), s.Line, printable(s.Text))
			}
		}
	}
}

// printable shows what comes from a log without what could do something to a terminal.
func printable(s string) string {
	q := strconv.QuoteToASCII(strings.ToValidUTF8(s, "?"))
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(q[1 : len(q)-1])
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func (p *Report) writeTotals(b *strings.Builder) {
	t := &p.Totals
	n := plain.Count[int64]
	fmt.Fprintf(b, "\nWhat %s would have done\n", printable(p.Policy))
	rows := [][]string{
		{"", "failed", "succeeded"},
		{"admitted", n(t.AdmittedFailed), n(t.AdmittedSucceeded)},
		{"refused", n(t.RefusedFailed), n(t.RefusedSucceeded)},
	}
	if t.AdmittedVoid+t.RefusedVoid > 0 {
		rows[0] = append(rows[0], "void")
		rows[1] = append(rows[1], n(t.AdmittedVoid))
		rows[2] = append(rows[2], n(t.RefusedVoid))
	}
	plain.Table(b, rows, 0)
	b.WriteByte('\n')
	rows = nil
	for _, row := range figures {
		if v := row.value(t); v != "0" || row.always {
			rows = append(rows, []string{row.name, v, row.what})
		}
	}
	plain.Table(b, rows, 1)
}

// figures are those of totals beside the attempts themselves.
var figures = []struct {
	name, what string
	value      func(*Totals) string
	always     bool
}{
	{"callers", "IPv4 addresses and IPv6 /64s", func(t *Totals) string { return plain.Count(t.Keys) }, true},
	{"locked", "kept out by a lockout", func(t *Totals) string { return plain.Count(t.KeysLocked) }, true},
	{"refused", "had an attempt refused", func(t *Totals) string { return plain.Count(t.KeysRefused) }, true},
	{"honest", "had a success", func(t *Totals) string { return plain.Count(t.Honest) }, true},
	{"honest refused", "had a success, and an attempt refused: the price", func(t *Totals) string { return plain.Count(t.HonestRefused) }, true},
	{"lockouts", "", func(t *Totals) string { return plain.Count(t.Lockouts) }, true},
	{"longest lockout", "", func(t *Totals) string { return config.ShowDuration(time.Duration(t.Longest * float64(time.Second))) }, true},
	{"exempt", "attempts that passed uncharged", func(t *Totals) string { return plain.Count(t.Exempt) }, false},
	{"step up", "attempts that were asked for a stronger proof", func(t *Totals) string { return plain.Count(t.StepUp) }, false},
}

func (p *Report) writeCompared(b *strings.Builder) {
	b.WriteString("\nSide by side\n")
	plain.Table(b, p.compared(), 0)
}

// compared are the figures of all policies side by side.
func (p *Report) compared() [][]string {
	all := []*Totals{&p.Totals}
	heads := []string{"", printable(p.Policy)}
	for i := range p.Compared {
		all = append(all, &p.Compared[i].Totals)
		heads = append(heads, printable(p.Compared[i].Policy))
	}
	rows := [][]string{heads}
	add := func(name string, always bool, value func(*Totals) string) {
		row, some := []string{name}, always
		for _, t := range all {
			v := value(t)
			some = some || v != "0"
			row = append(row, v)
		}
		if some {
			rows = append(rows, row)
		}
	}
	n := plain.Count[int64]
	add("failed, admitted", true, func(t *Totals) string { return n(t.AdmittedFailed) })
	add("failed, refused", true, func(t *Totals) string { return n(t.RefusedFailed) })
	add("succeeded, admitted", true, func(t *Totals) string { return n(t.AdmittedSucceeded) })
	add("succeeded, refused", true, func(t *Totals) string { return n(t.RefusedSucceeded) })
	add("void, admitted", false, func(t *Totals) string { return n(t.AdmittedVoid) })
	add("void, refused", false, func(t *Totals) string { return n(t.RefusedVoid) })
	for _, f := range figures {
		add(f.name, f.always, f.value)
	}
	return rows
}

func (p *Report) writeRules(b *strings.Builder) {
	if len(p.Rules) == 0 {
		return
	}
	fmt.Fprintf(b, "\nWhat each rule of %s did, and what it alone would have refused\n", printable(p.Policy))
	plain.Table(b, p.ruleRows(), 2)
}

func (p *Report) ruleRows() [][]string {
	n := plain.Count[int64]
	rows := [][]string{{"rule", "refused", "lockouts", "alone: failed", "succeeded", "charges", "limit"}}
	guards := map[string]bool{}
	for _, r := range p.Rules {
		guards[r.Guard] = true
	}
	for _, r := range p.Rules {
		name := r.Name
		if len(guards) > 1 {
			name = r.Guard + ": " + name
		}
		failed, succeeded := "", ""
		switch {
		case !r.Exercised:
			failed, succeeded = "-", "-"
		case r.AloneFailed != nil:
			failed, succeeded = n(*r.AloneFailed), n(*r.AloneSucceeded)
		}
		per := r.Per
		if r.Action != "refuse" {
			per += " (" + r.Action + ")"
		}
		rows = append(rows, []string{name, n(r.Refused), n(r.Lockouts), failed, succeeded, per, r.Limit})
	}
	return rows
}

func (p *Report) writeHonest(b *strings.Builder) {
	if p.HonestRefused == 0 {
		if p.Honest > 0 {
			fmt.Fprintf(b, "\nThe price: of %s with a success none was refused\n", many(p.Honest, "caller"))
		}
		return
	}
	fmt.Fprintf(b, "\nThe price: of %s with a success %s refused\n", many(p.Honest, "caller"), wasWere(p.HonestRefused))
	rows := p.honestRows(honestRows)
	plain.Table(b, rows, 1)
	if more := p.HonestRefused - int64(len(rows)-1); more > 0 {
		fmt.Fprintf(b, "  and %s more\n", plain.Count(more))
	}
	plain.Wrap(b, "  ", honestWords)
}

const honestWords = "A guesser who guessed right has a success as well: a caller with many wrong attempts may be one."

func (p *Report) honestRows(most int) [][]string {
	n := plain.Count[int64]
	rows := [][]string{{"caller", "right: admitted", "refused", "wrong: admitted", "refused", "first refused"}}
	for _, h := range p.HonestList[:min(len(p.HonestList), most)] {
		rows = append(rows, []string{h.Network, n(h.AdmittedSucceeded), n(h.RefusedSucceeded), n(h.AdmittedFailed), n(h.RefusedFailed), stamp(h.FirstRefused)})
	}
	return rows
}

func wasWere(n int64) string {
	if n == 1 {
		return "1 was"
	}
	return plain.Count(n) + " were"
}

func writeNetworks(b *strings.Builder, title string, all []Network, callers bool) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	n := plain.Count[int64]
	rows := [][]string{{"network", "callers", "wrong: admitted", "refused", "right", ""}}
	for _, w := range all[:min(len(all), networkRows)] {
		locked := ""
		if w.Locked {
			locked = "locked"
		}
		rows = append(rows, []string{w.Network, n(w.Callers), n(w.AdmittedFailed), n(w.RefusedFailed), n(w.Succeeded), locked})
	}
	if !callers {
		for i, row := range rows {
			rows[i] = append(row[:1:1], row[2:]...)
		}
	}
	plain.Table(b, rows, 1)
}

func (p *Report) writeGuessers(b *strings.Builder) {
	if p.AdmittedFailed == 0 {
		return
	}
	fmt.Fprintf(b, "\nWhat the %s that got through have in common\n", many(p.AdmittedFailed, "wrong attempt"))
	for _, row := range p.common() {
		plain.Wrap(b, fmt.Sprintf("  %-8s", row[0]), strings.TrimPrefix(row[1]+": ", ": ")+row[2])
	}
}

// common says what the wrong attempts that were admitted have in common: what kind of
// thing, which part of them, what.
func (p *Report) common() (rows [][]string) {
	g := &p.Guessers
	for _, list := range []struct {
		kind   string
		shares []Share
	}{{"client", g.Agents}, {"path", g.Targets}} {
		for _, s := range list.shares[:min(len(list.shares), shareRows)] {
			rows = append(rows, []string{list.kind, percent(s.Guesses, p.AdmittedFailed), printable(s.Value)})
		}
	}
	var most Network
	for _, w := range p.Wider {
		if w.AdmittedFailed > most.AdmittedFailed {
			most = w
		}
	}
	if most.AdmittedFailed > 0 {
		rows = append(rows, []string{"network", percent(most.AdmittedFailed, p.AdmittedFailed), most.Network})
	}
	if g.Gaps > 0 {
		rows = append(rows, []string{"gap", "", fmt.Sprintf("%s between two of one caller, at the median; %s below a minute, %s below an hour", seconds(*g.MedianGap),
			percent(g.GapsMinute, g.Gaps), percent(g.GapsHour, g.Gaps))})
	}
	return rows
}

func (s *Suggestions) write(b *strings.Builder) {
	b.WriteString("\nWhat lockouts per network could do\n")
	plain.Wrap(b, "  ", s.intro())
	plain.Table(b, s.rows(), 0)
}

func (s *Suggestions) intro() string {
	text := fmt.Sprintf("Of %s lockouts, each as the only rule, these are the ones that no other beats: each other one admits more wrong attempts, refuses more honest callers, or does no better.", plain.Count(int64(s.Tried)))
	if s.Honest == 0 {
		text += " Nobody in this log has a success, so it does not show what a lockout costs honest people: take one that others have chosen for such a door, not the strictest."
	}
	return text
}

func (s *Suggestions) rows() [][]string {
	n := plain.Count[int64]
	rows := [][]string{{"--lockout", "wrong: admitted", "of " + n(s.Guesses), "honest callers refused", "of " + n(s.Honest), "right: refused"}}
	for _, f := range s.Frontier {
		flag, _ := f.Policy()
		rows = append(rows, []string{flag, n(f.AdmittedFailed), percent(f.AdmittedFailed, s.Guesses), n(f.HonestRefused), percent(f.HonestRefused, s.Honest), n(f.RefusedSucceeded)})
	}
	return rows
}
