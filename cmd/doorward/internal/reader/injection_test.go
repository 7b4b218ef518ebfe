package reader

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A spot is a place in a log where callers' text stands: the line around it, and what its
// writer does to such text. The line is of 192.0.2.1, at hostileTime.
type spot struct {
	name, format string
	line         string // @ stands for the text
	escape       func(string) string
	drops        bool // some texts leave two callers possible: then nobody is named
}

var (
	peer        = netip.MustParseAddr("192.0.2.1")
	hostileTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

// spots of every format.
var spots = []spot{
	{"audit log: path and agent", "doorward", `{"time":"2026-03-04T05:06:07.000000Z","event":"settled","door":"login","client":"192.0.2.1","how":"peer","outcome":"failed","path":"/@","agent":"@"}`, inJSON, false},
	{"nginx: user", "combined", `192.0.2.1 - @ [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "-" "-"`, nginx, false},
	{"nginx: target", "combined", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET /@ HTTP/1.1" 401 9 "-" "-"`, nginx, false},
	{"nginx: request", "combined", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "@" 400 9 "-" "-"`, nginx, false},
	{"nginx: agent", "combined", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "@" "@"`, nginx, false},
	{"nginx: host before, as callers send it", "combined", `@ 192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "-" "-"`, hostName, false},
	{"nginx: host before, and a user", "combined", `a.example:443 192.0.2.1 - @ [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "-" "-"`, nginx, false},
	{"nginx: through a log daemon", "combined", `Mar  4 05:06:07 a nginx[1]: 192.0.2.1 - @ [04/Mar/2026:05:06:07 +0000] "GET /@ HTTP/1.1" 401 9 "-" "@"`, nginx, false},
	{"Apache: user", "combined", `192.0.2.1 - @ [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "-" "-"`, apache, false},
	{"Apache: target", "combined", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET /@ HTTP/1.1" 401 9`, apache, false},
	{"Apache: agent", "combined", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "@" "@"`, apache, false},
	{"Traefik, common: user", "traefik", `192.0.2.1 - @ [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "-" "-" 1 "r@docker" "-" 0ms`, oneLine, true},
	{"Traefik, common: target", "traefik", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET /?@ HTTP/1.1" 401 9 "-" "-" 1 "r@docker" "-" 0ms`, noSpace, false},
	{"Traefik, common: agent", "traefik", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "@" "@" 1 "r@docker" "-" 0ms`, header, false},
	{"Traefik, common: X-Forwarded-For through a trusted proxy", "traefik", `@, 192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET / HTTP/1.1" 401 9 "-" "-" 1 "r@docker" "-" 0ms`, oneLine, true},
	{"Traefik, JSON", "traefik", `{"ClientHost":"192.0.2.1","ClientUsername":"@","DownstreamStatus":401,"RequestHost":"@","RequestMethod":"@","RequestPath":"/@","request_User-Agent":"@","time":"2026-03-04T05:06:07Z"}`, inJSON, false},
	{"Traefik, JSON: X-Forwarded-For through a trusted proxy", "traefik", `{"ClientHost":"@, 192.0.2.1","DownstreamStatus":401,"RequestMethod":"GET","RequestPath":"/","time":"2026-03-04T05:06:07Z"}`, inJSON, false},
	{"Caddy", "caddy", `{"ts":1772600767,"request":{"client_ip":"192.0.2.1","method":"@","host":"@","uri":"/@","headers":{"User-Agent":["@"],"X":["@"],"@":["@"]}},"user_id":"@","status":401}`, inJSON, false},
	{"Envoy", "envoy", `{":authority":"@","downstream_remote_address":"192.0.2.1:9","method":"@","response_code":401,"start_time":"2026-03-04T05:06:07Z","user-agent":"@","x-envoy-origin-path":"/@","x-forwarded-for":"@,192.0.2.1"}`, inJSON, false},
	{"HAProxy: target", "haproxy", `192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 401 9 - - ---- 1/1/0/0/0 0/0 "GET /@ HTTP/1.1"`, haproxy, false},
	{"HAProxy: request", "haproxy", `192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 400 9 - - ---- 1/1/0/0/0 0/0 "@"`, haproxy, false},
	{"HAProxy: captures", "haproxy", `Mar  4 05:06:07 a haproxy[1]: 192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 401 9 - - ---- 1/1/0/0/0 0/0 {@|@} {@} "GET / HTTP/1.1"`, haproxy, false},
	{"ALB: target and agent", "alb", `https 2026-03-04T05:06:08.000000Z app/a/1 192.0.2.1:9 - -1 -1 -1 401 - 9 9 "GET https://a:443/@ HTTP/1.1" "@" - - - "-" "-" "-" 0 2026-03-04T05:06:07.000000Z "forward" "-" "-" "-" "-" "-" "-"`, apache, false},
	{"ALB: agent, should its quotes stay", "alb", `https 2026-03-04T05:06:08.000000Z app/a/1 192.0.2.1:9 - -1 -1 -1 401 - 9 9 "GET https://a:443/ HTTP/1.1" "@" - - - "-" "-" "-" 0 2026-03-04T05:06:07.000000Z "forward" "-" "-" "-" "-" "-" "-"`, oneLine, true},
	{"ALB: trace, should its quotes stay", "alb", `https 2026-03-04T05:06:08.000000Z app/a/1 192.0.2.1:9 - -1 -1 -1 401 - 9 9 "GET https://a:443/ HTTP/1.1" "-" - - - "@" "-" "-" 0 2026-03-04T05:06:07.000000Z "forward" "-" "-" "-" "-" "-" "-"`, oneLine, true},

	{"sshd: Failed", "sshd", `Mar  4 05:06:07 a sshd[1]: Failed password for invalid user @ from 192.0.2.1 port 9 ssh2`, vis, false},
	{"sshd: Failed, RFC 5424", "sshd", `<38>1 2026-03-04T05:06:07Z a sshd 1 - - Failed password for invalid user @ from 192.0.2.1 port 9 ssh2`, vis, false},
	{"sshd: repeated", "sshd", `Mar  4 05:06:07 a sshd[1]: message repeated 2 times: [ Failed password for invalid user @ from 192.0.2.1 port 9 ssh2]`, vis, false},
	{"sshd: Failed, with a key", "sshd", `Mar  4 05:06:07 a sshd[1]: Failed publickey for invalid user @ from 192.0.2.1 port 9 ssh2: RSA SHA256:abc`, vis, true},
	{"sshd: Failed, with a certificate", "sshd", `Mar  4 05:06:07 a sshd[1]: Failed publickey for root from 192.0.2.1 port 9 ssh2: RSA-CERT SHA256:abc ID @ (serial 1) CA RSA SHA256:def`, vis, true},
	{"sshd: Invalid user", "sshd", `Mar  4 05:06:07 a sshd[1]: Invalid user @ from 192.0.2.1 port 9`, vis, false},
	{"sshd: Invalid user, of old", "sshd", `Mar  4 05:06:07 a sshd[1]: Invalid user @ from 192.0.2.1`, vis, false},
	{"sshd: closed", "sshd", `Mar  4 05:06:07 a sshd[1]: Connection closed by invalid user @ 192.0.2.1 port 9 [preauth]`, vis, false},
	{"sshd: disconnected", "sshd", `Mar  4 05:06:07 a sshd[1]: Disconnected from authenticating user @ 192.0.2.1 port 9 [preauth]`, vis, false},
	{"sshd: goodbye", "sshd", `Mar  4 05:06:07 a sshd[1]: Received disconnect from 192.0.2.1 port 9:11: @ [preauth]`, vis, false},
	{"sshd: offer", "sshd", `Mar  4 05:06:07 a sshd[1]: Unable to negotiate with 192.0.2.1 port 9: no matching cipher found. Their offer: @ [preauth]`, vis, false},
	{"sshd: too many", "sshd", `Mar  4 05:06:07 a sshd[1]: error: maximum authentication attempts exceeded for invalid user @ from 192.0.2.1 port 9 ssh2 [preauth]`, vis, false},
	{"sshd: disconnecting", "sshd", `Mar  4 05:06:07 a sshd[1]: Disconnecting invalid user @ 192.0.2.1 port 9: Too many authentication failures [preauth]`, vis, false},
	{"sshd: disconnecting, another reason", "sshd", `Mar  4 05:06:07 a sshd[1]: Disconnecting invalid user @ 192.0.2.1 port 9: Change of username or service not allowed: (@,ssh-connection) -> (@,ssh-connection) [preauth]`, vis, true},
	{"sshd: fatal", "sshd", `Mar  4 05:06:07 a sshd[1]: ssh_dispatch_run_fatal: Connection from authenticating user @ 192.0.2.1 port 9: Broken pipe [preauth]`, vis, true},
	{"sshd: of old", "sshd", `Mar  4 05:06:07 a sshd(pam_unix)[1]: authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.1  user=@`, vis, false},

	{"Dovecot: login", "dovecot", `Mar  4 05:06:07 a dovecot: imap-login: Disconnected (auth failed, 1 attempts in 6 secs): user=<@>, method=PLAIN, rip=192.0.2.1, lip=198.51.100.1, session=<x>`, oneLine, false},
	{"Dovecot: worker", "dovecot", `Mar  4 05:06:07 a dovecot: auth-worker(1): pam(@,192.0.2.1,<x>): unknown user`, oneLine, true},
	{"Dovecot: worker's password", "dovecot", `Mar  4 05:06:07 a dovecot: auth-worker(1): conn unix:auth-worker (pid=1,uid=1): auth-worker<1>: sql(bob,192.0.2.1): unknown user (given password: @)`, oneLine, true},
	{"Postfix: name", "postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: warning: unknown[192.0.2.1]: SASL LOGIN authentication failed: (reason unavailable), sasl_username=@`, oneLine, false},
	{"Postfix: host", "postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: warning: @[192.0.2.1]: SASL LOGIN authentication failed: authentication failure`, dnsName, false},
	{"Postfix: success", "postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: 4BWXYZ: client=unknown[192.0.2.1], sasl_method=PLAIN, sasl_username=@`, oneLine, false},
	{"Vaultwarden", "vaultwarden", `[2026-03-04 05:06:07.000][vaultwarden::api::identity][ERROR] Username or password is incorrect. Try again. IP: 192.0.2.1. Username: @.`, oneLine, false},
	{"Vaultwarden: success", "vaultwarden", `[2026-03-04 05:06:07.000][vaultwarden::api::identity][INFO] User @ logged in successfully. IP: 192.0.2.1`, oneLine, false},
	{"Nextcloud", "nextcloud", `{"time":"2026-03-04T05:06:07+00:00","remoteAddr":"192.0.2.1","user":"@","url":"/@","message":"Login failed: @ (Remote IP: 192.0.2.1)","userAgent":"@"}`, inJSON, false},
	{"Home Assistant: host", "homeassistant", `2026-03-04 05:06:07.000 WARNING (MainThread) [homeassistant.components.http.ban] Login attempt or request with invalid authentication from @ (192.0.2.1). (x)`, dnsName, false},
	{"Home Assistant: URL and agent", "homeassistant", `2026-03-04 05:06:07 WARNING (MainThread) [homeassistant.components.http.ban] Login attempt or request with invalid authentication from a (192.0.2.1). Requested URL: '/@'. (@)`, oneLine, false},
	{"Keycloak: client", "keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events] (executor-thread-1) type=LOGIN_ERROR, realmId=r, clientId=@, userId=null, ipAddress=192.0.2.1, error=client_not_found`, oneLine, true},
	{"Keycloak: user", "keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events] (executor-thread-1) type=LOGIN_ERROR, realmId=r, clientId=c, userId=null, ipAddress=192.0.2.1, error=user_not_found, redirect_uri=@, username=@`, oneLine, true},
	{"Keycloak, in quotes", "keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events] (executor-thread-1) type="LOGIN_ERROR", realmId="r", clientId="@", userId="null", ipAddress="192.0.2.1", error="user_not_found", username="@"`, apache, false},
	{"Keycloak, in quotes that it does not escape", "keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events] (executor-thread-1) type="LOGIN_ERROR", realmId="r", clientId="@", userId="null", ipAddress="192.0.2.1", error="user_not_found", username="@"`, oneLine, true},
	{"Gitea: no such user", "gitea", `2026/03/04 05:06:07 ...ers/web/auth/auth.go:200:SignInPost() [I] Failed authentication attempt for @ from 192.0.2.1:9: user does not exist [uid: 0, name: @, keyid: 0]`, oneLine, false},
	{"Gitea: another reason", "gitea", `2026/03/04 05:06:07 ...ers/web/auth/auth.go:200:SignInPost() [I] Failed authentication attempt for @ from 192.0.2.1:9: user's password is invalid [uid: 1, name: bob]`, oneLine, true},
	{"Authelia, text", "authelia", `time="2026-03-04T05:06:07Z" level=error msg="Unsuccessful 1FA authentication attempt by user '@'" method=POST path=/api/firstfactor remote_ip=192.0.2.1 stack="x"`, quoted, false},
	{"Authelia, JSON", "authelia", `{"level":"error","msg":"Unsuccessful 1FA authentication attempt by user '@'","remote_ip":"192.0.2.1","time":"2026-03-04T05:06:07Z"}`, inJSON, false},
	{"authentik", "authentik", `{"action":"login_failed","client_ip":"192.0.2.1","context":{"http_request":{"args":{"next":"@","@":"@"}},"username":"@"},"timestamp":"2026-03-04T05:06:07.000000"}`, inJSON, false},
	{"Grafana, text", "grafana", `logger=context userId=0 orgId=0 uname="@" t=2026-03-04T05:06:07Z level=info msg="Request Completed" method=POST path=/login status=401 remote_addr=192.0.2.1 referer="@" error="@"`, quoted, false},
	{"Grafana, JSON", "grafana", `{"error":"@","msg":"Invalid username or password","remote_addr":"192.0.2.1","t":"2026-03-04T05:06:07Z","uname":"@"}`, inJSON, false},
	{"a pattern", "pattern", `2026-03-04T05:06:07Z 192.0.2.1 failed @`, oneLine, false},
}

const spotPattern = `(?P<time>\S+) (?P<addr>\S+) (?P<outcome>\S+) (?P<user>.*)`

// hostile are texts that look like a part of a log line, all of somebody else.
var hostile = []string{
	"alice",
	"a b",
	"198.51.100.6",
	"x from 198.51.100.6 port 22 ssh2",
	"x from 198.51.100.6 port 22 ssh2: RSA SHA256:zzz",
	"x from 198.51.100.6 port 22 ssh2: RSA-CERT SHA256:z ID y (serial 1) CA RSA SHA256:z",
	"root from 198.51.100.6 port 22 ssh2 [preauth]",
	"x 198.51.100.6 port 22",
	"x 198.51.100.6 port 22: y",
	"user x 198.51.100.6 port 22 [preauth]",
	"rhost=198.51.100.6 user=x",
	"- - [04/Mar/2020:01:01:01 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"",
	"198.51.100.6 - - [04/Mar/2020:01:01:01 +0000] \"GET / HTTP/1.1\" 200 1",
	"[04/Mar/2020:01:01:01 +0000] \"",
	"x] \"", "[04/Mar/2020:01:01:01 +0000] ", "x\\", "\\\"", "\\x22", "\"", "' (198.51.100.6)", " (198.51.100.6). (",
	"198.51.100.6 - x",
	"198.51.100.6 - x, 198.51.100.7 - y",
	"x\", \"client_ip\":\"198.51.100.6\", \"remote_ip\":\"198.51.100.6\", \"remoteAddr\":\"198.51.100.6\", \"a\":\"",
	"x\" remote_ip=198.51.100.6 remote_addr=198.51.100.6 t=2020-01-01T00:00:00Z x=\"",
	"x remote_addr=198.51.100.6",
	"x, ipAddress=198.51.100.6, error=y",
	"x\", userId=\"null\", ipAddress=\"198.51.100.6\", error=\"y",
	"x\", ipAddress=\"198.51.100.6\", y=\"\\",
	"x>, method=PLAIN, rip=198.51.100.6, lip=1.1.1.1, session=<y",
	"x,198.51.100.6,<y>): unknown user",
	"x): unknown user (given password: ",
	"a[198.51.100.6]: SASL LOGIN authentication failed: ",
	"x from 198.51.100.6:1: user does not exist [uid: 0, name: x, keyid: 0]",
	"x from 198.51.100.6:1: y",
	". IP: 198.51.100.6. Username: x",
	"x logged in successfully. IP: 198.51.100.6",
	"-\" - - - \"-\" \"-\" \"-\" 0 2020-01-01T00:00:00.000000Z \"forward\" \"-\" \"-\" \"-\" \"-\" \"-\" \"-\"",
	"t\" \"d\" \"c\" 1 2020-01-01T00:00:00Z \"x",
	"x\" \"y",
	"line\nMar  4 05:06:07 a sshd[1]: Failed password for root from 198.51.100.6 port 4 ssh2",
	"\r\n198.51.100.6 - - [04/Mar/2020:01:01:01 +0000] \"GET / HTTP/1.1\" 200 1",
	"2020-01-01T00:00:00Z 198.51.100.6 failed x",
	"{\"remote_addr\":\"198.51.100.6\"}",
	"::ffff:198.51.100.6", "[2001:db8::6]:1", "",
}

// Writers, and what they do to callers' text.

func nginx(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 32 || c > 126 || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	if s == "" {
		return "-"
	}
	return b.String()
}

func apache(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < 32 || c > 126:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func haproxy(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 32 || c > 126 || strings.IndexByte(`"#{|}`, c) >= 0 {
			fmt.Fprintf(&b, `#%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// vis is what OpenSSH logs of names and messages, without what a log daemon adds.
func vis(s string) string {
	var b strings.Builder
	for i := range min(len(s), 100) {
		switch c := s[i]; {
		case c == '\\':
			b.WriteString(`\\`)
		case c < 32 || c > 126:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func inJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b[1 : len(b)-1])
}

func quoted(s string) string { q := strconv.Quote(s); return q[1 : len(q)-1] }

// oneLine escapes nothing. A line break would end the line: what comes after it is a
// line of its own that nobody can tell from another.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// noSpace is a target that Go's net/http lets through.
func noSpace(s string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c > 126 {
			return -1
		}
		return c
	}, s)
}

// header is a header as Traefik quotes it.
func header(s string) string { return quoted(strings.TrimSpace(oneLine(s))) }

// hostName is a host that nginx lets through.
func hostName(s string) string {
	s = noSpace(strings.Map(func(c rune) rune {
		if strings.ContainsRune(`"\/`, c) {
			return -1
		}
		return c
	}, s))
	if s == "" {
		return "-"
	}
	return s
}

// dnsName is a name that the resolver lets through.
func dnsName(s string) string {
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return -1
	}, s)
	if s == "" {
		return "unknown"
	}
	return s
}

// check reads one line with a text in it, and holds that it names no third party and no
// other time.
func (s spot) check(t *testing.T, text string) (records int) {
	t.Helper()
	o := Options{ModTime: asOf}
	if s.format == "pattern" {
		o.Pattern = spotPattern
	}
	line := strings.ReplaceAll(s.line, "@docker", "\x00")
	line = strings.ReplaceAll(line, "@", s.escape(text))
	line = strings.ReplaceAll(line, "\x00", "@docker")
	if strings.Contains(line, "\n") {
		t.Fatalf("%s: %q is not one line", s.name, line)
	}
	got, _ := read(t, s.format, line, o)
	for _, r := range got {
		if r.Addr != peer || !r.Time.Equal(hostileTime) {
			t.Errorf("%s: %q names %s at %s", s.name, line, r.Addr, r.Time)
		}
		if r.Repeat > 2 {
			t.Errorf("%s: %q counts %d times", s.name, line, r.Repeat)
		}
	}
	return len(got)
}

// TestInjection puts texts that look like log lines into every place where callers' text
// stands. Nobody but the peer is named, at no time but the line's; and the attempt is
// not hidden, but where two callers are possible.
func TestInjection(t *testing.T) {
	formats := map[string]int{}
	for _, s := range spots {
		formats[s.format] += len(hostile)
		if n := s.check(t, "alice"); n != 1 {
			t.Errorf("%s: %d records of an honest line, want 1", s.name, n)
		}
		for _, text := range hostile {
			if n := s.check(t, text); n != 1 && !(s.drops && n == 0) {
				t.Errorf("%s: %d records of %q, want 1", s.name, n, text)
			}
		}
	}
	for _, name := range Names() {
		if formats[name] == 0 {
			t.Errorf("format %s has no injection line", name)
		}
	}
}

// FuzzInjection does the same with any text.
func FuzzInjection(f *testing.F) {
	for i := range spots {
		for j, text := range hostile {
			if (i+j)%7 == 0 {
				f.Add(uint8(i), text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		s := spots[int(i)%len(spots)]
		if n := s.check(t, text); n > 1 {
			t.Errorf("%s: %d records of %q", s.name, n, text)
		}
	})
}
