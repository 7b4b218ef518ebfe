package httpguard

import (
	"net/http"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/device"
)

const (
	maxTokens   = 5  // that a cookie holds
	tokenLength = 88 // of package device
)

// A wallet is what a browser shows: the tokens of the subjects that it is known for.
type wallet struct {
	tokens []string // newest first, at most maxTokens
	found  int      // which of them is for the subject; -1 is none
	renew  bool
	secure bool // the browser speaks TLS
	sealed bool // the browser may hold tokens that it does not show here
}

// openWallet reads the cookies of r. What cannot be a token is dropped, and so is what
// comes after maxTokens, whatever their number of cookies: each token costs a few
// hashes. Another host of the domain may have set a cookie of the same name, so all
// are read.
func (g *Gate) openWallet(r *http.Request, how clientip.How) *wallet {
	w := &wallet{found: -1, secure: r.TLS != nil || forwardedTLS(r, how)}
	// Browsers keep the cookie back when another site sends the form: a new one would
	// overwrite all that they know, and that site could log in as somebody else.
	w.sealed = r.Header.Get("Sec-Fetch-Site") == "cross-site"
	for _, c := range r.CookiesNamed(g.cookie) {
		for token := range strings.SplitSeq(c.Value, ".") {
			if len(w.tokens) == maxTokens {
				return w
			}
			if isToken(token) {
				w.tokens = append(w.tokens, token)
			}
		}
	}
	return w
}

// showsToken reports whether r may come from a known device.
func (g *Gate) showsToken(r *http.Request) bool {
	return g.devices != nil && len(g.openWallet(r, clientip.Unknown).tokens) > 0
}

// isToken reports whether s has the form of a token. What has another one is never
// written to a cookie.
func isToken(s string) bool {
	if len(s) != tokenLength {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// forwardedTLS reports whether a trusted proxy says that the caller speaks TLS.
func forwardedTLS(r *http.Request, how clientip.How) bool {
	switch how {
	case clientip.Header, clientip.AllTrusted, clientip.Fallback:
		scheme, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
		return strings.EqualFold(strings.Trim(scheme, " \t"), "https")
	}
	return false
}

// find returns the id of the device that is known for the subject, the zero Key if
// there is none.
func (w *wallet) find(s *device.Signer, subject doorward.Key, now time.Time) doorward.Key {
	for i, token := range w.tokens {
		if d, ok := s.Verify(token, subject, now); ok {
			w.found, w.renew = i, d.Renew
			return d.ID
		}
	}
	return doorward.Key{}
}

// success returns the tokens after a success, or false if they stay as they are. A
// device that is known already keeps its token until that wants renewal: it has one
// budget, not two.
func (w *wallet) success(s *device.Signer, subject doorward.Key, now time.Time) (tokens []string, changed bool) {
	rest := w.tokens
	var token string
	switch {
	case w.found < 0:
		if token, _ = s.Issue(subject, now); token == "" {
			return nil, false
		}
	case w.renew:
		var ok bool
		if token, ok = s.Renew(w.tokens[w.found], subject, now); !ok {
			return nil, false
		}
		rest = append(append([]string(nil), rest[:w.found]...), rest[w.found+1:]...)
	default:
		return nil, false
	}
	return append([]string{token}, rest[:min(len(rest), maxTokens-1)]...), true
}

// remember gives the browser a token if the attempt has succeeded.
func (g *Gate) remember(h http.Header, p *Permit) {
	if p.wallet == nil || p.wallet.sealed {
		return
	}
	if o, settled := p.Outcome(); !settled || o != doorward.Succeeded {
		return
	}
	tokens, changed := p.wallet.success(g.devices, p.client.Subject, time.Now())
	if !changed {
		return
	}
	h.Add("Set-Cookie", (&http.Cookie{
		Name: g.cookie, Value: strings.Join(tokens, "."), Path: "/", MaxAge: int(g.devices.TTL() / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: p.wallet.secure,
	}).String())
}
