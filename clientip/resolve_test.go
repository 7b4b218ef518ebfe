package clientip_test

import (
	"strings"
	"testing"
)

// row is one request: what is expected is "address how", or "unknown".
type row struct {
	name   string
	config string
	peer   string
	lines  []string
	want   string
}

func lines(values ...string) []string { return values }

func (c row) run(t *testing.T) {
	t.Helper()
	addr, how := mustNew(t, parseConfig(t, c.config)).Resolve(c.peer, c.lines)
	got := how.String()
	if addr.IsValid() {
		got = addr.String() + " " + got
	}
	if got != c.want {
		t.Errorf("%s, peer %q, %q: got %s, want %s", c.config, c.peer, c.lines, got, c.want)
	}
}

func runRows(t *testing.T, rows []row) {
	for _, c := range rows {
		t.Run(c.name, c.run)
	}
}

const ten = "src=xff trusted=10.0.0.0/8"

func TestPeer(t *testing.T) {
	for peer, want := range map[string]string{
		"192.0.2.1:1234":                 "192.0.2.1 peer",
		"192.0.2.1":                      "192.0.2.1 peer",
		"[2001:db8::1]:80":               "2001:db8::1 peer",
		"[2001:db8::1]":                  "2001:db8::1 peer",
		"2001:db8::1":                    "2001:db8::1 peer",
		"[fe80::1%eth0]:80":              "fe80::1 peer",
		"fe80::1%eth0":                   "fe80::1 peer",
		"[::ffff:192.0.2.1]:80":          "192.0.2.1 peer",
		"[::ffff:192.0.2.1%eth0]:80":     "192.0.2.1 peer",
		"[::ffff:127.0.0.1]:80":          "127.0.0.1 peer",
		"127.0.0.1:80":                   "127.0.0.1 peer",
		"[::1]:80":                       "::1 peer",
		"0.0.0.0:80":                     "unknown",
		"[::]:80":                        "unknown",
		"[::ffff:0.0.0.0]:80":            "unknown",
		"224.0.0.1:80":                   "unknown",
		"[ff02::1%eth0]:80":              "unknown",
		"255.255.255.255:80":             "unknown",
		"[::ffff:255.255.255.255]:80":    "unknown",
		"":                               "unknown",
		"@":                              "unknown",
		"@abstract":                      "unknown",
		"/run/app.sock":                  "unknown",
		"pipe":                           "unknown",
		"example.com:80":                 "unknown",
		"192.0.2.1:http":                 "unknown",
		" 192.0.2.1:80":                  "unknown",
		"[192.0.2.1]:80":                 "unknown",
		"2001:db8::1:80 ":                "unknown",
		strings.Repeat("1", 1<<20):       "unknown",
		"[" + strings.Repeat(":", 1<<20): "unknown",
	} {
		row{config: "src=peer", peer: peer, lines: lines("6.6.6.6"), want: want}.run(t)
	}
}

func TestUnixPeers(t *testing.T) {
	for _, peer := range []string{"", "@", "@abstract", "/run/app.sock"} {
		runRows(t, []row{
			{"not trusted", ten, peer, lines("1.1.1.1"), "unknown"},
			{"not trusted by trusting everyone else", "src=xff trusted=0.0.0.0/1,128.0.0.0/1,::/1,8000::/1", peer, lines("1.1.1.1"), "unknown"},
			{"not counted", "src=xff hops=1", peer, lines("1.1.1.1"), "unknown"},
			{"trusted", "src=xff unix=trust", peer, lines("6.6.6.6, 1.1.1.1"), "1.1.1.1 header"},
			{"trusted with others", ten + " unix=trust", peer, lines("1.1.1.1, 10.0.0.2"), "1.1.1.1 header"},
			{"all trusted", ten + " unix=trust", peer, lines("10.0.0.3, 10.0.0.2"), "10.0.0.3 all-trusted"},
			{"counted", "src=xff hops=2 unix=trust", peer, lines("6.6.6.6, 1.1.1.1, 10.0.0.2"), "1.1.1.1 header"},
			{"header absent", "src=xff unix=trust", peer, nil, "unknown"},
			{"header empty", "src=xff unix=trust", peer, lines(" , "), "unknown"},
			{"speaks of loopback", "src=xff unix=trust", peer, lines("127.0.0.1"), "127.0.0.1 header"},
			{"TCP is not unix", "src=xff unix=trust", "192.0.2.1:1", lines("1.1.1.1"), "192.0.2.1 peer"},
		})
	}
}

func TestTrustedWalk(t *testing.T) {
	runRows(t, []row{
		{"peer not trusted", ten, "192.0.2.1:1", lines("1.1.1.1"), "192.0.2.1 peer"},
		{"private is not trusted", ten, "192.168.0.1:1", lines("1.1.1.1"), "192.168.0.1 peer"},
		{"loopback is not trusted", ten, "127.0.0.1:1", lines("1.1.1.1"), "127.0.0.1 peer"},
		{"mapped peer", ten, "[::ffff:10.0.0.2]:1", lines("1.1.1.1"), "1.1.1.1 header"},
		{"mapped prefix", "src=xff trusted=::ffff:10.0.0.0/104", "10.0.0.2:1", lines("1.1.1.1"), "1.1.1.1 header"},
		{"peer with a zone", "src=xff trusted=fe80::/10", "[fe80::1%eth0]:1", lines("1.1.1.1"), "1.1.1.1 header"},
		{"first other from the right", ten, "10.0.0.2:1", lines("6.6.6.6, 1.1.1.1, 10.0.0.3"), "1.1.1.1 header"},
		{"mapped element", ten, "10.0.0.2:1", lines("1.1.1.1, ::ffff:10.0.0.3"), "1.1.1.1 header"},
		{"mapped answer", ten, "10.0.0.2:1", lines("::ffff:1.1.1.1"), "1.1.1.1 header"},
		{"lines are one list", ten, "10.0.0.2:1", lines("6.6.6.6, 1.1.1.1", "10.0.0.4", "10.0.0.3"), "1.1.1.1 header"},
		{"empty elements and lines", ten, "10.0.0.2:1", lines("6.6.6.6", "1.1.1.1,, ,\t,", "", " ", ",10.0.0.3,", ""), "1.1.1.1 header"},
		{"all trusted", ten, "10.0.0.2:1", lines("10.0.0.5, 10.0.0.4", "10.0.0.3"), "10.0.0.5 all-trusted"},
		{"absent", ten, "10.0.0.2:1", nil, "10.0.0.2 fallback"},
		{"only empty elements", ten, "10.0.0.2:1", lines("", ", ,\t", ""), "10.0.0.2 fallback"},
		{"garbage answers", ten, "10.0.0.2:1", lines("1.1.1.1, junk"), "unknown"},
		{"garbage beyond a trusted proxy", ten, "10.0.0.2:1", lines("1.1.1.1, unknown, 10.0.0.3"), "unknown"},
		{"garbage on a line of its own", ten, "10.0.0.2:1", lines("1.1.1.1", "junk"), "unknown"},
		{"garbage left of the answer", ten, "10.0.0.2:1", lines("junk", "junk, 1.1.1.1"), "1.1.1.1 header"},
		{"unspecified", ten, "10.0.0.2:1", lines("1.1.1.1, 0.0.0.0"), "unknown"},
		{"multicast", ten, "10.0.0.2:1", lines("1.1.1.1, 239.0.0.1"), "unknown"},
		{"broadcast", ten, "10.0.0.2:1", lines("1.1.1.1, 255.255.255.255"), "unknown"},
		{"unspecified, though trusted", "src=xff trusted=0.0.0.0/1", "10.0.0.2:1", lines("0.0.0.0"), "unknown"},
	})
}

func TestHops(t *testing.T) {
	runRows(t, []row{
		{"first from the right", "src=xff hops=1", "192.0.2.9:1", lines("6.6.6.6, 1.1.1.1"), "1.1.1.1 header"},
		{"second", "src=xff hops=2", "192.0.2.9:1", lines("6.6.6.6, 1.1.1.1, 2.2.2.2"), "1.1.1.1 header"},
		{"exactly enough", "src=xff hops=3", "192.0.2.9:1", lines("1.1.1.1", "2.2.2.2, 3.3.3.3"), "1.1.1.1 header"},
		{"one too few", "src=xff hops=4", "192.0.2.9:1", lines("1.1.1.1", "2.2.2.2, 3.3.3.3"), "unknown"},
		{"absent", "src=xff hops=1", "192.0.2.9:1", nil, "unknown"},
		{"empty elements do not count", "src=xff hops=2", "192.0.2.9:1", lines("6.6.6.6, 1.1.1.1,, ", " 2.2.2.2,,"), "1.1.1.1 header"},
		{"garbage answers", "src=xff hops=2", "192.0.2.9:1", lines("6.6.6.6, junk, 2.2.2.2"), "unknown"},
		{"garbage counts", "src=xff hops=2", "192.0.2.9:1", lines("6.6.6.6, 1.1.1.1, junk"), "1.1.1.1 header"},
		{"peer without an address", "src=xff hops=1", "pipe", lines("1.1.1.1"), "unknown"},
		{"Forwarded", "src=forwarded hops=2", "192.0.2.9:1", lines(`for=1.1.1.1, for="[::2]"`), "1.1.1.1 header"},
		{"one address", "src=header:X-Real-IP hops=1", "192.0.2.9:1", lines("6.6.6.6", "1.1.1.1"), "1.1.1.1 header"},
		{"one address, absent", "src=header:X-Real-IP hops=1", "192.0.2.9:1", nil, "unknown"},
	})
}

func TestSingleValueHeader(t *testing.T) {
	const real = "src=header:X-Real-IP trusted=10.0.0.0/8"
	runRows(t, []row{
		{"found", real, "10.0.0.2:1", lines(" 1.1.1.1\t"), "1.1.1.1 header"},
		{"peer not trusted", real, "192.0.2.1:1", lines("1.1.1.1"), "192.0.2.1 peer"},
		{"port", real, "10.0.0.2:1", lines("[2001:db8::1]:80"), "2001:db8::1 header"},
		{"last line", real, "10.0.0.2:1", lines("6.6.6.6", "1.1.1.1"), "1.1.1.1 header"},
		{"last line is garbage", real, "10.0.0.2:1", lines("6.6.6.6", "junk"), "unknown"},
		{"last line is empty", real, "10.0.0.2:1", lines("6.6.6.6", " "), "10.0.0.2 fallback"},
		{"last line is a proxy", real, "10.0.0.2:1", lines("6.6.6.6", "10.0.0.3"), "10.0.0.3 all-trusted"},
		{"list", real, "10.0.0.2:1", lines("6.6.6.6, 1.1.1.1"), "unknown"},
		{"list of proxies", real, "10.0.0.2:1", lines("1.1.1.1, 10.0.0.3"), "unknown"},
		{"trailing comma", real, "10.0.0.2:1", lines("1.1.1.1,"), "unknown"},
		{"absent", real, "10.0.0.2:1", nil, "10.0.0.2 fallback"},
	})
}

func TestLoopbackClaims(t *testing.T) {
	const both = "src=xff trusted=127.0.0.0/8,::1/128,10.0.0.0/8"
	runRows(t, []row{
		{"by a remote proxy", ten, "10.0.0.2:1", lines("127.0.0.1"), "unknown"},
		{"::1", ten, "10.0.0.2:1", lines("::1"), "unknown"},
		{"mapped", ten, "10.0.0.2:1", lines("::ffff:127.0.0.1"), "unknown"},
		{"all of 127/8", ten, "10.0.0.2:1", lines("127.8.9.10"), "unknown"},
		{"though trusted", both, "10.0.0.2:1", lines("1.1.1.1, 127.0.0.1"), "unknown"},
		{"by a remote proxy behind a local one", both, "127.0.0.1:1", lines("127.0.0.1, 10.0.0.2"), "unknown"},
		{"by the machine", both, "127.0.0.1:1", lines("127.0.0.5"), "127.0.0.5 all-trusted"},
		{"by the machine over IPv6", both, "[::1]:1", lines("1.1.1.1, 127.0.0.1"), "1.1.1.1 header"},
		{"by the machine, mapped", both, "[::ffff:127.0.0.1]:1", lines("1.1.1.1, ::1"), "1.1.1.1 header"},
		{"not trusted, by the machine", "src=xff trusted=127.0.0.1/32", "127.0.0.1:1", lines("127.0.0.2"), "127.0.0.2 header"},
		{"hops, by a remote peer", "src=xff hops=1", "10.0.0.2:1", lines("127.0.0.1"), "unknown"},
		{"hops, by a local peer", "src=xff hops=1", "127.0.0.1:1", lines("127.0.0.1"), "127.0.0.1 header"},
		{"hops, by a remote element", "src=xff hops=2", "127.0.0.1:1", lines("127.0.0.1, 10.0.0.2"), "unknown"},
		{"hops, by a local element", "src=xff hops=2", "10.0.0.2:1", lines("127.0.0.1, ::1"), "127.0.0.1 header"},
		{"hops, by garbage", "src=xff hops=2", "127.0.0.1:1", lines("127.0.0.1, junk"), "unknown"},
		{"hops, by an element further right", "src=xff hops=3", "127.0.0.1:1", lines("127.0.0.1, 10.0.0.2, 127.0.0.1"), "unknown"},
		{"hops, by unix", "src=xff hops=1 unix=trust", "@", lines("127.0.0.1"), "127.0.0.1 header"},
		{"one address", "src=header:X-Real-IP trusted=10.0.0.0/8", "10.0.0.2:1", lines("127.0.0.1"), "unknown"},
		{"Forwarded", "src=forwarded trusted=10.0.0.0/8", "10.0.0.2:1", lines(`for="[::1]"`), "unknown"},
	})
}

// TestBounds is exact: what lies within 32 elements and 8192 bytes is found, and
// one more of either is Unknown.
func TestBounds(t *testing.T) {
	proxies := func(n int) string { return strings.Repeat(",10.0.0.3", n) }
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	const answer = "1.1.1.1" // 7 bytes
	runRows(t, []row{
		{"element 32", ten, "10.0.0.2:1", lines("6.6.6.6," + answer + proxies(31)), "1.1.1.1 header"},
		{"element 33", ten, "10.0.0.2:1", lines(answer + proxies(32)), "unknown"},
		{"32 trusted", ten, "10.0.0.2:1", lines("10.0.0.9" + proxies(31)), "10.0.0.9 all-trusted"},
		{"33 trusted", ten, "10.0.0.2:1", lines("10.0.0.9" + proxies(32)), "unknown"},
		{"32 trusted and empty ones", ten, "10.0.0.2:1", lines("", ",,10.0.0.9"+proxies(31)), "10.0.0.9 all-trusted"},
		{"element 32 on 32 lines", ten, "10.0.0.2:1", append(lines(answer), strings.Split(proxies(31)[1:], ",")...), "1.1.1.1 header"},
		{"element 33 on 33 lines", ten, "10.0.0.2:1", append(lines(answer), strings.Split(proxies(32)[1:], ",")...), "unknown"},
		{"hop 32", "src=xff hops=32", "10.0.0.2:1", lines("6.6.6.6," + answer + proxies(31)), "1.1.1.1 header"},

		{"byte 8192", ten, "10.0.0.2:1", lines(answer + spaces(8185)), "1.1.1.1 header"},
		{"byte 8193", ten, "10.0.0.2:1", lines(answer + spaces(8186)), "unknown"},
		{"byte 8192 after a comma", ten, "10.0.0.2:1", lines("6.6.6.6," + answer + spaces(8185)), "1.1.1.1 header"},
		{"byte 8193 after a comma", ten, "10.0.0.2:1", lines("6.6.6.6, " + answer + spaces(8185)), "unknown"},
		{"commas count", ten, "10.0.0.2:1", lines(answer + strings.Repeat(",", 8185)), "1.1.1.1 header"},
		{"one comma more", ten, "10.0.0.2:1", lines(answer + strings.Repeat(",", 8186)), "unknown"},
		{"lines count as commas", ten, "10.0.0.2:1", append(lines(answer), make([]string, 8185)...), "1.1.1.1 header"},
		{"one line more", ten, "10.0.0.2:1", append(lines(answer), make([]string, 8186)...), "unknown"},
		{"only commas", ten, "10.0.0.2:1", lines(strings.Repeat(",", 8192)), "10.0.0.2 fallback"},
		{"only commas, one more", ten, "10.0.0.2:1", lines(strings.Repeat(",", 8193)), "unknown"},
		{"only empty lines", ten, "10.0.0.2:1", make([]string, 8193), "10.0.0.2 fallback"},
		{"only empty lines, one more", ten, "10.0.0.2:1", make([]string, 8194), "unknown"},
		{"trusted, 8192 bytes", ten, "10.0.0.2:1", lines("10.0.0.9" + spaces(8184)), "10.0.0.9 all-trusted"},
		{"trusted, and a comma beyond", ten, "10.0.0.2:1", lines(",10.0.0.9" + spaces(8184)), "unknown"},
		{"trusted, and a line beyond", ten, "10.0.0.2:1", lines("", "10.0.0.9"+spaces(8184)), "unknown"},
		{"hops", "src=xff hops=1", "10.0.0.2:1", lines("6.6.6.6", answer+spaces(8186)), "unknown"},
		{"one address, 8192 bytes", "src=header:X-Real-IP hops=1", "10.0.0.2:1", lines(answer + spaces(8185)), "1.1.1.1 header"},
		{"one address, 8193 bytes", "src=header:X-Real-IP hops=1", "10.0.0.2:1", lines(answer + spaces(8186)), "unknown"},
		{"a quoted string, 8192 bytes", "src=forwarded hops=1", "10.0.0.2:1", lines(`for=1.1.1.1;a="` + strings.Repeat(`\"`, 4088) + `"`), "1.1.1.1 header"},
		{"a quoted string, 8193 bytes", "src=forwarded hops=1", "10.0.0.2:1", lines(`for=1.1.1.1;ab="` + strings.Repeat(`\"`, 4088) + `"`), "unknown"},
		{"a caller's megabytes do not matter", ten, "10.0.0.2:1", lines(strings.Repeat("6.6.6.6,", 1<<18), strings.Repeat(",", 1<<20)+answer), "1.1.1.1 header"},
	})
}
