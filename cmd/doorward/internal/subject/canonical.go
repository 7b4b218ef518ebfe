package subject

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/doorward/doorward"
)

// maxRounds bounds the way to the fixed point. Two rounds do for anything sensible.
const maxRounds = 16

// longName is the length in bytes from which names are left as they are: all names
// beyond doorward.MaxNameLength are one subject, and to fold long ones costs
// milliseconds.
const longName = 4 * doorward.MaxNameLength

// Canonical is the form in which names are compared unless the operator has another:
// NFKC, folded by the full case folding of Unicode, without characters that show
// nothing (zero width, bidirectional controls, soft hyphens, variation selectors, tags
// and whatever else is default ignorable, control characters), and without white
// space around it. Canonical(Canonical(s)) is Canonical(s). What is no UTF-8 becomes
// U+FFFD.
//
// It is coarse where applications differ, so that one account is never two: Straße
// is STRASSE, ﬁ is fi, ² is 2, the dotted İ and the dotless ı are both i.
//
// It does not fold what only some applications do: accents (josé is not jose, but is
// to a MySQL collation ending in _ai_ci), characters that look alike (Cyrillic а and
// Latin a), white space within, dots and plus tags in mail addresses, domains that
// mean one provider, transliterations, leading zeros. An application that does has
// one account with several budgets; it needs a canonical form of its own.
//
// Names over 1 KiB are not folded: they are one subject whatever they say.
func Canonical(s string) string {
	s = visible(s)
	switch {
	case len(s) > longName:
		return s
	case isASCII(s):
		return strings.ToLower(s)
	}
	fold := cases.Fold()
	for range maxRounds {
		// Folded apart, marks keep their places: an iota below becomes a letter.
		t := visible(norm.NFKD.String(s))
		if len(t) > longName {
			return visible(norm.NFKC.String(t))
		}
		t = fold.String(dotted(t))
		t = strings.ToLower(t) // Cherokee, which Fold leaves alone
		t = visible(norm.NFKC.String(t))
		if t == s {
			break
		}
		s = t
	}
	return s
}

// dotted makes one letter of the four that are an i in Turkish. Compared in upper
// case ı is i, compared in lower case İ is, an i whose dot is a mark of its own. It
// takes them apart already.
func dotted(s string) string {
	if !strings.ContainsAny(s, "ı\u0307") {
		return s
	}
	onI := false
	return strings.Map(func(r rune) rune {
		switch {
		case r == 'i', r == 'I', r == 'ı':
			onI = true
			return 'i'
		case onI && r == '\u0307':
			return -1
		case !unicode.Is(unicode.Mn, r):
			onI = false
		}
		return r
	}, s)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// visible returns s without what shows nothing and without white space around it, and
// with U+FFFD for every byte that is no UTF-8.
func visible(s string) string {
	return strings.TrimFunc(strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, s), unicode.IsSpace)
}

// invisible reports whether r has no looks: the default ignorable characters, which
// unassigned ones are among, and controls that are no white space. The format
// characters that are signs of their own in Arabic and Syriac stay.
func invisible(r rune) bool {
	switch {
	case r < 0x80:
		return r < ' ' && !unicode.IsSpace(r) || r == 0x7f
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.IsControl(r) && !unicode.IsSpace(r)
}
