package config

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/certs"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	upstreams "github.com/doorward/doorward/cmd/doorward/internal/upstream"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
	"github.com/doorward/doorward/redisstore"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

const day = 24 * time.Hour

func networks(text ...string) (list []netip.Prefix) {
	for _, s := range text {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

func one(status int) outcome.Statuses { return outcome.Statuses{{First: status, Last: status}} }

// Every key that there is, read into the one field that it is for; see keys_test.go.
const full = `
listen:
  - "[::1]:9000"
  - {address: "unix:run/doorward.sock", mode: "0600", proxy_protocol: required}
  - {address: ":9001", proxy_protocol: required, trusted: [10.0.0.1/32, "2001:db8::1/128"]}
  - {address: ":9002", redirect: "https://www.example.com:8443"}
  - address: :9443
    tls: [{cert_file: testdata/first.pem, key_file: testdata/first.key}, {cert_file: testdata/second.pem, key_file: testdata/second.key}]
  - {address: "127.0.0.1:9444", proxy_protocol: refused, tls: {cert_file: testdata/second.pem, key_file: testdata/second.key}}
upstream: https://app.example:8443/
health: {path: /healthz?deep=1, every: 10s, timeout: 3s, statuses: [200, 204], unhealthy_after: 3, healthy_after: 1}
reuse: {idle: 4s, reads_bodies: false, spare: 8}
clients:
  header: Forwarded
  trusted_proxies: [10.0.0.0/8, "2001:db8::/32"]
  trust_unix: true
realms:
  accounts:
    preset: password_reset
    exempt: [192.0.2.0/24]
    blocked: [198.51.100.0/24]
    when_store_is_away: open
  codes:
    rules: [{name: hour, per: network, window: {limit: 20, window: 1h}}]
doors:
  - name: login
    routes: ["POST /login", 'POST /api/token']
    ignore_case: true
    when: basic_auth
    subject: {form: "user[name]"}
    subject_optional: true
    challenge: {header: x-challenge}
    outcome:
      failed: {status: [401, 403], set_cookie: flash, location: /login}
      succeeded: {status: 2xx, set_cookie: session, location: /home}
      void: {status: [502-503]}
      header: true
    rules:
      - {name: burst, per: network, lockout: {free_failures: 5, window: 1m, first_lockout: 1m, max_lockout: 1h}}
      - name: day
        per: network
        on_success: clear
        shadow: true
        lockout:
          free_failures: 20
          window: 1d
          first_lockout: 30s
          max_lockout: 1d12h
          decay: true
          lease: 40s
          capacity: 1000
          in_flight: 100
      - {per: network6/48, on_success: by_key, shadow: false, step_up: false, lockout: {free_failures: 200, window: 24h, first_lockout: 1m, max_lockout: 15m, decay: true}}
      - {per: network4/24, lockout: {free_failures: 200, window: 24h, first_lockout: 1m, max_lockout: 15m, decay: true}}
      - {per: everyone, lockout: {free_failures: 65535, window: 24h, first_lockout: 1m, max_lockout: 15m, decay: true}}
      - {per: network, throttle: {per_source: 15, global: 60, window: 1h, sources: 1000, in_flight: 100}}
      - {per: network6/32, throttle: {}}
      - {per: pair, window: {limit: 3, window: 1d, sliding: true, capacity: 1000, in_flight: 100}}
      - {per: challenge, window: {}}
      - {per: subject, step_up: true, lockout: {free_failures: 100, window: 30d, first_lockout: 30d, max_lockout: 30d}}
      - {per: device, lockout: {free_failures: 10, window: 24h, first_lockout: 30s, max_lockout: 15m}}
    exempt: [192.0.2.0/24]
    blocked: ["::/0"]
    when_store_is_away: closed
    max_body: 1MiB
    max_in_flight: 100
  - name: other
    routes: [/other]
    outcome: {header: true}
  - {name: reset, routes: [POST /reset], realm: accounts, subject: {json: user.email}, outcome: {header: true}}
  - {name: mail, routes: [/reset], realm: accounts, subject: {query: user}, outcome: {header: true}}
  - {name: phone, routes: [/phone], realm: accounts, subject: {header: X-Phone}, outcome: {header: true}}
  - {name: code, routes: ["/verify/{id}"], realm: codes, subject: {path: "/verify/{id}"}, outcome: {header: true}}
  - {name: accounts/token, routes: [/token], preset: login, subject: {basic_auth: true}, outcome: {header: true}}
devices:
  key_files: [testdata/new.key, testdata/old.key]
  cookie: __Host-device
  ttl: 30d
store:
  redis:
    addresses: ["10.0.0.1:6379", "[2001:db8::1]:6379"]
    username: doorward
    password_file: testdata/tokens
    secret_file: testdata/new.key
    tls: {ca_file: testdata/second.pem, cert_file: testdata/first.pem, key_file: testdata/first.key, server_name: redis.example.com}
    deadline: 20ms
    partitions: 16
    prefix: "site:"
    db: 3
    insecure_allow_eviction: true
audit: {file: testdata/audit.log, mode: "0640", key_file: testdata/old.key, attempts: true, redact: {ipv4: 24, ipv6: 48}, request: false, burst: 50, per_second: 5, max_size: 1MiB, keep: 2}
admin:
  listen: [unix:run/admin.sock, "[::1]:9180", "127.0.0.1:9181"]
  token_files: [testdata/tokens]
  tls: {cert_file: testdata/first.pem, key_file: testdata/first.key, client_ca_file: testdata/second.pem}
  hosts: [Admin.example.com]
log: {format: json, level: debug}
timeouts: {read_header: 1s, body: 2s, upstream_response: 39s, write: 6s, idle: 3s, shutdown: 4s}
limits: {header_bytes: 16KiB, body_bytes: 1000, connections: 5000, connections_per_network: 50, in_flight: 200}
`

func ascending(first byte, n int) (b []byte) {
	for i := range n {
		b = append(b, first+byte(i))
	}
	return b
}

func descending(first byte, n int) (b []byte) {
	for i := range n {
		b = append(b, first-byte(i))
	}
	return b
}

func certificate(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFull(t *testing.T) {
	first := certs.Files{Cert: "testdata/first.pem", Key: "testdata/first.key"}
	second := certs.Files{Cert: "testdata/second.pem", Key: "testdata/second.key"}
	accounts := guard.PasswordReset
	accounts.Exempt, accounts.Blocked = networks("192.0.2.0/24"), networks("198.51.100.0/24")
	simple := func(d Door) Door {
		d.Outcome, d.MaxBody, d.MaxInFlight = outcome.Rules{Header: true}, 1000, 200
		return d
	}
	want := Config{
		Listen: []Listener{
			{Network: "tcp", Address: "[::1]:9000"},
			{Network: "unix", Address: "run/doorward.sock", Mode: 0o600, ProxyProtocol: true},
			{Network: "tcp", Address: ":9001", ProxyProtocol: true, Trusted: networks("10.0.0.1/32", "2001:db8::1/128")},
			{Network: "tcp", Address: ":9002", Redirect: true, RedirectTo: &url.URL{Scheme: "https", Host: "www.example.com:8443"}},
			{Network: "tcp", Address: ":9443", TLS: []certs.Files{first, second}},
			{Network: "tcp", Address: "127.0.0.1:9444", TLS: []certs.Files{second}},
		},
		Upstreams: []*url.URL{{Scheme: "https", Host: "app.example:8443"}},
		Health: &upstreams.Health{Path: "/healthz?deep=1", Every: 10 * time.Second, Timeout: 3 * time.Second,
			Statuses: append(one(200), one(204)...), UnhealthyAfter: 3, HealthyAfter: 1},
		Reuse:             upstreams.Reuse{Idle: 4 * time.Second, Spare: 8},
		Clients:           clientip.Config{Header: "Forwarded", Trusted: networks("10.0.0.0/8", "2001:db8::/32"), TrustUnix: true},
		ClientsConfigured: true,
		Doors: []Door{{
			Name:    "login",
			Door:    door.Config{Routes: []string{"POST /login", "POST /api/token"}, IgnoreCase: true, BasicAuth: true},
			Subject: subject.Source{Form: "user[name]"}, SubjectOptional: true, Challenge: subject.Source{Header: "x-challenge"},
			Guard: guard.Config{
				Rules: []guard.Rule{
					{Name: "burst", Lockout: &lockout.Policy{FreeFailures: 5, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour}},
					{Name: "day", OnSuccess: guard.Clear, Action: guard.Shadow, Lockout: &lockout.Policy{
						FreeFailures: 20, Window: day, FirstLockout: 30 * time.Second, MaxLockout: day + 12*time.Hour,
						Decay: true, Lease: 40 * time.Second, Capacity: 1000, InFlight: 100,
					}},
					{V4: -1, V6: 48, Lockout: &lockout.Policy{FreeFailures: 200, Window: day, FirstLockout: time.Minute, MaxLockout: 15 * time.Minute, Decay: true}},
					{V4: 24, V6: -1, Lockout: &lockout.Policy{FreeFailures: 200, Window: day, FirstLockout: time.Minute, MaxLockout: 15 * time.Minute, Decay: true}},
					{Per: guard.Everyone, Lockout: &lockout.Policy{FreeFailures: 65535, Window: day, FirstLockout: time.Minute, MaxLockout: 15 * time.Minute, Decay: true}},
					{Throttle: &throttle.Policy{PerSource: 15, Global: 60, Window: time.Hour, Sources: 1000, InFlight: 100}},
					{V4: -1, V6: 32, Throttle: &throttle.Policy{}},
					{Per: guard.Pair, Window: &window.Policy{Limit: 3, Window: day, Sliding: true, Capacity: 1000, InFlight: 100}},
					{Per: guard.Challenge, Window: &window.Policy{}},
					{Per: guard.Subject, Action: guard.StepUp, Lockout: &lockout.Policy{FreeFailures: 100, Window: 30 * day, FirstLockout: 30 * day, MaxLockout: 30 * day}},
					{Per: guard.Device, Lockout: &lockout.Policy{FreeFailures: 10, Window: day, FirstLockout: 30 * time.Second, MaxLockout: 15 * time.Minute}},
				},
				Exempt:  networks("192.0.2.0/24"),
				Blocked: networks("::/0"),
			},
			Away: redisstore.Closed,
			Outcome: outcome.Rules{
				Failed:    outcome.Conditions{Status: append(one(401), one(403)...), SetCookie: "flash", Location: "/login"},
				Succeeded: outcome.Conditions{Status: outcome.Statuses{{First: 200, Last: 299}}, SetCookie: "session", Location: "/home"},
				Void:      outcome.Statuses{{First: 502, Last: 503}},
				Header:    true,
			},
			MaxBody: 1 << 20, MaxInFlight: 100,
		}, {
			Name:    "other",
			Door:    door.Config{Routes: []string{"/other"}},
			Guard:   guard.Config{Rules: DefaultRules()},
			Outcome: outcome.Rules{Header: true},
			MaxBody: 1000, MaxInFlight: 200,
		},
			simple(Door{Name: "reset", Realm: "accounts", Away: redisstore.FailOpen, Door: door.Config{Routes: []string{"POST /reset"}}, Subject: subject.Source{JSON: "user.email"}, Guard: accounts}),
			simple(Door{Name: "mail", Realm: "accounts", Away: redisstore.FailOpen, Door: door.Config{Routes: []string{"/reset"}}, Subject: subject.Source{Query: "user"}, Guard: accounts}),
			simple(Door{Name: "phone", Realm: "accounts", Away: redisstore.FailOpen, Door: door.Config{Routes: []string{"/phone"}}, Subject: subject.Source{Header: "X-Phone"}, Guard: accounts}),
			simple(Door{Name: "code", Realm: "codes", Door: door.Config{Routes: []string{"/verify/{id}"}}, Subject: subject.Source{Path: "/verify/{id}"}, Guard: guard.Config{
				Rules: []guard.Rule{{Name: "hour", Window: &window.Policy{Limit: 20, Window: time.Hour}}},
			}}),
			simple(Door{Name: "accounts/token", Door: door.Config{Routes: []string{"/token"}}, Subject: subject.Source{BasicAuth: true}, Guard: guard.Login}),
		},
		Devices: &Devices{Keys: Keys{ascending(0, 32), descending(255, 40)}, Cookie: "__Host-device", TTL: 30 * day},
		Store: &Store{
			Redis: redisstore.Options{
				Addresses: []string{"10.0.0.1:6379", "[2001:db8::1]:6379"}, Username: "doorward", PasswordFile: "testdata/tokens",
				Deadline: 20 * time.Millisecond, Partitions: 16, Prefix: "site:", DB: 3, InsecureAllowEviction: true,
			},
			Secret: Keys{ascending(0, 32)},
			TLS:    &StoreTLS{CAs: []*x509.Certificate{certificate(t, second.Cert)}, Cert: first, ServerName: "redis.example.com"},
		},
		Audit: &Audit{File: "testdata/audit.log", Mode: 0o640, Key: Keys{descending(255, 40)}, Attempts: true, V4: 24, V6: 48,
			Burst: 50, PerSecond: 5, MaxSize: 1 << 20, Keep: 2},
		Admin: &Admin{
			Listen: []Listener{
				{Network: "unix", Address: "run/admin.sock", Mode: 0o600}, {Network: "tcp", Address: "[::1]:9180"}, {Network: "tcp", Address: "127.0.0.1:9181"},
			},
			Tokens:    Tokens{sha256.Sum256([]byte("0123456789abcdef0123456789abcdef")), sha256.Sum256([]byte("fedcba9876543210fedcba9876543210"))},
			TLS:       []certs.Files{first},
			ClientCAs: []*x509.Certificate{certificate(t, second.Cert)},
			Hosts:     []string{"admin.example.com"},
		},
		Log:      Log{JSON: true, Level: slog.LevelDebug},
		Timeouts: Timeouts{ReadHeader: time.Second, Body: 2 * time.Second, Response: 39 * time.Second, Write: 6 * time.Second, Idle: 3 * time.Second, Shutdown: 4 * time.Second},
		Limits:   Limits{HeaderBytes: 16 << 10, BodyBytes: 1000, Connections: 5000, PerNetwork: 50, InFlight: 200},
	}
	if got := mustParse(t, full); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDefaults(t *testing.T) {
	t.Setenv(AdminEnv, "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	policy := func(free int, window, first, most time.Duration, decay bool) *lockout.Policy {
		return &lockout.Policy{FreeFailures: free, Window: window, FirstLockout: first, MaxLockout: most, Decay: decay}
	}
	m, h := time.Minute, time.Hour
	want := Config{
		Listen:    []Listener{{Network: "tcp", Address: "127.0.0.1:8080"}},
		Upstreams: []*url.URL{{Scheme: "http", Host: "127.0.0.1:3000"}},
		Reuse:     upstreams.Reuse{Idle: time.Second},
		Doors: []Door{{
			Name: "login",
			Door: door.Config{Routes: []string{"POST /login"}},
			Guard: guard.Config{Rules: []guard.Rule{
				{Name: "burst", Lockout: policy(5, m, m, h, false)},
				{Name: "day", Lockout: policy(20, day, 30*time.Second, 15*m, true)},
				{Name: "site32-day", V4: -1, V6: 32, Lockout: policy(450, day, m, 15*m, true)},
				{Name: "site48-burst", V4: -1, V6: 48, Lockout: policy(40, m, m, h, true)},
				{Name: "site48-day", V4: -1, V6: 48, Lockout: policy(200, day, m, 15*m, true)},
				{Name: "site24-burst", V4: 24, V6: -1, Lockout: policy(40, m, m, h, true)},
				{Name: "site24-day", V4: 24, V6: -1, Lockout: policy(200, day, m, 15*m, true)},
			}},
			Outcome: outcome.Rules{Succeeded: outcome.Conditions{Status: one(302)}},
			MaxBody: 64 << 10, MaxInFlight: 1000,
		}},
		Admin:    &Admin{Default: true, Listen: []Listener{{Network: "unix", Address: "/run/doorward/admin.sock", Mode: 0o600}}},
		Timeouts: Timeouts{ReadHeader: 10 * time.Second, Body: 10 * time.Second, Response: 50 * time.Second, Write: 30 * time.Second, Idle: m, Shutdown: 30 * time.Second},
		Limits:   Limits{HeaderBytes: 32 << 10, BodyBytes: 64 << 10, Connections: 10_000, PerNetwork: 256, InFlight: 1_000},
	}
	if got := mustParse(t, good); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A short lease leaves the upstream less time, and never the whole lease.
func TestResponseFollowsLease(t *testing.T) {
	for _, row := range []struct {
		lease string
		want  time.Duration
	}{{"1m", 50 * time.Second}, {"6s", 5 * time.Second}, {"60ns", 50}} {
		if got := mustParse(t, lock("lease: "+row.lease)).Timeouts.Response; got != row.want {
			t.Errorf("lease %s: response %v, want %v", row.lease, got, row.want)
		}
	}
	long := strings.NewReplacer("window: 1m", "window: 1h", "lease: 1h", "lease: 1h").Replace(lock("lease: 1h"))
	if got := mustParse(t, long).Timeouts.Response; got != 50*time.Second {
		t.Errorf("lease 1h: response %v, want 50s", got)
	}
}

func TestHops(t *testing.T) {
	c := mustParse(t, top("clients: {hops: 2}"))
	if want := (clientip.Config{Header: "X-Forwarded-For", Hops: 2}); !reflect.DeepEqual(c.Clients, want) {
		t.Errorf("got %+v, want %+v", c.Clients, want)
	}
	if c := mustParse(t, top("clients: {}")); !c.ClientsConfigured || c.Clients.Header != "" {
		t.Errorf("clients: {} gave %+v, configured %v", c.Clients, c.ClientsConfigured)
	}
}

func TestDurations(t *testing.T) {
	for _, row := range []struct {
		text string
		want time.Duration
	}{
		{"90s", 90 * time.Second}, {"1h30m", 90 * time.Minute}, {"1d", day}, {"30d", 30 * day}, {"1d12h", 36 * time.Hour},
		{"0d1m", time.Minute}, {"1.5h", 90 * time.Minute}, {"106751d", 106751 * day},
	} {
		if got, ok := ParseDuration(row.text); !ok || got != row.want {
			t.Errorf("%q: %v, %v, want %v", row.text, got, ok, row.want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "1 d", "1d 2h", "1h1d", "1d-1h", "1", "m", "1day", "99999999999d"} {
		if got, ok := ParseDuration(text); ok {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
	for d, want := range map[time.Duration]string{time.Minute: "1m", 90 * time.Minute: "1h30m", day: "1d", 36 * time.Hour: "1d12h", 30*day + time.Second: "30d1s", 61 * time.Second: "1m1s", 0: "0s", 1: "1ns", 10 * time.Minute: "10m", time.Hour + time.Second: "1h0m1s"} {
		if got := ShowDuration(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	const l = "lockout: {free_failures: 5, window: 1m, first_lockout: 1m, max_lockout: 1h}"
	none := func(family string) string {
		return `door "login": ` + family + " callers are not limited: no rule that refuses applies to them"
	}
	for _, row := range []struct {
		text string
		want []string
	}{
		{good, nil},
		{rule("{per: everyone, " + l + "}"), nil},
		{rule("{per: network4/24, " + l + "}"), []string{none("IPv6")}},
		{rule("{per: network6/48, " + l + "}"), []string{none("IPv4")}},
		{rule("{per: network, shadow: true, " + l + "}"), []string{none("IPv4"), none("IPv6")}},
	} {
		if got := mustParse(t, row.text).Warnings(); !slices.Equal(got, row.want) {
			t.Errorf("warnings %q, want %q of\n%s", got, row.want, row.text)
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doorward.yaml")
	if _, err := Load(file, Overrides{}); err == nil || err.Error() != file+": cannot be read: no such file or directory" {
		t.Errorf("error %v", err)
	}
	if _, err := Load(t.TempDir(), Overrides{}); err == nil || !strings.HasSuffix(err.Error(), ": cannot be read: is a directory") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(file, []byte("\xef\xbb\xbf"+strings.ReplaceAll(good, "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, Overrides{Listen: "127.0.0.1:1", LogFormat: "json", LogLevel: "warn"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen[0].String() != "127.0.0.1:1" || !c.Log.JSON || c.Log.Level != slog.LevelWarn {
		t.Errorf("overrides ignored: %+v", c)
	}
}

func TestClosest(t *testing.T) {
	words := []string{"window", "lease", "routes", "on"}
	for name, want := range map[string]string{
		"windw": "window", "widnow": "window", "windows": "window", "wndw": "window", "wdw": "", "leas": "lease", "route": "routes",
		"x": "", "n": "", "no": "on", "": "", strings.Repeat("window", 100): "",
	} {
		if got := Closest(name, words); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
