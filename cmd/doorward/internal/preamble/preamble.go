// Package preamble reads whose a connection is where a proxy says so first: the PROXY
// protocol, versions 1 and 2.
//
// It promises that a connection has the address that was declared or, for a proxy's
// own (UNKNOWN, LOCAL), the real one; that what is not exactly a preamble is an error,
// since what follows it could be anybody's; and that no more is read than the
// preamble. It does not decide who may declare: ask it only of trusted peers.
package preamble

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"
)

// Read reads the preamble of conn, within timeout. The connection that it returns has
// the declared ends; what follows the preamble can be read from it. After an error conn
// is of no use.
func Read(conn net.Conn, timeout time.Duration) (net.Conn, error) {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(conn, 256) // 107 is the longest line of version 1
	if _, err := r.Peek(1); err != nil {
		return nil, err // io.EOF from who only looked whether somebody is here
	}
	h, err := proxyproto.Read(r)
	if err != nil {
		return nil, err
	}
	conn.SetReadDeadline(time.Time{}) // if that fails, so do reads
	c := &Conn{Conn: conn, rest: r, local: conn.LocalAddr(), remote: conn.RemoteAddr(), own: true}
	if r.Buffered() == 0 {
		c.rest = nil
	}
	if h.Command.IsLocal() {
		return c, nil
	}
	c.own = false
	switch h.TransportProtocol {
	case proxyproto.TCPv4, proxyproto.TCPv6:
		source, ok1 := h.SourceAddr.(*net.TCPAddr)
		dest, ok2 := h.DestinationAddr.(*net.TCPAddr)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("no addresses of family %#x", byte(h.TransportProtocol))
		}
		c.local, c.remote = dest, source
		// Only a machine itself knows who comes from its loopback addresses.
		if from, ok := addrOf(conn.RemoteAddr()); ok && !from.IsLoopback() && source.IP.IsLoopback() {
			c.remote = nowhere{}
		}
	case proxyproto.UnixStream:
		c.local, c.remote = nowhere{}, nowhere{}
	default:
		return nil, fmt.Errorf("family %#x is none of a stream", byte(h.TransportProtocol))
	}
	return c, nil
}

// Addr returns the address of a connection's other end, and false if it has none.
func Addr(conn net.Conn) (netip.Addr, bool) { return addrOf(conn.RemoteAddr()) }

func addrOf(a net.Addr) (netip.Addr, bool) {
	if a == nil || a.Network() == "unix" {
		return netip.Addr{}, false // whose name may read like an address
	}
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return ap.Addr().Unmap().WithZone(""), ap.IsValid()
	}
	ap, err := netip.ParseAddrPort(a.String())
	return ap.Addr().Unmap().WithZone(""), err == nil
}

// A Conn is a connection after its preamble.
type Conn struct {
	net.Conn
	rest          *bufio.Reader // what came together with the preamble; nil if nothing is left
	local, remote net.Addr
	own           bool
}

// Own reports whether the connection is the proxy's own, such as a health check.
func (c *Conn) Own() bool { return c.own }

func (c *Conn) LocalAddr() net.Addr  { return c.local }
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Read is called by one goroutine at a time, as net/http does.
func (c *Conn) Read(b []byte) (int, error) {
	if c.rest == nil {
		return c.Conn.Read(b)
	}
	n, err := c.rest.Read(b[:min(len(b), c.rest.Buffered())])
	if c.rest.Buffered() == 0 {
		c.rest = nil
	}
	return n, err
}

// CloseWrite ends what is sent, where the connection can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// nowhere is the end of a connection that has no address on a network.
type nowhere struct{}

func (nowhere) Network() string { return "tcp" } // else it would be taken for a trusted unix peer
func (nowhere) String() string  { return "unknown" }
