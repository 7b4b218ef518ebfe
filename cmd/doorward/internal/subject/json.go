package subject

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep JSON may nest. Servers stop at 20 to 10,000.
const maxDepth = 64

// A jsonPath leads to a string in a JSON object, and knows the keys that some decoder
// takes for those on the way.
type jsonPath struct {
	keys  []string // none: whatever is alike is refused
	nest  []string
	query field // the path as a query would have it
}

var errQueryMember = bad("the query names the member too")

// newJSON returns the Extractor of a member of a JSON body.
func newJSON(path string) (*Extractor, error) {
	p := &jsonPath{keys: strings.Split(path, ".")}
	for _, key := range p.keys {
		if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == utf8.RuneError || strings.ContainsRune("[]\"\\\x7f", r) }) {
			return nil, fmt.Errorf("must be keys with dots between them, got %q", path)
		}
		folded, err := new(names).fold(key)
		if err != nil {
			return nil, fmt.Errorf("must be shorter keys, got %q", path)
		}
		n := tight(folded)
		if len(n) != 1 || folded == "__proto__" {
			return nil, fmt.Errorf("must be keys of letters and digits, got %q", path)
		}
		p.nest = append(p.nest, n[0])
		p.query.nest = append(p.query.nest, folded)
	}
	if len(p.keys) > maxDepth {
		return nil, fmt.Errorf("must be at most %d keys, got %d", maxDepth, len(p.keys))
	}
	p.query.flat = mangle(strings.Join(p.query.nest, "_"))
	p.query.root, p.query.keys = mangle(p.query.nest[0]), p.query.nest[1:]
	return &Extractor{needsBody: true, find: p.find}, nil
}

func (p *jsonPath) find(r Request) (string, error) {
	var n names
	m, err := mediaOf(r.Header)
	if err == nil {
		// Laravel and Rails merge them.
		err = p.query.mentioned(&n, r.Target, errQueryMember)
	}
	switch {
	case err != nil:
		return "", err
	case m.kind == jsonText:
		return p.read(&n, r.Body)
	case m.kind == absent && len(r.Body) == 0:
		return "", nil
	}
	return "", unsupported("the body is not JSON")
}

// tight splits a folded key as it would be in a form and leaves "_" and "-" out, as
// protobuf, Go's encoding/json/v2 and Jackson do in their lax ways. All ignore case in
// some mode.
func tight(key string) []string {
	key = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return r
	}, key)
	return segments(strings.TrimLeft(key, "? "))
}

// read returns the string that p leads to in a JSON text, "" if there is none. It
// accepts RFC 8259 in UTF-8, and no more.
func (p *jsonPath) read(n *names, text []byte) (string, error) {
	if !utf8.Valid(text) {
		return "", bad("JSON is not UTF-8")
	}
	s := scanner{text: text, path: p, names: n}
	s.blanks()
	if s.peek() != '{' {
		return "", bad("JSON is no object")
	}
	if err := s.object(1, 0); err != nil {
		return "", err
	}
	if s.blanks(); s.i != len(text) {
		return "", bad("JSON has something after it")
	}
	return s.name, nil
}

// scanner reads a JSON text once, from left to right.
type scanner struct {
	text []byte
	i    int
	path *jsonPath
	name string

	names *names
	seen  int // keys of the objects on the way
}

var errSyntax = bad("JSON is malformed")

// off is the place in the path of values that are beside it.
const off = -1

// object reads an object that is at a place in the path.
func (s *scanner) object(depth, at int) error {
	seen := false
	return s.list(depth, '}', func() error {
		key, err := s.str()
		if err != nil {
			return err
		}
		if s.blanks(); !s.take(':') {
			return errSyntax
		}
		s.blanks()
		p := s.path
		if strings.Contains(key, "\x00") {
			return bad("a JSON key has a NUL")
		}
		folded, err := s.names.fold(key)
		if err != nil {
			return err
		}
		switch {
		case folded == "__proto__":
			return bad("a JSON key is __proto__")
		case at == off:
			return s.value(depth)
		case at < len(p.keys) && key == p.keys[at]:
			if seen {
				return bad("the JSON key is there twice")
			}
			seen = true
			return s.member(depth, at)
		}
		if s.seen++; s.seen > maxFields {
			return bad("JSON has too many keys")
		}
		if related(tight(folded), p.nest[at:]) {
			return bad("the JSON key is there in another spelling")
		}
		return s.value(depth)
	})
}

// member reads the value of the key at a place in the path.
func (s *scanner) member(depth, at int) (err error) {
	last := at == len(s.path.keys)-1
	switch c := s.peek(); {
	case c == 'n': // null
		return s.value(depth)
	case c == '"' && last:
		s.name, err = s.str()
		return err
	case c == '{' && !last:
		return s.object(depth+1, at+1)
	}
	if err := s.value(depth); err != nil {
		return err
	}
	return bad("the JSON value is of another type")
}

// value reads any value beside the path.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth+1, off)
	case c == '[':
		return s.list(depth+1, ']', func() error { return s.value(depth + 1) })
	case c == '"':
		_, err := s.str()
		return err
	case c == '-', '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(string(s.text[s.i:min(s.i+5, len(s.text))]), word) {
			s.i += len(word)
			return nil
		}
	}
	return errSyntax
}

// list reads what stands between brackets, with commas between.
func (s *scanner) list(depth int, end byte, item func() error) error {
	if depth > maxDepth {
		return bad("JSON is too deep")
	}
	s.i++
	if s.blanks(); s.take(end) {
		return nil
	}
	for {
		s.blanks()
		if err := item(); err != nil {
			return err
		}
		if s.blanks(); s.take(end) {
			return nil
		}
		if !s.take(',') {
			return errSyntax
		}
	}
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) number() error {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return errSyntax
	}
	if s.take('.') && !s.digits() {
		return errSyntax
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return errSyntax
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}

func (s *scanner) blanks() {
	for s.i < len(s.text) && slices.Contains([]byte(" \t\r\n"), s.text[s.i]) {
		s.i++
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.text) {
		return s.text[s.i]
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.i == len(s.text) {
		return false
	}
	s.i++
	return true
}
