package upstream

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// A wire is a connection as the network has it. It tells whether anything was written.
type wire struct {
	net.Conn
	wrote  atomic.Bool
	closed atomic.Bool
	open   *atomic.Int64
}

// Write says so before it writes: whoever has seen the connection closed and nothing
// written then knows that nothing will be.
func (w *wire) Write(b []byte) (int, error) {
	if w.closed.Load() {
		return 0, net.ErrClosed
	}
	w.wrote.Store(true)
	return w.Conn.Write(b)
}

func (w *wire) Close() error {
	if !w.closed.Swap(true) {
		w.open.Add(-1)
	}
	return w.Conn.Close()
}

// A conn is one connection to the application. http.ClientConn sends what it is given
// once, unlike http.Transport.
type conn struct {
	*http.ClientConn
	backend *backend
	wire    *wire
	used    atomic.Bool

	listed bool // in backend.idle; with since under its mutex
	since  time.Time
}

type wireKey struct{}

// dialRaw is called by the transport, with the context that dial gave it.
func (b *backend) dialRaw(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, b.network, b.address)
	if err != nil {
		return nil, err
	}
	b.open.Add(1)
	w := &wire{Conn: raw, open: &b.open}
	*ctx.Value(wireKey{}).(**wire) = w
	return w, nil
}

func (b *backend) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := b.dialRaw(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(raw, b.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return secure, nil
}

// dial returns a fresh connection, reserved for one request. All its errors are
// DialErrors.
func (b *backend) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.dialLimit)
	defer cancel()
	var w *wire
	address := b.address
	if b.network == "unix" {
		address = "localhost:80" // what NewClientConn wants to see
	}
	cc, err := b.transport.NewClientConn(context.WithValue(ctx, wireKey{}, &w), b.scheme, address)
	if err == nil {
		if err = cc.Reserve(); err == nil {
			b.resting.Store(0)
			return &conn{ClientConn: cc, backend: b, wire: w}, nil
		}
		cc.Close()
	}
	if context.Cause(ctx) != context.Canceled { // the caller's own doing
		b.resting.Store(time.Now().Add(rest).UnixNano())
	}
	return nil, DialError{err}
}

// take returns a connection that is reserved for one request: a fresh one for a body
// that may stay unread.
func (b *backend) take(ctx context.Context, fresh bool) (*conn, error) {
	if fresh {
		if c := b.takeSpare(); c != nil {
			return c, nil
		}
		return b.dial(ctx)
	}
	for {
		b.mu.Lock()
		n := len(b.idle)
		if n == 0 {
			b.mu.Unlock()
			return b.dial(ctx)
		}
		i := n - 1
		if !b.keeps.Load() && !b.multiplex {
			i = 0
			if time.Since(b.idle[0].since) < proof {
				b.mu.Unlock()
				return b.dial(ctx)
			}
		}
		c := b.idle[i]
		b.idle, c.listed = slices.Delete(b.idle, i, i+1), false
		stale := time.Since(c.since) > b.reuse.Idle && !b.multiplex
		b.mu.Unlock()
		if stale {
			c.Close()
			continue
		}
		if c.Reserve() != nil {
			c.settle() // ended, or busy until a stream of it ends
			continue
		}
		if b.multiplex && c.Available() > 0 {
			b.put(c)
		}
		return c, nil
	}
}

// release ends the use of c for one request that got err.
func (c *conn) release(err error) {
	if err != nil && !c.backend.multiplex {
		c.Close()
		return
	}
	c.settle()
}

// settle keeps c if it can carry another request, and closes it if it never will.
func (c *conn) settle() {
	switch {
	case c.Err() == nil && c.Available() > 0:
		c.backend.put(c)
	case c.Err() != nil || c.InFlight() == 0 || !c.backend.multiplex:
		c.Close()
	}
}

func (b *backend) put(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.since = time.Now()
	if c.listed {
		return
	}
	if len(b.idle) >= maxIdle {
		go c.Close()
		return
	}
	c.listed = true
	b.idle = append(b.idle, c)
	b.sweepLater()
}

// sweepLater sees to it that what waits is closed in time. b.mu is held.
func (b *backend) sweepLater() {
	if !b.sweeping {
		b.sweeping = true
		time.AfterFunc(b.reuse.Idle, b.sweep)
	}
}

// sweep closes what has waited for too long or has ended.
func (b *backend) sweep() {
	var old []*conn
	now := time.Now()
	keep := func(list []*conn) []*conn {
		kept := list[:0]
		for _, c := range list {
			if c.Err() != nil || now.Sub(c.since) >= b.reuse.Idle && (c.InFlight() == 0 || !c.used.Load()) {
				c.listed = false
				old = append(old, c)
			} else {
				kept = append(kept, c)
			}
		}
		clear(list[len(kept):])
		return kept
	}
	b.mu.Lock()
	b.idle, b.spare = keep(b.idle), keep(b.spare)
	b.sweeping = false
	if len(b.idle)+len(b.spare) > 0 {
		b.sweepLater()
	}
	b.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

func (b *backend) closeIdle() {
	b.mu.Lock()
	old := append(b.idle, b.spare...)
	for _, c := range old {
		c.listed = false
	}
	b.idle, b.spare = nil, nil
	b.mu.Unlock()
	for _, c := range old {
		if c.InFlight() == 0 || !c.used.Load() {
			c.Close()
		}
	}
}

// takeSpare returns a connection that was dialled ahead, nil if there is none, and has
// others dialled.
func (b *backend) takeSpare() (taken *conn) {
	b.mu.Lock()
	for taken == nil && len(b.spare) > 0 {
		n := len(b.spare)
		taken, b.spare[n-1] = b.spare[n-1], nil
		b.spare = b.spare[:n-1]
		if taken.Err() != nil || time.Since(taken.since) > b.reuse.Idle {
			go taken.Close()
			taken = nil
		}
	}
	missing := b.reuse.Spare - len(b.spare) - b.dialling
	b.dialling += max(missing, 0)
	b.mu.Unlock()
	for range missing {
		go b.dialAhead()
	}
	return taken
}

func (b *backend) dialAhead() {
	c, err := b.dial(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialling--
	if err == nil {
		c.since = time.Now()
		b.spare = append(b.spare, c)
		b.sweepLater()
	}
}

// watch makes the end of an answer's body the end of the connection's use.
func (c *conn) watch(res *http.Response) {
	b := &body{ReadCloser: res.Body, conn: c}
	if w, ok := res.Body.(io.ReadWriteCloser); ok { // another protocol from now on
		res.Body = struct {
			*body
			io.Writer
		}{b, w}
		return
	}
	res.Body = b
}

type body struct {
	io.ReadCloser
	conn  *conn
	ended atomic.Bool
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	if !b.ended.Swap(true) {
		b.conn.settle()
		b.conn.backend.inFlight.Add(-1)
	}
	return err
}
