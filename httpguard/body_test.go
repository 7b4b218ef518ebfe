package httpguard_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

// exchange sends raw bytes to h over a pipe and returns the answers until the server
// closes. It runs in a bubble: a minute without an answer costs nothing.
func exchange(t *testing.T, s *http.Server, send func(io.Writer)) string {
	t.Helper()
	l := newPipes()
	s.ErrorLog = quiet
	done := make(chan struct{})
	go func() { s.Serve(l); close(done) }()
	c := l.dial()
	sent := make(chan struct{})
	go func() { send(c); close(sent) }()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	if err != nil {
		b = append(b, "("+err.Error()+")"...)
	}
	c.Close()
	s.Close()
	<-done
	<-sent
	return string(b)
}

// echo answers with what the handler sees of the body.
func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%d %v %v %v %s", r.ContentLength, r.TransferEncoding, r.Trailer, err, b)
}

func TestBody(t *testing.T) {
	const head = "POST /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
	for _, tt := range []struct {
		name, request string
		max           int64
		status        int
		body          string // that the handler saw, "" if it was not called
		settled       string
		left          int // of 5 attempts
	}{
		{"none", head + "\r\n", 8, 200, "0 [] map[] <nil> ", "failed", 4},
		{"empty", head + "Content-Length: 0\r\n\r\n", 8, 200, "0 [] map[] <nil> ", "failed", 4},
		{"the limit", head + "Content-Length: 8\r\n\r\n12345678", 8, 200, "8 [] map[] <nil> 12345678", "failed", 4},
		{"the limit less one", head + "Content-Length: 7\r\n\r\n1234567", 8, 200, "7 [] map[] <nil> 1234567", "failed", 4},
		{"one too many", head + "Content-Length: 9\r\n\r\n123456789", 8, 413, "", "malformed", 4},
		{"too many, not sent", head + "Content-Length: 1000000000\r\n\r\n", 8, 413, "", "malformed", 4},
		{"chunked, the limit", head + "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n", 8, 200, "8 [] map[] <nil> 12345678", "failed", 4},
		{"chunked, one too many", head + "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n5\r\n56789\r\n0\r\n\r\n", 8, 413, "", "malformed", 4},
		{"chunked, never ending", head + "Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n", 8, 413, "", "malformed", 4},
		{"chunked, empty", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 8, 200, "0 [] map[] <nil> ", "failed", 4},
		{"chunked, trailers", head + "Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\nX: y\r\n\r\n", 8, 200, "-1 [chunked] map[X:[y]] <nil> 1", "failed", 4},
		{"chunked, broken", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 8, 400, "", "", 5},
		{"never comes", head + "Content-Length: 8\r\n\r\n", 8, 408, "", "", 5},
		{"comes in part", head + "Content-Length: 8\r\n\r\n1234", 8, 408, "", "", 5},
		{"no limit", head + "Content-Length: 9\r\n\r\n123456789", -1, 200, "9 [] map[] <nil> 123456789", "failed", 4},
		{"the largest limit", head + "Content-Length: 9\r\n\r\n123456789", 1<<63 - 1, 200, "9 [] map[] <nil> 123456789", "failed", 4},
		{"expects 100, the limit", head + "Expect: 100-continue\r\nContent-Length: 8\r\n\r\n12345678", 8, 100, "8 [] map[] <nil> 12345678", "failed", 4},
		{"expects 100, too many", head + "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", 8, 413, "", "malformed", 4},
		{"expects 100, never comes", head + "Expect: 100-continue\r\nContent-Length: 8\r\n\r\n", 8, 100, "", "", 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, calls := newGuard(t, perNetwork(5)), record()
				gate := newGate(t, httpguard.Options{Guard: g, MaxBody: tt.max, Settled: calls.callback})
				called := false
				h := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { called = true; echo(w, r) }))
				got := exchange(t, &http.Server{Handler: h}, func(w io.Writer) { io.WriteString(w, tt.request) })
				if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", tt.status)) || tt.body != "" && !strings.HasSuffix(got, tt.body) {
					t.Errorf("got %s, want %d, %s", got, tt.status, tt.body)
				}
				if called != (tt.body != "") {
					t.Errorf("handler called: %v", called)
				}
				if tt.settled == "" {
					calls.none(t)
				} else if s := calls.next(t); s.outcome.String() != tt.settled {
					t.Errorf("settled as %v, want %s", s.outcome, tt.settled)
				}
				if n := remaining(g, "192.0.2.7"); n != tt.left {
					t.Errorf("%d attempts left, want %d", n, tt.left)
				}
			})
		})
	}
}

func TestDefaultMaxBody(t *testing.T) {
	h := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5))}).Handler(http.HandlerFunc(echo))
	for n, want := range map[int]int{64 << 10: 200, 64<<10 + 1: 413} {
		body := strings.Repeat("x", n)
		for _, declared := range []int64{int64(n), -1} {
			r := from("192.0.2.7", "POST", body)
			r.ContentLength = declared
			w := do(h, r)
			if w.Code != want || want == 200 && !strings.HasSuffix(w.Body.String(), " "+body) {
				t.Errorf("%d bytes, declared as %d: %d", n, declared, w.Code)
			}
		}
	}
}

// TestSlowBody: a body may take BodyTimeout in all, however it drips.
func TestSlowBody(t *testing.T) {
	for _, tt := range []struct {
		every, timeout, server time.Duration
		status                 int
		took                   time.Duration
	}{
		{time.Second, 0, 0, 200, 9 * time.Second},
		{2 * time.Second, 0, 0, 408, 10 * time.Second},
		{time.Second, 3 * time.Second, 0, 408, 3 * time.Second},
		{time.Second, 3 * time.Second, time.Minute, 408, 3 * time.Second},
		{time.Second, 5 * time.Second, 2 * time.Second, 408, 2 * time.Second}, // ReadTimeout is not extended
	} {
		t.Run(fmt.Sprint(tt.every, tt.timeout, tt.server), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, perNetwork(5))
				gate := newGate(t, httpguard.Options{Guard: g, BodyTimeout: tt.timeout})
				start := time.Now()
				var took time.Duration
				h := gate.Handler(http.HandlerFunc(echo))
				s := &http.Server{ReadTimeout: tt.server, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					took = time.Since(start)
				})}
				got := exchange(t, s, func(w io.Writer) {
					io.WriteString(w, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
					for i := range 10 {
						if i > 0 {
							time.Sleep(tt.every)
						}
						if _, err := io.WriteString(w, "x"); err != nil {
							return
						}
					}
				})
				if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", tt.status)) || took != tt.took {
					t.Errorf("after %v: %s", took, got)
				}
				if tt.status == 408 {
					if !strings.Contains(got, "\r\nConnection: close\r\n") {
						t.Errorf("408 keeps the connection: %s", got)
					}
					if n := remaining(g, "192.0.2.7"); n != 5 {
						t.Errorf("%d attempts left, want 5", n)
					}
				}
			})
		})
	}
}

// TestSlowBodyThenHandler: the deadline for the body is none for the handler.
func TestSlowBodyThenHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := record()
		gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Outcome: speaks(t), Settled: calls.callback})
		h := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(30 * time.Second)
			if err := r.Context().Err(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(204)
		}))
		got := exchange(t, &http.Server{Handler: h}, func(w io.Writer) {
			io.WriteString(w, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx")
		})
		if s := calls.next(t); s.outcome != doorward.Succeeded {
			t.Errorf("settled as %v, %s", s.outcome, got)
		}
	})
}

// TestSlowBodyHTTP2 is the same on a connection that has no deadline of its own.
func TestSlowBodyHTTP2(t *testing.T) {
	g := newGuard(t, perNetwork(5))
	gate := newGate(t, httpguard.Options{Guard: g, BodyTimeout: 20 * time.Millisecond})
	s := serve(t, gate.Handler(http.HandlerFunc(echo)), true)
	body, w := io.Pipe()
	defer w.Close()
	res, err := s.Client().Post(s.URL, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 408 || res.Header.Get("Connection") != "" || remaining(g, "127.0.0.1") != 5 {
		t.Errorf("%v %v, %d left", res.Status, res.Header, remaining(g, "127.0.0.1"))
	}
}

// TestRefusedUnread: who is locked out, or declares too much, is refused before the
// body has come, and does not hold the connection by sending it slowly.
func TestRefusedUnread(t *testing.T) {
	for _, tt := range []struct {
		name, head, want string
		attempts         int // before
	}{
		{"locked", "Content-Length: 1000", "429", 1},
		{"locked, chunked", "Transfer-Encoding: chunked", "429", 1},
		{"locked, expects 100", "Expect: 100-continue\r\nContent-Length: 1000", "429", 1},
		{"too large", "Content-Length: 100000", "413", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(1))}).Handler(wrong)
				for range tt.attempts {
					do(h, from("192.0.2.7", "POST", "x"))
				}
				start := time.Now()
				got := exchange(t, &http.Server{Handler: h}, func(w io.Writer) {
					io.WriteString(w, "POST / HTTP/1.1\r\nHost: a\r\n"+tt.head+"\r\n\r\n")
				})
				if !strings.HasPrefix(got, "HTTP/1.1 "+tt.want) || strings.Contains(got, "i/o timeout") || time.Since(start) > 12*time.Second {
					t.Errorf("after %v: %s", time.Since(start), got)
				}
			})
		})
	}
}

// counting counts what the server reads.
type counting struct {
	net.Listener
	n *atomic.Int64
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countingConn{c, l.n}, err
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// TestRefusedFlood: of a body that is refused not much is read.
func TestRefusedFlood(t *testing.T) {
	for name, first := range map[string]func(http.Handler){
		"429": func(h http.Handler) { do(h, from("127.0.0.1", "POST", "x")) },
		"413": func(http.Handler) {},
	} {
		t.Run(name, func(t *testing.T) {
			h := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(1))}).Handler(wrong)
			first(h)
			var read atomic.Int64
			s := httptest.NewUnstartedServer(h)
			s.Listener = counting{s.Listener, &read}
			s.Start()
			defer s.Close()
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			go func() {
				io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
				chunk := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"
				for range 1 << 10 {
					if _, err := io.WriteString(c, chunk); err != nil {
						return
					}
				}
			}()
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			if fmt.Sprint(res.StatusCode) != name || !res.Close {
				t.Errorf("%v, close %v", res.Status, res.Close)
			}
			if n := read.Load(); n > 600<<10 {
				t.Errorf("read %d bytes of a refused body", n)
			}
		})
	}
}

func TestBodyErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		body   io.Reader
		status int
	}{
		"broken":                   {iotest.ErrReader(errors.New("broken")), 400},
		"cut off":                  {iotest.ErrReader(io.ErrUnexpectedEOF), 400},
		"limited by somebody else": {http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("12")), 1), 413},
		"a byte at a time":         {iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 9000))), 401},
		"the end with the data":    {iotest.DataErrReader(strings.NewReader(strings.Repeat("x", 9000))), 401},
	} {
		r := httptest.NewRequest("POST", "/", tt.body)
		if w := do(newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5))}).Handler(wrong), r); w.Code != tt.status {
			t.Errorf("%s: %d, want %d", name, w.Code, tt.status)
		}
	}
}

// TestExemptBody: whom nothing is charged to holds nobody up.
func TestExemptBody(t *testing.T) {
	c := perNetwork(1)
	c.Exempt = prefixes("192.0.2.0/24")
	h := newGate(t, httpguard.Options{Guard: newGuard(t, c), MaxBody: 1}).Handler(http.HandlerFunc(echo))
	for range 3 {
		if w := do(h, from("192.0.2.7", "POST", "12345")); w.Body.String() != "5 [] map[] <nil> 12345" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// TestBusyBody: a body that did not arrive charges nothing, and one that is too large
// does not wait.
func TestBusyBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, perNetwork(1))
		p := g.Attempt(guard.Request{Addr: addr("192.0.2.7")}, time.Now())
		if !p.Allowed {
			t.Fatal(p.Verdict)
		}
		h := newGate(t, httpguard.Options{Guard: g, MaxBody: 1}).Handler(wrong)
		start := time.Now()
		if w := do(h, from("192.0.2.7", "POST", "12")); w.Code != 429 || w.Header().Get("Retry-After") != "1" || time.Since(start) != 0 {
			t.Errorf("%d %v after %v", w.Code, w.Header(), time.Since(start))
		}
	})
}
