package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
)

// Five failures, another limit, and the sixth is refused: what was counted is, and the new
// limit holds for it.
func TestReload(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(10), "")
	p := s.start()
	p.fail(5)
	s.configure(lockout(5), "")
	p.reload("doors=1 rules=1")
	p.fail(1) // past the free ones, and it locks
	p.refused(58*second, 3600*second)
	s.configure(lockout(100), "")
	p.reload("msg=reloaded")
	p.refused(50*second, 3600*second) // what is locked stays locked
	// The other way round: locked at five, and still with another limit.
	p.stop()
	s.configure(lockout(5), "")
	p = s.start()
	p.fail(5)
	s.configure(lockout(6), "")
	p.reload("msg=reloaded")
	p.refused(58*second, 60*second)
	p.stop()
}

// Doors, networks, outcomes and the log's level change with one signal.
func TestReloadDoors(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(1), "")
	p := s.start()
	p.fail(1)
	p.refused(58*second, 60*second)
	s.configure(lockout(1)+"    exempt: [127.0.0.1/32]\n", "")
	p.reload("msg=reloaded")
	p.fail(3)
	s.configure(lockout(1)+"    blocked: [127.0.0.0/8]\n", "")
	p.reload("msg=reloaded")
	if status, _ := p.guess("/login", "right"); status != http.StatusForbidden {
		t.Errorf("blocked: %d, want 403", status)
	}
	other := strings.NewReplacer("name: login", "name: other", "/login", "/other").Replace(lockout(1))
	s.configure(lockout(1)+other, "")
	if l := p.reload("msg=reloaded"); !strings.Contains(l, "doors=2 rules=2 begin_anew=other") || strings.Contains(l, "forgotten") {
		t.Errorf("line %s", l)
	}
	p.refused(50*second, 60*second)
	for _, want := range []int{200, 429} {
		if status, _ := p.guess("/other", "wrong"); status != want {
			t.Errorf("other: %d, want %d", status, want)
		}
	}
	// Now wrong guesses are right ones at the other door, and login is none.
	s.configure(strings.Replace(other, "status: 302", "status: 200", 1), "\nlog: {level: debug}\n")
	if l := p.reload("msg=reloaded"); !strings.Contains(l, "forgotten=login") {
		t.Errorf("line %s", l)
	}
	p.fail(3)
	if status, _ := p.guess("/other", "wrong"); status != http.StatusTooManyRequests {
		t.Errorf("other: %d, want 429", status)
	}
	s.configure(strings.NewReplacer("status: 302", "status: 200", "burst", "fresh").Replace(other), "\nlog: {level: debug}\n")
	if l := p.reload("msg=reloaded"); !strings.Contains(l, "begin_anew=other/fresh forgotten=other/burst") {
		t.Errorf("line %s", l)
	}
	if status, _ := p.guess("/other", "wrong"); status != http.StatusOK {
		t.Errorf("other: %d, want 200", status)
	}
	if l := p.line("msg=settled"); !strings.Contains(l, "outcome=succeeded") {
		t.Errorf("line %s", l)
	}
	// Callers are named otherwise.
	s.put(s.file, strings.Replace(s.text(), "clients: {}", "clients: {trusted_proxies: [127.0.0.1/32]}", 1))
	p.reload("msg=reloaded")
	r, _ := http.NewRequest("POST", "http://"+p.addr+"/other", strings.NewReader(""))
	r.Header.Set("X-Forwarded-For", "192.0.2.7")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if l := p.line("msg=settled"); !strings.Contains(l, "client=192.0.2.7") {
		t.Errorf("line %s", l)
	}
	p.stop()
}

func (s *stage) text() string {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// A file that is wrong, or asks for what cannot change, changes nothing.
func TestReloadBroken(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(5), "")
	good := s.text()
	p := s.start()
	p.fail(4)
	replaced := func(old, with string) string {
		t.Helper()
		text := strings.Replace(good, old, with, 1)
		if text == good {
			t.Fatalf("%q is not there", old)
		}
		return text
	}
	const kept = `level=ERROR msg="not reloaded: the old configuration stays" `
	for _, row := range []struct {
		text string
		want []string
	}{
		{"doors: [", []string{"doorward.yaml:2:1: not YAML"}},
		{replaced("free_failures: 5", "free_failures: 0"), []string{"doorward.yaml:9:62: doors[0].rules[0].lockout.free_failures: must be"}},
		{replaced("free_failures: 5", "free_failures: 100, lockouts: 5") + "extra: 1\n", []string{"unknown key", "extra: unknown key"}},
		{replaced("127.0.0.1:0", "127.0.0.1:1"), []string{`key=listen error="listen needs a restart"`}},
		{replaced("free_failures: 5", "free_failures: 100, capacity: 100, lease: 59s"), []string{
			`key=doors[0].rules[0].lockout.capacity error="doors[0].rules[0].lockout.capacity needs a restart"`,
			`key=doors[0].rules[0].lockout.lease error="doors[0].rules[0].lockout.lease needs a restart"`}},
		{replaced("free_failures: 5", "free_failures: 100") + "log: {format: json}\n", []string{`key=log.format error="log.format needs a restart"`}},
	} {
		s.put(s.file, row.text)
		p.signal(syscall.SIGHUP)
		for _, want := range row.want {
			if l := p.line("reloaded"); !strings.Contains(l, kept) || !strings.Contains(l, want) {
				t.Errorf("got %s, want %s", l, want)
			}
		}
	}
	os.Remove(s.file)
	p.reload("cannot be read: no such file")
	p.fail(1)
	p.refused(58*second, 60*second)
	s.put(s.file, good)
	p.reload("msg=reloaded")
	p.refused(55*second, 60*second)
	p.stop()
}

// Whatever cannot change has a key.
func TestFixed(t *testing.T) {
	base := `
listen: 127.0.0.1:1
upstream: http://app
health: {path: /a}
doors:
  - {name: a, routes: [/a], realm: r, outcome: {header: true}}
  - {name: b, routes: [/b], outcome: {header: true}, rules: [{per: network, throttle: {per_source: 3, window: 1h}}, {name: w, per: everyone, window: {limit: 2, window: 1h}}]}
realms: {r: {preset: signup}}
reuse: {idle: 1s}
log: {format: text, level: info}
timeouts: {read_header: 1s, body: 1s, upstream_response: 40s, write: 1s, idle: 1s, shutdown: 1s}
limits: {header_bytes: 2KiB, body_bytes: 1KiB, connections: 10, connections_per_network: 10, in_flight: 10}
`
	parse := func(text string) config.Config {
		t.Helper()
		c, err := config.Parse("doorward.yaml", []byte(text), config.Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := parse(base)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "k"), []byte("MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ from, to, want string }{
		{"127.0.0.1:1", "127.0.0.1:1", ""},
		{"127.0.0.1:1", "127.0.0.1:2", "listen"},
		{"http://app", "http://other", "upstream"},
		{"upstream: http://app", "upstreams: [http://app, http://other]", "upstreams"},
		{"path: /a", "path: /b", "health"},
		{"idle: 1s}\nlog", "idle: 2s}\nlog", "reuse"},
		{"reuse:", fmt.Sprintf("state: {file: %s/s, key_file: %s/k}\nreuse:", dir, dir), "state"},
		{"format: text", "format: json", "log.format"},
		{"level: info", "level: warn", ""},
		{"read_header: 1s", "read_header: 2s", "timeouts.read_header"},
		{"body: 1s", "body: 2s", ""},
		{"upstream_response: 40s", "upstream_response: 20s", ""},
		{"upstream_response: 40s", "upstream_response: 19s", "timeouts.upstream_response"},
		{"write: 1s", "write: 2s", "timeouts.write"},
		{"idle: 1s, shutdown", "idle: 2s, shutdown", "timeouts.idle"},
		{"shutdown: 1s", "shutdown: 2s", "timeouts.shutdown"},
		{"header_bytes: 2KiB", "header_bytes: 3KiB", "limits.header_bytes"},
		{"body_bytes: 1KiB", "body_bytes: 2KiB", ""},
		{"connections: 10", "connections: 11", "limits.connections"},
		{"connections_per_network: 10", "connections_per_network: 11", "limits.connections_per_network"},
		{"in_flight: 10", "in_flight: 11", ""},
		{"per_source: 3", "per_source: 4", ""},
		{"per_source: 3", "per_source: 3, sources: 9", "doors[1].rules[0].throttle.sources"},
		{"per_source: 3", "per_source: 3, in_flight: 9", "doors[1].rules[0].throttle.in_flight"},
		{"limit: 2", "limit: 2, capacity: 9", "doors[1].rules[1].window.capacity"},
		{"limit: 2", "limit: 2, in_flight: 9", "doors[1].rules[1].window.in_flight"},
		{"name: w", "name: v", ""},
		{"name: w, per: everyone, window: {limit: 2", "name: v, per: everyone, window: {limit: 2, capacity: 9", ""},
		{"preset: signup", "preset: pushed_authorization", ""},
	} {
		if !strings.Contains(base, row.from) {
			t.Fatalf("%q is not there", row.from)
		}
		if got := strings.Join(fixed(old, parse(strings.Replace(base, row.from, row.to, 1))), ", "); got != row.want {
			t.Errorf("%s: needs a restart: %q, want %q", row.to, got, row.want)
		}
	}
}

// A request in flight ends with the door it began at, and is counted where it began.
func TestReloadInFlight(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") == "slow" {
			arrived <- true
			<-release
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer app.Close()
	s := newStage(t, app.URL)
	s.configure(lockout(5), "")
	p := s.start()
	slow := func() <-chan int {
		status := make(chan int, 1)
		go func() {
			r, err := http.PostForm("http://"+p.addr+"/login", url.Values{"password": {"slow"}})
			if err != nil {
				t.Error(err)
				status <- 0
				return
			}
			r.Body.Close()
			status <- r.StatusCode
		}()
		<-arrived
		return status
	}
	// 202 is a failure to the old outcome, and a success to the new one.
	p.fail(2)
	one, two := slow(), slow()
	s.configure(strings.Replace(lockout(4), "status: 302", "status: 202", 1), "")
	p.reload("msg=reloaded")
	release <- true
	release <- true
	if a, b := <-one, <-two; a != 202 || b != 202 {
		t.Errorf("statuses %d and %d, want 202", a, b)
	}
	p.refused(58*second, 60*second) // four failures
	// With a door that is gone it ends too; nobody counts it any more.
	s.configure(strings.Replace(lockout(1), "burst", "fresh", 1), "")
	p.reload("begin_anew=login/fresh")
	three := slow()
	s.configure(strings.NewReplacer("name: login", "name: other", "/login", "/other").Replace(lockout(1)), "")
	p.reload("forgotten=login")
	p.fail(3) // no door
	release <- true
	if status := <-three; status != 202 {
		t.Errorf("status %d, want 202", status)
	}
	p.stop()
}

// Attempts that come while the file is read again and again are each counted.
func TestReloadUnderLoad(t *testing.T) {
	s := newStage(t, application(t))
	const many = 300
	s.every = "100ms"
	s.configure(lockout(many), s.withState())
	p := s.start()
	done := make(chan bool)
	go func() {
		defer close(done)
		for range 20 {
			s.configure(lockout(many)+"    exempt: [192.0.2.0/24]\n", s.withState())
			p.signal(syscall.SIGHUP)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	go func() {
		for range p.lines { // nobody reads them else
		}
	}()
	admitted := 0
	for range many + 20 {
		if status, _ := p.guess("/login", "wrong"); status == http.StatusOK {
			admitted++
		}
	}
	<-done
	if admitted != many {
		t.Errorf("%d admitted, want %d", admitted, many)
	}
	p.stop()
}

// From flags there is nothing to read again: SIGHUP ends the process, as ever.
func TestHangupFlags(t *testing.T) {
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--upstream", application(t), "--door", "POST /login", "--succeeded", "302")
	p.signal(syscall.SIGHUP)
	p.wantExit(-1)
}
