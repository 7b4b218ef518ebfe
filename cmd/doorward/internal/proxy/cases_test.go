package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/door"
)

// A step is one attempt of a case: from a peer, with header lines. Those with the
// right password say so. It is admitted, or refused with a Retry-After of refuse
// seconds; a case takes no time here, so that is what the case has, plus its time.
type step struct {
	peer   string
	lines  []string
	right  bool
	refuse int
	client string // whom the log says was charged
}

func xff(values ...string) (lines []string) {
	for _, v := range values {
		lines = append(lines, "X-Forwarded-For: "+v)
	}
	return lines
}

func times(n int, s step) []step { return slices.Repeat([]step{s}, n) }

func (s *site) run(name string, steps []step) {
	s.t.Helper()
	for i, st := range steps {
		if st.peer != "" {
			s.from(st.peer)
		}
		pass, status := "wrong", 200
		if st.right {
			pass, status = "right", 302
		}
		res, _ := s.raw(request("POST", "/login", "user=a&pass="+pass, append(st.lines, formType)...))
		if st.refuse > 0 {
			status = 429
		}
		if res.StatusCode != status {
			s.t.Errorf("%s, step %d: status %d, want %d", name, i, res.StatusCode, status)
		}
		if st.refuse > 0 {
			// A second or two may have passed.
			if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || n > st.refuse || n < st.refuse-15 {
				s.t.Errorf("%s, step %d: Retry-After %q, want %d", name, i, res.Header.Get("Retry-After"), st.refuse)
			}
			lines := s.log.of("refused")
			if got := lines[len(lines)-1]["client"]; st.client != "" && got != st.client {
				s.t.Errorf("%s, step %d: client %v, want %s", name, i, got, st.client)
			}
		} else if st.client != "" {
			lines := s.log.of("settled")
			if got := lines[len(lines)-1]["client"]; got != st.client {
				s.t.Errorf("%s, step %d: client %v, want %s", name, i, got, st.client)
			}
		}
	}
}

// TestP07: everyone behind an untrusted proxy is one client, and the operator is told.
func TestP07(t *testing.T) {
	addr, _ := loginApp(t)
	s := serve(t, addr, trusting(t, "X-Forwarded-For", "192.0.2.1/32"))
	one := step{peer: "192.0.2.1", lines: xff("198.51.100.7"), client: "198.51.100.7"}
	refused := one
	refused.refuse = 60
	s.run("config A", append(times(5, one), refused,
		step{peer: "192.0.2.1", lines: xff("198.51.100.8"), right: true, client: "198.51.100.8"}))
	if n := len(s.log.of("forwarded addresses are ignored")); n != 0 {
		t.Errorf("config A: %d warnings", n)
	}

	s = serve(t, addr, func(c *Config) { c.ClientsConfigured = false })
	one.client, refused.client = "192.0.2.1", "192.0.2.1"
	s.run("config B", append(times(5, one), refused))
	if n := len(s.log.of("forwarded addresses are ignored")); n != 0 {
		t.Errorf("config B: %d warnings after one value", n)
	}
	refused.lines = xff("198.51.100.8")
	s.run("config B", times(3, refused))
	warnings := s.log.of("forwarded addresses are ignored")
	if len(warnings) != 1 {
		t.Fatalf("config B: %d warnings, want 1", len(warnings))
	}
	w := warnings[0]
	if w["peer"] != "192.0.2.1" || fmt.Sprint(w["ignored"]) != "[198.51.100.7 198.51.100.8]" {
		t.Errorf("config B: warning %v", w)
	}
	if w["if_it_is_a_proxy"] != "clients: {header: X-Forwarded-For, trusted_proxies: [192.0.2.1/32]}" || w["flags"] != "--trusted-proxy 192.0.2.1/32 --client-header X-Forwarded-For" {
		t.Errorf("config B: warning %v", w)
	}
}

// TestP08: the rightmost untrusted hop is the client; junk never breaks the request.
func TestP08(t *testing.T) {
	addr, _ := loginApp(t)
	s := serve(t, addr, trusting(t, "X-Forwarded-For", "192.0.2.1/32"), func(c *Config) { c.Doors[0].Guard = lockoutGuard(t, 2) })
	const peer = "192.0.2.1"
	s.run("P08", []step{
		{peer: peer, lines: xff("203.0.113.66, 198.51.100.7"), client: "198.51.100.7"},
		{peer: peer, lines: xff("203.0.113.67, 198.51.100.7"), client: "198.51.100.7"},
		{peer: peer, lines: xff("203.0.113.68, 198.51.100.7"), client: "198.51.100.7", refuse: 60},
		{peer: peer, lines: xff("203.0.113.66"), client: "203.0.113.66"},
		{peer: peer, lines: xff("not an address"), client: "unknown"},
		{peer: peer, lines: xff("203.0.113.1", "198.51.100.7"), client: "198.51.100.7", refuse: 60},
	})
}

// TestP09: forwarding headers from a peer that is not a proxy are ignored.
func TestP09(t *testing.T) {
	addr, _ := loginApp(t)
	for _, configured := range []bool{false, true} {
		for _, header := range []string{"X-Forwarded-For: %s", "X-Real-IP: %s", "True-Client-IP: %s", "CF-Connecting-IP: %s", "Forwarded: for=%s", "X_Forwarded_For: %s"} {
			s := serve(t, addr, func(c *Config) { c.ClientsConfigured = configured })
			var steps []step
			for i := range 6 {
				st := step{peer: "198.51.100.7", lines: []string{fmt.Sprintf(header, fmt.Sprintf("203.0.113.%d", i+1))}, client: "198.51.100.7"}
				if i == 5 {
					st.refuse = 60
				}
				steps = append(steps, st)
			}
			s.run(header, append(steps, step{peer: "203.0.113.1", client: "203.0.113.1"}))
		}
	}
}

// TestP10: the peer of a unix socket has no address. Here it has a name that reads
// like one, which does not help it.
func TestP10(t *testing.T) {
	addr, _ := loginApp(t)
	for _, trusted := range []bool{false, true} {
		dir := t.TempDir()
		t.Chdir(dir)
		const path = "door.sock"
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		s := serveOn(t, ln, addr, func(c *Config) {
			c.Doors[0].Guard = lockoutGuard(t, 2)
			if trusted {
				r, err := clientip.New(clientip.Config{Header: "X-Forwarded-For", TrustUnix: true})
				if err != nil {
					t.Fatal(err)
				}
				c.Clients = r
			}
		})
		dials := 0
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				dials++
				name := fmt.Sprintf("198.51.100.9:%d", dials)
				return (&net.Dialer{LocalAddr: &net.UnixAddr{Name: name, Net: "unix"}}).DialContext(ctx, "unix", path)
			},
		}}
		post := func(forwarded string) int {
			req, _ := http.NewRequest("POST", "http://x/login", strings.NewReader("pass=wrong"))
			if forwarded != "" {
				req.Header.Set("X-Forwarded-For", forwarded)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			return res.StatusCode
		}
		for i, want := range []int{200, 200, 429} {
			if got := post(""); got != want {
				t.Errorf("trusted %t, try %d: status %d, want %d", trusted, i, got, want)
			}
		}
		want := 429
		if trusted {
			want = 200
		}
		if got := post("198.51.100.7"); got != want {
			t.Errorf("trusted %t, forwarded: status %d, want %d", trusted, got, want)
		}
		for _, l := range s.log.of("refused") {
			if l["client"] != "unknown" {
				t.Errorf("trusted %t: refused client %v", trusted, l["client"])
			}
		}
	}
}

// TestP12: every spelling of the login path meets the same rule.
func TestP12(t *testing.T) {
	for _, fold := range []bool{false, true} {
		a := listen(t, reads(wrong))
		s := serve(t, a.addr, func(c *Config) {
			c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"POST /login"}, IgnoreCase: fold})
		})
		folded := 200
		if fold {
			folded = 429
		}
		for _, row := range []struct {
			target string
			status int
		}{
			{"/login", 200}, {"/login?x=1", 200}, {"/login/", 200}, {"/%6Cogin", 200}, {"//login", 200},
			{"/./login", 429}, {"/LOGIN", folded}, {"/login-help", 200},
		} {
			if res := s.post(row.target); res.StatusCode != row.status {
				t.Errorf("%s, ignoring case %t: status %d, want %d", row.target, fold, res.StatusCode, row.status)
			}
		}
	}
}

// TestClosedToLocalProxy: where a proxy on this machine forwards, and nobody said so,
// doors are closed; nothing is charged, all else works, and the log says what to do.
func TestClosedToLocalProxy(t *testing.T) {
	addr, tries := loginApp(t)
	for _, row := range []struct {
		line, header string
		closed       bool
	}{
		{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-For", true},
		{"Forwarded: for=192.0.2.7", "Forwarded", true},
		{"X-Real-IP: 192.0.2.7", "X-Real-IP", true},
		{"X_Forwarded_For: 192.0.2.7", "X-Forwarded-For", true},
		{"X-Forwarded-Proto: https", "", false},
		{"Via: 1.1 x", "", false},
	} {
		for _, peer := range []string{"127.0.0.1", "::1", "127.9.9.9"} {
			s := serve(t, addr, func(c *Config) { c.ClientsConfigured = false })
			s.from(peer)
			before := tries.Load()
			want := 200
			if row.closed {
				want = 503
			}
			for range 3 {
				if res := s.post("/login", row.line); res.StatusCode != want {
					t.Errorf("%s from %s: status %d, want %d", row.line, peer, res.StatusCode, want)
				}
			}
			if res := s.post("/elsewhere", row.line); res.StatusCode != 404 {
				t.Errorf("%s from %s elsewhere: status %d", row.line, peer, res.StatusCode)
			}
			lines := s.log.of("doors are closed to a local proxy")
			if !row.closed {
				if len(lines) > 0 || s.remaining(peer) != 2 {
					t.Errorf("%s from %s: %d lines, %d left", row.line, peer, len(lines), s.remaining(peer))
				}
				continue
			}
			if n := s.remaining(peer); n != 5 || tries.Load() != before {
				t.Errorf("%s from %s: charged or passed on", row.line, peer)
			}
			if len(lines) != 1 {
				t.Fatalf("%s from %s: %d lines in the log, want 1", row.line, peer, len(lines))
			}
			bits := "/32"
			if peer == "::1" {
				bits = "/128"
			}
			if l := lines[0]; l["peer"] != peer || l["if_it_is_a_proxy"] != "clients: {header: "+row.header+", trusted_proxies: ["+peer+bits+"]}" || l["if_it_is_not"] != "clients: {}" {
				t.Errorf("%s from %s: %v", row.line, peer, l)
			}
		}
	}
	// Whoever said how callers are named is believed.
	s := serve(t, addr)
	if res := s.post("/login", "X-Forwarded-For: 192.0.2.7"); res.StatusCode != 200 {
		t.Errorf("configured: status %d", res.StatusCode)
	}
}
