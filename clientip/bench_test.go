package clientip_test

import (
	"strings"
	"testing"

	"github.com/doorward/doorward/clientip"
)

// costs are the requests whose cost is promised: no allocation. (Text that almost
// is an address, such as 1.2.3.256, costs one: the error of netip.ParseAddr.)
var costs = []struct {
	name   string
	config clientip.Config
	peer   string
	lines  []string
}{
	{"peer", clientip.Config{}, "192.0.2.1:1234", nil},
	{"peer IPv6", clientip.Config{}, "[fe80::1%eth0]:1234", nil},
	{"xff", clientip.Config{Header: "X-Forwarded-For", Trusted: fuzzTrusted}, "10.0.0.2:1",
		lines("6.6.6.6", "2606:4700::1, 10.0.0.3")},
	{"hops", clientip.Config{Header: "X-Forwarded-For", Hops: 2}, "10.0.0.2:1", lines("6.6.6.6, 1.1.1.1, 10.0.0.3")},
	{"forwarded", clientip.Config{Header: "Forwarded", Trusted: fuzzTrusted}, "10.0.0.2:1",
		lines(`for=6.6.6.6;x=", for="[2606:4700::1%25a]:4711";host="a,b", for=10.0.0.3;proto=https`)},
	{"real", clientip.Config{Header: "X-Real-IP", Trusted: fuzzTrusted}, "10.0.0.2:1", lines("1.1.1.1")},
	{"fallback", clientip.Config{Header: "X-Real-IP", Trusted: fuzzTrusted}, "10.0.0.2:1", nil},
	{"junk", clientip.Config{Header: "X-Forwarded-For", Trusted: fuzzTrusted}, "10.0.0.2:1", lines("1.1.1.1, unknown")},
	{"flood of elements", clientip.Config{Header: "X-Forwarded-For", Trusted: fuzzTrusted}, "10.0.0.2:1",
		lines(strings.Repeat("10.0.0.3,", 1<<16))},
	{"flood of quotes", clientip.Config{Header: "Forwarded", Trusted: fuzzTrusted}, "10.0.0.2:1",
		lines(strings.Repeat(`\"`, 1<<19) + `"`)},
	{"flood of commas", clientip.Config{Header: "X-Forwarded-For", Trusted: fuzzTrusted}, "10.0.0.2:1",
		lines(strings.Repeat(",", 1<<20))},
	{"flood of lines", clientip.Config{Header: "X-Forwarded-For", Trusted: fuzzTrusted}, "10.0.0.2:1", make([]string, 1<<16)},
}

func TestAllocations(t *testing.T) {
	for _, c := range costs {
		r := mustNew(t, c.config)
		if n := testing.AllocsPerRun(100, func() { r.Resolve(c.peer, c.lines) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, c := range costs {
		b.Run(c.name, func(b *testing.B) {
			r := mustNew(b, c.config)
			b.ReportAllocs()
			for b.Loop() {
				r.Resolve(c.peer, c.lines)
			}
		})
	}
}
