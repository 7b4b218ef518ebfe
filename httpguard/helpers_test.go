package httpguard_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
)

// free returns a policy with n free failures a minute, then minutes of lockout.
func free(n int) *lockout.Policy {
	return &lockout.Policy{FreeFailures: n, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour, Capacity: 1 << 12, InFlight: 1 << 12}
}

func perNetwork(n int) guard.Config {
	return guard.Config{Rules: []guard.Rule{{Lockout: free(n)}}}
}

func newGuard(t testing.TB, c guard.Config) *guard.Guard {
	t.Helper()
	g, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newGate(t testing.TB, o httpguard.Options) *httpguard.Gate {
	t.Helper()
	g, err := httpguard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// speaks heeds Doorward-Outcome, and else 204 as a success.
func speaks(t testing.TB) *outcome.Classifier {
	t.Helper()
	c, err := outcome.New(outcome.Rules{
		Header:    true,
		Void:      outcome.Statuses{{First: 503, Last: 503}},
		Succeeded: outcome.Conditions{Status: outcome.Statuses{{First: 204, Last: 204}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// from returns a request of the caller with this address.
func from(addr, method, body string) *http.Request {
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "/login", b)
	r.RemoteAddr = net.JoinHostPort(addr, "1234")
	return r
}

// do runs a request through a handler in memory.
func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var (
	wrong = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "wrong", http.StatusUnauthorized) })
	right = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpguard.FromRequest(r).Succeeded()
		io.WriteString(w, "welcome")
	})
)

// settled is one call of Options.Settled.
type settled struct {
	outcome doorward.Outcome
	warning string
	request *http.Request
	permit  *httpguard.Permit
}

// recording is a callback and what it was called with.
type recording chan settled

func record() recording { return make(recording, 4096) }

func (c recording) callback(r *http.Request, p *httpguard.Permit) {
	o, _ := p.Outcome()
	c <- settled{o, p.Warning(), r, p}
}

// next waits for a settlement. Whatever the handler does not settle fails the test
// after the time that a test may take.
func (c recording) next(t testing.TB) settled {
	t.Helper()
	select {
	case s := <-c:
		return s
	case <-time.After(20 * time.Second):
		t.Fatal("the attempt was not settled")
		return settled{}
	}
}

func (c recording) none(t testing.TB) {
	t.Helper()
	select {
	case s := <-c:
		t.Fatalf("settled as %v, want nothing settled", s.outcome)
	default:
	}
}

// serve runs h on loopback; with HTTP/2 over TLS.
func serve(t testing.TB, h http.Handler, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quiet
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(s.Close)
	return s
}

// protocols runs f for HTTP/1 and HTTP/2.
func protocols(t *testing.T, f func(t *testing.T, http2 bool)) {
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) { f(t, http2) })
	}
}

// remaining tells how many attempts the caller could still make, 0 if refused.
func remaining(g *guard.Guard, addr string) int {
	v := g.Check(guard.Request{Addr: netip.MustParseAddr(addr)}, time.Now())
	if !v.Allowed {
		return 0
	}
	return v.Remaining + 1
}

// pipes is a listener in memory, for servers in a synctest bubble.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn)} }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.conns) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- named{server}
	return client
}

// named is a pipe with an address that names a caller.
type named struct{ net.Conn }

func (named) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "192.0.2.7:1234" }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func prefixes(s ...string) (p []netip.Prefix) {
	for _, s := range s {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

// signer signs the tokens of the guard "login" with the key of this letter, and knows
// those that older keys signed.
func signer(t testing.TB, letters ...byte) *device.Signer {
	t.Helper()
	c := device.Config{Guard: "login"}
	for _, l := range letters {
		c.Keys = append(c.Keys, bytes.Repeat([]byte{l}, 32))
	}
	s, err := device.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hijackable is a recorder that gives its connection away.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, _ := net.Pipe()
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}
