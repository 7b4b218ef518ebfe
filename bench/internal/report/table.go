// Package report writes what was measured: Markdown tables and bar charts in SVG. It
// promises the same bytes for the same figures. It knows nothing of what they mean.
package report

import (
	"fmt"
	"math"
	"strings"
)

// Table returns a Markdown table, its first column to the left and figures to the right.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	line(rule)
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// Ratio returns v in terms of base, and v itself beside it: "2.4 (196 ns)".
func Ratio(v, base float64, unit string) string {
	return fmt.Sprintf("%s (%s)", Times(v, base), Figure(v, unit))
}

// Times returns v in terms of base.
func Times(v, base float64) string {
	switch r := v / base; {
	case base == 0 || math.IsInf(r, 0) || math.IsNaN(r):
		return "–"
	case r >= 100:
		return Group(math.Round(r))
	case r >= 10:
		return fmt.Sprintf("%.0f", r)
	case r >= 0.095:
		return fmt.Sprintf("%.1f", r)
	default:
		return fmt.Sprintf("%.2g", r)
	}
}

// Figure returns v with its unit, without digits that nobody reads.
func Figure(v float64, unit string) string {
	s := ""
	switch {
	case v != 0 && math.Abs(v) < 10:
		s = fmt.Sprintf("%.2g", v)
	default:
		s = Group(math.Round(v))
	}
	return strings.TrimSpace(s + " " + unit)
}

// Group returns a whole number in groups of three digits.
func Group(v float64) string {
	s := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		s = "-" + s
	}
	return s
}
