package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// TestWhoReadsBodies: what real servers do with a body that the application does not read.
// One that takes its rest for the next request on the connection must not be served with
// reads_bodies.
func TestWhoReadsBodies(t *testing.T) {
	const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	small, large := hidden, strings.Repeat(hidden, 1<<20/len(hidden))
	var rows [][]string
	for _, server := range []struct {
		name  string
		start func(*testing.T) string
		safe  bool
	}{
		{"Go, net/http", bodiesGo, true},
		{"nginx, `return`", bodiesNginx, true},
		{"Node, node:http", nodeServer, true},
		{"PHP, php -S", phpServer, true},
		{"Python, http.server with HTTP/1.1", pythonServer, false},
	} {
		addr := server.start(t)
		row := []string{server.name}
		for _, body := range []string{small, large} {
			said := ""
			switch taken := taken(t, addr, body); {
			case taken && server.safe:
				t.Errorf("%s: a body of %d bytes is taken for requests", server.name, len(body))
			case taken:
				said = "**takes it for requests**"
			default:
				said = "no"
			}
			row = append(row, said)
		}
		if taken(t, addr, small) == server.safe {
			t.Errorf("%s: safe is not %t", server.name, server.safe)
		}
		rows = append(rows, row)
	}
	document.Table(t, "../../../docs/upstreams.md", "bodies", rows)
}

// taken sends a body that nobody reads and another request after it, and reports whether
// the server at addr answers what is in the body.
func taken(t *testing.T, addr, body string) bool {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	answered := make(chan bool)
	go func() {
		fmt.Fprintf(conn, "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		<-answered
		io.WriteString(conn, "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}()
	answers, buf := "", make([]byte, 4096)
	for first := true; len(answers) < 64<<10; {
		n, err := conn.Read(buf)
		answers += string(buf[:n])
		if first && (err != nil || strings.Contains(answers, "/unread")) {
			close(answered)
			first = false
		}
		if err != nil { // it may reset the connection
			break
		}
	}
	if !strings.Contains(answers, "/unread") {
		t.Fatalf("%s does not answer: %q", addr, answers)
	}
	return strings.Contains(answers, "/hidden")
}

func bodiesGo(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// write puts text into a file of a folder of its own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func bodiesNginx(t *testing.T) string {
	addr := freePort(t)
	file := write(t, "nginx.conf", "")
	dir := filepath.Dir(file)
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	text := fmt.Sprintf("%s daemon off; pid %s/pid; error_log stderr; events {} http { access_log off; client_body_temp_path %[2]s/b; proxy_temp_path %[2]s/p; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s; server { listen %[3]s; location / { return 200 $request_uri; } } }", user, dir, addr)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, addr, need(t, "nginx"), "-c", file, "-e", filepath.Join(dir, "error.log"))
	return addr
}

func nodeServer(t *testing.T) string {
	addr := freePort(t)
	file := write(t, "app.js", `require("node:http").createServer((q, s) => s.end(q.url)).listen(process.argv[2], "127.0.0.1")`)
	start(t, addr, need(t, "node"), file, port(addr))
	return addr
}

func phpServer(t *testing.T) string {
	addr := freePort(t)
	start(t, addr, need(t, "php"), "-S", addr, write(t, "app.php", `<?php echo $_SERVER["REQUEST_URI"];`))
	return addr
}

func pythonServer(t *testing.T) string {
	addr := freePort(t)
	file := write(t, "app.py", `
import http.server, sys
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), App).serve_forever()
`)
	start(t, addr, need(t, "python3"), file, port(addr))
	return addr
}
