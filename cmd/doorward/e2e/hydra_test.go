package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Five wrong guesses reach an application with an HTML form, whatever hydra does at
// 16 tasks, and the account then stays shut for the right password too.
func TestHydraForm(t *testing.T) {
	need(t, "hydra")
	a, upstream := newApp(t)
	addr, _ := serve(t, upstream, "--door", "POST /login", "--succeeded", "302,cookie:session")
	form := `/login:username=^USER^&password=^PASS^:S=Location\: /account`
	tool(t, "hydra", "-I", "-l", "alice", "-P", passwords(t, 300, -1, ""), "-s", port(addr), "-t", "16", "127.0.0.1", "http-post-form", form)
	if wrong, right := a.tries(); wrong != 5 || right != 0 {
		t.Errorf("%d wrong and %d right attempts reached the application, want 5 and 0", wrong, right)
	}
}

// The right password among the first five gets in, one task at a time.
func TestHydraFormFindsTheRightOne(t *testing.T) {
	need(t, "hydra")
	a, upstream := newApp(t)
	addr, _ := serve(t, upstream, "--door", "POST /login", "--succeeded", "302,cookie:session")
	form := `/login:username=^USER^&password=^PASS^:S=Location\: /account`
	out := tool(t, "hydra", "-I", "-l", "alice", "-P", passwords(t, 9, 3, "correct horse"), "-s", port(addr), "-t", "1", "-f", "127.0.0.1", "http-post-form", form)
	if wrong, right := a.tries(); wrong != 3 || right != 1 || !strings.Contains(out, "password: correct horse") {
		t.Errorf("%d wrong and %d right attempts reached the application, want 3 and 1\n%s", wrong, right, out)
	}
}

// nginx starts nginx with basic auth for alice and returns its address and log.
func nginx(t *testing.T) (addr string, guesses func() int) {
	t.Helper()
	program := need(t, "nginx")
	dir := t.TempDir()
	addr = freePort(t)
	log := filepath.Join(dir, "access.log")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // else its workers cannot read the folder of the test
	}
	write("htpasswd", "alice:{PLAIN}right\n")
	write("index.html", "in\n")
	write("nginx.conf", fmt.Sprintf(`
daemon off;
%[4]s
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events {}
http {
	log_format guesses "$status [$remote_user]";
	access_log %[2]s guesses;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen %[3]s;
		root %[1]s;
		auth_basic "private";
		auth_basic_user_file %[1]s/htpasswd;
	}
}
`, dir, log, addr, user))
	start(t, addr, program, "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log"))
	return addr, func() int {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "[alice]") {
				n++
			}
		}
		return n
	}
}

// Basic auth: requests without credentials pass uncharged, five guesses get through.
func TestHydraBasicAuth(t *testing.T) {
	need(t, "hydra")
	upstream, guesses := nginx(t)
	addr, _ := serve(t, upstream, "--door", "/", "--basic-auth", "--succeeded", "200")
	for range 20 {
		if code := status(t, "http://"+addr+"/"); code != 401 {
			t.Fatalf("without credentials: %d, want 401", code)
		}
	}
	tool(t, "hydra", "-I", "-l", "alice", "-P", passwords(t, 300, -1, ""), "-s", port(addr), "-t", "16", "127.0.0.1", "http-get", "/")
	if n := guesses(); n != 5 {
		t.Errorf("%d guesses reached nginx, want 5", n)
	}
}

func TestHydraBasicAuthFindsTheRightOne(t *testing.T) {
	need(t, "hydra")
	upstream, guesses := nginx(t)
	addr, _ := serve(t, upstream, "--door", "/", "--basic-auth", "--succeeded", "200")
	out := tool(t, "hydra", "-I", "-l", "alice", "-P", passwords(t, 9, 3, "right"), "-s", port(addr), "-t", "1", "-f", "127.0.0.1", "http-get", "/")
	if n := guesses(); n != 4 || !strings.Contains(out, "password: right") {
		t.Errorf("%d guesses reached nginx, want 4 with the right one last\n%s", n, out)
	}
}
