package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

const onCallFile = `
clients: {trusted_proxies: [127.0.0.1/32]}
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
    preset: login
    subject: {form: username}
`

// docs/operations.md shows what the commands print while a network guesses at many accounts
// and a customer has mistyped a password. Each block is what a run of this test printed;
// it fails when one would print something else, numbers and times aside. UPDATE_DOCS=1
// writes it.
func TestOperationsDocument(t *testing.T) {
	file, err := filepath.Abs(filepath.Join(docs, "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, upstream := newApp(t)
	addr := freePort(t)
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("DOORWARD_ADMIN", "unix:"+filepath.Join(dir, "admin.sock"))
	t.Setenv("TZ", "UTC")
	t.Setenv("SUDO_USER", "ann")
	t.Setenv("PATH", filepath.Dir(binary)+":"+os.Getenv("PATH"))
	config := fmt.Sprintf("listen: %s\nupstream: http://%s%s", addr, upstream, onCallFile)
	if err := os.WriteFile("doorward.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, addr, binary, "serve", "--config", "doorward.yaml")
	until(t, "the admin API", func() bool {
		_, err := os.Stat("admin.sock")
		return err == nil
	})
	for range 6 {
		wrongAs(t, addr, "192.0.2.7", "alice@example.com")
	}
	stop, running := make(chan bool), sync.WaitGroup{}
	running.Go(func() { // a few hundred a second, from one network
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				wrongAs(t, addr, "203.0.113.9", fmt.Sprint("user", i, "@example.com"))
			}
		}
	})
	defer running.Wait()
	defer close(stop)
	until(t, "the network to be locked out", func() bool {
		out, _ := exec.Command(binary, "why", "203.0.113.9").Output()
		return strings.Contains(string(out), "is refused")
	})

	asked := 0
	blocks := regexp.MustCompile("(?s)```console\n(\\$ doorward (?:status|locked|why|unlock|exempt|events)[^\n]*)\n(.*?)```\n")
	// A store's answers are further below, and another test's.
	questions, rest, _ := strings.Cut(string(text), "\n## Restart\n")
	got := blocks.ReplaceAllStringFunc(questions, func(block string) string {
		asked++
		m := blocks.FindStringSubmatch(block)
		out, err := exec.Command("sh", "-c", strings.TrimPrefix(m[1], "$ ")).CombinedOutput()
		if code := 0; err != nil {
			if code = err.(*exec.ExitError).ExitCode(); code != 3 {
				t.Errorf("%s: %v\n%s", m[1], err, out)
			}
		}
		now := strings.NewReplacer(addr, "127.0.0.1:8080", upstream, "127.0.0.1:3000").Replace(string(out))
		now = place.ReplaceAllString(now, "configuration /etc/doorward/doorward.yaml")
		if masked(now) == masked(m[2]) {
			return block
		}
		return "```console\n" + m[1] + "\n" + now + "```\n"
	})
	if asked < 6 {
		t.Errorf("%d commands in the document", asked)
	}
	document.Whole(t, file, got+"\n## Restart\n"+rest)
}

// wrongAs tries a wrong password through a proxy.
func wrongAs(t *testing.T, addr, from, user string) {
	r, err := http.NewRequest("POST", "http://"+addr+"/login", strings.NewReader(url.Values{"username": {user}, "password": {"wrong"}}.Encode()))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-For", from)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	res.Body.Close()
}

var (
	numbers = regexp.MustCompile(`(?:name|pair):\w{10}|\b[0-9a-f]{16,32}\b|[<>] \d+ %|\d+[dhms](?:\d+[hms])?|\d[\d,.:]*`)
	place   = regexp.MustCompile(`configuration\s+/\S*/doorward\.yaml`)
	dates   = regexp.MustCompile(`\d{4}-\d\d-\d\d\s+`) // of what ends after midnight
	build   = regexp.MustCompile(`doorward \S+(?: \w{12})?(?:\+modified)? go\S+ \w+/\w+`)
)

// masked is what a text says beside its numbers.
func masked(s string) string {
	s = dates.ReplaceAllString(build.ReplaceAllString(s, "doorward V"), "")
	return strings.Join(strings.Fields(numbers.ReplaceAllString(s, "N")), " ")
}
