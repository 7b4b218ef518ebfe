package doorward_test

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/doorward/doorward"
)

// addr reads an address; what is none is the zero Addr.
func addr(s string) netip.Addr {
	a, _ := netip.ParseAddr(s)
	return a
}

func network(s string) doorward.Key { return doorward.KeyFromAddr(addr(s)) }

func TestAddressVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/addresses.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(file)), "\n")[1:]
	if len(rows) != 54 {
		t.Fatalf("%d rows, want 54", len(rows))
	}
	for _, row := range rows {
		col := strings.Split(row, "\t")
		if got := network(col[1]).String(); got != col[2] {
			t.Errorf("%s: %s counts as %s, want %s: %s", col[0], col[1], got, col[2], col[3])
		}
	}
}

func TestNetworks(t *testing.T) {
	for _, row := range []struct {
		rule, addr   string
		bits4, bits6 int
		want         string
	}{
		{"K1 IPv4 per address", "192.0.2.7", 32, 64, "192.0.2.7"},
		{"K1 IPv4 wider", "192.0.2.7", 24, 64, "192.0.2.0/24"},
		{"K1 IPv4 widest", "192.0.2.7", 1, 64, "128.0.0.0/1"},
		{"K1 mapped", "::ffff:192.0.2.7", 24, 64, "192.0.2.0/24"},
		{"K1 IPv6 per /64", "2001:db8:1:2:3::", 32, 64, "2001:db8:1:2::/64"},
		{"K1 IPv6 wider", "2001:db8:1:2:3::", 32, 48, "2001:db8:1::/48"},
		{"K1 IPv6 widest", "2001:db8:1:2:3::", 32, 1, "::/1"},
		{"K1 zone", "fe80::1%eth0", 32, 64, "fe80::/64"},
		{"K1 zone of a mapped address", "::ffff:192.0.2.7%eth0", 32, 64, "192.0.2.7"},
		{"K2 127/8", "127.255.255.255", 32, 64, "127.0.0.1"},
		{"K2 127/8 at every width", "127.1.2.3", 1, 1, "127.0.0.1"},
		{"K2 127/8 mapped", "::ffff:127.1.2.3", 8, 8, "127.0.0.1"},
		{"K2 ::1 at every width", "::1", 32, 1, "::1"},
		{"K2 ::1 with a zone", "::1%lo", 32, 64, "::1"},
		{"K2 126 is none of it", "126.255.255.255", 32, 64, "126.255.255.255"},
		{"K2 128 is none of it", "128.0.0.0", 32, 64, "128.0.0.0"},
		{"K3 6to4 per /48", "2002:c000:207:1::1", 32, 64, "2002:c000:207::/48"},
		{"K3 6to4 wider", "2002:c000:207:1::1", 32, 32, "2002:c000::/32"},
		{"K3 2003 is none of it", "2003:c000:207:1::1", 32, 64, "2003:c000:207:1::/64"},
		{"K3 NAT64", "64:ff9b::8.8.8.8", 32, 64, "8.8.8.8"},
		{"K3 NAT64 with bits4", "64:ff9b::8.8.8.8", 24, 64, "8.8.8.0/24"},
		{"K3 NAT64 of loopback", "64:ff9b::127.0.0.1", 32, 64, "64:ff9b::/64"},
		{"K3 NAT64 of private", "64:ff9b::192.168.1.1", 24, 48, "64:ff9b::/48"},
		{"K3 NAT64 of shared", "64:ff9b::100.64.0.1", 32, 64, "64:ff9b::/64"},
		{"K3 NAT64 of multicast", "64:ff9b::224.0.0.1", 32, 64, "64:ff9b::/64"},
		{"K3 NAT64 of broadcast", "64:ff9b::255.255.255.255", 32, 64, "64:ff9b::/64"},
		{"K3 NAT64 below private", "64:ff9b::172.15.255.255", 32, 64, "172.15.255.255"},
		{"K3 NAT64 first private", "64:ff9b::172.16.0.0", 32, 64, "64:ff9b::/64"},
		{"K3 NAT64 last private", "64:ff9b::172.31.255.255", 32, 64, "64:ff9b::/64"},
		{"K3 NAT64 above private", "64:ff9b::172.32.0.0", 32, 64, "172.32.0.0"},
		{"K3 beside NAT64", "64:ff9b::1:8.8.8.8", 32, 64, "64:ff9b::/64"},
		{"K4 none", "", 32, 64, "unknown"},
		{"K4 unspecified", "0.0.0.0", 8, 64, "unknown"},
		{"K4 unspecified, wide", "::", 32, 1, "unknown"},
		{"K4 unspecified with a zone", "::%eth0", 32, 64, "unknown"},
		{"K4 multicast", "239.255.255.255", 1, 64, "unknown"},
		{"K4 multicast mapped", "::ffff:224.0.0.1", 32, 64, "unknown"},
		{"K4 multicast IPv6", "ff05::2", 32, 8, "unknown"},
		{"K4 broadcast", "255.255.255.255", 1, 64, "unknown"},
		{"K4 beside broadcast", "255.255.255.254", 32, 64, "255.255.255.254"},
	} {
		if got := doorward.KeyFromPrefix(addr(row.addr), row.bits4, row.bits6).String(); got != row.want {
			t.Errorf("%s: KeyFromPrefix(%s, %d, %d) = %s, want %s", row.rule, row.addr, row.bits4, row.bits6, got, row.want)
		}
	}
	if network("64:ff9b::8.8.8.8") != network("8.8.8.8") || network("::ffff:8.8.8.8") != network("8.8.8.8") {
		t.Error("K1, K3: one IPv4 address has two keys")
	}
}

// Widths outside 1..32 and 1..64 are a mistake in the program.
func TestPrefixPanics(t *testing.T) {
	for _, bits := range [][2]int{{0, 64}, {33, 64}, {-1, 64}, {32, 0}, {32, 65}, {32, 128}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("KeyFromPrefix with %v did not panic", bits)
				}
			}()
			doorward.KeyFromPrefix(addr("192.0.2.1"), bits[0], bits[1])
		}()
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", doorward.MaxNameLength)
	name := doorward.KeyFromName
	for _, row := range []struct {
		rule string
		a, b doorward.Key
		same bool
	}{
		{"K5 the bytes count", name("alice"), name("Alice"), false},
		{"K5 same in, same out", name("alice"), name("alice"), true},
		{"K5 empty is Unknown", name(""), doorward.Key{}, true},
		{"K5 256 bytes tell apart", name(long), name(long[1:] + "y"), false},
		{"K5 257 bytes are one key", name(long + "x"), name(long + "y"), true},
		{"K5 longer ones too", name(long + "x"), name(long + long + long), true},
		{"K5 and not that of a shorter one", name(long), name(long + "x"), false},
		{"K6 a name is not the network", name("192.0.2.1"), network("192.0.2.1"), false},
		{"K6 nor unknown", name("unknown"), doorward.Key{}, false},
		{"K6 nor everyone", name("everyone"), doorward.KeyForEveryone(), false},
		{"K6 everyone is not unknown", doorward.KeyForEveryone(), doorward.Key{}, false},
		{"K6 a pair of Unknowns is not Unknown", doorward.KeyFromPair(doorward.Key{}, doorward.Key{}), doorward.Key{}, false},
		{"K6 a pair is ordered", doorward.KeyFromPair(name("a"), name("b")), doorward.KeyFromPair(name("b"), name("a")), false},
		{"K6 a pair is both", doorward.KeyFromPair(name("a"), name("b")), doorward.KeyFromPair(name("a"), name("c")), false},
		{"K6 and either", doorward.KeyFromPair(name("a"), name("b")), doorward.KeyFromPair(name("c"), name("b")), false},
		{"K6 widths tell apart", doorward.KeyFromPrefix(addr("10.0.0.0"), 24, 64), doorward.KeyFromPrefix(addr("10.0.0.0"), 32, 64), false},
		{"K6 families too", doorward.KeyFromPrefix(addr("0.0.0.1"), 32, 64), doorward.KeyFromPrefix(addr("::2"), 32, 32), false},
	} {
		if (row.a == row.b) != row.same {
			t.Errorf("%s: %v and %v", row.rule, row.a, row.b)
		}
	}
	for _, k := range []doorward.Key{name("alice"), doorward.KeyFromPair(name("alice"), network("192.0.2.1"))} {
		if s := k.String(); strings.Contains(s, "alice") || strings.Contains(s, "192") || len(s) > 16 {
			t.Errorf("K7: %q is not short and opaque", s)
		}
	}
}

// The bytes of a key are written down, in files and stores: they never change. Those of
// names and pairs were computed with another program.
var golden = []struct {
	key    doorward.Key
	text   string
	binary string
}{
	{doorward.Key{}, "unknown", "0000 0000000000000000 0000000000000000"},
	{doorward.KeyForEveryone(), "everyone", "0100 0000000000000000 0000000000000000"},
	{network("192.0.2.7"), "192.0.2.7", "0420 0000000000000000 00000000c0000207"},
	{doorward.KeyFromPrefix(addr("192.0.2.7"), 24, 64), "192.0.2.0/24", "0418 0000000000000000 00000000c0000200"},
	{network("2001:db8:1:2::3"), "2001:db8:1:2::/64", "0540 20010db800010002 0000000000000000"},
	{network("127.0.0.1"), "127.0.0.1", "0604 0000000000000000 0000000000000000"},
	{network("::1"), "::1", "0606 0000000000000000 0000000000000000"},
	{doorward.KeyFromName("alice"), "name:SSMHJBFHDG", "0200 e72d19adf16c2396 345f534636614134"},
	{doorward.KeyFromName(strings.Repeat("x", 257)), "name:SKQ56DL3RB", "0200 e5345336a3dade2f 502479eb9670b3fe"},
	{doorward.KeyFromPair(network("192.0.2.7"), doorward.KeyFromName("alice")), "pair:O2E1TK82CG", "0300 c09c1ed102640eae bf3f6161473b89fa"},
}

func TestGolden(t *testing.T) {
	for _, row := range golden {
		if got := row.key.String(); got != row.text {
			t.Errorf("K7: String() = %s, want %s", got, row.text)
		}
		want, err := hex.DecodeString(strings.ReplaceAll(row.binary, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		got, err := row.key.AppendBinary([]byte("before"))
		if err != nil || string(got) != "before"+string(want) {
			t.Errorf("AppendBinary of %s = % x, %v, want % x", row.text, got, err, want)
		}
		var back doorward.Key
		if err := back.UnmarshalBinary(want); err != nil || back != row.key {
			t.Errorf("UnmarshalBinary of %s = %v, %v", row.text, back, err)
		}
	}
}

func TestUnmarshalRejects(t *testing.T) {
	for what, b := range map[string]string{
		"nothing":             "",
		"a byte short":        "0000 0000000000000000 00000000000000",
		"a byte long":         "0000 0000000000000000 000000000000000000",
		"no such kind":        "0700 0000000000000000 0000000000000000",
		"unknown and more":    "0000 0000000000000000 0000000000000001",
		"everyone and a bit":  "0101 0000000000000000 0000000000000000",
		"a name with a width": "0201 e72d19adf16c2396 345f534636614134",
		"IPv4 /0":             "0400 0000000000000000 0000000000000000",
		"IPv4 /33":            "0421 0000000000000000 00000000c0000200",
		"IPv4 host bits":      "0418 0000000000000000 00000000c0000201",
		"IPv4 above 32 bits":  "0420 0000000000000000 00000001c0000201",
		"IPv6 /0":             "0500 0000000000000000 0000000000000000",
		"IPv6 /65":            "0541 20010db800010002 0000000000000000",
		"IPv6 host bits":      "0530 20010db800010002 0000000000000000",
		"IPv6 below /64":      "0540 20010db800010002 0000000000000001",
		"a third loopback":    "0605 0000000000000000 0000000000000000",
		"a loopback and more": "0604 0000000000000000 000000007f000001",
	} {
		bin, err := hex.DecodeString(strings.ReplaceAll(b, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		k := network("192.0.2.7")
		if err := k.UnmarshalBinary(bin); err == nil || !strings.HasPrefix(err.Error(), "doorward: Key ") {
			t.Errorf("%s: %v, error %v", what, k, err)
		}
		if k != network("192.0.2.7") {
			t.Errorf("%s: the error changed the key to %v", what, k)
		}
	}
}

func TestKeySizes(t *testing.T) {
	if n := unsafe.Sizeof(doorward.Key{}); n > 24 {
		t.Errorf("a Key takes %d bytes, want at most 24", n)
	}
	if n := unsafe.Sizeof(doorward.Ticket{}); n != 16 {
		t.Errorf("a Ticket takes %d bytes, want 16", n)
	}
}

func TestKeyInLogs(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("refused", "key", network("2001:db8::1"), "subject", doorward.KeyFromName("alice"))
	want := "level=INFO msg=refused key=2001:db8::/64 subject=name:SSMHJBFHDG\n"
	if out.String() != want {
		t.Errorf("logged %q, want %q", out.String(), want)
	}
}

func FuzzKeyFromAddr(f *testing.F) {
	f.Add([]byte{192, 0, 2, 7}, 24, 48)
	f.Add([]byte("\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00\x08\x08\x08\x08"), 32, 64)
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x08\x08\x08"), 8, 64)
	f.Fuzz(func(t *testing.T, b []byte, bits4, bits6 int) {
		a, ok := netip.AddrFromSlice(b)
		if !ok || bits4 < 1 || bits4 > 32 || bits6 < 1 || bits6 > 64 {
			t.Skip()
		}
		k := doorward.KeyFromPrefix(a, bits4, bits6)
		if k != doorward.KeyFromPrefix(a.WithZone("z"), bits4, bits6) || k != doorward.KeyFromPrefix(a.Unmap(), bits4, bits6) {
			t.Error("K1: zone or notation changed the key")
		}
		if a.Unmap().IsLoopback() && k != network(a.Unmap().String()) || a.Unmap().IsLoopback() != k.IsLoopback() {
			t.Error("K2: loopback depends on the width")
		}
		if p := k.Prefix(); p.IsValid() && p != p.Masked() {
			t.Error("a network with host bits")
		}
		var back doorward.Key
		if b, _ := k.AppendBinary(nil); back.UnmarshalBinary(b) != nil || back != k {
			t.Errorf("%v came back from its bytes as %v", k, back)
		}
	})
}

func FuzzKeyBytes(f *testing.F) {
	for _, row := range golden {
		b, _ := row.key.AppendBinary(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var k doorward.Key
		if k.UnmarshalBinary(b) != nil {
			return
		}
		if got, _ := k.AppendBinary(nil); !bytes.Equal(got, b) {
			t.Errorf("% x was read as %v, which is % x", b, k, got)
		}
	})
}
