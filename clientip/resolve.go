package clientip

import (
	"net/netip"
	"strings"
)

// What Resolve reads of a header at most, counted from the right, with its lines
// joined by commas and elements that are not empty. If the answer lies further
// left, the caller is Unknown.
const (
	maxElements = 32
	maxBytes    = 8192
)

// Resolve names the caller from the RemoteAddr of a request, as net/http gives it,
// and from all values of the header that Header names, in order. The zero Addr
// means Unknown. An address is never IPv4-mapped and has no zone.
//
// A RemoteAddr that is empty or begins with "@" or "/" is the peer of a unix
// socket. A process may bind its end of a unix socket to a name that reads like an
// address, so a listener on one passes "@".
func (r *Resolver) Resolve(remoteAddr string, values []string) (netip.Addr, How) {
	var peer netip.Addr
	if isUnix(remoteAddr) {
		if !r.unix {
			return netip.Addr{}, Unknown
		}
	} else {
		peer = parseNode(remoteAddr, false)
		switch {
		case !peer.IsValid():
			return netip.Addr{}, Unknown
		case r.hops == 0 && !r.trusts(peer):
			return peer, Peer
		}
	}
	if r.format == single && len(values) > 1 {
		values = values[len(values)-1:]
	}
	l := list{format: r.format, lines: values, bytes: maxBytes + 1, elements: maxElements}
	if r.hops > 0 {
		return r.count(&l, peer)
	}
	return r.walk(&l, peer)
}

// walk goes left over trusted proxies to the first other address. The zero peer is
// a unix socket.
func (r *Resolver) walk(l *list, peer netip.Addr) (netip.Addr, How) {
	answer, how := peer, Fallback
	local := isLocal(peer)
	for elem, ok := l.next(); ok; elem, ok = l.next() {
		addr, _ := parseElement(l.format, elem)
		switch {
		case !addr.IsValid(), addr.IsLoopback() && !local:
			return netip.Addr{}, Unknown
		case !r.trusts(addr):
			return addr, Header
		}
		answer, how = addr, AllTrusted
		local = addr.IsLoopback()
	}
	if l.cut || !answer.IsValid() {
		return netip.Addr{}, Unknown
	}
	return answer, how
}

// count takes the element number r.hops. What stands to its right need not be an
// address, it only counts; but each must be known to be one element.
func (r *Resolver) count(l *list, peer netip.Addr) (netip.Addr, How) {
	local := isLocal(peer)
	for n := r.hops; ; n-- {
		elem, ok := l.next()
		if !ok {
			return netip.Addr{}, Unknown
		}
		addr, ok := parseElement(l.format, elem)
		switch {
		case !ok:
			return netip.Addr{}, Unknown
		case n > 1:
			local = addr.IsLoopback()
		case !addr.IsValid(), addr.IsLoopback() && !local:
			return netip.Addr{}, Unknown
		default:
			return addr, Header
		}
	}
}

// isLocal reports whether a peer may speak of loopback addresses: those of its
// machine are ours.
func isLocal(peer netip.Addr) bool { return !peer.IsValid() || peer.IsLoopback() }

func isUnix(remoteAddr string) bool {
	return remoteAddr == "" || remoteAddr[0] == '@' || remoteAddr[0] == '/'
}

func (r *Resolver) trusts(addr netip.Addr) bool {
	for _, p := range r.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// list hands out the elements of a header from the right, within bounds.
type list struct {
	format   format
	lines    []string // not begun
	line     string   // what is left of the line begun
	begun    bool     // whether line has another element, be it empty
	bytes    int      // that may still be read, with a comma after each line
	elements int      // that may still be handed out
	cut      bool     // there is more than may be read
}

// next returns the next element that is not empty, without the space around it.
// It reports false at the end, and sets cut if that is not the end of the header.
func (l *list) next() (string, bool) {
	for l.begun || len(l.lines) > 0 {
		if !l.begun {
			l.line, l.lines = l.lines[len(l.lines)-1], l.lines[:len(l.lines)-1]
			l.begun = true
			l.bytes-- // the comma after this line
		}
		elem, ok := l.chop()
		if !ok || elem != "" && l.elements == 0 {
			l.cut = true
			return "", false
		}
		if elem != "" {
			l.elements--
			return elem, true
		}
	}
	return "", false
}

// chop takes the last element off the line begun, with the empty ones to its right
// and the comma to its left. It returns "" if the line has none, and false if more
// bytes would have to be read.
func (l *list) chop() (string, bool) {
	if l.bytes < 0 {
		return "", false
	}
	if l.line == "" { // thousands of them may come
		l.begun = false
		return "", true
	}
	// One more byte: a comma just beyond the bound still ends an element within it.
	from := max(0, len(l.line)-l.bytes-1)
	elem := l.line[from:]
	size := len(elem)
	if l.format == single {
		elem = strings.TrimRight(elem, " \t")
	} else {
		elem = strings.TrimRight(elem, ", \t")
	}
	comma := lastComma(l.format, elem)
	size -= comma + 1
	if size > l.bytes {
		return "", false
	}
	l.bytes -= size
	if l.begun = comma >= 0; l.begun {
		l.line = l.line[:from+comma]
		l.bytes--
	}
	return strings.TrimLeft(elem[comma+1:], " \t"), true
}

// lastComma returns where the last comma is that separates elements of s, or -1.
func lastComma(f format, s string) int {
	switch f {
	case xff:
		return strings.LastIndexByte(s, ',')
	case rfc7239:
		return lastUnquotedComma(s)
	}
	return -1
}

// parseElement returns the address that an element of the list names, the zero
// Addr if it names none, and whether it is known to be one element.
func parseElement(f format, elem string) (addr netip.Addr, ok bool) {
	if f == rfc7239 {
		return parseForwarded(elem)
	}
	return parseNode(elem, false), true
}
