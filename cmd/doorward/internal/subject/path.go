package subject

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A pathPattern is a path of literal segments with one wildcard among them.
type pathPattern struct {
	segments []string // "" is the wildcard
	wildcard field    // as a query would have it
}

var errQueryWildcard = bad("the query names the wildcard too")

// newPath returns the Extractor of a path segment.
func newPath(s string) (*Extractor, error) {
	rest, ok := strings.CutPrefix(s, "/")
	if !ok {
		return nil, fmt.Errorf(`must start with "/", got %q`, s)
	}
	p := &pathPattern{}
	for seg := range strings.SplitSeq(rest, "/") {
		name, wild := strings.CutPrefix(seg, "{")
		name, closed := strings.CutSuffix(name, "}")
		switch {
		case wild && closed:
			f, err := newField(name)
			if err != nil || !isIdentifier(name) {
				return nil, fmt.Errorf("must have a wildcard like {id}, got %q", s)
			}
			if p.wildcard.name != "" {
				return nil, fmt.Errorf("must have one wildcard, got %q", s)
			}
			p.wildcard, seg = f, ""
		case seg == "" || seg == "." || seg == ".." || strings.ContainsFunc(seg, func(r rune) bool { return r >= 0x80 || !plainByte(byte(r)) }):
			return nil, fmt.Errorf("must have plain segments, got %q in %q", seg, s)
		}
		p.segments = append(p.segments, seg)
	}
	if p.wildcard.name == "" {
		return nil, fmt.Errorf("must have a wildcard like {id}, got %q", s)
	}
	return &Extractor{find: p.find}, nil
}

func isIdentifier(s string) bool {
	for i, c := range s {
		if !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != ""
}

// plainByte reports whether every server takes b in a path for itself.
func plainByte(b byte) bool {
	return isUnreserved(b) || strings.IndexByte("!$&'()*+,=:@", b) >= 0
}

func isUnreserved(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' || strings.IndexByte("-._~", b) >= 0
}

// find returns the segment of a target whose path has one reading. Other paths that
// have one reading name no subject.
func (p *pathPattern) find(r Request) (string, error) {
	path, _ := splitTarget(r.Target)
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return "", bad("the target is no path")
	}
	path, slash := strings.CutSuffix(path, "/")
	segments := strings.Split(path, "/")
	if path == "" && !slash {
		return "", nil
	}
	name, leads, exact := "", true, !slash && len(segments) == len(p.segments)
	reached := false
	for i, raw := range segments {
		s, ok := decodeSegment(raw)
		switch {
		case !ok:
			return "", bad("the path has two readings")
		case i >= len(p.segments):
		case p.segments[i] != "":
			leads = leads && sameSegment(s, p.segments[i])
			exact = exact && raw == p.segments[i]
		case leads:
			name, reached = s, true
			if strings.Contains(raw, "+") || strings.Contains(s, ".") && i == len(segments)-1 {
				exact = false // a space to some; the start of a format to others
			}
		}
	}
	switch {
	case !reached:
		return "", nil
	case !exact: // who counts segments does not look at what follows
		return "", bad("the path has two readings")
	}
	var n names
	if err := p.wildcard.mentioned(&n, r.Target, errQueryWildcard); err != nil {
		return "", err // what rewrites into a query adds it
	}
	return name, nil
}

// sameSegment reports whether some router takes s for a literal segment.
func sameSegment(s, literal string) bool {
	return Canonical(strings.TrimLeft(s, "? ")) == Canonical(literal)
}

// decodeSegment decodes a segment if it has one reading: nothing is escaped that
// needs no escape, or that is something else to whoever decodes twice or first.
func decodeSegment(raw string) (string, bool) {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '%' {
			if !plainByte(raw[i]) {
				return "", false
			}
			continue
		}
		if i+2 >= len(raw) {
			return "", false
		}
		hi, lo := hex(raw[i+1]), hex(raw[i+2])
		if b := byte(hi<<4 | lo); hi < 0 || lo < 0 || isUnreserved(b) || b < ' ' || b == 0x7f || strings.IndexByte(`/\%;?#`, b) >= 0 {
			return "", false
		}
		i += 2
	}
	s, _ := unescape(raw, false)
	return s, raw != "" && raw != "." && raw != ".." && utf8.ValidString(s)
}

// splitTarget returns path and query of a request target. An absolute URL loses its
// scheme and host.
func splitTarget(target string) (path, query string) {
	path, query, _ = strings.Cut(target, "?")
	scheme, rest, ok := strings.Cut(path, "://")
	if ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return path, query
}
