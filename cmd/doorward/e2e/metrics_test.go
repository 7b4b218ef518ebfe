package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// A sample is one line of a scrape, with the labels that Prometheus adds.
type sample struct {
	name   string
	labels map[string]string
}

var (
	sampleLine = regexp.MustCompile(`^([a-z_:A-Z0-9]+)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// parse reads a scrape.
func parse(t *testing.T, text string) (samples []sample) {
	t.Helper()
	add := func(name, labels string) {
		s := sample{name, map[string]string{"job": "doorward", "instance": "127.0.0.1:9180"}}
		for _, m := range labelPair.FindAllStringSubmatch(labels, -1) {
			s.labels[m[1]] = m[2]
		}
		samples = append(samples, s)
	}
	add("up", "") // Prometheus makes it
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q", line)
		}
		add(m[1], m[2])
	}
	return samples
}

const metricsConfig = `
listen: %s
upstream: http://%s
admin: %s
clients: {header: X-Forwarded-For, trusted_proxies: [127.0.0.1/32]}
state: {file: %s/state, key_file: %s/key, every: 100ms}
audit: {file: %s/audit.log}
doors:
  - name: login
    routes: [POST /login]
    subject: {form: username}
    outcome: {succeeded: {status: 302}}
    blocked: [203.0.113.0/24]
    exempt: [198.51.100.0/24]
    rules:
      - {name: network, per: network, lockout: {free_failures: 3, window: 1h, first_lockout: 1m, max_lockout: 1h}}
      - {name: account, per: subject, lockout: {free_failures: 10, window: 1h, first_lockout: 1m, max_lockout: 1h, decay: true}}
      - {name: dry, per: subject, shadow: true, lockout: {free_failures: 1, window: 1h, first_lockout: 1m, max_lockout: 1h}}
      - {name: mails, per: network4/24, window: {limit: 1000, window: 1h}}
      - {name: all, per: everyone, lockout: {free_failures: 1000, window: 1m, first_lockout: 1m, max_lockout: 1m, decay: true}}
  - name: code
    routes: [POST /code]
    outcome: {succeeded: {status: 302}}
    rules:
      - {name: ceiling, per: network, throttle: {per_source: 5, global: 100, window: 1m}}
`

// scrape is one of a daemon that has let in, refused, locked and reloaded.
func scrape(t *testing.T) string {
	t.Helper()
	_, app := newApp(t)
	dir, addr, admin := t.TempDir(), freePort(t), freePort(t)
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
	p := start(t, addr, binary, "serve", "--config", write("doorward.yaml", fmt.Sprintf(metricsConfig, addr, app, admin, dir, dir, dir)))
	post := func(from, user, password string) {
		r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/login", strings.NewReader("username="+user+"&password="+password))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", from)
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	for range 5 {
		post("192.0.2.1", "alice", "wrong")
	}
	post("192.0.2.2", "alice", "correct+horse")
	post("203.0.113.1", "alice", "wrong")
	post("198.51.100.1", "alice", "wrong")
	// One more is at the door, and sends no more.
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.3\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\na=b")
	get := func() string {
		t.Helper()
		res, err := http.Get("http://" + admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %v", res.StatusCode, err)
		}
		return string(b)
	}
	loaded := regexp.MustCompile(`(?m)^doorward_config_last_reload_success_timestamp_seconds .*$`)
	before := loaded.FindString(get())
	p.cmd.Process.Signal(syscall.SIGHUP)
	var text string
	until(t, "a reload, a state that was saved, and a request at the door", func() bool {
		text = get()
		return strings.Contains(text, "doorward_reloads_total{result=\"done\"} 1\n") &&
			!strings.Contains(text, "doorward_state_saved_timestamp_seconds 0\n") &&
			strings.Contains(text, "doorward_in_flight{door=\"login\"} 1\n")
	})
	if after := loaded.FindString(text); after == before || after == "" {
		t.Errorf("before the reload %q, after it %q", before, after)
	}
	for _, want := range []string{
		`doorward_attempts_total{door="login",outcome="failed"} 3`,
		`doorward_attempts_total{door="login",outcome="succeeded"} 1`,
		`doorward_refusals_total{door="login",per="network",reason="locked",rule="network"} 2`,
		`doorward_refusals_total{door="login",per="",reason="blocked",rule=""} 1`,
		`doorward_exempt_total{door="login"} 1`,
		`doorward_lockouts_total{action="refuse",door="login",per="network",rule="network"} 1`,
		`doorward_keys_locked{action="refuse",guard="login",per="network",rule="network"} 1`,
		`doorward_client_address_total{door="login",how="header"} 8`,
		`doorward_decision_seconds_count{door="login"} 8`,
		`doorward_reloads_total{result="failed"} 0`,
		`doorward_config_last_reload_successful 1`,
		`doorward_log_lines_total{kind="refused"} 3`,
		`doorward_upstream_healthy{upstream="http://` + app + `"} 1`,
		`doorward_in_flight{door="code"} 0`,
		`doorward_state_interval_seconds 0.1`,
		`doorward_build_info{goversion="go`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	return text
}

// scrapeStore is what a daemon shows of a store, whose server is away.
func scrapeStore(t *testing.T) string {
	t.Helper()
	addr := freePort(t)
	file, admin := sharedConfig(t, addr, "127.0.0.1:1", "127.0.0.1:1", "")
	start(t, addr, binary, "serve", "--config", file)
	f := fleet{t: t, admin: []string{admin}}
	var b strings.Builder
	for line := range strings.Lines(f.scrape(0)) {
		if name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "); strings.HasPrefix(name, "doorward_store_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestMetrics: what /metrics of a real daemon says is what the document, the alerts and the
// dashboard say of it, and promtool finds no fault with any of them.
func TestMetrics(t *testing.T) {
	text := scrape(t) + scrapeStore(t)
	if t.Failed() {
		t.FailNow()
	}
	all := parse(t, text)
	t.Run("scrape", func(t *testing.T) { promtool(t, text, "check", "metrics") })
	t.Run("document", func(t *testing.T) { metricsTable(t, text) })
	t.Run("alerts", func(t *testing.T) { alerts(t, all) })
	t.Run("dashboard", func(t *testing.T) { dashboard(t, all) })
	t.Run("uses", uses)
}

// promtool must find no fault.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command(need(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if stdin != "" && len(out) > 0 { // what it has to say of metrics does not always fail
		t.Errorf("promtool %s: %s", strings.Join(args, " "), out)
	}
}

// metricsTable holds that docs/operations.md names each metric of ours.
func metricsTable(t *testing.T, text string) {
	help := regexp.MustCompile(`(?m)^# HELP (doorward_\w+) (.*)\n# TYPE \S+ (\w+)\n(?:doorward_\w+\{(.*)\})?`)
	var rows [][]string
	for _, m := range help.FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, l := range labelPair.FindAllStringSubmatch(m[4], -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		rows = append(rows, []string{"`" + m[1] + "`", m[3], strings.Join(labels, ", "), m[2]})
	}
	if len(rows) != strings.Count(text, "# HELP doorward_") {
		t.Fatalf("%d rows of %d metrics", len(rows), strings.Count(text, "# HELP doorward_"))
	}
	document.Table(t, filepath.Join(docs, "operations.md"), "metrics", rows)
}

// alerts holds that each alert is tested to fire and to be quiet, has a runbook, and asks
// for what is there.
func alerts(t *testing.T, all []sample) {
	dir := filepath.Join(docs, "prometheus")
	promtool(t, "", "check", "rules", filepath.Join(dir, "alerts.yaml"))
	promtool(t, "", "test", "rules", filepath.Join(dir, "alerts_test.yaml"))
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	load(t, filepath.Join(dir, "alerts.yaml"), &rules)
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Alertname string
				Exp       []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	load(t, filepath.Join(dir, "alerts_test.yaml"), &tests)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			fires[a.Alertname] = fires[a.Alertname] || len(a.Exp) > 0
			quiet[a.Alertname] = quiet[a.Alertname] || len(a.Exp) == 0
		}
	}
	operations, err := os.ReadFile(filepath.Join(docs, "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s: no test in which it fires, or none in which it does not", r.Alert)
			}
			if want := "docs/operations.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want || r.Annotations["summary"] == "" {
				t.Errorf("%s: annotations %v, want a summary and runbook %s", r.Alert, r.Annotations, want)
			}
			if !strings.Contains(string(operations), "\n### "+r.Alert+"\n") {
				t.Errorf("docs/operations.md has no %s", r.Alert)
			}
			if s := r.Labels["severity"]; s != "page" && s != "warning" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			wantThere(t, r.Alert, r.Expr, all)
		}
	}
	if headings := strings.Count(string(operations), "\n### Doorward"); headings != n {
		t.Errorf("docs/operations.md has %d alerts, there are %d", headings, n)
	}
}

// dashboard holds that each expression of the dashboard is one, and asks for what is there.
func dashboard(t *testing.T, all []sample) {
	var board struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	text, err := os.ReadFile(filepath.Join(docs, "grafana", "doorward.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	var exprs []string
	var rows []string
	for _, p := range board.Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else if len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	if want := []string{"Attack", "Lockouts", "Tables", "Latency", "Health"}; !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	for _, a := range board.Annotations.List {
		exprs = append(exprs, a.Expr)
	}
	pairs := []string{"$__rate_interval", "1m"}
	asks := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		pairs = append(pairs, "$"+v.Name, ".*")
		m := asks.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("variable %s: %q", v.Name, v.Definition)
			continue
		}
		exprs = append(exprs, fmt.Sprintf("group by (%s) (%s)", m[2], m[1]))
	}
	variables := strings.NewReplacer(pairs...)
	type rule struct{ Record, Expr string }
	var rules []rule
	for i, e := range exprs {
		e = variables.Replace(e)
		if strings.Contains(e, "$") {
			t.Errorf("%s: a variable that is none", e)
		}
		wantThere(t, "dashboard", e, all)
		rules = append(rules, rule{fmt.Sprintf("expression:%d", i), e})
	}
	if len(rules) < 30 {
		t.Errorf("%d expressions", len(rules))
	}
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", name)
}

func load(t *testing.T, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// wantThere holds that every metric of an expression is in all, with labels that it asks
// for.
func wantThere(t *testing.T, where, expr string, all []sample) {
	t.Helper()
	found, err := used(expr)
	if err != nil || len(found) == 0 {
		t.Errorf("%s: %s: %v", where, expr, err)
	}
	for _, u := range found {
		if !slices.ContainsFunc(all, u.matches) {
			t.Errorf("%s: nothing is %s{%s}", where, u.metric, u.selector)
		}
	}
	// Labels that are summed by are there too.
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			label = strings.TrimSpace(label)
			if !slices.ContainsFunc(all, func(s sample) bool {
				_, ok := s.labels[label]
				return ok && slices.ContainsFunc(found, func(u use) bool { return u.metric == s.name })
			}) {
				t.Errorf("%s: %s: no label %s", where, expr, label)
			}
		}
	}
}

// A use is a metric in an expression, with what its labels must be.
type use struct {
	metric, selector string
	matchers         []matcher
}

type matcher struct {
	label  string
	negate bool
	value  *regexp.Regexp
}

func (u use) matches(s sample) bool {
	return s.name == u.metric && !slices.ContainsFunc(u.matchers, func(m matcher) bool {
		return m.value.MatchString(s.labels[m.label]) == m.negate
	})
}

var (
	grouping = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	matching = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	// What is no metric: durations, groupings, functions, numbers, words of the language.
	noMetric = regexp.MustCompile(`\[[^\]]*\]|\b(\w+ )?by \([^)]*\)|\bon \([^)]*\)|\b\w+ ?\(|\b\d[\w.]*|\b(and|or|unless)\b`)
	isMetric = regexp.MustCompile(`([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?`)
)

// used returns the metrics of an expression. Values in it have no braces or brackets.
func used(expr string) (all []use, err error) {
	// Functions go with their "(", a metric is never followed by one.
	quoted := regexp.MustCompile(`\{[^}]*\}`)
	var selectors []string
	bare := quoted.ReplaceAllStringFunc(expr, func(s string) string {
		selectors = append(selectors, s)
		return fmt.Sprintf("{%d}", len(selectors)-1)
	})
	bare = noMetric.ReplaceAllStringFunc(bare, func(s string) string {
		if s[0] >= '0' && s[0] <= '9' && strings.TrimLeft(s, "0123456789") == "" {
			return s // maybe the number of a selector
		}
		return " "
	})
	for _, m := range isMetric.FindAllStringSubmatch(bare, -1) {
		u := use{metric: m[1]}
		if m[2] != "" {
			var i int
			if _, err := fmt.Sscan(m[2], &i); err != nil {
				return nil, err
			}
			u.selector = strings.Trim(selectors[i], "{}")
		}
		for _, p := range matching.FindAllStringSubmatch(u.selector, -1) {
			value := p[3]
			if !strings.HasSuffix(p[2], "~") {
				value = regexp.QuoteMeta(value)
			}
			re, err := regexp.Compile("^(?:" + value + ")$")
			if err != nil {
				return nil, err
			}
			u.matchers = append(u.matchers, matcher{p[1], p[2][0] == '!', re})
		}
		all = append(all, u)
	}
	return all, nil
}

// What finds the metrics of expressions finds wrong ones.
func uses(t *testing.T) {
	all := []sample{{"a_total", map[string]string{"x": "1", "y": "door is full"}}, {"b", map[string]string{}}}
	for _, tt := range []struct {
		expr string
		want string // how often each metric is there
	}{
		{`sum by (x) (rate(a_total{x="1"}[5m])) > 0.9 * b`, "a_total:1 b:1"},
		{`histogram_quantile(0.5, sum by (x, le) (rate(a_total[1m]))) and b or c_total{x!~"2|3"}`, "a_total:1 b:1 c_total:0"},
		{`1 - a_total{y=~"door is full|other", x!="2"} > 1e-3`, "a_total:1"},
		{`a_total{x="2"} / a_total{x=~"1.+"} + a_total{z="1"} unless a_total{x!="1"}`, "a_total:0 a_total:0 a_total:0 a_total:0"},
	} {
		found, err := used(tt.expr)
		if err != nil {
			t.Errorf("%s: %v", tt.expr, err)
		}
		var got []string
		for _, u := range found {
			n := 0
			for _, s := range all {
				if u.matches(s) {
					n++
				}
			}
			got = append(got, fmt.Sprintf("%s:%d", u.metric, n))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.expr, got, tt.want)
		}
	}
}
