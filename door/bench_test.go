package door

import (
	"strings"
	"testing"
)

func BenchmarkMatch(b *testing.B) {
	d := mustNew(b, post("POST /login", "POST /api/v1/{tenant}/token", "POST /reset/"))
	for _, row := range []struct{ name, target string }{
		{"covered", "/login"},
		{"elsewhere", "/static/js/app-1.2.3.min.js"},
		{"encoded", "/x/../%6Cogin;v=1"},
		{"worst/backslashes", strings.Repeat(`\`, MaxPath-1)},
		{"worst/slashes", strings.Repeat("%2f", MaxPath/3)},
		{"worst/dots", strings.Repeat("/..", MaxPath/3)},
		{"worst/params", strings.Repeat(";", MaxPath-1)},
		{"worst/malformed", strings.Repeat("%", MaxPath-1)},
		{"worst/letters", "/%" + strings.Repeat("n", MaxPath-2)},
	} {
		b.Run(row.name, func(b *testing.B) {
			r := Request{Method: "POST", Host: "example.com", Target: row.target}
			b.ReportAllocs()
			for b.Loop() {
				d.Match(r)
			}
		})
	}
}
