package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for something that must happen.
const patience = 20 * time.Second

// pool returns a pool over urls; change may alter its configuration.
func pool(t *testing.T, change func(*Config), urls ...string) *Pool {
	t.Helper()
	c := Config{DialTimeout: patience, MaxHeaderBytes: 1 << 20, Reuse: Reuse{Idle: time.Minute}}
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		c.URLs = append(c.URLs, u)
	}
	if change != nil {
		change(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range p.backends {
		b.keeps.Store(true)
	}
	t.Cleanup(func() {
		p.CloseIdle()
		poll(t, "connections are left open", func() bool { return p.Connections() == 0 })
	})
	return p
}

func reads(c *Config) { c.Reuse.ReadsBodies = true }

// poll waits until something holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// listen serves connections with handle and returns the address and how many there were.
func listen(t *testing.T, handle func(n int64, c net.Conn, r *bufio.Reader)) (addr string, conns *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n := conns.Add(1)
			wg.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(patience))
				handle(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String(), conns
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// request returns a request of the kind that proxies make: its body cannot be read twice.
func request(method, body string, headers ...string) *http.Request {
	r, err := http.NewRequest(method, "http://x/login", nil)
	if err != nil {
		panic(err)
	}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	for _, h := range headers {
		r.Header.Set(h, "1")
	}
	return r
}

func send(t http.RoundTripper, r *http.Request) (string, error) {
	res, err := t.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// read reads one request whole.
func read(r *bufio.Reader) error {
	req, err := http.ReadRequest(r)
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	return err
}

// An end is how an application ends a kept connection at its second request, of which it
// has read nothing yet. It says whether it got any of the request.
type end struct {
	name string
	ends func(c net.Conn, r *bufio.Reader) (seen bool)
}

var ends = []end{
	{"before it", func(net.Conn, *bufio.Reader) bool { return false }},
	{"at its first byte", func(_ net.Conn, r *bufio.Reader) bool { r.Peek(1); return true }},
	{"in its header", func(_ net.Conn, r *bufio.Reader) bool { r.ReadString('\n'); return true }},
	{"after its header", func(_ net.Conn, r *bufio.Reader) bool { http.ReadRequest(r); return true }},
	{"after its body", func(_ net.Conn, r *bufio.Reader) bool { read(r); return true }},
	{"in the status line", func(c net.Conn, r *bufio.Reader) bool { read(r); io.WriteString(c, "HTTP/1"); return true }},
	{"in the header of the answer", func(c net.Conn, r *bufio.Reader) bool {
		read(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
		return true
	}},
	{"after 103", func(c net.Conn, r *bufio.Reader) bool {
		read(r)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		return true
	}},
}

// second sends two requests, the second of which meets the end of a kept connection. It
// returns how often that was seen and what it got.
func (e end) second(t *testing.T, reset bool, r *http.Request, transport func(addr string) http.RoundTripper) (int64, error) {
	t.Helper()
	var seen atomic.Int64
	head := r.Method == "HEAD"
	addr, _ := listen(t, func(n int64, c net.Conn, in *bufio.Reader) {
		if read(in) != nil {
			return
		}
		if n > 1 {
			seen.Add(1)
		}
		if n > 1 && head {
			io.WriteString(c, strings.TrimSuffix(ok, "ok"))
			return
		}
		io.WriteString(c, ok)
		if n > 1 {
			return
		}
		if e.ends(c, in) {
			seen.Add(1)
		}
		if reset {
			c.(*net.TCPConn).SetLinger(0)
		}
	})
	to := transport(addr)
	if body, err := send(to, request("GET", "")); body != "ok" || err != nil {
		t.Fatalf("%s: the first request got %q, %v", e.name, body, err)
	}
	if p, ok := to.(*Pool); ok && e.name == "before it" { // until it is known here
		poll(t, "an ended connection is open", func() bool { return p.Connections() == 0 })
	}
	_, err := send(to, r)
	return seen.Load(), err
}

var kinds = []struct {
	name string
	make func() *http.Request
}{
	{"GET", func() *http.Request { return request("GET", "") }},
	{"HEAD", func() *http.Request { return request("HEAD", "") }},
	{"OPTIONS", func() *http.Request { return request("OPTIONS", "") }},
	{"POST", func() *http.Request { return request("POST", "") }},
	{"Idempotency-Key", func() *http.Request { return request("POST", "", "Idempotency-Key") }},
	{"X-Idempotency-Key", func() *http.Request { return request("POST", "", "X-Idempotency-Key") }},
	{"a body", func() *http.Request { return request("POST", "a=b", "Idempotency-Key") }},
	{"a body of GET", func() *http.Request { return request("GET", "a=b") }},
}

// TestOnce: an application that ends a kept connection, at whatever point of a request,
// gets that request once, whatever kind it is.
func TestOnce(t *testing.T) {
	for _, e := range ends {
		for _, kind := range kinds {
			for _, reset := range []bool{false, true} {
				seen, err := e.second(t, reset, kind.make(), func(addr string) http.RoundTripper { return pool(t, reads, "http://"+addr) })
				if unused := e.name == "before it"; seen != 1 || (err == nil) != unused {
					t.Errorf("%s, %s, reset %t: seen %d times, error %v", e.name, kind.name, reset, seen, err)
				}
			}
		}
	}
}

// TestTransportTwice: that test can fail. http.Transport sends these again.
func TestTransportTwice(t *testing.T) {
	for _, kind := range kinds[:3] {
		seen, err := ends[3].second(t, false, kind.make(), func(addr string) http.RoundTripper {
			u := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			}}
			t.Cleanup(u.CloseIdleConnections)
			return u
		})
		if seen != 2 || err != nil {
			t.Errorf("%s: seen %d times, error %v", kind.name, seen, err)
		}
	}
}

// TestNothingWritten: a kept connection that is found broken before anything was written
// to it is left for another one, if there is no body that may have been read.
func TestNothingWritten(t *testing.T) {
	addr, conns := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		for read(r) == nil {
			io.WriteString(c, ok)
		}
	})
	p := pool(t, reads, "http://"+addr)
	for _, row := range []struct {
		body  string
		conns int64
		err   bool
	}{{"", 1, false}, {"", 2, false}, {"a=b", 2, true}} {
		p.backends[0].keeps.Store(true)
		if n := len(p.backends[0].idle); n > 0 {
			// As if it were just being closed.
			p.backends[0].idle[n-1].wire.closed.Store(true)
			p.backends[0].open.Add(-1)
		}
		_, err := send(p, request("POST", row.body))
		if (err != nil) != row.err || conns.Load() != row.conns {
			t.Errorf("body %q: error %v, %d connections, want %d", row.body, err, conns.Load(), row.conns)
		}
	}
}

// TestReuse: which requests share a connection. After a body none does, unless the
// application reads bodies or they are framed.
func TestReuse(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Config)
		bodies []string
		conns  int64
	}{
		{"no bodies", nil, []string{"", "", "", ""}, 1},
		{"bodies", nil, []string{"a", "a", "a", "a"}, 4},
		{"mixed", nil, []string{"", "a", "", "a", ""}, 3},
		{"reads_bodies", reads, []string{"a", "", "a", "a"}, 1},
	} {
		addr, conns := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body)
				io.WriteString(c, ok)
				if req.Close {
					return
				}
			}
		})
		p := pool(t, row.change, "http://"+addr)
		for i, body := range row.bodies {
			if got, err := send(p, request("POST", body)); got != "ok" || err != nil {
				t.Errorf("%s, request %d: %q, %v", row.name, i, got, err)
			}
		}
		if n := conns.Load(); n != row.conns {
			t.Errorf("%s: %d connections, want %d", row.name, n, row.conns)
		}
	}
}

// TestProof: a connection that was used for the first time waits to be closed by
// applications that do so without saying it, until one has been used again.
func TestProof(t *testing.T) {
	addr, conns := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		if read(r) == nil {
			io.WriteString(c, ok)
		}
	})
	p := pool(t, nil, "http://"+addr)
	p.backends[0].keeps.Store(false)
	for i := range 200 {
		if _, err := send(p, request("GET", "")); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if n := conns.Load(); n != 200 {
		t.Errorf("%d connections for 200 requests, want 200", n)
	}

	addr, conns = listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		for read(r) == nil {
			io.WriteString(c, ok)
		}
	})
	p = pool(t, nil, "http://"+addr)
	p.backends[0].keeps.Store(false)
	get := func() {
		if _, err := send(p, request("GET", "")); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "connections are never kept", func() bool { get(); return p.backends[0].keeps.Load() })
	before := conns.Load()
	for range 50 {
		get()
	}
	if n := conns.Load(); n != before {
		t.Errorf("%d connections, %d before", n, before)
	}
}

// TestSpare: bodies go over connections that were there before, each over one of its own.
func TestSpare(t *testing.T) {
	var bodies, twice atomic.Int64
	addr, conns := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		for n := 0; read(r) == nil; n++ {
			if bodies.Add(1); n > 0 {
				twice.Add(1)
			}
			io.WriteString(c, ok)
		}
	})
	p := pool(t, func(c *Config) { c.Reuse.Spare = 3 }, "http://"+addr)
	for i := range 10 {
		if _, err := send(p, request("POST", "a")); err != nil {
			t.Fatal(err)
		}
		poll(t, "no spare connections", func() bool { return conns.Load() == int64(i)+4 })
		poll(t, "not listed", func() bool {
			b := p.backends[0]
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.spare) == 3
		})
	}
	if bodies.Load() != 10 || twice.Load() != 0 {
		t.Errorf("%d bodies, %d on a used connection", bodies.Load(), twice.Load())
	}
}

// TestDeadSpare: a spare connection that has ended carries nothing.
func TestDeadSpare(t *testing.T) {
	addr, _ := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		if read(r) == nil {
			io.WriteString(c, ok)
		}
	})
	p := pool(t, nil, "http://"+addr)
	b := p.backends[0]
	c, err := b.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.since = time.Now()
	b.spare = append(b.spare, c)
	if _, err := send(p, request("POST", "a")); err != nil {
		t.Error(err)
	}
}

// TestIdle: a connection is closed when it has waited for long enough, spare ones too.
func TestIdle(t *testing.T) {
	addr, _ := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		for read(r) == nil {
			io.WriteString(c, ok)
		}
	})
	p := pool(t, func(c *Config) { c.Reuse = Reuse{Idle: 10 * time.Millisecond, Spare: 2} }, "http://"+addr)
	for _, body := range []string{"", "a"} {
		if _, err := send(p, request("POST", body)); err != nil {
			t.Fatal(err)
		}
		poll(t, "an idle connection is open", func() bool { return p.Connections() == 0 })
	}
}

// dead returns an address that nobody listens at.
func dead(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return ln.Addr().String()
}

// TestNextCopy: a connection that fails is tried at the next copy, with the body whole;
// with none left the error says that nothing was sent.
func TestNextCopy(t *testing.T) {
	var got atomic.Value
	addr, _ := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		if req, err := http.ReadRequest(r); err == nil {
			b, _ := io.ReadAll(req.Body)
			got.Store(string(b))
			io.WriteString(c, ok)
		}
	})
	p := pool(t, nil, "http://"+dead(t), "http://"+addr, "unix:/nowhere")
	for i := range 6 { // whoever comes first
		got.Store("")
		if _, err := send(p, request("POST", "a=b")); err != nil || got.Load() != "a=b" {
			t.Errorf("request %d: %v, body %q", i, err, got.Load())
		}
	}
	p = pool(t, nil, "http://"+dead(t), "h2c://"+dead(t), "https://"+dead(t), "unix:/nowhere")
	if _, err := send(p, request("POST", "a=b")); !errors.As(err, new(DialError)) {
		t.Errorf("error %v", err)
	}
}

// TestNoSecondCopy: once anything may have been sent there is no other copy.
func TestNoSecondCopy(t *testing.T) {
	var seen atomic.Int64
	closes := func(_ int64, c net.Conn, r *bufio.Reader) {
		if read(r) == nil {
			seen.Add(1)
		}
	}
	a, _ := listen(t, closes)
	b, _ := listen(t, closes)
	p := pool(t, nil, "http://"+a, "http://"+b)
	for i, kind := range kinds {
		_, err := send(p, kind.make())
		if err == nil || errors.As(err, new(DialError)) || seen.Load() != int64(i)+1 {
			t.Errorf("%s: error %v, seen %d times in all", kind.name, err, seen.Load())
		}
	}
}

// TestLeastBusy: a request goes to the copy with the fewest in flight, and equals take
// turns; sick copies and those that could not be connected to come last.
func TestLeastBusy(t *testing.T) {
	p := pool(t, nil, "http://a", "http://b", "http://c")
	now := time.Now()
	for _, row := range []struct {
		inFlight  [3]int64
		unhealthy [3]bool
		resting   [3]bool
		want      string // those that take turns
	}{
		{want: "abc"},
		{inFlight: [3]int64{1, 0, 1}, want: "b"},
		{inFlight: [3]int64{1, 2, 1}, want: "ac"},
		{inFlight: [3]int64{0, 5, 5}, unhealthy: [3]bool{true}, want: "bc"},
		{inFlight: [3]int64{0, 5, 9}, resting: [3]bool{true}, want: "b"},
		{unhealthy: [3]bool{true, true}, resting: [3]bool{false, false, true}, want: "c"},
		{inFlight: [3]int64{2, 1, 3}, unhealthy: [3]bool{true, true, true}, want: "b"},
	} {
		for i, b := range p.backends {
			b.inFlight.Store(row.inFlight[i])
			b.unhealthy.Store(row.unhealthy[i])
			b.resting.Store(0)
			if row.resting[i] {
				b.resting.Store(now.Add(time.Hour).UnixNano())
			}
		}
		count := map[string]int{}
		for range 60 {
			count[p.choose(nil).host]++
		}
		for host, n := range count {
			if !strings.Contains(row.want, host) || n < 20 {
				t.Errorf("%+v: chose %v", row, count)
			}
		}
		if len(count) != len(row.want) {
			t.Errorf("%+v: chose %v", row, count)
		}
	}
}

// TestProtocols: a Go application over each scheme, one request after the other and many
// at once, bodies included.
func TestProtocols(t *testing.T) {
	var mu sync.Mutex
	protocols := map[string]bool{}
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		protocols[r.Proto+" "+r.Host+" "+r.RequestURI] = true
		mu.Unlock()
		io.Copy(w, r.Body)
	})
	for _, scheme := range []string{"http", "h2c", "unix"} {
		clear(protocols)
		network, address := "tcp", "127.0.0.1:0"
		if scheme == "unix" {
			network, address = "unix", filepath.Join(t.TempDir(), "s")
		}
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: app, Protocols: new(http.Protocols)}
		s.Protocols.SetHTTP1(scheme != "h2c")
		s.Protocols.SetUnencryptedHTTP2(scheme == "h2c")
		go s.Serve(ln)
		t.Cleanup(func() { s.Close() })
		u := scheme + "://" + ln.Addr().String()
		if scheme == "unix" {
			u = "unix:" + address
		}
		p := pool(t, nil, u)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for j := range 20 {
					body := strings.Repeat("x", i*j)
					r := request("POST", body)
					r.Host, r.URL = "app.example", &url.URL{Opaque: "/a%2Fb//c?d"}
					if got, err := send(p, r); got != body || err != nil {
						t.Errorf("%s: %d bytes, %v, want %d", scheme, len(got), err, len(body))
					}
				}
			})
		}
		wg.Wait()
		want := "HTTP/1.1 app.example /a%2Fb//c?d"
		if scheme == "h2c" {
			want = "HTTP/2.0 app.example /a%2Fb//c?d"
		}
		if len(protocols) != 1 || !protocols[want] {
			t.Errorf("%s: the application saw %v", scheme, protocols)
		}
		if n := p.backends[0].inFlight.Load(); n != 0 {
			t.Errorf("%s: %d in flight at the end", scheme, n)
		}
		p.CloseIdle()
	}
}

// TestStep: a copy changes its condition after so many checks in a row.
func TestStep(t *testing.T) {
	h := Health{UnhealthyAfter: 3, HealthyAfter: 2}
	for _, row := range []struct{ checks, want string }{
		{"+++", "+++"},
		{"--", "++"},
		{"---", "++-"},
		{"--+---", "+++++-"},
		{"---+-++", "++----+"},
		{"---++---", "++--+++-"},
	} {
		var c condition
		var got []byte
		for _, check := range row.checks {
			c = h.step(c, check == '+')
			got = append(got, map[bool]byte{false: '+', true: '-'}[c.sick])
		}
		if string(got) != row.want {
			t.Errorf("%s: %s, want %s", row.checks, got, row.want)
		}
	}
}

// TestWatch: what a copy answers to checks decides whether it is asked; with none that
// is healthy they are asked all the same.
func TestWatch(t *testing.T) {
	var sick atomic.Bool
	var hits [2]atomic.Int64
	serve := func(i int) string {
		addr, _ := listen(t, func(_ int64, c net.Conn, r *bufio.Reader) {
			req, err := http.ReadRequest(r)
			switch {
			case err != nil:
			case req.URL.Path != "/healthz":
				hits[i].Add(1)
				io.WriteString(c, ok)
			case sick.Load():
				io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
			default:
				io.WriteString(c, ok)
			}
		})
		return "http://" + addr
	}
	changes := make(chan string, 10)
	p := pool(t, func(c *Config) {
		c.Health = &Health{Path: "/healthz", Every: time.Millisecond, Timeout: patience}
		c.Changed = func(u *url.URL, healthy bool, why string) { changes <- fmt.Sprint(healthy, " ", why) }
	}, serve(0))
	defer p.Watch()()
	wantHealthy := func(want bool) {
		t.Helper()
		copies := 0
		p.Each(func(u *url.URL, healthy bool) {
			if copies++; healthy != want {
				t.Errorf("%v: healthy %v", u, healthy)
			}
		})
		if copies != 1 {
			t.Errorf("%d copies", copies)
		}
	}
	sick.Store(true)
	if got := <-changes; got != "false status 503" {
		t.Errorf("change %q", got)
	}
	wantHealthy(false)
	if _, err := send(p, request("GET", "")); err != nil || hits[0].Load() != 1 {
		t.Errorf("with no healthy copy: %v", err)
	}
	sick.Store(false)
	if got := <-changes; got != "true " {
		t.Errorf("change %q", got)
	}
	wantHealthy(true)
}

func TestNewErrors(t *testing.T) {
	for _, row := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) {}, ""},
		{func(c *Config) { c.URLs = nil }, "upstream: URLs must not be empty"},
		{func(c *Config) { c.URLs[0].Scheme = "ftp" }, `upstream: URLs[0] must be http, https, h2c or unix, got "ftp://a"`},
		{func(c *Config) { c.URLs[0].RawQuery = "a" }, `upstream: URLs[0] must have no user, query or fragment, got "http://a?a"`},
		{func(c *Config) { c.URLs[0] = &url.URL{Scheme: "unix", Path: "/"} }, `upstream: URLs[0] must have the path of a socket, as in unix:/run/app.sock, got "unix:///"`},
		{func(c *Config) { c.DialTimeout = 0 }, "upstream: DialTimeout must be positive, got 0s"},
		{func(c *Config) { c.Reuse.Idle = -1 }, "upstream: Reuse.Idle must be positive, got -1ns"},
		{func(c *Config) { c.Reuse.Spare = 257 }, "upstream: Reuse.Spare must be 0 to 256, got 257"},
		{func(c *Config) { c.Health = &Health{} }, `upstream: Health.Path must be a path such as /healthz, got ""`},
		{func(c *Config) { c.Health = &Health{Path: "//a"} }, `upstream: Health.Path must be a path such as /healthz, got "//a"`},
		{func(c *Config) { c.Health = &Health{Path: "/", Every: -1} }, "upstream: Health.Every must be positive, got -1ns"},
		{func(c *Config) { c.Health = &Health{Path: "/", Timeout: -1} }, "upstream: Health.Timeout must be positive, got -1ns"},
		{func(c *Config) { c.Health = &Health{Path: "/", UnhealthyAfter: -1} }, "upstream: Health.UnhealthyAfter must be positive, got -1"},
		{func(c *Config) { c.Health = &Health{Path: "/", HealthyAfter: -1} }, "upstream: Health.HealthyAfter must be positive, got -1"},
	} {
		c := Config{URLs: []*url.URL{{Scheme: "http", Host: "a"}}, DialTimeout: time.Second}
		row.change(&c)
		got := ""
		if _, err := New(c); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
}
