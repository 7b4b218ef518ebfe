package clientip_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/doorward/doorward/clientip"
)

// fuzzTrusted are the proxies of the fuzz targets: a network of each family, and
// this machine.
var fuzzTrusted = prefixes("10.0.0.0/8", "2001:db8::/32", "127.0.0.1/32")

var fuzzPeers = []string{"10.0.0.2:1", "[2001:db8::2]:1", "[::ffff:10.0.0.3]:1", "127.0.0.1:1", "127.0.0.9:1", "192.0.2.1:1"}

// checkResolve holds what is true of every request, and returns the answer.
func checkResolve(t *testing.T, c clientip.Config, remoteAddr string, values []string) (netip.Addr, clientip.How) {
	t.Helper()
	addr, how := mustNew(t, c).Resolve(remoteAddr, values)
	peer := netip.MustParseAddrPort(remoteAddr).Addr().Unmap()
	if addr.IsValid() == (how == clientip.Unknown) {
		t.Fatalf("address %v found as %v", addr, how)
	}
	if addr.Is4In6() || addr.Zone() != "" {
		t.Fatalf("address %v is mapped or has a zone", addr)
	}
	trusted := false
	for _, p := range c.Trusted {
		trusted = trusted || p.Contains(addr)
	}
	if c.Hops == 0 && addr.IsValid() && trusted != (how == clientip.AllTrusted || how == clientip.Fallback) {
		t.Fatalf("address %v found as %v", addr, how)
	}
	if c.Hops == 0 && addr.IsLoopback() && !peer.IsLoopback() {
		t.Fatalf("peer %v made the caller %v", peer, addr)
	}
	if (how == clientip.Peer || how == clientip.Fallback) && addr != peer {
		t.Fatalf("address %v found as %v, but the peer is %v", addr, how, peer)
	}
	if len(strings.Join(values, ",")) <= 8192 {
		if refAddr, refHow := reference(c, peer, values); addr != refAddr || how != refHow {
			t.Fatalf("%+v, peer %v, %q:\ngot  %v (%v)\nwant %v (%v)", c, peer, values, addr, how, refAddr, refHow)
		}
	}
	return addr, how
}

// callerOf turns fuzzed bytes into an address that a caller can have, outside the
// trusted networks and this machine.
func callerOf(b []byte) netip.Addr {
	addr, ok := netip.AddrFromSlice(b)
	addr = addr.Unmap()
	if !ok || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.MustParseAddr("192.0.2.7")
	}
	for _, p := range fuzzTrusted {
		if p.Contains(addr) {
			return netip.MustParseAddr("192.0.2.8")
		}
	}
	return addr
}

// appended returns the ways in which proxies add their elements to what a caller
// sent: to his last line, or on a line of their own.
func appended(lines []string, elem string) [][]string {
	last := len(lines) - 1
	return [][]string{
		append(lines[:last:last], lines[last]+", "+elem),
		append(lines[:last:last], lines[last]+","+elem),
		append(lines[:len(lines):len(lines)], elem),
	}
}

func FuzzXForwardedFor(f *testing.F) {
	f.Add("6.6.6.6, 1.1.1.1:80\n10.0.0.3", uint8(0), uint8(0), []byte{1, 1, 1, 1})
	f.Add("[2001:db8::1]:443, ::ffff:127.0.0.1,, fe80::1%eth0\n\n", uint8(3), uint8(2), make([]byte, 16))
	f.Add("0000:0000:0000:0000:0000:ffff:255.255.255.255, 1.2.3.4:65536, [::1", uint8(1), uint8(1), []byte("\x20\x01\x48\x60............"))
	f.Add("010.0.0.1, 0x7f.1, unknown, [1.2.3.4], ::, 224.0.0.1", uint8(2), uint8(3), []byte{224, 0, 0, 1})
	f.Add(strings.Repeat("10.0.0.9,", 31)+"10.0.0.9", uint8(0), uint8(0), []byte(nil))
	f.Add(strings.Repeat("127.0.0.1,", 33), uint8(3), uint8(0), []byte(nil))
	f.Fuzz(func(t *testing.T, text string, peer, hops uint8, caller []byte) {
		lines := strings.Split(text, "\n")
		remote := fuzzPeers[int(peer)%len(fuzzPeers)]
		checkResolve(t, clientip.Config{Header: "X-Forwarded-For", Hops: 1 + int(hops)%32}, remote, lines)
		c := clientip.Config{Header: "X-Forwarded-For", Trusted: fuzzTrusted}
		checkResolve(t, c, remote, lines)
		if remote != "10.0.0.2:1" {
			return
		}
		// Whatever a caller sends, he is who the proxies say.
		want := callerOf(caller)
		elem := want.String()
		switch {
		case hops&1 == 0:
		case want.Is4():
			elem += ":4711"
		default:
			elem = "[" + elem + "]:4711"
		}
		if hops&2 == 2 {
			elem += " ,[2001:db8::3%25a]:1"
		}
		for _, values := range appended(lines, elem) {
			if addr, how := checkResolve(t, c, remote, values); addr != want || how != clientip.Header {
				t.Fatalf("%q: got %v (%v), want %v", values, addr, how, want)
			}
		}
	})
}

func FuzzForwarded(f *testing.F) {
	f.Add(`for=6.6.6.6;x="`, "example.com", uint8(0), uint8(0), []byte{1, 1, 1, 1})
	f.Add("for=\", for=1.1.1.1\nfor=\"[2001:db8::1]:_x\";host=\"a\\\",b\"", `", for=6.6.6.6;x="`, uint8(0), uint8(1), make([]byte, 16))
	f.Add(`For=1.1.1.1;for=2.2.2.2 ; proto=https, for=_x, for="unknown"`, `\", for=6.6.6.6`, uint8(0), uint8(6), []byte("\x20\x01\x48\x60............"))
	f.Add("for=127.0.0.1;host=a:80;;,for=\"127.0.0.1:80\"", `\`, uint8(3), uint8(15), []byte(nil))
	f.Add(`;,=,";",for="\1.1.1.1",x="\\",x=\,x="\`, "\x00\xff\t", uint8(4), uint8(3), []byte(nil))
	f.Fuzz(func(t *testing.T, text, host string, peer, style uint8, caller []byte) {
		if len(text)+len(host) > 2000 {
			return // the reference is quadratic
		}
		lines := strings.Split(text, "\n")
		remote := fuzzPeers[int(peer)%len(fuzzPeers)]
		checkResolve(t, clientip.Config{Header: "Forwarded", Hops: 1 + int(style)%32}, remote, lines)
		c := clientip.Config{Header: "Forwarded", Trusted: fuzzTrusted}
		checkResolve(t, c, remote, lines)
		if remote != "10.0.0.2:1" {
			return
		}
		// Whatever a caller sends, in the header and as the Host that the proxy
		// copies, he is who the proxies say.
		want := callerOf(caller)
		node := want.String()
		if want.Is6() {
			node = `"[` + node + `]"`
		} else if style&1 == 1 {
			node = `"` + node + `:_p"`
		}
		elem := "for=" + node + ";host=" + quote(host)
		if style&2 == 2 {
			elem = "host=" + quote(host) + "; FOR=" + node
		}
		if style&4 == 4 {
			elem += `, host=` + quote(host) + `;for="[2001:db8::3]"`
		}
		for _, values := range appended(lines, elem) {
			if addr, how := checkResolve(t, c, remote, values); addr != want || how != clientip.Header {
				t.Fatalf("%q: got %v (%v), want %v", values, addr, how, want)
			}
		}
	})
}

// quote writes s as a quoted string of RFC 7230, without the control characters
// that no header can hold.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"', c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\t', c >= ' ' && c != 0x7f:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
