package guard

import (
	"cmp"
	"net/netip"
	"slices"
)

// A networkList finds whether an address is in one of its networks in the logarithm of their
// number: they are in order, and none is within another.
type networkList []netip.Prefix

func newNetworkList(prefixes []netip.Prefix) networkList {
	if len(prefixes) == 0 {
		return nil
	}
	l := slices.SortedFunc(slices.Values(prefixes), func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	last := 0 // of those that are kept
	for _, p := range l[1:] {
		// Two networks overlap only if one is within the other, the one that comes later.
		if !l[last].Overlaps(p) {
			last++
			l[last] = p
		}
	}
	return l[:last+1]
}

// has reports whether addr, which has no zone and is no IPv4-mapped one, is in the list.
func (l networkList) has(addr netip.Addr) bool {
	// The last network that begins at addr or before it is the only one that may have it.
	n, found := slices.BinarySearchFunc(l, addr, func(p netip.Prefix, addr netip.Addr) int { return p.Addr().Compare(addr) })
	return found || n > 0 && l[n-1].Contains(addr)
}
