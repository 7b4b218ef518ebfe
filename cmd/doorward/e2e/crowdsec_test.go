package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/trace"
)

// CrowdSec reads a log with the recipe's parser and scenarios, and tells its local API, which
// is the test, whom it would ban: who goes on while locked out, and nobody whose
// address is only written in what others send.
func TestCrowdSec(t *testing.T) {
	program := need(t, "crowdsec")
	const hub = "/usr/share/crowdsec/hub"
	const recipe = "../../../docs/recipes/crowdsec"
	at := time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	var text []byte
	say := func(n int, client, per, lie string) {
		for range n {
			at = at.Add(time.Second)
			r := trace.Record{Time: at, Event: trace.Refused, Door: "login", Realm: "accounts", Client: netip.MustParsePrefix(client), How: clientip.Header,
				Subject: trace.Hash{1}, Rule: "burst", Per: per, Reason: doorward.Locked, RetryAfter: time.Minute, Method: "POST", Path: "/login/" + lie, Agent: lie}
			text = r.AppendLine(text)
		}
	}
	for _, lie := range lies() {
		say(1, intruder+"/32", "network", lie)
	}
	for _, lie := range lies() {
		say(3, "198.51.100.8/32", "subject", lie) // an account that others locked
	}
	say(9, bystander+"/32", "network", "")
	say(12, "2001:db8:5:6::/64", "network", bystander)
	say(12, "192.0.2.0/24", "network", "") // redacted
	say(12, "2001:db8::/48", "network", "")
	dir := t.TempDir()
	log := put(t, filepath.Join(dir, "audit.log"), string(text))

	var mu sync.Mutex
	var banned []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/watchers/login":
			fmt.Fprintf(w, `{"code": 200, "expire": %q, "token": "t"}`, time.Now().Add(time.Hour).Format(time.RFC3339))
		case "/v1/alerts":
			var alerts []struct {
				Scenario string
				Source   struct{ Scope, Value string }
			}
			if err := json.NewDecoder(r.Body).Decode(&alerts); err != nil {
				t.Error(err)
			}
			mu.Lock()
			for _, a := range alerts {
				banned = append(banned, strings.Join([]string{a.Scenario, a.Source.Scope, a.Source.Value}, " "))
			}
			mu.Unlock()
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `["1"]`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	defer api.Close()

	etc := filepath.Join(dir, "etc")
	for _, d := range []string{"parsers/s00-raw", "parsers/s01-parse", "parsers/s02-enrich", "scenarios", "patterns", "notifications", "plugins", "data", "hub"} {
		if err := os.MkdirAll(filepath.Join(etc, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{
		hub + "/.index.json": "hub/.index.json",
		hub + "/parsers/s00-raw/crowdsecurity/syslog-logs.yaml":         "parsers/s00-raw/syslog-logs.yaml",
		hub + "/parsers/s02-enrich/crowdsecurity/dateparse-enrich.yaml": "parsers/s02-enrich/dateparse-enrich.yaml",
		recipe + "/parser.yaml":   "parsers/s01-parse/doorward.yaml",
		recipe + "/scenario.yaml": "scenarios/doorward.yaml",
	} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if strings.HasSuffix(from, "syslog-logs.yaml") { // its first half needs patterns, and reads syslog
			_, text, _ = strings.Cut(text, "\n---\n")
		}
		put(t, filepath.Join(etc, to), text)
	}
	// The recipe's source of lines, with the log of the test in the place of the real one.
	b, err := os.ReadFile(recipe + "/acquis.yaml")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(etc, "acquis.yaml"), strings.Replace(string(b), "/var/log/doorward/audit.log", log, 1))
	put(t, filepath.Join(etc, "simulation.yaml"), "simulation: false\n")
	put(t, filepath.Join(etc, "credentials.yaml"), "url: "+api.URL+"/\nlogin: test\npassword: test\n")
	config := put(t, filepath.Join(etc, "config.yaml"), strings.ReplaceAll(`
common: {daemonize: false, log_media: stdout, log_level: info, working_dir: ETC}
config_paths: {config_dir: ETC, data_dir: ETC/data, simulation_path: ETC/simulation.yaml, hub_dir: ETC/hub, index_path: ETC/hub/.index.json, notification_dir: ETC/notifications, plugin_dir: ETC/plugins}
crowdsec_service: {acquisition_path: ETC/acquis.yaml, parser_routines: 1}
cscli: {output: human}
db_config: {type: sqlite, db_path: ETC/data/crowdsec.db}
api: {client: {insecure_skip_verify: false, credentials_path: ETC/credentials.yaml}}
prometheus: {enabled: false}
`, "ETC", etc))
	run := func(args ...string) string {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, append([]string{"-c", config, "-no-api"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("crowdsec: %v\n%s", err, out)
		}
		return string(out)
	}
	run("-t") // the source of lines as well
	out := run("-dsn", "file://"+log, "-type", "doorward")
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(banned)
	want := []string{"doorward/locked-out Ip " + intruder, "doorward/locked-out-ipv6 Range 2001:db8:5:6::/64"}
	if !slices.Equal(banned, want) {
		t.Errorf("banned %q, want %q\n%s", banned, want, out)
	}
}
