package proxy

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/logs"
	"github.com/doorward/doorward/guard"
)

// How much is remembered of forwarding headers that nobody configured, and how often
// something is said about them.
const (
	maxPeers     = 16
	maxValues    = 4
	maxValueSize = 64
	complainOnce = time.Minute
)

// ignored collects the addresses that peers forwarded and that are not read, so that
// an operator hears of a proxy before it locks its callers out together.
type ignored struct {
	mu         sync.Mutex
	closed     time.Time // when it was last said that doors are closed
	locked     time.Time // when it was last said that a local caller is locked out
	complained time.Time
	peers      map[netip.Addr]*forwarder
}

type forwarder struct {
	since  time.Time
	values []string // some of them, no two alike
}

// unnamed reports whether nobody can tell who r is from: it comes from this machine,
// was forwarded, and nobody has said how callers are named. Then every caller would be
// one, and the first lockout would shut the site. From elsewhere such a header is
// likelier to be a caller's own; it is ignored, and the operator told.
func (p *Proxy) unnamed(v *visit, r *http.Request) bool {
	if v.set.config.ClientsConfigured {
		return false
	}
	values := forwardedValues(r.Header)
	if len(values) == 0 {
		return false
	}
	now := time.Now()
	if v.how == clientip.Peer && v.addr.IsLoopback() {
		if p.ignored.once(&p.ignored.closed, now) {
			h := newHint("loopback", v, r)
			p.lines.closed.Write(now, h.attrs)
			p.suspect(Suspicion{Closed, h.peer, h.fix()})
		}
		return true
	}
	if seen := p.ignored.note(v.addr, values, now); seen != nil {
		h := newHint("forwarded", v, r)
		p.lines.ignored.Write(now, func() []slog.Attr { return append(h.attrs(), slog.Any("ignored", seen)) })
		p.suspect(Suspicion{Ignored, h.peer, h.fix()})
	}
	return false
}

// A Suspicion is that many callers are taken for one: Peer, who may be a proxy.
type Suspicion struct {
	What Suspected
	Peer string
	Fix  string // what to configure
}

// Suspected is what gave rise to a Suspicion.
type Suspected uint8

const (
	// Ignored: it forwards addresses, and they are not read.
	Ignored Suspected = iota
	// Closed: it does so on this machine, where that is hardly a caller's own doing, so
	// doors are closed to it.
	Closed
	// LocalLocked: it is on this machine, forwards none, and is locked out.
	LocalLocked
)

func (p *Proxy) suspect(s Suspicion) {
	if p.config.Suspect != nil {
		p.config.Suspect(s)
	}
}

// A hint says what to configure. Its check is that of package doctor.
type hint struct{ check, peer, yaml, flags string }

func newHint(check string, v *visit, r *http.Request) hint {
	header := "X-Forwarded-For"
	for _, name := range []string{"X-Real-IP", "Forwarded", "X-Forwarded-For"} {
		if r.Header.Get(name) != "" {
			header = name
		}
	}
	if !v.addr.IsValid() {
		return hint{check, "unix socket", "clients: {header: " + header + ", trust_unix: true}", ""}
	}
	network := netip.PrefixFrom(v.addr, v.addr.BitLen()).String()
	return hint{
		check, v.addr.String(),
		"clients: {header: " + header + ", trusted_proxies: [" + network + "]}",
		"--trusted-proxy " + network + " --client-header " + header,
	}
}

func (h hint) fix() string {
	return "if it is a proxy, say " + h.yaml + ", if it is not, clients: {}"
}

func (h hint) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("check", h.check), slog.String("peer", h.peer),
		slog.String("if_it_is_a_proxy", h.yaml),
		slog.String("if_it_is_not", "clients: {}"),
	}
	if h.flags != "" {
		attrs = append(attrs, slog.String("flags", h.flags))
	}
	return attrs
}

// once reports whether it is time again to say what was said at last.
func (i *ignored) once(last *time.Time, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !last.IsZero() && now.Sub(*last) < complainOnce {
		return false
	}
	*last = now
	return true
}

// lockedLocal tells the operator that a caller on this machine is locked out while
// nobody has said how callers are named: a proxy that forwards no addresses looks just
// like that.
func (p *Proxy) lockedLocal(v *visit, r *http.Request, verdict guard.Verdict) {
	if v.set.config.ClientsConfigured || v.how != clientip.Peer || !v.addr.IsLoopback() || verdict.Reason != doorward.Locked {
		return
	}
	if now := time.Now(); p.ignored.once(&p.ignored.locked, now) {
		h := newHint("loopback", v, r)
		p.lines.local.Write(now, h.attrs)
		p.suspect(Suspicion{LocalLocked, h.peer, h.fix()})
	}
}

// note remembers what peer forwarded. It returns some of that when it is time to
// complain: a proxy is known by its second caller; a single value, which may be a
// caller's own, waits a minute for one.
func (i *ignored) note(peer netip.Addr, values []string, now time.Time) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	f := i.peers[peer]
	if f == nil {
		if i.peers == nil || len(i.peers) >= maxPeers {
			i.peers = make(map[netip.Addr]*forwarder)
		}
		f = &forwarder{since: now}
		i.peers[peer] = f
	}
	for _, v := range values {
		if v = logs.Cut(v, maxValueSize); len(f.values) < maxValues && !slices.Contains(f.values, v) {
			f.values = append(f.values, v)
		}
	}
	if !i.complained.IsZero() && now.Sub(i.complained) < complainOnce {
		return nil
	}
	if len(f.values) < 2 && now.Sub(f.since) < complainOnce {
		return nil
	}
	i.complained = now
	delete(i.peers, peer)
	return f.values
}
