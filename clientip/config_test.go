package clientip_test

import (
	"encoding/json"
	"net/netip"
	"net/textproto"
	"testing"

	"github.com/doorward/doorward/clientip"
)

func prefixes(text ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range text {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func TestConfigErrors(t *testing.T) {
	const xff, real = "X-Forwarded-For", "x-real-ip"
	ten := prefixes("10.0.0.0/8")
	for _, c := range []struct {
		name   string
		config clientip.Config
		want   string
	}{
		{"trusted without header", clientip.Config{Trusted: ten},
			`clientip: Header must be set with Trusted, Hops or TrustUnix, got ""`},
		{"hops without header", clientip.Config{Hops: 1},
			`clientip: Header must be set with Trusted, Hops or TrustUnix, got ""`},
		{"unix without header", clientip.Config{TrustUnix: true},
			`clientip: Header must be set with Trusted, Hops or TrustUnix, got ""`},
		{"nobody trusted", clientip.Config{Header: xff},
			`clientip: Trusted, Hops or TrustUnix must be set with Header X-Forwarded-For: anyone can send it`},
		{"not a token", clientip.Config{Header: "X Real-IP", Trusted: ten},
			`clientip: Header must be the name of a header, got "X Real-IP"`},
		{"a colon", clientip.Config{Header: "X-Real-IP:", Trusted: ten},
			`clientip: Header must be the name of a header, got "X-Real-IP:"`},
		{"not ASCII", clientip.Config{Header: "X-Réal-IP", Trusted: ten},
			`clientip: Header must be the name of a header, got "X-Réal-IP"`},
		{"negative hops", clientip.Config{Header: xff, Hops: -1},
			`clientip: Hops must be 1 to 32, got -1`},
		{"more hops than are read", clientip.Config{Header: xff, Hops: 33},
			`clientip: Hops must be 1 to 32, got 33`},
		{"both", clientip.Config{Header: xff, Trusted: ten, Hops: 2},
			`clientip: Hops must be 0 with Trusted, got 2`},
		{"hops in one address", clientip.Config{Header: real, Hops: 2},
			`clientip: Hops must be 1 with Header X-Real-Ip, which holds one address, got 2`},
		{"zero prefix", clientip.Config{Header: xff, Trusted: []netip.Prefix{ten[0], {}}},
			`clientip: Trusted[1] must be a network, got an invalid Prefix`},
		{"prefix too wide", clientip.Config{Header: xff, Trusted: []netip.Prefix{netip.PrefixFrom(ten[0].Addr(), 33)}},
			`clientip: Trusted[0] must be a network, got an invalid Prefix`},
		{"everyone", clientip.Config{Header: xff, Trusted: prefixes("10.0.0.0/8", "0.0.0.0/0")},
			`clientip: Trusted[1] must not be 0.0.0.0/0: it trusts everyone`},
		{"everyone on IPv6", clientip.Config{Header: xff, Trusted: prefixes("::/0")},
			`clientip: Trusted[0] must not be ::/0: it trusts everyone`},
		{"everyone, mapped", clientip.Config{Header: xff, Trusted: prefixes("::ffff:0:0/96")},
			`clientip: Trusted[0] must not be ::ffff:0.0.0.0/96: it trusts everyone`},
		{"everyone with host bits", clientip.Config{Header: xff, Trusted: prefixes("10.0.0.1/0")},
			`clientip: Trusted[0] must not be 10.0.0.1/0: it trusts everyone`},
		{"host bits", clientip.Config{Header: xff, Trusted: prefixes("10.0.0.1/8")},
			`clientip: Trusted[0] must be 10.0.0.0/8, without host bits, got 10.0.0.1/8`},
		{"host bits, IPv6", clientip.Config{Header: xff, Trusted: prefixes("2001:db8::1/32")},
			`clientip: Trusted[0] must be 2001:db8::/32, without host bits, got 2001:db8::1/32`},
		{"host bits, mapped", clientip.Config{Header: xff, Trusted: prefixes("::ffff:10.0.0.1/104")},
			`clientip: Trusted[0] must be 10.0.0.0/8, without host bits, got ::ffff:10.0.0.1/104`},
		{"mapped, wider than IPv4", clientip.Config{Header: xff, Trusted: prefixes("::ffff:0:0/95")},
			`clientip: Trusted[0] must be ::fffe:0:0/95, without host bits, got ::ffff:0.0.0.0/95`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := clientip.New(c.config)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if r != nil {
				t.Error("a Resolver came with the error")
			}
		})
	}
}

func TestConfigAccepted(t *testing.T) {
	for _, c := range []clientip.Config{
		{},
		{Header: "Forwarded", Hops: 1},
		{Header: "Forwarded", Hops: 32, TrustUnix: true},
		{Header: "X-Real-IP", Hops: 1},
		{Header: "X-Real-IP", TrustUnix: true},
		{Header: "X-Real-IP", Trusted: prefixes("10.1.2.3/32", "::1/128", "0.0.0.0/1", "::/1")},
	} {
		mustNew(t, c)
	}
}

// TestZones: a zone can not get into a prefix, so New need not look for one.
func TestZones(t *testing.T) {
	if p := netip.PrefixFrom(netip.MustParseAddr("fe80::%eth0"), 64); p != netip.MustParsePrefix("fe80::/64") {
		t.Errorf("a Prefix with a zone: %v", p)
	}
}

func TestHeader(t *testing.T) {
	for _, name := range []string{
		"x-forwarded-for", "X-FORWARDED-FOR", "forwarded", "X-Real-IP", "CF-Connecting-IP", "true-client-ip", "-x--Y-", "x_1.z!#$%&'*+^`|~",
	} {
		r := mustNew(t, clientip.Config{Header: name, TrustUnix: true})
		if want := textproto.CanonicalMIMEHeaderKey(name); r.Header() != want {
			t.Errorf("Header() of %s is %q, want %q", name, r.Header(), want)
		}
	}
	if got := mustNew(t, clientip.Config{}).Header(); got != "" {
		t.Errorf("Header() of the zero Config is %q", got)
	}
	// The name decides the format, in any spelling.
	r := mustNew(t, clientip.Config{Header: "x-FORWARDED-for", Hops: 2})
	if addr, _ := r.Resolve("10.0.0.2:1", []string{"1.1.1.1, 2.2.2.2"}); addr.String() != "1.1.1.1" {
		t.Errorf("got %v, want 1.1.1.1", addr)
	}
}

// TestTrustedIsCopied: the Config stays the caller's.
func TestTrustedIsCopied(t *testing.T) {
	trusted := prefixes("10.0.0.0/8")
	r := mustNew(t, clientip.Config{Header: "X-Forwarded-For", Trusted: trusted})
	trusted[0] = netip.MustParsePrefix("192.0.2.0/24")
	if addr, how := r.Resolve("192.0.2.1:1", []string{"6.6.6.6"}); how != clientip.Peer {
		t.Errorf("got %v (%v), want the peer", addr, how)
	}
}

func TestHowWords(t *testing.T) {
	for h, want := range map[clientip.How]string{
		0: "unknown", clientip.Peer: "peer", clientip.Header: "header",
		clientip.AllTrusted: "all-trusted", clientip.Fallback: "fallback",
	} {
		if text, err := json.Marshal(h); h.String() != want || err != nil || string(text) != `"`+want+`"` {
			t.Errorf("%d: %q, %s, %v, want %q", h, h.String(), text, err, want)
		}
		if got := clientip.How(9); got.UnmarshalText([]byte(want)) != nil || got != h {
			t.Errorf("%q is read as %v", want, got)
		}
	}
	if h := clientip.Peer; h.UnmarshalText([]byte("Header")) == nil || h != clientip.Peer {
		t.Errorf("a word that there is not is read as %v", h)
	}
	if _, err := json.Marshal(clientip.How(9)); err == nil || clientip.How(9).String() != "How(9)" {
		t.Errorf("How(9) is %q, error %v", clientip.How(9), err)
	}
	if clientip.Unknown != 0 {
		t.Error("the zero How is not Unknown")
	}
}

// TestZeroResolver: the zero Resolver, Config and New agree.
func TestZeroResolver(t *testing.T) {
	var zero clientip.Resolver
	for _, r := range []*clientip.Resolver{&zero, mustNew(t, clientip.Config{})} {
		addr, how := r.Resolve("192.0.2.1:1234", []string{"6.6.6.6"})
		if addr != netip.MustParseAddr("192.0.2.1") || how != clientip.Peer {
			t.Errorf("got %v (%v), want 192.0.2.1 (peer)", addr, how)
		}
		if addr, how := r.Resolve("@", []string{"6.6.6.6"}); addr.IsValid() || how != clientip.Unknown {
			t.Errorf("unix: got %v (%v), want unknown", addr, how)
		}
	}
}
