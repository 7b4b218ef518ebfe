package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
)

// patience is how long a test waits for something that must happen.
const patience = 20 * time.Second

// A site is a proxy that serves, with a log that can be asked.
type site struct {
	t     testing.TB
	addr  string
	guard *guard.Guard
	log   *record
	proxy *Proxy
	stop  func() error // ends Serve and waits for it
	peers *peers
}

// An option changes the Config of a site, whose one door is POST /login: 5 failures
// lock a network for a minute, and 302 with a session cookie is a success.
type option func(*Config)

func succeeded(t testing.TB, s string) *outcome.Classifier {
	t.Helper()
	c, header, err := outcome.ParseSucceeded(s)
	if err != nil {
		t.Fatal(err)
	}
	o, err := outcome.New(outcome.Rules{Succeeded: c, Header: header})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func mustDoor(t testing.TB, c door.Config) *door.Door {
	t.Helper()
	d, err := door.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func lockoutGuard(t testing.TB, free int) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &lockout.Policy{
		FreeFailures: free, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour,
		Capacity: 1024, InFlight: 4096,
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func baseConfig(t testing.TB, upstream string, g *guard.Guard, log *record) Config {
	t.Helper()
	u, err := url.Parse("http://" + upstream)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Upstream: u,
		Doors: []Door{{
			Name: "login", Guard: g,
			Match:   mustDoor(t, door.Config{Routes: []string{"POST /login"}}),
			Outcome: succeeded(t, "302,cookie:session"),
		}},
		ClientsConfigured: true,
		Log:               slog.New(log),
		Timeouts:          Timeouts{Shutdown: patience},
	}
}

// serve starts a proxy in front of upstream.
func serve(t testing.TB, upstream string, options ...option) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, ln, upstream, options...)
}

func serveOn(t testing.TB, ln net.Listener, upstream string, options ...option) *site {
	t.Helper()
	s := &site{t: t, addr: ln.Addr().String(), log: newRecord(), guard: lockoutGuard(t, 5)}
	c := baseConfig(t, upstream, s.guard, s.log)
	for _, o := range options {
		o(&c)
	}
	s.guard = c.Doors[0].Guard
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.proxy = p
	s.peers = &peers{Listener: ln}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, s.peers) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-served:
			return err
		case <-time.After(patience):
			t.Error("Serve did not end")
			return nil
		}
	})
	t.Cleanup(func() { s.stop() })
	return s
}

// trusting makes clients be named by header, as proxies in networks write it.
func trusting(t testing.TB, header string, networks ...string) option {
	t.Helper()
	c := clientip.Config{Header: header}
	for _, n := range networks {
		c.Trusted = append(c.Trusted, netip.MustParsePrefix(n))
	}
	r, err := clientip.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Clients = r }
}

// peers is a listener whose connections come from where a test says.
type peers struct {
	net.Listener
	next atomic.Value // net.Addr
}

type textAddr string

func (a textAddr) Network() string { return "tcp" }
func (a textAddr) String() string  { return string(a) }

type namedConn struct {
	net.Conn
	remote net.Addr
}

func (c namedConn) RemoteAddr() net.Addr { return c.remote }

func (p *peers) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if a, ok := p.next.Load().(textAddr); ok {
		return namedConn{conn, a}, nil
	}
	return conn, nil
}

// from makes the connections that follow come from a peer.
func (s *site) from(peer string) { s.peers.next.Store(textAddr(net.JoinHostPort(peer, "40000"))) }

// dial connects to the proxy.
func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// raw sends text as it is and returns the answer and its body.
func (s *site) raw(text string) (*http.Response, string) {
	s.t.Helper()
	conn := s.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	return s.answer(bufio.NewReader(conn), "POST")
}

func (s *site) answer(r *bufio.Reader, method string) (*http.Response, string) {
	s.t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		s.t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	return res, string(body)
}

// post sends an attempt with more header lines.
func (s *site) post(target string, lines ...string) *http.Response {
	s.t.Helper()
	res, _ := s.raw(request("POST", target, "user=a&pass=b", lines...))
	return res
}

func request(method, target, body string, lines ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: app.example\r\nConnection: close\r\n", method, target)
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.String()
}

// remaining returns how many attempts peer may still start.
func (s *site) remaining(peer string) int {
	v := s.guard.Check(guard.Request{Addr: netip.MustParseAddr(peer), How: clientip.Peer}, time.Now())
	if !v.Allowed {
		return 0
	}
	return v.Remaining + 1
}

// record is a log handler that tests read.
type record struct {
	mu    sync.Mutex
	lines []map[string]any
	news  chan struct{} // closed and replaced with every line
}

func newRecord() *record { return &record{news: make(chan struct{})} }

func (r *record) Enabled(context.Context, slog.Level) bool { return true }
func (r *record) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *record) WithGroup(string) slog.Handler            { return r }

func (r *record) Handle(_ context.Context, l slog.Record) error {
	line := map[string]any{"msg": l.Message, "level": l.Level}
	l.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.Any()
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	close(r.news)
	r.news = make(chan struct{})
	return nil
}

// of returns the lines so far with a message that starts with msg.
func (r *record) of(msg string) []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.matching(msg)
}

func (r *record) matching(msg string) (found []map[string]any) {
	for _, l := range r.lines {
		if strings.HasPrefix(l["msg"].(string), msg) {
			found = append(found, l)
		}
	}
	return found
}

// wait waits for n lines of a message.
func (r *record) wait(t testing.TB, msg string, n int) []map[string]any {
	t.Helper()
	timeout := time.After(patience)
	for {
		r.mu.Lock()
		found, news := r.matching(msg), r.news
		r.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-news:
		case <-timeout:
			t.Fatalf("%d lines %q in the log, want %d", len(found), msg, n)
		}
	}
}

// An app is an upstream of raw connections: handle gets each with its request.
type app struct {
	addr  string
	conns atomic.Int64
}

func listen(t testing.TB, handle func(net.Conn, *bufio.Reader)) *app {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &app{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			a.conns.Add(1)
			wg.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(patience))
				handle(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return a
}

// reads returns a handler that reads one request whole, then answers with text.
func reads(text string) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		io.WriteString(conn, text)
	}
}

const (
	right = "HTTP/1.1 302 Found\r\nLocation: /\r\nSet-Cookie: session=s\r\nContent-Length: 0\r\n\r\n"
	wrong = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nwrong"
)
