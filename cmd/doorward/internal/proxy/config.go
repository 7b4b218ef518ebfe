package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/cmd/doorward/internal/upstream"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// Config says what a proxy stands in front of.
type Config struct {
	// Upstream is the application, as in upstream.Config: a scheme and a host. It has no
	// path: targets are passed on as they are.
	Upstream *url.URL
	// Upstreams are several copies of it, instead.
	Upstreams []*url.URL
	Reuse     upstream.Reuse
	Health    *upstream.Health
	// Doors are asked in order; the first that covers a request guards it.
	Doors []Door
	// Clients says who a request is from. Nil is the peer of the connection.
	Clients *clientip.Resolver
	// ClientsConfigured says that somebody decided how callers are named, be it by
	// their peer address. Until then, doors are closed to loopback callers that were
	// forwarded: they are a proxy, and all its callers would be one.
	ClientsConfigured bool
	// Proxies reports whether many callers may come from an address. Nil: from none.
	Proxies func(netip.Addr) bool
	// Log takes one line per refusal and per fault, within bounds. Nil takes none.
	Log *slog.Logger
	// Tell is told of every refusal and every outcome, before the answer is sent and from
	// the goroutine that serves the request: it must not block. Nil is not told.
	Tell func(*Event)
	// Suspect is told, once in a while, that many callers may be taken for one. Nil is not.
	Suspect  func(Suspicion)
	Timeouts Timeouts
	Limits   Limits
}

// A Door is a set of routes and what guards it.
type Door struct {
	Name  string
	Match *door.Door
	// Guard decides. Doors with the same guard share one budget.
	Guard   *guard.Guard
	Outcome *outcome.Classifier
	// Subject and Challenge name what an attempt guesses at. Nil: nothing. Requests
	// that they cannot read or that name nothing are answered as malformed and not
	// passed on.
	Subject, Challenge *subject.Extractor
	// PathNames says that paths name one of them: the log then has no paths of requests
	// at this door, nor of those outside all doors.
	PathNames bool
	// OptionalSubject passes on requests that name no subject.
	OptionalSubject bool
	// Devices knows the devices from which an attempt has succeeded before, by a cookie
	// called DeviceCookie. Nil: none.
	Devices      *device.Signer
	DeviceCookie string
	// MaxBody is how long a request body may be; 0 is Limits.BodyBytes.
	MaxBody int64
	// MaxInFlight is how many requests may be at the door at one time; 0 is
	// Limits.InFlight. One network has a quarter of them.
	MaxInFlight int
}

// Timeouts bound what a connection may wait for. 0 takes the default. Only
// ReadHeader, Idle and Shutdown reach beyond doors: there, bodies and answers may take
// for ever.
type Timeouts struct {
	ReadHeader time.Duration // for a request's header: 10 s
	Body       time.Duration // for a request's body, at doors: 10 s
	// Response is for the final status of an answer, at doors, connecting included.
	// It must be shorter than the lease of every guard, since what comes later is not
	// heard: by default it is 50 s, or less if a lease is short.
	Response time.Duration
	Write    time.Duration // for a client to take a piece of an answer, at doors: 30 s
	Idle     time.Duration // between requests on a connection: 1 min
	Shutdown time.Duration // for requests in flight when the proxy stops: 30 s
}

// Limits bound sizes. 0 takes the default.
type Limits struct {
	HeaderBytes int   // of a request's line and header: 32 KiB
	BodyBytes   int64 // of a request's body, at doors: 64 KiB
	Connections int   // of clients, at one time: 10,000
	// PerNetwork is how many connections one network may have: 256. Those of Proxies and
	// of loopback addresses are not counted.
	PerNetwork int
	InFlight   int // requests at a door at one time: 1,000
}

const (
	defaultResponse = 50 * time.Second
	// dialTimeout is for connecting. A dead upstream is found before Response has
	// passed, so that it is known that nothing was sent.
	dialTimeout = 10 * time.Second
)

// complete returns c with its defaults filled in, or an error that names the field.
func (c Config) complete() (Config, error) {
	switch {
	case c.Upstream != nil && len(c.Upstreams) > 0:
		return c, errors.New("proxy: Upstream and Upstreams must not both be set")
	case c.Upstream != nil:
		c.Upstreams = []*url.URL{c.Upstream}
	case len(c.Upstreams) == 0:
		return c, errors.New("proxy: Upstream must be set")
	}
	for i, u := range c.Upstreams {
		field := "Upstream"
		if c.Upstream == nil {
			field = fmt.Sprintf("Upstreams[%d]", i)
		}
		if err := upstream.Check(u); err != nil {
			return c, fmt.Errorf("proxy: %s %w, got %q", field, err, u.Redacted())
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clients == nil {
		r, err := clientip.New(clientip.Config{})
		if err != nil {
			return c, err
		}
		c.Clients = r
	}
	if err := c.checkDoors(); err != nil {
		return c, err
	}
	if c.Timeouts.Response == 0 {
		c.Timeouts.Response = defaultResponse
		for _, d := range c.Doors {
			lease := d.Guard.Lease()
			c.Timeouts.Response = min(c.Timeouts.Response, max(lease-5*time.Second, lease/2))
		}
	}
	for _, t := range []struct {
		field string
		value *time.Duration
		zero  time.Duration
	}{
		{"ReadHeader", &c.Timeouts.ReadHeader, 10 * time.Second},
		{"Body", &c.Timeouts.Body, 10 * time.Second},
		{"Response", &c.Timeouts.Response, 0},
		{"Write", &c.Timeouts.Write, 30 * time.Second},
		{"Idle", &c.Timeouts.Idle, time.Minute},
		{"Shutdown", &c.Timeouts.Shutdown, 30 * time.Second},
	} {
		switch {
		case *t.value < 0:
			return c, fmt.Errorf("proxy: Timeouts.%s must be positive, got %v", t.field, *t.value)
		case *t.value == 0:
			*t.value = t.zero
		}
	}
	for _, d := range c.Doors {
		if lease := d.Guard.Lease(); c.Timeouts.Response >= lease {
			return c, fmt.Errorf("proxy: Timeouts.Response must be shorter than the lease of door %q, %v, got %v", d.Name, lease, c.Timeouts.Response)
		}
	}
	switch l := &c.Limits; {
	case l.HeaderBytes < 0:
		return c, fmt.Errorf("proxy: Limits.HeaderBytes must be positive, got %d", l.HeaderBytes)
	case l.BodyBytes < 0:
		return c, fmt.Errorf("proxy: Limits.BodyBytes must be positive, got %d", l.BodyBytes)
	}
	for _, n := range []struct {
		field string
		value *int
		zero  int
	}{
		{"Connections", &c.Limits.Connections, 10_000},
		{"PerNetwork", &c.Limits.PerNetwork, 256},
		{"InFlight", &c.Limits.InFlight, 1_000},
	} {
		switch {
		case *n.value < 0:
			return c, fmt.Errorf("proxy: Limits.%s must be positive, got %d", n.field, *n.value)
		case *n.value == 0:
			*n.value = n.zero
		}
	}
	if c.Limits.HeaderBytes == 0 {
		c.Limits.HeaderBytes = 32 << 10
	}
	if c.Limits.BodyBytes == 0 {
		c.Limits.BodyBytes = 64 << 10
	}
	return c, nil
}

func (c Config) checkDoors() error {
	names := map[string]bool{}
	for i, d := range c.Doors {
		switch {
		case d.Name == "":
			return fmt.Errorf("proxy: Doors[%d].Name must be set", i)
		case names[d.Name]:
			return fmt.Errorf("proxy: Doors[%d].Name must be unique, got %q", i, d.Name)
		case d.Match == nil:
			return fmt.Errorf("proxy: Doors[%d].Match must be set", i)
		case d.Guard == nil:
			return fmt.Errorf("proxy: Doors[%d].Guard must be set", i)
		case d.Outcome == nil:
			return fmt.Errorf("proxy: Doors[%d].Outcome must be set", i)
		case d.MaxBody < 0:
			return fmt.Errorf("proxy: Doors[%d].MaxBody must be positive, got %d", i, d.MaxBody)
		case d.MaxInFlight < 0:
			return fmt.Errorf("proxy: Doors[%d].MaxInFlight must be positive, got %d", i, d.MaxInFlight)
		}
		names[d.Name] = true
		for _, o := range c.Doors[:i] {
			if o.Guard != d.Guard && door.Overlaps(o.Match, d.Match) {
				return fmt.Errorf("proxy: doors %q and %q must not overlap with guards of their own: one secret has one budget", o.Name, d.Name)
			}
		}
	}
	return nil
}
