package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

//go:embed page.html
var pageText string

type (
	tile struct{ Class, Value, Name string }
	mark struct{ Class, Name string }
	cell struct{ Class, Text string }
	grid struct {
		Heads []cell
		Rows  [][]cell
	}
	section struct {
		Title, Text string
		Legend      []mark
		Chart       template.HTML
		Table       *grid
	}
	page struct {
		Title, Log, Span string
		Tiles            []tile
		Helpless         bool
		Words, Notes     []string
		Sections         []section
	}
)

// WriteHTML writes the report as a page that needs nothing else: no script, and nothing
// from anywhere. What comes from the log is escaped.
func (p *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, p.page())
}

func (p *Report) page() page {
	n := plain.Count[int64]
	out := page{Title: "Replay of " + p.source(), Log: p.Policy + ": " + p.log(), Helpless: p.Verdict.Helpless, Words: p.Verdict.Words, Notes: p.Notes}
	if p.First != nil {
		out.Span = fmt.Sprintf("%s to %s UTC (%s)", stamp(*p.First), stamp(*p.Last), seconds(p.Last.Sub(*p.First).Seconds()))
	}
	wrong := p.AdmittedFailed + p.RefusedFailed
	out.Tiles = []tile{
		{"wrong-in", n(p.AdmittedFailed), "wrong attempts admitted, " + percent(p.AdmittedFailed, wrong)},
		{"wrong-out", n(p.RefusedFailed), "wrong attempts refused, " + percent(p.RefusedFailed, wrong)},
		{"right-out", n(p.HonestRefused), "honest callers refused, of " + n(p.Honest)},
		{"plain", n(p.Keys), "callers, of which locked out " + n(p.KeysLocked)},
	}
	for i := range out.Tiles { // a number and its sign are one word
		out.Tiles[i].Name = strings.ReplaceAll(out.Tiles[i].Name, " %", "\u00a0%")
	}
	add := func(s section) { out.Sections = append(out.Sections, s) }
	if len(p.Timeline.Steps) > 0 {
		add(section{Title: "Attempts over time", Text: fmt.Sprintf("Under %s, in steps of %s.", p.Policy, stepLength(p.Timeline.Seconds)), Legend: legend(p.Timeline), Chart: p.Timeline.chart()})
		for _, c := range p.Compared {
			add(section{Title: "Attempts over time under " + c.Policy, Legend: legend(c.Timeline), Chart: c.Timeline.chart()})
		}
	}
	if len(p.Compared) > 0 {
		add(section{Title: "Side by side", Table: tableOf(p.compared(), 0)})
	}
	if len(p.Networks) > 0 {
		parts := []mark{{"wrong-in", "wrong, admitted"}, {"wrong-out", "wrong, refused"}, {"right-in", "right, admitted or refused"}}
		add(section{Title: "Heaviest callers", Chart: networkChart(p.Networks), Legend: parts})
		add(section{Title: "Heaviest wider networks", Text: "IPv4 /24 and IPv6 /48.", Chart: networkChart(p.Wider), Legend: parts})
	}
	if s := p.Suggested; s != nil {
		add(section{
			Title: "What lockouts per network could do", Text: s.intro(), Chart: s.chart(),
			Legend: []mark{{"tried", "tried"}, {"best", "no other beats it"}}, Table: tableOf(s.rows(), 0),
		})
	}
	if rows := p.honestRows(maxNetworks); len(rows) > 1 {
		add(section{Title: fmt.Sprintf("The price: %s refused that had a success", many(p.HonestRefused, "caller")), Text: honestWords, Table: tableOf(rows, 1)})
	}
	if rows := p.common(); len(rows) > 0 {
		add(section{Title: "What the wrong attempts that got through have in common", Table: tableOf(append([][]string{{"", "of them", ""}}, rows...), 1)})
	}
	add(section{Title: "What each rule did", Text: "Alone: what it would have refused as the only rule.", Table: tableOf(p.ruleRows(), 2)})
	return out
}

func stepLength(seconds int64) string {
	switch {
	case seconds%86400 == 0:
		return many(seconds/86400, "day")
	case seconds%3600 == 0:
		return many(seconds/3600, "hour")
	case seconds%60 == 0:
		return many(seconds/60, "minute")
	}
	return many(seconds, "second")
}

// legend names what there is of in a timeline.
func legend(t Timeline) (all []mark) {
	for _, of := range series {
		if slices.ContainsFunc(t.Steps, func(s Step) bool { return of.of(s) > 0 }) {
			all = append(all, mark{of.class, of.name})
		}
	}
	return all
}

// tableOf makes a table of rows, the first of which are heads. The last few columns are
// words, and the first is.
func tableOf(rows [][]string, words int) *grid {
	t := &grid{}
	for i, row := range rows {
		var cells []cell
		for j, text := range row {
			class := "n"
			switch {
			case j == 0:
				class = ""
			case j >= len(row)-words:
				class = "wide"
			}
			cells = append(cells, cell{class, text})
		}
		if i == 0 {
			t.Heads = cells
		} else {
			t.Rows = append(t.Rows, cells)
		}
	}
	return t
}
