package reader

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// one reads a single line and returns its record in words, or its skip.
func one(t testing.TB, format, line string, o Options) string {
	t.Helper()
	if o.ModTime.IsZero() {
		o.ModTime = asOf
	}
	got, skips := read(t, format, line, o)
	if len(got) == 0 {
		for skip := range skips {
			return string(skip)
		}
	}
	var s []string
	for _, r := range got {
		words := []string{r.Time.UTC().Format(time.RFC3339Nano), r.Addr.String()}
		if r.HTTP {
			words = append(words, fmt.Sprintf("%s %s%s %d", r.Method, r.Host, r.Target, r.Status))
		} else {
			words = append(words, r.Service, r.Outcome.String())
		}
		if r.Repeat != 1 {
			words = append(words, fmt.Sprintf("x%d", r.Repeat))
		}
		for _, f := range []struct {
			name string
			text []byte
		}{{"user", r.Subject}, {"agent", r.UserAgent}, {"location", r.Location}} {
			if f.text != nil {
				words = append(words, fmt.Sprintf("%s=%q", f.name, f.text))
			}
		}
		s = append(s, strings.Join(words, " "))
	}
	return strings.Join(s, "; ")
}

func TestCombined(t *testing.T) {
	const at = "[04/Mar/2026:05:06:07 +0000]"
	for _, row := range []struct{ line, want string }{
		{`192.0.2.1 - - ` + at + ` "GET /a?b HTTP/1.1" 200 9 "-" "curl/8"`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a?b 200 agent="curl/8"`},
		{`192.0.2.1 - - ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200`},
		{`192.0.2.1 - - ` + at + ` "GET /a HTTP/1.1" 200 -`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200`},
		{`192.0.2.1 - bob ` + at + ` "GET /a HTTP/1.1" 200 9 "" ""`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200 user="bob"`},
		{`192.0.2.1 - "" ` + at + ` "GET /a HTTP/1.1" 401 9 "-" "-"`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 401`},
		{`192.0.2.1 - b o b ` + at + ` "GET /a HTTP/1.1" 401 9 "-" "-"`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 401 user="b o b"`},
		{`192.0.2.1 - b\xC3\xB6b\x22 ` + at + ` "GET /a HTTP/1.1" 401 9 "-" "-"`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 401 user="böb\""`},
		{`192.0.2.1 - b\"\\\tb ` + at + ` "GET /a HTTP/1.1" 401 9 "-" "-"`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 401 user="b\"\\\tb"`},
		{`192.0.2.1 - - ` + at + ` "GET /a b\"c HTTP/1.1" 401 9 "-" "x\" y"`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a b"c 401 agent="x\" y"`},
		{`192.0.2.1 - ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200`},
		{`192.0.2.1 user-identifier frank ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200 user="frank"`},
		{`198.51.100.6 192.0.2.1 bob ` + at + ` "GET /a HTTP/1.1" 200 9`, "ambiguous"},
		{`198.51.100.6 192.0.2.1 ` + at + ` "GET /a HTTP/1.1" 200 9`, "ambiguous"},
		{`198.51.100.6 localhost ` + at + ` "GET /a HTTP/1.1" 200 9`, "ambiguous"},
		{`198.51.100.6 host.example - ` + at + ` "GET /a HTTP/1.1" 200 9`, "ambiguous"},
		{`198.51.100.6 host.example - - ` + at + ` "GET /a HTTP/1.1" 200 9`, "no address"},
		{`198.51.100.6 192.0.2.1 b ob ` + at + ` "GET /a HTTP/1.1" 200 9`, "ambiguous"},
		{`198.51.100.6 2001:db8::1 bob ` + at + ` "GET /a HTTP/1.1" 200 9`, "ambiguous"},
		{`192.0.2.1 ident - ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200`},
		{`a.example:443 192.0.2.1 - bob ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET a.example:443/a 200 user="bob"`},
		{`198.51.100.6 192.0.2.1 - - ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET 198.51.100.6/a 200`},
		{`192.0.2.1:4711 - - ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200`},
		{`[2001:db8::1]:4711 - - ` + at + ` "GET /a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 2001:db8::1 GET /a 200`},
		{`192.0.2.1 - - ` + at + ` "GET http://a.example/a HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET http://a.example/a 200`},
		{`192.0.2.1 - a\x2gb\ ` + at + ` "GET /\\n\b HTTP/1.1" 200 9 "-" "-`, `2026-03-04T05:06:07Z 192.0.2.1 GET /\n` + "\b" + ` 200 user="a\\x2gb\\"`},
		{`192.0.2.1 - - ` + at + ` "GET /a" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET /a 200`},
		{`192.0.2.1 - - ` + at + ` "-" 408 0 "-" "-"`, `2026-03-04T05:06:07Z 192.0.2.1   408`},
		{`192.0.2.1 - - ` + at + ` "" 400 0 "-" "-"`, `2026-03-04T05:06:07Z 192.0.2.1   400`},
		{`192.0.2.1 - - ` + at + ` "\x16\x03 x" 400 0 "-" "-"`, `2026-03-04T05:06:07Z 192.0.2.1   400`},
		{`192.0.2.1 - - [04/Mar/2026:05:06:07 +0530] "GET / HTTP/1.1" 200 9`, `2026-03-03T23:36:07Z 192.0.2.1 GET / 200`},
		{`192.0.2.1 - - [04/Mar/2026:05:06:07 -0130] "GET / HTTP/1.1" 200 9`, `2026-03-04T06:36:07Z 192.0.2.1 GET / 200`},
		{`192.0.2.1 - - [2026-03-04T05:06:07+01:00] "GET / HTTP/1.1" 200 9`, `2026-03-04T04:06:07Z 192.0.2.1 GET / 200`},
		{`<190>Mar  4 05:06:07 a nginx: 192.0.2.1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET / 200`},
		{`<190>Mar  4 05:06:07 nginx: 2001:db8::1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 2001:db8::1 GET / 200`},
		{`Mar  4 05:06:07 nginx[1]: 2001:db8::1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 2001:db8::1 GET / 200`},
		{`<190>1 2026-03-04T05:06:07Z a nginx 1 - - 192.0.2.1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET / 200`},
		{`Mar  4 05:06:07 a 2001:db8::1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `ambiguous`},
		{`Mar 14 05:06:07 a 192.0.2.1 - x: 198.51.100.6 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `ambiguous`},
		{`Mar 14 05:06:07 a nginx:2001:db8::1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `ambiguous`},
		{`<190>1 2026-03-04T05:06:07Z a nginx 1`, `unreadable`},
		{`Mar  4 05:06:07 a nginx[1]: 192.0.2.1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET / 200`},
		{`2026-03-04T05:06:07.1+00:00 a nginx: 192.0.2.1 - - ` + at + ` "GET / HTTP/1.1" 200 9`, `2026-03-04T05:06:07Z 192.0.2.1 GET / 200`},
		{`{"log":"192.0.2.1 - - ` + at + ` \"GET / HTTP/1.1\" 200 9\n","stream":"stdout","time":"2026-03-04T05:06:08Z"}`, `2026-03-04T05:06:07Z 192.0.2.1 GET / 200`},
		{`192.0.2.1 - - ` + at + ` "GET / HTTP/1.1" 200 9` + "\r", `2026-03-04T05:06:07Z 192.0.2.1 GET / 200`},

		{`host.example.com - - ` + at + ` "GET / HTTP/1.1" 200 9`, "no address"},
		{`unix: - - ` + at + ` "GET / HTTP/1.1" 200 9`, "no address"},
		{`192.0.2.256 - - ` + at + ` "GET / HTTP/1.1" 200 9`, "no address"},
		{`192.0.2.1 - - [04/Mra/2026:05:06:07 +0000] "GET / HTTP/1.1" 200 9`, "no time"},
		{`192.0.2.1 - - [31/Apr/2026:05:06:07 +0000] "GET / HTTP/1.1" 200 9`, "no time"},
		{`192.0.2.1 - - [04/Mar/2026:24:06:07 +0000] "GET / HTTP/1.1" 200 9`, "no time"},
		{`192.0.2.1 - - [04/Mar/2026:05:0`, "cut off"},
		{`192.0.2.1 - - ` + at + ` "GET /a HT`, "cut off"},
		{`192.0.2.1 - - ` + at + ` "GET /a HTTP/1.1"`, "cut off"},
		{`192.0.2.1 - - ` + at + ` "GET /a HTTP/1.1" 20`, "cut off"},
		{`:06:07 +0000] "GET /a HTTP/1.1" 200 9 "-" "-"`, "unreadable"},
		{`ET /a HTTP/1.1" 200 9 "-" "-"`, "unreadable"},
		{"\x00\x01\x02", "unreadable"},
	} {
		if got := one(t, "combined", row.line, Options{}); got != row.want {
			t.Errorf("%s\n got %s\nwant %s", row.line, got, row.want)
		}
	}
}

func TestParseNode(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"192.0.2.1", "192.0.2.1"}, {"192.0.2.1:80", "192.0.2.1"}, {"255.255.255.255:65535", "255.255.255.255"}, {"0.0.0.0", "0.0.0.0"},
		{"2001:db8::1", "2001:db8::1"}, {"[2001:db8::1]", "2001:db8::1"}, {"[2001:db8::1]:80", "2001:db8::1"},
		{"2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"}, {"fe80::1%eth0", "fe80::1"}, {"[fe80::1%25eth0]:80", "fe80::1"},
		{"::ffff:192.0.2.1", "192.0.2.1"}, {"[::ffff:192.0.2.1]:80", "192.0.2.1"}, {"::ffff:c000:201", "192.0.2.1"},
		{"", ""}, {"-", ""}, {"192.0.2", ""}, {"192.0.2.1.5", ""}, {"192.0.2.01", ""}, {"192.0.2.256", ""}, {"192.0.2.1:", ""},
		{"192.0.2.1:x", ""}, {"192.0.2.1:123456", ""}, {"192.0.2.1x", ""}, {"[192.0.2.1]", ""}, {"[2001:db8::1", ""}, {"2001:db8::1]", ""},
		{"[2001:db8::1]x", ""}, {"[]", ""}, {"a.example", ""}, {"unix:", ""}, {"1:2:3", ""}, {" 192.0.2.1", ""}, {"%", ""},
		{strings.Repeat("1", 100), ""},
	} {
		want := netip.Addr{}
		if row.want != "" {
			want = netip.MustParseAddr(row.want)
		}
		if got := parseNode([]byte(row.in)); got != want {
			t.Errorf("%q: got %s, want %q", row.in, got, row.want)
		}
	}
}

// FuzzParseNode holds parseNode against netip, which reads the same addresses.
func FuzzParseNode(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "192.0.2.1:80", "[2001:db8::1%x]:80", "::ffff:192.0.2.1", "1.2.3", "01.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want netip.Addr
		if a, err := netip.ParseAddr(s); err == nil {
			want = a
		} else if p, err := netip.ParseAddrPort(s); err == nil {
			want = p.Addr()
		} else {
			return // bare addresses in brackets, ports beyond 65535: more is read than netip does
		}
		if len(s) > 64 || strings.Contains(want.Zone(), "]") {
			return
		}
		if got := parseNode([]byte(s)); got != want.Unmap().WithZone("") {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	})
}

// TestStamp: the second that is kept is no other's.
func TestStamp(t *testing.T) {
	var c stamp
	for _, s := range []string{"04/Mar/2026:05:06:07 +0000", "04/Mar/2026:05:06:08 +0000", "04/Mar/2026:05:06:08 +0000", "04/Mar/2026:05:06:08 +0100",
		"29/Feb/2024:23:59:59 -1200", "31/Dec/1999:23:59:59 +0000", "04/Mar/2026:05:06:07 +0000"} {
		want, err := time.Parse("02/Jan/2006:15:04:05 -0700", s)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := c.time([]byte(s)); !ok || !got.Equal(want) {
			t.Errorf("%s: got %s, %t", s, got, ok)
		}
	}
	for _, s := range []string{"29/Feb/2023:05:06:07 +0000", "00/Mar/2026:05:06:07 +0000", "04/mar/2026:05:06:07 +0000", "04/Mar/2026:05:06:61 +0000",
		"04/Mar/2026:05:60:07 +0000", "04/Mar/2026:05:06:07 *0000", "04-Mar-2026:05:06:07 +0000", "04/Mar/2026 05:06:07 +0000", "04/Mar/2026:05:06:07 +0060"} {
		if got, ok := c.time([]byte(s)); ok {
			t.Errorf("%s: got %s, want none", s, got)
		}
	}
}

func TestNames(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "combined") {
		t.Errorf("names are %q", names)
	}
	for _, row := range []struct {
		name string
		o    Options
		want string
	}{
		{"nginx", Options{}, `reader: format must be one of alb, authelia, authentik, caddy, combined, doorward, dovecot, envoy, gitea, grafana, haproxy, homeassistant, keycloak, nextcloud, pattern, postfix, sshd, traefik, vaultwarden, got "nginx"`},
		{"sshd", Options{Year: -1}, "reader: Year must be 0 to 9999, got -1"},
		{"sshd", Options{Pattern: "x"}, `reader: Pattern is for format pattern, got format "sshd"`},
		{"pattern", Options{}, `reader: format pattern needs a Pattern, such as '(?P<time>\S+) (?P<addr>\S+) (?P<outcome>ok|failed).*'`},
	} {
		if _, err := New(row.name, row.o); err == nil || err.Error() != row.want {
			t.Errorf("got %v\nwant %s", err, row.want)
		}
	}
}

// TestFormats writes the table of formats: what each reads, with a line that it does.
func TestFormats(t *testing.T) {
	var rows [][]string
	for _, row := range []struct{ name, reads, attempt, address, line string }{
		{"alb", "AWS Application Load Balancer, access log", "a request", "the client's, by the load balancer",
			`https 2026-03-04T05:06:08.000000Z app/a/1 192.0.2.1:9 - -1 -1 -1 401 - 9 9 "POST https://a.example:443/login HTTP/2.0" "curl/8" - - - "-" "-" "-" 0 2026-03-04T05:06:07.000000Z "forward" "-" "-" "-" "-" "-" "-"`},
		{"authelia", "Authelia, text and JSON", "`Unsuccessful` and `Successful ... authentication attempt`, first and second factor; a user who does not exist", "`remote_ip`",
			`time="2026-03-04T05:06:07Z" level=error msg="Unsuccessful 1FA authentication attempt by user 'bob'" method=POST path=/api/firstfactor remote_ip=192.0.2.1`},
		{"authentik", "authentik, JSON", "`login_failed`, `invalid_identifier`; `login` is a success", "`client_ip`",
			`{"action": "login_failed", "client_ip": "192.0.2.1", "context": {"username": "bob"}, "timestamp": "2026-03-04T05:06:07.598288"}`},
		{"caddy", "Caddy, access log in JSON", "a request", "`client_ip`, else `remote_ip`",
			`{"ts":1772600767.25,"request":{"remote_ip":"192.0.2.1","client_ip":"192.0.2.1","method":"POST","host":"a.example","uri":"/login","headers":{}},"status":401}`},
		{"combined", "nginx, Apache and others: common, combined, with a host before it or anything after it", "a request", "the first field: the peer (`%h`, `$remote_addr`), or what `mod_remoteip` or `realip` made of it",
			`192.0.2.1 - bob [04/Mar/2026:05:06:07 +0000] "POST /login HTTP/1.1" 401 9 "-" "curl/8"`},
		{"doorward", "our own audit log", "`settled`, by its `outcome`; `refused`, taken as failed, since nobody knows; exempt ones are left out", "`client`, a network",
			`{"time":"2026-03-04T05:06:07.000000Z","event":"settled","door":"login","client":"192.0.2.1","how":"peer","outcome":"failed"}`},
		{"dovecot", "Dovecot in the system log", "as many failures as `(auth failed, N attempts` says; on a host without such lines, each failure of an `auth-worker`; `Login` is a success", "`rip`",
			`Mar  4 05:06:07 a dovecot: imap-login: Disconnected (auth failed, 1 attempts in 6 secs): user=<bob>, method=PLAIN, rip=192.0.2.1, lip=198.51.100.1`},
		{"envoy", "Envoy, access log in JSON with the names of Envoy Gateway or Istio", "a request", "`downstream_remote_address`",
			`{"start_time":"2026-03-04T05:06:07.479Z","downstream_remote_address":"192.0.2.1:9","method":"POST",":authority":"a.example","x-envoy-origin-path":"/login","response_code":401}`},
		{"gitea", "Gitea", "`Failed authentication attempt`", "the peer, or what Gitea makes of its proxy's header",
			`2026/03/04 05:06:07 ...ers/web/auth/auth.go:200:SignInPost() [I] Failed authentication attempt for bob from 192.0.2.1:9: user does not exist [uid: 0, name: bob, keyid: 0]`},
		{"grafana", "Grafana, text and JSON", "`Invalid username or password`, `Unauthorized` of `password-auth`, or a `POST /login` answered with 401; two of these within 2 s are one", "`remote_addr`, for which Grafana believes X-Real-IP and X-Forwarded-For: have a proxy set them",
			`logger=context userId=0 orgId=0 uname= t=2026-03-04T05:06:07.89+02:00 level=info msg=Unauthorized error="[password-auth.failed] ..." remote_addr=192.0.2.1`},
		{"haproxy", "HAProxy, HTTP log", "a request", "the client's",
			`192.0.2.1:9 [04/Mar/2026:05:06:07.127] https~ app/a 0/0/0/1/1 401 9 - - ---- 1/1/0/0/0 0/0 "POST /login HTTP/1.1"`},
		{"homeassistant", "Home Assistant", "`Login attempt or request with invalid authentication`", "the one in parentheses",
			`2026-03-04 05:06:07.287 WARNING (MainThread) [homeassistant.components.http.ban] Login attempt or request with invalid authentication from a.example (192.0.2.1). Requested URL: '/auth/login_flow/1'. (curl/8)`},
		{"keycloak", "Keycloak, events, with quotes and without", "`LOGIN_ERROR`; `LOGIN` is a success", "`ipAddress`",
			`2026-03-04 05:06:07,357 WARN  [org.keycloak.events] (executor-thread-1) type="LOGIN_ERROR", realmId="r", clientId="c", userId="null", ipAddress="192.0.2.1", error="user_not_found", username="bob"`},
		{"nextcloud", "Nextcloud, JSON", "`Login failed`", "`remoteAddr`",
			`{"level":2,"time":"2026-03-04T05:06:07+00:00","remoteAddr":"192.0.2.1","message":"Login failed: bob (Remote IP: 192.0.2.1)"}`},
		{"postfix", "Postfix in the system log", "`SASL ... authentication failed`; mail that came with `sasl_method` is a success", "the client's, in brackets",
			`Mar  4 05:06:07 a postfix/smtpd[1]: warning: unknown[192.0.2.1]: SASL LOGIN authentication failed: authentication failure`},
		{"sshd", "OpenSSH in the system log: times of old, RFC 3339, RFC 5424", "see below", "the peer",
			`Mar  4 05:06:07 a sshd[1]: Failed password for invalid user bob from 192.0.2.1 port 9 ssh2`},
		{"traefik", "Traefik, access log in JSON and in its common form", "a request", "`ClientHost`: the peer, or the last of X-Forwarded-For where Traefik trusts the peer",
			`192.0.2.1 - bob [04/Mar/2026:05:06:07 +0000] "POST /login HTTP/2.0" 401 9 "-" "-" 244 "a@docker" "http://10.0.0.1:80" 42ms`},
		{"vaultwarden", "Vaultwarden", "a wrong password, code, token or admin token; `logged in successfully` is a success", "`IP`: X-Real-IP, unless `IP_HEADER` says otherwise",
			`[2026-03-04 05:06:07.219][vaultwarden::api::identity][ERROR] Username or password is incorrect. Try again. IP: 192.0.2.1. Username: bob.`},
	} {
		if got := one(t, row.name, row.line, Options{}); !strings.Contains(got, " 192.0.2.1 ") {
			t.Errorf("%s: %s\n is read as %s", row.name, row.line, got)
		}
		rows = append(rows, []string{"`" + row.name + "`", row.reads, row.attempt, row.address, "`" + row.line + "`"})
	}
	for _, name := range Names() {
		if name != "pattern" && !slices.ContainsFunc(rows, func(row []string) bool { return row[0] == "`"+name+"`" }) {
			t.Errorf("format %s is not in the table", name)
		}
		if name != "pattern" && name != "doorward" && !slices.ContainsFunc(hub, func(h hubLog) bool { return h.format == name && h.records > 0 }) {
			t.Errorf("format %s has no published sample", name)
		}
	}
	document.Table(t, formatsDoc, "formats", rows)
}

const busyLine = `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "POST /login?next=%2Fhome HTTP/1.1" 401 1532 "https://a.example/login" "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/103.0.0.0 Safari/537.36"`

// TestAllocations: a combined line costs none, with IPv6 and escapes too.
func TestAllocations(t *testing.T) {
	r, err := New("combined", Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	emit := func(*Record) { n++ }
	for _, line := range []string{busyLine, strings.Replace(busyLine, "192.0.2.1", "2001:db8::1", 1), strings.Replace(busyLine, "login", `l\x22ogin`, -1)} {
		b := []byte(line)
		r.Line(b, emit)
		if got := testing.AllocsPerRun(100, func() { r.Line(b, emit) }); got != 0 {
			t.Errorf("%s: %v allocations, want none", line, got)
		}
	}
	if n != 3*102 {
		t.Errorf("%d records, want %d", n, 3*102)
	}
}

func BenchmarkLine(b *testing.B) {
	for _, s := range append([]spot{{"combined", "combined", busyLine, nil, false}}, spots...) {
		if s.escape == nil || s.name == "Caddy" || s.name == "Traefik, JSON" || s.name == "sshd: Failed" || s.name == "HAProxy: target" {
			b.Run(s.name, func(b *testing.B) {
				r, err := New(s.format, Options{ModTime: asOf})
				if err != nil {
					b.Fatal(err)
				}
				line := []byte(s.line)
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					r.Line(line, func(*Record) {})
				}
			})
		}
	}
}
