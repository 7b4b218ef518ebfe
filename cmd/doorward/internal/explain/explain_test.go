package explain

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/window"
)

// counted is the chance by counting all ways to choose n of possible secrets: those that
// hit one of the live ones, which are the first, in all.
func counted(possible, live, n int) float64 {
	var hits, all float64
	var choose func(from, left int, hit bool)
	choose = func(from, left int, hit bool) {
		if left == 0 {
			all++
			if hit {
				hits++
			}
			return
		}
		for i := from; i <= possible-left; i++ {
			choose(i+1, left-1, hit || i < live)
		}
	}
	choose(0, n, false)
	return hits / all
}

func TestChanceIsExact(t *testing.T) {
	for possible := 1; possible <= 9; possible++ {
		for live := 1; live <= possible; live++ {
			for n := 0; n <= possible; n++ {
				got := Secret{Of: float64(possible), Live: live}.Chance(int64(n))
				if want := counted(possible, live, n); !(math.Abs(got-want) <= 1e-14) {
					t.Errorf("%d guesses at %d of %d: %v, want %v", n, live, possible, got, want)
				}
			}
		}
	}
}

func TestChanceLarge(t *testing.T) {
	for _, row := range []struct {
		of       float64
		live     int
		n        int64
		from, to float64
	}{
		{1e6, 1, 10_000, 0.01, 0.01},
		{1e6, 1, 999_999, 0.999999, 0.999999},
		{1e6, 1, 1_000_000, 1, 1},
		{1e6, 1, math.MaxInt64, 1, 1},
		{1e6, 1000, 999_001, 1, 1},
		{1e6, 10, 0, 0, 0},
		{1e6, 10, -1, 0, 0},
		{1e6, 10, 1, 1e-5, 1e-5},
		{1e300, 1, math.MaxInt64, 9e-282, 1e-281},
		{1e300, 100_000, 1, 1e-295, 1e-295},
		{1e300, 100_000, math.MaxInt64, 9e-277, 1e-276},
	} {
		s := Secret{Of: row.of, Live: row.live}
		if got := s.Chance(row.n); !(got >= row.from*(1-1e-9) && got <= row.to*(1+1e-9)) || math.Signbit(got) {
			t.Errorf("%d guesses at %d of %g: %v, want %v to %v", row.n, row.live, row.of, got, row.from, row.to)
		}
	}
}

// The fewest guesses for a chance reach it, and one less does not.
func TestGuesses(t *testing.T) {
	for _, s := range []Secret{{Of: 10, Live: 1}, {Of: 1e6, Live: 1}, {Of: 1e6, Live: 10}, {Of: 1e6, Live: 100_000}, {Of: math.Exp2(34.6), Live: 1}} {
		n := s.guesses(0.01)
		if s.Chance(n) < 0.01 || s.Chance(n-1) >= 0.01 {
			t.Errorf("%+v: %d guesses have %v, one less %v", s, n, s.Chance(n), s.Chance(n-1))
		}
	}
	for s, want := range map[Secret]int64{{Of: 1e6, Live: 1}: 10_000, {Of: 10, Live: 1}: 1, {Of: 1e300, Live: 1}: math.MaxInt64} {
		if n := s.guesses(0.01); n != want {
			t.Errorf("%+v: %d guesses, want %d", s, n, want)
		}
	}
}

func TestWords(t *testing.T) {
	for p, want := range map[float64]string{
		0: "0 %", 1: "> 99.9 %", 0.9995: "> 99.9 %", 0.999: "99.9 %", 0.5: "50 %", 0.1: "10 %", 0.119: "11.9 %", 0.01: "1 %",
		0.0099: "0.99 %", 0.00034: "0.034 %", 5e-6: "0.0005 %", 1e-6: "0.0001 %", 5e-7: "1 in 2 million",
		1e-9: "1 in 1,000 million", 7e-10: "1 in 1.4 billion", 2.5e-13: "1 in 4 trillion", 1e-20: "< 1 in 10^15",
	} {
		if got := percent(p); got != want {
			t.Errorf("percent %v: %q, want %q", p, got, want)
		}
	}
	for seconds, want := range map[float64]string{
		1e-9: "at once", 0.9: "at once", 1: "1 s", 90.5: "90.5 s", 120: "2 min", 7199: "120 min", 7200: "2 hours",
		86400: "24 hours", 2 * 86400: "2 days", 104.2 * 86400: "104 days", 2 * 365.25 * 86400: "2 years", 9e9: "285 years",
	} {
		if got := roughly(seconds); got != want {
			t.Errorf("%v seconds: %q, want %q", seconds, got, want)
		}
	}
}

var usual = Options{Networks: 1000, Spans: []time.Duration{time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}, Secret: Secret{"6 decimal digits", 1e6, 1}}

func text(t *testing.T, d Door, o Options) string {
	t.Helper()
	r, err := Doors([]Door{d}, o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What presets print fits into a terminal of 100 columns, and has no blanks at the end of
// a line.
func TestWidth(t *testing.T) {
	o := usual
	o.Compare = true
	for name, c := range guard.Presets() {
		for line := range strings.Lines(text(t, Door{Name: name, Subjects: true, Guard: c}, o)) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > plain.Width || strings.HasSuffix(line, " ") {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

func lock(name string, per guard.Per, v4, v6, free int) guard.Rule {
	return guard.Rule{Name: name, Per: per, V4: v4, V6: v6, Lockout: &lockout.Policy{
		FreeFailures: free, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour}}
}

// A botnet that a ceiling holds, what nothing holds, and what only reports.
func TestShort(t *testing.T) {
	shadow := lock("trial", guard.Subject, 0, 0, 5)
	shadow.Action = guard.Shadow
	for _, row := range []struct {
		name  string
		rules []guard.Rule
		want  []string
	}{
		{"one rule", []guard.Rule{lock("burst", guard.Network, 0, 0, 5)}, []string{
			"  burst    one IPv4 address: 5 at once, 241 in 1h\n",
			"  patient  one IPv4 address: 5,760 a day for good: a chance of 1 % after 41.7 hours\n",
			"  botnet   1,000 IPv4 addresses: 5,000 at once, 172,801,000 in 30d: a chance of > 99.9 %\n",
		}},
		{"an account", []guard.Rule{lock("burst", guard.Subject, 0, 0, 5)}, []string{
			"  burst    one IPv4 address: 5 at once at one account, 241 in 1h\n",
			"  botnet   1,000 IPv4 addresses: 5 at once at one account, 172,801 in 30d: a chance of 17.3 %\n",
			"  an account  1 IPv4 address  1 IPv4 address  burst\n",
		}},
		{"one family", []guard.Rule{lock("v6", guard.Network, -1, 64, 5), shadow}, []string{
			"rules  v6, trial\n       of which only report and never refuse: trial\n",
			"  burst    one IPv4 address: no limit\n",
			"  patient  one IPv4 address: no limit: a chance of 1 % after no time\n",
			"  one IPv4 address      no limit    no limit     no limit        no limit     no limit  nothing\n",
			"  one IPv4 address         100 %     100 %     100 %     100 %     no time\n",
		}},
		{"requests", []guard.Rule{{Window: &window.Policy{Limit: 3, Window: time.Hour, Sliding: true}}}, []string{
			"  patient  one IPv4 address: 64 a day for good\n",
			"  all at one IPv4 address  3 of any kind  1h7m30s  network\n",
		}},
	} {
		got := text(t, Door{Name: row.name, Guard: guard.Config{Rules: row.rules}}, usual)
		for _, want := range row.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", row.name, want, got)
			}
		}
	}
}

// Chances are said of guesses, and of requests if somebody asks.
func TestChancesAreShown(t *testing.T) {
	d := Door{Name: "signup", Guard: guard.Signup}
	o := usual
	if strings.Contains(strings.ToLower(text(t, d, o)), "chance") {
		t.Error("the chance to guess at a door that counts requests")
	}
	o.Chances = true
	if !strings.Contains(text(t, d, o), "\nChance to guess a secret: 6 decimal digits\n") {
		t.Error("no chance though it was asked for")
	}
	o.Secret.Live = 1200
	if !strings.Contains(text(t, d, o), "6 decimal digits, 1,200 right at once\n") {
		t.Error("the live secrets are not named")
	}
}

// What stands among callers as the botnet is the botnet.
func TestBotnet(t *testing.T) {
	if c := callers(usual)[bots]; c.Networks != 1000 {
		t.Errorf("%+v", c)
	}
}

func TestErrors(t *testing.T) {
	bad := []Door{{Name: `door "login"`}}
	_, err := Doors(bad, usual)
	if want := `door "login": guard: Rules must not be empty`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := Warnings(bad); err == nil {
		t.Error("no error of Warnings")
	}
}

// Warnings of the configuration come before weak spots, each once.
func TestWarnings(t *testing.T) {
	d := Door{Name: `door "login"`, Warnings: []string{`door "login": something`}, Guard: guard.Config{Rules: []guard.Rule{lock("burst", guard.Network, 0, 0, 5)}}}
	got, err := Warnings([]Door{d})
	if err != nil || len(got) < 2 || got[0] != `door "login": something` || !strings.HasPrefix(got[1], `door "login": rule "burst": `) {
		t.Errorf("%q, %v", got, err)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(got)))); n != len(got) {
		t.Errorf("a warning twice: %q", got)
	}
	if said := text(t, d, usual); !strings.Contains(said, "\nWeak spots\n  warning: something\n  warning: rule \"burst\": ") {
		t.Errorf("text:\n%s", said)
	}
}
