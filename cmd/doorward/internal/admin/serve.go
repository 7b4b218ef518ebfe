package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/conns"
	"github.com/doorward/doorward/cmd/doorward/internal/count"
	"github.com/doorward/doorward/cmd/doorward/internal/logs"
)

// A Port is a listener, and what TLS it speaks.
type Port struct {
	net.Listener
	// Certificate chooses what is shown. Nil is plain HTTP.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCAs sign certificates of clients that may do everything. Nil: none do.
	ClientCAs *x509.CertPool
}

// Bounds of a listener.
const (
	connections = 128
	perNetwork  = 32
	headerBytes = 16 << 10
	headerTime  = 5 * time.Second
	idleTime    = time.Minute
	streams     = 32 // of a connection of HTTP/2
	lastTime    = 5 * time.Second
)

// Serve answers requests from ports until ctx is done, and then lets those that run end
// within seconds; streams end at once. It closes the ports.
func (s *Server) Serve(ctx context.Context, ports ...Port) error {
	requests, cut := context.WithCancel(context.Background())
	defer cut()
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          log.New(lines{s.server}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return requests },
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: streams, SendPingTimeout: headerTime, PingTimeout: headerTime},
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(true)
	h.RegisterOnShutdown(cut)
	var running sync.WaitGroup
	failed := make(chan error, len(ports))
	for _, p := range ports {
		running.Go(func() {
			if err := h.Serve(s.listener(p)); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	_ = h.Shutdown(last) // what is left is closed
	h.Close()
	running.Wait()
	return err
}

func (s *Server) listener(p Port) net.Listener {
	ln := conns.Listen(p.Listener, conns.Config{
		Count:  count.New(connections, perNetwork),
		Spared: func(netip.Addr) bool { return false },
		TLS:    p.Certificate != nil,
		Slow:   func(netip.Addr) {},
		Refused: func(why conns.Why, from netip.Addr, _ error) {
			s.denied.Write(time.Now(), func() []slog.Attr {
				return []slog.Attr{slog.String("why", string(why)), slog.String("client", doorward.KeyFromAddr(from).String())}
			})
		},
	})
	if p.Certificate == nil {
		return ln
	}
	c := &tls.Config{GetCertificate: p.Certificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if p.ClientCAs != nil {
		c.ClientCAs, c.ClientAuth = p.ClientCAs, tls.VerifyClientCertIfGiven
	}
	return tls.NewListener(ln, c)
}

// lines writes what net/http has to say.
type lines struct{ kind *logs.Kind }

func (l lines) Write(b []byte) (int, error) {
	l.kind.Write(time.Now(), func() []slog.Attr {
		return []slog.Attr{slog.String("line", logs.Cut(strings.TrimSpace(string(b)), 300))}
	})
	return len(b), nil
}
