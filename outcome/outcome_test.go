package outcome

import (
	"errors"
	"strings"
	"testing"

	"github.com/doorward/doorward"
)

func mustNew(t testing.TB, r Rules) *Classifier {
	t.Helper()
	c, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func statuses(t testing.TB, s string) Statuses {
	t.Helper()
	list, err := ParseStatuses(s)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

type headers map[string][]string

// TestOrder: F1, F2 and F3, with rules for every kind of answer.
func TestOrder(t *testing.T) {
	r := Rules{
		Failed:    Conditions{Status: statuses(t, "200-499"), Location: "/login"},
		Void:      statuses(t, "404,429,503"),
		Succeeded: Conditions{Status: statuses(t, "2xx,302,404"), SetCookie: "session"},
		Header:    true,
	}
	word := func(w ...string) headers { return headers{Header: w, "Set-Cookie": {"session=x"}} }
	good, back := headers{"Set-Cookie": {"session=x"}}, headers{"Set-Cookie": {"session=x"}, "Location": {"/login?e"}}
	for _, row := range []struct {
		name   string
		status int
		header headers
		want   doorward.Outcome
		warns  bool
	}{
		{"nothing known", 200, nil, doorward.Failed, false},
		{"all that is named", 200, good, doorward.Succeeded, false},
		{"all that is named, 302", 302, good, doorward.Succeeded, false},
		{"the cookie alone", 303, good, doorward.Failed, false},
		{"the status alone", 302, headers{}, doorward.Failed, false},
		{"failed before succeeded", 302, back, doorward.Failed, false},
		{"failed before void", 404, back, doorward.Failed, false},
		{"void before succeeded", 404, good, doorward.Void, false},
		{"void", 503, nil, doorward.Void, false},
		{"5xx that is not listed", 502, good, doorward.Failed, false},
		{"the word before all", 503, word("succeeded"), doorward.Succeeded, false},
		{"failed by word", 200, word("failed"), doorward.Failed, false},
		{"malformed by word", 200, word("malformed"), doorward.Malformed, false},
		{"void by word", 200, word("void"), doorward.Void, false},
		{"the word twice", 200, word("succeeded", "succeeded"), doorward.Failed, true},
		{"the word twice, once as a list", 200, word("succeeded, succeeded"), doorward.Failed, true},
		{"misspelt", 200, word("success"), doorward.Failed, true},
		{"upper case", 200, word("Succeeded"), doorward.Failed, true},
		{"a space", 200, word(" succeeded"), doorward.Failed, true},
		{"empty", 503, word(""), doorward.Failed, true},
		{"no values", 200, word(), doorward.Succeeded, false},
		{"101", 101, word("succeeded"), doorward.Failed, false},
		{"199", 199, good, doorward.Failed, false},
		{"no status", 0, good, doorward.Failed, false},
		{"600, by word", 600, word("succeeded"), doorward.Succeeded, false},
	} {
		v := mustNew(t, r).Classify(row.status, row.header)
		if v.Outcome != row.want || (v.Warning != "") != row.warns {
			t.Errorf("%s: got %+v, want %v, warning %t", row.name, v, row.want, row.warns)
		}
	}
}

// TestWordNeedsNoRule: F1, the application's word comes first, whether or not its
// successes are named by it.
func TestWordNeedsNoRule(t *testing.T) {
	c := mustNew(t, Rules{Succeeded: Conditions{Status: statuses(t, "302")}})
	for word, want := range map[string]doorward.Outcome{
		"succeeded": doorward.Succeeded, "failed": doorward.Failed,
		"void": doorward.Void, "malformed": doorward.Malformed, "x": doorward.Failed,
	} {
		for _, status := range []int{200, 302} {
			if v := c.Classify(status, headers{Header: {word}}); v.Outcome != want {
				t.Errorf("%d, %s: got %v, want %v", status, word, v.Outcome, want)
			}
		}
	}
}

// TestNoStatusNamed: a condition that does not name the status holds for all final
// ones, and for no others.
func TestNoStatusNamed(t *testing.T) {
	c := mustNew(t, Rules{Succeeded: Conditions{SetCookie: "s"}})
	for status, want := range map[int]doorward.Outcome{
		0: doorward.Failed, 101: doorward.Failed, 199: doorward.Failed, 600: doorward.Failed, 999: doorward.Failed,
		200: doorward.Succeeded, 500: doorward.Succeeded, 599: doorward.Succeeded,
	} {
		if v := c.Classify(status, headers{"Set-Cookie": {"s=1"}}); v.Outcome != want {
			t.Errorf("%d: got %v, want %v", status, v.Outcome, want)
		}
	}
}

func TestZero(t *testing.T) {
	var c Classifier
	if v := c.Classify(200, headers{"Set-Cookie": {"=x"}}); v != (Verdict{}) {
		t.Errorf("zero Classifier: got %+v", v)
	}
	if _, err := New(Rules{}); !errors.Is(err, ErrNoSuccess) {
		t.Errorf("zero Rules: got %v", err)
	}
}

func TestWarning(t *testing.T) {
	c := mustNew(t, Rules{Header: true})
	for value, want := range map[string]string{
		"ok":                     `Doorward-Outcome must be succeeded, failed, malformed or void, got "ok"`,
		"a\nb\x1b":               `Doorward-Outcome must be succeeded, failed, malformed or void, got "a\nb\x1b"`,
		strings.Repeat("x", 999): `Doorward-Outcome must be succeeded, failed, malformed or void, got "` + strings.Repeat("x", 32) + `"`,
	} {
		if v := c.Classify(200, headers{Header: {value}}); v.Warning != want {
			t.Errorf("got %s, want %s", v.Warning, want)
		}
	}
	if v := c.Classify(200, headers{Header: {"void", "void", "void"}}); v.Warning != "Doorward-Outcome must be sent once, got 3" {
		t.Errorf("got %s", v.Warning)
	}
}

func TestNewErrors(t *testing.T) {
	ok := Conditions{Status: Statuses{{302, 302}}}
	for _, row := range []struct {
		rules Rules
		want  string // "" for none
	}{
		{Rules{Succeeded: ok}, ""},
		{Rules{Header: true}, ""},
		{Rules{Succeeded: Conditions{Status: Statuses{{200, 599}}}}, "outcome: Succeeded.Status must not have every status unless Failed is named: nothing would fail"},
		{Rules{Succeeded: Conditions{Status: Statuses{{200, 400}, {399, 599}}}}, "outcome: Succeeded.Status must not have every status unless Failed is named: nothing would fail"},
		{Rules{Succeeded: Conditions{Status: Statuses{{200, 599}}}, Failed: Conditions{Status: Statuses{{401, 401}}}}, ""},
		{Rules{Header: true, Void: Statuses{{200, 599}}}, "outcome: Void must not have every status: nothing would count"},
		{Rules{Failed: ok}, ErrNoSuccess.Error()},
		{Rules{Void: ok.Status}, ErrNoSuccess.Error()},
		{Rules{Succeeded: Conditions{Status: Statuses{}}}, ErrNoSuccess.Error()},
		{Rules{Succeeded: Conditions{Status: Statuses{{101, 101}}}}, "outcome: Succeeded.Status must be of final statuses, 200 to 599, got 101-101"},
		{Rules{Succeeded: Conditions{Status: Statuses{{599, 600}}}}, "outcome: Succeeded.Status must be of final statuses, 200 to 599, got 599-600"},
		{Rules{Succeeded: ok, Failed: Conditions{Status: Statuses{{300, 299}}}}, "outcome: Failed.Status must be of final statuses, 200 to 599, got 300-299"},
		{Rules{Succeeded: ok, Void: Statuses{{}}}, "outcome: Void must be of final statuses, 200 to 599, got 0-0"},
		{Rules{Succeeded: Conditions{SetCookie: "a=b"}}, `outcome: Succeeded.SetCookie must be a cookie name, got "a=b"`},
		{Rules{Succeeded: Conditions{Location: "/a b"}}, `outcome: Succeeded.Location must have no space or control character, got "/a b"`},
		{Rules{Succeeded: Conditions{Location: "https://"}}, `outcome: Succeeded.Location must have a host after "//", got "https://"`},
		{Rules{Succeeded: Conditions{Location: "//"}}, `outcome: Succeeded.Location must have a host after "//", got "//"`},
		{Rules{Succeeded: ok, Failed: ok}, "outcome: Succeeded.Status must have a status that neither Failed nor Void lists, got 302"},
		{Rules{Succeeded: ok, Void: Statuses{{300, 399}}}, "outcome: Succeeded.Status must have a status that neither Failed nor Void lists, got 302"},
		{Rules{Succeeded: ok, Failed: Conditions{Status: ok.Status, Location: "/login"}}, ""},
		{Rules{Succeeded: Conditions{Status: Statuses{{200, 299}}}, Void: Statuses{{204, 204}}}, ""},
		{Rules{Succeeded: ok, Failed: Conditions{Status: Statuses{{400, 499}}}, Void: Statuses{{429, 429}}}, "outcome: Void must not list what Failed does, got 429"},
	} {
		_, err := New(row.rules)
		if got := ""; err != nil {
			if got = err.Error(); got != row.want {
				t.Errorf("%+v:\n got %s\nwant %s", row.rules, got, row.want)
			}
		} else if row.want != "" {
			t.Errorf("%+v: no error, want %s", row.rules, row.want)
		}
	}
	for _, form := range []string{"302", "200,302", "2xx", "cookie:", "location:", "header"} {
		if !strings.Contains(ErrNoSuccess.Error(), form) {
			t.Errorf("ErrNoSuccess does not show %s", form)
		}
	}
}

// TestRulesAreCopied: changing what New was given changes no classifier.
func TestRulesAreCopied(t *testing.T) {
	list := Statuses{{302, 302}}
	c := mustNew(t, Rules{Succeeded: Conditions{Status: list}})
	list[0] = StatusRange{200, 200}
	if v := c.Classify(200, nil); v.Outcome != doorward.Failed {
		t.Errorf("got %v, want failed", v.Outcome)
	}
}

func TestLocation(t *testing.T) {
	for _, row := range []struct {
		prefix   string
		yes, not string
	}{
		{"/app", "/app /app/ /app/x /app?x /app#x", "/app/../login /app/x/%2E%2e/../login /application /app;x /ap / /APP /x/app https://h/app //app /app%2F"},
		{"/app/", "/app/ /app/x /app/?x", "/app /app?x"},
		{"/?page=", "/?page= /?page=1", "/ /?page"},
		{"/", "/ /?x /#x", "/login /login?error //evil"},
		{"https://h", "https://h https://h/ https://h?x https://h/?x https://h#", "https://h/login https://h.evil/ https://hh //h http://h"},
		{"https://h/", "https://h/ https://h/?x", "https://h https://h/login"},
		{"//h/", "//h/ //h/#x", "//h/login /h/"},
		{"https://h/app", "https://h/app https://h/app/x", "https://h/ https://h/apple"},
		{"/go?to=https://h/", "/go?to=https://h/ /go?to=https://h/x", "/go"},
		{"home", "home home/x", "homes /home"},
	} {
		c := mustNew(t, Rules{Succeeded: Conditions{Location: row.prefix}})
		for i, list := range []string{row.yes, row.not} {
			for _, v := range strings.Fields(list) {
				want := []doorward.Outcome{doorward.Succeeded, doorward.Failed}[i]
				if got := c.Classify(302, headers{"Location": {v}}).Outcome; got != want {
					t.Errorf("%s, Location %s: got %v, want %v", row.prefix, v, got, want)
				}
			}
		}
		for _, h := range []headers{nil, {"Location": {}}, {"Location": {""}}, {"Location": {row.prefix, row.prefix}}} {
			if got := c.Classify(302, h).Outcome; got != doorward.Failed {
				t.Errorf("%s, %q: got %v, want failed", row.prefix, h, got)
			}
		}
	}
}

func TestAllocations(t *testing.T) {
	c := mustNew(t, Rules{
		Failed:    Conditions{Location: "/login"},
		Succeeded: Conditions{Status: statuses(t, "200,302"), SetCookie: "session"},
		Header:    true,
	})
	for _, h := range []headers{
		{"Location": {"/home"}, "Set-Cookie": {"lang=en; Path=/", "session=1f2e; Path=/; HttpOnly; Max-Age=3600"}},
		{Header: {"succeeded"}},
	} {
		if n := testing.AllocsPerRun(100, func() { c.Classify(302, h) }); n != 0 {
			t.Errorf("%v: %v allocations, want 0", h, n)
		}
	}
}
