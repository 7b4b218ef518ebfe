package reader

import (
	"slices"
	"strings"
	"testing"
)

// TestServices: what each line says, in full.
func TestServices(t *testing.T) {
	const at = "2026-03-04T05:06:07Z 192.0.2.1 "
	for _, row := range []struct{ format, line, want string }{
		{"caddy", `{"ts":1772600767.25,"request":{"remote_ip":"198.51.100.1","client_ip":"192.0.2.1","method":"POST","host":"a.example","uri":"/login?x","headers":{"User-Agent":["curl/8"]}},"user_id":"bob","status":302,"resp_headers":{"Location":["/home"]}}`,
			`2026-03-04T05:06:07.25Z 192.0.2.1 POST a.example/login?x 302 user="bob" agent="curl/8" location="/home"`},
		{"caddy", `{"ts":"2026-03-04T05:06:07Z","request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/"},"status":200}`, at + "GET / 200"},
		{"caddy", `{"ts":1772600767,"request":{"remote_addr":"192.0.2.1:99","method":"GET","uri":"/"},"status":200}`, at + "GET / 200"},
		{"caddy", `{"ts":1772600767,"request":{"remote_ip":"","uri":"/"},"status":200}`, "no address"},
		{"caddy", `{"ts":"soon","request":{"remote_ip":"192.0.2.1","uri":"/"},"status":200}`, "no time"},
		{"caddy", `{"ts":1772600767,"msg":"x"}`, "not an attempt"},
		{"caddy", `{"ts":1772600767,"requ`, "cut off"},
		{"caddy", `06:07","request":{}}`, "unreadable"},
		{"traefik", `{"ClientHost":"192.0.2.1","ClientUsername":"bob","DownstreamStatus":302,"RequestHost":"a.example","RequestMethod":"POST","RequestPath":"/login","StartUTC":"2026-03-04T05:06:07Z","request_User-Agent":"curl/8","downstream_Location":"/home"}`,
			at + `POST a.example/login 302 user="bob" agent="curl/8" location="/home"`},
		{"traefik", `192.0.2.1 - bob [04/Mar/2026:05:06:07 +0000] "GET /a HTTP/2" 200 9 "-" "curl \"8\"" 1 "r@docker" "http://10.0.0.1:80" 3ms`, at + `GET /a 200 user="bob" agent="curl \"8\""`},
		{"traefik", `192.0.2.1 - - [04/Mar/2026:05:06:07 +0000] "GET /a HTTP/2" 200 9 "-" "-" 1 "r@doc`, "cut off"},
		{"envoy", `{"start_time":"2026-03-04T05:06:07Z","downstream_remote_address":"192.0.2.1:9","method":"POST","authority":"a.example","path":"/login","response_code":401,"user_agent":"curl/8","x_forwarded_for":"198.51.100.6"}`, at + `POST a.example/login 401 agent="curl/8"`},
		{"haproxy", `192.0.2.1:9 [04/Mar/2026:05:06:07.000] f~ b/<NOSRV> -1/-1/-1/-1/0 400 9 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"`, at + "  400"},
		{"haproxy", `192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/-1/1 -1 0 - - CD-- 1/1/0/0/0 0/0 {a b|c} "GET /x HTTP/1.1"`, at + "GET /x 0"},
		{"haproxy", `192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/1 9 -- 1/1/0/0/0 0/0`, "not an attempt"},
		{"haproxy", `192.0.2.1:9 [04/Mar/2026:05:06:07.000] f/1: SSL error`, "not an attempt"},
		{"haproxy", `192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 200 9 - - ---- 1/1/0/0/0 0/0 "GET /x"` + "\r", at + "GET /x 200"},
		{"haproxy", `<134>Mar  4 05:06:07 haproxy[1]: 192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 200 9 - - ---- 1/1/0/0/0 0/0 "GET /x HTTP/1.1"`, at + "GET /x 200"},
		{"haproxy", `{"log":"192.0.2.1:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 200 9 - - ---- 1/1/0/0/0 0/0 \"GET /x\"\n","stream":"stdout"}`, at + "GET /x 200"},
		{"haproxy", `unix@:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 200 9 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`, "no address"},
		{"alb", `https 2026-03-04T05:06:08.000000Z app/a/1 192.0.2.1:9 - -1 -1 -1 302 - 9 9 "POST https://a.example:443/login HTTP/2.0" "curl/8" x y arn "-" "-" "-" 0 2026-03-04T05:06:07.000000Z "redirect" "https://a.example/" "-" "-" "-" "-" "-"`,
			at + `POST https://a.example:443/login 302 agent="curl/8" location="https://a.example/"`},
		{"alb", `https 2026-03-04T05:06:08.000000Z app/a/1 192.0.2.1:9 - -1 -1 -1 302 - 9 9 "POST https://a.example:443/lo`, "cut off"},

		{"doorward", `{"time":"2026-03-04T05:06:07.000000Z","event":"settled","door":"login","client":"192.0.2.1","how":"peer","subject":"000102030405060708090a0b0c0d0e0f","outcome":"succeeded","agent":"curl/8"}`,
			at + `doorward succeeded user="000102030405060708090a0b0c0d0e0f" agent="curl/8"`},
		{"doorward", `{"time":"2026-03-04T05:06:07.000000Z","event":"refused","door":"login","client":"192.0.2.1","how":"peer","rule":"burst","reason":"locked"}`, at + "doorward failed"},
		{"doorward", `{"time":"2026-03-04T05:06:07.000000Z","event":"settled","door":"login","client":"2001:db8::/64","how":"peer","outcome":"void"}`, "2026-03-04T05:06:07Z 2001:db8:: doorward void"},
		{"doorward", `{"time":"2026-03-04T05:06:07.000000Z","event":"settled","door":"login","client":"192.0.2.1","how":"peer","outcome":"exempt"}`, "not an attempt"},
		{"doorward", `{"time":"2026-03-04T05:06:07.000000Z","event":"locked","door":"login","client":"192.0.2.1","how":"peer"}`, "not an attempt"},
		{"doorward", `{"time":"2026-03-04T05:06:07.000000Z","event":"settled","door":"lo`, "cut off"},
		{"doorward", `{"event":"settled"}`, "unreadable"},

		{"dovecot", `Mar  4 05:06:07 a dovecot: imap-login: Disconnected (auth failed, 3 attempts in 9 secs): user=<bob>, method=PLAIN, rip=192.0.2.1, lip=198.51.100.1`, at + `dovecot failed x3 user="bob"`},
		{"dovecot", `Mar  4 05:06:07 a dovecot[1]: pop3-login: Info: Login: user=<bob>, method=PLAIN, rip=192.0.2.1, lip=198.51.100.1, mpid=18`, at + `dovecot succeeded user="bob"`},
		{"dovecot", `Mar  4 05:06:07 a dovecot: pop3-login: Disconnected (no auth attempts in 9 secs): user=<>, rip=192.0.2.1, lip=198.51.100.1`, "not an attempt"},
		{"dovecot", `Mar  4 05:06:07 a dovecot: auth: passwd-file(bob,192.0.2.1): unknown user`, at + `dovecot failed user="bob"`},
		{"dovecot", "Mar  4 05:06:07 a dovecot: auth-worker(1): pam(bob,192.0.2.1): unknown user\n" +
			"Mar  4 05:06:07 a dovecot: imap-login: Disconnected (auth failed, 1 attempts): user=<bob>, rip=192.0.2.1, lip=198.51.100.1", at + `dovecot failed user="bob"`},
		{"dovecot", `Mar  4 05:06:07 a dovecot: imap-login: Disconnected (auth failed, 1 attempts): user=<bob>, rip=192.0.`, "cut off"},
		{"postfix", `Mar  4 05:06:07 a postfix/submission/smtpd[1]: warning: a.example[192.0.2.1]:4711: SASL PLAIN authentication failed: x, sasl_username=bob`, at + `postfix failed user="bob"`},
		{"postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: 4BW: client=a.example[192.0.2.1], sasl_method=LOGIN, sasl_username=bob`, at + `postfix succeeded user="bob"`},
		{"postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: 4BW: client=a.example[192.0.2.1]`, "not an attempt"},
		{"postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: warning: hostname x does not resolve to address 192.0.2.1`, "not an attempt"},
		{"postfix", `Mar  4 05:06:07 a postfix/qmgr[1]: warning: a[192.0.2.1]: SASL PLAIN authentication failed: x`, "not an attempt"},
		{"vaultwarden", `[2026-03-04 05:06:07.000][vaultwarden::api::identity][INFO] User bob@a.example logged in successfully. IP: 192.0.2.1`, at + `vaultwarden succeeded user="bob@a.example"`},
		{"vaultwarden", `[2026-03-04 05:06:07.000][vaultwarden::api::identity][ERROR] Username or password is incorrect. Try again. IP: 2001:db8::1. Username: bob.`, `2026-03-04T05:06:07Z 2001:db8::1 vaultwarden failed user="bob"`},
		{"vaultwarden", `[2026-03-04 05:06:07.000][start][INFO] Rocket has launched`, "not an attempt"},
		{"vaultwarden", `| IP: 192.0.2.1`, "unreadable"},
		{"nextcloud", `{"time":"2026-03-04T05:06:07+00:00","remoteAddr":"192.0.2.1","message":"Login failed: 'b o' (Remote IP: '192.0.2.1')"}`, at + `nextcloud failed user="b o"`},
		{"nextcloud", `{"time":"2026-03-04T05:06:07+00:00","remoteAddr":"","message":"Login failed: bob (Remote IP: 192.0.2.1)"}`, "no address"},
		{"homeassistant", `2026-03-04 05:06:07 WARNING (MainThread) [homeassistant.components.http.ban] Login attempt or request with invalid authentication from a (192.0`, "cut off"},
		{"homeassistant", `2026-03-04 05:06:07 INFO (MainThread) [homeassistant.core] x`, "not an attempt"},
		{"keycloak", `2026-03-04 05:06:07,000 INFO  [org.keycloak.events] (executor-thread-1) type=LOGIN, realmId=r, clientId=c, userId=u, ipAddress=192.0.2.1, username=bob, x=y`, at + `keycloak succeeded user="bob"`},
		{"keycloak", `2026-03-04 05:06:07,000 INFO  [org.keycloak.events] (executor-thread-1) type="LOGIN", userId="u", ipAddress="192.0.2.1", username="b\"ob"`, at + `keycloak succeeded user="b\\\"ob"`},
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events] (executor-thread-1) type=REFRESH_TOKEN_ERROR, realmId=r, ipAddress=192.0.2.1`, "not an attempt"},
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events] (executor-thread-1) type=LOGIN_ERROR, realmId=r, clientId=x, ipAddress=198.51.100.6, y, ipAddress=192.0.2.1, error=z`, "ambiguous"},
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.services] (executor-thread-1) KC-SERVICES type=LOGIN_ERROR`, "not an attempt"},
		{"gitea", `2026/03/04 05:06:07 ...auth.go:1:SignInPost() [W] Failed authentication attempt for bob from [2001:db8::1]:0: user does not exist [uid: 0, name: bob]`, `2026-03-04T05:06:07Z 2001:db8::1 gitea failed user="bob"`},
		{"gitea", `2026/03/04 05:06:07 ...auth.go:1:SignInPost() [W] Failed authentication attempt for x from 198.51.100.6:1: y from 192.0.2.1:9: z`, "ambiguous"},
		{"gitea", `2026/03/04 05:06:07 ...auth.go:1:SignInPost() [W] Failed authentication attempt for x from 198.51.100.6:1: y from 192.0.2.1:9: z from 192.0.2.1:9: z`, "ambiguous"},
		{"gitea", `2026/03/04 05:06:07 ...web.go:1:Serve() [I] Listen`, "not an attempt"},
		{"authelia", `time="2026-03-04T05:06:07Z" level=debug msg="Successful 1FA authentication attempt made by user 'bob'" method=POST path=/api/firstfactor remote_ip=192.0.2.1`, at + `authelia succeeded user="bob"`},
		{"authelia", `time="2026-03-04T05:06:07Z" level=error msg="Unsuccessful Duo authentication attempt by user 'bob': duo auth result: deny" remote_ip=192.0.2.1`, at + `authelia failed user="bob"`},
		{"authelia", `time="2026-03-04T05:06:07Z" level=error msg="Error occurred getting details for user with username input 'b' which usually indicates they do not exist" error="user not found" remote_ip=192.0.2.1`, at + `authelia failed user="b"`},
		{"authelia", `time="2026-03-04T05:06:07Z" level=error msg="Unsuccessful 1FA authentication attempt by user 'b" remote_ip=192.0.2.1 remote_ip=198.51.100.6`, "ambiguous"},
		{"authelia", `time="2026-03-04T05:06:07Z" level=info msg="Authelia is starting"`, "not an attempt"},
		{"authelia", `time="2026-03-04T05:06:07Z" level=error msg="Unsuccessful 1FA authen`, "cut off"},
		{"authentik", `{"action":"login","client_ip":"192.0.2.1","timestamp":"2026-03-04T05:06:07","user":{"username":"bob"}}`, at + `authentik succeeded user="bob"`},
		{"authentik", `{"action":"invalid_identifier","client_ip":"192.0.2.1","timestamp":"2026-03-04T05:06:07","identifier":"bob"}`, at + `authentik failed user="bob"`},
		{"authentik", `{"action":"logout","client_ip":"192.0.2.1","timestamp":"2026-03-04T05:06:07"}`, "not an attempt"},
		{"grafana", `logger=context userId=0 uname= t=2026-03-04T05:06:07Z level=info msg=Unauthorized error="[password-auth.failed] x" remote_addr=192.0.2.1 traceID=`, at + "grafana failed"},
		{"grafana", `logger=context userId=0 uname= t=2026-03-04T05:06:07Z level=info msg=Unauthorized error="[session.token.rotate] x" remote_addr=192.0.2.1`, "not an attempt"},
		{"grafana", `logger=context t=2026-03-04T05:06:07Z level=info msg="Request Completed" method=GET path=/login status=401 remote_addr=192.0.2.1`, "not an attempt"},
		{"grafana", `logger=http.server t=2026-03-04T05:06:07Z level=info msg="Successful Login" User=admin@localhost`, "no address"},
		// Two lines of one login, and one of another.
		{"grafana", "t=2026-03-04T05:06:07Z msg=Unauthorized error=\"[password-auth.failed] x\" remote_addr=192.0.2.1\n" +
			"t=2026-03-04T05:06:07Z msg=\"Request Completed\" method=POST path=/login status=401 remote_addr=192.0.2.1", at + "grafana failed"},
		{"grafana", "t=2026-03-04T05:06:07Z msg=Unauthorized error=\"[password-auth.failed] x\" remote_addr=192.0.2.1\n" +
			"t=2026-03-04T05:06:10Z msg=\"Request Completed\" method=POST path=/login status=401 remote_addr=192.0.2.1", at + "grafana failed; 2026-03-04T05:06:10Z 192.0.2.1 grafana failed"},
		{"grafana", "t=2026-03-04T05:06:07Z msg=Unauthorized error=\"[password-auth.failed] x\" remote_addr=192.0.2.1\n" +
			"t=2026-03-04T05:06:07Z msg=\"Request Completed\" method=POST path=/login status=401 remote_addr=192.0.2.2", at + "grafana failed; 2026-03-04T05:06:07Z 192.0.2.2 grafana failed"},
		{"grafana", "t=2026-03-04T05:06:07Z msg=Unauthorized error=\"[password-auth.failed] x\" remote_addr=192.0.2.1\n" +
			"t=2026-03-04T05:06:07Z msg=\"Request Completed\" method=POST path=/login status=401 remote_addr=192.0.2.1\n" +
			"t=2026-03-04T05:06:07Z msg=\"Request Completed\" method=POST path=/login status=401 remote_addr=192.0.2.1", at + "grafana failed; " + at + "grafana failed"},
	} {
		if got := one(t, row.format, row.line, Options{}); got != row.want {
			t.Errorf("%s: %s\n got %s\nwant %s", row.format, row.line, got, row.want)
		}
	}
}

// TestOtherLines: what other parts of a service log of what callers sent is no attempt of
// anybody.
func TestOtherLines(t *testing.T) {
	for _, row := range []struct{ format, line string }{
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.services] (executor-thread-1) x) type=LOGIN_ERROR, realmId=r, ipAddress=198.51.100.6, error=y`},
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.services] (executor-thread-1) [org.keycloak.events] (x) type=LOGIN_ERROR, ipAddress=198.51.100.6, error=y`},
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.services] (executor-thread-1) type=LOGIN_ERROR, realmId=r, ipAddress=198.51.100.6, error=y`},
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events] (executor-thread-1) x) type=LOGIN_ERROR, realmId=r, ipAddress=198.51.100.6, error=y`},
		{"keycloak", `2026-03-04 05:06:07,000 WARN  [org.keycloak.events.x] (executor-thread-1) type=LOGIN_ERROR, ipAddress=198.51.100.6, error=y`},
		{"gitea", `2026/03/04 05:06:07 ...logger.go:102:func1() [I] router: completed GET /?SignInPost() [I] Failed authentication attempt for a from 198.51.100.6:1: x`},
		{"gitea", `2026/03/04 05:06:07 ...auth.go:1:SignInPost() [I] x Failed authentication attempt for a from 198.51.100.6:1: x`},
		{"postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: improper command pipelining after DATA from unknown[192.0.2.1]: : client=x[198.51.100.6], sasl_method=PLAIN, sasl_username=y`},
		{"postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: warning: non-SMTP command from unknown[192.0.2.1]: x[198.51.100.6]: SASL LOGIN authentication failed: y`},
		{"postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: warning: valid_hostname: invalid character 91(decimal): x[198.51.100.6]: SASL LOGIN authentication failed: y`},
		{"postfix", `Mar  4 05:06:07 a postfix/smtpd[1]: NOQUEUE: reject: RCPT from unknown[192.0.2.1]: 554 x; helo=<: client=x[198.51.100.6], sasl_method=PLAIN>`},
		{"dovecot", `Mar  4 05:06:07 a dovecot: imap(a-login)<1><x>: Disconnected (auth failed, 1 attempts): user=<x>, rip=198.51.100.6, lip=192.0.2.9`},
		{"dovecot", `Mar  4 05:06:07 a dovecot: imap(a)-login: Disconnected (auth failed, 1 attempts): user=<x>, rip=198.51.100.6, lip=192.0.2.9`},
		{"caddy", `{"ts":1772600767,"logger":"http.log.error","request":{"client_ip":"198.51.100.6","method":"GET","uri":"/"},"status":502}`},
		{"vaultwarden", `[2026-03-04 05:06:07.000][request][INFO] GET /x][vaultwarden::api::admin][ERROR] Invalid admin token. IP: 198.51.100.6`},
		{"vaultwarden", `[2026-03-04 05:06:07.000][vaultwarden::api::identity][ERROR] x Invalid admin token. IP: 198.51.100.6`},
		{"homeassistant", `2026-03-04 05:06:07 WARNING (MainThread) [x] [homeassistant.components.http.ban] Login attempt or request with invalid authentication from a (198.51.100.6). (x)`},
		{"nextcloud", `{"time":"2026-03-04T05:06:07+00:00","remoteAddr":"198.51.100.6","message":"x Login failed: bob"}`},
		{"sshd", `Mar  4 05:06:07 a sudo[1]: sshd[1]: Failed password for root from 198.51.100.6 port 9 ssh2`},
		{"sshd", `Mar  4 05:06:07 a sshd[1]: Bad protocol version identification 'Failed password for root from 198.51.100.6 port 9 ssh2' from 192.0.2.1 port 9`},
		{"sshd", `Mar  4 05:06:07 a sshd[1]: User Failed password for x from 198.51.100.6 port 9 ssh2 from 192.0.2.1 not allowed because not listed in AllowUsers`},
		{"sshd", `Mar  4 05:06:07 a sshd[1]: input_userauth_request: invalid user x from 198.51.100.6 port 9 ssh2 [preauth]`},
		{"sshd", `Mar  4 05:06:07 a sshd[1]: Disconnecting: Change of username or service not allowed: (root,ssh-connection) -> (x 198.51.100.6 port 9,ssh-connection) [preauth]`},
		{"grafana", `logger=context t=2026-03-04T05:06:07Z level=info msg="x msg=Unauthorized remote_addr=198.51.100.6" remote_addr=198.51.100.6`},
		{"authelia", `time="2026-03-04T05:06:07Z" level=info msg="x Unsuccessful 1FA authentication attempt by user 'a'" remote_ip=198.51.100.6`},
		{"haproxy", `Mar  4 05:06:07 a haproxy[1]: Server b/s is DOWN 198.51.100.6:9 [04/Mar/2026:05:06:07.000] f b/s 0/0/0/1/1 200 9 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`},
		{"combined", `2026/03/04 05:06:07 [error] 1#1: *1 user "x] " was not found, client: 192.0.2.1, request: "GET /198.51.100.6 - - [04/Mar/2026:05:06:07 +0000] "`},
	} {
		if got := one(t, row.format, row.line, Options{}); strings.Contains(got, "198.51.100.6") {
			t.Errorf("%s: %s\n is read as %s", row.format, row.line, got)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, row := range []struct{ pattern, line, want string }{
		{`(?P<time>\S+) (?P<addr>\S+) (?P<user>.*)`, "2026-03-04T05:06:07Z 192.0.2.1 b ob", `2026-03-04T05:06:07Z 192.0.2.1  failed user="b ob"`},
		{`(?P<time>\S+ \S+) (?P<service>\w+): (?P<outcome>\w+) (?P<addr>\S+)`, "2026-03-04 05:06:07 vpn: Accepted 192.0.2.1:9", "2026-03-04T05:06:07Z 192.0.2.1 vpn succeeded"},
		{`(?P<time>\S+ \S+) (?P<service>\w+): (?P<outcome>\w+) (?P<addr>\S+)`, "2026-03-04 05:06:07 vpn: Denied 192.0.2.1:9", "2026-03-04T05:06:07Z 192.0.2.1 vpn failed"},
		{`(?P<addr>\S+) (?P<time>\S+) (?P<method>\S+) (?P<host>\S+) (?P<target>\S+) (?P<status>\d+) (?P<location>\S+) (?P<agent>.*)`, "192.0.2.1 1772600767.5 POST a.example /login 302 /home curl", `2026-03-04T05:06:07.5Z 192.0.2.1 POST a.example/login 302 agent="curl" location="/home"`},
		{`(?P<time>\S+) (?P<addr>\S+)`, "2026-03-04T05:06:07Z 192.0.2.1 more", "not an attempt"},
		{`(?P<time>\S+) (?P<addr>\S+)`, "more 2026-03-04T05:06:07Z 192.0.2.1", "not an attempt"},
		{`a|(?P<time>\S+) (?P<addr>\S+)`, "a", "no time"},
		{`(?P<time>\S+) (?P<addr>\S+)`, "yesterday!! 192.0.2.1", "no time"},
		{`(?P<time>\S+) (?P<addr>\S+)`, "2026-03-04T05:06:07Z host", "no address"},
	} {
		if got := one(t, "pattern", row.line, Options{Pattern: row.pattern}); got != row.want {
			t.Errorf("%s: %s\n got %s\nwant %s", row.pattern, row.line, got, row.want)
		}
	}
	for _, row := range []struct{ pattern, want string }{
		{`(`, "reader: Pattern must be a regular expression: error parsing regexp: missing closing ): `(`"},
		{`x)(?:y`, "reader: Pattern must be a regular expression: error parsing regexp: unexpected ): `x)(?:y`"},
		{`(?P<time>x)`, "reader: Pattern must have a group (?P<addr>...), got \"(?P<time>x)\""},
		{`(?P<addr>x)`, "reader: Pattern must have a group (?P<time>...), got \"(?P<addr>x)\""},
		{`(?P<time>x)(?P<addr>x)(?P<ip>x)`, `reader: Pattern must have groups of the names time, addr, user, method, host, target, status, agent, location, outcome, service, got "ip"`},
		{`(?P<time>x)(?P<addr>x)(?P<method>x)`, "reader: Pattern must have the groups method and target both, or neither, got one"},
		{`(?P<time>x)(?P<addr>x)(?P<status>x)`, "reader: Pattern must have the groups method and target where it has status, got neither"},
		{`(?P<time>x)(?P<addr>x)(?P<method>x)(?P<target>x)(?P<outcome>x)`, "reader: Pattern must have the group outcome, or method and target, got all"},
	} {
		if _, err := New("pattern", Options{Pattern: row.pattern}); err == nil || err.Error() != row.want {
			t.Errorf("%s\n got %v\nwant %s", row.pattern, err, row.want)
		}
	}
	if _, err := New("pattern", Options{Pattern: `(?P<time>x)(?P<addr>x)|(?P<addr>y)`}); err == nil || !strings.Contains(err.Error(), "addr") {
		t.Errorf("the same group twice: got %v", err)
	}
}

// TestManyTries: a line that could be read in more ways than are looked at names nobody.
func TestManyTries(t *testing.T) {
	for _, row := range []struct{ spot, text string }{
		{"sshd: Failed, with a key", " from 192.0.2.1 port 4 ssh2"},
		{"Traefik, common: user", " - "},
		{"Dovecot: worker", ",192.0.2.1): "},
		{"Gitea: another reason", " from 192.0.2.1:9: "},
	} {
		s := spots[slices.IndexFunc(spots, func(s spot) bool { return s.name == row.spot })]
		line := strings.ReplaceAll(s.line, "@docker", "docker")
		for n, want := range map[int]int{maxTries / 2: 1, maxTries: 0} {
			got, skips := read(t, s.format, strings.ReplaceAll(line, "@", strings.Repeat(row.text, n)), Options{ModTime: asOf})
			if len(got) != want || want == 0 && skips[Ambiguous] != 1 {
				t.Errorf("%s: %d times %q gives %d records and %v, want %d", s.name, n, row.text, len(got), skips, want)
			}
		}
	}
}
