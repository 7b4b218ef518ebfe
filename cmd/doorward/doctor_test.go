package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var checkAttr = regexp.MustCompile(` check=(\S+)`)

// found returns the checks of the warnings up to a line with text.
func (p *process) found(text string) (checks []string) {
	p.t.Helper()
	for {
		l := p.line("")
		if m := checkAttr.FindStringSubmatch(l); m != nil {
			checks = append(checks, m[1])
		}
		if strings.Contains(l, text) {
			return checks
		}
	}
}

// attempts posts wrong guesses, each with a header and as somebody else, with programs of
// so many names.
func (p *process) attempts(n, agents int, header func(i int) string) {
	p.t.Helper()
	for i := range n {
		r, err := http.NewRequest("POST", "http://"+p.addr+"/login", strings.NewReader(url.Values{"password": {"right"}}.Encode()))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("User-Agent", fmt.Sprintf("browser %d", i%agents))
		if header != nil {
			name, value, _ := strings.Cut(header(i), ": ")
			r.Header.Set(name, value)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			p.t.Fatal(err)
		}
		res.Body.Close()
	}
}

func forwarded(i int) string { return fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i%100) }

// TestDoctorServes: what a real start finds, and what comes before it in a log that is
// clean otherwise. Each row provokes one thing; the first and those around it nothing.
func TestDoctorServes(t *testing.T) {
	const (
		burst = "lockout: {free_failures: 5, window: 1m, first_lockout: 1m, max_lockout: 1h}"
		proxy = "clients: {header: X-Forwarded-For, trusted_proxies: [127.0.0.1/32]}\n"
	)
	for _, row := range []struct {
		name  string
		rules string // "": the default rules
		top   string
		files int
		down  bool
		while func(p *process)
		want  string
	}{
		{name: "clean", while: func(p *process) { p.attempts(60, 10, forwarded) }, top: proxy},
		{name: "clean, one caller", while: func(p *process) { p.attempts(60, 1, nil) }, top: "clients: {}\n"},
		{name: "clean, few people", while: func(p *process) { p.attempts(60, 4, nil) }, top: "clients: {}\n"},
		{name: "clean, forwarded and said not to be", while: func(p *process) { p.attempts(3, 1, forwarded) }, top: "clients: {}\n"},
		{name: "clean, as many files as are needed", files: 200, top: "limits: {connections: 100}\n"},
		{name: "clean, window", rules: "{name: a, per: network, " + burst + "}"},
		{name: "window", rules: "{name: a, per: network, " + strings.Replace(burst, "window: 1m", "window: 59s", 1) + "}", want: "window"},
		{name: "reach", rules: "{name: a, per: network4/24, " + strings.Replace(burst, "max_lockout: 1h", "max_lockout: 1h, decay: true", 1) + "}", want: "reach"},
		{name: "files", files: 199, top: "limits: {connections: 100}\n", want: "files"},
		{name: "upstream", down: true, want: "upstream"},
		{name: "a local proxy", while: func(p *process) { p.attempts(1, 1, forwarded) }, want: "loopback"},
		{name: "a local proxy, silent", while: func(p *process) {
			for range 6 {
				p.login("wrong")
			}
		}, want: "loopback"},
		{name: "one address", while: func(p *process) { p.attempts(60, 5, nil) }, top: "clients: {}\n", want: "one-address"},
		{name: "one address, in time", while: func(p *process) { p.attempts(49, 5, nil) }, top: "clients: {}\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			app := application(t)
			if row.down {
				app = "http://" + deadAddr(t)
			}
			rules := ""
			if row.rules != "" {
				rules = "    rules: [" + row.rules + "]\n"
			}
			file := filepath.Join(t.TempDir(), "doorward.yaml")
			text := "listen: 127.0.0.1:0\nupstream: " + app + "\n" + row.top +
				"doors:\n  - name: login\n    routes: [POST /login]\n    outcome: {succeeded: {status: 302}}\n" + rules
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("doorward", "serve", "--config", file)
			if row.files > 0 {
				cmd = exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d; exec doorward serve --config %s", row.files, file))
			}
			p := run(t, cmd)
			var found []string
			if row.down { // it is looked for beside all else
				found = p.found("cannot be reached")
			}
			if row.while != nil {
				row.while(p)
			}
			p.signal(syscall.SIGTERM)
			found = append(found, p.found("msg=stopped")...)
			p.wantExit(0)
			if got := strings.Join(found, " "); got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}

// deadAddr is one that nothing listens at.
func deadAddr(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestDoctorCommand finds the same without serving, and says so by its exit code.
func TestDoctorCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doorward.yaml")
	config := func(app, rules string) {
		text := "upstream: " + app + "\ndoors:\n  - name: login\n    routes: [POST /login]\n    outcome: {succeeded: {status: 302}}\n" + rules
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config(application(t), "")
	out, err := exec.Command("doorward", "doctor", file).Output()
	if err != nil || string(out) != file+": nothing found\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err = exec.Command("doorward", "doctor", "--json", file).Output()
	if err != nil || string(out) != "[]\n" {
		t.Errorf("%q, %v", out, err)
	}
	config("http://"+deadAddr(t), "    rules: [{name: a, per: network4/24, lockout: {free_failures: 5, window: 1s, first_lockout: 1m, max_lockout: 1h}}]\n")
	cmd := exec.Command("sh", "-c", "ulimit -n 100; exec doorward doctor --json "+file)
	out, err = cmd.Output()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code of %v", err)
	}
	var found []struct{ Check, Text, Fix string }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	var checks []string
	for _, f := range found {
		checks = append(checks, f.Check)
		if f.Text == "" || f.Fix == "" {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(checks, " "); got != "upstream files window reach" {
		t.Errorf("found %s", got)
	}
}

// The wall clock that a program sees is set by SIGUSR2.
const setClock = `package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func init() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	go func() {
		for range c {
			time.SetWall()
		}
	}()
}
`

// TestDoctorClock: somebody sets the clock of a machine by an hour. As no test may do that,
// doorward is built with a package time that can; what keeps lockouts is the same.
func TestDoctorClock(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "time").Output()
	if err != nil {
		t.Fatal(err)
	}
	clock := filepath.Join(strings.TrimSpace(string(out)), "time.go")
	source, err := os.ReadFile(clock)
	if err != nil {
		t.Fatal(err)
	}
	const reads = "sec, nsec, mono := runtimeNow()\n\tif mono == 0"
	if n := strings.Count(string(source), reads); n != 1 {
		t.Fatalf("time.Now reads the clock otherwise in this version of Go (%d places)", n)
	}
	patched := strings.Replace(string(source), reads, "sec, nsec, mono := runtimeNow()\n\tsec += wallSet\n\tif mono == 0", 1) +
		"\nvar wallSet int64\n\n// SetWall sets the wall clock ahead by an hour.\nfunc SetWall() { wallSet += 3600 }\n"
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]string{}
	for place, text := range map[string]string{clock: patched, filepath.Join(here, "setclock.go"): setClock} {
		overlay[place] = filepath.Join(dir, filepath.Base(place))
		if err := os.WriteFile(overlay[place], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "doorward")
	// The same package time has the same place in the build cache.
	if out, err := exec.Command("go", "build", "-trimpath", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := run(t, exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--upstream", application(t), "--door", "POST /login", "--succeeded", "302"))
	for range 5 {
		p.login("wrong")
	}
	p.signal(syscall.SIGUSR2)
	if l := p.line("check=clock"); !strings.Contains(l, "the clock was set by 1h0m0s") {
		t.Errorf("line %s", l)
	}
	if status := p.login("right"); status != http.StatusTooManyRequests {
		t.Errorf("locked, and an hour later by the clock that was set: %d, want 429", status)
	}
	p.signal(syscall.SIGTERM)
	if found := p.found("msg=stopped"); strings.Join(found, " ") != "loopback" { // it was told once, and is locked out
		t.Errorf("found %v as well", found)
	}
	p.wantExit(0)
}
