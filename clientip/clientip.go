// Package clientip names the caller of a request: the address that attempts are
// charged to.
//
// It promises that a caller cannot choose that address. By default it is the peer
// of the connection, and forwarded headers are not read: they are ordinary text
// from the caller. Where requests come through proxies, it is the address that the
// outermost trusted proxy saw, found from the right in the one header that these
// proxies write. What is left of it came from the caller and is never judged.
// Where no such address can be read, the caller is Unknown, with no second choice:
// no other header, no element further left. At most 32 elements and 8 KiB of a header
// are read, and a caller is named without allocating.
//
// It gives up three things. Trusted proxies are believed: one that does not append
// to the header or replace it, writes malformed Forwarded elements, or passes on
// what a caller sent gives the choice away. A hop count believes everyone who can
// connect. And callers that share an address are one caller: nothing here looks
// behind a NAT or a carrier's proxy.
//
// Do not use it to authenticate or to authorize: an address is a place to charge
// attempts to, not an identity. Do not use it to find out where a visitor lives.
// PROXY protocol is not read here: what speaks it passes the declared address as
// the peer.
package clientip

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// Config says where the caller's address is found. The zero Config means the peer
// of the connection.
type Config struct {
	// Header is the one header that the trusted proxies write: X-Forwarded-For,
	// Forwarded (RFC 7239), or any other name for a header that holds one address,
	// such as X-Real-IP or CF-Connecting-IP. "" reads none.
	Header string
	// Trusted lists the networks of the trusted proxies. Nothing is trusted unless
	// it is listed, private networks and loopback included.
	Trusted []netip.Prefix
	// Hops, instead of Trusted, is how many proxies every request passes, the peer
	// included: 1 to 32, and 1 for a header that holds one address. Whoever can
	// connect is believed to be the last of them, so it is only right where nobody
	// can reach this process around the proxies.
	Hops int
	// TrustUnix makes the peers of unix sockets trusted proxies. It goes alone, or
	// with Trusted or Hops.
	TrustUnix bool
}

// How says how an address was found. The zero How is Unknown.
type How uint8

const (
	// Unknown: there is no address.
	Unknown How = iota
	// Peer: the peer of the connection, which is no trusted proxy.
	Peer
	// Header: a trusted proxy wrote the address into the header.
	Header
	// AllTrusted: all addresses in the header are trusted proxies, so it is the
	// leftmost of them. Whoever wrote it, it is not a caller from outside: it earns
	// no exemption.
	AllTrusted
	// Fallback: the peer is a trusted proxy and the header is absent, so it is the
	// peer. A proxy that strips the header makes all its callers one: this earns no
	// exemption either.
	Fallback
)

var hows = [...]string{"unknown", "peer", "header", "all-trusted", "fallback"}

// String returns the word used in logs, metrics and JSON.
func (h How) String() string {
	if int(h) < len(hows) {
		return hows[h]
	}
	return "How(" + strconv.Itoa(int(h)) + ")"
}

// MarshalText writes the word of a known How.
func (h How) MarshalText() ([]byte, error) {
	if int(h) < len(hows) {
		return []byte(hows[h]), nil
	}
	return nil, fmt.Errorf("clientip: How %d has no word", uint8(h))
}

// UnmarshalText reads a word that MarshalText wrote.
func (h *How) UnmarshalText(text []byte) error {
	for i, w := range hows {
		if w == string(text) {
			*h = How(i)
			return nil
		}
	}
	return fmt.Errorf("clientip: How must be one of %q, got %q", hows, text)
}

// Resolver names callers. It does not change, so any number of goroutines may use
// it. The zero Resolver is that of the zero Config.
type Resolver struct {
	header  string
	format  format
	trusted []netip.Prefix
	hops    int
	unix    bool
}

// format is how the values of a header are read.
type format uint8

const (
	none    format = iota
	single         // one address, in the last line
	xff            // a list of addresses
	rfc7239        // a list of Forwarded elements
)

// New returns the Resolver of a Config, or an error that names the field.
func New(c Config) (*Resolver, error) {
	r := &Resolver{hops: c.Hops, unix: c.TrustUnix}
	if c.Header != "" {
		if !isToken(c.Header) {
			return nil, fmt.Errorf("clientip: Header must be the name of a header, got %q", c.Header)
		}
		r.header = canonical(c.Header)
	}
	switch r.header {
	case "":
		r.format = none
	case "X-Forwarded-For":
		r.format = xff
	case "Forwarded":
		r.format = rfc7239
	default:
		r.format = single
	}
	switch believed := len(c.Trusted) > 0 || c.Hops != 0 || c.TrustUnix; {
	case r.format == none && believed:
		return nil, errors.New(`clientip: Header must be set with Trusted, Hops or TrustUnix, got ""`)
	case r.format != none && !believed:
		return nil, fmt.Errorf("clientip: Trusted, Hops or TrustUnix must be set with Header %s: anyone can send it", r.header)
	case c.Hops < 0 || c.Hops > maxElements:
		return nil, fmt.Errorf("clientip: Hops must be 1 to %d, got %d", maxElements, c.Hops)
	case c.Hops > 0 && len(c.Trusted) > 0:
		return nil, fmt.Errorf("clientip: Hops must be 0 with Trusted, got %d", c.Hops)
	case c.Hops > 1 && r.format == single:
		return nil, fmt.Errorf("clientip: Hops must be 1 with Header %s, which holds one address, got %d", r.header, c.Hops)
	}
	for i, p := range c.Trusted {
		q, err := checkPrefix(p)
		if err != nil {
			return nil, fmt.Errorf("clientip: Trusted[%d] %w", i, err)
		}
		r.trusted = append(r.trusted, q)
	}
	return r, nil
}

// checkPrefix returns p in the form that addresses are compared with: an
// IPv4-mapped network as its IPv4 network. A netip.Prefix never has a zone.
func checkPrefix(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, errors.New("must be a network, got an invalid Prefix")
	}
	q := p
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		q = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	switch {
	case q.Bits() == 0:
		return q, fmt.Errorf("must not be %v: it trusts everyone", p)
	case q != q.Masked():
		return q, fmt.Errorf("must be %v, without host bits, got %v", q.Masked(), p)
	}
	return q, nil
}

// Header returns the canonical name of the header whose values Resolve wants, ""
// if it wants none.
func (r *Resolver) Header() string { return r.header }

// isToken reports whether s is a token of RFC 9110, such as a header's name.
func isToken(s string) bool { return s != "" && tokenLen(s) == len(s) }

// tokenLen returns the length of the token that s begins with.
func tokenLen(s string) int {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			continue
		case c == '!', '#' <= c && c <= '\'', c == '*', c == '+', c == '-', c == '.', '^' <= c && c <= '`', c == '|', c == '~':
			continue
		}
		return i
	}
	return len(s)
}

// canonical spells a header's name as net/http does.
func canonical(name string) string {
	b := []byte(name)
	upper := true
	for i, c := range b {
		switch {
		case upper && 'a' <= c && c <= 'z':
			b[i] = c - 'a' + 'A'
		case !upper && 'A' <= c && c <= 'Z':
			b[i] = c - 'A' + 'a'
		}
		upper = c == '-'
	}
	return string(b)
}
