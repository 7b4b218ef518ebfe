package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// An application that answers without reading a body takes what is left of it for the
// next request on the connection: one that no door has seen. So a request with a body
// asks for the connection to be closed.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	var hidden atomic.Int64
	a := listen(t, func(conn net.Conn, r *bufio.Reader) {
		for last := false; !last; {
			for line := "\n"; line != "\r\n"; {
				var err error
				if line, err = r.ReadString('\n'); err != nil {
					return
				}
				if strings.HasPrefix(line, "POST /login") {
					hidden.Add(1)
				}
				last = last || strings.EqualFold(line, "connection: close\r\n")
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	s := serve(t, a.addr)
	const guess = "POST /login HTTP/1.1\r\nHost: x\r\n\r\n"
	for range 20 {
		s.raw("GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 34\r\n\r\n" + guess)
		s.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}
	if n := hidden.Load(); n != 0 {
		t.Errorf("the application read %d guesses out of bodies", n)
	}
}

// A proxy on this machine that forwards no addresses looks like one caller: when that
// is locked out, the operator hears of it, once a minute.
func TestLocalLockout(t *testing.T) {
	addr, _ := loginApp(t)
	for _, configured := range []bool{false, true} {
		s := serve(t, addr, func(c *Config) { c.ClientsConfigured = configured })
		s.from("127.0.0.1")
		for range 9 {
			s.post("/login", "X-Nothing: 1")
		}
		lines := s.log.of("a caller on this machine is locked out")
		if want := 1; configured && len(lines) != 0 || !configured && len(lines) != want {
			t.Errorf("configured %t: %d lines", configured, len(lines))
		}
		if !configured && lines[0]["if_it_is_a_proxy"] != "clients: {header: X-Forwarded-For, trusted_proxies: [127.0.0.1/32]}" {
			t.Errorf("the line says %v", lines[0])
		}
	}
}

// F4: outside doors the application's word reaches nobody either, wherever it stands.
func TestWordElsewhere(t *testing.T) {
	const word = "Doorward-Outcome: succeeded\r\n"
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\n" + word + "Content-Length: 0\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" + word + "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Doorward-Outcome, X-T\r\n\r\n1\r\na\r\n0\r\n" + word + "X-T: kept\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + word + "X-T: kept\r\n\r\n",
	} {
		a := listen(t, reads(answer))
		s := serve(t, a.addr)
		conn := s.dial()
		io.WriteString(conn, "GET /elsewhere HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		got := string(all)
		if strings.Contains(got, "Doorward") || !strings.Contains(got, "200 OK") {
			t.Errorf("%q was passed on as\n%s", answer, got)
		}
		for _, kept := range []string{"X-T: kept", "Link: </a>"} {
			if strings.Contains(answer, kept) && !strings.Contains(got, kept) {
				t.Errorf("%q lost %s", answer, kept)
			}
		}
	}
}
