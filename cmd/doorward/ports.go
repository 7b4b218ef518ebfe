package main

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/certs"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/conns"
	"github.com/doorward/doorward/cmd/doorward/internal/listen"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
)

// certsEvery is how often certificates are read again.
const certsEvery = 5 * time.Second

// open opens all listeners, or none. Certificates are watched until ctx is done.
func open(ctx context.Context, c config.Config, p *proxy.Proxy, log *slog.Logger) (ports []proxy.Port, err error) {
	defer func() {
		if err != nil {
			for _, port := range ports {
				port.Close()
			}
		}
	}()
	for _, l := range c.Listen {
		var port proxy.Port
		if len(l.TLS) > 0 {
			store, err := certs.Load(l.TLS)
			if err != nil {
				return ports, err
			}
			go store.Watch(ctx.Done(), certsEvery, func(c certs.Change) { tellChange(log, c) })
			port.TLS = store.Get
		}
		if l.Redirect {
			port.Handler = p.Redirect(l.RedirectTo)
		}
		if l.ProxyProtocol {
			port.Preamble = &conns.Preamble{
				Trusted: func(from netip.Addr) bool { return within(l.Trusted, from) },
				Timeout: c.Timeouts.ReadHeader,
			}
		}
		if l.Network == "unix" {
			port.Listener, err = listen.Unix(l.Address, l.Mode)
		} else {
			port.Listener, err = net.Listen(l.Network, l.Address)
		}
		if err != nil {
			return ports, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// within reports whether one of networks has addr.
func within(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

func tellChange(log *slog.Logger, c certs.Change) {
	if c.Err != nil {
		log.Error("certificate not read again: the old one is served", "cert_file", c.Files.Cert, "error", c.Err)
		return
	}
	log.Info("certificate read again", "cert_file", c.Files.Cert, "names", strings.Join(c.Leaf.DNSNames, ", "), "until", c.Leaf.NotAfter)
}

// addresses lists where is listened, as a file would have it.
func addresses[P interface{ Addr() net.Addr }](ports []P) string {
	var all []string
	for _, p := range ports {
		a := p.Addr().String()
		if p.Addr().Network() == "unix" {
			a = "unix:" + a
		}
		all = append(all, a)
	}
	return strings.Join(all, ",")
}

// boundByFiles makes connections of clients no more than half of the files that may be
// open: the other half is for those to the application, and all else.
func boundByFiles(c *config.Config) {
	if files, err := listen.Files(); err == nil {
		c.Limits.Connections = max(1, min(c.Limits.Connections, files/2))
	}
}
