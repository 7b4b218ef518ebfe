package preamble

import (
	"encoding/hex"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
)

// from is a connection from where a test says.
type from struct {
	net.Conn
	remote net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.remote }
func (f from) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80} }

func tcp(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

const signature = "\r\n\r\n\x00\r\nQUIT\n"

// v2 makes a preamble of version 2 from hexadecimal.
func v2(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return signature + string(b)
}

// read has text, cut into pieces at "|", read from a peer, and returns whose the
// connection is and what follows.
func read(t *testing.T, peer net.Addr, text string) (who string, rest string, err error) {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		defer here.Close()
		for piece := range strings.SplitSeq(text, "|") {
			if _, err := io.WriteString(here, piece); err != nil {
				return
			}
		}
	}()
	c, err := Read(from{there, peer}, time.Second)
	if err != nil {
		return "", "", err
	}
	addr, _ := Addr(c)
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if c.LocalAddr().Network() == "unix" {
		t.Error("a declared end is taken for a unix socket, which may be trusted")
	}
	return doorward.KeyFromAddr(addr).String(), string(b), nil
}

const bad = "error"

func TestRead(t *testing.T) {
	addr4 := "c6336416 cb007107 8b3e 0050" // 198.51.100.22
	addr6 := "20010db8000100020000000000000001 20010db8000000000000000000000009 8b3e 0050"
	unix := strings.Repeat("00", 216)
	for _, row := range []struct{ id, peer, text, want string }{
		// The vectors of clientip.tsv that are for this place.
		{"P52", "10.0.0.2", "PROXY TCP4 198.51.100.22 203.0.113.7 35646 80\r\n", "198.51.100.22"},
		{"P53", "10.0.0.2", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "10.0.0.2"},
		{"unknown", "10.0.0.2", "PROXY UNKNOWN\r\n", "10.0.0.2"},
		{"tcp6", "10.0.0.2", "PROXY TCP6 2001:db8:1:2::1 2001:db8::9 1 2\r\n", "2001:db8:1:2::/64"},
		{"longest", "10.0.0.2", "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", "10.0.0.2"},
		{"too long", "10.0.0.2", "PROXY UNKNOWN " + strings.Repeat("x", 200) + "\r\n", bad},
		{"leading zero", "10.0.0.2", "PROXY TCP4 198.51.100.022 203.0.113.7 1 80\r\n", bad},
		{"two spaces", "10.0.0.2", "PROXY  TCP4 198.51.100.22 203.0.113.7 1 80\r\n", bad},
		{"bare LF", "10.0.0.2", "PROXY TCP4 198.51.100.22 203.0.113.7 1 80\n", bad},
		{"port", "10.0.0.2", "PROXY TCP4 198.51.100.22 203.0.113.7 65536 80\r\n", bad},
		{"family", "10.0.0.2", "PROXY TCP4 2001:db8::1 2001:db8::2 1 80\r\n", bad},
		{"udp", "10.0.0.2", "PROXY UDP4 198.51.100.22 203.0.113.7 1 80\r\n", bad},
		{"zone", "10.0.0.2", "PROXY TCP6 fe80::1%eth0 2001:db8::2 1 80\r\n", bad},
		{"lower case", "10.0.0.2", "proxy TCP4 198.51.100.22 203.0.113.7 1 80\r\n", bad},
		{"none", "10.0.0.2", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", bad},
		{"nothing", "10.0.0.2", "", bad},
		{"in pieces", "10.0.0.2", "PROXY TCP4 |198.51.100.22 203.0.113.7 1 80\r\n", bad}, // it must be sent at once
		{"loopback claimed", "10.0.0.2", "PROXY TCP4 127.0.0.1 203.0.113.7 1 80\r\n", "unknown"},
		{"loopback claimed, mapped", "10.0.0.2", "PROXY TCP6 ::ffff:127.0.0.1 2001:db8::9 1 80\r\n", "unknown"},
		{"loopback claimed, 6", "10.0.0.2", "PROXY TCP6 ::1 2001:db8::9 1 80\r\n", "unknown"},
		{"loopback of its own", "127.0.0.1", "PROXY TCP4 127.0.0.1 203.0.113.7 1 80\r\n", "127.0.0.1"},
		{"unspecified", "10.0.0.2", "PROXY TCP4 0.0.0.0 203.0.113.7 1 80\r\n", "unknown"},
		{"mapped", "10.0.0.2", "PROXY TCP6 ::ffff:198.51.100.22 2001:db8::9 1 80\r\n", "198.51.100.22"},

		{"v2 tcp4", "10.0.0.2", v2(t, "21 11 000c"+addr4), "198.51.100.22"},
		{"v2 tcp6", "10.0.0.2", v2(t, "21 21 0024"+addr6), "2001:db8:1:2::/64"},
		{"v2 TLV", "10.0.0.2", v2(t, "21 11 0013"+addr4+"04 0004 00000000"), "198.51.100.22"},
		{"v2 broken TLV", "10.0.0.2", v2(t, "21 11 000f"+addr4+"04 ffff"), "198.51.100.22"}, // they are not read
		{"v2 in pieces", "10.0.0.2", signature[:3] + "|" + signature[3:] + "|" + v2(t, "21 11 000c"+addr4)[12:], "198.51.100.22"},
		{"v2 local", "10.0.0.2", v2(t, "20 00 0000"), "10.0.0.2"},
		{"v2 local with address", "10.0.0.2", v2(t, "20 11 000c"+addr4), "10.0.0.2"},
		{"v2 unspecified", "10.0.0.2", v2(t, "21 00 0000"), bad},
		{"v2 udp4", "10.0.0.2", v2(t, "21 12 000c"+addr4), bad},
		{"v2 udp6", "10.0.0.2", v2(t, "21 22 0024"+addr6), bad},
		{"v2 unix", "10.0.0.2", v2(t, "21 31 00d8"+unix), "unknown"},
		{"v2 unix datagram", "10.0.0.2", v2(t, "21 32 00d8"+unix), bad},
		{"v2 no family", "10.0.0.2", v2(t, "21 13 000c"+addr4), bad},
		{"v2 version 1", "10.0.0.2", v2(t, "11 11 000c"+addr4), bad},
		{"v2 command", "10.0.0.2", v2(t, "22 11 000c"+addr4), bad},
		{"v2 short", "10.0.0.2", v2(t, "21 11 000b"+addr4), bad},
		{"v2 cut off", "10.0.0.2", v2(t, "21 11 000c c6336416"), bad},
		{"v2 huge", "10.0.0.2", v2(t, "21 11 ffff"+addr4+strings.Repeat("00", 65535-12)), bad},
	} {
		for _, rest := range []string{"", "GET / HTTP/1.1\r\n", strings.Repeat("x", 5000)} {
			if rest != "" && row.id == "v2 cut off" {
				continue // what follows would complete it
			}
			text := row.text + rest
			got, more, err := read(t, tcp(row.peer), text)
			if err != nil {
				got, more = bad, rest
			}
			if got != row.want || more != rest {
				t.Errorf("%s: %s (%v) and %d bytes, want %s and %d", row.id, got, err, len(more), row.want, len(rest))
			}
		}
	}
	if _, _, err := read(t, tcp("10.0.0.2"), ""); err != io.EOF {
		t.Errorf("who says nothing: %v, want io.EOF", err)
	}
	// A proxy on a unix socket of ours may speak of this machine's addresses.
	if got, _, err := read(t, &net.UnixAddr{Net: "unix"}, "PROXY TCP4 127.0.0.1 203.0.113.7 1 80\r\n"); got != "127.0.0.1" {
		t.Errorf("unix peer: %s, %v", got, err)
	}
}

// TestTimeout: a preamble that does not come ends in time, to the nanosecond.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		begun := time.Now()
		go io.WriteString(here, signature[:5])
		if _, err := Read(from{there, tcp("10.0.0.2")}, 3*time.Second); err == nil || !os.IsTimeout(err) {
			t.Errorf("error %v", err)
		}
		if d := time.Since(begun); d != 3*time.Second {
			t.Errorf("after %v, want 3 s", d)
		}
	})
}
