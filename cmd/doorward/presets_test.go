package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/explain"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore"
)

const docs = "../../docs"

// A source says where the i-th request of a story comes from.
type source func(i int) string

func same(int) string     { return "192.0.2.200" }
func apart(i int) string  { return fmt.Sprintf("198.%d.%d.7", 18+i/250, i%250) }
func site24(i int) string { return fmt.Sprintf("203.0.113.%d", i%250) }
func site48(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }
func site32(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }
func exempt(i int) string { return fmt.Sprintf("192.0.2.%d", i%16) }

// A story is wrong attempts at a door: %[1]d in its target and its body is the number of
// the request. So many of them reach the application.
type story struct {
	name         string
	from         source
	target, body string
	sent, reach  int
}

const (
	formLogin = "POST /login"
	jsonLogin = "POST /api/login"
	one, each = "username=alice&password=%[1]d", "username=alice%[1]d&password=x"
)

var presetStories = map[string][]story{
	"login": {
		{"an address and an account", same, formLogin, one, 20, 5},
		{"an address", same, formLogin, each, 60, 36},
		{"an account", apart, formLogin, one, 60, 36},
		{"an account by JSON", apart, jsonLogin, `{"user": {"email": "Alice"}, "password": "%[1]d"}`, 60, 36},
		{"an IPv4 /24", site24, formLogin, each, 240, 200},
		{"an IPv6 /48", site48, formLogin, each, 240, 200},
		{"an IPv6 /32", site32, formLogin, each, 480, 450},
	},
	"one_time_code": {
		{"a code", apart, "POST /login/code", "username=alice&code_id=1&code=%[1]d", 12, 5},
		{"a code of nobody", apart, "POST /login/code", "username=a%[1]d&code_id=1&code=%[1]d", 12, 5},
		{"an account", apart, "POST /login/code", "username=alice&code_id=%[1]d&code=1", 15, 10},
		{"an address and an account", same, "POST /login/code", "username=alice&code_id=%[1]d&code=1", 15, 5},
		{"an address", same, "POST /login/code", "username=a%[1]d&code_id=%[1]d&code=1", 60, 36},
	},
	"pairing": {
		{"an address", same, "POST /pair", "code=%[1]d", 10, 5},
		{"an IPv4 /24", site24, "POST /pair", "code=%[1]d", 20, 12},
		{"an IPv6 /48", site48, "POST /pair", "code=%[1]d", 20, 12},
		{"an IPv6 /32", site32, "POST /pair", "code=%[1]d", 20, 15},
		{"everyone", apart, "POST /pair", "code=%[1]d", 80, 60},
	},
	"password_reset": {
		{"an account", apart, "POST /password/reset", "email=a", 10, 3},
		{"an address and an account", same, "POST /password/reset", "email=a", 10, 2},
		{"an address", same, "POST /password/reset", "email=a%[1]d", 30, 20},
		{"an IPv4 /24", site24, "POST /password/reset", "email=a%[1]d", 100, 80},
	},
	"recovery": {
		{"an address", same, "POST /recovery", "key=%[1]d", 10, 3},
		{"an IPv4 /24", site24, "POST /recovery", "key=%[1]d", 20, 12},
		{"an IPv6 /48", site48, "POST /recovery", "key=%[1]d", 20, 12},
		{"an IPv6 /32", site32, "POST /recovery", "key=%[1]d", 20, 15},
		{"everyone", apart, "POST /recovery", "key=%[1]d", 80, 60},
		{"an exempt network", exempt, "POST /recovery", "key=%[1]d", 80, 80},
	},
	"signup": {
		{"an address", same, "POST /signup", "name=a%[1]d", 10, 5},
		{"an IPv4 /24", site24, "POST /signup", "name=a%[1]d", 30, 20},
		{"an IPv6 /48", site48, "POST /signup", "name=a%[1]d", 30, 20},
		{"everyone", apart, "POST /signup", "name=a%[1]d", 50, 50},
	},
	"pushed_authorization": {
		{"an address", same, "POST /oauth2/par", "client_id=a", 40, 30},
		{"an IPv4 /24", site24, "POST /oauth2/par", "client_id=a", 140, 120},
	},
	"device_code": {
		{"an address", same, "POST /device", "user_code=%[1]d", 10, 5},
		{"an IPv4 /24", site24, "POST /device", "user_code=%[1]d", 20, 12},
		{"everyone", apart, "POST /device", "user_code=%[1]d", 80, 60},
		{"an address starts", same, "POST /oauth2/device/auth", "client_id=a", 20, 10},
		{"an IPv4 /24 starts", site24, "POST /oauth2/device/auth", "client_id=a", 60, 40},
	},
}

// loadExample reads an example as doorward check does.
func loadExample(t *testing.T, file string) config.Config {
	t.Helper()
	c, err := config.Load(file, config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); w != nil {
		t.Errorf("%s: warnings %q", file, w)
	}
	doors, err := guards(c, "")
	if err != nil {
		t.Fatal(err)
	}
	if weak, err := explain.Warnings(doors); weak != nil || err != nil {
		t.Errorf("%s: warnings %q, %v", file, weak, err)
	}
	return c
}

// startExample starts the proxy of an example in front of an application that counts and
// refuses what reaches it.
func startExample(t *testing.T, c config.Config) (addr string, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(app.Close)
	c.Upstreams[0], _ = url.Parse(app.URL)
	pc, err := assemble(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(pc)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), reached
}

// Every preset has an example, and lets through what its text says.
func TestPresetExamples(t *testing.T) {
	documented := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(docs, "presets", "*.yaml"))
	if err != nil || len(files) != len(presetStories) {
		t.Fatalf("%d examples, %d stories, %v", len(files), len(presetStories), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range guard.Presets() {
			if strings.Contains(string(text), "preset: "+name+"\n") || strings.Contains(string(text), "preset: "+name+"}") {
				documented[name] = true
			}
		}
		c := loadExample(t, file)
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if len(presetStories[name]) == 0 {
			t.Errorf("%s has no story", file)
		}
		for _, row := range presetStories[name] {
			t.Run(name+"/"+row.name, func(t *testing.T) {
				addr, reached := startExample(t, c)
				for i := range row.sent {
					row.send(t, addr, i)
				}
				if n := reached.Load(); n != int64(row.reach) {
					t.Errorf("%d of %d requests reached the application, want %d", n, row.sent, row.reach)
				}
			})
		}
	}
	for name := range guard.Presets() {
		if !documented[name] {
			t.Errorf("preset %s has no example", name)
		}
	}
}

func (s story) send(t *testing.T, addr string, i int) {
	t.Helper()
	method, target, _ := strings.Cut(s.target, " ")
	body := s.body
	if strings.Contains(body, "%[1]d") {
		body = fmt.Sprintf(body, i)
	}
	r, err := http.NewRequest(method, "http://"+addr+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Forwarded-For", s.from(i))
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		t.Errorf("request %d: status %d", i, res.StatusCode)
	}
}

// The parts of an example that are commented out are right too, once there are keys.
func TestDeviceExamples(t *testing.T) {
	for _, name := range []string{"doorward.yaml", "presets/login.yaml"} {
		text, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Fatal(err)
		}
		head, tail, found := strings.Cut(string(text), "\n#devices:\n")
		if !found {
			t.Fatalf("%s has no devices", name)
		}
		tail, admin, _ := strings.Cut(tail, "\n#admin:\n")                 // which wants certificates
		if state, rest, found := strings.Cut(tail, "\n#store:\n"); found { // which is instead of a state
			_, rest, _ = strings.Cut(rest, "\n\n")
			tail = state + "\n\n" + rest
		}
		tail = "\ndevices:\n" + strings.NewReplacer("\n#  ", "\n  ", "\n#state:", "\nstate:", "\n#audit:", "\naudit:").Replace("\n" + tail)[1:] + "\n#admin:\n" + admin
		file := filepath.Join(t.TempDir(), "doorward.yaml")
		if err := os.WriteFile(file, []byte(head+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"device.key", "state.key", "audit.key"} {
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), key), []byte("MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := loadExample(t, file)
		without := loadExample(t, filepath.Join(docs, name))
		if c.Devices == nil || c.Rules() <= without.Rules() {
			t.Errorf("%s: devices %v, %d rules with them and %d without", name, c.Devices, c.Rules(), without.Rules())
		}
		if whole := name == "doorward.yaml"; (c.State != nil) != whole || (c.Audit != nil) != whole {
			t.Errorf("%s: state %v, audit %v", name, c.State, c.Audit)
		}
		if _, err := assemble(c, slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// So is the store of the example, with the modes of its doors.
func TestStoreExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "doorward.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	head, tail, _ := strings.Cut(string(text), "\n#store:\n")
	store, tail, _ := strings.Cut(tail, "\n\n")
	head = strings.ReplaceAll(head, "\n#    when_store", "\n    when_store")
	dir := t.TempDir()
	file := filepath.Join(dir, "doorward.yaml")
	store = strings.ReplaceAll("\nstore:\n"+store, "\n#", "\n")
	files := map[string]string{
		"doorward.yaml": head + store + "\n\n" + tail, "redis.password": "open sesame\n", "store.key": "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=\n",
	}
	for name, from := range map[string]string{"redis-ca.pem": "second.pem", "doorward.pem": "first.pem", "doorward.key": "first.key"} {
		b, err := os.ReadFile(filepath.Join("internal/config/testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(b)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := loadExample(t, file)
	modes := map[string]redisstore.Mode{}
	for _, d := range c.Doors {
		modes[d.GuardName()] = d.Away
	}
	if c.Store == nil || len(c.Store.Redis.Addresses) != 1 || c.Store.TLS == nil || modes["accounts"] != redisstore.Local || modes["code"] != redisstore.Closed {
		t.Errorf("store %+v, modes %v", c.Store, modes)
	}
}
