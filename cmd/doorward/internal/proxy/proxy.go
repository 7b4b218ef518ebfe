// Package proxy is the daemon's edge: a reverse proxy that guards some of the
// application's routes and leaves all others alone.
//
// It promises that a request is passed on exactly as it was judged, to the byte of
// its target; that a request at a door reaches the application at most once, and
// that its outcome is settled whatever becomes of it; that a request at a door whose
// subject the application might read otherwise does not reach it; that no header of a
// caller's speaks for the proxy; that a request is at a door by whatever method a header, a
// parameter or a field makes of it. Outside doors bodies are streamed, of any size and for
// any time, but for those that such a field is looked for in.
//
// It sends no request again, at doors or not: a kept connection may be closed by the
// application just when a request is sent, and then nobody knows whether it was
// read. It refuses what no two servers agree on, at doors or not: targets that are
// no path and no URL, and hosts in other scripts than ASCII. It passes on no request
// trailers, and no change of protocol but to WebSocket.
//
// It speaks HTTP/1, HTTP/2 to clients over TLS, and h2c to applications that are said to.
// A Go application needs no proxy: package httpguard does the same in its own process.
package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/count"
	"github.com/doorward/doorward/cmd/doorward/internal/upstream"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/outcome"
)

// Proxy is a reverse proxy with guarded doors. It is an http.Handler; Serve adds the
// timeouts that only a server can have.
type Proxy struct {
	config  Config                 // as it was at the start: of what a reload does not change
	set     atomic.Pointer[set]    // as it is now
	pass    *httputil.ReverseProxy // outside doors
	pool    *upstream.Pool
	buffers buffers
	lines   lines
	ignored ignored
	conns   *count.Count
}

// guarded is a Door and the handler that guards it.
type guarded struct {
	*Door
	handler  http.Handler
	inFlight *count.Count
}

// A visit is what is known of one request before it is passed on.
type visit struct {
	addr   netip.Addr
	how    clientip.How
	target *url.URL
	door   string
	w      http.ResponseWriter
	at     *guarded // where it takes room, until leave
	leave  func()
	set    *set // by which it is judged, to its end
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// New returns a proxy as c describes. An error names the field that is wrong.
func New(c Config) (*Proxy, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	p := &Proxy{config: c, lines: newLines(c.Log), conns: count.New(c.Limits.Connections, c.Limits.PerNetwork)}
	if p.pool, err = pool(c, &p.lines); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p.pass = p.reverse(p.pool)
	s, err := p.newSet(c)
	if err != nil {
		return nil, err
	}
	p.lines.hide(c.Doors)
	p.set.Store(s)
	return p, nil
}

// Upstreams calls f with every copy of the application and whether it is healthy, as far
// as is known.
func (p *Proxy) Upstreams(f func(u *url.URL, healthy bool)) { p.pool.Each(f) }

// InFlight calls f with every door and how many requests are at it.
func (p *Proxy) InFlight(f func(door string, n int)) {
	for _, d := range p.set.Load().doors {
		f(d.Name, d.inFlight.N())
	}
}

// ServeHTTP judges one request and passes it on or answers it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := p.set.Load()
	v := &visit{w: w, set: s, leave: func() {}}
	defer func() { v.leave() }()
	u, ok := target(r.Method, r.RequestURI)
	if !ok || !saneHost(r.Host) || !sound2(r) || r.Method == http.MethodConnect {
		p.bad(w, r, "")
		return
	}
	v.target = u
	v.addr, v.how = s.resolve(r)
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	// Trailers are not passed on: an application that reads them as headers would
	// take them for ours. Without them a guess in memory goes with its length, as
	// applications that know no chunks need it.
	r.Trailer = nil

	d, match, ok := p.judge(w, r, v)
	if !ok {
		return
	}
	switch match {
	case door.None:
		p.pass.ServeHTTP(wordless{w}, r)
		delete(w.Header(), outcome.Header) // trailers by now
		delete(w.Header(), http.TrailerPrefix+outcome.Header)
	case door.Bad:
		p.bad(w, r, d.Name)
	default:
		v.door = d.Name
		if p.unnamed(v, r) {
			p.answer(w, r, http.StatusServiceUnavailable)
			return
		}
		p.enter(w, r, d, v)
	}
}

// resolve names the caller as the gates do.
func (s *set) resolve(r *http.Request) (netip.Addr, clientip.How) {
	peer := r.RemoteAddr
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		peer = "@" // a unix socket may be bound to a name that reads like an address
	}
	return s.config.Clients.Resolve(peer, r.Header[s.config.Clients.Header()])
}

// find returns the door that q is at, nil if it is at none.
func (s *set) find(q door.Request) (*guarded, door.Match) {
	i, m := door.Find(s.matches, q)
	if i < 0 {
		return nil, m
	}
	return &s.doors[i], m
}

// bad answers a request that cannot be judged.
func (p *Proxy) bad(w http.ResponseWriter, r *http.Request, name string) {
	p.lines.bad.Write(time.Now(), func() []slog.Attr { return p.lines.request(name, r) })
	p.answer(w, r, http.StatusBadRequest)
}

// answer writes an answer of ours. What is left of the body is not waited for longer
// than a body may take.
func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, status int) {
	if r.Body != nil && r.Body != http.NoBody {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.set.Load().config.Timeouts.Body))
	}
	httpguard.Answer(w, r, status)
}

// refuse answers an attempt that the guard does not admit.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, verdict guard.Verdict) {
	v, now := visitOf(r.Context()), time.Now()
	p.tell(now, v, r, httpguard.FromRequest(r))
	p.lines.refusal(now, v, r, verdict)
	p.lockedLocal(v, r, verdict)
	httpguard.Refuse(w, r, verdict)
}

// settled is told of every outcome.
func (p *Proxy) settled(r *http.Request, permit *httpguard.Permit) {
	v, now := visitOf(r.Context()), time.Now()
	p.tell(now, v, r, permit)
	p.lines.settlement(now, v, r, permit)
}
