package config

import (
	"strings"
	"testing"
)

const noSuccess = "must say what a right guess looks like; there is no default, since most applications answer 200 or 302 to wrong ones too"

// several is a configuration that is good but for its list of upstreams.
func several(list string) string {
	return strings.Replace(good, "upstream: http://127.0.0.1:3000", "upstreams: "+list, 1)
}

func TestUpstreams(t *testing.T) {
	c := mustParse(t, several(`[http://a:1, "https://[::1]/", h2c://b, unix:/run/app.sock]`))
	var got []string
	for _, u := range c.Upstreams {
		got = append(got, u.String())
	}
	if s := strings.Join(got, " "); s != "http://a:1 https://[::1] h2c://b unix:/run/app.sock" {
		t.Errorf("upstreams %s", s)
	}
}

func TestFileErrors(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", " is empty"},
		{"# nothing\n", " is empty"},
		{"---\n", " is empty"},
		{"~", " is empty"},
		{"- a\n", "1:1: must be a mapping with listen, upstream, upstreams, health, reuse, clients, realms, doors, devices, state, store, audit, admin, log, timeouts, limits, got a list"},
		{"hello", "1:1: must be a mapping with listen, upstream, upstreams, health, reuse, clients, realms, doors, devices, state, store, audit, admin, log, timeouts, limits, got hello"},
		{good + "---\na: 1\n", "9:1: must be one document, here a second one starts"},
		{good + "---\na: [\n", "11:1: not YAML: while parsing a flow node: did not find expected node content"},
		{"a: b: c\n", "1:5: not YAML: mapping values are not allowed in this context"},
		{"a: *b\n", "1:4: not YAML: unknown anchor 'b' referenced"},
		{"listen:\n\tx: 1\n", "2:1: not YAML: while scanning for the next token: found character that cannot start any token"},
		{"ä: \xff\n", "1:4: must be UTF-8, got the byte 0xff"},
		{"a: b\nc: \x00\n", "2:4: must not have control characters, got U+0000"},
		{"a: " + strings.Repeat("x", MaxSize), " must be at most 1048576 bytes, got 1048579"},
	} {
		_, err := Parse(name, []byte(row.text), Overrides{})
		wantErrors(t, row.text[:min(200, len(row.text))], err, row.want)
	}
}

func TestShapeErrors(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		// Keys.
		{top("lisen: x:1"), "2:1: lisen: unknown key, did you mean listen?"},
		{top("LISTEN: x:1"), "2:1: LISTEN: unknown key, did you mean listen?"},
		{top("doorbell: x:1"), "2:1: doorbell: unknown key"},
		{top("5: x:1"), "2:1: 5: unknown key"},
		{top("[a]: x:1"), "2:1: keys must be text, got a list"},
		{top(`"a\nb": 1`), `2:1: "a\nb": unknown key`},
		{top("hops: 1"), "2:1: hops: unknown key, it belongs in clients"},
		{rule("per: everyone\n    window: 1m\n    lockout: {free_failures: 1, first_lockout: 1m, max_lockout: 1m}"),
			"8:17: doors[0].rules[0].window: must be a mapping with limit, window, sliding, capacity, in_flight, got 1m"},
		{door1("ignore-case: true"), "6:5: doors[0].ignore-case: unknown key, did you mean ignore_case?"},
		{lock("free_failure: 5"), "8:19: doors[0].rules[0].lockout.free_failure: unknown key, did you mean free_failures?"},
		{top("upstream: http://b"), "2:1: upstream: must be there once, line 1 has it too"},
		{top("lsten: 1\nlsten: 2"), "2:1: lsten: unknown key, did you mean listen?|3:1: lsten: must be there once, line 2 has it too"},
		{top("log: &l {format: text}\nlimits: *l"), "3:9: limits: must not be an alias: write the value out"},
		{top("log:\n  <<: {format: text}"), "3:3: log.<<: must not merge another mapping: write its keys out"},
		{top("listen: !!str x:1"), "2:9: listen: must not have a tag, got !!str"},
		// Types.
		{top("log: text"), "2:6: log: must be a mapping with format, level, got text"},
		{top("log:"), "2:5: log: must be a mapping with format, level, got nothing"},
		{top("log: []"), "2:6: log: must be a mapping with format, level, got an empty list"},
		{strings.Replace(good, "\n  - name", "\n    name", 1), "4:5: doors: must be a list, got a mapping"},
		{strings.Replace(good, `["POST /login"]`, "POST /login", 1), "5:13: doors[0].routes: must be a list, got POST /login"},
		{strings.Replace(good, `"POST /login"`, "5", 1), "5:14: doors[0].routes[0]: must be text, got 5"},
		{strings.Replace(good, `"POST /login"`, `""`, 1), `5:14: doors[0].routes[0]: must not be empty, got ""`},
		{strings.Replace(good, `"POST /login"`, "{a: b}", 1), "5:14: doors[0].routes[0]: must be text, got a mapping"},
		{door1("ignore_case: yes"), "6:18: doors[0].ignore_case: must be true or false, got yes"},
		{door1(`ignore_case: "true"`), `6:18: doors[0].ignore_case: must be true or false, got "true"`},
		{door1("ignore_case: True"), "6:18: doors[0].ignore_case: must be true or false, got True"},
		{door1("ignore_case:"), "6:17: doors[0].ignore_case: must be true or false, got nothing"},
		{lock("free_failures: 0x10"), "8:34: doors[0].rules[0].lockout.free_failures: must be a whole number, got 0x10"},
		{lock("free_failures: 010"), "8:34: doors[0].rules[0].lockout.free_failures: must be a whole number, got 010"},
		{lock("free_failures: 1_000"), "8:34: doors[0].rules[0].lockout.free_failures: must be a whole number, got 1_000"},
		{lock("free_failures: 5.0"), "8:34: doors[0].rules[0].lockout.free_failures: must be a whole number, got 5.0"},
		{lock(`free_failures: "5"`), `8:34: doors[0].rules[0].lockout.free_failures: must be a whole number, got "5"`},
		{lock("free_failures: [5]"), "8:34: doors[0].rules[0].lockout.free_failures: must be a whole number, got a list"},
		{lock("window: 5"), "8:27: doors[0].rules[0].lockout.window: must be a duration such as 1m or 24h, got 5"},
		{lock("window: 1 minute"), "8:27: doors[0].rules[0].lockout.window: must be a duration such as 1m or 24h, got 1 minute"},
		{lock("window: 1d2"), "8:27: doors[0].rules[0].lockout.window: must be a duration such as 1m or 24h, got 1d2"},
		{lock("window: 1d-2h"), "8:27: doors[0].rules[0].lockout.window: must be a duration such as 1m or 24h, got 1d-2h"},
		{lock("window: 106752d"), "8:27: doors[0].rules[0].lockout.window: must be a duration such as 1m or 24h, got 106752d"},
		{lock("window: 106751d24h"), "8:27: doors[0].rules[0].lockout.window: must be a duration such as 1m or 24h, got 106751d24h"},
		{lock("decay: 1"), "8:26: doors[0].rules[0].lockout.decay: must be true or false, got 1"},
		{lock("lease: 0s"), "8:26: doors[0].rules[0].lockout.lease: must be positive (leave it out for the default), got 0s"},
		{lock("capacity: 0"), "8:29: doors[0].rules[0].lockout.capacity: must be positive (leave it out for the default), got 0"},
		{lock("in_flight: -1"), "8:30: doors[0].rules[0].lockout.in_flight: must be positive (leave it out for the default), got -1"},
		{door1("max_body: 1MB"), "6:15: doors[0].max_body: must be a size such as 65536, 64KiB or 1MiB, got 1MB"},
		{door1("max_body: 0"), "6:15: doors[0].max_body: must be a size such as 65536, 64KiB or 1MiB, got 0"},
		{door1("max_body: 9007199254740992KiB"), "6:15: doors[0].max_body: must be a size such as 65536, 64KiB or 1MiB, got 9007199254740992KiB"},
		{door1("when: always"), "6:11: doors[0].when: must be basic_auth (leave it out to count every request), got always"},
		{top("log: {format: xml}"), "2:15: log.format: must be text or json, got xml"},
		{top("log: {level: loud}"), "2:14: log.level: must be debug, info, warn or error, got loud"},
		{top("log: {level: " + strings.Repeat("x", 110) + "}"), "2:14: log.level: must be debug, info, warn or error, got " + strings.Repeat("x", 100) + "..."},
		{top(`log: {level: "a\u202eb"}`), `2:14: log.level: must be debug, info, warn or error, got "a\u202eb"`},
	} {
		_, err := Parse(name, []byte(row.text), Overrides{})
		wantErrors(t, row.text, err, strings.Split(row.want, "|")...)
	}
}

func TestValueErrors(t *testing.T) {
	const l = "lockout: {free_failures: 5, window: 1m, first_lockout: 1m, max_lockout: 1h}"
	for _, row := range []struct{ text, want string }{
		// Addresses.
		{top("listen: 8080"), "2:9: listen: must be an address and a port such as 127.0.0.1:8080, or unix:/PATH, got 8080"},
		{top("listen: localhost"), "2:9: listen: must be an address and a port such as 127.0.0.1:8080, or unix:/PATH, got localhost"},
		{top("listen: 127.0.0.1:http"), "2:9: listen: must have a port from 0 to 65535, got 127.0.0.1:http"},
		{top("listen: 127.0.0.1:65536"), "2:9: listen: must have a port from 0 to 65535, got 127.0.0.1:65536"},
		{top("listen: []"), "2:9: listen: must have at least one address such as 127.0.0.1:8080"},
		{top("listen: 'unix:'"), `2:9: listen: must be unix: and the path of a socket, such as unix:/run/doorward.sock, got "unix:"`},
		{top("listen: unix:@abstract"), "2:9: listen: must be unix: and the path of a socket, such as unix:/run/doorward.sock, got unix:@abstract"},
		{top("listen: unix:/" + strings.Repeat("x", 107)), "2:9: listen: must be a path of at most 107 bytes, got 108"},
		{top("listen: {address: unix:/" + strings.Repeat("x", 107) + "}"), "2:19: listen.address: must be a path of at most 107 bytes, got 108"},
		{top("listen: {}"), "2:9: listen.address: is missing: must be an address and a port such as 127.0.0.1:8080, or unix:/PATH"},
		{top("listen: [x, ':1', {adress: ':2'}]"), "2:10: listen[0]: must be an address and a port such as 127.0.0.1:8080, or unix:/PATH, got x|" +
			"2:20: listen[2].adress: unknown key, did you mean address?"},
		{top("listen: [':1', {address: ':1'}]"), "2:16: listen[1]: must not be the address of listen[0], :1"},
		{top("listen: {address: ':1', mode: \"0660\"}"), "2:31: listen.mode: must be left out unless address is unix:/PATH"},
		{top("listen: {address: unix:/s, mode: 0660}"), `2:34: listen.mode: must be the mode of a file in quotes such as "0660", got 0660`},
		{top("listen: {address: unix:/s, mode: '1777'}"), `2:34: listen.mode: must be the mode of a file in quotes such as "0660", got "1777"`},
		{top("listen: {address: ':1', proxy_protocol: optional}"), "2:41: listen.proxy_protocol: must be refused or required, got optional"},
		{top("listen: {address: ':1', proxy_protocol: required}"), "2:9: listen.trusted: is missing: must be the networks of the proxies that say whose a connection is"},
		{top("listen: {address: ':1', proxy_protocol: required, trusted: [10.0.0.1, 0.0.0.0/0]}"), "2:61: listen.trusted[0]: must be a network, for one address 10.0.0.1/32, got 10.0.0.1|" +
			"2:71: listen.trusted[1]: must not be 0.0.0.0/0: it trusts everyone"},
		{top("listen: {address: ':1', trusted: [10.0.0.0/8]}"), "2:34: listen.trusted: must be left out without proxy_protocol: required"},
		{top("listen: {address: unix:/s, proxy_protocol: required, trusted: [10.0.0.0/8]}"), "2:63: listen.trusted: must be left out for a unix socket: mode says who may connect"},
		{top("listen: {address: ':1', redirect: http}"), "2:35: listen.redirect: must be https, or a URL without a path such as https://www.example.com, got http"},
		{top("listen: {address: ':1', redirect: https}"), "2:9: listen: must have a listener that does not redirect"},
		{top("listen: [':1', {address: ':2', redirect: https://a/b}]"), "2:42: listen[1].redirect: must be https, or a URL without a path such as https://www.example.com, got https://a/b"},
		{top("listen: [':1', {address: ':2', redirect: https, tls: {cert_file: testdata/first.pem, key_file: testdata/first.key}}]"),
			"2:42: listen[1].redirect: must be left out with tls: it is for who has not come by it"},
		{top("listen: {address: ':1', tls: {}}"), "2:30: listen.tls.cert_file: is missing: must be a PEM file with a certificate and its chain|" +
			"2:30: listen.tls.key_file: is missing: must be a PEM file with the key of the certificate"},
		{top("listen: {address: ':1', tls: [{cert_file: testdata/first.pem, key_file: testdata/none.key}]}"),
			"2:73: listen.tls[0].key_file: must be a certificate with its key (no such file or directory)"},
		{top("listen: {address: ':1', tls: {cert_file: testdata/first.pem, key_file: testdata/second.key}}"),
			"2:42: listen.tls.cert_file: must be a certificate with its key (private key does not match public key)"},
		{top("listen: {address: ':1', tls: {cert_file: testdata, key_file: testdata/second.key}}"),
			"2:42: listen.tls.cert_file: must be a certificate with its key (not a regular file)"},
		{top("tls: {cert_file: testdata/first.pem}"), "2:1: tls: unknown key, it belongs in listen"},
		{strings.Replace(good, "upstream: http://127.0.0.1:3000", "", 1), "3:1: upstream: is missing: must be a URL such as http://127.0.0.1:3000"},
		{strings.Replace(good, "http:", "ftp:", 1), "1:11: upstream: must be a URL such as http://127.0.0.1:3000, got ftp://127.0.0.1:3000"},
		{strings.Replace(good, "http://", "", 1), "1:11: upstream: must be a URL such as http://127.0.0.1:3000, got 127.0.0.1:3000"},
		{strings.Replace(good, "3000", "3000/app", 1), "1:11: upstream: must have no path, requests are passed on as they came, got http://127.0.0.1:3000/app"},
		{strings.Replace(good, "3000", "3000?a", 1), "1:11: upstream: must have no query and no fragment, got http://127.0.0.1:3000?a"},
		{strings.Replace(good, "3000", "0", 1), "1:11: upstream: must have a port from 1 to 65535, got http://127.0.0.1:0"},
		{strings.Replace(good, "//", "//a:b@", 1), "1:11: upstream: must have no user and password, got http://a:b@127.0.0.1:3000"},
		{strings.Replace(good, "http://127.0.0.1:3000", "unix:app.sock", 1), "1:11: upstream: must have the path of a socket, as in unix:/run/app.sock, got unix:app.sock"},
		{strings.Replace(good, "http://127.0.0.1:3000", "unix://run/app.sock", 1), "1:11: upstream: must have the path of a socket, as in unix:/run/app.sock, got unix://run/app.sock"},
		{strings.Replace(good, "http://", "h2c:", 1), "1:11: upstream: must be a URL such as http://127.0.0.1:3000, got h2c:127.0.0.1:3000"},
		{top("upstreams: [http://b]"), "2:12: upstreams: must not be there with upstream"},
		{several("[]"), "1:12: upstreams: must not be empty"},
		{several("http://a"), "1:12: upstreams: must be a list, got http://a"},
		{several("[http://a, ftp://b]"), "1:23: upstreams[1]: must be a URL such as http://127.0.0.1:3000, got ftp://b"},
		{several("[http://a, http://a/]"), "1:23: upstreams[1]: must be there once, upstreams[0] has it too"},
		{top("health: {}"), "2:9: health.path: is missing: must be a path such as /healthz"},
		{top("health: {path: healthz}"), "2:16: health.path: must be a path such as /healthz"},
		{top(`health: {path: "/a b"}`), "2:16: health.path: must be a path such as /healthz"},
		{top("health: {path: /, every: 0s}"), "2:26: health.every: must be positive (leave it out for the default), got 0s"},
		{top("health: {path: /, every: 1s}"), "2:9: health.timeout: is missing: must not be longer than every (1s), got 2s"},
		{top("health: {path: /, every: 1s, timeout: 2s}"), "2:39: health.timeout: must not be longer than every (1s), got 2s"},
		{top("health: {path: /, statuses: ok}"), "2:29: health.statuses: must be statuses from 200 to 599 such as 302, 2xx or 200-299, got ok"},
		{top("health: {path: /, unhealthy_after: 0}"), "2:36: health.unhealthy_after: must be positive (leave it out for the default), got 0"},
		{top("health: {path: /, healthy_after: x}"), "2:34: health.healthy_after: must be a whole number, got x"},
		{top("reuse: {idle: -1s}"), "2:15: reuse.idle: must be positive (leave it out for the default), got -1s"},
		{top("reuse: {reads_bodies: yes}"), "2:23: reuse.reads_bodies: must be true or false, got yes"},
		{top("reuse: {spare: 257}"), "2:16: reuse.spare: must be 1 to 256, got 257"},
		{top("reuse: {spare: 1, reads_bodies: true}"), "2:16: reuse.spare: must not be there with reads_bodies: connections are kept then"},
		// Clients.
		{top("clients: {header: X-Real-IP}"), "2:10: clients: trusted_proxies, hops or trust_unix must be set with header X-Real-Ip: anyone can send it"},
		{top("clients: {header: a b, hops: 1}"), `2:19: clients.header: must be the name of a header, got "a b"`},
		{top("clients: {hops: 33}"), "2:17: clients.hops: must be 1 to 32, got 33"},
		{top("clients: {hops: 2, trusted_proxies: [10.0.0.0/8]}"), "2:17: clients.hops: must be 0 with trusted_proxies, got 2"},
		{top("clients: {trusted_proxies: [10.0.0.1]}"), "2:29: clients.trusted_proxies[0]: must be a network, for one address 10.0.0.1/32, got 10.0.0.1"},
		{top("clients: {trusted_proxies: [10.0.0.1/8, \"::/0\"]}"), "2:29: clients.trusted_proxies[0]: must be 10.0.0.0/8, without host bits, got 10.0.0.1/8|" +
			"2:41: clients.trusted_proxies[1]: must not be ::/0: it trusts everyone"},
		{top("clients: {trusted_proxies: [private]}"), "2:29: clients.trusted_proxies[0]: must be a network such as 192.0.2.0/24 or 2001:db8::/32, got private"},
		// Doors.
		{"upstream: http://a\n", "1:1: doors: is missing: must have at least one door"},
		{"upstream: http://a\ndoors: []\n", "2:8: doors: must have at least one door"},
		{strings.Replace(good, "name: login\n    ", "", 1), `4:5: doors[0].name: is missing: must be 1 to 64 letters, digits or any of "._/-"`},
		{strings.Replace(good, "name: login", "name: a b", 1), `4:11: doors[0].name: must be 1 to 64 letters, digits or any of "._/-", got "a b"`},
		{good + "  - name: login\n    routes: [/x]\n    outcome: {header: true}\n", "9:11: doors[1].name: must be unique, doors[0] has it too"},
		{good + "  - name: x\n    routes: [/x, /]\n    outcome: {header: true}\n", `10:18: doors[1].routes[1]: "/" overlaps with "POST /login" of door "login": two doors must not keep one route, except in one realm`},
		{strings.Replace(good, `    routes: ["POST /login"]`, "", 1), `4:5: doors[0].routes: is missing: must have at least one route such as "POST /login"`},
		{strings.Replace(good, `["POST /login"]`, "[]", 1), `5:13: doors[0].routes: must have at least one route such as "POST /login"`},
		{strings.Replace(good, `"POST /login"`, `POST login, /a?b`, 1), `5:14: doors[0].routes[0]: "POST login": path must start with "/"|` +
			`5:26: doors[0].routes[1]: "/a?b": path must not have a query or fragment, got "?b"`},
		{door1("exempt: [0.0.0.0/0]"), "6:14: doors[0].exempt[0]: must not be 0.0.0.0/0: it exempts everyone"},
		{door1("blocked: [192.0.2.1/24]"), "6:15: doors[0].blocked[0]: must have no bits beyond its width, got 192.0.2.1/24: write 192.0.2.0/24"},
		{door1("max_body: 1GiB"), "6:15: doors[0].max_body: must be 1 byte to 64MiB, got 1GiB"},
		// Outcomes.
		{strings.Replace(good, "succeeded: {status: 302}", "failed: {status: 401}", 1), "8:7: doors[0].outcome.succeeded: is missing: " + noSuccess},
		{strings.Replace(good, "{status: 302}", "{}", 1), "8:18: doors[0].outcome.succeeded: " + noSuccess},
		{strings.Replace(good, "succeeded:", "succeded:", 1), "8:7: doors[0].outcome.succeded: unknown key, did you mean succeeded?"},
		{strings.Replace(good, "302", "302, 500-400, 2xx", 1), "8:32: doors[0].outcome.succeeded.500-400: unknown key|8:41: doors[0].outcome.succeeded.2xx: unknown key"},
		{strings.Replace(good, "302", "[302, 500-400, 199]", 1), "8:33: doors[0].outcome.succeeded.status[1]: must be statuses from 200 to 599 such as 302, 2xx or 200-299, got 500-400|" +
			"8:42: doors[0].outcome.succeeded.status[2]: must be statuses from 200 to 599 such as 302, 2xx or 200-299, got 199"},
		{strings.Replace(good, "302", "[]", 1), "8:27: doors[0].outcome.succeeded.status: must not be empty"},
		{strings.Replace(good, "status: 302", "set_cookie: a=b, location: \"/a b\"", 1), `8:31: doors[0].outcome.succeeded.set_cookie: must be a cookie name, got "a=b"`},
		{strings.Replace(good, "succeeded: {", "failed: {status: 3xx}\n      succeeded: {", 1), "9:27: doors[0].outcome.succeeded.status: must have a status that neither failed nor void.status lists, got 302"},
		{strings.Replace(good, "succeeded: {", "failed: {status: 503}\n      void: {status: [502, 503]}\n      succeeded: {", 1), "9:22: doors[0].outcome.void.status: must not list what failed does, got 503"},
		// Rules.
		{door1("rules: []"), "6:12: doors[0].rules: must not be empty (leave it out for the default rules)"},
		{door1("rules: [" + strings.Repeat("{}, ", 17) + "]"), "6:12: doors[0].rules: must be at most 16, got 17"},
		{rule(l), "7:9: doors[0].rules[0].per: is missing: must be network, network4/BITS, network6/BITS, subject, challenge, pair, device or everyone"},
		{rule("per: network"), "7:9: doors[0].rules[0]: must have exactly one of lockout, throttle and window, got 0"},
		{rule("per: network6/65\n    " + l), "7:14: doors[0].rules[0].per: must be network, network4/1 to network4/32, network6/1 to network6/64, subject, challenge, pair, device or everyone, got network6/65"},
		{rule("per: everyone\n    on_success: clear\n    " + l), "8:21: doors[0].rules[0].on_success: must not be clear for a key that many share"},
		{rule("per: network\n    on_success: forget\n    " + l), "8:21: doors[0].rules[0].on_success: must be by_key or clear, got forget"},
		{rule("per: network\n    step_up: true\n    " + l), "8:18: doors[0].rules[0].step_up: must not be true unless per is subject"},
		{rule("per: network\n    shadow: true\n    step_up: true\n    " + l), "9:18: doors[0].rules[0].step_up: must not be true with shadow"},
		{rule("{name: a b, per: network, " + l + "}"), `7:16: doors[0].rules[0].name: must be 1 to 64 letters, digits or any of "._/-", got "a b"`},
		{rule("{name: a, per: network, " + l + "}\n  - {name: a, per: everyone, " + l + "}"), "8:16: doors[0].rules[1].name: must be unique, doors[0].rules[0] has it too"},
		{lock("free_failures: 0"), "8:34: doors[0].rules[0].lockout.free_failures: must be 1 to 65535, got 0"},
		{lock("window: -1m"), "8:27: doors[0].rules[0].lockout.window: must be positive, got -1m"},
		{lock("first_lockout: 0s"), "8:34: doors[0].rules[0].lockout.first_lockout: must be positive, got 0s"},
		{lock("max_lockout: 59s"), "8:32: doors[0].rules[0].lockout.max_lockout: must be at least first_lockout (1m), got 59s"},
		{lock("lease: 61s"), "8:26: doors[0].rules[0].lockout.lease: must be positive and at most window (1m), got 1m1s"},
		{lock("capacity: 99999999999"), "8:29: doors[0].rules[0].lockout.capacity: must be 1 to 1073741824, got 99999999999"},
		{rule("{per: network, lockout: {}}"), "7:33: doors[0].rules[0].lockout.free_failures: is missing: must be 1 to 65535|" +
			"7:33: doors[0].rules[0].lockout.window: is missing: must be a duration such as 1m or 24h|" +
			"7:33: doors[0].rules[0].lockout.first_lockout: is missing: must be a duration such as 1m or 24h|" +
			"7:33: doors[0].rules[0].lockout.max_lockout: is missing: must be a duration such as 1m or 24h"},
		{rule("{per: network, lockout: {free_failures: 0, window: 0s, first_lockout: 1h, max_lockout: 1m, lease: 2x}}"),
			"7:49: doors[0].rules[0].lockout.free_failures: must be 1 to 65535, got 0|" +
				"7:60: doors[0].rules[0].lockout.window: must be positive, got 0s|" +
				"7:96: doors[0].rules[0].lockout.max_lockout: must be at least first_lockout (1h), got 1m|" +
				"7:107: doors[0].rules[0].lockout.lease: must be a duration such as 1m or 24h, got 2x"},
		{rule("{per: network, " + l + "}\n  - {per: everyone, lockout: {free_failures: 1, window: 1h, first_lockout: 1m, max_lockout: 1m, lease: 2m}}"),
			"8:108: doors[0].rules[1].lockout.lease: must be at most the shortest window of the rules before it (1m), got 2m"},
		{rule("{per: everyone, lockout: {free_failures: 1, window: 1h, first_lockout: 1m, max_lockout: 1m, lease: 2m}}\n  - {per: network, " + l + "}"),
			"8:60: doors[0].rules[1].lockout.window: must be at least the lease of the rules before it (2m), got 1m"},
		{rule("{per: everyone, lockout: {free_failures: 1, window: 1h, first_lockout: 1m, max_lockout: 1m, lease: 2m}}\n  - {per: network, lockout: {free_failures: 1, window: 1h, first_lockout: 1m, max_lockout: 1m, lease: 3m}}"),
			"8:107: doors[0].rules[1].lockout.lease: must be the same in all rules, got 2m and 3m"},
		// Timeouts and limits.
		{top("timeouts: {body: 0s}"), "2:18: timeouts.body: must be positive (leave it out for the default), got 0s"},
		{top("timeouts: {upstream_response: 1m}"), `2:31: timeouts.upstream_response: must be shorter than the lease of door "login" (1m), got 1m`},
		{lock("lease: 1ns"), `1:1: timeouts.upstream_response: is missing: must be shorter than the lease of door "login" (1ns), got 0s`},
		{top("limits: {header_bytes: 100}"), "2:24: limits.header_bytes: must be 1KiB to 16MiB, got 100 bytes"},
		{top("limits: {body_bytes: 65MiB}"), "2:22: limits.body_bytes: must be 1 byte to 64MiB, got 65MiB"},
		{top("limits: {connections: 0, connections_per_network: -1, in_flight: 1000001}"), "2:23: limits.connections: must be positive (leave it out for the default), got 0|" +
			"2:51: limits.connections_per_network: must be positive (leave it out for the default), got -1|" +
			"2:66: limits.in_flight: must be 1 to 1000000, got 1000001"},
		{door1("max_in_flight: 0"), "6:20: doors[0].max_in_flight: must be positive (leave it out for the default), got 0"},
	} {
		_, err := Parse(name, []byte(row.text), Overrides{})
		wantErrors(t, row.text, err, strings.Split(row.want, "|")...)
	}
}

// Whatever is wrong in one place hides nothing in another, and nothing is said twice.
func TestAllErrorsInOrder(t *testing.T) {
	text := `listen: 1
upstream: nowhere
doors:
  - name: a
    routes: ["/a"]
    outcome: 5
  - routes: [5, "/a"]
    outcome: {header: true}
    rules:
      - 1
      - {per: x, lockout: 2}
clients: {trusted_proxies: 10.0.0.0/8}
`
	_, err := Parse(name, []byte(text), Overrides{})
	wantErrors(t, text, err,
		"1:9: listen: must be an address and a port such as 127.0.0.1:8080, or unix:/PATH, got 1",
		"2:11: upstream: must be a URL such as http://127.0.0.1:3000, got nowhere",
		"6:14: doors[0].outcome: must be a mapping with failed, succeeded, void, header, got 5",
		`7:5: doors[1].name: is missing: must be 1 to 64 letters, digits or any of "._/-"`,
		"7:14: doors[1].routes[0]: must be text, got 5",
		`7:17: doors[1].routes[1]: "/a" overlaps with "/a" of door "a": two doors must not keep one route, except in one realm`,
		"10:9: doors[1].rules[0]: must be a mapping with name, per, on_success, shadow, step_up, lockout, throttle, window, got 1",
		"11:15: doors[1].rules[1].per: must be network, network4/1 to network4/32, network6/1 to network6/64, subject, challenge, pair, device or everyone, got x",
		"11:27: doors[1].rules[1].lockout: must be a mapping with free_failures, window, first_lockout, max_lockout, decay, lease, capacity, in_flight, got 2",
		"12:28: clients.trusted_proxies: must be a list, got 10.0.0.0/8",
	)
}

func TestUsualForms(t *testing.T) {
	_, err := Parse(name, []byte(strings.Replace(good, "{status: 302}", "{}", 1)), Overrides{})
	for _, form := range []string{"--succeeded cookie:session", "succeeded: {set_cookie: session}", "Doorward-Outcome"} {
		if err == nil || strings.Count(err.Error(), form) != 1 {
			t.Errorf("the error shows %q %d times, want once:\n%v", form, strings.Count(err.Error(), form), err)
		}
	}
}
