package proxy

import (
	"net/url"
	"testing"
	"time"

	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

func TestNewErrors(t *testing.T) {
	other := lockoutGuard(t, 3)
	lease := func(d time.Duration) *guard.Guard {
		g, err := guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &lockout.Policy{FreeFailures: 1, Window: time.Hour, FirstLockout: 1, MaxLockout: 1, Lease: d, Capacity: 1, InFlight: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	upstream := func(s string) option {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return func(c *Config) { c.Upstream = u }
	}
	second := func(name string, g *guard.Guard, route string) option {
		return func(c *Config) {
			d := c.Doors[0]
			d.Name, d.Match = name, mustDoor(t, door.Config{Routes: []string{route}})
			if g != nil {
				d.Guard = g
			}
			c.Doors = append(c.Doors, d)
		}
	}
	for _, row := range []struct {
		option
		want string
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Doors = nil }, ""},
		{func(c *Config) { c.Upstream = nil }, `proxy: Upstream must be set`},
		{upstream("ftp://x"), `proxy: Upstream must be http, https, h2c or unix, got "ftp://x"`},
		{upstream("127.0.0.1/x"), `proxy: Upstream must be http, https, h2c or unix, got "127.0.0.1/x"`},
		{upstream("http:///x"), `proxy: Upstream must have a scheme and a host only, got "http:///x"`},
		{upstream("https://x/"), ``},
		{upstream("http://x/app"), `proxy: Upstream must have a scheme and a host only, got "http://x/app"`},
		{upstream("http://u:p@x"), `proxy: Upstream must have no user, query or fragment, got "http://u:xxxxx@x"`},
		{upstream("http://x?a"), `proxy: Upstream must have no user, query or fragment, got "http://x?a"`},
		{func(c *Config) { c.Doors[0].Name = "" }, `proxy: Doors[0].Name must be set`},
		{func(c *Config) { c.Doors[0].Match = nil }, `proxy: Doors[0].Match must be set`},
		{func(c *Config) { c.Doors[0].Guard = nil }, `proxy: Doors[0].Guard must be set`},
		{func(c *Config) { c.Doors[0].Outcome = nil }, `proxy: Doors[0].Outcome must be set`},
		{func(c *Config) { c.Doors[0].MaxBody = -1 }, `proxy: Doors[0].MaxBody must be positive, got -1`},
		{second("login", nil, "/x"), `proxy: Doors[1].Name must be unique, got "login"`},
		{second("two", nil, "POST /login"), ``},
		{second("two", other, "POST /x"), ``},
		{second("two", other, "POST /login"), `proxy: doors "login" and "two" must not overlap with guards of their own: one secret has one budget`},
		{func(c *Config) { c.Timeouts.Body = -1 }, `proxy: Timeouts.Body must be positive, got -1ns`},
		{func(c *Config) { c.Timeouts.Response = time.Minute }, `proxy: Timeouts.Response must be shorter than the lease of door "login", 1m0s, got 1m0s`},
		{func(c *Config) { c.Timeouts.Response = time.Minute - 1 }, ``},
		{func(c *Config) { c.Limits.HeaderBytes = -1 }, `proxy: Limits.HeaderBytes must be positive, got -1`},
		{func(c *Config) { c.Limits.BodyBytes = -1 }, `proxy: Limits.BodyBytes must be positive, got -1`},
	} {
		c := baseConfig(t, "127.0.0.1:1", lockoutGuard(t, 5), newRecord())
		row.option(&c)
		_, err := New(c)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
	for _, row := range []struct{ lease, response time.Duration }{
		{time.Hour, 50 * time.Second}, {time.Minute, 50 * time.Second}, {20 * time.Second, 15 * time.Second}, {4 * time.Second, 2 * time.Second},
	} {
		c := baseConfig(t, "127.0.0.1:1", lease(row.lease), newRecord())
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.config.Timeouts.Response; got != row.response {
			t.Errorf("lease %v: Response %v, want %v", row.lease, got, row.response)
		}
	}
}

// TestDoors: the first door that covers guards. A contorted target that is at two
// doors, which have nothing in common, is refused.
func TestDoors(t *testing.T) {
	a := listen(t, reads(wrong))
	other := lockoutGuard(t, 3)
	s := serve(t, a.addr, func(c *Config) {
		pair := c.Doors[0]
		pair.Name, pair.Guard, pair.Match = "pair", other, mustDoor(t, door.Config{Routes: []string{"POST /pair"}})
		all := c.Doors[0]
		all.Name, all.Match = "all", mustDoor(t, door.Config{Routes: []string{"POST /login/{x...}"}})
		c.Doors = append(c.Doors, pair, all)
	})
	for _, row := range []struct {
		target string
		status int
		door   string
	}{
		{"/login", 200, "login"}, {"/pair", 200, "pair"}, {"/login/x", 200, "all"},
		{"/login;/../pair", 400, ""}, {"/pair%2f", 400, ""}, {"/login%00", 400, ""},
	} {
		before := len(s.log.of("settled"))
		if res := s.post(row.target); res.StatusCode != row.status {
			t.Errorf("%s: status %d, want %d", row.target, res.StatusCode, row.status)
		}
		lines := s.log.of("settled")[before:]
		if row.door == "" {
			if len(lines) > 0 {
				t.Errorf("%s: %v", row.target, lines)
			}
			continue
		}
		if len(lines) != 1 || lines[0]["door"] != row.door {
			t.Errorf("%s: %v, want door %s", row.target, lines, row.door)
		}
	}
	if n := len(s.log.of("bad request")); n != 3 {
		t.Errorf("%d lines about bad requests, want 3", n)
	}
}
