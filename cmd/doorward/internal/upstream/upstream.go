// Package upstream sends requests to the application: to one of several copies of it,
// over connections that it keeps itself.
//
// It promises that a request is sent once. What is tried again is a connection, on the
// next copy, and only as long as no byte of the request was written to the one before.
// It promises that the body of a request is never taken for a request: an application
// that answers without reading a body would read its rest as the next request of a kept
// connection. So a connection that has carried a body is closed, unless the operator says
// that the application reads bodies to their end, or the connection speaks HTTP/2, which
// tells the two apart.
//
// It gives up on what http.Transport does for requests that may be repeated: one that
// meets a connection that the application is just closing fails. Connections are kept
// for a short time only, so that this is rare.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Config says where the copies of the application are and how they are spoken to.
type Config struct {
	// URLs are http, https or h2c with a host, or unix with a path. h2c is HTTP/2
	// without TLS, known in advance.
	URLs []*url.URL
	// DialTimeout bounds a connection attempt, a TLS handshake included.
	DialTimeout time.Duration
	// MaxHeaderBytes bounds the header of an answer.
	MaxHeaderBytes int64
	// Reuse says which connections are used again.
	Reuse Reuse
	// Health checks the copies. Nil: nothing does.
	Health *Health
	// Changed is told when a copy is found healthy or not. It may be nil.
	Changed func(u *url.URL, healthy bool, why string)
}

// Reuse says which connections to the application are used again.
type Reuse struct {
	// Idle is how long a connection waits for its next request: 1 s. It should be
	// shorter than the application waits, which is 2 s where it is shortest.
	Idle time.Duration
	// ReadsBodies says that the application reads every body to its end, or closes
	// the connection, whatever it answers. If that is not true, whoever may send
	// bodies can send requests that no door sees.
	ReadsBodies bool
	// Spare is how many connections are dialled ahead for requests with bodies, each of
	// which takes one for itself. It is for applications that serve many connections
	// at once: others would wait on one that is silent.
	Spare int
}

const (
	// DefaultIdle is below the shortest wait of common application servers, 2 s.
	DefaultIdle = time.Second
	// maxIdle bounds the connections that wait at one copy.
	maxIdle = 256
	// MaxSpare bounds those dialled ahead.
	MaxSpare = 256
	// proof is how long a connection waits before it is used again as long as nobody
	// knows that the application keeps any: some close them without having said so.
	proof = 20 * time.Millisecond
	// rest is how long a copy that could not be connected to comes last.
	rest = time.Second
	// continueAfter is how long a body waits for an application that was asked for
	// 100 Continue.
	continueAfter = time.Second
)

// Check returns an error that says what is wrong with the URL of a copy.
func Check(u *url.URL) error {
	switch u.Scheme {
	case "http", "https", "h2c":
		if u.Host == "" || u.Path != "" && u.Path != "/" {
			return errors.New("must have a scheme and a host only")
		}
	case "unix":
		if u.Host != "" || len(u.Path) < 2 || u.Path[0] != '/' {
			return errors.New("must have the path of a socket, as in unix:/run/app.sock")
		}
	default:
		return errors.New("must be http, https, h2c or unix")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil || u.Opaque != "" {
		return errors.New("must have no user, query or fragment")
	}
	return nil
}

// A Pool is a http.RoundTripper over all copies. It changes the URL and Close of the
// requests that it is given. It is safe for concurrent use.
type Pool struct {
	config   Config
	backends []*backend
	turn     atomic.Uint32
}

// New returns a pool as c describes.
func New(c Config) (*Pool, error) {
	if len(c.URLs) == 0 {
		return nil, errors.New("upstream: URLs must not be empty")
	}
	if c.Reuse.Idle == 0 {
		c.Reuse.Idle = DefaultIdle
	}
	switch {
	case c.Reuse.Idle < 0:
		return nil, fmt.Errorf("upstream: Reuse.Idle must be positive, got %v", c.Reuse.Idle)
	case c.Reuse.Spare < 0 || c.Reuse.Spare > MaxSpare:
		return nil, fmt.Errorf("upstream: Reuse.Spare must be 0 to %d, got %d", MaxSpare, c.Reuse.Spare)
	case c.DialTimeout <= 0:
		return nil, fmt.Errorf("upstream: DialTimeout must be positive, got %v", c.DialTimeout)
	}
	if c.Health != nil {
		h, err := c.Health.complete()
		if err != nil {
			return nil, err
		}
		c.Health = &h
	}
	p := &Pool{config: c}
	for i, u := range c.URLs {
		if err := Check(u); err != nil {
			return nil, fmt.Errorf("upstream: URLs[%d] %w, got %q", i, err, u.Redacted())
		}
		p.backends = append(p.backends, newBackend(c, u))
	}
	return p, nil
}

// A DialError says that there was no connection to the application, so that nothing of
// a request can have reached it.
type DialError struct{ error }

func (e DialError) Unwrap() error { return e.error }

// RoundTrip sends r once, to the copy with the fewest requests in flight of those that
// are healthy. If none is, it tries them all the same: a check may be wrong, and a
// failed connection says for certain that nothing was sent.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	var tried []*backend
	for {
		b := p.choose(tried)
		res, err := b.roundTrip(r)
		var unreached DialError
		if err == nil || !errors.As(err, &unreached) {
			return res, err
		}
		if tried = append(tried, b); len(tried) == len(p.backends) || r.Context().Err() != nil {
			closeBody(r)
			return nil, err
		}
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// choose returns the best copy that was not tried. Of equals each has its turn.
func (p *Pool) choose(tried []*backend) *backend {
	n := len(p.backends)
	if n == 1 {
		return p.backends[0]
	}
	var best *backend
	var least uint64
	start, now := int(p.turn.Add(1)), time.Now()
	for i := range n {
		b := p.backends[(start+i)%n]
		if cost := b.cost(now); !contains(tried, b) && (best == nil || cost < least) {
			best, least = b, cost
		}
	}
	return best
}

func contains(list []*backend, b *backend) bool {
	for _, other := range list {
		if other == b {
			return true
		}
	}
	return false
}

// Try connects to each copy once, one after the other, and calls f with what became of it.
func (p *Pool) Try(ctx context.Context, f func(u *url.URL, err error)) {
	for i, b := range p.backends {
		c, err := b.dial(ctx)
		if err == nil {
			c.Close()
		}
		f(p.config.URLs[i], err)
	}
}

// CloseIdle closes all connections that wait for a request.
func (p *Pool) CloseIdle() {
	for _, b := range p.backends {
		b.closeIdle()
	}
}

// Each calls f with every copy and whether it was healthy when it was last checked: each is
// as long as none is.
func (p *Pool) Each(f func(u *url.URL, healthy bool)) {
	for _, b := range p.backends {
		f(b.url, !b.unhealthy.Load())
	}
}

// Connections returns how many connections are open, for tests and metrics.
func (p *Pool) Connections() (n int64) {
	for _, b := range p.backends {
		n += b.open.Load()
	}
	return n
}

// A backend is one copy of the application and the connections to it.
type backend struct {
	url       *url.URL
	host      string // of requests that name none
	scheme    string
	address   string // to dial
	network   string
	reuse     Reuse
	dialLimit time.Duration
	transport *http.Transport // makes connections, and keeps none
	tls       *tls.Config
	multiplex bool // bodies are framed: HTTP/2

	inFlight  atomic.Int64
	open      atomic.Int64
	keeps     atomic.Bool // connections, as far as is known
	unhealthy atomic.Bool
	resting   atomic.Int64 // until when, in Unix nanoseconds

	mu       sync.Mutex
	idle     []*conn // longest waiting first
	spare    []*conn // fresh ones
	dialling int     // spare ones on their way
	sweeping bool
}

func newBackend(c Config, u *url.URL) *backend {
	b := &backend{url: u, host: u.Host, scheme: "http", network: "tcp", reuse: c.Reuse, dialLimit: c.DialTimeout}
	port := u.Port()
	switch u.Scheme {
	case "https":
		b.scheme = "https"
		b.tls = &tls.Config{ServerName: u.Hostname()}
		if port == "" {
			port = "443"
		}
	case "h2c":
		b.multiplex = true
	case "unix":
		b.network, b.host, b.address = "unix", "localhost", u.Path
	}
	if port == "" {
		port = "80"
	}
	if b.network == "tcp" {
		b.address = net.JoinHostPort(u.Hostname(), port)
	}
	b.transport = &http.Transport{
		DialContext:            b.dialRaw,
		DialTLSContext:         b.dialTLS,
		DisableCompression:     true, // bodies are the application's
		MaxResponseHeaderBytes: c.MaxHeaderBytes,
		ExpectContinueTimeout:  continueAfter,
		Protocols:              new(http.Protocols),
	}
	b.transport.Protocols.SetHTTP1(!b.multiplex)
	b.transport.Protocols.SetUnencryptedHTTP2(b.multiplex)
	return b
}

// cost orders copies: by requests in flight, but those that could not be connected to
// just now come after the others, and unhealthy ones last.
func (b *backend) cost(now time.Time) uint64 {
	cost := uint64(b.inFlight.Load())
	if now.UnixNano() < b.resting.Load() {
		cost += 1 << 61
	}
	if b.unhealthy.Load() {
		cost += 1 << 62
	}
	return cost
}

// roundTrip sends r over a connection that may carry it, and settles what becomes of
// the connection.
func (b *backend) roundTrip(r *http.Request) (*http.Response, error) {
	b.inFlight.Add(1)
	r.URL.Scheme, r.URL.Host = b.scheme, b.host
	body := r.Body != nil && r.Body != http.NoBody
	once := body && !b.multiplex && !b.reuse.ReadsBodies
	if once {
		r.Close = true // so that the application need not wait for another
	}
	for {
		c, err := b.take(r.Context(), once)
		if err != nil {
			b.inFlight.Add(-1)
			return nil, err
		}
		kept := c.used.Swap(true)
		c.wire.wrote.Store(false)
		res, err := c.RoundTrip(r)
		if kept && r.Context().Err() == nil {
			b.keeps.Store(err == nil)
		}
		if err != nil {
			c.release(err)
			// A kept connection that ended before anything was written to it. The
			// body may have been read.
			if kept && !body && !b.multiplex && !c.wire.wrote.Load() && r.Context().Err() == nil {
				continue
			}
			b.inFlight.Add(-1)
			return nil, err
		}
		if res.Body == http.NoBody {
			c.release(nil)
			b.inFlight.Add(-1)
			return res, nil
		}
		c.watch(res)
		return res, nil
	}
}
