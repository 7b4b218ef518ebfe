package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// behindYAML is doorward behind HAProxy: by TCP and by a unix socket, plain and with TLS.
const behindYAML = `
listen:
  - {address: "V1", proxy_protocol: required, trusted: [127.0.0.1/32]}
  - {address: "SECURE", proxy_protocol: required, trusted: [127.0.0.1/32], tls: {cert_file: cert.pem, key_file: key.pem}}
  - {address: "unix:s", proxy_protocol: required}
upstream: http://UPSTREAM
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
    rules: [{name: own, per: network, lockout: {free_failures: 5, window: 10m, first_lockout: 10m, max_lockout: 1h}}]
`

const haproxyConfig = `
global
  log stderr format raw daemon notice
defaults
  timeout connect 5s
  timeout client 20s
  timeout server 20s
`

// HAProxy passes on who its callers are, in both versions of the PROXY protocol, over TCP
// and a unix socket, before TLS of its own and of its callers; its health checks are
// nobody's attempts.
func TestHAProxy(t *testing.T) {
	haproxy := need(t, "haproxy")
	need(t, "openssl")
	a, upstream := newApp(t)
	dir := t.TempDir()
	tool(t, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
		"-subj", "/CN=app.example", "-addext", "subjectAltName=DNS:app.example", "-keyout", filepath.Join(dir, "key.pem"), "-out", filepath.Join(dir, "cert.pem"))
	plain, secure := freePort(t), freePort(t)
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	p := start(t, plain, binary, "serve", "--config", write("doorward.yaml", strings.NewReplacer("V1", plain, "SECURE", secure, "UPSTREAM", upstream).Replace(behindYAML)))

	// One front for each way; callers come from 127.0.0.N, which HAProxy declares.
	fronts := []struct {
		name, mode, server string
		tls, h2            bool
	}{
		{name: "v1", mode: "http", server: plain + " send-proxy check inter 100ms"},
		{name: "v2", mode: "http", server: plain + " send-proxy-v2 check-send-proxy check inter 100ms"},
		{name: "v2 with TLVs", mode: "http", server: plain + " send-proxy-v2 proxy-v2-options unique-id,crc32c"},
		{name: "unix", mode: "http", server: filepath.Join(dir, "s") + " send-proxy-v2"},
		{name: "TLS to doorward", mode: "http", server: secure + " send-proxy-v2 ssl verify none"},
		{name: "TLS of the caller", mode: "tcp", server: secure + " send-proxy-v2", tls: true},
		{name: "HTTP/2 of the caller", mode: "tcp", server: secure + " send-proxy", tls: true, h2: true},
	}
	text := haproxyConfig
	var addrs []string
	for i, f := range fronts {
		addrs = append(addrs, freePort(t))
		text += fmt.Sprintf("listen f%d\n  mode %s\n  bind %s\n  unique-id-format %%{+X}o%%ci\n  server s %s\n", i, f.mode, addrs[i], f.server)
	}
	start(t, addrs[0], haproxy, "-db", "-f", write("haproxy.cfg", text))

	for i, f := range fronts {
		scheme := "http"
		if f.tls {
			scheme = "https"
		}
		// Loopback addresses are one network: whom HAProxy names elsewhere is in TestInsideHAProxy.
		status := func(method, path string) int {
			tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: f.h2, DisableKeepAlives: !f.h2}
			defer tr.CloseIdleConnections()
			c := http.Client{Transport: tr, Timeout: 20 * time.Second}
			var r *http.Response
			var err error
			if method == "POST" {
				r, err = c.PostForm(scheme+"://"+addrs[i]+path, url.Values{"username": {"alice"}, "password": {"x"}})
			} else {
				r, err = c.Get(scheme + "://" + addrs[i] + path)
			}
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			defer r.Body.Close()
			io.Copy(io.Discard, r.Body)
			if f.h2 != (r.ProtoMajor == 2) {
				t.Errorf("%s: %s", f.name, r.Proto)
			}
			return r.StatusCode
		}
		if got := status("GET", "/"); got != http.StatusOK {
			t.Errorf("%s: status %d", f.name, got)
		}
		want := http.StatusTooManyRequests
		if i == 0 {
			for range 5 {
				if got := status("POST", "/login"); got != http.StatusOK {
					t.Errorf("%s: status %d", f.name, got)
				}
			}
		}
		if got := status("POST", "/login"); got != want {
			t.Errorf("%s: status %d, want %d", f.name, got, want)
		}
	}
	if wrong, _ := a.tries(); wrong != 5 {
		t.Errorf("%d attempts reached the application, want 5", wrong)
	}
	if out := p.out.String(); strings.Contains(out, "connection refused") {
		t.Errorf("HAProxy's connections were refused:\n%s", out)
	}

	// Around HAProxy nobody declares anything, and nothing else is understood.
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PROXY TCP4 bad\r\n"} {
		conn, err := net.Dial("tcp", plain)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(conn, first)
		if b, _ := io.ReadAll(conn); len(b) > 0 {
			t.Errorf("%q got %q", first, b)
		}
		conn.Close()
	}
}

// In a namespace callers have addresses of their own: HAProxy in front, doorward behind.
func TestBehindHAProxy(t *testing.T) {
	runInside(t, "TestInsideHAProxy", "TestInsideConnections")
}

func TestInsideHAProxy(t *testing.T) {
	haproxy := needInside(t, "haproxy")
	a, upstream := newApp(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	start(t, "127.0.0.1:8090", binary, "serve", "--config", write("doorward.yaml", `
listen: {address: "127.0.0.1:8090", proxy_protocol: required, trusted: [127.0.0.1/32]}
upstream: http://`+upstream+`
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
    rules: [{name: own, per: network, lockout: {free_failures: 5, window: 10m, first_lockout: 10m, max_lockout: 1h}}]
`))
	for i, server := range []string{"send-proxy", "send-proxy-v2"} {
		front := fmt.Sprintf("[2001:db8:77::1]:%d", 8091+i)
		config := haproxyConfig + "listen f\n  mode http\n  bind " + front + "\n  server s 127.0.0.1:8090 " + server + "\n"
		start(t, front, haproxy, "-db", "-f", write(server, config))
		var from []netip.Addr
		for n := range uint64(100) {
			from = append(from, address(uint16(10+i), n+1), address(uint16(20+i), n+1)) // two /64s
		}
		if refused := guessFrom(t, front, from); refused != 190 {
			t.Errorf("%s: %d refused, want 190", server, refused)
		}
		if wrong, _ := a.tries(); wrong != 10*(i+1) {
			t.Errorf("%s: %d attempts reached the application, want %d", server, wrong, 10*(i+1))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for addr := range a.from {
		if !strings.HasPrefix(addr, "2001:db8:77:") {
			t.Errorf("the application was told of a caller at %s", addr)
		}
	}
}

// A /64 has as many connections as limits say, whichever of its addresses it uses; its
// neighbour gets in.
func TestInsideConnections(t *testing.T) {
	needInside(t, "ip")
	_, upstream := newApp(t)
	file := filepath.Join(t.TempDir(), "doorward.yaml")
	if err := os.WriteFile(file, []byte(`
listen: "[2001:db8:77::1]:8098"
upstream: http://`+upstream+`
doors: [{name: login, routes: ["POST /login"], outcome: {succeeded: {status: 302}}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "[2001:db8:77::1]:8098", binary, "serve", "--config", file)
	get := func(from netip.Addr) (string, net.Conn) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: 20 * time.Second}
		conn, err := d.Dial("tcp", "[2001:db8:77::1]:8098")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		b := make([]byte, 12)
		io.ReadFull(conn, b)
		return string(b), conn
	}
	var first net.Conn
	for i := range uint64(256) {
		got, conn := get(address(30, i+1))
		if got != "HTTP/1.1 200" {
			t.Fatalf("connection %d: %q", i+1, got)
		}
		if first == nil {
			first = conn
		}
	}
	if got, _ := get(address(30, 1000)); got != "HTTP/1.1 503" {
		t.Errorf("one more: %q, want 503", got)
	}
	if got, _ := get(address(31, 1)); got != "HTTP/1.1 200" {
		t.Errorf("its neighbour: %q, want 200", got)
	}
	until(t, "the line", func() bool {
		return strings.Contains(p.out.String(), "why=connections_per_network client=2001:db8:77:1e::/64")
	})
	first.Close()
	until(t, "room", func() bool { got, _ := get(address(30, 1001)); return got == "HTTP/1.1 200" })
}
