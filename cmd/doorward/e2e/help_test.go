package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
)

// binary is doorward, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if _, said := os.LookupEnv(config.AdminEnv); !said {
		os.Setenv(config.AdminEnv, "off") // daemons of several tests run at a time
	}
	dir, err := os.MkdirTemp("", "doorward-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "doorward")
	if inNamespace() {
		binary = os.Getenv(namespaceEnv)
		return m.Run()
	}
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// need returns the path of a program. In CI its absence is a failure.
func need(t *testing.T, program string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if p, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return p
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed", program)
	}
	t.Skipf("%s is not installed", program)
	return ""
}

// freePort returns an address that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// until polls with a deadline.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited 20 s for %s", what)
		case <-tick.C:
		}
	}
}

// A process is a program that the test started and will end.
type process struct {
	cmd *exec.Cmd
	out *safeBuffer
}

// start runs a program until the test ends and waits until addr accepts connections.
func start(t *testing.T, addr, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), out: &safeBuffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(20 * time.Second):
			p.cmd.Process.Kill()
			t.Errorf("%s did not end within 20 s of SIGTERM", filepath.Base(program))
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(program), p.out)
		}
	})
	until(t, filepath.Base(program)+" to listen on "+addr, func() bool {
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended: %v\n%s", filepath.Base(program), err, p.out)
		default:
		}
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return p
}

// serve puts doorward in front of upstream and returns its address.
func serve(t *testing.T, upstream string, args ...string) (addr string, p *process) {
	t.Helper()
	addr = freePort(t)
	args = append([]string{"serve", "--listen", addr, "--upstream", "http://" + upstream}, args...)
	return addr, start(t, addr, binary, args...)
}

// tool runs a program to its end.
func tool(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, need(t, program), args...)
	cmd.Dir = t.TempDir() // hydra leaves files behind
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s %s did not end within two minutes\n%s", program, strings.Join(args, " "), out)
	}
	t.Logf("%s: %v", program, err) // hydra exits 255 when it finds nothing
	return string(out)
}

// An app is a login application: a form, one user, a page for those who are in. It
// answers 200 to a wrong password, as most do.
type app struct {
	mu    sync.Mutex
	wrong int
	right int
	from  map[string]int // tries by X-Forwarded-For
}

func newApp(t *testing.T) (*app, string) {
	t.Helper()
	a := &app{from: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: a}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return a, l.Addr().String()
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == "POST" && r.URL.Path == "/login":
		right := r.FormValue("username") == "alice" && r.FormValue("password") == "correct horse"
		a.mu.Lock()
		if right {
			a.right++
		} else {
			a.wrong++
		}
		a.from[r.Header.Get("X-Forwarded-For")]++
		a.mu.Unlock()
		if right {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
			http.Redirect(w, r, "/account", http.StatusFound)
			return
		}
		fmt.Fprintln(w, "<p>Wrong name or password.</p>")
	case r.URL.Path == "/account":
		fmt.Fprintln(w, "<p>Welcome.</p>")
	default:
		fmt.Fprintln(w, `<form method="post" action="/login"><input name="username"><input name="password"></form>`)
	}
}

// tries returns how many wrong and right attempts reached the application.
func (a *app) tries() (wrong, right int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wrong, a.right
}

// passwords writes a list of n wrong passwords, with the right one at place if that is
// not negative.
func passwords(t *testing.T, n, place int, right string) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		if i == place {
			fmt.Fprintln(&b, right)
		}
		fmt.Fprintf(&b, "guess%d\n", i)
	}
	name := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
