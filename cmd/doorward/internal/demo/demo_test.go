package demo

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// screen is what a demo prints.
type screen struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	news chan struct{}
}

func newScreen() *screen { return &screen{news: make(chan struct{})} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news = make(chan struct{})
	return s.buf.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// wait waits until the screen shows pattern and returns what it matched.
func (s *screen) wait(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		text, news := s.buf.String(), s.news
		s.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m
		}
		select {
		case <-news:
		case <-timeout:
			t.Fatalf("no %s in:\n%s", pattern, text)
		}
	}
}

// start runs a demo. The function it returns ends it and returns its error.
func start(t *testing.T) (out *screen, base string, stop func() error) {
	t.Helper()
	out = newScreen()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, out, "127.0.0.1:0") }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	base = out.wait(t, `Doorward guards a login at (http://127\.0\.0\.1:\d+)\n`)[1]
	out.wait(t, `What happens at the door:\n`)
	return out, base, stop
}

// TestCommands runs what a demo tells people to run, as it is printed.
func TestCommands(t *testing.T) {
	out, _, stop := start(t)
	commands := regexp.MustCompile(`(?m)^\d\. .*\n   (.*)$`).FindAllStringSubmatch(out.String(), -1)
	want := []string{
		`(?s)^HTTP/1\.1 302 Found\r\n.*Location: /account\r\n.*Set-Cookie: session=[A-Z2-7]{26}; Path=/; HttpOnly; SameSite=Lax\r\n`,
		`^200\n200\n200\n200\n200\n429\n$`,
		`(?s)^HTTP/1\.1 429 Too Many Requests\r\n.*Retry-After: (60|59|58|57|56|55)\r\n`,
		`^This application has seen 6 tries\.\n$`,
	}
	if len(commands) != len(want)+1 || !strings.HasPrefix(commands[len(want)][1], "hydra ") {
		t.Fatalf("commands: %q", commands)
	}
	for i, pattern := range want {
		got, err := exec.Command("sh", "-c", commands[i][1]).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", commands[i][1], err, got)
		}
		if !regexp.MustCompile(pattern).Match(got) {
			t.Errorf("%s: got\n%s", commands[i][1], got)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for pattern, n := range map[string]int{
		`(?m)^  \d\d:\d\d:\d\d  succeeded  127\.0\.0\.1$`:                                         1,
		`(?m)^  \d\d:\d\d:\d\d  failed     127\.0\.0\.1$`:                                         5,
		`(?m)^  \d\d:\d\d:\d\d  refused    127\.0\.0\.1: rule burst, locked, try again in \d+ s$`: 2,
		`(?m)^The application saw 6 tries; 2 were refused\.$`:                                     1,
	} {
		if got := len(regexp.MustCompile(pattern).FindAllString(out.String(), -1)); got != n {
			t.Errorf("%d times %s, want %d, in:\n%s", got, pattern, n, out)
		}
	}
}

// TestSession is what a person does in a browser.
func TestSession(t *testing.T) {
	_, base, _ := start(t)
	jar, _ := cookiejar.New(nil)
	c := &http.Client{Jar: jar}
	for _, step := range []struct {
		method, path, password string
		at, shows, not         string
	}{
		{"GET", "/", "", "/", "<h1>Log in</h1>", "Wrong"},
		{"GET", "/account", "", "/login", "<h1>Log in</h1>", "Welcome"},
		{"POST", "/login", "<script>", "/login", "Wrong user name or password.", "<script>"},
		{"POST", "/login", "secret", "/account", "<h1>Welcome, alice</h1>", "Log in"},
		{"GET", "/account", "", "/account", "has seen 2 tries", "Wrong"},
		{"POST", "/logout", "", "/", "<h1>Log in</h1>", "Welcome"},
		{"GET", "/account", "", "/login", "<h1>Log in</h1>", "Welcome"},
		{"GET", "/nowhere", "", "/nowhere", "404", "Welcome"},
	} {
		var res *http.Response
		var err error
		if step.method == "GET" {
			res, err = c.Get(base + step.path)
		} else {
			res, err = c.PostForm(base+step.path, url.Values{"username": {"alice"}, "password": {step.password}})
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if at := res.Request.URL.Path; at != step.at {
			t.Errorf("%s %s: ended at %s, want %s", step.method, step.path, at, step.at)
		}
		if !strings.Contains(string(body), step.shows) || strings.Contains(string(body), step.not) {
			t.Errorf("%s %s: page\n%s", step.method, step.path, body)
		}
	}
}

// TestForged: a session cookie that was never issued opens nothing.
func TestForged(t *testing.T) {
	_, base, _ := start(t)
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.PostForm(base+"/login", url.Values{"username": {"alice"}, "password": {"secret"}})
	if err != nil || len(res.Cookies()) != 1 {
		t.Fatalf("no session: %v", err)
	}
	res.Body.Close()
	for _, value := range []string{"", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		req, _ := http.NewRequest("GET", base+"/account", nil)
		req.AddCookie(&http.Cookie{Name: "session", Value: value})
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 303 {
			t.Errorf("cookie %q: status %d, want 303", value, res.StatusCode)
		}
	}
}

func TestRunErrors(t *testing.T) {
	_, base, _ := start(t)
	taken := strings.TrimPrefix(base, "http://")
	err := Run(context.Background(), io.Discard, taken)
	if err == nil || !strings.HasPrefix(err.Error(), "demo: listen tcp "+taken+": ") {
		t.Errorf("address in use: %v", err)
	}
}

// TestPrinter: what a flood left out is said, and counted.
func TestPrinter(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out}
	log := slog.New(p)
	refused := []any{"door", "login", "rule", "burst", "reason", "locked", "retry_after", 60, "client", "127.0.0.1"}
	log.Info("refused", refused...)
	log.Info("refused", append(refused, "suppressed", uint64(3))...)
	log.Info("refused", "suppressed", uint64(4))
	log.Error("upstream failed", "error", "gone\n")
	if n := p.refusals(); n != 9 {
		t.Errorf("%d refusals, want 9", n)
	}
	got := regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(out.String(), "T")
	want := `  T  refused    127.0.0.1: rule burst, locked, try again in 60 s
  T  and 3 more "refused"
  T  refused    127.0.0.1: rule burst, locked, try again in 60 s
  T  and 4 more "refused"
  T  upstream failed error="gone\n"
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReachable(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "[::1]:80", "[::1]:80": "[::1]:80", "localhost:80": "localhost:80",
	} {
		if got := reachable(in); got != want {
			t.Errorf("reachable(%q): %q, want %q", in, got, want)
		}
	}
}
