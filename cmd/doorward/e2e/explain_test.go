package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What --json prints, field by field: a name that is not here is an error.
type (
	reportJSON struct {
		Secret struct {
			Name     string
			Possible float64
			Live     int
		}
		Doors     []doorJSON
		Elsewhere []struct {
			Name, Key, Settings, Note, Source string
			AtOnce                            mostJSON `json:"at_once"`
			Spans                             []mostJSON
		}
	}
	doorJSON struct {
		Name       string
		Doors      []string
		Rules      []string
		Refuse     []string `json:"rules_that_refuse"`
		Targets    []targetJSON
		FirstWaits []struct {
			Who     string
			After   int64
			Seconds float64 `json:"wait_seconds"`
			Rule    string
			All     bool `json:"right_ones_count"`
		} `json:"first_waits"`
		Closers []struct {
			Rule, Shared, Caller string
			AtOnce               int64 `json:"at_once"`
			Day                  int64 `json:"in_a_day"`
		}
		Warnings   []string
		Weaknesses []struct{ Rule, Text, Fix string }
	}
	targetJSON struct {
		Target  string
		Callers []struct {
			Caller  string
			AtOnce  mostJSON `json:"at_once"`
			Spans   []mostJSON
			LongRun struct {
				PerDay *float64 `json:"per_day"`
				Rule   string
			} `json:"long_run"`
			OnePercent *float64 `json:"one_percent_seconds"`
		}
	}
	mostJSON struct {
		Span     string
		Seconds  float64 `json:"span_seconds"`
		Attempts *int64
		Rule     string
		Played   *int64
		Chance   *float64
	}
)

func explainedJSON(t *testing.T, args string) reportJSON {
	t.Helper()
	out := explained(t, "explain --json "+args)
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	var r reportJSON
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if d.More() {
		t.Errorf("more than one value:\n%s", out)
	}
	return r
}

func is[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestExplainJSON(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "doorward.yaml")
	if err := os.WriteFile(file, []byte(`upstream: http://127.0.0.1:3000
realms:
  accounts:
    rules:
      - {name: burst, per: network4/32, lockout: {free_failures: 5, window: 1m, first_lockout: 1m, max_lockout: 1h}}
      - {name: account, per: subject, lockout: {free_failures: 8, window: 1d, first_lockout: 1d, max_lockout: 1d, decay: true}}
      - {name: mails, per: pair, window: {limit: 2, window: 1h}}
      - {name: trial, per: everyone, shadow: true, window: {limit: 2, window: 1h}}
doors:
  - {name: login, routes: ["POST /login"], realm: accounts, subject: {form: user}, outcome: {header: true}}
  - {name: api, routes: ["POST /api", "PUT /api"], realm: accounts, subject: {json: user}, outcome: {header: true}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := explainedJSON(t, file+" --digits 2 --live 2 --networks 3 --span 1h,1d")
	is(t, "secret", r.Secret.Name, "2 decimal digits")
	is(t, "possible", r.Secret.Possible, 100)
	is(t, "live", r.Secret.Live, 2)
	is(t, "elsewhere", len(r.Elsewhere), 0)
	is(t, "guards", len(r.Doors), 1)
	d := r.Doors[0]
	is(t, "name", d.Name, `realm "accounts"`)
	is(t, "doors", strings.Join(d.Doors, "|"), "login: POST /login|api: POST /api, PUT /api")
	is(t, "rules", strings.Join(d.Rules, " "), "burst account mails trial")
	is(t, "rules that refuse", strings.Join(d.Refuse, " "), "burst account mails")
	is(t, "targets", len(d.Targets), 2)
	is(t, "target", d.Targets[0].Target, "one_subject")
	is(t, "target", d.Targets[1].Target, "every_subject")

	c := d.Targets[0].Callers[0]
	is(t, "caller", c.Caller, "one IPv4 address")
	is(t, "at once, span", c.AtOnce.Span, "")
	is(t, "at once, rule", c.AtOnce.Rule, "mails")
	is(t, "at once", *c.AtOnce.Attempts, 2)
	is(t, "at once, played", *c.AtOnce.Played, 2)
	// One less chance that both are wrong: 98/100 * 97/99.
	if got, want := *c.AtOnce.Chance, 1-98.0/100*97/99; got < want-1e-12 || got > want+1e-12 {
		t.Errorf("chance %v, want %v", got, want)
	}
	is(t, "spans", len(c.Spans), 2)
	is(t, "span", c.Spans[0].Span, "1h")
	is(t, "seconds", c.Spans[0].Seconds, 3600)
	is(t, "in 1h", *c.Spans[0].Attempts, 3)
	is(t, "span", c.Spans[1].Span, "1d")
	is(t, "seconds", c.Spans[1].Seconds, 86400)
	is(t, "in 1d", *c.Spans[1].Attempts, 15)
	is(t, "in 1d, rule", c.Spans[1].Rule, "account")
	is(t, "a day", *c.LongRun.PerDay, 8)
	is(t, "a day, rule", c.LongRun.Rule, "account")
	// One guess has 2 %.
	if *c.OnePercent > 1e-6 {
		t.Errorf("1 %% after %v seconds, want none", *c.OnePercent)
	}

	v6 := d.Targets[1].Callers[2]
	is(t, "caller", v6.Caller, "one IPv6 /64")
	is(t, "botnet", d.Targets[1].Callers[5].Caller, "3 IPv4 addresses")
	is(t, "botnet at once", *d.Targets[1].Callers[5].AtOnce.Attempts, 15)

	is(t, "first waits", len(d.FirstWaits), 3)
	w := d.FirstWaits[0]
	is(t, "who", w.Who, "one person at one account")
	is(t, "after", w.After, 2)
	is(t, "wait", w.Seconds, 3600)
	is(t, "rule", w.Rule, "mails")
	is(t, "right ones count", w.All, true)
	is(t, "who", d.FirstWaits[1].Who, "all at one IPv4 address")
	is(t, "after", d.FirstWaits[1].After, 5)
	is(t, "right ones count", d.FirstWaits[1].All, false)

	is(t, "closers", len(d.Closers), 1)
	is(t, "rule", d.Closers[0].Rule, "account")
	is(t, "shared", d.Closers[0].Shared, "an account")
	is(t, "caller", d.Closers[0].Caller, "IPv4 addresses")
	is(t, "at once", d.Closers[0].AtOnce, 4)
	is(t, "in a day", d.Closers[0].Day, 1)

	is(t, "warnings", strings.Join(d.Warnings, "|"), `realm "accounts": IPv6 callers are not limited: no rule that refuses applies to them`)
	for _, w := range d.Weaknesses {
		if w.Text == "" || w.Fix == "" {
			t.Errorf("weakness %+v", w)
		}
	}
}

// Lists that are empty are lists, and what has no limit is null.
func TestExplainJSONEmpty(t *testing.T) {
	out := explained(t, "explain --preset signup --json")
	for _, key := range []string{"weaknesses", "warnings"} {
		if !strings.Contains(out, `"`+key+`": []`) {
			t.Errorf("%s is not an empty list:\n%s", key, out)
		}
	}
	if strings.Contains(out, "elsewhere") {
		t.Error("elsewhere without --compare")
	}
	r := explainedJSON(t, "--compare --span 1d")
	unlimited := 0
	for _, e := range r.Elsewhere {
		if e.Name == "" || e.Key == "" || e.Settings == "" || e.Source == "" || len(e.Spans) != 1 || (e.AtOnce.Attempts == nil) != (e.AtOnce.Chance == nil) {
			t.Errorf("%+v", e)
		}
		if e.AtOnce.Attempts == nil {
			unlimited++
		}
	}
	if unlimited != 1 || len(r.Elsewhere) < 8 {
		t.Errorf("%d of %d others without a limit, want one", unlimited, len(r.Elsewhere))
	}
}

// At the ends of all flags figures are still numbers: JSON has no other, so writing it
// would fail. Nothing takes long.
func TestExplainExtremes(t *testing.T) {
	for _, args := range []string{
		"--digits 300 --live 100000",
		"--digits 1 --live 10",
		"--digits 5 --live 100000",
		"--bits 1000 --live 100000",
		"--bits 1",
		"--networks 1",
		"--networks 1000000000 --span 1ns,106751d --compare",
		"--digits 300 --compare",
	} {
		for _, preset := range []string{"", " --preset login", " --preset recovery"} {
			if !strings.Contains(args, "--span") {
				preset += " --span 1h"
			}
			r := explainedJSON(t, args+preset)
			for _, target := range r.Doors[0].Targets {
				for _, c := range target.Callers {
					for _, m := range append(c.Spans, c.AtOnce) {
						if *m.Attempts < 0 || *m.Chance < 0 || *m.Chance > 1 || m.Played != nil && *m.Played > *m.Attempts {
							t.Errorf("%s: %s, %s: %d attempts, chance %v", args+preset, target.Target, c.Caller, *m.Attempts, *m.Chance)
						}
					}
				}
			}
			for line := range strings.Lines(explained(t, "explain "+args+preset)) {
				if regexp.MustCompile(`NaN|Inf|%!| -\d`).MatchString(line) {
					t.Errorf("%s prints %s", args+preset, line)
				}
			}
		}
	}
}

// Check and explain warn of the same.
func TestCheckWarnsAsExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	text := `upstream: http://127.0.0.1:3000
realms:
  accounts:
    rules: [{name: v4, per: network4/24, lockout: {free_failures: 5, window: 1m, first_lockout: 1m, max_lockout: 1h}}]
doors:
  - {name: login, routes: ["POST /login"], realm: accounts, outcome: {header: true}}
  - {name: api, routes: ["POST /api"], realm: accounts, subject: {json: user}, outcome: {header: true}}
  - {name: reset, routes: ["POST /reset"], outcome: {header: true}}
`
	if err := os.WriteFile("doorward.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, d := range explainedJSON(t, "doorward.yaml").Doors {
		want = append(want, d.Warnings...)
		for _, w := range d.Weaknesses {
			line := d.Name + ": "
			if w.Rule != "" {
				line += `rule "` + w.Rule + `": `
			}
			want = append(want, line+w.Text+"; "+w.Fix)
		}
	}
	var got []string
	for line := range strings.Lines(explained(t, "check doorward.yaml")) {
		if warning, ok := strings.CutPrefix(strings.TrimSpace(line), "doorward.yaml: warning: "); ok {
			got = append(got, warning)
		}
	}
	if !slices.Equal(got, want) || len(want) < 5 {
		t.Errorf("check warns of\n%s\nexplain of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// One door of the realm says where accounts are named, the third door does not.
	for name, says := range map[string]bool{`realm "accounts"`: false, `door "reset"`: true} {
		if got := slices.ContainsFunc(got, func(w string) bool {
			return strings.HasPrefix(w, name) && strings.Contains(w, "say where requests name the account")
		}); got != says {
			t.Errorf("%s is told to say where requests name the account: %t, want %t", name, got, says)
		}
	}
	for _, w := range []string{`realm "accounts": IPv6 callers are not limited`, `door "api": the subject is read and no rule charges it`} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, w) }) {
			t.Errorf("no warning %q", w)
		}
	}
}
