package subject

import (
	"net/http"
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	const which = "subject: Source must be exactly one of Form, JSON, Header, Query, Path and BasicAuth"
	for _, row := range []struct {
		source Source
		err    string
	}{
		{Source{}, which},
		{Source{Form: "a", JSON: "a"}, which},
		{Source{Form: "a b", JSON: "a"}, which},
		{Source{Path: "/{a}", BasicAuth: true}, which},
		{Source{BasicAuth: true}, ""},

		{Source{Form: "username"}, ""},
		{Source{Form: "ctl00$Main$UserName"}, ""},
		{Source{Form: "login:form:user-name"}, ""},
		{Source{Form: "user[account][email]"}, ""},
		{Source{Form: strings.Repeat("a", 100)}, ""},
		{Source{Form: strings.Repeat("a", 101)}, "subject: Form must be at most 100 bytes, got 101"},
		{Source{Form: "user name"}, `subject: Form must be a field name in plain ASCII, got "user name"`},
		{Source{Form: "näme"}, `subject: Form must be a field name in plain ASCII, got "näme"`},
		{Source{Form: "a=b"}, `subject: Form must be a field name in plain ASCII, got "a=b"`},
		{Source{Form: "user[]"}, `subject: Form must have brackets like user[email], got "user[]"`},
		{Source{Form: "user[email"}, `subject: Form must have brackets like user[email], got "user[email"`},
		{Source{Form: "user["}, `subject: Form must have brackets like user[email], got "user["`},
		{Source{Form: "user]"}, `subject: Form must have brackets like user[email], got "user]"`},
		{Source{Form: "user[a]b[c]"}, `subject: Form must have brackets like user[email], got "user[a]b[c]"`},
		{Source{Form: "[email]"}, `subject: Form must have brackets like user[email], got "[email]"`},
		{Source{Form: "__proto__"}, `subject: Form must be a name of letters or digits, got "__proto__"`},
		{Source{Form: "_"}, `subject: Form must be a name of letters or digits, got "_"`},
		{Source{Form: "..."}, `subject: Form must be a name of letters or digits, got "..."`},
		{Source{Query: "a b"}, `subject: Query must be a field name in plain ASCII, got "a b"`},

		{Source{JSON: "user.email"}, ""},
		{Source{JSON: "a.b.c.d"}, ""},
		{Source{JSON: "proto"}, ""},
		{Source{JSON: "."}, `subject: JSON must be keys with dots between them, got "."`},
		{Source{JSON: "user..email"}, `subject: JSON must be keys with dots between them, got "user..email"`},
		{Source{JSON: "users[0]"}, `subject: JSON must be keys with dots between them, got "users[0]"`},
		{Source{JSON: "user. email"}, `subject: JSON must be keys with dots between them, got "user. email"`},
		{Source{JSON: "__proto__.a"}, `subject: JSON must be keys of letters and digits, got "__proto__.a"`},
		{Source{JSON: "_.a"}, `subject: JSON must be keys of letters and digits, got "_.a"`},
		{Source{JSON: strings.Repeat("a.", 64) + "a"}, "subject: JSON must be at most 64 keys, got 65"},

		{Source{Header: "x-api-user"}, ""},
		{Source{Header: "X_Api_User"}, `subject: Header must be letters, digits and hyphens, got "X_Api_User"`},
		{Source{Header: "--"}, `subject: Header must be letters, digits and hyphens, got "--"`},
		{Source{Header: "host"}, `subject: Header must be a header that is the application's own, got "host"`},
		{Source{Header: "X-Forwarded-User"}, `subject: Header must be a header that is the application's own, got "X-Forwarded-User"`},
		{Source{Header: "Doorward-Subject"}, `subject: Header must be a header that is the application's own, got "Doorward-Subject"`},
		{Source{Header: "content-type"}, `subject: Header must be a header that is the application's own, got "content-type"`},
		{Source{Header: "Hostess"}, ""},

		{Source{Path: "/verify/{id}"}, ""},
		{Source{Path: "/{id}"}, ""},
		{Source{Path: "verify/{id}"}, `subject: Path must start with "/", got "verify/{id}"`},
		{Source{Path: "/verify"}, `subject: Path must have a wildcard like {id}, got "/verify"`},
		{Source{Path: "/verify/{}"}, `subject: Path must have a wildcard like {id}, got "/verify/{}"`},
		{Source{Path: "/verify/{id...}"}, `subject: Path must have a wildcard like {id}, got "/verify/{id...}"`},
		{Source{Path: "/verify/{$}"}, `subject: Path must have a wildcard like {id}, got "/verify/{$}"`},
		{Source{Path: "/{a}/{b}"}, `subject: Path must have one wildcard, got "/{a}/{b}"`},
		{Source{Path: "/verify/{id}/"}, `subject: Path must have plain segments, got "" in "/verify/{id}/"`},
		{Source{Path: "/verify/x{id}"}, `subject: Path must have plain segments, got "x{id}" in "/verify/x{id}"`},
		{Source{Path: "/../{id}"}, `subject: Path must have plain segments, got ".." in "/../{id}"`},
		{Source{Path: "/a%20b/{id}"}, `subject: Path must have plain segments, got "a%20b" in "/a%20b/{id}"`},
	} {
		e, err := New(row.source)
		switch {
		case row.err == "" && (err != nil || e == nil):
			t.Errorf("%+v: %v", row.source, err)
		case row.err != "" && (e != nil || err == nil || err.Error() != row.err):
			t.Errorf("%+v: %v, want %s", row.source, err, row.err)
		}
	}
}

func TestNeedsBody(t *testing.T) {
	for source, needs := range map[Source]bool{
		{Form: "a"}: true, {JSON: "a"}: true, {Query: "a"}: true,
		{Header: "A"}: false, {Path: "/{a}"}: false, {BasicAuth: true}: false,
	} {
		if got := must(source).NeedsBody(); got != needs {
			t.Errorf("%+v: %t", source, got)
		}
	}
}

// What net/http lets through in no request, and what is beyond one line.
func TestName(t *testing.T) {
	json := http.Header{"Content-Type": {"application/json"}}
	for _, row := range []struct {
		source Source
		r      Request
		is     string
		err    string
	}{
		{Source{Path: "/verify/{id}"}, Request{Target: "/verify/a%"}, "", "subject: the path has two readings"},
		{Source{Path: "/verify/{id}"}, Request{Target: "/verify/a%zz"}, "", "subject: the path has two readings"},
		{Source{Path: "/verify/{id}"}, Request{Target: "/verify/a\x00"}, "", "subject: the path has two readings"},
		{Source{Path: "/verify/{id}"}, Request{Target: ""}, "", "subject: the target is no path"},
		{Source{Path: "/verify/{id}"}, Request{Target: "*"}, "", "subject: the target is no path"},
		{Source{Path: "/verify/{id}"}, Request{Target: "http://a"}, "", ""},
		{Source{Path: "/verify/{id}"}, Request{Target: "/verify/.."}, "", "subject: the path has two readings"},
		{Source{Path: "/verify/{id}"}, Request{Target: "/verify/http://a/alice"}, "", "subject: the path has two readings"},
		{Source{Path: "/a+b/{id}"}, Request{Target: "/a+b/alice"}, "alice", ""},
		{Source{BasicAuth: true}, Request{Header: http.Header{"Authorization": {"Basic YWxp\nY2U6eA=="}}}, "", "subject: the credentials are malformed"},
		{Source{Header: "X-A"}, Request{Header: http.Header{"X-A": {}}}, "", ""},
		{Source{JSON: "a"}, Request{Header: json, Body: []byte(`{"a":"` + strings.Repeat("x", 60_000) + `"}`)}, strings.Repeat("x", 60_000), ""},
		{Source{JSON: "a"}, Request{Header: json, Body: []byte(`{"a":"\`)}, "", "subject: JSON is malformed"},
		{Source{JSON: "a"}, Request{Header: json, Body: []byte(`{"a"`)}, "", "subject: JSON is malformed"},
		{Source{JSON: "a"}, Request{Header: json, Body: []byte(`{"a":`)}, "", "subject: JSON is malformed"},
		{Source{JSON: "a"}, Request{Header: json, Body: []byte(`{"b":nul`)}, "", "subject: JSON is malformed"},
		{Source{JSON: "a"}, Request{Header: json, Body: []byte(`{"a":"\"\\\/\b"}`)}, "", "subject: the subject has a control character"},
		{Source{JSON: "a"}, Request{Header: json, Body: []byte(`{"a":"\"\\\/x"}`)}, `"\/x`, ""},
	} {
		name, err := must(row.source).Name(row.r)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if name != row.is || got != row.err {
			t.Errorf("%+v of %.60q %.60q %v: %.60q, %v, want %.60q, %s", row.source, row.r.Target, row.r.Body, row.r.Header, name, err, row.is, row.err)
		}
	}
}

// Fields of every number up to the bound, and one more.
func TestFieldBound(t *testing.T) {
	e := must(Source{Form: "u"})
	for n, want := range map[int]string{maxFields: "alice", maxFields + 1: ""} {
		body := strings.Repeat("a=1&", n-1) + "u=alice"
		name, err := e.Name(Request{Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte(body)})
		if name != want || (err == nil) != (want != "") {
			t.Errorf("%d fields: %q, %v", n, name, err)
		}
	}
}

// flood is a body of 64 KiB of names that cost the most to fold, or are the most.
func flood(contentType, start, name, end string) Request {
	return Request{
		Method: "POST", Target: "/", Header: http.Header{"Content-Type": {contentType}},
		Body: []byte(start + strings.Repeat(name, (64<<10-len(start)-len(end))/len(name)) + end),
	}
}

var floods = map[string]Request{
	"form of one":    flood("application/x-www-form-urlencoded", "", "%EF%B7%BA", "="),
	"form of many":   flood("application/x-www-form-urlencoded", "", "%EF%B7%BA=&", ""),
	"form of ASCII":  flood("application/x-www-form-urlencoded", "", "a&", ""),
	"form of dots":   flood("application/x-www-form-urlencoded", "", "a.", ""),
	"JSON of one":    flood("application/json", `{"`, "\ufdfa", `":1}`),
	"JSON of many":   flood("application/json", `{`, "\"\ufdfa\":1,", `"a":1}`),
	"JSON of long":   flood("application/json", `{`, `"`+strings.Repeat("\ufdfa", 80)+`":1,`, `"a":1}`),
	"JSON of marks":  flood("application/json", `{`, `"`+strings.Repeat("\u0390", 80)+`":1,`, `"a":1}`),
	"JSON of ASCII":  flood("application/json", `{`, `"a":1,`, `"a":1}`),
	"JSON elsewhere": flood("application/json", `{"x":{`, `"a":1,`, `"a":1}}`),
}

// floodSource has the most to look through.
func floodSource(r Request) Source {
	if strings.HasSuffix(r.Header.Get("Content-Type"), "json") {
		return Source{JSON: "user.email"}
	}
	return Source{Form: "user[email]"}
}

// Names are looked through up to a bound, wherever they stand.
func TestWork(t *testing.T) {
	for name, r := range floods {
		e := must(floodSource(r))
		n := testing.AllocsPerRun(3, func() { e.Name(r) })
		t.Logf("%s: %v allocations", name, n)
		if n > 6_000 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	hidden := strings.Repeat("%EF%B7%BA", 100)
	for _, r := range []Request{
		{Target: "/?" + strings.Repeat("a&", maxFields) + "a"},
		{Target: "/?" + strings.Repeat(hidden+"=1&", 4)},
		{Target: "/", Header: http.Header{"Cookie": {strings.Repeat("a=1; ", maxFields), "a=1"}}},
		{Target: "/", Header: http.Header{"Cookie": {strings.Repeat(hidden+"=1; ", 4)}}},
	} {
		if name, err := must(Source{Form: "a_b"}).Name(r); err == nil {
			t.Errorf("%.60q, %.60q: %q", r.Target, r.Header, name)
		}
	}
	// One bound for all places together.
	half := strings.Repeat("%EF%B7%BA", 10) + "=1" // 30 bytes
	r := Request{
		Target: "/?" + strings.Repeat(half+"&", 12),
		Header: http.Header{"Cookie": {strings.Repeat(half+";", 12)}, "Content-Type": {"application/x-www-form-urlencoded"}},
		Body:   []byte(strings.Repeat(half+"&", 10)),
	}
	e := must(Source{Form: "a"})
	if _, err := e.Name(r); err != nil {
		t.Error(err)
	}
	r.Body = append(r.Body, half...)
	if _, err := e.Name(r); err != errBeyond {
		t.Error(err)
	}
}

func BenchmarkFlood(b *testing.B) {
	for name, r := range floods {
		e := must(floodSource(r))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Name(r)
			}
		})
	}
}

func BenchmarkForm(b *testing.B) {
	e := must(Source{Form: "username"})
	r := Request{
		Method: "POST", Target: "/login?next=%2Faccount",
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/html"}, "User-Agent": {"x"}, "Cookie": {"a=b"}},
		Body:   []byte("csrf=0123456789abcdef&username=alice%40example.com&password=correct+horse"),
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Name(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	for name, s := range map[string]string{"ascii": "Alice@example.com", "other": "Åsa@example.com", "long": strings.Repeat("ﷺ", longName/3)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Canonical(s)
			}
		})
	}
}
