package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/hub"
	"github.com/doorward/doorward/trace"
)

// A change that does not say who makes it, why, or what, is not made.
func TestBodies(t *testing.T) {
	s := newStand(t)
	c := s.served(t)
	s.fail(0, "192.0.2.7", "", 3)
	for _, target := range []string{api.UnlockPath, api.ClearPath, api.NetworksPath, api.ReloadPath, "DELETE " + api.NetworksPath + "/1"} {
		method, path, found := strings.Cut(target, " ")
		if !found {
			method, path = "POST", target
		}
		what := map[string]string{
			api.UnlockPath: `"address":"192.0.2.7",`, api.ClearPath: `"guard":"login",`,
			api.NetworksPath: `"network":"192.0.2.7","action":"exempt","for":1,`,
		}[target]
		for _, row := range []struct {
			body   string
			status int
			want   string
		}{
			{"{" + what + `"reason":"why"}`, 400, "actor must say"},
			{"{" + what + `"actor":"ann"}`, 400, "reason must say"},
			{"{" + what + `"actor":" ","reason":"why"}`, 400, "actor must say"},
			{"{" + what + `"actor":"ann","reason":"a\nb"}`, 400, "reason must be text of one line"},
			{"{" + what + `"actor":"` + strings.Repeat("a", 101) + `","reason":"why"}`, 400, "actor must be at most 100 bytes, got 101"},
			{"{" + what + `"actor":"ann","reason":"` + strings.Repeat("a", 301) + `"}`, 400, "reason must be at most 300 bytes, got 301"},
			{"{" + what + `"rul":"network",` + by + "}", 400, "unknown field"},
			{"{" + what + by + "} {}", 400, "there is more after it"},
			{"[]", 400, "must be one JSON object"},
			{"{", 400, "must be one JSON object"},
			{`{"actor":"` + strings.Repeat("a", maxBody) + `"}`, 413, "at most 65536 bytes"},
		} {
			if status, answer := c.ask(method, path, row.body); status != row.status || !strings.Contains(answer, row.want) {
				t.Errorf("%s %.80s: %d %s, want %d and %q", target, row.body, status, answer, row.status, row.want)
			}
		}
	}
	for _, row := range []struct {
		path, body string
		status     int
		want       string
	}{
		{api.UnlockPath, by, 400, "must say who is meant"},
		{api.UnlockPath, `"address":"192.0.2.7","rule":"nothing",` + by, 404, "no rule is named nothing"},
		{api.UnlockPath, `"address":"192.0.2.7","guard":"nobody",` + by, 404, "no guard is named nobody"},
		{api.ClearPath, by, 400, "guard must say"},
		{api.ClearPath, `"guard":"codes","rule":"pair",` + by, 404, "no rule is named pair"},
		{api.NetworksPath, `"network":"192.0.2","action":"block","for":1,` + by, 400, "network must be"},
		{api.NetworksPath, `"network":"192.0.2.7","action":"ban","for":1,` + by, 400, "action must be exempt or block, got ban"},
		{api.NetworksPath, `"network":"192.0.2.7","action":"block","for":0.9,` + by, 400, "for must be 1 to 31622400 seconds, got 0.9"},
		{api.NetworksPath, `"network":"192.0.2.7","action":"block","for":31622401,` + by, 400, "for must be"},
		{api.NetworksPath, `"network":"192.0.2.7","action":"block","for":1,"guard":"nobody",` + by, 404, "no guard"},
	} {
		if status, answer := c.ask("POST", row.path, "{"+row.body+"}"); status != row.status || !strings.Contains(answer, row.want) {
			t.Errorf("%s %s: %d %s, want %d and %q", row.path, row.body, status, answer, row.status, row.want)
		}
	}
	if n := s.changes(); n != 0 {
		t.Errorf("%d changes", n)
	}
	if f := mustFind(t, s.guards[0], s.request("192.0.2.7")); f[2].Count != 3 {
		t.Errorf("forgotten: %+v", f[2])
	}
}

// What the daemon is asked for, and what it says, comes through.
func TestDaemon(t *testing.T) {
	s := newStand(t)
	c := s.served(t)
	for network, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.7/24": "192.0.2.0/24", "::ffff:192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.0/120": "192.0.2.0/24",
		"64:ff9b::808:808": "8.8.8.8/32", "64:ff9b::808:808/120": "8.8.8.0/24", "64:ff9b::a00:1": "64:ff9b::a00:1/128", "64:ff9b::/90": "64:ff9b::/90",
		"2001:db8::1": "2001:db8::1/128", "2001:db8::1/48": "2001:db8::/48",
	} {
		var n api.Network
		c.post(api.NetworksPath, `{"network":"`+network+`","action":"block","for":1.5,"guard":"codes",`+by+`}`, &n)
		if got := s.listed[len(s.listed)-1]; n.Network != want || got != (api.List{Network: want, Action: "block", For: 1.5, Guard: "codes", By: api.By{Actor: "ann", Reason: "a call"}}) {
			t.Errorf("%s: %+v and %+v, want %s", network, n, got, want)
		}
	}
	c.ask("DELETE", api.NetworksPath+"/abc", "{"+by+"}")
	c.ask("POST", api.ReloadPath, "{"+by+"}")
	if len(s.unlisted) != 1 || s.unlisted[0] != "abc by ann" || len(s.reloads) != 1 || s.reloads[0] != (api.By{Actor: "ann", Reason: "a call"}) {
		t.Errorf("%v and %v", s.unlisted, s.reloads)
	}
	for _, path := range []string{api.NetworksPath + "/", api.NetworksPath + "/a/b"} {
		if status, body := c.ask("DELETE", path, "{"+by+"}"); status != 404 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, row := range []struct {
		err    error
		status int
		want   string
	}{
		{&Error{Status: 422, Problem: api.Problem{Error: "wrong", Errors: []string{"a", "b"}}}, 422, `{"error":"wrong","errors":["a","b"]}`},
		{fmt.Errorf("by the way: %w", Errorf(409, "no")), 409, `{"error":"no"}`},
		{errors.New("secret"), 500, `{"error":"that failed: the log says why"}`},
	} {
		s.fails = row.err
		for _, a := range everything {
			if a.target != api.ReloadPath && a.target != api.NetworksPath || !a.changes {
				continue
			}
			if status, body := c.ask(a.method, a.target, a.body); status != row.status || body != row.want {
				t.Errorf("%s: %d %s, want %d %s", a.target, status, body, row.status, row.want)
			}
		}
	}
	s.fails = nil
	if status, body := c.ask("GET", api.OpenAPIPath, ""); status != 200 || body != strings.TrimSpace(string(api.OpenAPI)) {
		t.Errorf("the document: %d", status)
	}
	for _, row := range []struct {
		method, target string
		allow          string
	}{{"PUT", api.StatusPath, "GET"}, {"POST", api.KeysPath, "GET"}, {"GET", api.UnlockPath, "POST"}, {"DELETE", api.NetworksPath, "GET, POST"}, {"GET", api.NetworksPath + "/1", "DELETE"}, {"OPTIONS", api.UnlockPath, "POST"}} {
		status, h := ask{method: row.method, target: row.target}.send(t, c.base, c.client.Transport)
		if status != 405 || h.Get("Allow") != row.allow {
			t.Errorf("%s %s: %d, Allow %q, want %q", row.method, row.target, status, h.Get("Allow"), row.allow)
		}
	}
}

// watch reads lines of events until the test ends.
func (c *caller) watch(query string) (lines <-chan string, stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", c.base+api.EventsPath+query, nil)
	res, err := c.client.Do(r)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/x-ndjson" {
		c.t.Fatalf("events%s: %v, %v", query, res, err)
	}
	out := make(chan string, 10*hub.Queue)
	go func() {
		defer close(out)
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			out <- in.Text()
		}
	}()
	c.t.Cleanup(func() { cancel(); res.Body.Close() })
	return out, cancel
}

func (s *stand) tell(r trace.Record) {
	s.hub.Tell(&hub.Event{Event: r.Event, Door: r.Door, Realm: r.Realm, Client: r.Client, Record: func() trace.Record { return r }})
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				return "the end"
			}
			if l != "" {
				return l
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no line")
		}
	}
}

func TestEvents(t *testing.T) {
	s := newStand(t)
	c := s.served(t)
	all, stop := c.watch("")
	some, _ := c.watch("?door=login&client=192.0.2.0/24&event=refused&event=locked")
	at := time.Unix(1_700_000_000, 0)
	for _, r := range []trace.Record{
		{Event: trace.Refused, Door: "login", Client: netip.MustParsePrefix("192.0.2.7/32")},
		{Event: trace.Settled, Door: "login", Client: netip.MustParsePrefix("192.0.2.7/32"), Outcome: "failed"},
		{Event: trace.Refused, Door: "codes", Client: netip.MustParsePrefix("192.0.2.7/32")},
		{Event: trace.Refused, Door: "login", Client: netip.MustParsePrefix("198.51.100.7/32")},
		{Event: trace.Unlocked, Door: "login", Actor: "ann", Why: "\x1b[2J\nevil"},
		{Event: trace.Locked, Door: "login", Client: netip.MustParsePrefix("192.0.2.7/32"), Lockout: time.Minute},
	} {
		r.Time = at
		s.tell(r)
	}
	for i, want := range []string{"refused", "settled", "refused", "refused", "unlocked", "locked"} {
		if l := next(t, all); !strings.Contains(l, `"event":"`+want+`"`) || strings.ContainsAny(l, "\x1b") {
			t.Errorf("line %d: %s, want %s", i, l, want)
		}
	}
	for i, want := range []string{"refused", "locked"} {
		if l := next(t, some); !strings.Contains(l, `"event":"`+want+`"`) || !strings.Contains(l, `"client":"192.0.2.7"`) {
			t.Errorf("line %d of some: %s, want %s", i, l, want)
		}
	}
	stop()
	for _, row := range []struct{ query, want string }{
		{"?event=refuse", "event must be one of"}, {"?client=me", "client must be"}, {"?doors=login", "doors is no parameter"}, {"?door=a&door=b", "door must be there once"},
	} {
		if status, body := c.ask("GET", api.EventsPath+row.query, ""); status != 400 || !strings.Contains(body, row.want) {
			t.Errorf("%s: %d %s", row.query, status, body)
		}
	}
}

// However fast things happen, all lines and all that were dropped are what there was.
func TestEventsDropped(t *testing.T) {
	s := newStand(t)
	lines, _ := s.served(t).watch("?event=refused")
	const n = 20_000
	for i := range n {
		s.tell(trace.Record{Time: time.Unix(1_700_000_000, 0), Event: trace.Refused, Door: "login"})
		if i%1000 == 0 {
			s.tell(trace.Record{Event: trace.Settled, Door: "login"})
		}
	}
	total, dropped := 0, false
	for total < n {
		l := next(t, lines)
		r, err := trace.Parse([]byte(l))
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		if r.Event != trace.Dropped {
			total++
		} else if r.Of != trace.Refused || r.Door != "login" {
			t.Errorf("%s", l)
		}
		total += int(r.Dropped)
		dropped = dropped || r.Dropped > 0
	}
	if total != n || !dropped {
		t.Errorf("%d accounted for, want %d", total, n)
	}
}

// Too many streams are refused, and one that ends makes room.
func TestStreams(t *testing.T) {
	s := newStand(t)
	c := s.served(t)
	var stop func()
	for range hub.Streams {
		_, stop = c.watch("")
	}
	if status, body := c.ask("GET", api.EventsPath, ""); status != 503 || !strings.Contains(body, "16 streams") {
		t.Errorf("%d %s", status, body)
	}
	stop()
	deadline := time.Now().Add(10 * time.Second)
	for {
		if stream, err := s.hub.Watch(hub.Filter{}); err == nil {
			stream.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no stream has ended")
		}
		time.Sleep(time.Millisecond)
	}
}
