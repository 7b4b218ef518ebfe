package reader

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// TestYears: the latest year that puts the last line not after the file's time, and New
// Years on the way.
func TestYears(t *testing.T) {
	utc := func(s string) time.Time {
		at, err := time.Parse("2006-01-02 15:04:05", s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, row := range []struct {
		name   string
		mod    string
		year   int
		dates  string // of the lines
		want   string // their years
		stream string // without a survey, if that differs
	}{
		{name: "this year", mod: "2026-03-04 12:00:00", dates: "Mar 1, Mar 4", want: "2026 2026"},
		{name: "at the last second", mod: "2026-03-04 05:06:07", dates: "Mar 4", want: "2026"},
		{name: "a second later", mod: "2026-03-04 05:06:06", dates: "Mar 4", want: "2025"},
		{name: "last year", mod: "2026-03-04 12:00:00", dates: "Mar 4, Mar 5", want: "2025 2025", stream: "2026 2026"},
		{name: "over New Year", mod: "2026-03-04 12:00:00", dates: "Nov 3, Dec 31, Jan 1, Feb 2", want: "2025 2025 2026 2026"},
		{name: "over two", mod: "2026-03-04 12:00:00", dates: "Dec 31, Jan 1, Jun 1, Dec 31, Jan 1", want: "2024 2025 2025 2025 2026", stream: "2025 2026 2026 2026 2027"},
		{name: "a line from before midnight after it", mod: "2026-03-04 12:00:00", dates: "Dec 31, Jan 1, Dec 31, Jan 1, Jan 2", want: "2025 2026 2025 2026 2026"},
		{name: "a quiet summer", mod: "2026-12-04 12:00:00", dates: "Jan 9, Nov 4", want: "2026 2026"},
		{name: "a quiet winter", mod: "2026-12-04 12:00:00", dates: "Nov 4, Apr 9", want: "2025 2026", stream: "2026 2027"},
		{name: "files in the wrong order are no new year", mod: "2026-12-04 12:00:00", dates: "Aug 4, Jul 9", want: "2026 2026"},
		{name: "as given", mod: "2026-03-04 12:00:00", year: 2005, dates: "Dec 31, Jan 1", want: "2005 2006"},
		{name: "29 February", mod: "2026-03-04 12:00:00", dates: "Feb 29, Mar 1", want: "2024 2024"},
		{name: "29 February later on", mod: "2026-03-04 12:00:00", dates: "Feb 28, Feb 29, Mar 1", want: "2024 2024 2024", stream: "2026 none 2026"},
		{name: "29 February after New Year", mod: "2025-03-04 12:00:00", dates: "Dec 31, Feb 29, Mar 1", want: "2023 2024 2024", stream: "2024 none 2025"},
		{name: "29 February in a year without", mod: "2026-03-04 12:00:00", year: 2025, dates: "Feb 28, Feb 29", want: "2025 none"},
		{name: "nobody says", dates: "Feb 29", want: "2000"},
	} {
		o := Options{Year: row.year}
		if row.mod != "" {
			o.ModTime = utc(row.mod)
		}
		var log strings.Builder
		for date := range strings.SplitSeq(row.dates, ", ") {
			month, day, _ := strings.Cut(date, " ")
			fmt.Fprintf(&log, "%s %2s 05:06:07 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2\n", month, day)
		}
		for _, survey := range []bool{true, false} {
			want := row.want
			if !survey && row.stream != "" {
				want = row.stream
			}
			r, err := New("sshd", o)
			if err != nil {
				t.Fatal(err)
			}
			if survey {
				for line := range strings.Lines(log.String()) {
					r.Survey([]byte(strings.TrimSpace(line)))
				}
			}
			var years []string
			for line := range strings.Lines(log.String()) {
				year := "none"
				r.Line([]byte(strings.TrimSpace(line)), func(rec *Record) { year = fmt.Sprint(rec.Time.Year()) })
				years = append(years, year)
			}
			if got := strings.Join(years, " "); got != want {
				t.Errorf("%s (survey %t): got %s, want %s", row.name, survey, got, want)
			}
		}
	}
}

// TestZone: times without a zone are of the Options', with its summers and winters; times
// with one are not.
func TestZone(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ format, line, want string }{
		{"sshd", "Jan  4 05:06:07 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2", "2026-01-04T04:06:07Z"},
		{"sshd", "May  4 05:06:07 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2", "2026-05-04T03:06:07Z"},
		{"sshd", "2026-05-04T05:06:07+00:00 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2", "2026-05-04T05:06:07Z"},
		{"haproxy", `192.0.2.1:9 [04/May/2026:05:06:07.250] f b/s 0/0/0/1/1 401 9 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`, "2026-05-04T03:06:07.25Z"},
		{"gitea", "2026/05/04 05:06:07 a:SignInPost() [I] Failed authentication attempt for a from 192.0.2.1:9: x", "2026-05-04T03:06:07Z"},
		{"vaultwarden", "[2026-05-04 05:06:07.250][vaultwarden::api::admin][ERROR] Invalid admin token. IP: 192.0.2.1", "2026-05-04T03:06:07.25Z"},
		{"vaultwarden", "[2026-05-04 05:06:07.250+0000][vaultwarden::api::admin][ERROR] Invalid admin token. IP: 192.0.2.1", "2026-05-04T05:06:07.25Z"},
		{"combined", `192.0.2.1 - - [04/May/2026:05:06:07 +0000] "GET / HTTP/1.1" 200 9`, "2026-05-04T05:06:07Z"},
	} {
		got := one(t, row.format, row.line, Options{Zone: zone})
		if at, _, _ := strings.Cut(got, " "); at != row.want {
			t.Errorf("%s: got %s, want %s", row.line, got, row.want)
		}
	}
}

func TestParseTime(t *testing.T) {
	r, err := New("pattern", Options{Pattern: spotPattern, ModTime: asOf})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ in, want string }{
		{"2026-03-04T05:06:07Z", "2026-03-04T05:06:07Z"},
		{"2026-03-04T05:06:07.123456789Z", "2026-03-04T05:06:07.123456789Z"},
		{"2026-03-04T05:06:07.1234567891Z", "2026-03-04T05:06:07.123456789Z"},
		{"2026-03-04 05:06:07,123", "2026-03-04T05:06:07.123Z"},
		{"2026-03-04 05:06:07.5+0130", "2026-03-04T03:36:07.5Z"},
		{"2026-03-04T05:06:07-01:30", "2026-03-04T06:36:07Z"},
		{"2026/03/04 05:06:07", "2026-03-04T05:06:07Z"},
		{"04/Mar/2026:05:06:07 +0100", "2026-03-04T04:06:07Z"},
		{"04/Mar/2026:05:06:07.250", "2026-03-04T05:06:07.25Z"},
		{"Mar  4 05:06:07", "2026-03-04T05:06:07Z"},
		{"Mar 4 05:06:07", "2026-03-04T05:06:07Z"},
		{"1772600767", "2026-03-04T05:06:07Z"},
		{"1772600767.25", "2026-03-04T05:06:07.25Z"},
		{"1772600767250", "2026-03-04T05:06:07.25Z"},
		{"1772600767250000", "2026-03-04T05:06:07.25Z"},
		{"1772600767250000000", "2026-03-04T05:06:07.25Z"},
		{"2026-02-29T05:06:07Z", ""}, {"2026-13-04T05:06:07Z", ""}, {"2026-03-04T05:06:07X", ""}, {"2026-03-04T05:06:07+1", ""},
		{"2026-03-04x05:06:07Z", ""}, {"2026-03/04T05:06:07Z", ""}, {"2026-03-04T05:06:07.Z", ""}, {"2026-03-04", ""}, {"17726007672500000000000", ""},
		{"1772600767.x", ""}, {"", ""}, {"yesterday!", ""}, {"Mar  4 05:06", ""},
	} {
		at, ok := r.anyTime([]byte(row.in))
		got := ""
		if ok {
			got = at.UTC().Format(time.RFC3339Nano)
		}
		if got != row.want {
			t.Errorf("%q: got %q, want %q", row.in, got, row.want)
		}
	}
}

func TestSurveys(t *testing.T) {
	var names []string
	for _, f := range formats() {
		if f.survey {
			names = append(names, f.name)
		}
	}
	if want := []string{"dovecot", "pattern", "postfix", "sshd"}; !slices.Equal(names, want) {
		t.Errorf("surveyed are %q, want %q", names, want)
	}
}
