package conns

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/count"
)

const patience = 20 * time.Second

// A house is a listener and what it told.
type house struct {
	net.Listener
	t       *testing.T
	next    func() net.Addr
	mu      sync.Mutex
	refused map[Why]int
	slow    int
}

// named accepts connections that come from where next says.
type named struct {
	net.Listener
	h *house
}

type namedConn struct {
	*net.TCPConn
	remote net.Addr
}

func (c namedConn) RemoteAddr() net.Addr { return c.remote }

func (n named) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err != nil || n.h.next == nil {
		return conn, err
	}
	return namedConn{conn.(*net.TCPConn), n.h.next()}, nil
}

func open(t *testing.T, all, each int, change func(*Config)) *house {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, refused: map[Why]int{}}
	c := Config{
		Count: count.New(all, each), Spared: func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.9") },
		Refused: func(why Why, _ netip.Addr, _ error) { h.mu.Lock(); h.refused[why]++; h.mu.Unlock() },
		Slow:    func(netip.Addr) { h.mu.Lock(); h.slow++; h.mu.Unlock() },
	}
	if change != nil {
		change(&c)
	}
	h.Listener = Listen(named{ln, h}, c)
	t.Cleanup(func() { h.Close() })
	return h
}

func (h *house) dial(text string) net.Conn {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		h.t.Fatal(err)
	}
	return conn
}

// let says that a connection is let in, and returns its other end.
func (h *house) let(text string) (here, there net.Conn) {
	h.t.Helper()
	here = h.dial(text)
	there, err := h.Accept()
	if err != nil {
		h.t.Fatal(err)
	}
	return here, there
}

// accepting accepts in the background, so that refusals happen.
func (h *house) accepting() <-chan net.Conn {
	all := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := h.Accept()
			if err != nil {
				close(all)
				return
			}
			all <- c
		}
	}()
	return all
}

// wants503 reads a refusal, after a request that nobody reads.
func wants503(t *testing.T, conn net.Conn) {
	t.Helper()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !res.Close || err != nil || !strings.Contains(string(body), "connections") {
		t.Errorf("answer %v, %q, %v", res, body, err)
	}
}

func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if b, err := io.ReadAll(conn); len(b) > 0 || errors.Is(err, net.ErrClosed) {
		t.Errorf("%q, %v, want nothing", b, err)
	} else if timeout := (net.Error)(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("not closed")
	}
}

func (h *house) wantRefused(why Why, n int) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused[why] != n || len(h.refused) != 1 {
		h.t.Errorf("refused: %v, want %d times %s", h.refused, n, why)
	}
}

// TestAll: as many connections as there may be, and one more as soon as one is closed.
func TestAll(t *testing.T) {
	h := open(t, 3, 1, nil) // loopback has no limit of its own
	var there []net.Conn
	for range 3 {
		_, c := h.let("")
		there = append(there, c)
	}
	in := h.accepting()
	wants503(t, h.dial(""))
	h.wantRefused(TooMany, 1)
	there[0].Close()
	there[0].Close() // counts once
	h.dial("")
	<-in
	wants503(t, h.dial(""))
	h.wantRefused(TooMany, 2)
}

// TestClosed: before a handshake, refusals are closed connections.
func TestClosed(t *testing.T) {
	h := open(t, 1, 1, func(c *Config) { c.TLS = true })
	h.let("")
	h.accepting()
	wantClosed(t, h.dial(""))
	h.wantRefused(TooMany, 1)
}

// TestNetwork: a network has its share, whichever of its addresses it comes from; others
// and proxies are not touched by it.
func TestNetwork(t *testing.T) {
	h := open(t, 100, 2, nil)
	var next atomic.Value
	h.next = func() net.Addr { return &net.TCPAddr{IP: net.ParseIP(next.Load().(string)), Port: 1} }
	var first net.Conn
	for _, addr := range []string{"2001:db8:1:2::1", "2001:db8:1:2:ffff::1", "2001:db8:1:3::1", "192.0.2.1", "192.0.2.2", "10.0.0.9", "10.0.0.9", "10.0.0.9", "127.0.0.1", "127.0.0.1", "::1", "::1", "::1"} {
		next.Store(addr)
		_, c := h.let("")
		if first == nil {
			first = c
		}
	}
	in := h.accepting()
	next.Store("2001:db8:1:2::2")
	wants503(t, h.dial(""))
	h.wantRefused(OfNetwork, 1)
	first.Close()
	h.dial("")
	<-in
	wants503(t, h.dial(""))
	h.wantRefused(OfNetwork, 2)
}

// TestCrowd: a thousand that are refused at once leave nothing behind, and those that
// are let in are served.
func TestCrowd(t *testing.T) {
	h := open(t, 2, 2, nil)
	a, _ := h.let("")
	h.let("")
	in := h.accepting()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 125 {
				conn, err := net.Dial("tcp", h.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				conn.SetDeadline(time.Now().Add(patience))
				io.Copy(io.Discard, conn) // an answer, or a closed connection
				conn.Close()
			}
		})
	}
	wg.Wait()
	h.wantRefused(TooMany, 1000)
	if len(in) != 0 {
		t.Errorf("%d let in", len(in))
	}
	io.WriteString(a, "x")
}

func preambles(networks ...string) func(*Config) {
	return func(c *Config) {
		c.Preamble = &Preamble{Timeout: patience, Trusted: func(a netip.Addr) bool {
			for _, n := range networks {
				if netip.MustParsePrefix(n).Contains(a) {
					return true
				}
			}
			return false
		}}
	}
}

// TestPreamble: a trusted proxy's connections are counted as whose they are, and its own
// as nobody's.
func TestPreamble(t *testing.T) {
	h := open(t, 100, 2, preambles("127.0.0.0/8"))
	const a, b = "PROXY TCP4 192.0.2.1 203.0.113.7 1 80\r\n", "PROXY TCP4 192.0.2.2 203.0.113.7 1 80\r\n"
	for _, row := range []struct{ text, want string }{
		{a, "192.0.2.1:1"}, {a, "192.0.2.1:1"}, {b, "192.0.2.2:1"},
		{"PROXY TCP4 10.0.0.9 203.0.113.7 1 80\r\n", "10.0.0.9:1"},
		{"PROXY TCP4 10.0.0.9 203.0.113.7 1 80\r\n", "10.0.0.9:1"},
		{"PROXY TCP4 10.0.0.9 203.0.113.7 1 80\r\n", "10.0.0.9:1"},
	} {
		_, c := h.let(row.text + "hello")
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); string(got) != "hello" || c.RemoteAddr().String() != row.want {
			t.Errorf("%q from %v, %v, want %s", got, c.RemoteAddr(), err, row.want)
		}
	}
	for range 3 {
		if here, c := h.let("PROXY UNKNOWN\r\n"); c.RemoteAddr().String() != here.LocalAddr().String() {
			t.Errorf("a proxy's own is from %v", c.RemoteAddr())
		}
	}
	h.accepting()
	wants503(t, h.dial(a))
	h.wantRefused(OfNetwork, 1)
}

// TestOwn: a proxy's own connections are not counted to its network, wherever it is.
func TestOwn(t *testing.T) {
	h := open(t, 100, 1, preambles("192.0.2.0/24"))
	h.next = func() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
	for range 3 {
		if _, c := h.let("PROXY UNKNOWN\r\n"); c.RemoteAddr().String() != "192.0.2.1:1" {
			t.Errorf("from %v", c.RemoteAddr())
		}
	}
}

// TestUntrusted: who may not declare anything is closed, preamble or not.
func TestUntrusted(t *testing.T) {
	h := open(t, 100, 2, preambles("10.0.0.0/8"))
	h.accepting()
	wantClosed(t, h.dial("PROXY TCP4 192.0.2.1 203.0.113.7 1 80\r\n"))
	wantClosed(t, h.dial(""))
	h.wantRefused(Untrusted, 2)
}

// TestMalformed: what is no preamble ends the connection; who is silent keeps nobody
// waiting.
func TestMalformed(t *testing.T) {
	h := open(t, 3, 2, preambles("127.0.0.0/8"))
	silent := h.dial("")
	in := h.accepting()
	wantClosed(t, h.dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	h.wantRefused(Malformed, 1)
	h.dial("PROXY TCP4 192.0.2.1 203.0.113.7 1 80\r\n")
	select {
	case <-in:
	case <-time.After(patience):
		t.Fatal("a silent connection keeps others out")
	}
	h.Close()
	wantClosed(t, silent)
	if _, ok := <-in; ok {
		t.Error("Accept goes on after Close")
	}
	h.wantRefused(Malformed, 1) // being stopped is nobody's fault
}

// TestSlow: what is told of reads that time out.
func TestSlow(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(c *Conn)
		text string
		want int
	}{
		{"silent", func(*Conn) {}, "", 0},
		{"begun", func(*Conn) {}, "GET", 1},
		{"answered", func(c *Conn) { c.Write([]byte("x")) }, "GET", 0},
		{"handshake", func(c *Conn) { c.shakes.Store(true); c.SetReadDeadline(time.Time{}) }, "GET", 0},
		{"no handshake", func(c *Conn) { c.SetReadDeadline(time.Time{}) }, "GET", 1},
		{"being answered", func(c *Conn) { c.Active(true) }, "GET", 0},
	} {
		h := open(t, 1, 1, nil)
		_, there := h.let(row.text)
		c := there.(*Conn)
		if row.text != "" {
			io.ReadFull(c, make([]byte, len(row.text)))
		}
		row.do(c)
		c.SetReadDeadline(time.Now())
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("no error")
		}
		if h.slow != row.want {
			t.Errorf("%s: told %d times, want %d", row.name, h.slow, row.want)
		}
	}
}
