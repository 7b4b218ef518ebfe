package door

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// route is a parsed pattern. Trailing slashes do not count in a target, so a route
// needs no {$}, and what ends in "/" or {name...} covers the path above as well.
type route struct {
	method string
	host   string // lower or upper case, bare
	path   path
}

type segment struct {
	lit  string // "" in a wildcard
	wild bool
}

func parseRoute(s string, ignoreCase bool) (route, error) {
	var t route
	if s == "" {
		return t, errors.New("pattern is empty")
	}
	rest := s
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		t.method, rest = s[:i], strings.TrimLeft(s[i+1:], " \t")
	}
	if strings.TrimLeft(t.method, tokenChars) != "" {
		return t, fmt.Errorf("method must be a token, got %q", t.method)
	}
	i := strings.IndexByte(rest, '/')
	if i < 0 {
		return t, errors.New(`path must start with "/"`)
	}
	host := rest[:i]
	switch {
	case strings.Contains(host, "{"):
		return t, fmt.Errorf(`host must not have a wildcard, got %q (is a "/" missing?)`, host)
	case strings.ContainsAny(host, " \t@?#%\\"), strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }):
		return t, fmt.Errorf("host must be a host name, got %q", host)
	case strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
	case strings.Contains(host, ":"):
		return t, fmt.Errorf("host must not have a port, which is not compared, got %q", host)
	}
	t.host = bareHost(host)
	if host != "" && t.host == "" {
		return t, fmt.Errorf("host must be a host name, got %q", host)
	}
	if err := t.path.parse(rest[i:], ignoreCase); err != nil {
		return t, err
	}
	if n := len(t.path.segs); n > 0 && strings.Contains(t.path.segs[n-1].lit, ".") {
		t.path.rest = true // what follows a file is an argument to it
	}
	t.path.compile()
	return t, nil
}

const tokenChars = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func (p *path) parse(s string, ignoreCase bool) error {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		return fmt.Errorf("path must not have a query or fragment, got %q", s[i:])
	}
	parts := strings.Split(s[1:], "/")
	seen := map[string]bool{}
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "" && last, part == "{$}" && last:
			p.rest = part == ""
			return nil
		case part == "":
			return errors.New("path must not have a doubled slash")
		case part == "{$}":
			return errors.New("{$} must be at the end")
		case !strings.Contains(part, "{"):
			lit, err := literal(part, ignoreCase)
			if err != nil {
				return err
			}
			p.segs = append(p.segs, segment{lit: lit})
			continue
		case part[0] != '{' || part[len(part)-1] != '}':
			return fmt.Errorf("a wildcard must be a whole segment, got %q", part)
		}
		name, multi := strings.CutSuffix(part[1:len(part)-1], "...")
		switch {
		case !isIdentifier(name):
			return fmt.Errorf("a wildcard must be named like a Go variable, got %q", part)
		case seen[name]:
			return fmt.Errorf("a wildcard name must be used once, got %q twice", name)
		case multi && !last:
			return fmt.Errorf("%s must be at the end", part)
		case multi:
			p.rest = true
			return nil
		}
		seen[name] = true
		p.segs = append(p.segs, segment{wild: true})
	}
	return nil
}

// literal decodes one segment of a pattern, and folds it if the application does.
func literal(s string, ignoreCase bool) (string, error) {
	lit, err := url.PathUnescape(s)
	if err != nil {
		return "", fmt.Errorf("path must not have a malformed escape, got %q", s)
	}
	if lit == "." || lit == ".." {
		return "", fmt.Errorf("path must not have a dot segment, got %q", s)
	}
	if strings.TrimSpace(lit) != lit || strings.Contains(lit, ";") {
		return "", fmt.Errorf("a segment must not have white space around it or a ';', got %q", s)
	}
	if strings.Contains(lit, "/") || newView(nil, lit, false).dubious {
		return "", fmt.Errorf("a segment must not have a slash, backslash, control character or overlong form, got %q", s)
	}
	if ignoreCase {
		lit = foldAll(lit)
	}
	return lit, nil
}

// foldAll folds as the view of a path does.
func foldAll(s string) string {
	v := newView(nil, "/"+s, true)
	b := make([]byte, 0, len(s))
	for _, sym := range v.syms[1:] {
		b = append(b, sym.b)
	}
	return string(b)
}

func isIdentifier(s string) bool {
	for i, c := range s {
		if !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != ""
}

// fold returns one rune for all that differ from r in letter case only, by the
// simple folding of Unicode. Dotted and dotless i are i, as for whoever compares
// lower or upper case forms.
func fold(r rune) rune {
	if r == 'İ' || r == 'ı' {
		return 'I'
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// matchPlain matches a plain path from left to right.
func (p *path) matchPlain(s string, ignoreCase bool) bool {
	for _, seg := range p.segs {
		if len(s) < 2 {
			return false
		}
		s = s[1:]
		end := strings.IndexByte(s, '/')
		if end < 0 {
			end = len(s)
		}
		if !seg.wild && !equal(s[:end], seg.lit, ignoreCase) {
			return false
		}
		s = s[end:]
	}
	return p.rest || s == "" || s == "/"
}

// equal compares an ASCII string with a literal, which is folded if fold is set.
func equal(s, lit string, fold bool) bool {
	if !fold || len(s) != len(lit) {
		return s == lit
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != lit[i] {
			return false
		}
	}
	return true
}

// Overlaps reports whether one request with an ordinary target may be an attempt
// at both doors. It is exact, but for BasicAuth, which it does not look at, and for
// names that differ in letter case where only one door ignores it: those overlap.
func Overlaps(a, b *Door) bool {
	for i := range a.routes {
		for j := range b.routes {
			if a.routes[i].overlaps(&b.routes[j], a.ignoreCase || b.ignoreCase) {
				return true
			}
		}
	}
	return false
}

func (t *route) overlaps(u *route, ignoreCase bool) bool {
	if t.host != "" && u.host != "" && !strings.EqualFold(t.host, u.host) {
		return false
	}
	if t.method != "" && !u.admitsMethod(t.method) && !t.admitsMethod(u.method) {
		return false
	}
	a, b := t.path.segs, u.path.segs
	if len(a) > len(b) && !u.path.rest || len(b) > len(a) && !t.path.rest {
		return false
	}
	for i := range min(len(a), len(b)) {
		if a[i].wild || b[i].wild {
			continue
		}
		x, y := a[i].lit, b[i].lit
		if ignoreCase {
			x, y = foldAll(x), foldAll(y)
		}
		if x != y {
			return false
		}
	}
	return true
}
