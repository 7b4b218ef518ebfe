package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

// Access is what opens TCP listeners. The zero Access is nothing: figures are shown to who
// comes from this machine to a loopback address, and nothing to anybody else.
type Access struct {
	// Tokens are the SHA-256 of what may follow Authorization: Bearer.
	Tokens [][sha256.Size]byte
	// Hosts are names that a request may call us by, beside localhost and addresses.
	Hosts []string
}

// SetAccess puts another Access in the place of that of New.
func (s *Server) SetAccess(a Access) { s.access.Store(&a) }

// guesses are the rules for those who try tokens: the ones that we tell others to use.
func guesses() []guard.Rule {
	p := lockout.Login
	return []guard.Rule{{Name: "tokens", Lockout: &p}}
}

// admit decides whether r is answered at all.
func (s *Server) admit(r *http.Request, open bool) error {
	if local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); local != nil && local.Network() == "unix" {
		// Whoever can open the socket may. No browser can.
		return nil
	}
	a := s.access.Load()
	if !a.names(r.Host) {
		// A name that somebody else owns may lead to us: its pages must not read us.
		return s.deny(r, "host", Errorf(http.StatusMisdirectedRequest, "Host must be an address, localhost, or in admin.hosts"))
	}
	if err := s.cross.Check(r); err != nil {
		return s.deny(r, "another site", Errorf(http.StatusForbidden, "a page of another site must not ask this"))
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return nil
	}
	if values := r.Header["Authorization"]; len(values) > 0 {
		return s.token(r, a, values)
	}
	if open && isLoopback(r) {
		return nil
	}
	return s.deny(r, "no token", Errorf(http.StatusUnauthorized, "this wants the socket, a token (Authorization: Bearer) or a client certificate"))
}

// knows reports whether who was admitted showed something for it, or came by the socket.
func knows(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && local.Network() == "unix" || r.TLS != nil && len(r.TLS.VerifiedChains) > 0 || len(r.Header["Authorization"]) > 0
}

// names reports whether a request may call us by a host.
func (a *Access) names(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true // nobody else's name
	}
	return host == "localhost" || slices.Contains(a.Hosts, host)
}

// isLoopback reports whether both ends are on this machine.
func isLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	for _, end := range []string{local.String(), r.RemoteAddr} {
		addr, err := netip.ParseAddrPort(end)
		if err != nil || !addr.Addr().Unmap().IsLoopback() {
			return false
		}
	}
	return true
}

// token decides on a request that shows one, as on any attempt at a secret.
func (s *Server) token(r *http.Request, a *Access, values []string) error {
	now := time.Now()
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	s.guessing.Lock() // or those who know a token keep each other busy
	defer s.guessing.Unlock()
	permit := s.guess.Attempt(guard.Request{Addr: from.Addr(), How: clientip.Peer}, now)
	if !permit.Allowed {
		e := Errorf(http.StatusTooManyRequests, "too many wrong tokens")
		e.wait = permit.RetryAfter
		return s.deny(r, "too many wrong tokens", e)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	sum, right := sha256.Sum256([]byte(strings.TrimSpace(token))), 0
	for i := range a.Tokens {
		right |= subtle.ConstantTimeCompare(sum[:], a.Tokens[i][:])
	}
	if right == 1 && len(values) == 1 && strings.EqualFold(scheme, "Bearer") {
		permit.Settle(doorward.Succeeded, now)
		return nil
	}
	permit.Settle(doorward.Failed, now)
	return s.deny(r, "wrong token", Errorf(http.StatusUnauthorized, "this is not a token that opens it"))
}

// deny writes of a request that is not let in.
func (s *Server) deny(r *http.Request, why string, e *Error) error {
	s.denied.Write(time.Now(), func() []slog.Attr {
		from, _ := netip.ParseAddrPort(r.RemoteAddr)
		return []slog.Attr{
			slog.String("why", why), slog.String("client", doorward.KeyFromAddr(from.Addr()).String()),
			slog.String("method", cut(r.Method)), slog.String("path", cut(r.URL.Path)),
		}
	})
	return e
}
