package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/logs"
)

// silent is a listener that nobody connects to.
type silent struct {
	closed chan bool
	once   sync.Once
}

func (s *silent) Accept() (net.Conn, error) { <-s.closed; return nil, errors.New("closed") }
func (s *silent) Close() error              { s.once.Do(func() { close(s.closed) }); return nil }
func (s *silent) Addr() net.Addr            { return textAddr("silent") }

// TestSummary: what a flood left out is said within ten seconds, and when Serve ends.
func TestSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newRecord()
		p, err := New(baseConfig(t, "127.0.0.1:1", lockoutGuard(t, 5), log))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- p.Serve(ctx, &silent{closed: make(chan bool)}) }()
		flood := func(n int) {
			for range n {
				p.lines.refused.Write(time.Now(), func() []slog.Attr { return nil })
			}
		}
		last := func() any {
			lines := log.of("refused")
			return lines[len(lines)-1]["suppressed"]
		}
		flood(logs.Burst + 7)
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		if n := last(); n != nil {
			t.Errorf("%v suppressed before ten seconds", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := last(); n != uint64(7) {
			t.Errorf("%v suppressed after ten seconds, want 7", n)
		}
		flood(logs.Burst + 9)
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if n := last(); n != uint64(9) {
			t.Errorf("%v suppressed at the end, want 9", n)
		}
	})
}

// TestSecureUpstream: an application whose certificate is not valid gets nothing of an
// attempt, which is void.
func TestSecureUpstream(t *testing.T) {
	app := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request reached an application that was not verified")
	}))
	defer app.Close()
	s := serve(t, "x", func(c *Config) { c.Upstream, _ = url.Parse(app.URL) })
	if res := s.post("/login"); res.StatusCode != 502 {
		t.Errorf("status %d, want 502", res.StatusCode)
	}
	s.ended("void")
}

// TestTunnels: a connection that was given away is known until its request ends, and
// none outlives close.
func TestTunnels(t *testing.T) {
	var ts tunnels
	conn, other := net.Pipe()
	defer other.Close()
	r, _ := http.NewRequestWithContext(ts.name(t.Context(), conn), "GET", "/", nil)
	ts.serve(nil, r, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		ts.watch(conn, http.StateActive)
		if len(ts.open) != 0 {
			t.Error("a connection that the server has is taken for a tunnel")
		}
		ts.watch(conn, http.StateHijacked)
		if !ts.open[conn] {
			t.Error("a tunnel is not known")
		}
	}))
	if len(ts.open) != 0 {
		t.Error("a tunnel is known after its end")
	}
	ts.watch(conn, http.StateHijacked)
	ts.close()
	if _, err := other.Read(make([]byte, 1)); err == nil {
		t.Error("a tunnel outlives close")
	}
	late, far := net.Pipe()
	ts.watch(late, http.StateHijacked)
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("a tunnel begins after close")
	}
}

// TestRestOfBody: what is left of a body that nobody wants holds a connection no longer
// than a body may take.
func TestRestOfBody(t *testing.T) {
	s := serve(t, "127.0.0.1:1", func(c *Config) {
		c.ClientsConfigured = false
		c.Timeouts.Body = 500 * time.Millisecond
	})
	for _, row := range []struct {
		target string
		status int
	}{{"/login%00", 400}, {"/login", 503}, {"/elsewhere", 502}} {
		conn := s.dial()
		io.WriteString(conn, "POST "+row.target+" HTTP/1.1\r\nHost: x\r\nX-Real-IP: 192.0.2.1\r\nContent-Length: 100\r\n\r\n")
		r := bufio.NewReader(conn)
		if res, _ := s.answer(r, "POST"); res.StatusCode != row.status {
			t.Errorf("%s: status %d, want %d", row.target, res.StatusCode, row.status)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v, want EOF", row.target, err)
		}
	}
}
