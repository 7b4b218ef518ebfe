package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// A Bar is one figure of a Chart.
type Bar struct {
	Name  string
	Value float64
	Ours  bool   // drawn in the other colour
	Label string // "" is Value and the unit
}

// A Chart is one group of horizontal bars, longest values to the right.
type Chart struct {
	Title string
	Unit  string
	Log   bool // a logarithmic scale from 1 on
	Bars  []Bar
}

const (
	left, right = 190, 110 // beside the bars
	width       = 720
	top         = 44
	step        = 24
)

// SVG returns the chart as a picture that reads on light and dark pages.
func (c Chart) SVG() string {
	most := 0.0
	for _, b := range c.Bars {
		most = max(most, c.scale(b.Value))
	}
	height := top + step*len(c.Bars) + 12
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(&s, "<title>%s</title>\n", text(c.Title))
	fmt.Fprintf(&s, `<rect width="%d" height="%d" rx="6" fill="#ffffff"/>`+"\n", width, height)
	title := c.Title
	if c.Log {
		title += " (logarithmic scale)"
	}
	fmt.Fprintf(&s, `<text x="14" y="26" font-size="15" font-weight="600" fill="#1f2328">%s</text>`+"\n", text(title))
	for i, b := range c.Bars {
		y := top + step*i
		length := 0.0
		if most > 0 {
			length = c.scale(b.Value) / most * (width - left - right)
		}
		fill, weight := "#9aa4af", "400"
		if b.Ours {
			fill, weight = "#0969da", "600"
		}
		label := b.Label
		if label == "" {
			label = Figure(b.Value, c.Unit)
		}
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end" font-weight="%s" fill="#1f2328">%s</text>`+"\n", left-10, y+15, weight, text(b.Name))
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n", left, y+3, max(length, 1), step-8, fill)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" fill="#1f2328">%s</text>`+"\n", left+max(length, 1)+6, y+15, text(label))
	}
	s.WriteString("</svg>\n")
	return s.String()
}

func (c Chart) scale(v float64) float64 {
	if c.Log {
		return math.Log10(1 + max(v, 0))
	}
	return v
}

func text(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // never fails into memory
	return b.String()
}
