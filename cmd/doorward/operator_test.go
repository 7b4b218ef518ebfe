package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/trace"
)

// A desk is where an operator sits: a daemon behind a proxy, and commands that ask it.
type desk struct {
	*stage
	*process
	at string
	// through passes what commands ask on to the daemon, and holds it and the answers
	// against openapi.yaml.
	through string
}

const deskDoors = `
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
    subject: {form: user}
    rules:
      - {name: burst, per: network, lockout: {free_failures: 5, window: 10m, first_lockout: 1m, max_lockout: 1h}}
      - {name: account, per: subject, lockout: {free_failures: 9, window: 10m, first_lockout: 1m, max_lockout: 1h}}
      - {name: pair, per: pair, lockout: {free_failures: 3, window: 10m, first_lockout: 1m, max_lockout: 1h}}
  - name: reset
    routes: ["POST /reset"]
    realm: mail
    outcome: {succeeded: {status: 302}}
realms:
  mail:
    rules: [{name: all, per: everyone, window: {limit: 1000, window: 1h}}]
`

func newDesk(t *testing.T, doors string) *desk {
	d := &desk{stage: newStage(t, application(t))}
	d.at = "unix:" + filepath.Join(d.dir, "admin.sock")
	t.Setenv("DOORWARD_ADMIN", d.at)
	t.Setenv("TZ", "UTC")
	d.write(doors)
	d.process = d.stage.start()
	d.line("admin API")
	d.through = d.between(strings.TrimPrefix(d.at, "unix:"))
	return d
}

// between returns a socket that is passed on to another.
func (d *desk) between(socket string) string {
	c, err := contract()
	if err != nil {
		d.stage.t.Fatal(err)
	}
	path := filepath.Join(d.dir, "between.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		d.stage.t.Fatal(err)
	}
	over := &http.Transport{DisableKeepAlives: true, DialContext: dialSocket(socket)}
	s := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "localhost" },
		Transport: c.Transport(d.stage.t, over),
	}}
	go s.Serve(l)
	d.stage.t.Cleanup(func() { s.Close() })
	return "unix:" + path
}

func (d *desk) write(doors string) {
	d.put(d.file, "listen: 127.0.0.1:0\nclients: {trusted_proxies: [127.0.0.1/32]}\nupstream: "+d.app+"\ndoors:"+doors)
}

// knock tries a wrong password n times, and returns the last status.
func (d *desk) knock(n int, from, user string) (status int) {
	d.stage.t.Helper()
	for range n {
		r, err := http.NewRequest("POST", "http://"+d.addr+"/login", strings.NewReader(url.Values{"user": {user}, "password": {"wrong"}}.Encode()))
		if err != nil {
			d.stage.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", from)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			d.stage.t.Fatal(err)
		}
		res.Body.Close()
		status = res.StatusCode
	}
	return status
}

// ask runs a command, holds its exit code, and returns what it printed.
func (d *desk) ask(code int, args ...string) (stdout, stderr string) {
	d.stage.t.Helper()
	cmd := exec.Command("doorward", args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if d.through != "" {
		cmd.Env = append(os.Environ(), "DOORWARD_ADMIN="+d.through)
	}
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		d.stage.t.Fatalf("doorward %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &errs)
	}
	if strings.ContainsFunc(out.String()+errs.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		d.stage.t.Errorf("doorward %s: control characters in %q", strings.Join(args, " "), out.String()+errs.String())
	}
	return out.String(), errs.String()
}

// says holds that what is printed matches a pattern.
func (d *desk) says(pattern string, code int, args ...string) string {
	d.stage.t.Helper()
	out, errs := d.ask(code, args...)
	if !regexp.MustCompile(pattern).MatchString(out + errs) {
		d.stage.t.Errorf("doorward %s: no %s in\n%s%s", strings.Join(args, " "), pattern, out, errs)
	}
	return out
}

// Who is locked out, was it us, and let this customer in.
func TestOperator(t *testing.T) {
	d := newDesk(t, deskDoors)
	d.says(`^Nobody is locked out\.\n$`, 0, "locked")
	d.says(`^192\.0\.2\.7 is not locked out at door login: an attempt would be admitted now\.\n`, 0, "why", "192.0.2.7")
	d.knock(3, "192.0.2.7", "Alice@Example.com")
	if status := d.knock(1, "192.0.2.7", "alice@example.com"); status != 429 {
		t.Fatalf("status %d", status)
	}
	for i := range 5 {
		d.knock(1, "2001:db8::1", fmt.Sprint("user", i))
	}

	// Locked by a pair and by a network.
	out := d.says(`^2 keys locked\n +key +counted .*\n`, 0, "locked")
	if !regexp.MustCompile(`(?m)^  2001:db8::/64 +5 +0 +(1m|[1-5]?\ds) +(?:\d{4}-\d\d-\d\d\s+)?\d\d:\d\d:\d\d  login/burst \(network: lockout 5 in 10m, then 1m to 1h\)$`).MatchString(out) {
		t.Errorf("locked:\n%s", out)
	}
	pair := regexp.MustCompile(`pair:\w{10}`).FindString(out)
	d.says(`^1 key locked\n.*\n  2001`, 0, "locked", "--rule", "burst", "--door", "login")
	d.says(`^Nobody`, 0, "locked", "--door", "mail")
	d.says(`^Nobody`, 0, "locked", "--door", "reset", "--rule", "all")
	d.says(`^2 keys locked, the 1 that are longest\n`, 0, "locked", "--limit", "1")
	d.says(`^doorward: the daemon has no rule "brust", did you mean burst\?\n$`, 1, "locked", "--rule", "brust")
	d.says(`^doorward: the daemon has no door or realm "x": it has login, mail, reset\n$`, 1, "locked", "--guard", "x")
	keys := map[string]int{}
	for line := range strings.Lines(d.says("", 0, "locked", "--json")) {
		var k api.Key
		if err := json.Unmarshal([]byte(line), &k); err != nil {
			t.Fatal(err)
		}
		keys[k.Key] = k.Count
	}
	if len(keys) != 3-1 || keys["2001:db8::/64"] != 5 || keys[pair] != 3 {
		t.Errorf("keys %v", keys)
	}
	if out, _ := d.ask(0, "locked", "--json", "--limit", "1"); strings.Count(out, "\n") != 1 {
		t.Errorf("one key:\n%s", out)
	}

	// Was it us?
	d.says(`^2001:db8::1 is refused at door login for another (1m|[1-5]?\ds),\s+until\s+(?:\d{4}-\d\d-\d\d\s+)?\d\d:\d\d:\d\d:\s+rule\s+burst\s+counted\s+5\s+failures\s+for\s+2001:db8::/64\.\n`, 3, "why", "2001:db8::1")
	d.says(`\nWhere the address was taken from: a trusted proxy wrote it into the header\.\n`, 3, "why", "2001:db8::/64")
	d.says(`(?s)is not locked out at door login: an attempt would be admitted now, and 5\s+more\s+before\s+rule account refuses.*ALICE@example\.com from 192\.0\.2\.7 is refused at door login by rule pair for\s+another`, 3, "why", "ALICE@example.com ", "--json=false")
	d.says(`^192\.0\.2\.7 as alice@example\.com is refused at door login for another`, 3, "why", "192.0.2.7", "--subject", "alice@example.com")
	d.says(`^192\.0\.2\.7 is not locked out at door login`, 0, "why", "--subject", "192.0.2.7")
	d.says(`^pair:`, 3, "why", pair)
	why := api.Why{}
	if err := json.Unmarshal([]byte(d.says("", 3, "why", "--json", "2001:db8::1")), &why); err != nil || why.Guards[0].Rule != "burst" || why.Guards[0].Allowed {
		t.Errorf("%+v, %v", why, err)
	}

	// Let this customer in.
	d.says(`^Forgotten: 1 key\.\n(?s:.*)\nStill: alice@example\.com from 192\.0\.2\.7 is refused at door login by rule pair`, 0, "unlock", "alice@example.com", "--reason", "called")
	d.says(`^Nothing was counted, so nothing is forgotten\.\n$`, 3, "unlock", "--reason", "r", "--address", "198.51.100.1", "--subject", "nobody")
	d.says(`^Forgotten: 2 keys\.\n`, 0, "unlock", "--address", "192.0.2.7", "--subject", "alice@example.com", "--reason", "called", "--actor", "ann")
	if l := d.line("key=" + pair); !strings.Contains(l, `msg=unlocked door=login rule=pair`) || !strings.Contains(l, "actor=ann why=called") {
		t.Errorf("line %s", l)
	}
	if status := d.knock(1, "192.0.2.7", "alice@example.com"); status != 200 {
		t.Errorf("status %d", status)
	}
	unlocked := api.Unlocked{}
	if err := json.Unmarshal([]byte(d.says("", 0, "unlock", "2001:db8::/64", "--door", "login", "--rule", "burst", "--reason", "r", "--json")), &unlocked); err != nil || len(unlocked.Keys) != 1 || unlocked.Keys[0].Count != 5 {
		t.Errorf("%+v, %v", unlocked, err)
	}
	d.says(`^Nobody is locked out\.\n$`, 0, "locked")

	// All of a door.
	d.knock(5, "203.0.113.1", "carol")
	d.says(`^doorward: the daemon has no door or realm "logn", did you mean login\?\n$`, 1, "clear", "logn", "--reason", "r", "--yes")
	d.says(`^Forgotten: the counts of rule burst at door login, 2 keys\.\n$`, 0, "clear", "login", "--rule", "burst", "--reason", "r", "--yes")
	d.says(`^Forgotten: all counts at door login, \d+ keys\.\n$`, 0, "clear", "login", "--reason", "r", "--yes")
	if out, _ := d.ask(0, "__complete", "clear", ""); out != "login\nmail\nreset\n:4\n" {
		t.Errorf("completes to %q", out)
	}
	if out, _ := d.ask(0, "__complete", "locked", "--rule", "a"); out != "account\nall\n:4\n" && out != "account\nall\nburst\npair\n:4\n" {
		t.Errorf("completes to %q", out)
	}
	d.stop()
}

// Networks pass or are refused for a time.
func TestOperatorNetworks(t *testing.T) {
	d := newDesk(t, deskDoors)
	d.says(`^No network is blocked for a time\.\n$`, 0, "block", "--list")
	out := d.says(`(?m)^  [0-9a-f]{16}  192\.0\.2\.0/24  block  login   1h  (?:\d{4}-\d\d-\d\d\s+)?\d\d:\d\d:\d\d  ann    too many$`, 0, "block", "192.0.2.9/24", "--for", "1h", "--door", "login", "--reason", "too many", "--actor", "ann")
	id := strings.Fields(strings.Split(out, "\n")[1])[0]
	if status := d.knock(1, "192.0.2.7", "bob"); status != 403 {
		t.Errorf("blocked: %d", status)
	}
	d.says(`^192\.0\.2\.7 is blocked at door login\.\n`, 3, "why", "192.0.2.7")
	d.says(`^No network is exempt for a time\.\n$`, 0, "exempt", "--list")
	d.says(regexp.QuoteMeta(id)+` is over\.\n$`, 0, "block", "--remove", id, "--reason", "over")
	d.says(`^doorward: no such network is listed`, 1, "block", "--remove", id, "--reason", "over")
	d.says("", 0, "exempt", "192.0.2.7", "--for", "90m", "--reason", "r")
	if status := d.knock(20, "192.0.2.7", "bob"); status != 200 {
		t.Errorf("exempt: %d", status)
	}
	d.says(`^192\.0\.2\.7 is exempt at door login: nothing is counted or refused\.\n`, 0, "why", "192.0.2.7")
	d.says(`"action": "exempt"`, 0, "exempt", "--list", "--json")
	d.stop()
}

// A configuration that is wrong says so line by line, and changes nothing.
func TestOperatorReload(t *testing.T) {
	d := newDesk(t, deskDoors)
	d.write(strings.Replace(deskDoors, "free_failures: 5", "free_failures: 1", 1))
	d.says(`^Reloaded\.\n$`, 0, "reload", "--reason", "fewer")
	d.knock(1, "192.0.2.7", "bob")
	if status := d.knock(1, "192.0.2.7", "bob"); status != 429 {
		t.Errorf("status %d", status)
	}
	d.write(strings.NewReplacer("free_failures: 5", "free_failures: 0", "limit: 1000", "limit: -1").Replace(deskDoors))
	d.says(`^doorward: .*doorward\.yaml:10:\d+: doors\[0\]\.rules\[0\]\.lockout\.free_failures: .*\n.*doorward\.yaml:19:\d+: realms\.mail\.rules\[0\]\.window\.limit: .*\n$`, 1, "reload", "--reason", "wrong")
	d.write(deskDoors + "\nlog: {format: json}\n")
	d.says(`^doorward: log\.format needs a restart\n$`, 1, "reload", "--reason", "wrong")
	d.says(`(?m)^reloads   last at \d\d:\d\d:\d\d, 1 done, 2 failed; the last one failed and the old`, 0, "status", "--over", "100ms")
	d.stop()
}

// Events come as they happen, and over a restart.
func TestOperatorEvents(t *testing.T) {
	d := newDesk(t, deskDoors)
	d.says(`^doorward: event must be one of `, 1, "events", "--event", "none")
	var errs lockedBuffer
	cmd := exec.Command("doorward", "events", "--follow", "--json", "--client", "192.0.2.0/24", "--limit", "7")
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := make(chan trace.Record, 100)
	ended := make(chan error, 1)
	go func() {
		for r, err := range trace.Records(out) {
			if err != nil {
				t.Error(err)
			}
			lines <- r
		}
		ended <- cmd.Wait()
	}()
	next := func() trace.Record {
		select {
		case r := <-lines:
			return r
		case <-time.After(20 * time.Second):
			t.Fatalf("no event\n%s", &errs)
		}
		panic("never")
	}
	first := func() trace.Record { // whenever it listens
		for {
			d.knock(1, "198.51.100.1", "x")
			d.knock(1, fmt.Sprint("192.0.2.", 1+time.Now().UnixNano()%250), "bob")
			select {
			case r := <-lines:
				return r
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	if r := first(); r.Event != trace.Settled && r.Event != trace.Refused || r.Door != "login" || r.Client.Addr().AsSlice()[0] != 192 {
		t.Errorf("%+v", r)
	}
	d.knock(1, "192.0.2.7", "bob")
	next()
	d.stop()
	poll(t, "a line that it is lost", func() bool { return strings.Contains(errs.String(), "; waiting for it\n") })
	d.process = d.stage.start()
	first()
	if got := strings.Count(errs.String(), "waiting for it"); got != 1 {
		t.Errorf("%d lines:\n%s", got, &errs)
	}
	for n := 0; n < 7; n++ { // some may be left of those above
		d.knock(1, "192.0.2.99", "eve")
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("does not end after its limit")
	}
	d.stop()
}

// For people, and without --follow, it ends with the daemon.
func TestOperatorEventsEnd(t *testing.T) {
	d := newDesk(t, deskDoors)
	var out, errs lockedBuffer
	cmd := exec.Command("doorward", "events", "--door", "login")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	poll(t, "an event", func() bool {
		d.knock(1, "192.0.2.7", "bob")
		return regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  (settled|refused)  login  192\.0\.2\.7 subject [0-9a-f]{32}  \w+`).MatchString(out.String())
	})
	d.stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != exitNobody {
			t.Errorf("%v\n%s", err, &errs)
		}
	case <-time.After(20 * time.Second):
		t.Error("goes on without a daemon")
	}
}

// A lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// Another way in: TCP with a token in a file.
func TestOperatorToken(t *testing.T) {
	d := &desk{stage: newStage(t, application(t))}
	token := filepath.Join(d.dir, "token")
	d.put(token, strings.Repeat("0123456789abcdef", 2)+"\n")
	d.write(deskDoors + "admin: {listen: [\"127.0.0.1:0\"], token_files: [token]}\n")
	d.process = d.stage.start()
	m := regexp.MustCompile(`listen=(\S+)`).FindStringSubmatch(d.line(`"admin API"`))
	at := "http://" + m[1]
	d.says(`^doorward: the daemon at `+at+` wants a token \(--token-file\) or a certificate`, 4, "locked", "--admin", at)
	d.says(`^Nobody`, 0, "locked", "--admin", at, "--token-file", token)
	d.put(token+"2", strings.Repeat("0123456789abcde.", 2)+"\n")
	d.says(`^doorward: the daemon at `+at+` does not let this in: `, 4, "locked", "--admin", at, "--token-file", token+"2")
	d.stop()
}

// terminal runs a command in a terminal of a size, which a program nobody here wrote draws.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T, width, height int, command string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("tmux is not installed")
		}
		t.Skip("tmux is not installed")
	}
	x := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	x.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), command+"; echo ended $?; exec cat")
	return x
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// until waits for a screen that matches, and returns it.
func (x *terminal) until(pattern string) string {
	x.t.Helper()
	screen, p := "", regexp.MustCompile(pattern)
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if screen = x.tmux("capture-pane", "-p"); p.MatchString(screen) {
			return screen
		}
		time.Sleep(50 * time.Millisecond)
	}
	x.t.Fatalf("no %s on\n%s", pattern, screen)
	return ""
}

// The live screen: drawn anew, in any size, over a restart of the daemon, and gone with q.
func TestTop(t *testing.T) {
	d := newDesk(t, deskDoors)
	x := newTerminal(t, 80, 24, "doorward top --every 200ms")
	s := x.until(`(?s)^\d\d:\d\d:\d\d  doorward .*Quiet: nothing is refused\..*\nDoors\n  door .*\n  login +0 .*\nNetworks refused most of late\n  none`)
	if strings.Count(s, "\n") > 24 {
		t.Errorf("%d lines\n%s", strings.Count(s, "\n"), s)
	}
	d.knock(25, "192.0.2.7", "bob")
	x.until(`(?m)^  192\.0\.2\.7 +22$`)
	x.tmux("resize-window", "-x", "40", "-y", "12")
	s = x.until(`…`)
	for line := range strings.Lines(s) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 40 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	x.tmux("resize-window", "-x", "100", "-y", "30")
	x.until(`(?s)in flight.*pending +overflow`)
	seldom := newTerminal(t, 80, 24, "doorward top --every 1h")
	seldom.until("Quiet")
	seldom.tmux("resize-window", "-x", "40", "-y", "12")
	seldom.until(`…`) // at once
	d.stop()
	x.until(`^No answer, trying again: nothing listens at`)
	d.process = d.stage.start()
	x.until(`^\d\d:\d\d:\d\d  doorward `)
	x.tmux("send-keys", "q")
	if s := x.until(`ended 0`); strings.Contains(s, "Doors") {
		t.Errorf("the screen is not as it was before:\n%s", s)
	}
	if cursor := strings.TrimSpace(x.tmux("display-message", "-p", "#{cursor_flag}#{alternate_on}")); cursor != "10" {
		t.Errorf("cursor and alternate screen %s, want 10", cursor)
	}
	d.stop()
}

// Ctrl-c ends it too. On a terminal there are colours, and a question before all is forgotten.
func TestTerminal(t *testing.T) {
	d := newDesk(t, deskDoors)
	x := newTerminal(t, 80, 24, "doorward top")
	x.until("Quiet")
	x.tmux("send-keys", "C-c")
	x.until("ended 0")
	d.knock(1, "192.0.2.7", "bob")
	x = newTerminal(t, 80, 24, "doorward clear login --reason test; echo was $?; doorward clear reset --reason test; echo was $?; NO_COLOR=1 doorward status --over 100ms | cat; doorward status --over 100ms")
	x.until(`Forget all counts at door login, which track 3 keys\? \[y/N\]`)
	x.tmux("send-keys", "n", "Enter")
	x.until(`(?s)doorward: nothing is forgotten\s+was 1\s+Forget all counts at door reset, which track 0 keys\?`)
	x.tmux("send-keys", "y", "Enter")
	x.until(`(?s)Forgotten: all counts at door reset, 0 keys\.\s+was 0\s`)
	x.until(`ended 0`)
	if s := x.tmux("capture-pane", "-p", "-e"); !strings.Contains(s, "\x1b[1mRules") {
		t.Errorf("no colours:\n%q", s)
	}
	d.stop()
}
