package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/doorward/doorward/trace"
)

// logrotate renames the audit log as the recipe says, and every line is in one of the files.
func TestLogrotate(t *testing.T) {
	need(t, "logrotate")
	dir := t.TempDir()
	_, upstream := newApp(t)
	addr := freePort(t)
	log := filepath.Join(dir, "audit.log")
	p := start(t, addr, binary, "serve", "--config", put(t, filepath.Join(dir, "doorward.yaml"), `
listen: `+addr+`
upstream: http://`+upstream+`
clients: {}
audit: {file: audit.log, attempts: true}
doors: [{name: login, routes: [/login], outcome: {succeeded: {status: 302}}}]
`))
	text, err := os.ReadFile("../../../docs/recipes/logrotate/doorward")
	if err != nil {
		t.Fatal(err)
	}
	recipe := string(text)
	for from, to := range map[string]string{
		"/var/log/doorward/audit.log":                                   log,
		"systemctl kill --kill-who=main --signal=USR1 doorward.service": "kill -USR1 " + strconv.Itoa(p.cmd.Process.Pid),
	} {
		if !strings.Contains(recipe, from) {
			t.Fatalf("the recipe has no %s", from)
		}
		recipe = strings.Replace(recipe, from, to, 1)
	}
	conf, state := put(t, filepath.Join(dir, "logrotate.conf"), recipe), filepath.Join(dir, "logrotate.state")
	lines := func(name string) (n int, events string) {
		f, err := os.Open(name)
		if err != nil {
			return 0, ""
		}
		defer f.Close()
		for r, err := range trace.Records(f) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			n, events = n+1, events+" "+string(r.Event)
		}
		return n, events
	}
	send(t, addr, "", "/login", "first", "")
	until(t, "a line", func() bool { n, _ := lines(log); return n == 2 })
	tool(t, "logrotate", "-f", "-s", state, conf)
	until(t, "a new file", func() bool { return strings.Contains(p.out.String(), "opened anew") })
	send(t, addr, "", "/login", "second", "")
	until(t, "a line in the new file", func() bool { n, _ := lines(log); return n == 1 })
	if _, events := lines(log + ".1"); events != " started settled" {
		t.Errorf("the old file has%s", events)
	}
	info, err := os.Stat(log)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// Once more, and the oldest is compressed.
	tool(t, "logrotate", "-f", "-s", state, conf)
	until(t, "a new file", func() bool { return strings.Count(p.out.String(), "opened anew") == 2 })
	if _, err := os.Stat(log + ".2.gz"); err != nil {
		t.Error(err)
	}
	if _, events := lines(log + ".1"); events != " settled" {
		t.Errorf("the old file has%s", events)
	}
}
