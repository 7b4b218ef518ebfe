package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// configured runs serve with a configuration file that has UPSTREAM and LISTEN for the
// two addresses.
func configured(t *testing.T, upstream, yaml string) (addr string, p *process) {
	t.Helper()
	addr = freePort(t)
	file := filepath.Join(t.TempDir(), "doorward.yaml")
	text := strings.NewReplacer("UPSTREAM", upstream, "LISTEN", addr).Replace(yaml)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return addr, start(t, addr, binary, "serve", "--config", file)
}

const loginYAML = `
listen: LISTEN
upstream: http://UPSTREAM
clients: {header: X-Forwarded-For, trusted_proxies: [127.0.0.1/32]}
realms:
  accounts: {preset: login}
doors:
  - {name: form, routes: ["POST /login"], realm: accounts, subject: {form: username}, outcome: {succeeded: {status: 302, set_cookie: session}}}
  - {name: api, routes: ["POST /api/login"], realm: accounts, subject: {json: user.name}, outcome: {succeeded: {status: 204}}}
`

// post sends one login with curl as the network from, and returns the status.
func post(t *testing.T, addr, from, path, kind, body string) string {
	t.Helper()
	return tool(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "-H", "X-Forwarded-For: "+from,
		"-H", "Content-Type: "+kind, "--data-binary", body, "http://"+addr+path)
}

const form = "application/x-www-form-urlencoded"

// One account, 36 networks, and ten ways to spell it, over two doors of one realm:
// strangers then wait, other accounts do not, and nothing else is shut.
func TestOneAccountManyNetworks(t *testing.T) {
	need(t, "curl")
	a, upstream := newApp(t)
	addr, p := configured(t, upstream, loginYAML)
	spellings := []string{
		"username=alice", "username=ALICE", "username=%61lice", "username=+alice+", "username=al%C2%ADice",
		"username=%EF%BD%81lice", "username=alice%E2%80%8B", "username=%41LICE", "username=alice+", "username=a%6cice",
	}
	for i := range 36 {
		from := fmt.Sprintf("198.51.%d.1", i)
		if i%6 == 5 {
			if got := post(t, addr, from, "/api/login", "application/json", `{"user": {"name": "Alice"}, "password": "x"}`); got != "200" {
				t.Fatalf("attempt %d, JSON: %s", i+1, got)
			}
			continue
		}
		if got := post(t, addr, from, "/login", form, spellings[i%10]+"&password=x"); got != "200" {
			t.Fatalf("attempt %d, %s: %s", i+1, spellings[i%10], got)
		}
	}
	for _, s := range spellings {
		if got := post(t, addr, "203.0.113.1", "/login", form, s+"&password=correct+horse"); got != "429" {
			t.Errorf("a stranger as %s: %s, want 429", s, got)
		}
	}
	if got := post(t, addr, "203.0.113.1", "/api/login", "application/json", `{"user": {"name": "alice"}}`); got != "429" {
		t.Errorf("the other door of the realm: %s, want 429", got)
	}
	if got := post(t, addr, "203.0.113.1", "/login", form, "username=bob&password=x"); got != "200" {
		t.Errorf("another account: %s, want 200", got)
	}
	if wrong, right := a.tries(); wrong != 31 || right != 0 {
		t.Errorf("%d wrong and %d right logins reached the form's handler, want 31 and 0", wrong, right)
	}
	if strings.Contains(strings.ToLower(p.out.String()), "alice") {
		t.Error("the log names the account")
	}
}

// Bodies that name the account in two ways are not passed on, and are charged to
// their network alone.
func TestMalformedBodies(t *testing.T) {
	need(t, "curl")
	a, upstream := newApp(t)
	addr, _ := configured(t, upstream, loginYAML)
	for _, row := range []struct{ kind, body, want string }{
		{form, "username=alice&username=bob&password=x", "400"},
		{form, "password=x", "400"},
		{form, "username=%zz", "400"},
		{"text/plain", "username=alice", "415"},
		{form + "; charset=utf-7", "username=alice", "415"},
		{form, "username=alice&x=" + strings.Repeat("x", 70_000), "413"},
	} {
		if got := post(t, addr, "198.51.100.1", "/login", row.kind, row.body); got != row.want {
			t.Errorf("%s %.40s: %s, want %s", row.kind, row.body, got, row.want)
		}
	}
	if wrong, right := a.tries(); wrong+right != 0 {
		t.Errorf("%d of them reached the application", wrong+right)
	}
	for range 30 { // 36 in all
		post(t, addr, "198.51.100.1", "/login", form, "password=x")
	}
	if got := post(t, addr, "198.51.100.1", "/login", form, "username=carol&password=x"); got != "429" {
		t.Errorf("the network after 36 malformed ones: %s, want 429", got)
	}
	if got := post(t, addr, "203.0.113.1", "/login", form, "username=alice&password=x"); got != "200" {
		t.Errorf("the account from elsewhere: %s, want 200", got)
	}
}

// hydra at one account gets the five of its pair, and at a hundred accounts the 36 of
// its network.
func TestHydraWithSubjects(t *testing.T) {
	need(t, "hydra")
	yaml := strings.Replace(loginYAML, "clients: {header: X-Forwarded-For, trusted_proxies: [127.0.0.1/32]}", "clients: {}", 1)
	attack := `/login:username=^USER^&password=^PASS^:S=Location\: /account`
	a, upstream := newApp(t)
	addr, _ := configured(t, upstream, yaml)
	tool(t, "hydra", "-I", "-l", "alice", "-P", passwords(t, 200, -1, ""), "-s", port(addr), "-t", "16", "127.0.0.1", "http-post-form", attack)
	if wrong, right := a.tries(); wrong != 5 || right != 0 {
		t.Errorf("%d wrong and %d right attempts at one account, want 5 and 0", wrong, right)
	}

	a, upstream = newApp(t)
	addr, _ = configured(t, upstream, yaml)
	tool(t, "hydra", "-I", "-L", passwords(t, 100, -1, ""), "-p", "x", "-s", port(addr), "-t", "16", "127.0.0.1", "http-post-form", attack)
	if wrong, right := a.tries(); wrong != 36 || right != 0 {
		t.Errorf("%d wrong and %d right attempts at 100 accounts, want 36 and 0", wrong, right)
	}
}
