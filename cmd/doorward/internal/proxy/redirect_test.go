package proxy

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestRedirect(t *testing.T) {
	a := listen(t, reads(right))
	site := func(to string) *site {
		return servePort(t, a.addr, func(port *Port, p *Proxy) {
			var u *url.URL
			if to != "" {
				u, _ = url.Parse(to)
			}
			port.Handler = p.Redirect(u)
		}, func(c *Config) { c.Timeouts.Body = time.Second })
	}
	same, configured := site(""), site("https://www.example.com:8443")
	for _, row := range []struct {
		line, host string
		want       string // "" is 400
		other      string // with a configured host; "" is 400
	}{
		{"GET /", "app.example", "https://app.example/", "https://www.example.com:8443/"},
		{"HEAD /a?b=c", "app.example:80", "https://app.example/a?b=c", "https://www.example.com:8443/a?b=c"},
		{"POST /login", "APP.example.", "https://APP.example./login", "https://www.example.com:8443/login"},
		{"GET //evil.example/a", "a", "https://a//evil.example/a", "https://www.example.com:8443//evil.example/a"},
		{"GET /\\evil.example", "a", "https://a/%5Cevil.example", "https://www.example.com:8443/%5Cevil.example"},
		{"GET /%2e%2E/%0d%0aX:", "a", "https://a/%2e%2E/%0d%0aX:", "https://www.example.com:8443/%2e%2E/%0d%0aX:"},
		{"GET /\xff\"<>#x", "a", "https://a/%FF%22%3C%3E%23x", "https://www.example.com:8443/%FF%22%3C%3E%23x"},
		{"GET /@evil.example", "a", "https://a/@evil.example", "https://www.example.com:8443/@evil.example"},
		{"GET http://app.example/a", "app.example", "https://app.example/a", "https://www.example.com:8443/a"},
		{"GET http://app.example", "app.example", "https://app.example/", "https://www.example.com:8443/"},
		{"GET /", "192.0.2.1:80", "https://192.0.2.1/", "https://www.example.com:8443/"},
		{"GET /", "[2001:db8::1]:80", "https://[2001:db8::1]/", "https://www.example.com:8443/"},
		{"GET /", "[2001:db8::1]", "https://[2001:db8::1]/", "https://www.example.com:8443/"},
		{"OPTIONS *", "a", "", ""},
		{"CONNECT a:443", "a:443", "", ""},
		{"GET ftp://a/", "a", "", ""},
		{"GET /", "", "", "https://www.example.com:8443/"},
		{"GET /", "user@evil.example", "", ""},
		{"GET /", "a:80@evil.example", "", ""},
		{"GET /", "a:b", "", "https://www.example.com:8443/"},
		{"GET /", "a..b", "", "https://www.example.com:8443/"},
		{"GET /", "a%2f.evil.example", "", "https://www.example.com:8443/"},
		{"GET /", "a,evil.example", "", "https://www.example.com:8443/"},
		{"GET /", "2001:db8::1", "", "https://www.example.com:8443/"},
		{"GET /", "[192.0.2.1]", "", "https://www.example.com:8443/"},
		{"GET /", "[fe80::1%25eth0]", "", "https://www.example.com:8443/"},
		{"GET /", "[2001:db8::1", "", "https://www.example.com:8443/"},
		{"GET /", strings.Repeat("a.", 127), "", "https://www.example.com:8443/"},
	} {
		for s, want := range map[*siteNamed]string{{same, "same host"}: row.want, {configured, "configured host"}: row.other} {
			res, _ := s.raw(row.line + " HTTP/1.1\r\nHost: " + row.host + "\r\nConnection: close\r\n\r\n")
			status := http.StatusPermanentRedirect
			if want == "" {
				status = http.StatusBadRequest
			}
			if got := res.Header.Get("Location"); res.StatusCode != status || got != want {
				t.Errorf("%q at %q, %s: %d to %q, want %q", row.line, row.host, s.name, res.StatusCode, got, want)
			}
		}
	}
	// A body is not waited for longer than bodies are.
	conn := same.dial()
	io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
	r := bufio.NewReader(conn)
	if res, _ := same.answer(r, "POST"); res.StatusCode != 308 {
		t.Errorf("status %d", res.StatusCode)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
	if n := a.conns.Load(); n != 0 {
		t.Errorf("%d requests reached the application", n)
	}
}

type siteNamed struct {
	*site
	name string
}
