package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const root = "../../.."

// readme returns the code blocks of the README of one language.
func readme(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

// The README's terminal session runs as it is printed: same commands, same output.
func TestREADMESession(t *testing.T) {
	need(t, "curl")
	session := readme(t, "console")[0]
	var script, want strings.Builder
	fmt.Fprintln(&script, "set -m")
	for line := range strings.Lines(session) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			fmt.Fprintf(&script, "echo '$' %q\n%s", strings.TrimSpace(command), command)
			if strings.HasSuffix(strings.TrimSpace(command), "&") {
				// A person is slower than a script.
				fmt.Fprintln(&script, "for i in $(seq 200); do curl -s -o /dev/null http://127.0.0.1:8080/ && break; read -t 0.1 <> <(:) || true; done")
			}
		}
		fmt.Fprint(&want, line)
	}
	fmt.Fprintln(&script, "wait 2>/dev/null; exit 0")
	cmd := namespace(t, "ip link set lo up\n"+script.String()) // where nobody else listens on port 8080
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.ReplaceAll(string(out), "\r", "")
	// What the README shows must be there in this order; "..." stands for any lines.
	rest := got
	for line := range strings.Lines(want.String()) {
		line = strings.TrimSpace(line)
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			line = "$ " + command
		}
		if line == "..." {
			continue
		}
		_, after, found := strings.Cut(rest, line+"\n")
		if !found {
			t.Fatalf("the README shows %q, which did not come; the session printed:\n%s", line, got)
		}
		rest = after
	}
	if n := strings.Count(got, "\n200\n"); n > 5 {
		t.Errorf("%d guesses got through", n)
	}
}

// The README's first command starts the demo from a clone.
func TestREADMEDemo(t *testing.T) {
	command := strings.TrimSpace(strings.TrimPrefix(readme(t, "console")[1], "$ "))
	if command != "go run ./cmd/doorward demo" {
		t.Fatalf("the README starts the demo by %q", command)
	}
	addr := freePort(t)
	cmd := exec.Command("go", "run", "./cmd/doorward", "demo", "--listen", addr)
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	out := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		cmd.Wait()
	}()
	until(t, "the demo to listen", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if got := guess(t, addr, "x"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("a wrong password: %s", got)
	}
	if !strings.Contains(out.String(), "curl") {
		t.Errorf("the demo prints no command to try:\n%s", out)
	}
}

// The other commands, each run here or by the test that is named.
func TestREADMECommands(t *testing.T) {
	elsewhere := map[string]string{
		"go get github.com/doorward/doorward": "TestInstall",
		"make test":                           "what runs this test",
	}
	for _, block := range readme(t, "sh") {
		for line := range strings.Lines(block) {
			command := strings.TrimSpace(line)
			if elsewhere[command] != "" {
				continue
			}
			args := words(command)
			if args[0] == "doorward" && args[1] == "replay" {
				replays(t, command)
				continue
			}
			if args[0] != "doorward" || args[1] != "serve" {
				t.Errorf("the README has a command that no test runs: %s", command)
				continue
			}
			a, upstream := newApp(t)
			addr := freePort(t)
			if i := slices.Index(args, "--upstream"); i > 0 {
				args[i+1] = "http://" + upstream
			}
			start(t, addr, binary, append(args[1:], "--listen", addr)...)
			for range 6 {
				guess(t, addr, "x")
			}
			if wrong, _ := a.tries(); wrong != 5 {
				t.Errorf("%s: %d attempts reached the application, want 5", command, wrong)
			}
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil || !strings.Contains(string(makefile), "\ntest:") {
		t.Errorf("the README says make test: %v", err)
	}
}

// What explain prints is what the README shows of it, "..." standing for any lines, and
// the figures of the default rules in the text are those of explain.
func TestREADMEExplain(t *testing.T) {
	command, shown, _ := strings.Cut(readme(t, "console")[2], "\n")
	args := words(strings.TrimPrefix(command, "$ "))
	if args[0] != "doorward" || args[1] != "explain" {
		t.Fatalf("the README's third session is %q", command)
	}
	explain := func(args ...string) string {
		out, err := exec.Command(binary, append([]string{"explain"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("doorward explain %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	got := explain(args[2:]...)
	rest := got
	parts := strings.Split(shown, "...\n")
	if len(parts) != 3 {
		t.Fatalf("%d parts of %q", len(parts), shown)
	}
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("the README shows\n%s\nexplain prints\n%s", part, got)
		}
		rest = after
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	sentence := regexp.MustCompile(`no more than this: (\d+) guesses in a day from one address, (\d+) from a /24 or a /48, (\d+) from an\s+IPv6 /32`).FindStringSubmatch(string(text))
	if sentence == nil {
		t.Fatal("the README does not say what the default rules admit")
	}
	defaults := explain("--span", "1d")
	for who, n := range map[string]string{"one IPv4 address": sentence[1], "one IPv6 /64": sentence[1], "one IPv4 /24": sentence[2], "one IPv6 /48": sentence[2], "one IPv6 /32": sentence[3]} {
		if !regexp.MustCompile(`(?m)^  ` + who + ` +\d+ +` + n + ` `).MatchString(defaults) {
			t.Errorf("the README says that %s gets %s, explain\n%s", who, n, defaults)
		}
	}
}

// The README's budget compiles, and prints what stands beside it.
func TestREADMEBudget(t *testing.T) {
	snippet := readme(t, "go")[1]
	want := regexp.MustCompile(`// (\d+)\n`).FindStringSubmatch(snippet)
	if want == nil {
		t.Fatal("the README's budget has no figure")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/readme\n\ngo 1.26\n\nrequire github.com/doorward/doorward v0.1.0\n\nreplace github.com/doorward/doorward => " + abs + "\n",
		"main_test.go": `package readme

import (
	"fmt"
	"log"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/lockout"
)

func Example() {
` + snippet + `	// Output: ` + want[1] + `
}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run1(t, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod"), dir, "go", "test", ".")
}

// Every form of --succeeded that the README's table has is one that serve takes.
func TestREADMEForms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	forms := regexp.MustCompile("`--succeeded ([^`]+)`").FindAllStringSubmatch(string(text), -1)
	if len(forms) < 6 {
		t.Fatalf("%d forms, want 6", len(forms))
	}
	for _, m := range forms {
		_, upstream := newApp(t)
		serve(t, upstream, "--door", "POST /login", "--succeeded", m[1])
	}
}

// words splits a command as a shell does with single quotes.
func words(s string) []string {
	var out []string
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// The annotated configuration is one that serve takes.
func TestExampleConfiguration(t *testing.T) {
	out, err := exec.Command(binary, "check", filepath.Join(root, "docs", "doorward.yaml")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ok: 6 doors, 38 rules") || strings.Contains(string(out), "warning") {
		t.Errorf("doorward check: %v\n%s", err, out)
	}
}

// The ten lines of Go compile, and do what the text beside them says.
func TestREADMEGo(t *testing.T) {
	dir := t.TempDir()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("go.mod", "module example.com/readme\n\ngo 1.26\n\nrequire github.com/doorward/doorward v0.1.0\n\nreplace github.com/doorward/doorward => "+abs+"\n")
	put("main_test.go", `package readme

import (
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/lockout"
)

func passwordIsRight(r *http.Request) bool { return r.FormValue("password") == "right" }

func Test(t *testing.T) {
	attempts, err := guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &lockout.Login}}})
	if err != nil {
		t.Fatal(err)
	}
`+readme(t, "go")[0]+`
	for i, want := range []int{303, 401, 401, 303, 401, 401, 401, 429} {
		target := "/login"
		if want == 303 {
			target += "?password=right"
		}
		w := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(w, httptest.NewRequest("POST", target, nil))
		if w.Code != want {
			t.Errorf("attempt %d: %d, want %d", i+1, w.Code, want)
		}
	}
}
`)
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	run1(t, env, dir, "go", "test", ".")
}

// replays runs a command over two logs, of five wrong guesses and one too many.
func replays(t *testing.T, command string) {
	t.Helper()
	dir := t.TempDir()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	for i := range 5 {
		fmt.Fprintf(z, "192.0.2.7 - - [30/Nov/2026:12:00:0%d +0000] \"POST /login HTTP/1.1\" 200 5 \"-\" \"x\"\n", i)
	}
	z.Close()
	for name, text := range map[string]string{
		"access.log.1.gz": zipped.String(),
		"access.log":      "192.0.2.7 - - [30/Nov/2026:12:00:09 +0000] \"POST /login HTTP/1.1\" 302 5 \"-\" \"x\"\n",
		"doorward.yaml":   "upstream: http://127.0.0.1:1\ndoors: [{name: login, routes: [POST /login], outcome: {succeeded: {status: 302}}}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	attempts := "6 attempts"
	if !strings.Contains(command, ".gz") {
		attempts = "1 attempt"
	}
	if !strings.Contains(string(out), attempts) {
		t.Errorf("%s: not %s:\n%s", command, attempts, out)
	}
}
