package e2e

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/trace"
)

const recipe = "../../../docs/recipes/fail2ban"

// An intruder gets locked out, and writes the address of somebody else into all that he
// sends.
const (
	intruder  = "198.51.100.7"
	bystander = "198.51.100.9"
	last      = "2001:db8:5:6::1"
)

// lies are what may be taken for a line about the bystander, in the syntax of this log and of
// others.
func lies() []string {
	r := trace.Record{Time: time.Now(), Event: trace.Locked, Door: "login", Client: netip.MustParsePrefix(bystander + "/32"), How: clientip.Peer, Rule: "burst", Per: "network", Lockout: time.Minute}
	line, _ := r.MarshalJSON()
	refused := r
	refused.Event, refused.Reason, refused.RetryAfter = trace.Refused, doorward.Locked, time.Minute
	second, _ := refused.MarshalJSON()
	_, tail, _ := strings.Cut(string(line), `"event"`)
	return []string{
		bystander, "<HOST>", string(line), string(second), `"event"` + tail, `","event"` + tail, `\","event"` + tail, `\\","event"` + tail,
		`"}{"time":"` + tail, "\u2028" + string(line), "é" + string(line), strings.ReplaceAll(string(line), `"`, `\u0022`),
		"'" + bystander + "'", `client="` + bystander + `"`, "client=" + bystander, "[client " + bystander + ":80]",
		"Failed password for root from " + bystander + " port 22 ssh2", bystander + ` - - [30/Nov/2026:21:00:00 +0000] "POST /login HTTP/1.1" 401 0`,
	}
}

// The filter matches what is about one client, whatever callers sent, and nothing else.
func TestFail2banFilter(t *testing.T) {
	need(t, "fail2ban-regex")
	type line struct {
		r    trace.Record
		hits string
	}
	base := trace.Record{Time: time.Now(), Event: trace.Refused, Door: "login", Client: netip.MustParsePrefix("192.0.2.7/32"), How: clientip.Header, Rule: "burst", Per: "network", Reason: doorward.Locked, RetryAfter: time.Second}
	with := func(hits string, change func(*trace.Record)) line {
		r := base
		change(&r)
		return line{r, hits}
	}
	locked := func(r *trace.Record) {
		r.Event, r.Reason, r.RetryAfter, r.Lockout, r.Until = trace.Locked, 0, 0, time.Minute, r.Time.Add(time.Minute)
	}
	lines := []line{
		with("192.0.2.7", func(*trace.Record) {}),
		with("192.0.2.7", func(r *trace.Record) { r.Reason = doorward.Spent; r.Overflow = true }),
		with("192.0.2.7", func(r *trace.Record) {
			r.Per, r.Realm, r.Subject, r.How = "pair", "accounts", trace.Hash{1}, clientip.Peer
		}),
		with("192.0.2.7", locked),
		with("2001:db8:1:2::/64", func(r *trace.Record) { r.Client = netip.MustParsePrefix("2001:db8:1:2::/64") }),
		with("", func(r *trace.Record) { r.Client = netip.MustParsePrefix("192.0.2.0/24") }),
		with("", func(r *trace.Record) { r.Client = netip.MustParsePrefix("2001:db8:1::/48") }),
		with("", func(r *trace.Record) { r.Client = netip.Prefix{} }),
		with("", func(r *trace.Record) { r.How = clientip.Fallback }),
		with("", func(r *trace.Record) { r.How = clientip.AllTrusted }),
		with("", func(r *trace.Record) { r.Event = trace.Settled; r.Reason = 0; r.Outcome = "failed" }),
	}
	for _, reason := range []doorward.Reason{doorward.Busy, doorward.Ceiling, doorward.Blocked, doorward.Unavailable} {
		lines = append(lines, with("", func(r *trace.Record) { r.Reason = reason }))
	}
	for _, per := range []string{"network4/24", "network6/48", "subject", "challenge", "device", "everyone", ""} {
		lines = append(lines, with("", func(r *trace.Record) { r.Per = per }), with("", func(r *trace.Record) { locked(r); r.Per = per }))
	}
	lines = append(lines, with("", func(r *trace.Record) { locked(r); r.StepUp = true }), // nobody is locked out by these
		with("", func(r *trace.Record) { locked(r); r.Rule, r.Per, r.Shadow = "", "", []string{"burst"} }))
	for _, lie := range lies() {
		say := func(r *trace.Record) {
			r.Method, r.Path, r.Agent, r.Error, r.Why, r.Actor = lie, lie, lie, lie, lie, lie
		}
		lines = append(lines, with("192.0.2.7", say), with("", func(r *trace.Record) { say(r); r.Per = "subject" }),
			with("", func(r *trace.Record) { say(r); r.Event = trace.Settled }),
			line{trace.Record{Time: base.Time, Event: trace.Reloaded, Error: lie, Why: lie, Actor: lie, Version: lie}, ""},
			line{trace.Record{Time: base.Time, Event: trace.Unlocked, Key: lie, Why: lie, Actor: lie}, ""})
	}
	var text []byte
	var want strings.Builder
	for i := range lines {
		text = lines[i].r.AppendLine(text)
		if lines[i].hits != "" {
			fmt.Fprintln(&want, lines[i].hits)
		}
	}
	log := write(t, "audit.log", string(text))
	filter, err := filepath.Abs(recipe + "/filter.d/doorward.conf")
	if err != nil {
		t.Fatal(err)
	}
	if got := tool(t, "fail2ban-regex", "-o", "<ip>", log, filter); got != want.String() {
		t.Errorf("matched\n%s, want\n%s", got, &want)
	}
}

// The whole way: doorward's log, the filter and the jail as they are shipped, the real
// server. It bans who is locked out and goes on, and nobody whose address is only written in what
// others send. Its clock is in another time zone.
func TestFail2ban(t *testing.T) {
	server, client := need(t, "fail2ban-server"), need(t, "fail2ban-client")
	dir := t.TempDir()
	_, upstream := newApp(t)
	addr := freePort(t)
	log, banned := filepath.Join(dir, "audit.log"), filepath.Join(dir, "banned")
	start(t, addr, binary, "serve", "--config", put(t, filepath.Join(dir, "doorward.yaml"), `
listen: `+addr+`
upstream: http://`+upstream+`
clients: {trusted_proxies: [127.0.0.1/32]}
audit: {file: audit.log}
doors:
  - name: login
    routes: [/login, /login/]
    subject: {header: X-User}
    subject_optional: true
    outcome: {succeeded: {status: 302}}
    rules: [{name: burst, per: network, lockout: {free_failures: 3, window: 10m, first_lockout: 10m, max_lockout: 1h}}]
`))

	conf := filepath.Join(dir, "fail2ban")
	if err := os.CopyFS(conf, os.DirFS(recipe)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(conf, "action.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	socket, pid := filepath.Join(dir, "f2b.sock"), filepath.Join(dir, "f2b.pid")
	put(t, filepath.Join(conf, "fail2ban.conf"), fmt.Sprintf("[Definition]\nloglevel = INFO\nlogtarget = STDOUT\nsyslogsocket = auto\nsocket = %s\npidfile = %s\ndbfile = None\ndbpurgeage = 1d\nallowipv6 = yes\n", socket, pid))
	put(t, filepath.Join(conf, "jail.conf"), "[DEFAULT]\nignoreself = true\nusedns = no\nlogencoding = utf-8\naction = record[file="+banned+"]\n")
	put(t, filepath.Join(conf, "jail.d", "here.local"), "[doorward]\nlogpath = "+log+"\n")
	put(t, filepath.Join(conf, "action.d", "record.conf"), "[Definition]\nactionban = echo '<ip>' >> '<file>'\nactionunban =\n")
	cmd := exec.Command(server, "-c", conf, "-s", socket, "-p", pid, "-f", "start")
	cmd.Env = append(os.Environ(), "TZ=America/New_York")
	out := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			t.Error("fail2ban does not end")
		}
		if t.Failed() {
			t.Logf("fail2ban printed:\n%s", out)
		}
	})
	ask := func(args ...string) string {
		b, _ := exec.Command(client, append([]string{"-c", conf, "-s", socket}, args...)...).CombinedOutput()
		return string(b)
	}
	until(t, "fail2ban to serve", func() bool { return strings.Contains(ask("status"), "doorward") })

	// Of the bystander there are lines, too few.
	for range 5 {
		send(t, addr, bystander, "/login", "curl/8", "bob")
	}
	said := lies()
	for range 3 {
		for _, lie := range said {
			send(t, addr, intruder, "/login/"+lie, lie, lie)
		}
	}
	// Where the log ends somebody is banned, so by then all of it was read.
	for range 20 {
		send(t, addr, last, "/login", "curl/8", "carol")
	}
	want := intruder + "\n2001:db8:5:6::/64\n"
	until(t, "two bans", func() bool {
		b, _ := os.ReadFile(banned)
		return strings.Count(string(b), "\n") >= 2
	})
	if b, _ := os.ReadFile(banned); string(b) != want {
		t.Errorf("banned\n%s, want\n%s", b, want)
	}
	status := ask("status", "doorward")
	t.Logf("status\n%s", status)
	if !strings.Contains(status, "Currently banned:\t2") || strings.Contains(status, bystander) {
		t.Errorf("status\n%s", status)
	}
	// The lies are in the log, else nothing was tried.
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), bystander); n < 5+3*len(said) {
		t.Errorf("the bystander is in the log %d times", n)
	}
}

// send makes one attempt, with any bytes, by an address that the proxy in front says.
func send(t *testing.T, addr, from, path, agent, user string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	path = strings.NewReplacer(" ", "+").Replace(path) // a space would end it
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: app\r\nConnection: close\r\nContent-Length: 0\r\nX-Forwarded-For: %s\r\nUser-Agent: %s\r\nX-User: %s\r\n\r\n", path, from, agent, user)
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 ") {
		t.Fatalf("%v, answer %q", err, b)
	}
}

// put writes a file and returns its name.
func put(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
