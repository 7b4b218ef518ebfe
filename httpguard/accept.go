package httpguard

import "strings"

// The types that an answer of ours can have.
const (
	typeText = iota
	typeHTML
	typeJSON
)

var contentTypes = [...]string{
	typeText: "text/plain; charset=utf-8",
	typeHTML: "text/html; charset=utf-8",
	typeJSON: "application/problem+json",
}

// maxRanges is how many media ranges of an Accept header are read.
const maxRanges = 32

// How narrowly a media range names a type: the narrowest that matches decides.
const (
	anyType    = iota + 1 // */*
	anySubtype            // application/*
	exact                 // application/json
)

// A preference is what an Accept header says of one type.
type preference struct{ quality, match int }

// negotiate picks the type of an answer: the one with the highest quality; among
// equals the one that was asked for more narrowly, so that "application/json, */*"
// is JSON; among those JSON before HTML if both were named, and text before HTML if
// neither was: then nobody says that there is a browser. What accepts none of them gets
// text. Lines that net/http would split elsewhere are read as one list.
func negotiate(accept []string) int {
	var wants [len(contentTypes)]preference
	ranges := 0
	for _, line := range accept {
		for line != "" && ranges < maxRanges {
			var r string
			r, line = cutUnquoted(line, ',')
			ranges++
			r, params := cutUnquoted(r, ';')
			q, ok := quality(params)
			if !ok {
				continue
			}
			for kind := range wants {
				m := match(strings.Trim(r, " \t"), kind)
				switch w := &wants[kind]; {
				case m > w.match:
					*w = preference{q, m}
				case m == w.match && m > 0:
					w.quality = max(w.quality, q)
				}
			}
		}
	}
	best := typeText
	for _, kind := range []int{typeHTML, typeJSON} {
		w, b := wants[kind], wants[best]
		if w.quality > b.quality || w.quality == b.quality && (w.match > b.match || w.match == b.match && w.match == exact) {
			best = kind
		}
	}
	if wants[best].quality == 0 {
		return typeText
	}
	return best
}

// match tells how narrowly a media range names a type, 0 if it does not. Any JSON
// format asks for JSON: what knows no problem details sees an object in its language.
func match(r string, kind int) int {
	main, sub, ok := strings.Cut(r, "/")
	if !ok {
		return 0
	}
	want, wantSub := "text", "plain"
	switch kind {
	case typeHTML:
		wantSub = "html"
	case typeJSON:
		want, wantSub = "application", "json"
	}
	switch {
	case main == "*" && sub == "*":
		return anyType
	case !strings.EqualFold(main, want):
		return 0
	case sub == "*":
		return anySubtype
	case strings.EqualFold(sub, wantSub):
		return exact
	case kind == typeJSON && len(sub) > len("+json") && strings.EqualFold(sub[len(sub)-len("+json"):], "+json"):
		return exact
	}
	return 0
}

// quality returns the weight among the parameters of a media range in thousandths,
// 1,000 if there is none, and false if it is none of RFC 9110.
func quality(params string) (q int, ok bool) {
	for params != "" {
		var p string
		p, params = cutUnquoted(params, ';')
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.Trim(name, " \t"), "q") {
			return parseQuality(strings.Trim(value, " \t"))
		}
	}
	return 1000, true
}

func parseQuality(s string) (q int, ok bool) {
	whole, digits, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(digits) > 3 {
		return 0, false
	}
	for _, unit := range []int{100, 10, 1} {
		if digits == "" {
			break
		}
		if digits[0] < '0' || digits[0] > '9' {
			return 0, false
		}
		q += int(digits[0]-'0') * unit
		digits = digits[1:]
	}
	if whole == "1" {
		q += 1000
	}
	return q, q <= 1000
}

// cutUnquoted cuts s at the first sep that is not inside a quoted string.
func cutUnquoted(s string, sep byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == sep && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
