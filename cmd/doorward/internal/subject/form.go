package subject

import (
	"strings"
	"unicode/utf8"
)

// newForm returns the Extractor of a form field.
func newForm(name string) (*Extractor, error) {
	f, err := newField(name)
	if err != nil {
		return nil, err
	}
	return &Extractor{needsBody: true, find: f.fromForm}, nil
}

func (f *field) fromForm(r Request) (string, error) {
	m, err := mediaOf(r.Header)
	switch {
	case err != nil:
		return "", err
	case f.mentioned(r.Target):
		// Go's FormValue and PHP's $_REQUEST know of no difference.
		return "", bad("the query names the field too")
	case m.kind == urlencoded || m.kind == multipart:
		s, err := f.inForm(m, r.Body)
		return s.value, err
	case m.kind == absent && len(r.Body) == 0:
		return "", nil
	}
	return "", unsupported("the body is no form")
}

// newQuery returns the Extractor of a query parameter.
func newQuery(name string) (*Extractor, error) {
	f, err := newField(name)
	if err != nil {
		return nil, err
	}
	p := &jsonPath{nest: tight(name)} // refuses whatever is alike
	return &Extractor{needsBody: true, find: func(r Request) (string, error) {
		if err := f.silent(p, r); err != nil {
			return "", err
		}
		_, query := splitTarget(r.Target)
		if strings.Contains(query, "#") {
			return "", bad("the query has a fragment")
		}
		s := sought{field: &f}
		err := s.urlencoded(query)
		return s.value, err
	}}, nil
}

// silent refuses a body that names the field, or may: where both are asked, some look
// at the body first.
func (f *field) silent(p *jsonPath, r Request) error {
	if len(r.Body) == 0 {
		return nil
	}
	m, err := mediaOf(r.Header)
	if err != nil {
		return err
	}
	switch m.kind {
	case urlencoded, multipart:
		s, err := f.inForm(m, r.Body)
		if err == nil && s.found {
			err = bad("the body names the parameter too")
		}
		return err
	case jsonText:
		_, err := p.read(r.Body)
		return err
	}
	return unsupported("the body is neither a form nor JSON")
}

// inForm looks for the field in a body that is a form.
func (f *field) inForm(m media, body []byte) (sought, error) {
	s := sought{field: f}
	if m.kind == urlencoded {
		return s, s.urlencoded(string(body))
	}
	return s, s.multipart(string(body), m.boundary)
}

// urlencoded looks for the field in application/x-www-form-urlencoded text.
func (s *sought) urlencoded(text string) error {
	for i := range len(text) {
		switch b := text[i]; {
		case b == ';':
			return bad("the form has a bare semicolon") // a separator to Rack, an error to Go
		case b <= ' ' || b >= 0x7f:
			return bad("the form has a byte that must be escaped")
		}
	}
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		n, v, _ := strings.Cut(pair, "=")
		name, ok := unescape(n, true)
		value, ok2 := unescape(v, true)
		switch {
		case !ok || !ok2:
			return bad("the form has a malformed escape")
		case !utf8.ValidString(name):
			return bad("a field name is not UTF-8")
		}
		if _, err := s.meet(name, value); err != nil {
			return err
		}
	}
	return nil
}

// mentioned reports whether any parser may find the field in the query of target,
// however lax it is.
func (f *field) mentioned(target string) bool {
	_, query := splitTarget(target)
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return strings.ContainsRune("&;?#", r) }) {
		name, _, _ := strings.Cut(pair, "=")
		name, _ = unescape(name, true)
		if f.alike(name) {
			return true
		}
	}
	return false
}

// unescape decodes percent escapes, and "+" if plus is set. Malformed escapes stay as
// they are, and are reported.
func unescape(s string, plus bool) (string, bool) {
	if !strings.ContainsAny(s, "%+") {
		return s, true
	}
	b, ok := make([]byte, 0, len(s)), true
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+' && plus:
			c = ' '
		case c == '%':
			if i+2 >= len(s) || hex(s[i+1]) < 0 || hex(s[i+2]) < 0 {
				ok = false
				break
			}
			c = byte(hex(s[i+1])<<4 | hex(s[i+2]))
			i += 2
		}
		b = append(b, c)
	}
	return string(b), ok
}

func hex(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return int(b|0x20-'a') + 10
	}
	return -1
}
