package plain

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -999: "-999", -1000: "-1,000", math.MaxInt64: "9,223,372,036,854,775,807",
	} {
		if got := Count(n); got != want {
			t.Errorf("count %d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 rules", 1: "1 rule", 2: "2 rules", 1000: "1,000 rules"} {
		if got := Plural(n, "rule"); got != want {
			t.Errorf("plural %d: %q, want %q", n, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.033: "0.033", 1.0 / 30: "0.033", 1: "1", 4.44: "4.4", 10: "10", 99.96: "100", 100: "100", 5760: "5,760",
		1234567.5: "1,234,568", 1e23: "1e+23",
	} {
		if got := Figure(f); got != want {
			t.Errorf("figure %v: %q, want %q", f, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	var b strings.Builder
	Wrap(&b, "  head: ", strings.Repeat("word ", 30)+strings.Repeat("x", 120)+" end")
	want := "  head: " + strings.TrimSpace(strings.Repeat("word ", 18)) + "\n" +
		"        " + strings.TrimSpace(strings.Repeat("word ", 12)) + "\n" +
		"        " + strings.Repeat("x", 120) + "\n        end\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	Table(&b, [][]string{{"door", "refused", "rule"}, {"lögin", "7", "day"}, {"d", "1,000", ""}}, 1)
	want := "  door   refused  rule\n  lögin        7  day\n  d        1,000\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func TestLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1: "1s", time.Second: "1s", time.Second + 1: "2s", 59 * time.Second: "59s",
		59*time.Second + 1: "1m", 125 * time.Second: "2m5s", time.Hour - time.Second: "59m59s", time.Hour - time.Second + 1: "1h",
		2*time.Hour + 3*time.Minute: "2h3m", 2*time.Hour + 3*time.Minute + 1: "2h4m", 24*time.Hour - time.Minute: "23h59m",
		24*time.Hour - time.Second: "1d", 76 * time.Hour: "3d4h", 76*time.Hour + 1: "3d5h", 366 * 24 * time.Hour: "366d",
	} {
		if got := Left(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// What no terminal takes for text, in every way to write it.
var nasty = map[string]string{
	"plain é 東京":           "plain é 東京",
	"\x1b[2J":              `\x1b[2J`,
	"a\nb\rc\td":           `a\nb\rc\td`,
	"\x00\a\b\x7f":         `\x00\a\b\x7f`,
	"\u009b31m":            `\u009b31m`, // one character that begins a sequence
	"\x9b31m\xff":          `\x9b31m\xff`,
	"\u202eevil\u2066":     `\u202eevil\u2066`,
	"\u200b\ufeff\u2028":   `\u200b\ufeff\u2028`,
	"\U000e0041\U0001f600": "\\U000e0041\U0001f600",
	"\ufffd":               "\ufffd",
}

func TestClean(t *testing.T) {
	for s, want := range nasty {
		if got := Clean(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

// JSON says the same after CleanJSON, and has no character that Clean would escape.
func FuzzCleanJSON(f *testing.F) {
	for s := range nasty {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c := Clean(s); strings.ContainsFunc(c, hidden) || Clean(c) != c {
			t.Errorf("Clean(%q) is %q", s, c)
		}
		s = strings.ToValidUTF8(s, "\ufffd")
		text, err := json.Marshal([]string{s})
		if err != nil {
			t.Fatal(err)
		}
		clean := CleanJSON(string(text) + "\n")
		if strings.ContainsFunc(clean, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q", clean)
		}
		var got []string
		if err := json.Unmarshal([]byte(clean), &got); err != nil || got[0] != s {
			t.Errorf("%q became %q, %v", s, got, err)
		}
	})
}

func TestCut(t *testing.T) {
	for _, row := range []struct {
		s    string
		n    int
		want string
	}{{"login", 5, "login"}, {"login", 4, "log…"}, {"lögin", 2, "l…"}, {"login", 1, "…"}, {"login", 0, "…"}, {"", 0, ""}} {
		if got := Cut(row.s, row.n); got != row.want {
			t.Errorf("%q, %d: %q, want %q", row.s, row.n, got, row.want)
		}
	}
}
