package httpguard_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

// account names the subject of a form.
func account(r *http.Request) (string, error) {
	if err := r.ParseForm(); err != nil {
		return "", err
	}
	return r.PostForm.Get("user"), nil
}

// form returns a form that the caller posts.
func form(addr, body string) *http.Request {
	r := from(addr, "POST", body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func inHeader(name string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) { return r.Header.Get(name), nil }
}

func fails(err error) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) { return "ada", err }
}

// status is an error with a status.
type status int

func (s status) Error() string { return fmt.Sprintf("status %d", int(s)) }
func (s status) Status() int   { return int(s) }

// perName has a budget of 10 per network, 8 per subject and per pair, 7 per challenge.
func perName() guard.Config {
	return guard.Config{Rules: []guard.Rule{
		{Lockout: free(10)}, {Per: guard.Subject, Lockout: free(8)}, {Per: guard.Challenge, Lockout: free(7)}, {Per: guard.Pair, Lockout: free(8)},
	}}
}

// left tells how many attempts are left to a request, 0 if it is refused.
func left(g *guard.Guard, r guard.Request) int {
	v := g.Check(r, time.Now())
	if !v.Allowed {
		return 0
	}
	return v.Remaining + 1
}

// spent tells how much 192.0.2.7 has spent of the budgets of perName: network, subject,
// challenge, and the more of pair and subject.
func spent(g *guard.Guard, subject, challenge string) [4]int {
	here, there := addr("192.0.2.7"), addr("198.51.100.7")
	name, code := doorward.KeyFromName(subject), doorward.KeyFromName(challenge)
	n := [4]int{10 - left(g, guard.Request{Addr: here}), 8 - left(g, guard.Request{Addr: there, Subject: name})}
	if challenge != "" {
		n[2] = 7 - left(g, guard.Request{Addr: there, Challenge: code})
	}
	n[3] = 8 - left(g, guard.Request{Addr: here, Subject: name})
	return n
}

// TestSubject: what a request names and what it is charged to.
func TestSubject(t *testing.T) {
	var (
		all     = [4]int{1, 1, 1, 1}
		named   = [4]int{1, 1, 0, 1}
		network = [4]int{1, 0, 0, 0}
		nothing = [4]int{}
	)
	ada := func(r *http.Request) (string, error) { return "ada", nil }
	code := inHeader("Code")
	posts := func() *http.Request { return form("192.0.2.7", "user=ada&password=x") }
	with := func(r *http.Request, name, value string) *http.Request {
		r.Header.Set(name, value)
		return r
	}
	broken := func() *http.Request {
		r := posts()
		r.Body = io.NopCloser(iotest.ErrReader(errors.New("reset")))
		return r
	}
	for _, tt := range []struct {
		name               string
		subject, challenge func(*http.Request) (string, error)
		optional           bool
		maxBody            int64
		request            *http.Request
		status             int
		spent              [4]int
	}{
		{"form", account, code, false, 0, posts(), 401, named},
		{"form and challenge", account, code, false, 0, with(posts(), "Code", "c"), 401, all},
		{"two forms", account, func(r *http.Request) (string, error) { return r.PostFormValue("password"), nil }, false, 0, posts(), 401, named},
		{"header", inHeader("User"), code, false, 0, with(from("192.0.2.7", "GET", ""), "User", "ada"), 401, named},
		{"header and body", inHeader("User"), code, false, 0, with(posts(), "User", "ada"), 401, named},
		{"none", account, code, false, 0, form("192.0.2.7", "user="), 400, network},
		{"none but a challenge", account, code, false, 0, with(form("192.0.2.7", "x=y"), "Code", "c"), 400, network},
		{"blank", account, code, false, 0, form("192.0.2.7", "user=++%09"), 400, network},
		{"no body", account, code, false, 0, from("192.0.2.7", "POST", ""), 400, network},
		{"none, optional", account, code, true, 0, form("192.0.2.7", "user=+"), 401, network},
		{"optional and there", account, code, true, 0, posts(), 401, named},
		{"does not parse", account, code, false, 0, form("192.0.2.7", "user=%zz"), 400, network},
		{"does not parse, optional", account, code, true, 0, form("192.0.2.7", "user=%zz"), 400, network},
		{"error", fails(errors.New("no")), code, false, 0, posts(), 400, network},
		{"error 400", fails(status(400)), code, false, 0, posts(), 400, network},
		{"error 413", fails(status(413)), code, false, 0, posts(), 413, network},
		{"error 415", fails(status(415)), code, false, 0, posts(), 415, network},
		{"error 415, wrapped", fails(fmt.Errorf("form: %w", status(415))), code, false, 0, posts(), 415, network},
		{"error 200", fails(status(200)), code, false, 0, posts(), 400, network},
		{"error 401", fails(status(401)), code, false, 0, posts(), 400, network},
		{"error 500", fails(status(500)), code, false, 0, posts(), 400, network},
		{"error without a body", fails(status(415)), code, false, 0, from("192.0.2.7", "GET", ""), 415, network},
		{"error of the challenge", ada, fails(status(415)), false, 0, posts(), 415, network},
		{"too large", ada, code, false, 4, posts(), 413, network},
		{"reset", ada, code, false, 0, broken(), 400, nothing},
		{"body not in memory", account, code, false, -1, posts(), 400, network},
		{"body not in memory, header", inHeader("User"), code, false, -1, with(posts(), "User", "ada"), 401, named},
		{"one of ours", inHeader("Doorward-Step-Up"), code, false, 0, with(posts(), "Doorward-Step-Up", "ada"), 400, network},
		{"malformed for the handler", account, code, false, 0, with(with(posts(), "Code", "c"), "Malformed", "yes"), 401, [4]int{1, 0, 0, 1}},
		{"exempt", fails(status(415)), code, false, 0, func() *http.Request { r := posts(); r.RemoteAddr = "203.0.113.1:1"; return r }(), 401, nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := perName()
			c.Exempt = prefixes("203.0.113.0/24")
			g, calls := newGuard(t, c), record()
			gate := newGate(t, httpguard.Options{
				Guard: g, Subject: tt.subject, Challenge: tt.challenge, OptionalSubject: tt.optional, MaxBody: tt.maxBody, Settled: calls.callback,
			})
			reached := false
			w := do(gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached = true
				if r.Header.Get("Malformed") != "" {
					httpguard.FromRequest(r).Malformed()
				}
				wrong(w, r)
			})), tt.request)
			if w.Code != tt.status || reached != (tt.status == 401) {
				t.Errorf("status %d, reached %v, want %d", w.Code, reached, tt.status)
			}
			if got := spent(g, "ada", "c"); got != tt.spent {
				t.Errorf("spent %v, want %v", got, tt.spent)
			}
			if tt.spent == nothing && tt.name != "exempt" {
				calls.none(t)
				return
			}
			want := doorward.Failed
			if !reached || tt.request.Header.Get("Malformed") != "" {
				want = doorward.Malformed
			}
			if got := calls.next(t); got.outcome != want || (got.permit.Err() != nil) == reached {
				t.Errorf("settled as %v, %v", got.outcome, got.permit.Err())
			}
		})
	}
}

// TestSubjectBody: whatever the functions read and parse, the handler gets the request
// as it was sent.
func TestSubjectBody(t *testing.T) {
	const body = "user=ada&user=%41da&&x=\x00\xff;\r\n"
	g := newGuard(t, guard.Config{Rules: []guard.Rule{{Lockout: free(5)}}})
	reads := func(r *http.Request) (string, error) {
		b, err := io.ReadAll(r.Body)
		if string(b) != body || r.ContentLength != int64(len(body)) {
			t.Errorf("a function got %q, length %d", b, r.ContentLength)
		}
		return "ada", err
	}
	parses := func(r *http.Request) (string, error) {
		r.ParseForm()
		r.Method, r.Body = "PUT", nil
		return "c", nil
	}
	for _, names := range [][2]func(*http.Request) (string, error){{reads, reads}, {reads, parses}, {parses, reads}, {parses, nil}, {nil, parses}} {
		for _, length := range []int64{int64(len(body)), -1} {
			h := newGate(t, httpguard.Options{Guard: g, Subject: names[0], Challenge: names[1]}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if string(b) != body || err != nil || r.Form != nil || r.Method != "POST" || r.ContentLength != int64(len(body)) {
					t.Errorf("the handler got %q, %v, %+v", b, err, r)
				}
				right(w, r)
			}))
			r := form("192.0.2.7", body)
			r.ContentLength = length
			if w := do(h, r); w.Code != 200 {
				t.Errorf("%d", w.Code)
			}
		}
	}
}

// TestLockedUnread: who is locked is refused before the body is read and before anyone
// looks at what the request names.
func TestLockedUnread(t *testing.T) {
	h := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(1)), Subject: account}).Handler(wrong)
	if w := do(h, form("192.0.2.7", "user=ada")); w.Code != 401 {
		t.Fatal(w.Code)
	}
	for _, body := range []string{"user=ada", ""} {
		r := form("192.0.2.7", body)
		if body != "" {
			r.Body = io.NopCloser(iotest.ErrReader(errors.New("read")))
		}
		locked := newGate(t, httpguard.Options{Guard: newGuard(t, guard.Config{
			Rules: []guard.Rule{{Lockout: free(1)}}, Blocked: prefixes("192.0.2.0/24"),
		}), Subject: func(*http.Request) (string, error) {
			t.Error("asked")
			return "", nil
		}}).Handler(wrong)
		if w := do(locked, r); w.Code != 403 {
			t.Errorf("%d", w.Code)
		}
		if w := do(h, r); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
}

// TestCanonical: spellings of a subject share its budget, those of a challenge do not.
func TestCanonical(t *testing.T) {
	spellings := []string{"ada", "ADA", " Ada", "aDa\t", "adA"}
	for _, tt := range []struct {
		name      string
		rule      guard.Per
		canonical func(string) string
		want      string
	}{
		{"default", guard.Subject, nil, "401 401 429 429 429"},
		{"exact", guard.Subject, func(s string) string { return s }, "401 401 401 401 401"},
		{"upper", guard.Subject, strings.ToUpper, "401 401 401 401 429"},
		{"one", guard.Subject, func(string) string { return "x" }, "401 401 429 429 429"},
		{"none", guard.Subject, func(string) string { return "" }, "400 400 400 400 400"},
		{"challenge", guard.Challenge, nil, "401 401 401 401 401"},
	} {
		g := newGuard(t, guard.Config{Rules: []guard.Rule{{Lockout: free(100)}, {Per: tt.rule, Lockout: free(2)}}})
		h := newGate(t, httpguard.Options{Guard: g, Subject: account, Challenge: func(r *http.Request) (string, error) {
			if tt.rule != guard.Challenge {
				return "", nil
			}
			return account(r)
		}, Canonical: tt.canonical}).Handler(wrong)
		var got []string
		for _, s := range spellings {
			got = append(got, fmt.Sprint(do(h, form("192.0.2.7", "user="+strings.NewReplacer(" ", "+", "\t", "%09").Replace(s))).Code))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestCheckNames: Check reads the body if it has to, leaves it as it was, and refuses
// what names nothing.
func TestCheckNames(t *testing.T) {
	nothing := [4]int{}
	for _, tt := range []struct {
		name, body string
		request    func(*http.Request)
		status     int // 0: allowed
		spent      [4]int
	}{
		{"named", "user=ada", nil, 0, [4]int{1, 1, 0, 1}},
		{"none", "user=", nil, 400, [4]int{1, 0, 0, 0}},
		{"too large", "user=" + strings.Repeat("a", 100), nil, 413, [4]int{1, 0, 0, 0}},
		{"too large, chunked", "user=" + strings.Repeat("a", 100), func(r *http.Request) { r.ContentLength = -1 }, 413, [4]int{1, 0, 0, 0}},
		{"reset", "user=ada", func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)) }, 400, nothing},
	} {
		g, calls := newGuard(t, perName()), record()
		gate := newGate(t, httpguard.Options{Guard: g, Subject: account, Challenge: inHeader("Code"), MaxBody: 64, Settled: calls.callback})
		r := form("192.0.2.7", tt.body)
		if tt.request != nil {
			tt.request(r)
		}
		p := gate.Check(r)
		var has interface{ Status() int }
		if errors.As(p.Err(), &has) != (tt.status != 0) || has != nil && has.Status() != tt.status || p.Verdict().Allowed != (tt.status == 0) || p.Addr() != addr("192.0.2.7") {
			t.Errorf("%s: %+v, %v", tt.name, p.Verdict(), p.Err())
		}
		if p.Verdict().Allowed {
			if b, err := io.ReadAll(r.Body); string(b) != tt.body || err != nil {
				t.Errorf("%s: the body is %q, %v", tt.name, b, err)
			}
		}
		p.Failed()
		switch {
		case tt.spent == nothing:
			calls.none(t)
		case tt.status == 0:
			if got := calls.next(t); got.outcome != doorward.Failed {
				t.Errorf("%s: settled as %v", tt.name, got.outcome)
			}
		default:
			if got := calls.next(t); got.outcome != doorward.Malformed {
				t.Errorf("%s: settled as %v", tt.name, got.outcome)
			}
		}
		if got := spent(g, "ada", "c"); got != tt.spent {
			t.Errorf("%s: spent %v, want %v", tt.name, got, tt.spent)
		}
	}
}

func TestStepUp(t *testing.T) {
	g := newGuard(t, guard.Config{Rules: []guard.Rule{{Lockout: free(10)}, {Per: guard.Subject, Action: guard.StepUp, Lockout: free(2)}}})
	var got []bool
	h := newGate(t, httpguard.Options{Guard: g, Subject: account}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, httpguard.FromRequest(r).StepUp())
		wrong(w, r)
	}))
	for _, user := range []string{"ada", "ada", "ada", "bob"} {
		do(h, form("192.0.2.7", "user="+user))
	}
	if fmt.Sprint(got) != "[false false true false]" {
		t.Errorf("%v", got)
	}
}
