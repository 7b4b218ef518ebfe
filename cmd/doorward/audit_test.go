package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/trace"
)

// audited returns the lines of a stage's audit log.
func (s *stage) audited() (all []trace.Record) {
	s.t.Helper()
	f, err := os.Open(filepath.Join(s.dir, "audit.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for r, err := range trace.Records(f) {
		if err != nil {
			s.t.Error(err)
		}
		all = append(all, r)
	}
	return all
}

var (
	stamps  = regexp.MustCompile(`"(time|until)":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"`)
	digests = regexp.MustCompile(`"config":"[0-9a-f]{16}"`)
	waits   = regexp.MustCompile(`"retry_after":[1-5]?\d\.\d+`)
	hashes  = regexp.MustCompile(`"subject":"[0-9a-f]{32}"`)
)

// unstamped puts a word in the place of what no two runs have in common.
func unstamped(text string) string {
	text = stamps.ReplaceAllString(text, `"$1":"T"`)
	text = digests.ReplaceAllString(text, `"config":"D"`)
	text = hashes.ReplaceAllString(text, `"subject":"H"`)
	return strings.ReplaceAll(waits.ReplaceAllString(text, `"retry_after":W`), fmt.Sprintf(`"version":%q`, version()), `"version":"V"`)
}

// The whole log of a short life: who was refused and locked out, what was configured, and
// what was not.
func TestAudit(t *testing.T) {
	s := newStage(t, application(t))
	subject := strings.Replace(lockout(2), "outcome:", "subject: {form: password}\n    outcome:", 1)
	audit := func(more string) string { return "\naudit: {file: audit.log, key_file: state.key" + more + "}\n" }
	s.configure(subject, audit(""))
	p := s.start()
	p.fail(2)
	p.refused(58*second, 60*second)
	s.configure(subject, audit(", attempts: true, request: false, redact: {ipv4: 8}"))
	p.reload("msg=reloaded")
	p.refused(58*second, 60*second)
	s.configure(strings.Replace(subject, "burst", "fresh", 1), audit(", attempts: true, request: false, redact: {ipv4: 8}"))
	p.reload("msg=reloaded")
	p.fail(1)
	s.configure("", "")
	p.reload("not reloaded")
	s.configure(subject, audit(", keep: 2"))
	p.reload("audit.keep needs a restart")
	p.stop()
	text, err := os.ReadFile(filepath.Join(s.dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	const request = `,"method":"POST","path":"/login","agent":"Go-http-client/1.1"}`
	want := []string{ // who is refused by network is so before a body is read: there is no subject
		`{"time":"T","event":"started","version":"V","config":"D"}`,
		`{"time":"T","event":"locked","door":"login","client":"127.0.0.1","how":"peer","subject":"H","rule":"burst","per":"network","lockout":60,"until":"T"` + request,
		`{"time":"T","event":"refused","door":"login","client":"127.0.0.1","how":"peer","rule":"burst","per":"network","reason":"locked","retry_after":W` + request,
		`{"time":"T","event":"reloaded","actor":"SIGHUP","config":"D"}`,
		// Loopback addresses count as themselves at every width.
		`{"time":"T","event":"refused","door":"login","client":"127.0.0.1","how":"peer","rule":"burst","per":"network","reason":"locked","retry_after":W}`,
		`{"time":"T","event":"reloaded","actor":"SIGHUP","config":"D"}`,
		`{"time":"T","event":"settled","door":"login","client":"127.0.0.1","how":"peer","subject":"H","outcome":"failed"}`,
		`{"time":"T","event":"reloaded","actor":"SIGHUP","error":"` + s.file + `: doors: must have at least one door"}`,
		`{"time":"T","event":"reloaded","actor":"SIGHUP","error":"audit.keep: needs a restart","config":"D"}`,
		`{"time":"T","event":"stopped"}`,
	}
	got := strings.Split(strings.TrimSuffix(unstamped(string(text)), "\n"), "\n")
	for i := range max(len(got), len(want)) {
		line := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "nothing"
		}
		if line(got) != line(want) && !(i == 7 && strings.HasPrefix(line(got), `{"time":"T","event":"reloaded","actor":"SIGHUP","error":"`)) {
			t.Errorf("line %d is\n%s, want\n%s", i+1, line(got), line(want))
		}
	}
	records := s.audited()
	if records[1].Subject != records[6].Subject { // the same wrong password
		t.Errorf("subjects %v and %v", records[1].Subject, records[6].Subject)
	}
	// With a key, hashes are the same after a restart; configurations too.
	s.configure(subject, audit(""))
	p = s.start()
	p.fail(2)
	p.stop()
	again := s.audited()[len(records):]
	if again[1].Subject != records[1].Subject || again[0].Config != records[0].Config || again[0].Config == records[3].Config {
		t.Errorf("%+v and %+v", again, records)
	}
}

// Without a key hashes tell subjects apart until a restart, and no longer.
func TestAuditWithoutKey(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(strings.Replace(lockout(9), "outcome:", "subject: {form: password}\n    outcome:", 1), "\naudit: {file: audit.log, attempts: true}\n")
	for range 2 {
		p := s.start()
		p.fail(2)
		p.stop()
	}
	var subjects []trace.Hash
	for _, r := range s.audited() {
		if r.Event == trace.Settled {
			subjects = append(subjects, r.Subject)
		}
	}
	if len(subjects) != 4 || subjects[0] != subjects[1] || subjects[2] != subjects[3] || subjects[0] == subjects[2] || subjects[0] == (trace.Hash{}) {
		t.Errorf("subjects %v", subjects)
	}
}

// A line is in the file before long, and there when the process is killed.
func TestAuditKill(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(1), "\naudit: {file: audit.log}\n")
	p := s.start()
	p.fail(1)
	p.refused(58*second, 60*second)
	await(t, "no line", func() bool { n := len(s.audited()); return n == 3 })
	p.signal(syscall.SIGKILL)
	<-p.exit
	f, err := os.OpenFile(filepath.Join(s.dir, "audit.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	p = s.start()
	p.stop()
	var events []string
	for _, r := range s.audited() {
		events = append(events, string(r.Event))
	}
	if got := strings.Join(events, " "); got != "started locked refused started stopped" {
		t.Errorf("events %s", got)
	}
}

// SIGUSR1 goes on with a new file where the old one was renamed, and says if it cannot.
func TestAuditReopen(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(1), "\naudit: {file: audit.log}\n")
	p := s.start()
	log := filepath.Join(s.dir, "audit.log")
	if err := os.Rename(log, log+".old"); err != nil {
		t.Fatal(err)
	}
	p.fail(1) // goes to the old one
	await(t, "no line", func() bool { text, _ := os.ReadFile(log + ".old"); return strings.Count(string(text), "\n") == 2 })
	p.signal(syscall.SIGUSR1)
	p.line("audit log opened anew")
	p.refused(58*second, 60*second)
	await(t, "no line", func() bool { return len(s.audited()) == 1 })
	os.Rename(log, log+".second")
	os.Mkdir(log, 0o700)
	p.signal(syscall.SIGUSR1)
	p.line("audit log not opened anew")
	p.refused(50*second, 60*second)
	p.stop()
	text, _ := os.ReadFile(log + ".second")
	if strings.Count(string(text), "\n") != 3 || !strings.Contains(string(text), `"event":"stopped"`) {
		t.Errorf("the file is\n%s", text)
	}
}

// A start that fails says so in the log, too.
func TestAuditFailedStart(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(1), "\naudit: {file: audit.log}\n")
	s.put(s.file, strings.Replace(s.text(), "127.0.0.1:0", "192.0.2.1:1", 1))
	if out, code := s.run(); code != 1 {
		t.Errorf("exit code %d, %s", code, out)
	}
	records := s.audited()
	if last := records[len(records)-1]; len(records) != 2 || last.Event != trace.Stopped || !strings.Contains(last.Error, "192.0.2.1:1") {
		t.Errorf("records %+v", records)
	}
}

// What cannot change has a key.
func TestFixedAudit(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"k", "l"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name, 43)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parse := func(audit string) config.Config {
		t.Helper()
		text := "upstream: http://app\ndoors: [{name: a, routes: [/a], outcome: {header: true}}]\n" + strings.ReplaceAll(audit, "DIR", dir)
		c, err := config.Parse("doorward.yaml", []byte(text), config.Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const base = `audit: {file: DIR/a, mode: "0600", key_file: DIR/k, attempts: false, redact: {ipv4: 24, ipv6: 48}, request: true, burst: 9, per_second: 9, max_size: 1MiB, keep: 9}`
	for _, row := range []struct{ from, to, want string }{
		{"DIR/a", "DIR/a", ""},
		{base, "", "audit"},
		{"DIR/a", "DIR/b", "audit.file"},
		{`"0600"`, `"0640"`, "audit.mode"},
		{"DIR/k", "DIR/l", "audit.key_file"},
		{"key_file: DIR/k, ", "", "audit.key_file"},
		{"1MiB", "2MiB", "audit.max_size"},
		{"keep: 9", "keep: 8", "audit.keep"},
		{"attempts: false", "attempts: true", ""},
		{"ipv4: 24, ipv6: 48", "ipv4: 16", ""},
		{"request: true", "request: false", ""},
		{"burst: 9, per_second: 9", "burst: 8, per_second: 8", ""},
	} {
		if !strings.Contains(base, row.from) {
			t.Fatalf("%q is not there", row.from)
		}
		other := parse(strings.Replace(base, row.from, row.to, 1))
		if got := strings.Join(fixed(parse(base), other), ", "); got != row.want {
			t.Errorf("%s: needs a restart: %q, want %q", row.to, got, row.want)
		}
		if got := strings.Join(fixed(other, parse(base)), ", "); got != row.want {
			t.Errorf("%s, the other way: needs a restart: %q, want %q", row.to, got, row.want)
		}
	}
}
