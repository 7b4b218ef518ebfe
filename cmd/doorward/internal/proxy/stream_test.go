package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/door"
)

// zeros is a reader of n zero bytes.
type zeros int64

func (z *zeros) Read(b []byte) (int, error) {
	if *z == 0 {
		return 0, io.EOF
	}
	n := min(len(b), int(*z))
	clear(b[:n])
	*z -= zeros(n)
	return n, nil
}

// allocated returns how much memory f took in all, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const gib = 1 << 30

// TestHugeBody: a body of 1 GiB is refused at a door when it is past its limit, and
// passes elsewhere. Neither takes memory.
func TestHugeBody(t *testing.T) {
	addr := handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	for _, row := range []struct {
		name, target, length string
		status               int
		body                 string
		outcome              string
	}{
		{"door, declared", "/login", "Content-Length: 1073741824", 413, "", "malformed"},
		{"door, chunked", "/login", "Transfer-Encoding: chunked", 413, "", "malformed"},
		{"elsewhere, declared", "/upload", "Content-Length: 1073741824", 200, "1073741824", ""},
		{"elsewhere, chunked", "/upload", "Transfer-Encoding: chunked", 200, "1073741824", ""},
	} {
		s := serve(t, addr)
		conn := s.dial()
		conn.SetDeadline(time.Now().Add(5 * patience))
		var res *http.Response
		var body string
		block := make([]byte, 1<<20)
		took := allocated(func() {
			go func() {
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n\r\n", row.target, row.length)
				n := zeros(gib)
				if strings.HasPrefix(row.length, "Content") {
					io.Copy(conn, &n)
					return
				}
				for range gib >> 20 {
					fmt.Fprint(conn, "100000\r\n")
					if _, err := conn.Write(block); err != nil {
						return
					}
					fmt.Fprint(conn, "\r\n")
				}
				fmt.Fprint(conn, "0\r\n\r\n")
			}()
			res, body = s.answer(bufio.NewReader(conn), "POST")
		})
		conn.Close()
		if res.StatusCode != row.status || row.body != "" && body != row.body {
			t.Errorf("%s: status %d, body %q", row.name, res.StatusCode, body)
		}
		if took > 16<<20 {
			t.Errorf("%s: %d bytes allocated", row.name, took)
		}
		s.ended(row.outcome)
	}
}

// TestHugeAnswer: an answer of 1 GiB passes, also at a door, and takes no memory.
func TestHugeAnswer(t *testing.T) {
	addr := handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := zeros(gib)
		io.Copy(w, &n)
	}))
	for _, target := range []string{"/login", "/elsewhere"} {
		s := serve(t, addr)
		conn := s.dial()
		conn.SetDeadline(time.Now().Add(5 * patience))
		var n int64
		took := allocated(func() {
			io.WriteString(conn, request("POST", target, ""))
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			n, _ = io.Copy(io.Discard, res.Body)
		})
		if n != gib {
			t.Errorf("%s: %d bytes", target, n)
		}
		if took > 16<<20 {
			t.Errorf("%s: %d bytes allocated", target, took)
		}
	}
}

// TestDuplex: outside doors nothing waits for the end of a body, in either direction,
// nor for the end of a buffer.
func TestDuplex(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/octet-stream"} {
		addr := handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			rc.EnableFullDuplex()
			w.Header().Set("Content-Type", kind)
			rc.Flush()
			io.Copy(flusher{w, rc}, r.Body)
		}))
		s := serve(t, addr)
		conn := s.dial()
		io.WriteString(conn, "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		for i := range 100 {
			if _, err := io.ReadFull(res.Body, b); err != nil {
				t.Fatalf("%s, byte %d: %v", kind, i, err)
			}
			io.WriteString(conn, "1\r\nb\r\n")
		}
		conn.Close()
	}
}

type flusher struct {
	w  io.Writer
	rc *http.ResponseController
}

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	f.rc.Flush()
	return n, err
}

// TestPatience: outside doors an application may take longer than Response, and a
// client longer than Body.
func TestPatience(t *testing.T) {
	a := listen(t, func(conn net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		<-time.After(300 * time.Millisecond) // this is what takes long
		io.WriteString(conn, wrong)
	})
	s := serve(t, a.addr, func(c *Config) {
		c.Timeouts.Response = 50 * time.Millisecond
		c.Timeouts.Body = 50 * time.Millisecond
	})
	if res, _ := s.raw(request("POST", "/elsewhere", "a=b")); res.StatusCode != 200 {
		t.Errorf("status %d, want 200", res.StatusCode)
	}
	if res := s.post("/login"); res.StatusCode != 504 {
		t.Errorf("at a door: status %d, want 504", res.StatusCode)
	}
}

// echoApp changes protocols and sends back what it gets.
func echoApp(t *testing.T) *app {
	return listen(t, func(conn net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Header.Get("Upgrade") == "" {
			io.WriteString(conn, wrong)
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+req.Header.Get("Upgrade")+"\r\n\r\n")
		io.Copy(conn, r)
	})
}

// TestUpgrade: WebSockets pass, in both directions, and end with Serve; no other
// protocol is changed to.
func TestUpgrade(t *testing.T) {
	for _, target := range []string{"/login", "/elsewhere"} {
		for _, protocol := range []string{"websocket", "WebSocket", "h2c", "TLS/1.3", "foo"} {
			a := echoApp(t)
			s := serve(t, a.addr, func(c *Config) {
				c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"GET /login"}})
			})
			conn := s.dial()
			io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n")
			r := bufio.NewReader(conn)
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.EqualFold(protocol, "websocket") {
				if res.StatusCode != 200 {
					t.Errorf("%s at %s: status %d, want 200", protocol, target, res.StatusCode)
				}
				continue
			}
			if res.StatusCode != 101 || res.Header.Get("Upgrade") != protocol {
				t.Fatalf("%s at %s: status %d", protocol, target, res.StatusCode)
			}
			for range 10 {
				io.WriteString(conn, "ping\n")
				if l, err := r.ReadString('\n'); l != "ping\n" {
					t.Fatalf("%s at %s: %q, %v", protocol, target, l, err)
				}
			}
			if err := s.stop(); err != nil { // before the client hangs up
				t.Error(err)
			}
			if _, err := r.ReadByte(); err == nil {
				t.Errorf("%s at %s: outlived Serve", protocol, target)
			}
			s.ended(map[string]string{"/login": "failed", "/elsewhere": ""}[target])
		}
	}
}

// TestIdle: 2,000 open connections charge nothing, keep nobody out, and are closed
// when they have been silent for too long.
func TestIdle(t *testing.T) {
	a := listen(t, reads(right))
	s := serve(t, a.addr, func(c *Config) { c.Timeouts.ReadHeader = 2 * time.Second })
	var conns []net.Conn
	for range 2000 {
		conns = append(conns, s.dial())
	}
	if res := s.post("/login"); res.StatusCode != 302 {
		t.Errorf("status %d, want 302", res.StatusCode)
	}
	for i, c := range conns {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("connection %d: %v, want EOF", i, err)
		}
	}
	s.ended("succeeded")
}

// TestKeptAlive: a connection serves one request after the other and is closed when
// there is none for long enough.
func TestKeptAlive(t *testing.T) {
	a := listen(t, reads(right))
	s := serve(t, a.addr, func(c *Config) { c.Timeouts.Idle = 500 * time.Millisecond })
	conn := s.dial()
	r := bufio.NewReader(conn)
	for i := range 3 {
		io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na=b")
		if res, _ := s.answer(r, "POST"); res.StatusCode != 302 {
			t.Fatalf("request %d: status %d", i, res.StatusCode)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
}
