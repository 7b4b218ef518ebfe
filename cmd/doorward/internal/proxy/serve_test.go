package proxy

import (
	"context"
	"errors"
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
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		if n := last(); n != nil {
			t.Errorf("%v suppressed before ten seconds", n)
		}
		time.Sleep(1)
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
