package clientip

import (
	"net/netip"
	"strings"
)

// maxAddr is the length of the longest address in text:
// "0000:0000:0000:0000:0000:0000:255.255.255.255".
const maxAddr = 45

// broadcast is the IPv4 limited broadcast address.
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// parseNode reads an address as servers and proxies write it: IPv4 with or without
// a port, IPv6 bare, or in brackets with or without a port. Zones are dropped,
// IPv4-mapped addresses are IPv4. It returns the zero Addr for anything else, and
// for addresses that nobody can have: unspecified, multicast, broadcast.
//
// With strict it reads the node of RFC 7239: no bare IPv6, and the port may be an
// obfuscated one.
func parseNode(s string, strict bool) netip.Addr {
	host, port, v6 := s, "", false
	colon := strings.IndexByte(s, ':')
	switch {
	case s == "":
		return netip.Addr{}
	case s[0] == '[':
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return netip.Addr{}
		}
		host, port, v6 = s[1:end], s[end+1:], true
	case colon >= 0 && strings.IndexByte(s[colon+1:], ':') < 0:
		host, port = s[:colon], s[colon:]
	case colon >= 0:
		if strict {
			return netip.Addr{}
		}
		v6 = true
	}
	if port != "" && !isPort(port, strict) {
		return netip.Addr{}
	}
	if v6 {
		var ok bool
		if host, ok = cutZone(host); !ok {
			return netip.Addr{}
		}
	}
	return parseAddr(host, v6)
}

// parseAddr reads an address without port, brackets and zone. netip.ParseAddr
// knows neither leading zeros nor the forms of inet_aton.
func parseAddr(s string, v6 bool) netip.Addr {
	if len(s) > maxAddr || strings.IndexByte(s, ':') >= 0 != v6 {
		return netip.Addr{}
	}
	// What cannot be an address goes first: an error of ParseAddr is an allocation.
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case '0' <= c && c <= '9', c == '.':
		case v6 && (c == ':' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'):
		default:
			return netip.Addr{}
		}
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() || addr.IsMulticast() || addr == broadcast {
		return netip.Addr{}
	}
	return addr
}

// cutZone takes the zone off an IPv6 address. It is cut before parsing, since
// netip.Addr keeps every zone that it sees in a table of the process.
func cutZone(s string) (host string, ok bool) {
	host, zone, found := strings.Cut(s, "%")
	if !found {
		return s, true
	}
	for i := 0; i < len(zone); i++ {
		if c := zone[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return "", false
		}
	}
	return host, zone != ""
}

// isPort reports whether s is a colon and a port: one to five digits, at most
// 65535, or an obfuscated port of RFC 7239.
func isPort(s string, obfuscated bool) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	s = s[1:]
	if obfuscated && s[0] == '_' {
		for i := 1; i < len(s); i++ {
			switch c := s[i]; {
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			default:
				return false
			}
		}
		return len(s) > 1
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return len(s) <= 5 && n <= 65535
}
