package subject

import (
	"strings"
	"unicode/utf8"
)

// str reads a JSON string and decodes it.
func (s *scanner) str() (string, error) {
	if !s.take('"') {
		return "", errSyntax
	}
	start := s.i
	var b []byte // nil as long as nothing is escaped
	for {
		c := s.peek()
		switch {
		case c < ' ': // the end, too
			return "", errSyntax
		case c == '"' && b == nil:
			s.i++
			return string(s.text[start : s.i-1]), nil
		case c == '"':
			s.i++
			return string(b), nil
		case c != '\\':
			s.i++
			if b != nil {
				b = append(b, c)
			}
			continue
		}
		if b == nil {
			b = append(make([]byte, 0, s.i-start+16), s.text[start:s.i]...)
		}
		s.i++
		r, err := s.escape()
		if err != nil {
			return "", err
		}
		b = utf8.AppendRune(b, r)
	}
}

// escape reads what follows a backslash.
func (s *scanner) escape() (rune, error) {
	c := s.peek()
	s.i++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, errSyntax
	}
	r, ok := s.hex4()
	switch {
	case !ok:
		return 0, errSyntax
	case r < 0xd800 || r > 0xdfff:
		return r, nil
	}
	// Go makes U+FFFD of a surrogate alone, JavaScript keeps it, PHP gives up.
	if r > 0xdbff || !s.take('\\') || !s.take('u') {
		return 0, bad("JSON has a lone surrogate")
	}
	low, ok := s.hex4()
	switch {
	case !ok:
		return 0, errSyntax
	case low < 0xdc00 || low > 0xdfff:
		return 0, bad("JSON has a lone surrogate")
	}
	return 0x10000 + (r-0xd800)<<10 + low - 0xdc00, nil
}

func (s *scanner) hex4() (r rune, ok bool) {
	for range 4 {
		d := hex(s.peek())
		if d < 0 {
			return 0, false
		}
		r = r<<4 | rune(d)
		s.i++
	}
	return r, true
}
