package e2e

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func status(t *testing.T, url string) int {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// guess posts a password with curl and returns the whole answer.
func guess(t *testing.T, addr, password string, args ...string) string {
	t.Helper()
	args = append([]string{"-si", "--max-time", "20", "-d", "username=alice", "--data-urlencode", "password=" + password}, args...)
	return tool(t, "curl", append(args, "http://"+addr+"/login")...)
}

// What a locked caller sees, by curl.
func TestCurl(t *testing.T) {
	need(t, "curl")
	a, upstream := newApp(t)
	addr, p := serve(t, upstream, "--door", "POST /login", "--succeeded", "302", "--log-format", "json")
	for i := range 5 {
		if out := guess(t, addr, "x"); !strings.HasPrefix(out, "HTTP/1.1 200 OK") {
			t.Fatalf("guess %d: %s", i+1, out)
		}
	}
	for _, row := range []struct{ accept, kind, body string }{
		{"application/json", "application/problem+json", `"status":429`},
		{"text/html", "text/html; charset=utf-8", "<!"},
		{"*/*", "text/plain; charset=utf-8", "oo many"},
	} {
		out := guess(t, addr, "correct horse", "-H", "Accept: "+row.accept)
		head, body, _ := strings.Cut(out, "\r\n\r\n")
		for _, want := range []string{"HTTP/1.1 429 Too Many Requests", "Cache-Control: no-store", "Content-Type: " + row.kind} {
			if !strings.Contains(head, want) {
				t.Errorf("Accept %s: no %q in\n%s", row.accept, want, head)
			}
		}
		if !strings.Contains(body, row.body) {
			t.Errorf("Accept %s: no %q in\n%s", row.accept, row.body, body)
		}
		wait := regexp.MustCompile(`Retry-After: (\d+)\r\n`).FindStringSubmatch(head)
		if wait == nil {
			t.Fatalf("no Retry-After in\n%s", head)
		}
		if n, _ := strconv.Atoi(wait[1]); n < 30 || n > 60 {
			t.Errorf("Retry-After %d, want what is left of a minute", n)
		}
	}
	if out := tool(t, "curl", "-s", "http://"+addr+"/login"); !strings.Contains(out, "<form") {
		t.Errorf("the form is shut as well:\n%s", out)
	}
	if wrong, right := a.tries(); wrong != 5 || right != 0 {
		t.Errorf("%d wrong and %d right attempts reached the application, want 5 and 0", wrong, right)
	}
	for _, want := range []string{`"rule":"burst"`, `"reason":"locked"`, `"client":"127.0.0.1"`} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
}

// Every spelling of the path meets the same rule, through curl's own hands.
func TestCurlSpellings(t *testing.T) {
	need(t, "curl")
	_, upstream := newApp(t)
	addr, _ := serve(t, upstream, "--door", "POST /login", "--succeeded", "302")
	for i, path := range []string{"/login", "/login?x=1", "/login/", "/%6Cogin", "//login", "/./login", "/x/../login", "/login;a=1", "/%2e/login"} {
		out := tool(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", "-d", "username=alice&password=x", "http://"+addr+path)
		if want := i >= 5; (out == "429") != want {
			t.Errorf("attempt %d at %s: %s", i+1, path, out)
		}
	}
	if out := tool(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", "x=1", "http://"+addr+"/login-help"); out != "200" {
		t.Errorf("/login-help is shut as well: %s", out)
	}
}
