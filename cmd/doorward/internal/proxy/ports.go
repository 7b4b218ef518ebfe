package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/conns"
	"github.com/doorward/doorward/cmd/doorward/internal/logs"
)

// A Port is a listener and what happens to its connections.
type Port struct {
	net.Listener
	// Preamble is for listeners behind proxies that declare whose a connection is by the
	// PROXY protocol. Without it a preamble is a bad request.
	Preamble *conns.Preamble
	// TLS chooses a certificate. Nil is plain HTTP/1.
	TLS func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Handler answers instead of the proxy.
	Handler http.Handler
}

// streams is how many requests a connection of HTTP/2 may have open.
const streams = 100

type portKey struct{}

// listener returns what the server accepts connections of port from.
func (p *Proxy) listener(port Port) net.Listener {
	c := conns.Config{
		Count:    p.conns,
		Spared:   p.spared,
		Preamble: port.Preamble,
		TLS:      port.TLS != nil,
		Refused:  p.lines.crowd,
		Slow:     func(from netip.Addr) { p.lines.late("header", "", from) },
	}
	ln := conns.Listen(port.Listener, c)
	if port.TLS != nil {
		ln = tls.NewListener(ln, &tls.Config{
			GetCertificate: port.TLS,
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"h2", "http/1.1"},
		})
	}
	return portListener{ln, port.Handler}
}

// portListener knows what answers on it.
type portListener struct {
	net.Listener
	handler http.Handler
}

// base returns a context for all requests from ln that knows what answers them.
func base(ctx context.Context, ln net.Listener) context.Context {
	if l, ok := ln.(portListener); ok && l.handler != nil {
		return context.WithValue(ctx, portKey{}, l.handler)
	}
	return ctx
}

// handlerFor returns what answers r.
func (p *Proxy) handlerFor(r *http.Request) http.Handler {
	if h, ok := r.Context().Value(portKey{}).(http.Handler); ok {
		return h
	}
	return p
}

// spared reports whether many callers may come from an address: it is a proxy's.
func (p *Proxy) spared(from netip.Addr) bool {
	proxies := p.set.Load().config.Proxies
	return proxies != nil && proxies(from)
}

// watchState tells a connection whether a request of its is being answered.
func watchState(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*conns.Conn); ok {
		c.Active(state == http.StateActive || state == http.StateHijacked)
	}
}

// http2 bounds connections of HTTP/2 as those of HTTP/1 are. Of a header that comes
// slowly a ping tells: it cannot be answered in the middle of one. A quiet client answers.
func (p *Proxy) http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: streams,
		SendPingTimeout:      p.config.Timeouts.ReadHeader,
		PingTimeout:          p.config.Timeouts.ReadHeader,
		WriteByteTimeout:     p.config.Timeouts.Write,
	}
}

// crowd writes of a connection that was not let in.
func (l *lines) crowd(why conns.Why, from netip.Addr, err error) {
	l.unlet.Write(time.Now(), func() []slog.Attr {
		attrs := []slog.Attr{slog.String("why", string(why)), slog.String("client", doorward.KeyFromAddr(from).String())}
		if err != nil {
			attrs = append(attrs, slog.String("error", logs.Cut(err.Error(), 200)))
		}
		return attrs
	})
}

// late writes of a client that took too long.
func (l *lines) late(what, door string, from netip.Addr) {
	l.slow.Write(time.Now(), func() []slog.Attr {
		attrs := []slog.Attr{slog.String("what", what), slog.String("client", doorward.KeyFromAddr(from).String())}
		if door != "" {
			attrs = append(attrs, slog.String("door", door))
		}
		return attrs
	})
}
