package clientip_test

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/doorward/doorward/clientip"
)

// The reference reads the whole header from the left, with regular expressions,
// and finds the elements of Forwarded by trying every comma.

var (
	refPort4   = regexp.MustCompile(`^([^:\[\]]*):(\d{1,5})$`)
	refBracket = regexp.MustCompile(`^\[([^\]]*:[^\]]*)\](?::(\d{1,5}))?$`)
	refZone    = regexp.MustCompile(`^([^%]*:[^%]*)%[!#-\[\]-~]+$`)
	refObfPort = regexp.MustCompile(`:_[A-Za-z0-9._-]+$`)

	refToken  = "[-!#$%&'*+.^_`|~0-9A-Za-z]+"
	refQuoted = `"(?:[\t !#-\[\]-~\x80-\xff]|\\[\x00-\xff])*"`
	refPair   = refToken + `=(?:` + refQuoted + `|[!#-+\--:<-\[\]-~]*)`
	refElem   = regexp.MustCompile(`^(?s:[ \t]*(?:` + refPair + `)?[ \t]*(?:;[ \t]*(?:` + refPair + `)?[ \t]*)*)$`)
	refPairs  = regexp.MustCompile(`(?s:` + refQuoted + `|;|[^";]+)`)
)

func refNode(s string) netip.Addr {
	port := ""
	if m := refPort4.FindStringSubmatch(s); m != nil {
		s, port = m[1], m[2]
		if strings.ContainsAny(s, ":%") {
			return netip.Addr{}
		}
	} else if m := refBracket.FindStringSubmatch(s); m != nil {
		s, port = m[1], m[2]
	}
	if n, _ := strconv.Atoi(port); n > 65535 {
		return netip.Addr{}
	}
	if m := refZone.FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	addr, err := netip.ParseAddr(s)
	addr = addr.Unmap()
	if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() || addr.String() == "255.255.255.255" {
		return netip.Addr{}
	}
	return addr
}

// latin1 makes every byte one character, so that a regular expression sees bytes.
func latin1(s string) string {
	b := make([]rune, len(s))
	for i := range b {
		b[i] = rune(s[i])
	}
	return string(b)
}

func refFor(elem string) netip.Addr {
	if !refElem.MatchString(latin1(elem)) {
		return netip.Addr{}
	}
	// Cut the element into pairs: at semicolons outside quoted strings.
	pairs := []string{""}
	for _, part := range refPairs.FindAllString(latin1(elem), -1) {
		if part == ";" {
			pairs = append(pairs, "")
		} else {
			pairs[len(pairs)-1] += part
		}
	}
	var found []netip.Addr
	for _, pair := range pairs {
		name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if strings.ToLower(name) != "for" {
			continue
		}
		bare := strings.Trim(value, `"`)
		switch {
		case value == bare && strings.Contains(value, ":"), strings.Contains(bare, `\`), strings.Count(bare, ":") > 1 && bare[0] != '[':
			found = append(found, netip.Addr{})
		default:
			found = append(found, refNode(refObfPort.ReplaceAllString(bare, "")))
		}
	}
	if len(found) != 1 {
		return netip.Addr{}
	}
	return found[0]
}

// refElements returns the elements of X-Forwarded-For or of Forwarded, from the
// right. In Forwarded, the last element of a line is the one text after a comma, or
// the whole line, that is well-formed; if there is none, it is the line.
func refElements(header string, values []string) []string {
	var elems []string
	add := func(e string) {
		if e = strings.Trim(e, " \t"); e != "" {
			elems = append(elems, e)
		}
	}
	for i := len(values) - 1; i >= 0; i-- {
		parts := strings.Split(values[i], ",")
		if header == "X-Forwarded-For" {
			for j := len(parts) - 1; j >= 0; j-- {
				add(parts[j])
			}
			continue
		}
		for len(parts) > 0 {
			cut := 0
			for j := len(parts) - 1; j >= 0; j-- {
				if refElem.MatchString(latin1(strings.Join(parts[j:], ","))) {
					if cut != 0 {
						panic("two well-formed elements end " + values[i])
					}
					cut = j
					if strings.Trim(strings.Join(parts[j:], ","), " \t") == "" {
						break // an empty element is a suffix of nothing
					}
				}
			}
			add(strings.Join(parts[cut:], ","))
			parts = parts[:cut]
		}
	}
	return elems
}

// reference is Resolve for a peer with an address, without the bound on bytes.
func reference(c clientip.Config, peer netip.Addr, values []string) (netip.Addr, clientip.How) {
	trusted := func(a netip.Addr) bool {
		for _, p := range c.Trusted {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	parse := refNode
	if c.Header == "Forwarded" {
		parse = refFor
	}
	if c.Hops == 0 && !trusted(peer) {
		return peer, clientip.Peer
	}
	addrs := []netip.Addr{peer}
	elems := refElements(c.Header, values)
	for _, e := range elems {
		addrs = append(addrs, parse(e))
	}
	claimed := func(i int) bool { return addrs[i].IsLoopback() && !addrs[i-1].IsLoopback() }
	if c.Hops > 0 {
		for i, e := range elems {
			if c.Header == "Forwarded" && i < c.Hops && !refElem.MatchString(latin1(e)) {
				return netip.Addr{}, clientip.Unknown
			}
		}
		if len(elems) < c.Hops || !addrs[c.Hops].IsValid() || claimed(c.Hops) {
			return netip.Addr{}, clientip.Unknown
		}
		return addrs[c.Hops], clientip.Header
	}
	for i := 1; i < len(addrs); i++ {
		if i > 32 || !addrs[i].IsValid() || claimed(i) {
			return netip.Addr{}, clientip.Unknown
		}
		if !trusted(addrs[i]) {
			return addrs[i], clientip.Header
		}
	}
	if len(elems) == 0 {
		return peer, clientip.Fallback
	}
	return addrs[len(addrs)-1], clientip.AllTrusted
}
