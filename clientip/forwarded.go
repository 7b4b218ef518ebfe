package clientip

import (
	"net/netip"
	"strings"
)

// The Forwarded header of RFC 7239 is a list of elements,
//
//	for=192.0.2.60;proto=https, for="[2001:db8::17]:4711";host="a\"b,c"
//
// where quotes hide commas and backslashes hide quotes. What a caller sent stands
// to the left of what the proxies add, and reading from the left would let an open
// quote there swallow a proxy's element. So elements are split from the right, and
// a well-formed element is found exactly, whatever stands to its left:
//
// Going left, a quote outside a quoted string can only be the end of one. Inside, a
// quote with a backslash before it is content, and any other is the beginning: in
// the content a quote is always escaped, and before the beginning stands "=".
//
// What such a split yields is then read from the left as the grammar has it. What
// is not well-formed makes the caller Unknown: nobody can say where it begins.

// lastUnquotedComma returns where the last comma of s is outside quoted strings,
// or -1.
func lastUnquotedComma(s string) int {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case '"':
			quoted = !quoted || i > 0 && s[i-1] == '\\'
		case ',':
			if !quoted {
				return i
			}
		}
	}
	return -1
}

// parseForwarded reports whether an element is well-formed, and returns the address
// in its "for" parameter: the zero Addr if there is none, or if there are two. Two
// things that real proxies write are let pass: space around the semicolons, and
// values of other parameters that should have been quoted (host=example.com:8080).
func parseForwarded(s string) (addr netip.Addr, ok bool) {
	fors := 0
	for {
		s = strings.TrimLeft(s, " \t")
		if n := tokenLen(s); n > 0 {
			name, rest := s[:n], s[n:]
			if rest == "" || rest[0] != '=' {
				return netip.Addr{}, false
			}
			value, rest, ok := cutValue(rest[1:])
			if !ok {
				return netip.Addr{}, false
			}
			if strings.EqualFold(name, "for") {
				addr = parseFor(value)
				fors++
			}
			s = strings.TrimLeft(rest, " \t")
		}
		if s == "" {
			break
		}
		if s[0] != ';' {
			return netip.Addr{}, false
		}
		s = s[1:]
	}
	if fors > 1 {
		return netip.Addr{}, true
	}
	return addr, true
}

// parseFor reads the value of "for", its quotes included. A port and IPv6 must be
// quoted, since colons and brackets are not of a token. An address needs no
// backslashes, so there is nothing to unescape.
func parseFor(value string) netip.Addr {
	if n := len(value); n >= 2 && value[0] == '"' {
		return parseNode(value[1:n-1], true)
	}
	if !isToken(value) {
		return netip.Addr{}
	}
	return parseNode(value, true)
}

// cutValue cuts a parameter's value off the beginning of s, a quoted string with
// its quotes.
func cutValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		for i := 0; i < len(s); i++ {
			switch c := s[i]; {
			case c == ';', c == ' ', c == '\t':
				return s[:i], s[i:], true
			case c < ' ', c >= 0x7f, c == '"', c == '\\':
				return "", "", false
			}
		}
		return s, "", true
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[:i+1], s[i+1:], true
		case c == '\\':
			i++
		case c < ' ' && c != '\t', c == 0x7f:
			return "", "", false
		}
	}
	return "", "", false
}
