package reader

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// parseNode reads an address as servers write it: with or without brackets, a port, a
// zone. What is none gives the zero Addr. An IPv4-mapped address is its IPv4 address.
func parseNode(s []byte) netip.Addr {
	if addr, n := cutIPv4(s); n > 0 && (n == len(s) || isPort(s[n:])) {
		return addr
	}
	if len(s) == 0 || len(s) > 64 {
		return netip.Addr{}
	}
	if s[0] == '[' {
		i := bytes.IndexByte(s, ']')
		if i < 0 || i+1 < len(s) && !isPort(s[i+1:]) {
			return netip.Addr{}
		}
		s = s[1:i]
	}
	if bytes.IndexByte(s, ':') < 0 {
		return netip.Addr{} // an IPv4 address would have been found
	}
	if i := bytes.IndexByte(s, '%'); i >= 0 {
		s = s[:i]
	}
	// Nothing of s is kept: without a zone an Addr has no text, and the error is dropped.
	addr, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(s), len(s)))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// cutIPv4 reads a dotted quad at the beginning of s and returns its length, or 0.
func cutIPv4(s []byte) (netip.Addr, int) {
	var quad [4]byte
	i := 0
	for part := range quad {
		if part > 0 {
			if i >= len(s) || s[i] != '.' {
				return netip.Addr{}, 0
			}
			i++
		}
		n, start := 0, i
		for i < len(s) && i < start+3 && s[i] >= '0' && s[i] <= '9' {
			n = n*10 + int(s[i]-'0')
			i++
		}
		if i == start || n > 255 || i > start+1 && s[start] == '0' {
			return netip.Addr{}, 0
		}
		quad[part] = byte(n)
	}
	return netip.AddrFrom4(quad), i
}

// isPort reports whether s is a colon and a port.
func isPort(s []byte) bool {
	if len(s) < 2 || len(s) > 6 || s[0] != ':' {
		return false
	}
	for _, c := range s[1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
