package subject

import (
	"net/http"
	"strings"
)

// kind is what a body says it is.
type kind uint8

const (
	absent kind = iota // no Content-Type
	urlencoded
	multipart
	jsonText
	other
)

// media is what the header says about the body.
type media struct {
	kind     kind
	boundary string
}

// mediaOf reads Content-Type and Content-Encoding. What is other has no parameters
// that were looked at.
func mediaOf(h http.Header) (media, error) {
	encoding, set, err := single(h, "Content-Encoding")
	if err != nil {
		return media{}, err
	}
	if set && !strings.EqualFold(encoding, "identity") {
		return media{}, unsupported("the body has a content encoding")
	}
	value, set, err := single(h, "Content-Type")
	if err != nil || !set {
		return media{}, err
	}
	return parseMedia(value)
}

func parseMedia(value string) (m media, err error) {
	name, rest, more := strings.Cut(value, ";")
	switch name = strings.ToLower(strings.TrimRight(name, " \t")); {
	case name == "application/x-www-form-urlencoded":
		m.kind = urlencoded
	case name == "multipart/form-data":
		m.kind = multipart
	case name == "application/json", isPlusJSON(name):
		m.kind = jsonText
	default:
		return media{kind: other}, nil
	}
	charset := false
	for more {
		var param string
		param, rest, more = strings.Cut(rest, ";")
		key, v, _ := strings.Cut(strings.Trim(param, " \t"), "=")
		if n := len(v); n >= 2 && v[0] == '"' && v[n-1] == '"' {
			v = v[1 : n-1]
		}
		switch {
		case strings.EqualFold(key, "charset") && !charset:
			if charset = true; !isUTF8(v) {
				return m, unsupported("the body has another charset than UTF-8")
			}
		case key == "boundary" && m.kind == multipart && m.boundary == "" && isBoundary(v):
			m.boundary = v
		default:
			return m, unsupported("the content type has a parameter that it should not have")
		}
	}
	if m.kind == multipart && m.boundary == "" {
		return m, unsupported("the content type has no boundary")
	}
	return m, nil
}

// isPlusJSON reports whether name is application/SOMETHING+json.
func isPlusJSON(name string) bool {
	sub, ok := strings.CutPrefix(name, "application/")
	sub, ok2 := strings.CutSuffix(sub, "+json")
	return ok && ok2 && sub != "" && strings.Trim(sub, "abcdefghijklmnopqrstuvwxyz0123456789.-_+") == ""
}

func isUTF8(charset string) bool {
	return strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}

// isBoundary reports whether s is like the boundaries that clients make up: up to 70
// letters, digits and three signs, and not signs alone.
func isBoundary(s string) bool {
	return len(s) <= 70 && strings.Trim(s, "-_.") != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	}) < 0
}
