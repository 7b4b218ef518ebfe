// Package door says which requests are attempts: whether a method, a host and a
// request target belong to a door, which is a set of guarded routes.
//
// It promises that respelling a path dodges nothing. A route is written as a
// net/http.ServeMux pattern, but the target is judged raw, as the client sent it,
// and the door covers it if any reading of it matches: as it is, decoded once or
// twice, cleaned of dot segments, doubled slashes and path parameters, with or
// without a trailing slash, as a URL with a host in it, in any mixture of these.
// Whatever the application behind makes of the target, it was covered. Work is
// bounded: linear in the path, and nothing is allocated for ordinary targets.
//
// It gives up precision on targets that no honest client sends: /login;/../help is
// covered, since some server reads /login. It knows what servers do to a path, not
// what one framework adds: a route that also answers to /login.json, below a mount
// point, or to a name in another Unicode normal form needs patterns of its own. It
// looks at no body, no query and no header but Host and Authorization: that a request
// for GET /login is to be taken for POST /login, because a header or a parameter says
// so, is for the caller to find out and to tell by Request.Methods. And a route with a
// host in it holds only as far as the application refuses hosts that it does not know.
//
// Do not use it to route requests or to authorize them: it covers too much rather
// than too little, which is right only for counting.
package door

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Config describes a door.
type Config struct {
	// Routes are patterns as net/http.ServeMux takes them:
	//
	//	[METHOD ][HOST]/PATH
	//
	// where {name} stands for one segment, {name...} at the end for any number of
	// them, a trailing slash for everything below, and {$} after it for nothing
	// below. GET covers HEAD, and a pattern without a method covers every method.
	// A literal with a dot at the end, such as /login.php, also covers everything
	// below it: many servers hand /login.php/x to the same file. Patterns that cannot
	// match here are errors, some of which ServeMux lets pass: a query, a port, an
	// unclean path, a segment that Match would call Bad, or with white space around
	// it or a ";".
	Routes []string
	// IgnoreCase says that the application ignores letter case in paths.
	IgnoreCase bool
	// BasicAuth says that only requests with Basic credentials are attempts.
	BasicAuth bool
}

// Door is a set of routes. It never changes and is safe for concurrent use.
type Door struct {
	routes     []route
	ignoreCase bool
	basicAuth  bool
	scratch    int // words of memory that the largest automaton needs
}

// New returns the door that c describes.
func New(c Config) (*Door, error) {
	if len(c.Routes) == 0 {
		return nil, errors.New("door: Routes must name at least one route")
	}
	d := &Door{ignoreCase: c.IgnoreCase, basicAuth: c.BasicAuth}
	for i, s := range c.Routes {
		r, err := parseRoute(s, c.IgnoreCase)
		if err != nil {
			return nil, fmt.Errorf("door: Routes[%d] %q: %w", i, s, err)
		}
		d.routes = append(d.routes, r)
		d.scratch = max(d.scratch, r.path.scratch())
	}
	return d, nil
}

// Request is what Match judges, as it came over the wire.
type Request struct {
	Method string
	// Methods are others that the application may take for the method, because a
	// header or a parameter that overrides it names them.
	Methods []string
	// AnyMethod judges the request as if it had the method of every route.
	AnyMethod bool
	// Host is the value of the Host header or the :authority. Letter case, a port
	// and trailing dots do not count. A host in the target counts as well.
	Host string
	// Target is the raw request target: http.Request.RequestURI, not its URL.
	Target string
	// Authorization holds all values of that header.
	Authorization []string
}

// Match is what a request is to a door.
type Match uint8

const (
	// None: no reading of the target matches a route. The request is not an attempt.
	None Match = iota
	// Covered: some reading matches, so the request is an attempt.
	Covered
	// Bad: some reading matches, and the path holds something that servers are known
	// to disagree on: a control character, a backslash or an encoded slash, each
	// also encoded once or twice, an overlong UTF-8 form, or a malformed escape. Here
	// readings go further: such a thing, and all that follows it, may also be left out,
	// and a malformed escape may stand for any character. So /login%2Fhelp and
	// /log%00in are Bad for /login, and /files/a%2Fb is None. A path longer than
	// MaxPath is Bad at any door whose method and host match. Answer 400.
	Bad
)

var matches = [...]string{"none", "covered", "bad"}

// String returns none, covered or bad.
func (m Match) String() string {
	if int(m) < len(matches) {
		return matches[m]
	}
	return fmt.Sprintf("Match(%d)", uint8(m))
}

// MaxPath is how many bytes of path, the query not counted, are judged.
const MaxPath = 8 << 10

// Match says whether r is an attempt at d. Two doors that do not overlap (see
// Overlaps) may both cover one contorted target: nobody can say which of them it
// knocks at, and it deserves a 400 as well (see Find).
//
// Methods are compared without regard to letter case, since some applications do.
func (d *Door) Match(r Request) Match {
	if d.basicAuth && !hasBasic(r.Authorization) {
		return None
	}
	path, authority := splitTarget(r.Target)
	i := 0
	for i < len(d.routes) && !d.routes[i].admits(&r, authority) {
		i++
	}
	switch {
	case i == len(d.routes):
		return None
	case len(path) > MaxPath:
		return Bad
	case !plain(path):
		return d.matchAny(&r, authority, path)
	}
	for ; i < len(d.routes); i++ {
		t := &d.routes[i]
		if t.path.matchPlain(path, d.ignoreCase) && t.admits(&r, authority) {
			return Covered
		}
	}
	return None
}

// Find returns the place in doors of the one that r is at: the first that covers it, or
// the one at which it is Bad. A contorted target that two doors cover though they do not
// overlap is Bad at the second: its caller would choose which of them is charged. With
// None the place is -1.
func Find(doors []*Door, r Request) (int, Match) {
	first := -1
	for i, d := range doors {
		switch d.Match(r) {
		case Bad:
			return i, Bad
		case Covered:
			if first < 0 {
				first = i
			} else if !Overlaps(doors[first], d) {
				return i, Bad
			}
		}
	}
	if first < 0 {
		return -1, None
	}
	return first, Covered
}

// matchAny tries every reading of path.
func (d *Door) matchAny(r *Request, authority, path string) Match {
	var smallSyms [256]sym
	var smallWords [256]uint64
	words := smallWords[:]
	if d.scratch > len(words) {
		words = make([]uint64, d.scratch)
	}
	v := newView(smallSyms[:0], path, d.ignoreCase)
	matched := false
	for level := 0; ; level++ {
		for i := 0; i < len(d.routes) && !matched; i++ {
			t := &d.routes[i]
			matched = t.admits(r, authority) && t.path.reads(v.syms, words)
		}
		if level == 2 || !v.decode(level == 0) {
			break
		}
	}
	switch {
	case !matched:
		return None
	case v.dubious:
		return Bad
	}
	return Covered
}

// splitTarget cuts the query and takes an absolute URL apart. What it returns as
// path need not start with a slash.
func splitTarget(target string) (path, authority string) {
	path, _, _ = strings.Cut(target, "?")
	if path == "" || path[0] == '/' {
		return path, ""
	}
	scheme := 0
	for scheme < len(path) && (isAlnum(path[scheme]) || strings.IndexByte("+-.", path[scheme]) >= 0) {
		scheme++
	}
	if scheme == 0 || scheme == len(path) || path[scheme] != ':' {
		return path, ""
	}
	path = path[scheme+1:]
	if !strings.HasPrefix(path, "//") {
		return path, ""
	}
	end := strings.IndexAny(path[2:], `/\#`)
	switch {
	case end < 0:
		return "", path[2:]
	case end == 0:
		return path, "" // some look for a host behind more slashes
	}
	return path[2+end:], path[2 : 2+end]
}

// plain reports whether path has one reading only, apart from a trailing slash and
// letter case.
func plain(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := 0; i < len(path); i++ {
		if path[i] != '/' {
			if !plainByte[path[i]] {
				return false
			}
			continue
		}
		next := path[i+1:]
		if strings.HasPrefix(next, "/") || isDots(next) {
			return false
		}
	}
	return true
}

// isDots reports whether the first segment of s is "." or "..".
func isDots(s string) bool {
	if s == "" || s[0] != '.' {
		return false
	}
	s = s[1:]
	if s != "" && s[0] == '.' {
		s = s[1:]
	}
	return s == "" || s[0] == '/'
}

// plainByte holds the unreserved characters and sub-delims of RFC 3986, ":" and
// "@", without ";".
var plainByte = func() (t [256]bool) {
	for b := range t {
		t[b] = isAlnum(byte(b)) || strings.IndexByte("-._~!$&'()*+,=:@", byte(b)) >= 0
	}
	return
}()

func isAlnum(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// admits reports whether one of the methods and one of the two hosts are those of the
// route. RFC 9112 lets the host in the target win, but not every application does.
func (t *route) admits(r *Request, authority string) bool {
	return (r.AnyMethod || t.admitsMethod(r.Method) || slices.ContainsFunc(r.Methods, t.admitsMethod)) &&
		(t.host == "" || strings.EqualFold(bareHost(r.Host), t.host) ||
			authority != "" && strings.EqualFold(bareHost(authority), t.host))
}

func (t *route) admitsMethod(method string) bool {
	return t.method == "" || strings.EqualFold(method, t.method) ||
		strings.EqualFold(t.method, "GET") && strings.EqualFold(method, "HEAD")
}

// bareHost strips user information, port, brackets and trailing dots.
func bareHost(s string) string {
	s = s[strings.LastIndexByte(s, '@')+1:]
	if strings.HasPrefix(s, "[") {
		s, _, _ = strings.Cut(s[1:], "]")
		return s
	}
	if i := strings.IndexByte(s, ':'); i >= 0 {
		s = s[:i]
	}
	return strings.TrimRight(s, ".")
}

// hasBasic reports whether a value carries Basic credentials (RFC 7617), whatever
// they are. Applications look for the scheme in their own ways: after other schemes,
// behind a comma, before any white space. So it counts wherever it stands.
func hasBasic(values []string) bool {
	const scheme = "basic"
	for _, v := range values {
		for i := 0; i+len(scheme) < len(v); i++ {
			if strings.EqualFold(v[i:i+len(scheme)], scheme) && strings.Trim(v[i+len(scheme):], " \t") != "" {
				return true
			}
		}
	}
	return false
}
