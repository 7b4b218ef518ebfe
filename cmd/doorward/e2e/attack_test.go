package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attackYAML allows five failures in a minute, and locks for ten.
const attackYAML = `
listen: LISTEN
upstream: http://UPSTREAM
clients: {}
doors:
  - name: login
    routes: ["POST /login"]
    rules:
      - {per: network, lockout: {free_failures: 5, window: 1m, first_lockout: 10m, max_lockout: 10m}}
    outcome: {succeeded: {status: 302, set_cookie: session}}
`

// attackTime is how long each attack lasts: ten seconds, or what ATTACK_TIME says.
func attackTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ATTACK_TIME")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 5*time.Minute {
		t.Fatalf("ATTACK_TIME must be a duration of up to 5m, got %q", text)
	}
	return d
}

// An attacker is a program that tries passwords for alice at POST /login.
type attacker struct {
	program string
	// args are for full speed, or for one guess after the other.
	args func(addr, list string, slow bool) []string
	// found is what it prints, on one line, when it has found the right password.
	found *regexp.Regexp
}

func attackers() []attacker {
	const right = `correct horse`
	return []attacker{
		{"hydra", func(addr, list string, slow bool) []string {
			tasks := "64"
			if slow {
				tasks = "1"
			}
			return []string{"-I", "-l", "alice", "-P", list, "-s", port(addr), "-t", tasks, "-f", "127.0.0.1", "http-post-form",
				`/login:username=^USER^&password=^PASS^:S=Location\: /account`}
		}, regexp.MustCompile(`password: ` + right)},
		{"ffuf", func(addr, list string, slow bool) []string {
			threads := "64"
			if slow {
				threads = "1"
			}
			return []string{"-w", list, "-u", "http://" + addr + "/login", "-X", "POST", "-H", "Content-Type: application/x-www-form-urlencoded",
				"-d", "username=alice&password=FUZZ", "-t", threads, "-mc", "302", "-s"}
		}, regexp.MustCompile(`(?m)^` + right)},
		{"patator", func(addr, list string, slow bool) []string {
			threads := "32"
			if slow {
				threads = "1"
			}
			return []string{"http_fuzz", "url=http://" + addr + "/login", "method=POST", "body=username=alice&password=FILE0", "0=" + list,
				"resolve=app.example:127.0.0.1", // libcurl takes no empty one
				"-t", threads, "-x", "ignore:code=200", "-x", "ignore:code=429"}
		}, regexp.MustCompile(`302 .*` + right)},
	}
}

// attack runs a program for d, or until it ends by itself, and returns what it printed.
// It ends the processes that the program has started, and no others: they are a process
// group of their own.
func attack(t *testing.T, d time.Duration, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	cmd := exec.CommandContext(ctx, need(t, program), args...)
	cmd.Dir = t.TempDir() // they leave files behind
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, hold, err := os.Pipe() // patator waits for keys
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer hold.Close()
	cmd.Stdin = stdin
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	t.Logf("%s: %v", program, err)
	var missing *exec.Error
	if errors.As(err, &missing) {
		t.Fatal(err)
	}
	return out.String()
}

// list writes n passwords that are wrong, and the right one behind place of them.
func list(t *testing.T, n, place int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		if i == place {
			b.WriteString("correct horse\n")
		}
		b.WriteString("guess" + strconv.Itoa(i) + "\n")
	}
	name := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// refused returns how many attempts doorward has logged or counted as refused.
func refused(out string) (n int) {
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "msg=refused") {
			continue
		}
		n++
		if m := regexp.MustCompile(`suppressed=(\d+)`).FindStringSubmatch(line); m != nil {
			k, _ := strconv.Atoi(m[1])
			n += k
		}
	}
	return n
}

// Programs that were written to try passwords get five tries, however fast they are and
// however long they go on, and none of them finds the right one behind those.
func TestAttacks(t *testing.T) {
	for _, by := range attackers() {
		t.Run(by.program, func(t *testing.T) {
			need(t, by.program)
			d := attackTime(t)
			a, upstream := newApp(t)
			addr, p := configured(t, upstream, attackYAML)
			out := attack(t, d, by.program, by.args(addr, list(t, 20_000*int(1+d/time.Second), 500), false)...)
			if wrong, right := a.tries(); wrong != 5 || right != 0 {
				t.Errorf("%d wrong and %d right guesses reached the application, want 5 and 0\n%.2000s", wrong, right, out)
			}
			if by.found.MatchString(out) {
				t.Errorf("it found the right one\n%.2000s", out)
			}
			if answer := guess(t, addr, "correct horse"); !strings.HasPrefix(answer, "HTTP/1.1 429 ") {
				t.Errorf("the right one is answered\n%s", answer)
			}
			// The lines that are suppressed are counted at the end.
			p.cmd.Process.Signal(syscall.SIGTERM)
			until(t, "doorward to stop", func() bool { return strings.Contains(p.out.String(), "msg=stopped") })
			n := refused(p.out.String())
			if n < 100 {
				t.Errorf("it was refused %d times: was that an attack?\n%.2000s", n, out)
			}
			t.Logf("%s: 5 guesses passed in %v, %d were refused", by.program, d, n)
		})
	}
}

// The same programs find the right one among the first five, and then the rest of the
// budget is what the wrong ones have left.
func TestAttacksFindTheRightOne(t *testing.T) {
	for _, by := range attackers() {
		t.Run(by.program, func(t *testing.T) {
			need(t, by.program)
			a, upstream := newApp(t)
			addr, _ := configured(t, upstream, attackYAML)
			out := attack(t, time.Minute, by.program, by.args(addr, list(t, 3, 2), true)...)
			if wrong, right := a.tries(); wrong < 2 || wrong > 3 || right != 1 || !by.found.MatchString(out) {
				t.Errorf("%d wrong and %d right guesses reached the application, want 2 or 3 and 1\n%.3000s", wrong, right, out)
			}
			wrong, _ := a.tries()
			for i := wrong; i < 8; i++ {
				want := "HTTP/1.1 200 "
				if i >= 5 {
					want = "HTTP/1.1 429 "
				}
				if answer := guess(t, addr, fmt.Sprint("another", i)); !strings.HasPrefix(answer, want) {
					t.Errorf("failure %d is answered\n%s", i+1, answer)
				}
			}
		})
	}
}
