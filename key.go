package doorward

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
)

// Key is what an attempt is charged to: a network, a name, a pair of keys, or
// everyone. It is comparable, holds no pointers, and takes 24 bytes. The zero Key
// is Unknown: an ordinary key, shared by every caller without an address.
//
// Keys of different kinds never collide: the name "192.0.2.1" is not the network.
type Key struct {
	hi, lo uint64
	kind   kind
	bits   uint8 // width of a network, 0 for the other kinds
}

type kind uint8

const (
	unknown kind = iota
	everyone
	name
	pair
	network4 // address in the low 32 bits of lo
	network6 // address in hi and lo
	loopback // 127.0.0.1 or ::1, in bits: 4 or 6
)

// MaxNameLength is how many bytes tell names apart. All longer names are one key.
const MaxNameLength = 256

// KeyFromAddr returns the key of the network that addr belongs to: the IPv4
// address itself, or the IPv6 /64 that one subscriber holds. It equals
// KeyFromPrefix(addr, 32, 64).
func KeyFromAddr(addr netip.Addr) Key { return KeyFromPrefix(addr, 32, 64) }

// KeyFromPrefix returns the key of the network of bits4 (IPv4) or bits6 (IPv6)
// bits that addr belongs to. It panics unless bits4 is 1 to 32 and bits6 1 to 64.
//
// An IPv4-mapped IPv6 address counts as its IPv4 address, and a zone is dropped.
// All of 127.0.0.0/8 is 127.0.0.1, and ::1 is itself, at every width. A 6to4
// address (2002::/16, RFC 3056) counts per /48 at the finest, since every IPv4
// address owns one. A NAT64 address (64:ff9b::/96, RFC 6052) counts as the IPv4
// address it embeds if that is globally reachable. The invalid, the unspecified,
// a multicast and the broadcast address are Unknown.
func KeyFromPrefix(addr netip.Addr, bits4, bits6 int) Key {
	if bits4 < 1 || bits4 > 32 {
		panic(fmt.Sprintf("doorward: bits4 must be 1 to 32, got %d", bits4))
	}
	if bits6 < 1 || bits6 > 64 {
		panic(fmt.Sprintf("doorward: bits6 must be 1 to 64, got %d", bits6))
	}
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return Key{}
	}
	if addr.Is4() {
		return keyFrom4(addr.As4(), bits4)
	}
	b := addr.As16()
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	switch {
	case hi == 0 && lo == 1:
		return Key{kind: loopback, bits: 6}
	case hi>>48 == 0x2002:
		bits6 = min(bits6, 48)
	case hi == 0x0064_ff9b_0000_0000 && lo>>32 == 0:
		if v4 := [4]byte(b[12:]); globallyReachable(v4) {
			return keyFrom4(v4, bits4)
		}
	}
	return Key{hi: hi &^ (1<<(64-bits6) - 1), kind: network6, bits: uint8(bits6)}
}

func keyFrom4(b [4]byte, bits int) Key {
	v := binary.BigEndian.Uint32(b[:])
	switch {
	case v == 1<<32-1:
		return Key{}
	case b[0] == 127:
		return Key{kind: loopback, bits: 4}
	}
	return Key{lo: uint64(v &^ (1<<(32-bits) - 1)), kind: network4, bits: uint8(bits)}
}

// reserved4 lists the IPv4 blocks that are not globally reachable, from the IANA
// IPv4 Special-Purpose Address Registry (RFC 6890), with multicast and class E.
var reserved4 = [...]netip.Prefix{
	prefix4(0, 0, 0, 0, 8), prefix4(10, 0, 0, 0, 8), prefix4(100, 64, 0, 0, 10), prefix4(127, 0, 0, 0, 8),
	prefix4(169, 254, 0, 0, 16), prefix4(172, 16, 0, 0, 12), prefix4(192, 0, 0, 0, 24), prefix4(192, 0, 2, 0, 24),
	prefix4(192, 88, 99, 0, 24), prefix4(192, 168, 0, 0, 16), prefix4(198, 18, 0, 0, 15), prefix4(198, 51, 100, 0, 24),
	prefix4(203, 0, 113, 0, 24), prefix4(224, 0, 0, 0, 3),
}

// reachable4 lists the two addresses inside 192.0.0.0/24 that the registry marks
// globally reachable after all.
var reachable4 = [...][4]byte{{192, 0, 0, 9}, {192, 0, 0, 10}}

func prefix4(a, b, c, d byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
}

func globallyReachable(b [4]byte) bool {
	for _, r := range reachable4 {
		if b == r {
			return true
		}
	}
	addr := netip.AddrFrom4(b)
	for _, p := range reserved4 {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

// Domain tags keep names, over-long names and pairs apart under one hash.
const (
	tagName = "doorward name 1\x00"
	tagLong = "doorward long 1\x00"
	tagPair = "doorward pair 1\x00"
)

// KeyFromName returns the key of a subject: an account, a code, a client id. The
// bytes count as they are; see package guard for canonical forms. The empty name is
// Unknown, and all names longer than MaxNameLength are one key. The key is the
// first 128 bits of a SHA-256, so no table or log holds a name in clear and nobody
// can make two names collide. Whoever holds a key can still test a guess at the
// name.
func KeyFromName(s string) Key {
	if s == "" {
		return Key{}
	}
	var buf [len(tagName) + MaxNameLength]byte
	if len(s) > MaxNameLength {
		return hashed(name, append(buf[:0], tagLong...))
	}
	return hashed(name, append(append(buf[:0], tagName...), s...))
}

// KeyFromPair returns the key of a and b together. The order counts.
func KeyFromPair(a, b Key) Key {
	var buf [len(tagPair) + 2*keyLen]byte
	return hashed(pair, b.append(a.append(append(buf[:0], tagPair...))))
}

// KeyForEveryone returns the one key that every caller shares.
func KeyForEveryone() Key { return Key{kind: everyone} }

func hashed(k kind, b []byte) Key {
	sum := sha256.Sum256(b)
	return Key{hi: binary.BigEndian.Uint64(sum[:8]), lo: binary.BigEndian.Uint64(sum[8:16]), kind: k}
}

// IsLoopback reports whether k is 127.0.0.1 or ::1, the two keys that always have
// an entry of their own.
func (k Key) IsLoopback() bool { return k.kind == loopback }

// Prefix returns the network that k stands for: a /32 or /128 for a loopback
// address, the zero Prefix for what is not a network.
func (k Key) Prefix() netip.Prefix {
	switch {
	case k.kind == network4:
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.lo))
		return netip.PrefixFrom(netip.AddrFrom4(b), int(k.bits))
	case k.kind == network6:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], k.hi)
		return netip.PrefixFrom(netip.AddrFrom16(b), int(k.bits))
	case k == Key{kind: loopback, bits: 4}:
		return prefix4(127, 0, 0, 1, 32)
	case k.kind == loopback:
		return netip.PrefixFrom(netip.IPv6Loopback(), 128)
	}
	return netip.Prefix{}
}

// String returns a network as "192.0.2.7", "192.0.2.0/24", "2001:db8:1:2::/64",
// "127.0.0.1" or "::1", a name or a pair as a short hash that tells nothing, else
// "unknown" or "everyone".
func (k Key) String() string {
	switch k.kind {
	case network4, network6, loopback:
		if p := k.Prefix(); !p.IsSingleIP() {
			return p.String()
		} else {
			return p.Addr().String()
		}
	case name:
		return "name:" + k.short()
	case pair:
		return "pair:" + k.short()
	case everyone:
		return "everyone"
	}
	return "unknown"
}

// short shows 50 of the 128 bits: enough to tell keys apart in a log by eye.
func (k Key) short() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], k.hi)
	return base32.HexEncoding.EncodeToString(b[:])[:10]
}

// LogValue makes log/slog print a Key as String does.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// keyLen is the length of a key in bytes: kind, bits, hi, lo.
const keyLen = 18

func (k Key) append(b []byte) []byte {
	b = append(b, byte(k.kind), k.bits)
	b = binary.BigEndian.AppendUint64(b, k.hi)
	return binary.BigEndian.AppendUint64(b, k.lo)
}

// AppendBinary appends the 18 bytes of k to b, the same in every process and every
// version. It never fails.
func (k Key) AppendBinary(b []byte) ([]byte, error) { return k.append(b), nil }

// MarshalBinary returns what AppendBinary appends.
func (k Key) MarshalBinary() ([]byte, error) { return k.append(nil), nil }

// UnmarshalBinary reads what AppendBinary wrote. Bytes that no key has are an error
// and leave k alone.
func (k *Key) UnmarshalBinary(b []byte) error {
	if len(b) != keyLen {
		return fmt.Errorf("doorward: Key must be %d bytes, got %d", keyLen, len(b))
	}
	n := Key{
		kind: kind(b[0]), bits: b[1],
		hi: binary.BigEndian.Uint64(b[2:10]), lo: binary.BigEndian.Uint64(b[10:18]),
	}
	if !n.valid() {
		return fmt.Errorf("doorward: Key % x is of no kind", b)
	}
	*k = n
	return nil
}

// valid reports whether k has the form of its kind.
func (k Key) valid() bool {
	switch k.kind {
	case unknown, everyone:
		return k.hi == 0 && k.lo == 0 && k.bits == 0
	case name, pair:
		return k.bits == 0
	case loopback:
		return k.hi == 0 && k.lo == 0 && (k.bits == 4 || k.bits == 6)
	case network4:
		return k.hi == 0 && k.lo>>32 == 0 && 1 <= k.bits && k.bits <= 32 && k.lo&(1<<(32-k.bits)-1) == 0
	case network6:
		return k.lo == 0 && 1 <= k.bits && k.bits <= 64 && k.hi&(1<<(64-k.bits)-1) == 0
	}
	return false
}
