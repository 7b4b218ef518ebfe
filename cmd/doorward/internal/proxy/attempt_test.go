package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/outcome"
)

// TestNeverTwice: whatever http.Transport would send again on a new connection goes
// out once at a door. The application here answers the first request that it gets and
// keeps the connection; on any later request it closes it.
func TestNeverTwice(t *testing.T) {
	for _, row := range []struct{ name, second string }{
		{"GET", "GET /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"OPTIONS", "OPTIONS /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"Idempotency-Key", "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: 1\r\nContent-Length: 0\r\n\r\n"},
		{"with a body", "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Idempotency-Key: 1\r\nContent-Length: 3\r\n\r\na=b"},
	} {
		var seen atomic.Int64
		a := listen(t, func(conn net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body)
				if seen.Add(1) > 1 {
					return
				}
				io.WriteString(conn, right)
			}
		})
		s := serve(t, a.addr, func(c *Config) {
			c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"/login"}})
		})
		if res := s.post("/login"); res.StatusCode != 302 {
			t.Fatalf("%s: status %d", row.name, res.StatusCode)
		}
		if res, _ := s.raw(row.second); res.StatusCode != 502 {
			t.Errorf("%s: status %d, want 502", row.name, res.StatusCode)
		}
		if n := seen.Load(); n != 2 {
			t.Errorf("%s: the application saw %d requests, want 2", row.name, n)
		}
	}
}

// TestKeepAlive: connections to the application are kept.
func TestKeepAlive(t *testing.T) {
	a := listen(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(conn, wrong)
		}
	})
	s := serve(t, a.addr)
	get := func() { s.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }
	for last := int64(-1); last != a.conns.Load(); { // until it is known that they are
		last = a.conns.Load()
		get()
	}
	before := a.conns.Load()
	for range 10 {
		get()
	}
	if n := a.conns.Load(); n != before {
		t.Errorf("%d connections for 10 requests, %d before", n, before)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// TestOwnAnswers: the statuses that an operator lists as void are the application's.
// Ours are not, or a caller could bring them about.
func TestOwnAnswers(t *testing.T) {
	void, err := outcome.New(outcome.Rules{
		Void:      outcome.Statuses{{First: 500, Last: 599}},
		Succeeded: outcome.Conditions{Status: outcome.Statuses{{First: 302, Last: 302}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		app     func(net.Conn, *bufio.Reader)
		outcome string
		status  int
	}{
		{"the application's 502", reads("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"), "void", 502},
		{"our 502", reads(""), "failed", 502},
		{"our 504", never, "failed", 504},
	} {
		a := listen(t, row.app)
		s := serve(t, a.addr, func(c *Config) {
			c.Doors[0].Outcome = void
			c.Timeouts.Response = time.Second
		})
		if res := s.post("/login"); res.StatusCode != row.status {
			t.Errorf("%s: status %d, want %d", row.name, res.StatusCode, row.status)
		}
		s.ended(row.outcome)
	}
}

// deaf returns the address of an application that connections to hang.
func deaf(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*syscall.SockaddrInet4).Port)
	for { // until its queue is full
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
}

// TestUnreachable: an application that does not take connections gets nothing; but
// nobody makes an attempt void by hanging up.
func TestUnreachable(t *testing.T) {
	addr := deaf(t)
	t.Run("timeout", func(t *testing.T) {
		s := serve(t, addr, func(c *Config) { c.Timeouts.Response = time.Second })
		if res := s.post("/login"); res.StatusCode != 504 {
			t.Errorf("status %d, want 504", res.StatusCode)
		}
		s.ended("void")
	})
	t.Run("hang-up", func(t *testing.T) {
		s := serve(t, addr)
		conn := s.dial()
		io.WriteString(conn, request("POST", "/login", "a=b"))
		for s.remaining("127.0.0.1") == 5 { // until it is in flight
			runtime.Gosched()
		}
		conn.Close()
		s.log.wait(t, "settled", 1)
		s.ended("failed")
	})
}

// loginApp counts logins: pass=right is right.
func loginApp(t testing.TB) (addr string, tries *atomic.Int64) {
	t.Helper()
	tries = new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		if r.PostFormValue("pass") != "right" {
			io.WriteString(w, "wrong")
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
		http.Redirect(w, r, "/", http.StatusFound)
	})
	return handle(t, mux), tries
}

// handle serves an application of net/http.
func handle(t testing.TB, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := &http.Server{Handler: h}
	go app.Serve(ln)
	t.Cleanup(func() { app.Close() })
	return ln.Addr().String()
}

const formType = "Content-Type: application/x-www-form-urlencoded"

// logins sends n logins at once and counts the statuses.
func (s *site) logins(n int, pass string) map[int]int {
	var mu sync.Mutex
	counts := map[int]int{}
	var ready, done sync.WaitGroup
	start := make(chan bool)
	ready.Add(n)
	for range n {
		done.Go(func() {
			conn, err := net.Dial("tcp", s.addr)
			ready.Done()
			if err != nil {
				s.t.Error(err)
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(2 * patience))
			<-start
			io.WriteString(conn, request("POST", "/login", "user=a&pass="+pass, formType))
			res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: "POST"})
			if err != nil {
				s.t.Error(err)
				return
			}
			res.Body.Close()
			mu.Lock()
			counts[res.StatusCode]++
			mu.Unlock()
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return counts
}

// TestParallelWrong: of 1,000 wrong logins at once, exactly 5 reach the application.
func TestParallelWrong(t *testing.T) {
	addr, tries := loginApp(t)
	s := serve(t, addr)
	counts := s.logins(1000, "wrong")
	if counts[200] != 5 || counts[429] != 995 {
		t.Errorf("statuses %v, want 5 times 200, 995 times 429", counts)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if n := tries.Load(); n != 5 {
		t.Errorf("%d tries reached the application, want 5", n)
	}
}

// TestParallelRight: 1,000 right logins from one address lock nobody out, then or
// later. Some of those sent at once are asked to come again in a second.
func TestParallelRight(t *testing.T) {
	addr, tries := loginApp(t)
	s := serve(t, addr)
	counts := s.logins(1000, "right")
	if counts[302]+counts[429] != 1000 || counts[302] < 5 || int64(counts[302]) != tries.Load() {
		t.Errorf("statuses %v with %d tries", counts, tries.Load())
	}
	for _, l := range s.log.of("refused") {
		if l["reason"] != nil && l["reason"] != "busy" {
			t.Fatalf("refused: %v", l)
		}
	}
	if n := s.remaining("127.0.0.1"); n != 5 {
		t.Errorf("%d attempts left afterwards, want 5", n)
	}
	for range 1000 {
		if res := s.post("/login", formType); res.StatusCode != 200 {
			break // locked by wrong ones only
		}
	}
	if n := tries.Load() - int64(counts[302]); n != 5 {
		t.Errorf("%d wrong ones afterwards, want 5", n)
	}
}

// TestStop: requests in flight finish, new ones are not accepted.
func TestStop(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	a := listen(t, func(conn net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		arrived <- true
		<-release
		io.WriteString(conn, right)
	})
	s := serve(t, a.addr)
	conn := s.dial()
	io.WriteString(conn, request("POST", "/login", "a=b"))
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	for {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			break
		}
		c.Close()
	}
	close(release)
	if res, _ := s.answer(bufio.NewReader(conn), "POST"); res.StatusCode != 302 {
		t.Errorf("status %d, want 302", res.StatusCode)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	s.ended("succeeded")
}

// TestStopCuts: what does not finish in time is cut off, and has failed.
func TestStopCuts(t *testing.T) {
	arrived := make(chan bool, 1)
	a := listen(t, func(conn net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		arrived <- true
		never(conn, r)
	})
	s := serve(t, a.addr, func(c *Config) { c.Timeouts.Shutdown = 10 * time.Millisecond })
	io.WriteString(s.dial(), request("POST", "/login", "a=b"))
	<-arrived
	if err := s.stop(); err == nil || err.Error() != "proxy: requests still in flight after 10ms were cut off" {
		t.Errorf("error %v", err)
	}
	if lines := s.log.of("settled"); len(lines) != 1 || lines[0]["outcome"] != "failed" {
		t.Errorf("settled: %v", lines)
	}
}

// TestServeError: a listener that fails ends Serve.
func TestServeError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	p, err := New(baseConfig(t, "127.0.0.1:1", lockoutGuard(t, 5), newRecord()))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Serve(context.Background(), ln); err == nil {
		t.Error("Serve on a closed listener returned nil")
	}
}
