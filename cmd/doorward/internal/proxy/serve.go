package proxy

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// summaryEvery is how often suppressed lines are reported if no line does.
const summaryEvery = 10 * time.Second

// Serve answers requests from ln until ctx is done. Then it accepts no more, lets
// requests in flight finish within Timeouts.Shutdown, ends those that do not, and
// returns: nil, or an error that says that some were cut off. WebSockets are closed at
// once: they may last for ever.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	return p.ServePorts(ctx, Port{Listener: ln})
}

// ServePorts is Serve for several listeners. The first that fails ends all.
func (p *Proxy) ServePorts(ctx context.Context, ports ...Port) error {
	requests, cut := context.WithCancel(context.Background())
	defer cut()
	var running sync.RWMutex // held by every request
	var tunnels tunnels
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.RLock()
		defer running.RUnlock()
		tunnels.serve(w, r, p.handlerFor(r))
	})
	s := &http.Server{
		Handler:                      handler,
		ReadHeaderTimeout:            p.config.Timeouts.ReadHeader,
		IdleTimeout:                  p.config.Timeouts.Idle,
		MaxHeaderBytes:               p.config.Limits.HeaderBytes,
		ErrorLog:                     log.New(lineWriter{p.lines.server}, "", 0),
		BaseContext:                  func(ln net.Listener) context.Context { return base(requests, ln) },
		ConnContext:                  tunnels.name,
		ConnState:                    tunnels.watch,
		DisableGeneralOptionsHandler: true, // OPTIONS * is the application's
		Protocols:                    new(http.Protocols),
		HTTP2:                        p.http2(),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true) // over TLS, which ports have or have not
	defer p.lines.flush()
	defer p.pool.CloseIdle()
	defer p.pool.Watch()()

	served := make(chan error, len(ports))
	for _, port := range ports {
		go func() { served <- s.Serve(p.listener(port)) }()
	}
	summary := time.NewTicker(summaryEvery)
	defer summary.Stop()
	for {
		select {
		case err := <-served:
			tunnels.close()
			s.Close()
			return fmt.Errorf("proxy: %w", err)
		case <-summary.C:
			p.lines.flush()
		case <-ctx.Done():
			err := p.stop(s, func() { cut(); tunnels.close() })
			running.Lock() // when they have ended
			defer running.Unlock()
			return err
		}
	}
}

func (p *Proxy) stop(s *http.Server, cut func()) error {
	patience, cancel := context.WithTimeout(context.Background(), p.config.Timeouts.Shutdown)
	defer cancel()
	err := s.Shutdown(patience)
	// What is left: WebSockets, and whoever took too long.
	cut()
	s.Close()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("proxy: requests still in flight after %v were cut off", p.config.Timeouts.Shutdown)
	}
	return err
}

// tunnels are the connections that http.Server has given away, to WebSockets, and that
// have not ended. Of these a request's context reaches one side only.
type tunnels struct {
	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

type connKey struct{}

func (t *tunnels) name(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func (t *tunnels) watch(conn net.Conn, state http.ConnState) {
	watchState(conn, state)
	if state != http.StateHijacked {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		conn.Close()
		return
	}
	if t.open == nil {
		t.open = make(map[net.Conn]bool)
	}
	t.open[conn] = true
}

// serve lets next handle r, whose connection has ended then if it was given away.
func (t *tunnels) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	defer func() {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, conn)
	}()
	next.ServeHTTP(w, r)
}

func (t *tunnels) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for conn := range t.open {
		conn.Close()
	}
}
