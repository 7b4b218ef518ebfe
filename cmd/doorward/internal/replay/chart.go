package replay

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// Charts are drawn in units of a picture of this width. The page scales them; colours are
// classes of its style sheet.
const (
	chartWidth = 920
	left       = 64 // of the plot
	right      = 16
	top        = 12
)

// A drawing collects the elements of a picture.
type drawing struct{ strings.Builder }

func (d *drawing) text(x, y float64, class, anchor, s string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(s))
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (d *drawing) rect(x, y, w, h float64, class string) {
	fmt.Fprintf(d, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" class="%s"/>`, x, y, w, h, class)
}

// done returns the picture.
func (d *drawing) done(height float64, title string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s">%s</svg>`, chartWidth, height, html.EscapeString(title), d.String()))
}

// ticks returns round numbers from 0 to most or just above.
func ticks(most float64, about int) (all []float64) {
	if most <= 0 {
		return []float64{0, 1}
	}
	raw := most / float64(about)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := unit
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * unit; step >= raw {
			break
		}
	}
	step = max(step, 1) // these are all whole numbers
	for v := 0.0; ; v += step {
		all = append(all, v)
		if v >= most {
			return all
		}
	}
}

// axis draws the lines and the numbers of a vertical axis, and returns where a value is.
func (d *drawing) axis(most, height float64) func(float64) float64 {
	marks := ticks(most, 4)
	end := marks[len(marks)-1]
	y := func(v float64) float64 { return top + height*(1-v/end) }
	for _, v := range marks {
		d.line(left, y(v), chartWidth-right, y(v), "grid")
		d.text(left-8, y(v)+4, "label", "end", plain.Count(int64(v)))
	}
	return y
}

// series are what a step of a timeline is made of, from the bottom up.
var series = []struct {
	class, name string
	of          func(Step) int64
}{
	{"wrong-in", "wrong, admitted", func(s Step) int64 { return s.AdmittedFailed }},
	{"wrong-out", "wrong, refused", func(s Step) int64 { return s.RefusedFailed }},
	{"right-in", "right, admitted", func(s Step) int64 { return s.AdmittedSucceeded }},
	{"right-out", "right, refused", func(s Step) int64 { return s.RefusedSucceeded }},
}

// chart draws a timeline as bars.
func (t Timeline) chart() template.HTML {
	const height = 220
	d := &drawing{}
	most := 0.0
	for _, s := range t.Steps {
		sum := 0.0
		for _, of := range series {
			sum += float64(of.of(s))
		}
		most = max(most, sum)
	}
	y := d.axis(most, height)
	steps := max(len(t.Steps), 1)
	width := float64(chartWidth-left-right) / float64(steps)
	for i, s := range t.Steps {
		x := left + width*float64(i)
		sum, parts := 0.0, []string{}
		var bars drawing
		for _, of := range series {
			n := of.of(s)
			if n == 0 {
				continue
			}
			from := y(sum)
			sum += float64(n)
			bars.rect(x, y(sum), max(width-min(1, width/5), 0.5), from-y(sum), of.class)
			parts = append(parts, fmt.Sprintf("%s %s", plain.Count(n), of.name))
		}
		if sum > 0 {
			at := t.From.Add(time.Duration(int64(i)*t.Seconds) * time.Second)
			fmt.Fprintf(d, "<g><title>%s</title>%s</g>", html.EscapeString(stamp(at)+": "+strings.Join(parts, ", ")), bars.String())
		}
	}
	format := "15:04:05"
	switch span := time.Duration(int64(steps)*t.Seconds) * time.Second; {
	case span > 5*24*time.Hour:
		format = "2 Jan 2006"
	case span > 24*time.Hour:
		format = "2 Jan 15:04"
	case span > 10*time.Minute:
		format = "15:04"
	}
	const marks = 5
	for i := range marks {
		step := steps * i / marks
		x := left + width*float64(step)
		d.line(x, top+height, x, top+height+4, "tick")
		d.text(x, top+height+18, "label", "start", t.From.Add(time.Duration(int64(step)*t.Seconds)*time.Second).Format(format))
	}
	return d.done(top+height+26, "Attempts over time")
}

// networkChart draws networks as bars.
func networkChart(all []Network) template.HTML {
	const rows, step, names = 12, 26, 190
	all = all[:min(len(all), rows)]
	most := int64(1)
	for _, n := range all {
		most = max(most, n.attempts())
	}
	d := &drawing{}
	scale := float64(chartWidth-names-110) / float64(most)
	for i, n := range all {
		y := float64(top + step*i)
		d.text(names-10, y+15, "name", "end", n.Network)
		x := float64(names)
		fmt.Fprintf(d, "<g><title>%s</title>", html.EscapeString(fmt.Sprintf("%s: %s wrong admitted, %s wrong refused, %s right",
			n.Network, plain.Count(n.AdmittedFailed), plain.Count(n.RefusedFailed), plain.Count(n.Succeeded))))
		for _, part := range []struct {
			class string
			n     int64
		}{{"wrong-in", n.AdmittedFailed}, {"wrong-out", n.RefusedFailed}, {"right-in", n.Succeeded}} {
			if part.n > 0 {
				d.rect(x, y+3, max(scale*float64(part.n), 0.75), step-9, part.class)
				x += scale * float64(part.n)
			}
		}
		d.WriteString("</g>")
		d.text(x+7, y+15, "label", "start", plain.Count(n.attempts()))
	}
	return d.done(float64(top+step*len(all)+4), "Attempts by network")
}

// chart draws what each policy admits against whom it refuses.
func (s *Suggestions) chart() template.HTML {
	const height = 260
	d := &drawing{}
	mostX, mostY := 1.0, 1.0
	for _, p := range s.All {
		mostX, mostY = max(mostX, float64(p.HonestRefused)), max(mostY, float64(p.AdmittedFailed))
	}
	y := d.axis(mostY, height)
	marks := ticks(mostX, 6)
	x := func(v float64) float64 {
		return left + 10 + v/marks[len(marks)-1]*float64(chartWidth-left-right-20)
	}
	for _, v := range marks {
		d.line(x(v), top+height, x(v), top+height+4, "tick")
		d.text(x(v), top+height+18, "label", "middle", plain.Count(int64(v)))
	}
	dot := func(p Suggestion, radius float64, class string) {
		flag, _ := p.Policy()
		fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"><title>%s</title></circle>`, x(float64(p.HonestRefused)), y(float64(p.AdmittedFailed)), radius, class,
			html.EscapeString(fmt.Sprintf("%s: %s guesses admitted, %s honest callers refused", flag, plain.Count(p.AdmittedFailed), plain.Count(p.HonestRefused))))
	}
	for _, p := range s.All {
		dot(p, 3, "tried")
	}
	path := ""
	for i, p := range s.Frontier {
		if i == 0 {
			path = fmt.Sprintf("M%.1f %.1f", x(float64(p.HonestRefused)), y(float64(p.AdmittedFailed)))
			continue
		}
		path += fmt.Sprintf("V%.1fH%.1f", y(float64(p.AdmittedFailed)), x(float64(p.HonestRefused)))
	}
	fmt.Fprintf(d, `<path d="%s" class="front"/>`, path)
	for _, p := range s.Frontier {
		dot(p, 4.5, "best")
	}
	d.text((left+chartWidth-right)/2, top+height+38, "label", "middle", "honest callers refused (guesses admitted: upwards)")
	return d.done(top+height+46, "Guesses admitted against honest callers refused")
}
