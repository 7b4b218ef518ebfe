package door

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// script reads choices from fuzz input; past its end every choice is 0.
type script struct{ b []byte }

func (s *script) pick(n int) int {
	if len(s.b) == 0 {
		return 0
	}
	c := int(s.b[0]) % n
	s.b = s.b[1:]
	return c
}

// respell applies one way of writing the same path differently to s. What it
// inserts before a slash is undone by cleaning; what it appends, by cutting.
func respell(s string, c *script) string {
	var slashes []int
	for i := 0; i < len(s); i++ {
		if s[i] == '/' || s[i] == '\\' {
			slashes = append(slashes, i)
		}
	}
	insert := func(what string) string {
		if len(slashes) == 0 {
			return s
		}
		i := slashes[c.pick(len(slashes))]
		return s[:i] + what + s[i:]
	}
	junk := []string{"x", "%2f", "..;", "%252e", "a%5cb", "%3f", "é", "%ff", "login"}
	switch c.pick(12) {
	case 0:
		return insert("/")
	case 1:
		return insert("/.")
	case 2:
		return insert("/" + junk[c.pick(len(junk))] + "/..")
	case 3:
		return insert(";x=" + junk[c.pick(len(junk))])
	case 4:
		return s + "/"
	case 5:
		return s + ";" + junk[c.pick(len(junk))]
	case 6:
		return s + "?" + junk[c.pick(len(junk))]
	case 7:
		return s + "#" + junk[c.pick(len(junk))]
	case 8:
		return s + "/x/.."
	case 9:
		return s + "\x00" + junk[c.pick(len(junk))]
	case 10:
		if len(slashes) > 0 {
			i := slashes[c.pick(len(slashes))]
			return s[:i] + `\` + s[i+1:]
		}
		return s
	}
	return insert("\x00")
}

// encode writes some bytes of s as escapes, percent signs always.
func encode(s string, c *script) string {
	var b strings.Builder
	all := c.pick(4) == 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '%' || all || c.pick(3) == 1:
			fmt.Fprintf(&b, []string{"%%%02x", "%%%02X"}[c.pick(2)], s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// FuzzMatch respells a covered path, encodes it, respells that, encodes it again
// and respells the result. Whatever comes out is covered or bad.
func FuzzMatch(f *testing.F) {
	for seed := range 24 {
		b := make([]byte, 40)
		for i := range b {
			b[i] = byte(seed*7 + i*(seed+3))
		}
		f.Add(uint8(seed), b)
	}
	paths := []struct{ pattern, path string }{
		{"POST /login", "/login"}, {"POST /", "/x/y"}, {"POST /a/{id}/b", "/a/17/b"}, {"POST /a/b/", "/a/b/c"},
		{"POST /{$}", "/"}, {"POST /été/{rest...}", "/été/x"}, {"POST /a.b/..c", "/a.b/..c"}, {"POST /aab/ab/", "/aab/ab"},
	}
	var doors [2][]*Door
	for i := range doors {
		for _, p := range paths {
			doors[i] = append(doors[i], mustNew(f, Config{Routes: []string{p.pattern}, IgnoreCase: i == 1}))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		c := &script{b}
		fold := c.pick(2)
		n := int(which) % len(paths)
		s := paths[n].path
		if fold == 1 {
			s = []string{strings.ToUpper(s), strings.ToLower(s), s}[c.pick(3)]
		}
		for level := range 3 {
			for range c.pick(4) {
				s = respell(s, c)
			}
			if level < 2 {
				s = encode(s, c)
			}
		}
		switch c.pick(4) {
		case 1:
			if s[0] != '/' && s[0] != '\\' {
				s = "/" + s
			}
			s = "http://example.com" + s
		case 2:
			s = "//example.com/" + s
		case 3:
			if !strings.HasPrefix(s, "//") {
				s = "http:" + s
			}
		}
		if got := doors[fold][n].Match(Request{Method: "POST", Host: "example.com", Target: s}); got == None && len(s) < MaxPath {
			t.Errorf("%q at %q, IgnoreCase %d: none", s, paths[n].pattern, fold)
		}
	})
}

// FuzzTarget holds for any target: the plain path agrees with all readings, and a
// covered target stays so when it is spelled with escapes.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/login", "/LOGIN/x", "//a/%2e%2e/b", "/a/\\", "http://h/login", "*", "/%", "/\xe0\x80\xaf", "/a;b/c"} {
		f.Add("POST /login", s, true)
		f.Add("/{x}/b/", s, false)
	}
	f.Fuzz(func(t *testing.T, pattern, target string, fold bool) {
		d, err := New(Config{Routes: []string{pattern}, IgnoreCase: fold})
		if err != nil {
			t.Skip()
		}
		r := Request{Method: "POST", Host: "h", Target: target}
		got := d.Match(r)
		path, authority := splitTarget(target)
		if slow := d.matchAny(&Request{Method: "POST", Host: "h"}, authority, path); slow != got && len(path) <= MaxPath {
			t.Errorf("%q at %q: got %v, all readings %v", target, pattern, got, slow)
		}
		if path != "" && path[0] == '/' && len(path) < 1000 {
			r.Target = encode(path[:1], &script{[]byte{1, 0}}) + encode(path[1:], &script{})
			if strings.HasPrefix(r.Target, "/") && got != None && d.Match(r) == None {
				t.Errorf("%q at %q: got %v, encoded as %q none", target, pattern, got, r.Target)
			}
		}
	})
}

// muxMatches asks http.ServeMux whether it takes the pattern and matches a clean
// request. It is asked for the path with and without a trailing slash.
func muxMatches(pattern, method, host, path string) (matches, valid bool) {
	defer func() {
		if recover() != nil {
			matches, valid = false, false
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	trimmed := strings.TrimRight(path, "/")
	for _, p := range []string{trimmed, trimmed + "/"} {
		if p == "" {
			continue
		}
		if _, found := mux.Handler(&http.Request{Method: method, Host: host, URL: &url.URL{Path: p}}); found != "" {
			return true, true
		}
	}
	return false, true
}

// stricter holds words of the errors for patterns that ServeMux takes and that
// never match, or only what is Bad.
var stricter = []string{"query or fragment", "doubled slash", "dot segment", "malformed escape", "a segment must not have", "host must"}

// FuzzPattern compares with http.ServeMux: the same patterns are valid, and clean
// requests match the same patterns, a trailing slash apart.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{
		"/", "POST /login", "GET /a/{x}", "/a/{x...}", "/a/{$}", "example.com/a/", "GET  example.com/{x}/b", "/{x}/{x}", "POST login",
		"/{x", "/{}", "/a{x}", "/%61", "/a%20b/", "\t/", "G\x00T /", "/{_1}/{é}", "CONNECT /a", "/{$}/",
	} {
		for i, path := range []string{"/", "/login", "/a/b", "/a/", "/a/b/c", "/b/b"} {
			f.Add(p, []string{"GET", "HEAD", "POST", "CONNECT"}[i%4], []string{"example.com", "example.org"}[i%2], path)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, method, host, path string) {
		want, valid := muxMatches(pattern, method, host, path)
		d, err := New(post(pattern))
		if err != nil {
			if !valid {
				return
			}
			for _, s := range stricter {
				if strings.Contains(err.Error(), s) {
					return
				}
			}
			t.Fatalf("ServeMux takes %q: %v", pattern, err)
		}
		if !valid {
			t.Fatalf("ServeMux does not take %q", pattern)
		}
		// CONNECT goes by rules of its own there, and a Door is looser about the rest.
		_, routePath, _ := strings.Cut(pattern, "/")
		if strings.Contains(strings.ReplaceAll(strings.ToLower(routePath), "%2e", "."), ".") { // covers what is below, too
			return
		}
		if !plain(path) || method == "CONNECT" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz") != "" ||
			strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || !upperLower(d) {
			return
		}
		if got := d.Match(Request{Method: method, Host: host, Target: path}); (got == Covered) != want {
			t.Errorf("%s %s%s at %q: got %v, ServeMux %t", method, host, path, pattern, got, want)
		}
	})
}

// upperLower reports whether the pattern has an upper case method and a lower case
// host, as the requests have: in other spellings ServeMux is strict and a Door is not.
func upperLower(d *Door) bool {
	t := &d.routes[0]
	return t.method == strings.ToUpper(t.method) && t.host == strings.ToLower(t.host)
}

// TestPatternsAgainstServeMux asks for every combination of these.
func TestPatternsAgainstServeMux(t *testing.T) {
	segs := []string{"", "/a", "/b", "/{x}", "/{y}", "/%61"}
	ends := []string{"", "/", "/{$}", "/{z...}"}
	paths := []string{"/", "/a", "/b", "/a/", "/a/a", "/a/b", "/b/a/", "/c/a", "/a/b/c", "/b/b/b/"}
	n := 0
	for _, m := range []string{"", "GET ", "POST "} {
		for _, h := range []string{"", "h.example"} {
			for _, s1 := range segs {
				for _, s2 := range segs {
					for _, end := range ends {
						pattern := m + h + s1 + s2 + end
						d, err := New(post(pattern))
						if _, valid := muxMatches(pattern, "GET", "", "/"); valid != (err == nil) {
							t.Errorf("%q: %v, ServeMux %t", pattern, err, valid)
						}
						if err != nil {
							continue
						}
						for i, path := range paths {
							method := []string{"GET", "HEAD", "POST"}[(n+i)%3]
							host := []string{"h.example", "other.example"}[n%2]
							n++
							want, _ := muxMatches(pattern, method, host, path)
							if got := d.Match(Request{Method: method, Host: host, Target: path}); (got == Covered) != want {
								t.Errorf("%s %s%s at %q: got %v, ServeMux %t", method, host, path, pattern, got, want)
							}
						}
					}
				}
			}
		}
	}
	if n < 5000 {
		t.Errorf("%d comparisons", n)
	}
}
