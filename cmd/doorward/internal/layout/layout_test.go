package layout

import (
	"math"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", math.MaxInt64: "9,223,372,036,854,775,807"} {
		if got := Count(n); got != want {
			t.Errorf("Count %d: %q, want %q", n, got, want)
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
