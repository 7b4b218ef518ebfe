package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/door"
)

// All that a file says arrives at the proxy.
func TestAssemble(t *testing.T) {
	c, err := config.Parse("doorward.yaml", []byte(`
upstream: http://app:3000
clients: {header: X-Real-IP, trust_unix: true}
doors:
  - name: login
    routes: ["POST /login"]
    when: basic_auth
    outcome: {succeeded: {status: 302}}
    max_body: 1000
    max_in_flight: 8
  - name: reset
    routes: ["POST /reset"]
    outcome: {header: true}
    rules: [{name: r, per: everyone, lockout: {free_failures: 1, window: 1h, first_lockout: 1m, max_lockout: 1m, lease: 7s}}]
timeouts: {read_header: 1s, body: 2s, upstream_response: 3s, write: 6s, idle: 4s, shutdown: 5s}
limits: {header_bytes: 6KiB, body_bytes: 7KiB, connections: 9, connections_per_network: 10, in_flight: 11}
`), config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	pc, err := assemble(c, log)
	if err != nil {
		t.Fatal(err)
	}
	if pc.Upstreams[0].String() != "http://app:3000" || !pc.ClientsConfigured || pc.Clients.Header() != "X-Real-Ip" || pc.Log != log {
		t.Errorf("got %+v", pc)
	}
	timeouts := proxy.Timeouts{ReadHeader: time.Second, Body: 2 * time.Second, Response: 3 * time.Second, Write: 6 * time.Second, Idle: 4 * time.Second, Shutdown: 5 * time.Second}
	if pc.Timeouts != timeouts || !reflect.DeepEqual(pc.Limits, proxy.Limits{HeaderBytes: 6 << 10, BodyBytes: 7 << 10, Connections: 9, PerNetwork: 10, InFlight: 11}) {
		t.Errorf("timeouts %+v, limits %+v", pc.Timeouts, pc.Limits)
	}
	if len(pc.Doors) != 2 {
		t.Fatalf("%d doors, want 2", len(pc.Doors))
	}
	login, reset := pc.Doors[0], pc.Doors[1]
	if login.Name != "login" || reset.Name != "reset" || login.MaxBody != 1000 || reset.MaxBody != 7<<10 || login.MaxInFlight != 8 || reset.MaxInFlight != 11 {
		t.Errorf("got %+v and %+v", login, reset)
	}
	bare := door.Request{Method: http.MethodPost, Target: "/login"}
	basic := bare
	basic.Authorization = []string{"Basic YTpi"}
	if login.Match.Match(bare) != door.None || login.Match.Match(basic) != door.Covered || reset.Match.Match(bare) != door.None {
		t.Error("the doors match other requests than they should")
	}
	if login.Guard == reset.Guard || login.Guard.Lease() != time.Minute || reset.Guard.Lease() != 7*time.Second {
		t.Errorf("leases %v and %v", login.Guard.Lease(), reset.Guard.Lease())
	}
	said := map[string][]string{"Doorward-Outcome": {"succeeded"}}
	if login.Outcome.Classify(302, nil).Outcome != doorward.Succeeded || reset.Outcome.Classify(302, nil).Outcome != doorward.Failed ||
		reset.Outcome.Classify(200, said).Outcome != doorward.Succeeded {
		t.Error("the doors read answers otherwise than they should")
	}
	if _, err := proxy.New(pc); err != nil {
		t.Error(err)
	}
}

// Loopback callers that were forwarded are not let in while nobody said who to trust.
func TestAssembleUnconfigured(t *testing.T) {
	c, err := config.Flags{Upstream: "http://app", Doors: []string{"/"}, Succeeded: "302"}.Config()
	if err != nil {
		t.Fatal(err)
	}
	pc, err := assemble(c, slog.New(slog.DiscardHandler))
	if err != nil || pc.ClientsConfigured || pc.Clients.Header() != "" {
		t.Errorf("got %+v, %v", pc, err)
	}
	c.Doors[0].Door.Routes = []string{"x"}
	if _, err := assemble(c, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), `door "default": door: Routes[0]`) {
		t.Errorf("error %v", err)
	}
}

// Doors of one realm share one guard, and devices are known to their guard.
func TestAssembleRealm(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.key"), []byte("MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(filepath.Join(dir, "doorward.yaml"), []byte(`
upstream: http://app:3000
realms: {accounts: {preset: login}}
doors:
  - {name: login, routes: [/login], realm: accounts, subject: {form: user}, outcome: {header: true}}
  - {name: api, routes: [/api, /login], realm: accounts, subject: {json: user}, subject_optional: true, outcome: {header: true}}
  - {name: alone, routes: ["/alone/{user}"], preset: login, subject: {path: "/alone/{user}"}, outcome: {header: true}}
  - {name: code, routes: [/code], preset: one_time_code, subject: {form: user}, challenge: {form: code}, outcome: {header: true}}
devices: {key_files: [a.key], cookie: known, ttl: 1h}
`), config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if doors, rules := count(c); doors != 4 || rules != 8+8+8 {
		t.Errorf("%d doors, %d rules", doors, rules)
	}
	pc, err := assemble(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	login, api, alone, code := pc.Doors[0], pc.Doors[1], pc.Doors[2], pc.Doors[3]
	if login.Guard != api.Guard || login.Guard == alone.Guard {
		t.Error("the doors have other guards than they should")
	}
	if !login.Subject.NeedsBody() || login.Challenge != nil || code.Challenge == nil || login.OptionalSubject || !api.OptionalSubject {
		t.Error("the doors name other subjects than they should")
	}
	if login.PathNames || !alone.PathNames {
		t.Error("the paths of other doors name subjects than should")
	}
	if login.DeviceCookie != "known" || code.Devices == nil || code.DeviceCookie != "known" {
		t.Errorf("cookies %q and %q", login.DeviceCookie, code.DeviceCookie)
	}
	now := time.Unix(1_700_000_000, 0)
	alice := doorward.KeyFromName("alice")
	token, _ := login.Devices.Issue(alice, now)
	for _, row := range []struct {
		door  proxy.Door
		after time.Duration
		want  bool
	}{{api, time.Hour - 1, true}, {api, time.Hour, false}, {alone, 0, false}} {
		if _, ok := row.door.Devices.Verify(token, alice, now.Add(row.after)); ok != row.want {
			t.Errorf("door %s knows the device after %v: %t, want %t", row.door.Name, row.after, ok, row.want)
		}
	}
	if _, err := proxy.New(pc); err != nil {
		t.Error(err)
	}
}
