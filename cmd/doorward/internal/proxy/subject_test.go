package proxy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/window"
)

// failures is a lockout that lasts longer than a test.
func failures(free int) *lockout.Policy {
	return &lockout.Policy{FreeFailures: free, Window: time.Hour, FirstLockout: time.Hour, MaxLockout: time.Hour, Capacity: 1024, InFlight: 1024}
}

// rules makes a guard of the first door.
func rules(t testing.TB, rules ...guard.Rule) option {
	t.Helper()
	g, err := guard.New(guard.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Doors[0].Guard = g }
}

func extractor(t testing.TB, from subject.Source) *subject.Extractor {
	t.Helper()
	e, err := subject.New(from)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func subjects(t testing.TB, from subject.Source) option {
	e := extractor(t, from)
	return func(c *Config) { c.Doors[0].Subject = e }
}

func challenges(t testing.TB, from subject.Source) option {
	e := extractor(t, from)
	return func(c *Config) { c.Doors[0].Challenge = e }
}

// behind makes all networks of a test reachable: a proxy on this machine names them.
func behind(t testing.TB) option { return trusting(t, "X-Forwarded-For", "127.0.0.1/32") }

// via posts a form from a network that the proxy before us names.
func (s *site) via(network, target, body string, lines ...string) *http.Response {
	s.t.Helper()
	res, _ := s.raw(request("POST", target, body, append([]string{"X-Forwarded-For: " + network, formType}, lines...)...))
	return res
}

func network(n int) string { return fmt.Sprintf("198.51.%d.7", n) }

// left returns how many attempts at a subject may still start.
func (s *site) left(network, subject string) int {
	v := s.guard.Check(guard.Request{Addr: netip.MustParseAddr(network), How: clientip.Header, Subject: doorward.KeyFromName(subject)}, time.Now())
	if !v.Allowed {
		return 0
	}
	return v.Remaining + 1
}

// secret fails if a line of the log has text in it.
func (s *site) secret(text string) {
	s.t.Helper()
	if s.log.of("settled") == nil && s.log.of("refused") == nil {
		s.t.Error("nothing was logged")
	}
	for _, l := range s.log.of("") {
		if strings.Contains(strings.ToLower(fmt.Sprint(l)), strings.ToLower(text)) {
			s.t.Errorf("the log has %q: %v", text, l)
		}
	}
}

// TestSpellings: ten spellings of one subject share one budget, from whatever network.
// Another subject has its own.
func TestSpellings(t *testing.T) {
	spellings := []string{
		"office", "OFFICE", "Office", "+office+", "oFFice%20", "o%EF%AC%83ce", "%EF%BD%8Fffice",
		"of%E2%80%8Bfice", "of%C2%ADfice", "office%E3%80%80",
	}
	addr, tries := loginApp(t)
	s := serve(t, addr, behind(t), subjects(t, subject.Source{Form: "user"}), rules(t, guard.Rule{Per: guard.Subject, Lockout: failures(5)}))
	for i := range 2 * len(spellings) {
		want := 200
		if i >= 5 {
			want = 429
		}
		if res := s.via(network(i), "/login", "user="+spellings[i%len(spellings)]+"&pass=wrong"); res.StatusCode != want {
			t.Errorf("spelling %q: status %d, want %d", spellings[i%len(spellings)], res.StatusCode, want)
		}
	}
	// The right password for a locked subject does not get through either.
	if res := s.via(network(99), "/login", "user=office&pass=right"); res.StatusCode != 429 {
		t.Errorf("the right password: status %d, want 429", res.StatusCode)
	}
	if n := tries.Load(); n != 5 {
		t.Errorf("%d guesses reached the application, want 5", n)
	}
	if res := s.via(network(0), "/login", "user=office2&pass=right"); res.StatusCode != 302 {
		t.Errorf("another subject: status %d, want 302", res.StatusCode)
	}
	s.secret("office")
}

// TestRealm: two doors with one guard share one budget, wherever each of them finds the
// subject.
func TestRealm(t *testing.T) {
	addr, tries := loginApp(t)
	s := serve(t, addr, behind(t), subjects(t, subject.Source{Form: "user"}), rules(t, guard.Rule{Per: guard.Subject, Lockout: failures(5)}), func(c *Config) {
		api := c.Doors[0]
		api.Name, api.Match = "api", mustDoor(t, door.Config{Routes: []string{"POST /api/{x...}"}})
		api.Subject = extractor(t, subject.Source{JSON: "who.name"})
		c.Doors = append(c.Doors, api)
	})
	for i := range 8 {
		want := 404 // the application has no such page
		if i >= 5 {
			want = 429
		} else if i%2 == 0 {
			want = 200
		}
		var res *http.Response
		if i%2 == 0 {
			res = s.via(network(i), "/login", "user=alice&pass=wrong")
		} else {
			res, _ = s.raw(request("POST", "/api/token", `{"who": {"name": "Alice"}}`, "X-Forwarded-For: "+network(i), "Content-Type: application/json"))
		}
		if res.StatusCode != want {
			t.Errorf("attempt %d: status %d, want %d", i, res.StatusCode, want)
		}
	}
	if n := tries.Load(); n != 3 {
		t.Errorf("%d guesses reached the login, want 3 of 5", n)
	}
}

// TestSources: a subject is found wherever it may stand, and has its own budget.
func TestSources(t *testing.T) {
	type sent struct {
		target, body string
		lines        []string
	}
	form := func(s string) sent { return sent{"/login", "user=" + s, []string{formType}} }
	for _, row := range []struct {
		from subject.Source
		sent func(string) sent
	}{
		{subject.Source{Form: "user"}, form},
		{subject.Source{JSON: "user"}, func(s string) sent {
			return sent{"/login", `{"user":"` + s + `"}`, []string{"Content-Type: application/json"}}
		}},
		{subject.Source{Header: "X-User"}, func(s string) sent { return sent{"/login", "", []string{"x-user: " + s}} }},
		{subject.Source{Query: "user"}, func(s string) sent { return sent{"/login?a=b&user=" + s, "", nil} }},
		{subject.Source{Path: "/login/{user}"}, func(s string) sent { return sent{"/login/" + s, "", nil} }},
		{subject.Source{BasicAuth: true}, func(s string) sent {
			return sent{"/login", "", []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(s+":pass"))}}
		}},
	} {
		a := listen(t, reads(wrong))
		s := serve(t, a.addr, behind(t), subjects(t, row.from), rules(t, guard.Rule{Per: guard.Subject, Lockout: failures(1)}), func(c *Config) {
			c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"POST /login", "POST /login/{user}"}})
			c.Doors[0].PathNames = row.from.Path != ""
		})
		for i, step := range []struct {
			name   string
			status int
		}{{"alice", 200}, {"ALICE", 429}, {"bob", 200}, {"alice", 429}, {"carol", 200}} {
			req := row.sent(step.name)
			if res, _ := s.raw(request("POST", req.target, req.body, append(req.lines, "X-Forwarded-For: "+network(i))...)); res.StatusCode != step.status {
				t.Errorf("%+v: %s: status %d, want %d", row.from, step.name, res.StatusCode, step.status)
			}
		}
		s.raw(request("POST", row.sent("alice.").target, ""))
		s.raw(request("POST", row.sent("alice").target+"%00", ""))
		s.secret("alice")
	}
}

// TestPathNames: paths that name subjects are not logged, wherever they lead; others are.
func TestPathNames(t *testing.T) {
	for _, names := range []bool{true, false} {
		s := serve(t, "127.0.0.1:1", subjects(t, subject.Source{Path: "/login/{user}"}), rules(t, guard.Rule{Per: guard.Subject, Lockout: failures(1)}), func(c *Config) {
			c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"POST /login/{user}"}})
			c.Doors[0].PathNames = names
			reset := c.Doors[0]
			reset.Name, reset.Match, reset.Subject, reset.PathNames = "reset", mustDoor(t, door.Config{Routes: []string{"POST /reset"}}), extractor(t, subject.Source{Form: "user"}), false
			c.Doors = append(c.Doors, reset)
		})
		for i, row := range []struct{ method, target string }{{"POST", "/login/alice"}, {"GET", "/login/alice"}, {"POST", "/reset"}} {
			s.raw(request(row.method, row.target, "user=bob", formType))
			l := s.log.wait(t, "upstream failed", i+1)[i]
			var want any = row.target
			if names && row.target != "/reset" {
				want = nil
			}
			if l["path"] != want {
				t.Errorf("%s %s, names %t: line %v, want path %v", row.method, row.target, names, l, want)
			}
		}
	}
}

// TestMalformed: what does not name its subject in one way is refused, is never passed
// on, and is charged to the caller's network and not to a subject.
func TestMalformed(t *testing.T) {
	const form, js = formType, "Content-Type: application/json"
	for _, row := range []struct {
		name, target string
		source       subject.Source
		body         string
		lines        []string
		status       int
		why          string
	}{
		{"none", "/login", subject.Source{Form: "user"}, "pass=x", []string{form}, 400, "the request names no subject"},
		{"empty", "/login", subject.Source{Form: "user"}, "user=&pass=x", []string{form}, 400, "the request names no subject"},
		{"blank", "/login", subject.Source{Form: "user"}, "user=+%E2%80%8B&pass=x", []string{form}, 400, "the request names no subject"},
		{"twice", "/login", subject.Source{Form: "user"}, "user=alice&user=bob", []string{form}, 400, "the field is named twice"},
		{"two ways", "/login", subject.Source{Form: "user"}, "user=alice&user[]=bob", []string{form}, 400, "the field is named in another way"},
		{"another type", "/login", subject.Source{Form: "user"}, `{"user": "alice"}`, []string{js}, 415, ""},
		{"encoded", "/login", subject.Source{Form: "user"}, "user=alice", []string{form, "Content-Encoding: gzip"}, 415, "the body has a content encoding"},
		{"charset", "/login", subject.Source{Form: "user"}, "user=alice", []string{form + "; charset=utf-7"}, 415, "the body has another charset than UTF-8"},
		{"too large", "/login", subject.Source{Form: "user"}, "user=alice&x=" + strings.Repeat("x", 2000), []string{form}, 413, "body is too large"},
		{"broken", "/login", subject.Source{JSON: "user"}, `{"user": "alice"`, []string{js}, 400, ""},
		{"twice in JSON", "/login", subject.Source{JSON: "user"}, `{"user": "alice", "user": "bob"}`, []string{js}, 400, ""},
		{"query twice", "/login?user=alice&user=bob", subject.Source{Query: "user"}, "", nil, 400, ""},
		{"header twice", "/login", subject.Source{Header: "X-User"}, "", []string{"X-User: alice", "x-user: bob"}, 400, "a header is there twice"},
		{"header alias", "/login", subject.Source{Header: "X-User"}, "", []string{"X-User: alice", "X_User: bob"}, 400, "a header is there in another spelling"},
		{"no credentials", "/login", subject.Source{BasicAuth: true}, "", nil, 400, "the request names no subject"},
		{"credentials", "/login", subject.Source{BasicAuth: true}, "", []string{"Authorization: Bearer alice"}, 400, "the credentials are not Basic"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var reached atomic.Int64
			addr := handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached.Add(1) }))
			s := serve(t, addr, behind(t), subjects(t, row.source), rules(t,
				guard.Rule{Lockout: failures(3)}, guard.Rule{Per: guard.Subject, Lockout: failures(2)}, guard.Rule{Per: guard.Pair, Lockout: failures(2)},
			), func(c *Config) { c.Limits.BodyBytes = 1000 })
			for i := range 5 {
				want := row.status
				if i >= 3 {
					want = 429
				}
				res, _ := s.raw(request("POST", row.target, row.body, append(row.lines, "X-Forwarded-For: 192.0.2.7")...))
				if res.StatusCode != want {
					t.Errorf("request %d: status %d, want %d", i, res.StatusCode, want)
				}
			}
			if n := reached.Load(); n != 0 {
				t.Errorf("%d requests reached the application", n)
			}
			for _, name := range []string{"alice", "bob"} {
				if n := s.left("198.51.100.1", name); n != 2 {
					t.Errorf("%d attempts left at %s, want 2", n, name)
				}
			}
			lines := s.log.of("refused")
			if len(lines) != 5 {
				t.Fatalf("%d lines about refusals, want 5", len(lines))
			}
			l := lines[0]
			if why := fmt.Sprint(l["why"]); l["reason"] != "malformed" || l["client"] != "192.0.2.7" || l["door"] != "login" || l["why"] == nil || row.why != "" && why != row.why {
				t.Errorf("line %v, want why %q", l, row.why)
			}
			s.secret("alice")
		})
	}
}

// TestOptionalSubject: a request without a subject passes where that is said, and its
// network alone is charged; a malformed one still does not.
func TestOptionalSubject(t *testing.T) {
	addr, tries := loginApp(t)
	s := serve(t, addr, subjects(t, subject.Source{Form: "user"}), rules(t, guard.Rule{Lockout: failures(4)}, guard.Rule{Per: guard.Subject, Lockout: failures(1)}),
		func(c *Config) { c.Doors[0].OptionalSubject = true })
	for i, row := range []struct {
		body   string
		status int
	}{{"pass=wrong", 200}, {"pass=wrong", 200}, {"user=a&user=a", 400}, {"pass=wrong", 200}, {"pass=wrong", 429}} {
		if res, _ := s.raw(request("POST", "/login", row.body, formType)); res.StatusCode != row.status {
			t.Errorf("request %d: status %d, want %d", i, res.StatusCode, row.status)
		}
	}
	if n := tries.Load(); n != 3 {
		t.Errorf("%d requests reached the application, want 3", n)
	}
}

// TestP14: asking for a new code does not buy new guesses.
func TestP14(t *testing.T) {
	addr, tries := loginApp(t)
	s := serve(t, addr, behind(t), subjects(t, subject.Source{Form: "user"}), challenges(t, subject.Source{Form: "code_id"}), rules(t,
		guard.Rule{Per: guard.Challenge, Lockout: failures(5)},
		guard.Rule{Per: guard.Subject, Window: &window.Policy{Limit: 3, Window: 600 * time.Second, Sliding: true, Capacity: 1024, InFlight: 1024}},
	))
	for i, row := range []struct {
		network, user, code, pass string
		status                    int
	}{
		{"192.0.2.50", "a", "1", "wrong", 200},
		{"192.0.2.51", "a", "1", "wrong", 200},
		{"192.0.2.52", "a", "2", "wrong", 200},
		{"192.0.2.53", "a", "2", "right", 429},
		{"192.0.2.53", "b", "9", "right", 302},
		// And a code has its own budget, whoever the subject is said to be.
		{"192.0.2.60", "c", "3", "wrong", 200}, {"192.0.2.61", "d", "3", "wrong", 200}, {"192.0.2.62", "e", "+3", "wrong", 200},
		{"192.0.2.63", "f", "3", "wrong", 200}, {"192.0.2.64", "g", "3", "wrong", 200}, {"192.0.2.65", "h", "3", "right", 429},
		// Whoever leaves the code out is not past the rule for it.
		{"192.0.2.66", "h", "", "right", 400},
	} {
		if res := s.via(row.network, "/login", "user="+row.user+"&code_id="+row.code+"&pass="+row.pass); res.StatusCode != row.status {
			t.Errorf("step %d: status %d, want %d", i, res.StatusCode, row.status)
		}
	}
	if n := tries.Load(); n != 9 {
		t.Errorf("%d guesses reached the application, want 9", n)
	}
	lines := s.log.of("refused")
	if l := lines[len(lines)-1]; l["why"] != "the request names no challenge" {
		t.Errorf("line %v", l)
	}
}
