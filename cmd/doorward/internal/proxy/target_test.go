package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// lineApp answers every request with its own request line, byte for byte.
func lineApp(t testing.TB) *app {
	return listen(t, func(conn net.Conn, r *bufio.Reader) {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if l == "\r\n" {
				break
			}
		}
		line = strings.TrimSuffix(line, "\r\n")
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Line: "+line+"\r\nContent-Length: 0\r\n\r\n")
	})
}

// TestTargets: what a target is to the door, and the bytes that the application sees:
// "=" is the same as sent, "" nothing. A row without a door is not counted.
func TestTargets(t *testing.T) {
	const door, none, bad = 5, 0, -400
	for _, row := range []struct {
		method, sent string
		is           int
		seen         string
	}{
		{"POST", "/login", door, "="},
		{"POST", "/login?x=1", door, "="},
		{"POST", "/login?", door, "="},
		{"POST", "/login??", door, "="},
		{"POST", "/login?a=1;b=2", door, "="},
		{"POST", "/login?a=%zz&b", door, "="},
		{"POST", "/login?a=\"<>`{}|\\^[]", door, "="},
		{"POST", "/login?x=\xc3\xa9\xff", door, "="},
		{"POST", "/login?a=1#b", door, "="},
		{"POST", "/login/", door, "="},
		{"POST", "/login;jsessionid=1", door, "="},
		{"POST", "/login;/../help", door, "="},
		{"POST", "/%6Cogin", door, "="},
		{"POST", "/%6cogin", door, "="},
		{"POST", "/%256Cogin", door, "="},
		{"POST", "//login", door, "="},
		{"POST", "///login", door, "="},
		{"POST", "//x/../login", door, "="},
		{"POST", "//login?", door, "="},
		{"POST", "//login?a=%zz;b", door, "="},
		{"POST", "//%6Cogin?x", door, "="},
		{"POST", "/./login", door, "="},
		{"POST", "/a/../login", door, "="},
		{"POST", "/%2e%2e/login", door, "="},
		{"POST", "/login/.", door, "="},
		{"POST", "http://app.example/login", door, "/login"},
		{"POST", "HTTPS://other.example:99/login?x=%2F", door, "/login?x=%2F"},
		{"POST", "http://user@app.example//login", door, "//login"},
		{"POST", "http:///login", door, "/login"},
		{"POST", "/login%2F", bad, ""},
		{"POST", "/login%2Fx", bad, ""},
		{"POST", "/login%00", bad, ""},
		{"POST", "/login\\", bad, ""},
		{"POST", "/LOGIN", none, "="},
		{"POST", "/login-help", none, "="},
		{"GET", "/login", none, "="},
		{"GET", "/", none, "="},
		{"GET", "/?", none, "="},
		{"GET", "/a%2Fb%2fc", none, "="},
		{"GET", "/a b", bad, ""},
		{"GET", "/%7Ea/~a/%7ea", none, "="},
		{"GET", "/a{b}|\"<>^`\\c", none, "="},
		{"GET", "/a#b", none, "="},
		{"GET", "/\xc3\xa9/%C3%A9/\xff", none, "="},
		{"GET", "/a;b=c;d,e/f", none, "="},
		{"GET", "/a?b?c&d=;e&&=", none, "="},
		{"GET", "/a?q=%", none, "="},
		{"GET", "/:@!$&'()*+,;=-._~", none, "="},
		{"GET", "//", none, "="},
		{"GET", "//a//b//?c", none, "="},
		{"GET", "http://app.example", none, "/"},
		{"GET", "http://app.example?x", none, "/?x"},
		{"OPTIONS", "*", none, "="},
		{"OPTIONS", "http://app.example", none, "*"},
		{"PROPFIND", "/x", none, "="},
		{"get", "/x", none, "="},
		{"post", "/login", door, "="},
		{"GET", "*", bad, ""},
		{"GET", "x", bad, ""},
		{"GET", "http:/login", bad, ""},
		{"GET", "http:login", bad, ""},
		{"POST", "ftp://app.example/login", bad, ""},
		{"POST", "http://app.example\\/login", bad, ""},
		{"POST", "http://app.example#/login", bad, ""},
		{"GET", "/%zz", bad, ""},
		{"GET", "/\x00", bad, ""},
		{"GET", "//a{b}", bad, ""},
		{"CONNECT", "app.example:443", bad, ""},
		{"CONNECT", "/login", bad, ""},
	} {
		a := lineApp(t)
		s := serve(t, a.addr)
		res, _ := s.raw(row.method + " " + row.sent + " HTTP/1.1\r\nHost: app.example\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		name := row.method + " " + row.sent
		if row.is == bad {
			if res.StatusCode != 400 || a.conns.Load() != 0 {
				t.Errorf("%q: status %d, %d connections to the application, want 400 and none", name, res.StatusCode, a.conns.Load())
			}
			if n := s.remaining("127.0.0.1"); n != 5 {
				t.Errorf("%q: charged", name)
			}
			continue
		}
		want := row.seen
		if want == "=" {
			want = row.sent
		}
		if got := res.Header.Get("X-Line"); res.StatusCode != 200 || got != row.method+" "+want+" HTTP/1.1" {
			t.Errorf("%q: status %d, application saw %q", name, res.StatusCode, got)
		}
		if charged := s.remaining("127.0.0.1") == 4; charged != (row.is == door) {
			t.Errorf("%q: charged %t", name, charged)
		}
	}
}

// TestHosts: a host reaches the application as it was judged, or not at all.
func TestHosts(t *testing.T) {
	for _, row := range []struct {
		target, host string
		ok           bool
	}{
		{"/login", "app.example", true},
		{"/login", "APP.example:8080", true},
		{"/login", "app.example.", true},
		{"/login", "[2001:db8::1]:80", true},
		{"/login", "[fe80::1%25eth0]", false},
		{"http://\xef\xbd\x81pp.example/login", "x", false},
		{"http://%EF%BD%81pp.example/login", "x", false},
		{"/login", strings.Repeat("a", 256), false},
	} {
		a := listen(t, reads(wrong))
		s := serve(t, a.addr)
		res, _ := s.raw("POST " + row.target + " HTTP/1.1\r\nHost: " + row.host + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		if ok := res.StatusCode == 200; ok != row.ok {
			t.Errorf("%s at %s: status %d", row.target, row.host, res.StatusCode)
		}
		if n := a.conns.Load(); (n == 1) != row.ok {
			t.Errorf("%s at %s: %d connections to the application", row.target, row.host, n)
		}
	}
}
