package door

import (
	"bufio"
	"net/http"
	slashpath "path"
	"strings"
	"testing"
)

// A server maps a request target to a path, as some common server does. It reports
// false if it answers 400. What these know is what they do with a path before they
// look for a route; none of them is complete, and where in doubt they find more.
type server struct {
	name       string
	ignoreCase bool
	path       func(target string) (string, bool)
}

var servers = []server{
	{"nginx", false, nginxPath},
	{"WHATWG", false, func(t string) (string, bool) { return whatwgPath(t), true }},
	{"Express", true, func(t string) (string, bool) { return legacyPath(t), true }},
	{"Express, decoded", true, func(t string) (string, bool) { return lenient(legacyPath(t)), true }},
	{"files", false, func(t string) (string, bool) { return clean(lenient(cutAny(afterHost(t), "?#"))), true }},
	{"CGI", false, func(t string) (string, bool) { return lenient(cutAny(afterHost(t), "?")), true }},
	{"decoded twice", false, func(t string) (string, bool) {
		return clean(lenient(lenient(cutAny(afterHost(t), "?")))), true
	}},
	{"servlets", false, servletPath},
	{"Windows", true, func(t string) (string, bool) {
		return clean(strings.ReplaceAll(lenient(cutAny(afterHost(t), "?")), `\`, "/")), true
	}},
	{"C strings", false, func(t string) (string, bool) {
		return cutAny(clean(cutAny(lenient(cutAny(afterHost(t), "?")), "\x00")), "\x00"), true
	}},
}

// cutAny returns s up to the first of chars.
func cutAny(s, chars string) string {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i]
	}
	return s
}

// afterHost cuts scheme and host off an absolute URL.
func afterHost(t string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if len(t) >= len(scheme) && strings.EqualFold(t[:len(scheme)], scheme) {
			t = t[len(scheme):]
			if i := strings.IndexAny(t, "/?#"); i >= 0 {
				return t[i:]
			}
			return "/"
		}
	}
	return t
}

// lenient decodes escapes and leaves alone what is none.
func lenient(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0 {
			b.WriteByte(byte(unhex(s[i+1])<<4 | unhex(s[i+2])))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// clean merges slashes and removes dot segments; a slash at the end stays.
func clean(p string) string {
	c := slashpath.Clean("/" + p)
	if strings.HasSuffix(p, "/") && c != "/" {
		c += "/"
	}
	return c
}

// nginxPath decodes once, so that decoded slashes and dots count, then merges slashes
// and removes dot segments. What would leave the root is no path.
func nginxPath(t string) (string, bool) {
	t = cutAny(afterHost(t), "?#")
	if !strings.HasPrefix(t, "/") {
		return "", false
	}
	for i := range len(t) {
		if t[i] == '%' && (i+2 >= len(t) || unhex(t[i+1]) < 0 || unhex(t[i+2]) < 0) {
			return "", false
		}
		if t[i] == '%' && t[i+1:i+3] == "00" {
			return "", false
		}
	}
	var out []string
	segments := strings.Split(lenient(t), "/")[1:]
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "" || s == ".":
			if last {
				out = append(out, "")
			}
		case s == "..":
			if len(out) == 0 {
				return "", false
			}
			if out = out[:len(out)-1]; last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/"), true
}

// whatwgPath is the path of new URL(t, 'http://h'), decoded.
func whatwgPath(t string) string {
	t = strings.Trim(t, "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f ")
	t = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(t)
	t = cutAny(t, "?#")
	t = strings.ReplaceAll(t, `\`, "/")
	for _, scheme := range []string{"http:", "https:"} {
		if len(t) >= len(scheme) && strings.EqualFold(t[:len(scheme)], scheme) {
			rest := t[len(scheme):]
			if scheme == "http:" && !strings.HasPrefix(rest, "//") {
				t = rest // relative to the base, which has the same scheme
				break
			}
			t = "//" + strings.TrimLeft(rest, "/")
			break
		}
	}
	if strings.HasPrefix(t, "//") {
		t = strings.TrimLeft(t, "/")
		i := strings.IndexByte(t, '/')
		if i < 0 {
			return "/"
		}
		host := lenient(t[:i])
		if host[strings.LastIndexByte(host, '@')+1:] == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("#%/<>?\\^|\x7f", r) }) {
			return "" // no URL
		}
		t = t[i:]
	}
	t = strings.TrimPrefix(t, "/")
	var out []string
	segments := strings.Split(t, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
		case ".":
			if last {
				out = append(out, "")
			}
		case "..":
			out = out[:max(0, len(out)-1)]
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return lenient("/" + strings.Join(out, "/"))
}

// legacyPath is the pathname of Node's url.parse, which routers use.
func legacyPath(t string) string {
	t = strings.TrimSpace(t)
	if i := strings.IndexByte(t, '?'); i >= 0 {
		t = t[:i]
	}
	t = strings.ReplaceAll(cutAny(t, "#"), `\`, "/")
	return afterHost(t)
}

// servletPath cuts parameters off every segment before it decodes and cleans.
func servletPath(t string) (string, bool) {
	segments := strings.Split(cutAny(afterHost(t), "?"), "/")
	for i, s := range segments {
		segments[i] = cutAny(s, ";")
	}
	return clean(lenient(strings.Join(segments, "/"))), true
}

// routes reports whether the server finds want, with or without a slash at the end.
func (s server) routes(target, want string) bool {
	p, ok := s.path(target)
	if !ok {
		return false
	}
	if p = strings.TrimSuffix(p, "/"); s.ignoreCase {
		return strings.EqualFold(p, want)
	}
	return p == want
}

// muxRoutes asks net/http whether it routes a request with this target to /login, or
// redirects to it.
func muxRoutes(mux *http.ServeMux, target string) bool {
	if strings.ContainsAny(target, "\r\n") {
		return false
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	if err != nil {
		return false
	}
	_, pattern := mux.Handler(r)
	return pattern != ""
}

var targetParts = []string{
	"/", "/", "/", "login", "login", "x", ".", "..", "%2e", "%2E", "%2f", "%5c", `\`, ";", ";a=b", "?", "#", "%", "%00", "%3f", "%23", "%3b",
	"%6C", "%6c", "%4c", "ogin", "LOGIN", "Log", "in", "http://h", "HTTPS://u@h:1", "http:", "//h", "%25", "2f", "2e", "6c", "\t", " ", "\x00", "%20", "%09", "+", "*", "\xc3\xa9", "%c0%af", ":", "@",
}

// FuzzServers: whenever a server would take a target for the login, in its own way, it
// is covered or bad. Targets are made of parts, or are text as it comes.
func FuzzServers(f *testing.F) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(http.ResponseWriter, *http.Request) {})
	doors := map[bool]*Door{
		false: mustNew(f, Config{Routes: []string{"POST /login"}}),
		true:  mustNew(f, Config{Routes: []string{"POST /login"}, IgnoreCase: true}),
	}
	routed := map[string]int{}
	check := func(t testing.TB, target string) {
		if scheme, _, ok := strings.Cut(target, "://"); ok && !strings.HasPrefix(target, "/") && !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
			return // no edge passes on what has another scheme
		}
		q := Request{Method: "POST", Host: "h", Target: target}
		if muxRoutes(mux, target) {
			routed["ServeMux"]++
			if doors[false].Match(q) == None {
				t.Errorf("ServeMux takes %q for the login, the door does not", target)
			}
		}
		for _, s := range servers {
			if s.routes(target, "/login") {
				routed[s.name]++
				if doors[s.ignoreCase].Match(q) == None {
					t.Errorf("%s takes %q for the login, the door does not", s.name, target)
				}
			}
		}
	}
	for _, s := range []string{
		"/login", "/LOGIN/", "//login", "/x/../login", "/%2e/%6Cogin?x", "http://h/login", "/login#x", `/\login`, `\login`, "/login;x", "/x/..;/login",
		"/login%00.css", "/%256Cogin", "//h/login", "http:login", "/\tlogin", "/login%2f", "/../login", "http:///login", "/x%2f..%2flogin", "/log\nin",
	} {
		f.Add(s, []byte(nil))
		check(f, s)
	}
	for _, s := range servers {
		if routed[s.name] < 2 {
			f.Errorf("%s takes %d of the seeds for the login: the model is broken", s.name, routed[s.name])
		}
	}
	for _, b := range []string{"\x00\x03", "\x00\x05\x00\x07\x00\x03", "\x00\x16\x19", "\x1d\x00\x03", "\x00\x06\x02\x03\x00", "\x00\x03\x0d", "\x0c\x03"} {
		f.Add("", []byte(b))
	}
	f.Fuzz(func(t *testing.T, target string, parts []byte) {
		if len(target) > MaxPath/2 || len(parts) > MaxPath/16 {
			return
		}
		var b strings.Builder
		b.WriteString(target)
		for _, p := range parts {
			b.WriteString(targetParts[int(p)%len(targetParts)])
		}
		// No server takes a target that starts with white space, or a scheme that has
		// some in it.
		target = b.String()
		if strings.HasPrefix(target, "/") || !strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' }) {
			check(t, target)
		}
	})
}
