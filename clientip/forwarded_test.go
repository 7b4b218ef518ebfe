package clientip_test

import (
	"strings"
	"testing"
)

const fwd = "src=forwarded trusted=10.0.0.0/8"

// TestForwardedElements: one element at a time, whatever stands to its left.
func TestForwardedElements(t *testing.T) {
	for elem, want := range map[string]string{
		`for=192.0.2.60;proto=http;by=203.0.113.43`: "192.0.2.60 header",
		`proto=http;by=203.0.113.43;for=192.0.2.60`: "192.0.2.60 header",
		`FOR=192.0.2.60`:                             "192.0.2.60 header",
		`For="192.0.2.60"`:                           "192.0.2.60 header",
		`for="192.0.2.60:47011"`:                     "192.0.2.60 header",
		`for="192.0.2.60:_port-1.x"`:                 "192.0.2.60 header",
		`for="[2001:db8:cafe::17]"`:                  "2001:db8:cafe::17 header",
		`for="[2001:db8:cafe::17]:4711"`:             "2001:db8:cafe::17 header",
		`for="[2001:db8:cafe::17]:_p"`:               "2001:db8:cafe::17 header",
		`for="[fe80::1%25eth0]"`:                     "fe80::1 header",
		`for="[::ffff:192.0.2.60]"`:                  "192.0.2.60 header",
		"\t for=192.0.2.60 \t;\t proto=https ; ":     "192.0.2.60 header",
		`;;for=192.0.2.60;;`:                         "192.0.2.60 header",
		`for=192.0.2.60;host=example.com:8080`:       "192.0.2.60 header",
		`for=192.0.2.60;host=[2001:db8::1]:80`:       "192.0.2.60 header",
		`for=192.0.2.60;host=`:                       "192.0.2.60 header",
		`for=192.0.2.60;host=;x=y`:                   "192.0.2.60 header",
		`for=192.0.2.60;host=""`:                     "192.0.2.60 header",
		`host="a,b;for=6.6.6.6";for=192.0.2.60`:      "192.0.2.60 header",
		`for=192.0.2.60;host="a, for=6.6.6.6"`:       "192.0.2.60 header",
		`for=192.0.2.60;host=", for=6.6.6.6;x="`:     "192.0.2.60 header",
		`for=192.0.2.60;host="\", for=6.6.6.6;x=\""`: "192.0.2.60 header",
		`for=192.0.2.60;host="\\\", for=6.6.6.6"`:    "192.0.2.60 header",
		`for=192.0.2.60;host="\\"`:                   "192.0.2.60 header",
		`for=192.0.2.60;host="a\\\\"`:                "192.0.2.60 header",
		`for=192.0.2.60;host="\a\,\;"`:               "192.0.2.60 header",
		"for=192.0.2.60;host=\"caf\xc3\xa9\t\"":      "192.0.2.60 header",
		`for=192.0.2.60;for2=6.6.6.6;xfor=6.6.6.6`:   "192.0.2.60 header",

		`for=unknown`:                           "unknown",
		`for="unknown"`:                         "unknown",
		`for="_gazonk"`:                         "unknown",
		`for=_SEVKISEK`:                         "unknown",
		`for=""`:                                "unknown",
		`for=`:                                  "unknown",
		`for`:                                   "unknown",
		`for;for=192.0.2.60`:                    "unknown",
		`for=192.0.2.60;for=192.0.2.60`:         "unknown",
		`for=unknown;for=192.0.2.60`:            "unknown",
		`for=192.0.2.60;FOR=unknown`:            "unknown",
		`for=192.0.2.60;proto=http;For="[::2]"`: "unknown",
		`proto=https;by=192.0.2.60`:             "unknown",
		`;`:                                     "unknown",
		`192.0.2.60`:                            "unknown",
		`for:192.0.2.60`:                        "unknown",
		`for =192.0.2.60`:                       "unknown",
		`for= 192.0.2.60`:                       "unknown",
		`for=192.0.2.60:47011`:                  "unknown",
		`for=[2001:db8::1]`:                     "unknown",
		`for=2001:db8::1`:                       "unknown",
		`for="2001:db8::1"`:                     "unknown",
		`for="::ffff:192.0.2.60"`:               "unknown",
		`for="[192.0.2.60]"`:                    "unknown",
		`for="192.0.2.60:_"`:                    "unknown",
		`for="192.0.2.60:_a b"`:                 "unknown",
		`for="192.0.2.60:"`:                     "unknown",
		`for="192.0.2.60:65536"`:                "unknown",
		`for=" 192.0.2.60"`:                     "unknown",
		`for="192\.0.2.60"`:                     "unknown",
		`for="[fe80::1%\a]"`:                    "unknown",
		`for='192.0.2.60'`:                      "unknown",
		`for="192.0.2.60`:                       "unknown",
		`for=192.0.2.60"`:                       "unknown",
		`for=192.0.2.60;host="a`:                "unknown",
		`for=192.0.2.60;host=a"`:                "unknown",
		`for=192.0.2.60;host="a"b`:              "unknown",
		`for=192.0.2.60;host="a""b"`:            "unknown",
		`for=192.0.2.60;host=a b`:               "unknown",
		`for=192.0.2.60;host=a\b`:               "unknown",
		"for=192.0.2.60;host=caf\xc3\xa9":       "unknown",
		"for=192.0.2.60;host=a\x01":             "unknown",
		"for=192.0.2.60;host=\"a\x01\"":         "unknown",
		"for=192.0.2.60;host=\"a\x7f\"":         "unknown",
		`for=192.0.2.60 proto=https`:            "unknown",
		`for=192.0.2.60;=x`:                     "unknown",
		`for=192.0.2.60;"x"`:                    "unknown",
		`for=192.0.2.60;x`:                      "unknown",
		`for=0.0.0.0`:                           "unknown",
		`for=010.0.0.1`:                         "unknown",
	} {
		for _, left := range []string{"", "for=6.6.6.6, ", `for=", `, `x="\",`, `host="a", `, `\,`, `junk,`} {
			row{config: fwd, peer: "10.0.0.2:1", lines: lines(left + elem), want: want}.run(t)
		}
		row{config: fwd, peer: "10.0.0.2:1", lines: lines(`for="`, elem), want: want}.run(t)
		row{config: fwd, peer: "10.0.0.2:1", lines: lines(`for=", ` + elem + `, for="10.0.0.3:80";host="x, y"`), want: want}.run(t)
	}
}

// TestForwardedQuotes: a quote that a caller leaves open ends with his own text,
// on his line and on others.
func TestForwardedQuotes(t *testing.T) {
	runRows(t, []row{
		{"open quote", fwd, "10.0.0.2:1", lines(`for=", for=1.1.1.1`), "1.1.1.1 header"},
		{"open quote, proxy quotes", fwd, "10.0.0.2:1", lines(`for=6.6.6.6;x=", for="1.1.1.1:80"`), "1.1.1.1 header"},
		{"open quote, proxy quotes a comma", fwd, "10.0.0.2:1", lines(`for=6.6.6.6;x=", host="a,b";for=1.1.1.1`), "1.1.1.1 header"},
		{"backslashes before the comma", fwd, "10.0.0.2:1", lines(`for=6.6.6.6;x="\\\, for="1.1.1.1:80"`), "1.1.1.1 header"},
		{"open quote on an earlier line", fwd, "10.0.0.2:1", lines(`for=6.6.6.6;x="`, `for=1.1.1.1;host="a"`), "1.1.1.1 header"},
		{"quote over two lines", fwd, "10.0.0.2:1", lines(`for=6.6.6.6;x="`, `";for=1.1.1.1`), "unknown"},
		{"proxy's element is cut short", fwd, "10.0.0.2:1", lines(`for=6.6.6.6;x=", for=1.1.1.1;host="abc`), "unknown"},
		{"beyond a trusted proxy", fwd, "10.0.0.2:1", lines(`for=", for=1.1.1.1, for=10.0.0.3;host="a,b"`), "1.1.1.1 header"},
		{"caller's element is not stepped over", fwd, "10.0.0.2:1", lines(`for=1.1.1.1, for=", for=10.0.0.3`), "unknown"},
		{"nor his obfuscated one", fwd, "10.0.0.2:1", lines(`for=1.1.1.1, for=_me, for=10.0.0.3`), "unknown"},
		{"all trusted", fwd, "10.0.0.2:1", lines(`for=10.0.0.4,, for=10.0.0.3 , `, ``), "10.0.0.4 all-trusted"},
		{"absent", fwd, "10.0.0.2:1", lines(` ,`), "10.0.0.2 fallback"},
		{"peer not trusted", fwd, "192.0.2.1:1", lines(`for=1.1.1.1`), "192.0.2.1 peer"},
		{"hops: only well-formed elements count", "src=forwarded hops=2", "10.0.0.2:1", lines(`for=6.6.6.6, x=", for=1.1.1.1, for=2.2.2.2;host="a`), "unknown"},
		{"hops: an element without an address counts", "src=forwarded hops=2", "10.0.0.2:1", lines(`for=6.6.6.6, for=1.1.1.1, for=_x;host="a,b"`), "1.1.1.1 header"},
		{"hops: one with two, too", "src=forwarded hops=2", "10.0.0.2:1", lines(`for=1.1.1.1, for=unknown;for=_x`), "1.1.1.1 header"},
		{"a megabyte of quotes", fwd, "10.0.0.2:1", lines(strings.Repeat(`"`, 1<<20) + `, for=1.1.1.1`), "1.1.1.1 header"},
		{"a megabyte of backslashes", fwd, "10.0.0.2:1", lines(strings.Repeat(`\`, 1<<20) + `"`), "unknown"},
	})
}
