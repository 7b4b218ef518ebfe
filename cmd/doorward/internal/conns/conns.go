// Package conns lets connections in: at most so many in all, at most so many of one
// network, and under the address that a trusted proxy declares, where one must.
//
// It promises that a connection which Accept returns has been counted until it is
// closed, and says whose it is; that no caller, however slow, keeps another from
// being accepted; and that who is refused costs a bounded number of goroutines.
//
// It gives up on those that come while there are too many in all: whom to send away
// for them is not to be known.
package conns

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/count"
	"github.com/doorward/doorward/cmd/doorward/internal/preamble"
)

// Why says why a connection was not let in.
type Why string

const (
	TooMany   Why = "connections"             // in all
	OfNetwork Why = "connections_per_network" // of this one
	Untrusted Why = "proxy_protocol: peer is not trusted"
	Malformed Why = "proxy_protocol"
)

// Config says how connections are let in. Nothing of it may change.
type Config struct {
	Count *count.Count
	// Spared are connections that are not counted per network: those of proxies, which
	// bring many callers.
	Spared func(netip.Addr) bool
	// Preamble is for listeners where proxies declare whose a connection is: they must.
	// Nil is for all others.
	Preamble *Preamble
	// TLS says that a handshake comes before the first request. Refusals are then closed
	// connections, else answers of HTTP/1.
	TLS bool
	// Refused is told of everybody who is not let in. The zero address is unknown.
	Refused func(Why, netip.Addr, error)
	// Slow is told of everybody whose request's header was begun and not there in time.
	Slow func(netip.Addr)
}

// Preamble says who declares whose connections are, and how long that may take.
type Preamble struct {
	// Trusted reports whether the peer at an address may. Peers of unix sockets, which
	// have none, may: the mode of the socket says who they are.
	Trusted func(netip.Addr) bool
	Timeout time.Duration
}

// Listen lets connections of ln in as c says.
func Listen(ln net.Listener, c Config) net.Listener {
	l := &listener{Listener: ln, Config: c, arrived: make(chan arrival), lingering: make(chan struct{}, maxLingering)}
	l.open, l.close = context.WithCancel(context.Background())
	return l
}

type listener struct {
	net.Listener
	Config
	start     sync.Once
	arrived   chan arrival
	open      context.Context
	close     context.CancelFunc
	lingering chan struct{}
}

type arrival struct {
	conn net.Conn
	err  error
}

// Close ends Accept. Those whose preamble is not there yet are closed.
func (l *listener) Close() error {
	l.close()
	return l.Listener.Close()
}

func (l *listener) Accept() (net.Conn, error) {
	if l.Preamble == nil {
		for {
			conn, err := l.Listener.Accept()
			if err != nil {
				return nil, err
			}
			if c := l.enter(conn); c != nil && l.join(c, false) {
				return c, nil
			}
		}
	}
	l.start.Do(func() { go l.run() })
	select {
	case a := <-l.arrived:
		return a.conn, a.err
	case <-l.open.Done():
		return nil, net.ErrClosed
	}
}

// run accepts connections and has the preamble of each read in a goroutine of its own.
// Whoever waits longest for Accept, an error not excepted, gets the next turn: after
// an error there is no other until somebody has asked.
func (l *listener) run() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !l.hand(arrival{err: err}) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if from, ok := addrOf(conn); ok && !l.Preamble.Trusted(from) {
			l.Refused(Untrusted, from, nil)
			conn.Close()
			continue
		}
		if c := l.enter(conn); c != nil {
			go l.read(c)
		}
	}
}

func (l *listener) hand(a arrival) bool {
	select {
	case l.arrived <- a:
		return true
	case <-l.open.Done():
		if a.conn != nil {
			a.conn.Close()
		}
		return false
	}
}

func (l *listener) read(c *Conn) {
	stop := context.AfterFunc(l.open, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	declared, err := preamble.Read(c.Conn, l.Preamble.Timeout)
	if err != nil {
		from, _ := addrOf(c)
		if !errors.Is(err, io.EOF) && l.open.Err() == nil { // who only looks whether we are there says nothing
			l.Refused(Malformed, from, err)
		}
		c.Close()
		return
	}
	c.Conn = declared
	if l.join(c, declared.(*preamble.Conn).Own()) {
		l.hand(arrival{conn: c})
	}
}

// enter counts a connection, or closes it and returns nil.
func (l *listener) enter(conn net.Conn) *Conn {
	if l.Count.Enter() {
		c := &Conn{Conn: conn, leave: l.Count.Leave, slow: l.Slow}
		c.shakes.Store(l.TLS)
		return c
	}
	from, _ := addrOf(conn)
	l.Refused(TooMany, from, nil)
	l.refuse(conn)
	return nil
}

// join counts a connection to its network, or closes it and reports false. Loopback
// callers are not counted: they are a proxy that nobody has named, or on this machine,
// where there are other ways to fill it.
func (l *listener) join(c *Conn, own bool) bool {
	from, ok := addrOf(c)
	if own || !ok || from.IsLoopback() || l.Spared(from) {
		return true
	}
	network := doorward.KeyFromAddr(from)
	if l.Count.Join(network) {
		c.part = func() { l.Count.Part(network) }
		return true
	}
	l.Refused(OfNetwork, from, nil)
	l.Count.Leave()
	l.refuse(c.Conn)
	return false
}

func addrOf(conn net.Conn) (netip.Addr, bool) { return preamble.Addr(conn) }

const (
	refusal = "HTTP/1.1 503 Service Unavailable\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 71\r\n" +
		"Cache-Control: no-store\r\nRetry-After: 10\r\nConnection: close\r\n\r\n" +
		"Too many connections\n\nThere are too many connections. Try again later.\n"
	// A connection that is closed before its request has been read is reset, and the
	// answer with it. So some are read for a while; many are not worth it.
	maxLingering = 64
	lingerFor    = time.Second
	lingerBytes  = 64 << 10
)

// refuse closes conn, with an answer if that is cheap.
func (l *listener) refuse(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if l.TLS || !ok {
		conn.Close()
		return
	}
	select {
	case l.lingering <- struct{}{}:
	default:
		conn.Close()
		return
	}
	go func() {
		defer func() { conn.Close(); <-l.lingering }()
		conn.SetDeadline(time.Now().Add(lingerFor))
		if _, err := io.WriteString(conn, refusal); err != nil || half.CloseWrite() != nil {
			return
		}
		io.CopyN(io.Discard, conn, lingerBytes)
	}()
}

// A Conn is a connection that was let in.
type Conn struct {
	net.Conn
	leave, part func()
	once        sync.Once

	slow   func(netip.Addr)
	heard  atomic.Bool // since something was last written, or the handshake
	shakes atomic.Bool
	active atomic.Bool
}

// Active says whether a request is being answered. Reads that time out then are none of
// a header.
func (c *Conn) Active(active bool) { c.active.Store(active) }

func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	if err != nil && c.slow != nil && c.heard.Load() && !c.active.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		from, _ := addrOf(c)
		c.slow(from)
	}
	return n, err
}

// SetReadDeadline without one is what net/http does when a handshake has ended: what was
// read until then is no request.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if t.IsZero() && c.shakes.Swap(false) {
		c.heard.Store(false)
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *Conn) Write(b []byte) (int, error) {
	c.heard.Store(false)
	return c.Conn.Write(b)
}

// CloseWrite is for net/http, which says goodbye with it.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		if c.part != nil {
			c.part()
		}
		c.leave()
	})
	return err
}
