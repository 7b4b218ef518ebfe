package guard

import (
	"strings"
	"unicode"
)

// Canonical returns one form for the spellings of a name that most applications take
// for one account: without white space around it, letter case folded one rune at a
// time. It is what front ends use unless they are given another function.
//
// The bound per subject reaches as far as this form and the application's own
// comparison agree. What the application tells apart and Canonical does not shares one
// budget, which is harmless; what the application takes for one and Canonical does not
// has several. Canonical does not fold Unicode compatibility forms (full-width
// letters, ligatures, NFC and NFD), invisible characters, "ß" and "ss", dots or tags in
// mail addresses, or letters that look alike. An application that does needs a
// function of its own.
func Canonical(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return unicode.ToLower(least)
	}, strings.TrimSpace(name))
}
