// Package layout sets reports for people at a terminal: lines of words, tables, numbers.
// It knows nothing of what they say.
package layout

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Width is how long lines of words may be, of the terminals that are read most.
const Width = 100

// Wrap writes a text in lines, the first after head, the others below the text.
func Wrap(b *strings.Builder, head, text string) {
	indent := strings.Repeat(" ", len(head))
	line := head
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+utf8.RuneCountInString(word) > Width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// Table aligns columns: the first and the last few, which are words, to the left,
// the others to the right.
func Table(b *strings.Builder, rows [][]string, words int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || i >= len(row)-words {
				line += "  " + cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// Count writes a number with commas.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
