package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/apitest"
	"github.com/doorward/doorward/cmd/doorward/internal/hub"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/trace"
)

var contract *apitest.Contract

func TestMain(m *testing.M) {
	var err error
	if contract, err = apitest.Load(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if unseen := contract.Unseen(); code == 0 && len(unseen) > 0 && testing.CoverMode() == "" && os.Getenv("DOORWARD_SOME") == "" && whole() {
		fmt.Fprintln(os.Stderr, "operations that no test was answered:", unseen)
		code = 1
	}
	os.Exit(code)
}

// whole reports whether all tests are run.
func whole() bool {
	for _, arg := range os.Args {
		if strings.HasPrefix(arg, "-test.run=") && arg != "-test.run=" || strings.HasPrefix(arg, "-test.skip=") || strings.HasPrefix(arg, "-test.list=") {
			return false
		}
	}
	return true
}

// A stand is a daemon that has guards and nothing else.
type stand struct {
	guards []Guard
	hub    hub.Hub
	secret []byte

	mu       sync.Mutex
	recorded []trace.Record
	listed   []api.List
	unlisted []string
	reloads  []api.By
	fails    error // what changes answer
}

func (s *stand) Status(now time.Time) api.Status {
	return api.Status{
		Version: "test", Now: now.UTC(), Started: now.UTC(), Listen: []string{}, Upstream: []api.Copy{}, Doors: []api.Door{},
		Guards: []api.Guard{}, Heaviest: []api.Heavy{}, Warnings: []string{},
		Networks: []api.Network{{ID: "0123456789abcdef", Network: "192.0.2.0/24", Action: "block", Until: now.UTC(), By: api.By{Actor: "ann", Reason: "alice called"}}},
	}
}

func (s *stand) Guards() []Guard                  { return s.guards }
func (s *stand) Hash(k doorward.Key) trace.Hash   { return trace.HashOf(s.secret, k) }
func (s *stand) Networks(time.Time) []api.Network { return []api.Network{} }
func (s *stand) Recent(caller, subject doorward.Key) []trace.Record {
	return []trace.Record{{Time: time.Unix(1, 0), Event: trace.Settled, Door: "login", Client: caller.Prefix(), How: clientip.Peer, Subject: s.Hash(subject), Outcome: "failed"}}
}
func (s *stand) Watch(f hub.Filter) (*hub.Stream, error) { return s.hub.Watch(f) }

func (s *stand) Record(r trace.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, r)
}

func (s *stand) List(n api.List, now time.Time) (api.Network, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = append(s.listed, n)
	return api.Network{ID: "0123456789abcdef", Network: n.Network, Action: n.Action, Guard: n.Guard, Until: now.UTC(), By: n.By}, s.fails
}

func (s *stand) Unlist(id string, by api.By, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisted = append(s.unlisted, id+" by "+by.Actor)
	return s.fails
}

func (s *stand) Reload(by api.By) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reloads = append(s.reloads, by)
	return s.fails
}

// changes is how much was changed.
func (s *stand) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.recorded) + len(s.listed) + len(s.unlisted) + len(s.reloads)
}

// rule is a lockout after n failures.
func rule(name string, per guard.Per, v4, v6, n int) guard.Rule {
	return guard.Rule{Name: name, Per: per, V4: v4, V6: v6, Lockout: &lockout.Policy{
		FreeFailures: n, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Hour, Capacity: 2000,
	}}
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{secret: []byte("0123456789abcdef0123456789abcdef")}
	for _, g := range []struct {
		name  string
		realm bool
		rules []guard.Rule
	}{
		{"login", false, []guard.Rule{
			rule("all", guard.Everyone, 0, 0, 500), rule("wide", guard.Network, 24, -1, 20), rule("network", guard.Network, 0, 0, 5),
			rule("subject", guard.Subject, 0, 0, 10), rule("pair", guard.Pair, 0, 0, 3),
		}},
		{"codes", true, []guard.Rule{rule("network", guard.Network, 0, 0, 5)}},
	} {
		made, err := guard.New(guard.Config{
			Rules:  g.rules,
			Exempt: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/28")}, Blocked: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.guards = append(s.guards, Guard{g.name, g.realm, []string{g.name}, made})
	}
	return s
}

// fail makes n failures of an address against a subject, "" for none.
func (s *stand) fail(guardAt int, addr, subject string, n int) {
	r := guard.Request{How: clientip.Peer}
	if addr != "" {
		r.Addr = netip.MustParseAddr(addr)
	}
	if subject != "" {
		r.Subject = Subject(subject)
	}
	for range n {
		now := time.Now()
		p := s.guards[guardAt].Attempt(r, now)
		p.Settle(doorward.Failed, now)
	}
}

// served is a stand on a unix socket.
func (s *stand) served(t *testing.T) *caller {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, Access{}, Port{Listener: ln})
	return &caller{t, "http://localhost", &http.Client{Transport: contract.Transport(t, over(path))}}
}

// over are connections to a unix socket.
func over(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}

// serve serves s until the test ends.
func (s *stand) serve(t *testing.T, a Access, ports ...Port) {
	t.Helper()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, "doorward_up 1\n")
	})
	server, err := New(s, a, metrics, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, ports...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A caller asks a served stand.
type caller struct {
	t      *testing.T
	base   string
	client *http.Client
}

// ask makes a request and returns the status and the body.
func (c *caller) ask(method, target, body string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.base+target, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if h := res.Header; h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || len(h["Access-Control-Allow-Origin"]) > 0 {
		c.t.Errorf("%s %s: header %v", method, target, h)
	}
	return res.StatusCode, string(bytes.TrimSpace(text))
}

// get reads the answer to a question into v.
func (c *caller) get(target string, v any) {
	c.t.Helper()
	status, body := c.ask("GET", target, "")
	if status != 200 {
		c.t.Fatalf("GET %s: %d %s", target, status, body)
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		c.t.Fatal(err)
	}
}

// post asks for a change and reads the answer into v.
func (c *caller) post(target, body string, v any) {
	c.t.Helper()
	status, answer := c.ask("POST", target, body)
	if status != 200 {
		c.t.Fatalf("POST %s %s: %d %s", target, body, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), v); err != nil {
		c.t.Fatal(err)
	}
}

func (s *stand) addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func (s *stand) request(addr string) guard.Request {
	return guard.Request{Addr: s.addr(addr), How: clientip.Peer}
}
