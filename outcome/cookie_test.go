package outcome

import (
	"net/http"
	"testing"
	"time"
)

func TestSetCookie(t *testing.T) {
	const date = "Wed, 01 Jul 2026 12:00:00 GMT"
	for _, row := range []struct {
		name  string
		lines []string
		want  bool
	}{
		{"set", []string{"session=x"}, true},
		{"with attributes", []string{"session=x; Path=/; HttpOnly; Secure; SameSite=Lax"}, true},
		{"spaces", []string{" session = x ;Path=/"}, true},
		{"quoted", []string{`session="x"`}, true},
		{"an equals sign in the value", []string{"session=eA=="}, true},
		{"among others", []string{"a=1", "session=x", "b="}, true},
		{"none", nil, false},
		{"another name", []string{"session2=x", "xsession=x"}, false},
		{"another letter case", []string{"Session=x"}, false},
		{"in a value", []string{"a=session=x"}, false},
		{"in an attribute", []string{"a=1; session=x"}, false},
		{"no value", []string{"session"}, false},
		{"empty", []string{"session=", "session=; Path=/"}, false},
		{"blank", []string{"session= \t ; Path=/"}, false},
		{"empty in quotes", []string{`session=""`, `session=" "`}, false},
		{"a control character", []string{"session=x\x01"}, false},
		{"Max-Age 0", []string{"session=deleted; Max-Age=0"}, false},
		{"Max-Age 00", []string{"session=x; max-age=00"}, false},
		{"Max-Age -1", []string{"session=x; Max-Age=-1"}, false},
		{"Max-Age - in quotes", []string{`session=x; Max-Age="-1"`}, false},
		{"Max-Age +0, 0.5 and 0x1", []string{"session=x; Max-Age=+0", "session=x; Max-Age=0.5", "session=x; Max-Age=0x1"}, false},
		{"Max-Age, positive", []string{"session=x; MAX-AGE = 60"}, true},
		{"Max-Age, huge", []string{"session=x; Max-Age=99999999999999999999"}, true},
		{"Max-Age, ignored", []string{"session=x; Max-Age=abc", "session=x; Max-Age="}, true},
		{"Max-Age, the last of two", []string{"session=x; Max-Age=0; Max-Age=60"}, true},
		{"Max-Age, the last of two is 0", []string{"session=x; Max-Age=60; Max-Age=0"}, false},
		{"Max-Age, one ignored", []string{"session=x; Max-Age=0; Max-Age=abc"}, false},
		{"Expires, 1970", []string{"session=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}, false},
		{"Expires, 1970 with dashes", []string{"session=x; expires=Thu, 01-Jan-1970 00:00:10 GMT"}, false},
		{"Expires, 1970 in two digits", []string{"session=x; expires=Thu, 01-Jan-70 00:00:10 GMT"}, false},
		{"Expires, 1999", []string{"session=; expires=Tue, 12-Oct-1999 07:00:00 GMT", "session=x; expires=Tue, 12-Oct-1999 07:00:00 GMT"}, false},
		{"Expires, 0", []string{"session=x; Expires=0"}, false},
		{"Expires, -1", []string{"session=x; Expires=-1"}, false},
		{"Expires, as C writes it", []string{"session=x; Expires=Thu Jan  1 00:00:00 1970"}, false},
		{"Expires, later", []string{"session=x; Expires=Fri, 31 Dec 2038 23:59:59 GMT"}, true},
		{"Expires, later with dashes", []string{"session=x; Expires=Fri, 31-Dec-2038 23:59:59 GMT"}, true},
		{"Expires, later, with an offset", []string{"session=x; Expires=Fri, 31 Dec 2038 23:59:59 +0000"}, true},
		{"Expires, a second after Date", []string{"session=x; Expires=Wed, 01 Jul 2026 12:00:01 GMT"}, true},
		{"Expires, at Date", []string{"session=x; Expires=Wed, 01 Jul 2026 12:00:00 GMT"}, false},
		{"Expires, empty", []string{"session=x; Expires="}, true},
		{"Max-Age before Expires", []string{"session=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60"}, true},
		{"Max-Age before Expires, 0", []string{"session=x; Expires=Fri, 31 Dec 2038 23:59:59 GMT; Max-Age=0"}, false},
		{"set, then deleted", []string{"session=x", "session=; Max-Age=0"}, false},
		{"set, then deleted elsewhere", []string{"session=x; Path=/", "session=x; Path=/app; Max-Age=0"}, false},
		{"deleted, then set", []string{"session=deleted; Max-Age=0", "session=x"}, true},
		{"set, then no value", []string{"session=x", "session"}, true},
	} {
		c := mustNew(t, Rules{Succeeded: Conditions{SetCookie: "session"}})
		v := c.Classify(302, headers{"Set-Cookie": row.lines, "Date": {date}})
		if got := v.Outcome.String() == "succeeded"; got != row.want {
			t.Errorf("%s: %q: got %t, want %t", row.name, row.lines, got, row.want)
		}
	}
}

// TestExpiresWithoutDate: what was past when this was written is past, what came
// later is not known to be.
func TestExpiresWithoutDate(t *testing.T) {
	for _, h := range []headers{{}, {"Date": {"yesterday"}}, {"Date": {http.TimeFormat, http.TimeFormat}}} {
		h["Set-Cookie"] = []string{"s=x; Expires=Tue, 31 Dec 2024 23:59:59 GMT"}
		if setsCookie(h, "s") {
			t.Errorf("%q: set", h)
		}
		h["Set-Cookie"] = []string{"s=x; Expires=0"}
		if setsCookie(h, "s") {
			t.Errorf("%q: set", h)
		}
		h["Set-Cookie"] = []string{"s=x; Expires=Wed, 01 Jan 2025 00:00:00 GMT"}
		if !setsCookie(h, "s") {
			t.Errorf("%q: not set", h)
		}
	}
}

// FuzzSetCookie: what counts as set, net/http reads as a cookie of that name that
// has a value and no expiry at or before the Date of the answer.
func FuzzSetCookie(f *testing.F) {
	for _, s := range []string{
		"session=x", "session=; Max-Age=0", "session=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT", `session="x"; Max-Age="0"`,
		"session=x; Max-Age=5; Expires=Thu, 01-Jan-1970 00:00:00 GMT", "session=x;;max-age=-0;Path=/", "session =x; Max-Age=+0",
		"session=x; Expires=Wed, 01 Jul 2026 12:00:00 GMT", "session=\x80", "session=\"", "=session; session=1",
	} {
		f.Add(s, "session=y; Max-Age=0")
		f.Add("lang=en", s)
	}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, first, second string) {
		h := headers{"Set-Cookie": {first, second}, "Date": {now.Format(http.TimeFormat)}}
		if !setsCookie(h, "session") {
			return
		}
		var last *http.Cookie
		for _, line := range h["Set-Cookie"] {
			if c, err := http.ParseSetCookie(line); err == nil && c.Name == "session" {
				last = c
			} else if err != nil && setsCookie(headers{"Set-Cookie": {line}}, "session") {
				return // browsers take values that net/http does not
			}
		}
		switch {
		case last == nil:
			t.Errorf("%q: net/http finds no cookie", h)
		case last.Value == "":
			t.Errorf("%q: net/http finds no value", h)
		case last.MaxAge < 0:
			t.Errorf("%q: net/http finds Max-Age %d", h, last.MaxAge)
		case last.MaxAge == 0 && len(last.Unparsed) == 0 && !last.Expires.IsZero() && !last.Expires.After(now):
			// Unparsed may hold a Max-Age that browsers read.
			t.Errorf("%q: net/http finds Expires %v", h, last.Expires)
		}
	})
}
