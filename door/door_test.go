package door

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func mustNew(t testing.TB, c Config) *Door {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func post(routes ...string) Config { return Config{Routes: routes} }

// TestTargets runs testdata/targets.tsv: one target a row, and what it is to a door.
func TestTargets(t *testing.T) {
	b, err := os.ReadFile("testdata/targets.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for n, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 6 {
			t.Fatalf("line %d: %d fields", n+1, len(f))
		}
		target, err := strconv.Unquote(`"` + f[5] + `"`)
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		d := mustNew(t, Config{Routes: []string{f[1]}, IgnoreCase: f[2] == "ignore_case"})
		r := Request{Method: f[3], Host: strings.TrimPrefix(f[4], "-"), Target: target}
		if got := d.Match(r).String(); got != f[0] {
			t.Errorf("line %d: %s %s %q at %q: got %s, want %s", n+1, r.Method, r.Host, target, f[1], got, f[0])
		}
		rows++
	}
	if rows < 60 {
		t.Errorf("%d rows, want 60 or more", rows)
	}
}

// TestP12 is the case "every spelling of the login path meets the same rule".
func TestP12(t *testing.T) {
	for _, row := range []struct {
		target      string
		loose, fold Match
	}{
		{"/login", Covered, Covered},
		{"/login?x=1", Covered, Covered},
		{"/login/", Covered, Covered},
		{"/%6Cogin", Covered, Covered},
		{"//login", Covered, Covered},
		{"/./login", Covered, Covered},
		{"/LOGIN", None, Covered},
		{"/login-help", None, None},
	} {
		for i, want := range []Match{row.loose, row.fold} {
			d := mustNew(t, Config{Routes: []string{"POST /login"}, IgnoreCase: i == 1})
			if got := d.Match(Request{Method: "POST", Host: "example.com", Target: row.target}); got != want {
				t.Errorf("%s, IgnoreCase %t: got %v, want %v", row.target, i == 1, got, want)
			}
		}
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New(Config{}); err == nil || err.Error() != "door: Routes must name at least one route" {
		t.Errorf("zero Config: %v", err)
	}
	for route, want := range map[string]string{
		"":                 `pattern is empty`,
		"POST login":       `path must start with "/"`,
		"POST":             `path must start with "/"`,
		"PO(ST /x":         `method must be a token, got "PO(ST"`,
		"POST ex{x}.com/":  `host must not have a wildcard, got "ex{x}.com" (is a "/" missing?)`,
		"example.com:80/":  `host must not have a port, which is not compared, got "example.com:80"`,
		"ｈ.example/login":  `host must be a host name, got "ｈ.example"`,
		"u@example.com/":   `host must be a host name, got "u@example.com"`,
		"./login":          `host must be a host name, got "."`,
		"/login?x=1":       `path must not have a query or fragment, got "?x=1"`,
		"/login#x":         `path must not have a query or fragment, got "#x"`,
		"/a//b":            `path must not have a doubled slash`,
		"/a/../b":          `path must not have a dot segment, got ".."`,
		"/a/%2e":           `path must not have a dot segment, got "%2e"`,
		"/a%zz":            `path must not have a malformed escape, got "a%zz"`,
		"/a%2Fb":           `a segment must not have a slash, backslash, control character or overlong form, got "a%2Fb"`,
		"/a%5Cb":           `a segment must not have a slash, backslash, control character or overlong form, got "a%5Cb"`,
		"/a\x00b":          `a segment must not have a slash, backslash, control character or overlong form, got "a\x00b"`,
		"/{$}/x":           `{$} must be at the end`,
		"/{x...}/y":        `{x...} must be at the end`,
		"/a{x}":            `a wildcard must be a whole segment, got "a{x}"`,
		"/{x}a":            `a wildcard must be a whole segment, got "{x}a"`,
		"/{}":              `a wildcard must be named like a Go variable, got "{}"`,
		"/{1}":             `a wildcard must be named like a Go variable, got "{1}"`,
		"/{x}/{x}":         `a wildcard name must be used once, got "x" twice`,
		"POST /x/{x}/{$}/": `{$} must be at the end`,
	} {
		_, err := New(post("/ok", route))
		if full := "door: Routes[1] " + strconv.Quote(route) + ": " + want; err == nil || err.Error() != full {
			t.Errorf("%q:\n got %v\nwant %s", route, err, full)
		}
	}
}

// TestBasicAuth: M3.
func TestBasicAuth(t *testing.T) {
	d := mustNew(t, Config{Routes: []string{"/"}, BasicAuth: true})
	for _, row := range []struct {
		values []string
		want   Match
	}{
		{nil, None},
		{[]string{""}, None},
		{[]string{"Basic"}, None},
		{[]string{"Basic "}, None},
		{[]string{"Bearer eA"}, None},
		{[]string{"Digest a=b"}, None},
		{[]string{"Digest Basic eA"}, Covered}, // as some applications read it
		{[]string{"Digest a=b, Basic eA"}, Covered},
		{[]string{"Basic\u00a0eA"}, Covered},
		{[]string{"\u00a0Basic eA"}, Covered},
		{[]string{"\"Basic eA"}, Covered},
		{[]string{"Basic eDp5"}, Covered},
		{[]string{"basic  eDp5"}, Covered},
		{[]string{"BASIC\teDp5"}, Covered},
		{[]string{"Basic ?"}, Covered},
		{[]string{"Bearer eA", " bAsIc eDp5"}, Covered},
	} {
		for _, target := range []string{"/x", "/x/../y"} {
			if got := d.Match(Request{Method: "GET", Target: target, Authorization: row.values}); got != row.want {
				t.Errorf("%q, %s: got %v, want %v", row.values, target, got, row.want)
			}
		}
	}
	if got := d.Match(Request{Method: "GET", Target: "/a%2Fb"}); got != None {
		t.Errorf("no credentials, a%%2Fb: got %v, want none", got)
	}
}

func TestSeveralRoutes(t *testing.T) {
	d := mustNew(t, post("POST /login", "POST /api/token", "GET /reset/"))
	for _, row := range []struct {
		method, target string
		want           Match
	}{
		{"POST", "/login", Covered}, {"POST", "//api/./token", Covered}, {"GET", "/reset/x", Covered},
		{"POST", "/reset/x", None}, {"GET", "//login", None}, {"POST", "/api", None}, {"GET", "/reset%2Fx", Bad},
	} {
		if got := d.Match(Request{Method: row.method, Target: row.target}); got != row.want {
			t.Errorf("%s %s: got %v, want %v", row.method, row.target, got, row.want)
		}
	}
}

func TestOverlaps(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want bool
	}{
		{"POST /login", "POST /login", true},
		{"POST /login", "post /login", true},
		{"POST /login", "GET /login", false},
		{"POST /login", "/login", true},
		{"GET /login", "HEAD /login", true},
		{"get /login", "HEAD /login", true},
		{"HEAD /login", "POST /login", false},
		{"/login", "/logout", false},
		{"/login", "/login/", true},
		{"/login", "/login/{$}", true},
		{"/login", "/login/{rest...}", true},
		{"/login", "/login/{x}", false},
		{"/login/help", "/login/", true},
		{"/login/help", "/login", false},
		{"/login/help", "/login/{x}", true},
		{"/{x}/help", "/login/{y}", true},
		{"/{x}/help", "/login/{y}/z", false},
		{"/{x}/help/", "/login/{y}/z", true},
		{"/{x}/help/", "/login/token/z", false},
		{"/a/", "/b/", false},
		{"/", "/b/c/d", true},
		{"/{$}", "/b", false},
		{"/{$}", "/{x}", false},
		{"/Login", "/login", false},
		{"example.com/login", "/login", true},
		{"example.com/login", "EXAMPLE.com./login", true},
		{"example.com/login", "example.org/login", false},
		{"[::1]/login", "[::1]/login", true},
	} {
		a, b := mustNew(t, post(row.a)), mustNew(t, post("POST /elsewhere", row.b))
		if Overlaps(a, b) != row.want || Overlaps(b, a) != row.want {
			t.Errorf("%s and %s: got %t, %t, want %t", row.a, row.b, Overlaps(a, b), Overlaps(b, a), row.want)
		}
	}
	// Every pair of these agrees with a search for a request that both cover.
	var doors []*Door
	for _, path := range []string{"", "/a", "/b", "/{x}", "/a/a", "/a/{x}", "/{x}/b", "/{x}/{y}"} {
		for _, end := range []string{"", "/", "/{$}"} {
			for _, m := range []string{"", "GET ", "POST "} {
				if path+end != "" {
					doors = append(doors, mustNew(t, post(m+path+end)))
				}
			}
		}
	}
	var requests []Request
	for _, m := range []string{"GET", "POST", "PUT"} {
		for _, p := range strings.Fields("/ /a /b /c /a/a /a/b /b/a /b/b /c/a /c/b /a/c /c/c /a/a/c /a/b/c /c/b/c /b/c/c /c/c/c") {
			requests = append(requests, Request{Method: m, Target: p})
		}
	}
	for i, a := range doors {
		for j, b := range doors {
			both := false
			for _, r := range requests {
				both = both || a.Match(r) == Covered && b.Match(r) == Covered
			}
			if Overlaps(a, b) != both {
				t.Errorf("doors %d and %d: got %t, want %t", i, j, !both, both)
			}
		}
	}
	upper := mustNew(t, Config{Routes: []string{"/Login"}, IgnoreCase: true})
	if lower := mustNew(t, post("/login")); !Overlaps(upper, lower) || !Overlaps(lower, upper) {
		t.Error("/Login, letter case ignored, and /login: want true")
	}
}

// TestBounded: any target is judged, at MaxPath and beyond, and a long query costs
// nothing.
func TestBounded(t *testing.T) {
	d := mustNew(t, post("POST /login"))
	long := strings.Repeat("x", MaxPath)
	for _, row := range []struct {
		name, method, target string
		want                 Match
	}{
		{"at the limit", "POST", "/" + long[1:], None},
		{"beyond", "POST", "/" + long, Bad},
		{"beyond, other method", "GET", "/" + long, None},
		{"long query", "POST", "/login?" + long + long, Covered},
		{"long query elsewhere", "POST", "/x?" + long + long, None},
		{"63 up", "POST", strings.Repeat("/x", 63) + strings.Repeat("/..", 63) + "/login", Covered},
		{"64 up", "POST", strings.Repeat("/x", 64) + strings.Repeat("/..", 64) + "/login", Covered},
		{"1600 up", "POST", strings.Repeat("/x", 1600) + strings.Repeat("/..", 1600) + "/login", Covered},
		{"62 up are counted", "POST", "/y" + strings.Repeat("/x", 62) + strings.Repeat("/..", 62) + "/login", None},
		{"63 up and more are not", "POST", "/y" + strings.Repeat("/x", 70) + strings.Repeat("/..", 70) + "/login", Covered},
	} {
		if got := d.Match(Request{Method: row.method, Target: row.target}); got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
	}
}

func TestAllocations(t *testing.T) {
	d := mustNew(t, Config{Routes: []string{"POST /login", "POST example.com/u/{id}/token"}, IgnoreCase: true})
	for _, target := range []string{
		"/login", "/login?x=1", "/u/42/token", "/static/app-1.2.js", "/.well-known/x",
		"/x/../%6Cogin;x", "//login", "/files/a%2Fb",
	} {
		r := Request{Method: "POST", Host: "example.com:443", Target: target}
		if n := testing.AllocsPerRun(100, func() { d.Match(r) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", target, n)
		}
	}
}

func TestMatchString(t *testing.T) {
	for m, want := range map[Match]string{None: "none", Covered: "covered", Bad: "bad", 9: "Match(9)"} {
		if m.String() != want {
			t.Errorf("got %s, want %s", m, want)
		}
	}
}

// TestMethods: a request that may be taken for another method is judged by all of them.
func TestMethods(t *testing.T) {
	for _, row := range []struct {
		route, method, target string
		methods               []string
		any                   bool
		want                  Match
	}{
		{"POST /login", "GET", "/login", nil, false, None},
		{"POST /login", "GET", "/login", []string{"POST"}, false, Covered},
		{"POST /login", "GET", "/login", []string{"put", "post"}, false, Covered},
		{"POST /login", "GET", "/login%00", []string{"POST"}, false, Bad},
		{"POST /login", "GET", "/help", []string{"POST"}, true, None},
		{"POST /login", "POST", "/login", []string{"GET"}, false, Covered},
		{"GET /login", "POST", "/login", []string{"HEAD"}, false, Covered},
		{"PUT /login", "POST", "/login", nil, true, Covered},
		{"PUT /login", "POST", "/x/../%6Cogin", nil, true, Covered},
		{"POST a.example/login", "GET", "/login", []string{"POST"}, true, None},
	} {
		d := mustNew(t, post(row.route))
		r := Request{Method: row.method, Methods: row.methods, AnyMethod: row.any, Host: "example.com", Target: row.target}
		if got := d.Match(r); got != row.want {
			t.Errorf("%s: %+v: got %v, want %v", row.route, r, got, row.want)
		}
	}
}
