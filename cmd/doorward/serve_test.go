package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is a running doorward whose log lines are read as they come.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	exit  chan int
	addr  string
}

var listenAddr = regexp.MustCompile(`msg=serving listen=(\S+)|"msg":"serving","listen":"([^"]+)"`)

// start runs doorward and waits until it serves.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return run(t, exec.Command("doorward", args...))
}

// run is start of a command that becomes doorward.
func run(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, lines: make(chan string, 1000), exit: make(chan int, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	go func() {
		for in := bufio.NewScanner(stderr); in.Scan(); {
			p.lines <- in.Text()
		}
		_ = p.cmd.Wait()
		p.exit <- p.cmd.ProcessState.ExitCode()
	}()
	m := listenAddr.FindStringSubmatch(p.line("serving"))
	if m == nil {
		t.Fatal("no address in the log")
	}
	p.addr = m[1] + m[2]
	return p
}

// line waits for a log line that holds text.
func (p *process) line(text string) string {
	p.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case l := <-p.lines:
			if strings.Contains(l, text) {
				return l
			}
		case <-deadline:
			p.t.Fatalf("no log line with %q", text)
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) wantExit(code int) {
	p.t.Helper()
	select {
	case got := <-p.exit:
		if got != code {
			p.t.Errorf("exit code %d, want %d", got, code)
		}
	case <-time.After(10 * time.Second):
		p.t.Fatal("does not end")
	}
}

// login posts a password and returns the status.
func (p *process) login(password string) int {
	p.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.PostForm("http://"+p.addr+"/login", url.Values{"password": {password}})
	if err != nil {
		p.t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// application answers 302 to the right password and 200 to wrong ones, as most do.
func application(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") == "right" {
			http.Redirect(w, r, "/home", http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestServeFlags(t *testing.T) {
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--upstream", application(t), "--door", "POST /login", "--succeeded", "302")
	if l := p.line("guarding"); !strings.Contains(l, `door=default routes="POST /login" rules="burst, day, site32-day, site48-burst, site48-day, site24-burst, site24-day"`) {
		t.Errorf("line %s", l)
	}
	if status := p.login("right"); status != http.StatusFound {
		t.Errorf("the right password: %d, want 302", status)
	}
	for i := range 5 {
		if status := p.login("wrong"); status != http.StatusOK {
			t.Errorf("wrong password %d: %d, want 200", i+1, status)
		}
	}
	if status := p.login("right"); status != http.StatusTooManyRequests {
		t.Errorf("after five failures: %d, want 429", status)
	}
	p.signal(syscall.SIGTERM)
	p.line("stopped")
	p.wantExit(0)
}

// With a preset that charges subjects, one account is shut to an address and others are not.
func TestServePreset(t *testing.T) {
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--upstream", application(t), "--door", "POST /login", "--succeeded", "302",
		"--preset", "login", "--subject", "form:user")
	if l := p.line("guarding"); !strings.Contains(l, `rules="site32, site48, site24, network, subject, step-up, pair"`) {
		t.Errorf("line %s", l)
	}
	guess := func(user string) int {
		t.Helper()
		r, err := http.PostForm("http://"+p.addr+"/login", url.Values{"user": {user}, "password": {"wrong"}})
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	for i := range 7 {
		want := http.StatusOK
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		if status := guess("alice"); status != want {
			t.Errorf("guess %d at alice: %d, want %d", i, status, want)
		}
	}
	if status := guess("bob"); status != http.StatusOK {
		t.Errorf("bob: %d, want 200", status)
	}
	if status := p.login("right"); status != http.StatusBadRequest { // names no user
		t.Errorf("nobody: %d, want 400", status)
	}
}

func TestServeFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doorward.yaml")
	text := "listen: 127.0.0.1:1\nupstream: " + application(t) + `
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
    rules:
      - {name: two, per: network4/24, lockout: {free_failures: 2, window: 1m, first_lockout: 1m, max_lockout: 1h}}
log: {format: json}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "serve", "--config", file, "--listen", "127.0.0.1:0")
	var warning struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(p.line("WARN")), &warning); err != nil || !strings.Contains(warning.Msg, "IPv6 callers are not limited") {
		t.Errorf("warning %+v, %v", warning, err)
	}
	for _, want := range []int{200, 200, 429} {
		if status := p.login("wrong"); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
	p.signal(os.Interrupt)
	p.wantExit(0)
}

// The first signal lets a request end, the second ends the process.
func TestSecondSignal(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- true; <-release }))
	defer s.Close()
	for _, row := range []struct {
		name   string
		second bool
		code   int
	}{{"one", false, 0}, {"two", true, 1}} {
		p := start(t, "serve", "--listen", "127.0.0.1:0", "--upstream", s.URL, "--door", "POST /login", "--succeeded", "header")
		var answered sync.WaitGroup
		answered.Go(func() {
			r, err := http.Get("http://" + p.addr + "/slow")
			if err == nil {
				r.Body.Close()
			}
			if row.second == (err == nil) {
				t.Errorf("%s: the request in flight got error %v", row.name, err)
			}
		})
		<-arrived
		p.signal(syscall.SIGTERM)
		p.line("stopping")
		if row.second {
			p.signal(syscall.SIGTERM)
			p.wantExit(row.code)
			release <- true
		} else {
			release <- true
			p.wantExit(row.code)
		}
		answered.Wait()
	}
}

func TestServeAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var stderr bytes.Buffer
	cmd := exec.Command("doorward", "serve", "--listen", ln.Addr().String(), "--upstream", "http://127.0.0.1:1", "--door", "/", "--succeeded", "302")
	cmd.Stderr = &stderr
	exit := (*exec.ExitError)(nil)
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v, want exit code 1", err)
	}
	if want := "doorward: listen tcp " + ln.Addr().String() + ": bind: address already in use\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}
