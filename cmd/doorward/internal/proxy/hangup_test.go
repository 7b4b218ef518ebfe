package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// TestHangUpAtEveryByte: an attempt that is not there to its last byte is none: nothing
// of it reaches the application, and nobody is charged.
func TestHangUpAtEveryByte(t *testing.T) {
	var rows [][]string
	for _, attempt := range []struct{ name, text string }{
		{"each byte of an attempt, with a FIN", "POST /login HTTP/1.1\r\nHost: app.example\r\n" + formType + "\r\nContent-Length: 13\r\n\r\nuser=a&pass=b"},
		{"each byte of one in chunks, with a FIN", "POST /login HTTP/1.1\r\nHost: app.example\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nuser=a\r\n7\r\n&pass=b\r\n0\r\n\r\n"},
		{"each byte of an attempt, with a reset", "POST /login HTTP/1.1\r\nHost: app.example\r\n" + formType + "\r\nContent-Length: 13\r\n\r\nuser=a&pass=b"},
	} {
		a := listen(t, reads(right))
		s := serve(t, a.addr)
		for n := range len(attempt.text) {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, attempt.text[:n])
			if attempt.name[len(attempt.name)-1] == 't' {
				reset(conn)
			} else {
				conn.(*net.TCPConn).CloseWrite()
				conn.SetReadDeadline(time.Now().Add(patience))
				io.Copy(io.Discard, conn) // until the proxy has seen it
				conn.Close()
			}
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		charged := 5 - s.remaining("127.0.0.1")
		if charged != 0 || a.conns.Load() != 0 || len(s.log.of("settled")) != 0 {
			t.Errorf("%s: %d charged, %d connections to the application", attempt.name, charged, a.conns.Load())
		}
		rows = append(rows, []string{attempt.name, fmt.Sprint(len(attempt.text)), fmt.Sprint(a.conns.Load()), fmt.Sprint(charged)})

		// The whole of it is one.
		s = serve(t, a.addr)
		if res, _ := s.raw(attempt.text); res.StatusCode != 302 {
			t.Errorf("%s: the whole gets status %d", attempt.name, res.StatusCode)
		}
	}
	document.Table(t, faultsDocument, "callers", rows)
}

// A restarted application is one of net/http that stops as its operators stop it, and
// starts again at the same address.
type restarted struct {
	t       *testing.T
	addr    string
	handler http.Handler
	server  *http.Server
}

func (a *restarted) start() {
	var ln net.Listener
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var err error
		if ln, err = net.Listen("tcp", a.addr); err == nil {
			break
		}
		if time.Now().After(deadline) {
			a.t.Error(err)
			return
		}
	}
	a.addr, a.server = ln.Addr().String(), &http.Server{Handler: a.handler}
	go a.server.Serve(ln)
}

// TestRestart: while the application restarts under load, every request gets an answer,
// none reaches it twice, and what it answered arrives. That an application answers all
// that it has read before it stops is its own doing.
func TestRestart(t *testing.T) {
	for _, readsBodies := range []bool{false, true} {
		var mu sync.Mutex
		seen := map[string]int{}
		app := &restarted{t: t, addr: "127.0.0.1:0", handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			mu.Lock()
			seen[r.Header.Get("X-Id")]++
			mu.Unlock()
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
			w.WriteHeader(http.StatusFound)
		})}
		app.start()
		s := serve(t, app.addr, func(c *Config) {
			c.Doors[0].Guard = lockoutGuard(t, 60_000)
			c.Reuse.ReadsBodies = readsBodies
		})
		var answered, lost atomic.Int64
		var stop atomic.Bool
		var callers sync.WaitGroup
		for c := range 8 {
			callers.Go(func() {
				conn := s.dial()
				conn.SetDeadline(time.Now().Add(5 * patience))
				in := bufio.NewReader(conn)
				for i := 0; !stop.Load(); i++ {
					id := fmt.Sprintf("%d-%d", c, i)
					// Two in three are attempts, with a body and without.
					line := []string{"POST /login", "POST /login", "GET /page"}[i%3]
					body := []string{"user=a", "", ""}[i%3]
					fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nX-Id: %s\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", line, id, id, len(body), body)
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Errorf("%s got no answer: %v", id, err)
						return
					}
					io.Copy(io.Discard, res.Body)
					mu.Lock()
					n := seen[id]
					mu.Unlock()
					switch {
					case res.StatusCode == 302 && n == 1:
						answered.Add(1)
					case res.StatusCode == 502 && n <= 1:
						lost.Add(1)
					default:
						t.Errorf("%s: status %d, seen %d times", id, res.StatusCode, n)
					}
				}
			})
		}
		const restarts = 10
		for range restarts {
			goal := answered.Load() + 300
			for deadline := time.Now().Add(patience); answered.Load() < goal && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			app.server.Shutdown(t.Context())
			app.start()
		}
		stop.Store(true)
		callers.Wait()
		app.server.Close()
		t.Logf("reads_bodies %t: %d answered, %d got 502", readsBodies, answered.Load(), lost.Load())
		if answered.Load() < restarts*300 {
			t.Errorf("%d answered", answered.Load())
		}
	}
	document.Table(t, faultsDocument, "restart", [][]string{
		{"it stops and starts ten times, as net/http's Shutdown does it", "every request gets an answer: the application's, or 502; none reaches it twice"},
		{"the same, with reads_bodies", "the same"},
	})
}
