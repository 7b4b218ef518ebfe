package outcome

import (
	"strings"
	"time"
)

// setsCookie reports whether the answer sets the cookie, by the rules of RFC 6265
// for browsers. Where they let a broken attribute pass and the cookie might be a
// deletion, it is one.
func setsCookie(header map[string][]string, name string) bool {
	set := false
	for _, line := range header["Set-Cookie"] {
		pair, attributes, _ := strings.Cut(line, ";")
		key, value, ok := strings.Cut(pair, "=")
		if !ok || strings.Trim(key, " \t\r\n\v\f") != name {
			continue
		}
		set = trim(unquote(trim(value))) != "" && !hasControl(line) && !deletes(attributes, header["Date"])
	}
	return set
}

// deletes reports whether the attributes of a cookie delete it. Max-Age wins over
// Expires, and the last of each counts.
func deletes(attributes string, date []string) bool {
	var deleted, aged bool
	var expires string
	for attributes != "" {
		var a string
		a, attributes, _ = strings.Cut(attributes, ";")
		key, value, _ := strings.Cut(a, "=")
		key, value = trim(key), unquote(trim(value))
		switch {
		case strings.EqualFold(key, "Max-Age"):
			if zero, ok := maxAge(value); ok {
				deleted, aged = zero, true
			}
		case strings.EqualFold(key, "Expires"):
			expires = value
		}
	}
	if aged || expires == "" {
		return deleted
	}
	return past(expires, date)
}

// maxAge reports whether s is zero or less, by the digits that it starts with. It
// is not ok without any: everyone ignores that.
func maxAge(s string) (zero, ok bool) {
	if strings.HasPrefix(s, "-") {
		return true, true
	}
	s = strings.TrimPrefix(s, "+")
	digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
	return strings.Trim(digits, "0") == "", digits != ""
}

// written is a time that is past wherever this code runs.
var written = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// layouts are the forms in which servers write a time, with or without dashes, with
// two digits for the year, and as C does.
var layouts = [...]string{
	"Mon, 2 Jan 2006 15:04:05 MST", "Mon, 2-Jan-2006 15:04:05 MST",
	"Mon, 2-Jan-06 15:04:05 MST", "Mon, 2 Jan 06 15:04:05 MST", "Monday, 2-Jan-06 15:04:05 MST",
	"Mon, 2 Jan 2006 15:04:05 -0700", "Mon Jan _2 15:04:05 2006",
}

func parseTime(s string) (t time.Time, ok bool) {
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// past reports whether a time lies in the past, or cannot be read: many a server
// deletes a cookie with "Expires=0".
func past(expires string, date []string) bool {
	t, ok := parseTime(expires)
	if !ok || t.Before(written) {
		return true
	}
	if len(date) == 1 {
		now, ok := parseTime(date[0])
		return ok && !t.After(now)
	}
	return false
}

func trim(s string) string { return strings.Trim(s, " \t") }

func unquote(s string) string {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// hasControl reports whether browsers drop the line: it has a control character.
func hasControl(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
