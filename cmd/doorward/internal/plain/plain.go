// Package plain lays out what is printed for people: tables, wrapped words, numbers with
// commas, durations as people say them.
//
// It promises that what strangers wrote moves no cursor: Clean leaves no control character
// and nothing that cannot be seen. It counts runes, so wide and combining characters
// shift the columns to the right of them.
package plain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
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

// Table aligns columns: the first and the last few, which are words, to the left, the
// others to the right.
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
func Count[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural is a number and what it counts.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Figure writes a number with two digits or more.
func Figure(f float64) string {
	switch {
	case f >= 1e15:
		return strconv.FormatFloat(f, 'g', 3, 64)
	case f >= 100:
		return Count(int64(f + 0.5))
	case f >= 1 || f == 0:
		return Trim(strconv.FormatFloat(f, 'f', 1, 64))
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}

// Trim removes zeros that say nothing.
func Trim(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Left writes a duration that is left, with its two largest units: 59s, 12m5s, 2h3m, 3d4h.
// It rounds up, so that what is not over is never 0s.
func Left(d time.Duration) string {
	for _, unit := range []struct{ unit, below time.Duration }{{time.Second, time.Hour}, {time.Minute, 24 * time.Hour}, {time.Hour, 1<<63 - 1}} {
		up := (d + unit.unit - 1) / unit.unit * unit.unit
		if up < unit.below {
			return config.ShowDuration(max(up, 0))
		}
	}
	return config.ShowDuration(d)
}

// Clean returns s with everything that a terminal might not show as it is, escaped as in
// Go: control characters of any kind, what cannot be seen, what turns the direction of
// writing, bytes that are no UTF-8.
func Clean(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case hidden(r):
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// CleanJSON is Clean for JSON: what it escapes is escaped as in a string. In JSON that is
// valid such characters, but for line feeds, stand nowhere else.
func CleanJSON(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || !hidden(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }

// Cut returns s in at most n runes, the last of which is an ellipsis if that is not all.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}
