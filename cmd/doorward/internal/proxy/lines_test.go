package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/logs"
)

// TestRefusalLine: what a refusal says, in both forms a log has. Nothing that a caller
// sends makes a second line or a field.
func TestRefusalLine(t *testing.T) {
	var text, js bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&js, nil)} {
		a := listen(t, reads(wrong))
		s := serve(t, a.addr, func(c *Config) {
			c.Log = slog.New(h)
			c.Doors[0].Guard = lockoutGuard(t, 1)
		})
		s.from("2001:db8:1:2:3:4:5:6")
		s.post("/login")
		s.raw(request("POST", "/x/../login/\xff\xe2\x80\xa8\"level=ERROR/..?secret=1", ""))
		s.raw(request("POST", "/login/"+strings.Repeat("./", 1000), ""))
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}
	for name, log := range map[string]string{"text": text.String(), "json": js.String()} {
		if n := strings.Count(log, "\n"); n != 2 {
			t.Errorf("%s: %d lines, want 2:\n%s", name, n, log)
		}
		if strings.Contains(log, "secret") || strings.Contains(log, "3:4:5:6") {
			t.Errorf("%s: has what it must not have:\n%s", name, log)
		}
		for _, l := range strings.Split(strings.TrimSpace(log), "\n") {
			if len(l) > 600 {
				t.Errorf("%s: a line of %d bytes", name, len(l))
			}
		}
	}
	var l map[string]any
	if err := json.Unmarshal([]byte(strings.SplitN(js.String(), "\n", 2)[0]), &l); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"level": "INFO", "msg": "refused", "door": "login", "rule": "network", "reason": "locked", "retry_after": "60",
		"client": "2001:db8:1:2::/64", "how": "peer", "method": "POST", "path": "/x/../login/\ufffd\u2028\"level=ERROR/..",
	} {
		if got := fmt.Sprint(l[key]); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestFlood: under a flood of refusals the log stays small and says exactly how much
// it left out.
func TestFlood(t *testing.T) {
	a := listen(t, reads(wrong))
	s := serve(t, a.addr, func(c *Config) { c.Doors[0].Guard = lockoutGuard(t, 1) })
	s.post("/login")
	const flood = 1000
	for range 10 {
		conn := s.dial()
		for range flood / 10 {
			fmt.Fprint(conn, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		}
		fmt.Fprint(conn, "GET /bye HTTP/1.0\r\n\r\n")
		for {
			if _, err := conn.Read(make([]byte, 1<<16)); err != nil {
				break
			}
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	lines, suppressed := s.log.of("refused"), uint64(0)
	written := 0
	for _, l := range lines {
		if n, ok := l["suppressed"]; ok {
			suppressed += n.(uint64)
		}
		if l["door"] != nil {
			written++
		}
	}
	if uint64(written)+suppressed != flood {
		t.Errorf("%d lines and %d suppressed, want %d together", written, suppressed, flood)
	}
	if written < logs.Burst || written > flood/2 {
		t.Errorf("%d lines written", written)
	}
}

// TestWarnings: an application that misuses its word is named.
func TestWarnings(t *testing.T) {
	a := listen(t, reads("HTTP/1.1 200 OK\r\nDoorward-Outcome: Success\r\nContent-Length: 0\r\n\r\n"))
	s := serve(t, a.addr, func(c *Config) { c.Doors[0].Outcome = succeeded(t, "header") })
	s.post("/login")
	s.ended("failed")
	lines := s.log.of("outcome unclear")
	if len(lines) != 1 || lines[0]["door"] != "login" || !strings.Contains(lines[0]["warning"].(string), `"Success"`) {
		t.Errorf("warnings: %v", lines)
	}
}

// TestUpstreamLine: an application that is down does not go unnoticed.
func TestUpstreamLine(t *testing.T) {
	a := listen(t, reads(""))
	s := serve(t, a.addr)
	s.post("/login")
	s.post("/elsewhere?secret")
	lines := s.log.wait(t, "upstream failed", 2)
	if l := lines[0]; l["door"] != "login" || l["path"] != "/login" || l["status"] != int64(502) || !strings.Contains(fmt.Sprint(l["error"]), "EOF") {
		t.Errorf("at a door: %v", l)
	}
	if l := lines[1]; l["door"] != nil || l["path"] != "/elsewhere" {
		t.Errorf("elsewhere: %v", l)
	}
}

// TestIgnored: when there is reason to complain, and with which values.
func TestIgnored(t *testing.T) {
	t0 := time.Unix(1_700_000_000, 0)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	const m = time.Minute
	for _, row := range []struct {
		name  string
		notes []struct {
			at    time.Duration
			peer  netip.Addr
			value string
			want  string
		}
	}{
		{"second value", []note{{0, a, "1", ""}, {1, a, "1", ""}, {2, a, "2", "[1 2]"}}},
		{"one value each", []note{{0, a, "1", ""}, {1, b, "2", ""}}},
		{"once a minute", []note{{0, a, "1", ""}, {0, a, "2", "[1 2]"}, {0, b, "3", ""}, {m - 1, b, "4", ""}, {m, b, "3", "[3 4]"}}},
		{"lone value", []note{{0, a, "1", ""}, {m - 1, a, "1", ""}, {m, a, "1", "[1]"}}},
		{"bounded", []note{{0, a, "1", ""}, {0, a, "2", "[1 2]"}, {1, a, "1", ""}, {1, a, "2", ""}, {1, a, "3", ""}, {1, a, "4", ""}, {1, a, "5", ""}, {m, a, "6", "[1 2 3 4]"}}},
		{"cut", []note{{0, a, "1", ""}, {0, a, strings.Repeat("x", 65), "[1 " + strings.Repeat("x", 64) + "...]"}}},
	} {
		var i ignored
		for n, s := range row.notes {
			got := ""
			if seen := i.note(s.peer, []string{s.value}, t0.Add(s.at)); seen != nil {
				got = fmt.Sprint(seen)
			}
			if got != s.want {
				t.Errorf("%s, note %d: %q, want %q", row.name, n, got, s.want)
			}
		}
	}
	var i ignored
	for n := range 1000 {
		i.note(netip.AddrFrom4([4]byte{198, 51, byte(n >> 8), byte(n)}), []string{"1"}, t0)
		if len(i.peers) > maxPeers {
			t.Fatalf("%d peers remembered", len(i.peers))
		}
	}
	var c ignored
	for _, row := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {1, false}, {m - 1, false}, {m, true}, {2*m - 1, false}} {
		if got := c.once(&c.closed, t0.Add(row.at)); got != row.want {
			t.Errorf("once after %v: %t", row.at, got)
		}
	}
}

type note = struct {
	at    time.Duration
	peer  netip.Addr
	value string
	want  string
}

// TestBrokenAnswer: an answer that breaks off is the application's fault, and said so.
func TestBrokenAnswer(t *testing.T) {
	a := listen(t, reads("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"))
	s := serve(t, a.addr)
	conn := s.dial()
	fmt.Fprint(conn, request("GET", "/", ""))
	for {
		if _, err := conn.Read(make([]byte, 1<<10)); err != nil {
			break
		}
	}
	if l := s.log.wait(t, "upstream failed", 1)[0]; !strings.Contains(fmt.Sprint(l["error"]), "unexpected EOF") {
		t.Errorf("line: %v", l)
	}
}
