package guard

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// A list answers as one does that looks at every network, at their edges and one beyond.
func TestNetworkList(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		addr := func() netip.Addr {
			if r.IntN(2) == 0 { // near each other, so that they meet
				return netip.AddrFrom4([4]byte{byte(r.IntN(3)), 0, byte(r.IntN(4)), byte(r.IntN(256))})
			}
			return netip.AddrFrom16([16]byte{0: byte(r.IntN(3)), 7: byte(r.IntN(4)), 15: byte(r.IntN(256))})
		}
		var all []netip.Prefix
		for range r.IntN(12) {
			a := addr()
			bits := r.IntN(a.BitLen() + 1)
			if r.IntN(4) > 0 {
				bits = max(bits, a.BitLen()-10)
			}
			all = append(all, netip.PrefixFrom(a, bits).Masked())
		}
		l := newNetworkList(all)
		asked := []netip.Addr{addr(), addr(), addr(), netip.IPv4Unspecified(), netip.IPv6Unspecified(), {}}
		for _, p := range all {
			last := p.Addr()
			for b := p.Bits(); b < last.BitLen(); b++ { // the last address: all ones
				bytes := last.AsSlice()
				bytes[b/8] |= 0x80 >> (b % 8)
				last, _ = netip.AddrFromSlice(bytes)
			}
			asked = append(asked, p.Addr(), p.Addr().Prev(), last, last.Next())
		}
		for _, a := range asked {
			want := false
			for _, p := range all {
				want = want || p.Contains(a)
			}
			if l.has(a) != want {
				t.Fatalf("seed %d: %v in %v: %v, want %v", seed, a, all, !want, want)
			}
		}
	}
}
