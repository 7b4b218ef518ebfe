package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
)

// A stack is an application that somebody may have, and doorward in front of it.
type stack struct {
	name, about string
	routes      []string // what its operator writes
	ignoreCase  bool
	// start runs the application, which logs the requests that it sees.
	start func(t *testing.T, log string) (addr string)

	t     *testing.T
	addr  string // of doorward
	relay *relay
	log   string
	guard *guard.Guard
	next  atomic.Uint32
	lines []string // that the log should have by now
}

// budget is how many attempts each caller has: more than a test makes.
const budget = 100

func stacks() []*stack {
	routes := []string{"POST app.example/login", "PUT app.example/password"}
	return []*stack{
		{name: "nginx", about: "nginx, `location = /login` and `= /login/`", routes: routes, start: nginxServer("location")},
		{name: "nginx ~*", about: "nginx, `location ~* ^/login(/|$)`", routes: []string{"POST app.example/login/"}, ignoreCase: true, start: nginxServer("loose")},
		{name: "nginx files", about: "nginx, files: `try_files $uri $uri.html`, an `alias`, and `error_page 405 =200`, which lets them answer to POST",
			routes: []string{"POST app.example/login", "POST app.example/login.html", "POST app.example/pages/login.html"}, start: nginxServer("files")},
		{name: "Go", about: "Go, `http.ServeMux`, with the method taken from a form or a header as well", routes: routes, start: goServer},
		{name: "Node", about: "Node, `http` and `URL.pathname`, decoded", routes: routes, start: script("node", "app.js", "plain")},
		{name: "router", about: "Node, a router as Express has it: letter case and a slash at the end do not matter, methods are overridden by headers, query and body", routes: routes, ignoreCase: true, start: script("node", "app.js", "router")},
		{name: "http.server", about: "Python, `http.server`, paths as files have them", routes: routes, start: script("python3", "app.py", "files")},
		{name: "WSGI", about: "Python, `wsgiref`, methods overridden by headers, query and body", routes: routes, start: script("python3", "app.py", "wsgi")},
	}
}

// script runs one of testdata's applications.
func script(program, file, kind string) func(*testing.T, string) string {
	return func(t *testing.T, log string) string {
		addr := freePort(t)
		start(t, addr, need(t, program), filepath.Join("testdata", file), kind, port(addr), log)
		return addr
	}
}

// nginxServer runs nginx with all servers of testdata/nginx.conf and returns one.
func nginxServer(server string) func(*testing.T, string) string {
	return func(t *testing.T, log string) string {
		text, err := os.ReadFile("testdata/nginx.conf")
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(log)
		user := ""
		if os.Getuid() == 0 {
			user = "user root;" // else its workers cannot read the folder of the test
		}
		addrs := map[string]string{"location": freePort(t), "loose": freePort(t), "files": freePort(t)}
		conf := strings.NewReplacer("DIR/"+server+".log", log, "DIR", dir, "USER", user,
			"LOCATION", addrs["location"], "LOOSE", addrs["loose"], "FILES", addrs["files"]).Replace(string(text))
		file := filepath.Join(dir, "nginx.conf")
		if err := os.MkdirAll(filepath.Join(dir, "www"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{file: conf, filepath.Join(dir, "www", "login.html"): "answered\n"} {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		start(t, addrs[server], need(t, "nginx"), "-c", file, "-e", filepath.Join(dir, "error.log"))
		return addrs[server]
	}
}

// goServer is an application of net/http in this process.
func goServer(t *testing.T, name string) string {
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Served", name) }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST app.example/login", served("login"))
	mux.HandleFunc("PUT app.example/password", served("password"))
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(log, "%s %s\n", r.Method, r.RequestURI)
		if r.Method == "POST" { // what middleware for this does
			if m := r.PostFormValue("_method"); m != "" {
				r.Method = strings.ToUpper(m)
			} else if m := r.Header.Get("X-HTTP-Method-Override"); m != "" {
				r.Method = strings.ToUpper(m)
			}
		}
		mux.ServeHTTP(w, r)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// up starts the application, and doorward in front of it.
func (s *stack) up(t *testing.T) {
	t.Helper()
	s.t = t
	s.log = filepath.Join(t.TempDir(), "requests.log")
	s.relay = newRelay(t, s.start(t, s.log))

	var err error
	if s.guard, err = guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &lockout.Policy{
		FreeFailures: budget, Window: time.Hour, FirstLockout: time.Hour, MaxLockout: time.Hour,
	}}}}); err != nil {
		t.Fatal(err)
	}
	match, err := door.New(door.Config{Routes: s.routes, IgnoreCase: s.ignoreCase})
	if err != nil {
		t.Fatal(err)
	}
	never, err := outcome.New(outcome.Rules{Succeeded: outcome.Conditions{Status: outcome.Statuses{{First: 299, Last: 299}}}})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := clientip.New(clientip.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(proxy.Config{
		Upstream: &url.URL{Scheme: "http", Host: s.relay.addr},
		Doors:    []proxy.Door{{Name: "doors", Match: match, Guard: s.guard, Outcome: never}},
		Clients:  clients, ClientsConfigured: true,
		Timeouts: proxy.Timeouts{ReadHeader: time.Second, Body: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, &peers{l, s}) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// caller returns an address that has made no attempts. Connections come from it until the
// next call.
func (s *stack) caller() netip.Addr { return addressOf(s.next.Add(1)) }

func addressOf(n uint32) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2 + byte(n>>8), byte(n)}) }

// peers is a listener whose connections come from where a test says: all of this
// machine's own addresses are one caller.
type peers struct {
	net.Listener
	s *stack
}

type peerConn struct {
	net.Conn
	remote net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.remote }

func (p *peers) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return peerConn{conn, net.TCPAddrFromAddrPort(netip.AddrPortFrom(addressOf(p.s.next.Load()), 40000))}, nil
}

// charged returns how many attempts from was charged.
func (s *stack) charged(from netip.Addr) int {
	v := s.guard.Check(guard.Request{Addr: from, How: clientip.Peer}, time.Now())
	if !v.Allowed {
		s.t.Fatal("the budget of the test is too small")
	}
	return budget - 1 - v.Remaining
}

// dial connects to doorward.
func (s *stack) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// send writes bytes and returns all that comes back until doorward closes.
func (s *stack) send(text string) string {
	s.t.Helper()
	conn := s.dial()
	defer conn.Close()
	io.WriteString(conn, text) // it may answer before it has read all
	all, _ := io.ReadAll(conn) // and then reset what is left
	return string(all)
}

// A relay stands between doorward and an application and keeps what doorward sends.
type relay struct {
	addr string
	mu   sync.Mutex
	all  []*sent
}

// sent is what doorward has sent on one connection.
type sent struct {
	bytes []byte
	done  bool // there is no more of it
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { r.serve(in.(*net.TCPConn), to) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return r
}

func (r *relay) serve(in *net.TCPConn, to string) {
	defer in.Close()
	c, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	out := c.(*net.TCPConn)
	defer out.Close()
	this := &sent{}
	r.mu.Lock()
	r.all = append(r.all, this)
	r.mu.Unlock()
	back := make(chan struct{})
	go func() {
		defer close(back)
		io.Copy(in, out)
		in.Close()
	}()
	b := make([]byte, 32<<10)
	for {
		k, err := in.Read(b)
		r.mu.Lock()
		this.bytes = append(this.bytes, b[:k]...)
		this.done = err != nil
		r.mu.Unlock()
		if k > 0 {
			out.Write(b[:k]) // it may have closed, having answered
		}
		if err != nil {
			break
		}
	}
	out.CloseWrite()
	out.SetReadDeadline(time.Now().Add(20 * time.Second))
	<-back
}

// bytes returns how much has reached the application.
func (r *relay) bytes() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		n += len(c.bytes)
	}
	return n
}
