package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
)

// certificate writes a self-signed pair for a name into dir.
func certificate(t *testing.T, dir, name string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// presented returns the serial number of the certificate that a name gets.
func presented(t *testing.T, addr, name string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// A process with all kinds of listener: TLS with two names and certificates that change, a
// redirect, a unix socket, and PROXY protocol.
func TestServePorts(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, "one.example", 1)
	certificate(t, dir, "two.example", 2)
	put(t, filepath.Join(dir, "doorward.yaml"), "upstream: "+application(t)+`
listen:
  - address: 127.0.0.1:0
    tls: [{cert_file: one.example.pem, key_file: one.example.key}, {cert_file: two.example.pem, key_file: two.example.key}]
  - {address: "127.0.0.1:0", redirect: https}
  - {address: "unix:s", mode: "0600"}
  - {address: "127.0.0.1:0", proxy_protocol: required, trusted: [127.0.0.1/32]}
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
`)
	// A socket that a process left behind does not keep the next from starting.
	old, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	old.Close()

	p := start(t, "serve", "--config", filepath.Join(dir, "doorward.yaml"))
	addrs := strings.Split(p.addr, ",")
	if len(addrs) != 4 || addrs[2] != "unix:"+filepath.Join(dir, "s") {
		t.Fatalf("listens on %v", addrs)
	}
	for name, want := range map[string]int64{"one.example": 1, "two.example": 2, "other.example": 1} {
		if got := presented(t, addrs[0], name); got != want {
			t.Errorf("%s: certificate %d, want %d", name, got, want)
		}
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get("https://" + addrs[0] + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 200 {
		t.Errorf("%s %s", res.Proto, res.Status)
	}
	exchange := func(network, addr, text string) *http.Response {
		t.Helper()
		conn, err := net.Dial(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(conn, text)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	const get = "GET /a HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n\r\n"
	if res := exchange("tcp", addrs[1], get); res.StatusCode != 308 || res.Header.Get("Location") != "https://www.example/a" {
		t.Errorf("redirect: %s to %q", res.Status, res.Header.Get("Location"))
	}
	if info, err := os.Stat(filepath.Join(dir, "s")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	if res := exchange("unix", filepath.Join(dir, "s"), get); res.StatusCode != 200 {
		t.Errorf("unix: %s", res.Status)
	}
	const guess = "POST /login HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	for i, want := range []int{200, 200, 200, 200, 200, 429} {
		if res := exchange("tcp", addrs[3], "PROXY TCP4 192.0.2.77 203.0.113.7 1 2\r\n"+guess); res.StatusCode != want {
			t.Errorf("guess %d: %s, want %d", i+1, res.Status, want)
		}
	}
	if l := p.line("refused"); !strings.Contains(l, "client=192.0.2.77") {
		t.Errorf("line %s", l)
	}

	certificate(t, dir, "two.example", 3)
	if l := p.line("certificate read again"); !strings.Contains(l, "two.example") {
		t.Errorf("line %s", l)
	}
	if got := presented(t, addrs[0], "two.example"); got != 3 {
		t.Errorf("certificate %d, want 3", got)
	}
	put(t, filepath.Join(dir, "two.example.pem"), "broken")
	p.line("certificate not read again")
	if got := presented(t, addrs[0], "two.example"); got != 3 {
		t.Errorf("certificate %d after it broke, want 3", got)
	}
	p.signal(syscall.SIGTERM)
	p.line("stopped")
	p.wantExit(0)
	if _, err := os.Stat(filepath.Join(dir, "s")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A unix socket that somebody listens on is theirs.
func TestServeUnixInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cmd := exec.Command("doorward", "serve", "--listen", "unix:"+path, "--upstream", "http://127.0.0.1:1", "--door", "/", "--succeeded", "302")
	out, err := cmd.CombinedOutput()
	if err == nil || string(out) != "doorward: listen unix "+path+": address already in use\n" {
		t.Errorf("%v: %s", err, out)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("its socket is gone: %v", err)
	} else {
		conn.Close()
	}
}

// Connections are no more than half of the files that may be open.
func TestBoundByFiles(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		connections int
		want        int
	}{{1, 1}, {int(old.Cur / 2), int(old.Cur / 2)}, {int(old.Cur/2) + 1, int(old.Cur / 2)}} {
		c := config.Config{Limits: config.Limits{Connections: row.connections}}
		if boundByFiles(&c); c.Limits.Connections != row.want {
			t.Errorf("%d connections with %d files: %d", row.connections, old.Cur, c.Limits.Connections)
		}
	}
}
