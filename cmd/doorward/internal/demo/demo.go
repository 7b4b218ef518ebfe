// Package demo runs a small login application and Doorward in front of it, on this
// machine only, with what serve does by default, and says what to try. It is for
// looking: the application's password is on its page.
package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// What guards the application, as flags of serve.
const (
	route     = "POST /login"
	succeeded = "302,cookie:session"
)

// shutdown is how long requests in flight may take when the demo ends.
const shutdown = 2 * time.Second

// Run serves the demo at listen until ctx is done. It writes to out what to try, and
// then what happens.
func Run(ctx context.Context, out io.Writer, listen string) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer ln.Close()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	a := newApp()
	server := a.server()
	go server.Serve(inner)
	defer server.Close()

	events := &printer{out: out}
	p, rules, err := guarded(inner.Addr().String(), slog.New(events))
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	events.print(welcome(ln.Addr().String(), inner.Addr().String(), rules))
	err = p.Serve(ctx, ln)
	events.print(farewell(a.seen(), events.refusals()))
	return err
}

// guarded returns the proxy in front of the application at upstream, and how many rules
// it has.
func guarded(upstream string, log *slog.Logger) (*proxy.Proxy, int, error) {
	c, err := config.Flags{Upstream: "http://" + upstream, Doors: []string{route}, Succeeded: succeeded}.Config()
	if err != nil {
		return nil, 0, err
	}
	d := c.Doors[0]
	match, err := door.New(d.Door)
	if err != nil {
		return nil, 0, err
	}
	g, err := guard.New(d.Guard)
	if err != nil {
		return nil, 0, err
	}
	answers, err := outcome.New(d.Outcome)
	if err != nil {
		return nil, 0, err
	}
	p, err := proxy.New(proxy.Config{
		Upstreams: c.Upstreams,
		Doors:     []proxy.Door{{Name: d.Name, Match: match, Guard: g, Outcome: answers, MaxBody: d.MaxBody}},
		// All callers are on this machine and count as one, through whatever they come.
		ClientsConfigured: true,
		Log:               log,
		Timeouts: proxy.Timeouts{
			ReadHeader: c.Timeouts.ReadHeader,
			Body:       c.Timeouts.Body,
			Response:   c.Timeouts.Response,
			Idle:       c.Timeouts.Idle,
			Shutdown:   shutdown,
		},
		Limits: proxy.Limits{HeaderBytes: c.Limits.HeaderBytes, BodyBytes: c.Limits.BodyBytes},
	})
	return p, len(g.Rules()), err
}
