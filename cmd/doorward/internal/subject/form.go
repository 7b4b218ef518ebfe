package subject

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

var errQueryToo = bad("the query names the field too")

// newForm returns the Extractor of a form field.
func newForm(name string) (*Extractor, error) {
	f, err := newField(name)
	if err != nil {
		return nil, err
	}
	return &Extractor{needsBody: true, find: f.fromForm}, nil
}

func (f *field) fromForm(r Request) (string, error) {
	var n names
	m, err := mediaOf(r.Header)
	if err == nil {
		// Go's FormValue and PHP's $_REQUEST know of no difference.
		err = f.mentioned(&n, r.Target, errQueryToo)
	}
	if err == nil {
		err = f.baked(&n, r.Header)
	}
	switch {
	case err != nil:
		return "", err
	case m.kind == urlencoded || m.kind == multipart:
		s, err := f.inForm(&n, m, r.Body)
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
	p := &jsonPath{nest: tight(strings.ToLower(name))} // refuses whatever is alike
	return &Extractor{needsBody: true, find: func(r Request) (string, error) {
		var n names
		if err := f.baked(&n, r.Header); err != nil {
			return "", err
		}
		if err := f.silent(&n, p, r); err != nil {
			return "", err
		}
		_, query := splitTarget(r.Target)
		if strings.Contains(query, "#") {
			return "", bad("the query has a fragment")
		}
		s := sought{field: &f, names: &n}
		err := s.urlencoded(query)
		return s.value, err
	}}, nil
}

// silent refuses a body that names the field, or may: where both are asked, some look
// at the body first.
func (f *field) silent(n *names, p *jsonPath, r Request) error {
	if len(r.Body) == 0 {
		return nil
	}
	m, err := mediaOf(r.Header)
	if err != nil {
		return err
	}
	switch m.kind {
	case urlencoded, multipart:
		s, err := f.inForm(n, m, r.Body)
		if err == nil && s.found {
			err = bad("the body names the parameter too")
		}
		return err
	case jsonText:
		_, err := p.read(n, r.Body)
		return err
	}
	return unsupported("the body is neither a form nor JSON")
}

// inForm looks for the field in a body that is a form.
func (f *field) inForm(n *names, m media, body []byte) (sought, error) {
	s := sought{field: f, names: n}
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

// mentioned returns an error, too if any parser may find the field in the query of
// target, however lax it is.
func (f *field) mentioned(n *names, target string, too error) error {
	_, query := splitTarget(target)
	seen := 0
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return strings.ContainsRune("&;?#", r) }) {
		if seen++; seen > maxFields {
			return bad("the query has too many parameters")
		}
		name, _, _ := strings.Cut(pair, "=")
		name, _ = unescape(name, true)
		spelling, err := n.spell(name)
		switch {
		case err != nil:
			return err
		case f.alike(spelling):
			return too
		case !balanced(name):
			return bad("a parameter name has contorted brackets")
		}
	}
	return nil
}

// baked refuses a cookie that has the name of the field, or of what it is in: PHP's
// $_REQUEST prefers cookies unless php.ini says otherwise.
func (f *field) baked(n *names, h http.Header) error {
	seen := 0
	for _, line := range h["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
			if name == "" {
				continue
			}
			if seen++; seen > maxFields {
				return bad("the request has too many cookies")
			}
			name, _ = unescape(name, true) // PHP did until 2020
			spelling, err := n.spell(name)
			if err != nil {
				return err
			}
			if f.alike(spelling) || spelling.root == f.root || spelling.flat == f.root {
				return bad("a cookie has the name of the field")
			}
		}
	}
	return nil
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
