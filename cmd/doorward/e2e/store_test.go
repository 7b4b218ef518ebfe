package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sharedFile has a door for each mode. The deadline is long: what is tested is not how fast a busy
// machine is.
const sharedFile = `
listen: %s
upstream: http://%s
admin: unix:%s
clients: {trusted_proxies: [127.0.0.1/32]}
store: {redis: {addresses: ["%s"], secret_file: store.key, deadline: 1s%s}}
doors:
  - {name: local, routes: ["POST local.example/login"], %[6]s}
  - {name: closed, routes: ["POST closed.example/login"], when_store_is_away: closed, %[6]s}
  - {name: open, routes: ["POST open.example/login"], when_store_is_away: open, %[6]s}
`

const sharedDoor = `outcome: {succeeded: {status: 302}}, rules: [{name: own, per: network, lockout: {free_failures: 5, window: 1h, first_lockout: 10m, max_lockout: 1h}}]`

// A fleet is nodes that count on one server.
type fleet struct {
	t     *testing.T
	app   *app
	redis string
	nodes []*process
	addrs []string
	admin []string
	http  *http.Client
}

func startFleet(t *testing.T, n int, redis string) *fleet {
	t.Helper()
	a, upstream := newApp(t)
	f := &fleet{t: t, app: a, redis: redis, http: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 100},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(f.http.CloseIdleConnections)
	for range n {
		addr := freePort(t)
		file, admin := sharedConfig(t, addr, upstream, redis, "")
		f.nodes = append(f.nodes, start(t, addr, binary, "serve", "--config", file))
		f.addrs, f.admin = append(f.addrs, addr), append(f.admin, "unix:"+admin)
	}
	return f
}

// sharedConfig writes what one node needs into a directory of its own.
func sharedConfig(t *testing.T, addr, upstream, redis, more string) (file, admin string) {
	t.Helper()
	dir := t.TempDir()
	file, admin = filepath.Join(dir, "doorward.yaml"), filepath.Join(dir, "admin.sock")
	for name, text := range map[string]string{
		file:                             fmt.Sprintf(sharedFile, addr, upstream, admin, redis, more, sharedDoor),
		filepath.Join(dir, "store.key"):  "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n",
		filepath.Join(dir, "redis.pass"): "not it\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file, admin
}

// guess posts one wrong password at a door of a node, and returns the status.
func (f *fleet) guess(node int, door, from string) int {
	r, err := http.NewRequest(http.MethodPost, "http://"+f.addrs[node]+"/login", strings.NewReader("username=alice&password=wrong"))
	if err != nil {
		f.t.Error(err)
		return 0
	}
	r.Host = door + ".example"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-For", from)
	res, err := f.http.Do(r)
	if err != nil {
		f.t.Error(err)
		return 0
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode
}

// guesses posts n, many at once and in turns over the nodes. It returns how many reached the
// application, and how often each status came.
func (f *fleet) guesses(n, atOnce int, door, from string) (reached int, statuses map[int]int) {
	before, _ := f.app.tries()
	statuses = map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		wg.Go(func() {
			for i := range next {
				s := f.guess(i%len(f.nodes), door, from)
				mu.Lock()
				statuses[s]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	after, _ := f.app.tries()
	return after - before, statuses
}

// run runs doorward to its end.
func (f *fleet) run(args ...string) string {
	f.t.Helper()
	out, err := exec.Command(binary, args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("doorward %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// metric adds up a metric over all nodes.
func (f *fleet) metric(series string) (sum float64) {
	f.t.Helper()
	for i := range f.nodes {
		for line := range strings.Lines(f.scrape(i)) {
			if rest, ok := strings.CutPrefix(line, series+" "); ok {
				var v float64
				fmt.Sscan(rest, &v)
				sum += v
			}
		}
	}
	return sum
}

func (f *fleet) scrape(node int) string {
	f.t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(f.admin[node], "unix:"))
	}}}
	defer c.CloseIdleConnections()
	res, err := c.Get("http://localhost/metrics")
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

func redisServer(t *testing.T, addr string, args ...string) *process {
	t.Helper()
	return start(t, addr, need(t, "redis-server"), append([]string{"--bind", "127.0.0.1", "--port", port(addr), "--save", "", "--dir", t.TempDir()}, args...)...)
}

// Three nodes have one budget: of 3,000 guesses at once five reach the application. An operator's
// unlock on one node opens all. When the server is killed each door does what it is told to, and when
// it is back they have one budget again.
func TestSharedStore(t *testing.T) {
	redis := freePort(t)
	server := redisServer(t, redis)
	f := startFleet(t, 3, redis)
	if n, statuses := f.guesses(3000, 300, "local", "192.0.2.1"); n != 5 || statuses[200] != 5 || statuses[429] != 2995 {
		t.Fatalf("3,000 guesses: %d reached the application, %v; want 5", n, statuses)
	}
	for i := range f.nodes {
		if s := f.guess(i, "local", "192.0.2.1"); s != 429 {
			t.Errorf("node %d answers %d", i, s)
		}
		if out := f.run("status", "--over", "100ms", "--admin", f.admin[i]); !strings.Contains(out, "store     "+redis+"\n") {
			t.Errorf("status of node %d:\n%s", i, out)
		}
	}
	if up := f.metric("doorward_store_up"); up != 3 {
		t.Errorf("%v nodes say that the store is up", up)
	}
	if n := f.metric(`doorward_store_local_decisions_total{guard="local"}`); n != 0 {
		t.Errorf("%v decisions without the store: the machine is too busy for this test", n)
	}
	if n := f.metric(`doorward_keys_tracked{guard="local",rule="own"}`); n != 3 { // the same one, three times
		t.Errorf("%v keys tracked", n)
	}

	out := f.run("unlock", "192.0.2.1", "--admin", f.admin[0], "--reason", "a test")
	unlocked := time.Now()
	if !strings.Contains(out, "192.0.2.1") {
		t.Errorf("unlock:\n%s", out)
	}
	reached := 0
	for i := range f.nodes { // locked for ten minutes, unless they are told
		until(t, fmt.Sprintf("the unlock at node %d", i), func() bool { return f.guess(i, "local", "192.0.2.1") == 200 })
		reached++
	}
	t.Logf("all nodes knew of the unlock after %v", time.Since(unlocked))
	if n, _ := f.guesses(300, 30, "local", "192.0.2.1"); n != 5-reached {
		t.Errorf("unlocked, %d more reached the application, want %d", n, 5-reached)
	}
	for i := range f.nodes {
		if s := f.guess(i, "local", "192.0.2.1"); s != 429 { // now each has been told
			t.Errorf("node %d answers %d", i, s)
		}
	}

	server.cmd.Process.Kill()
	for _, x := range []struct {
		door, from string
		reached    int
		refused    int // with which status
	}{
		{"local", "192.0.2.7", 15, 429}, // each node by its own counts
		{"closed", "192.0.2.7", 0, 503},
		{"open", "192.0.2.7", 300, 0},
		{"local", "192.0.2.1", 0, 429}, // locked out before
	} {
		n, statuses := f.guesses(300, 30, x.door, x.from)
		if n != x.reached || statuses[200] != x.reached || statuses[x.refused] != 300-x.reached && x.refused != 0 {
			t.Errorf("killed, door %s: %d reached the application, %v; want %d", x.door, n, statuses, x.reached)
		}
	}
	for i, p := range f.nodes {
		until(t, "a line", func() bool { return strings.Contains(p.out.String(), "the store is away") })
		if out := f.run("status", "--over", "100ms", "--admin", f.admin[i]); !strings.Contains(strings.Join(strings.Fields(out), " "), "; until then closed: closed; local: local; open: open") {
			t.Errorf("status of node %d:\n%s", i, out)
		}
	}
	if up := f.metric("doorward_store_up"); up != 0 {
		t.Errorf("%v nodes say that the store is up", up)
	}
	for series, want := range map[string]float64{
		`doorward_store_unavailable_total{guard="closed"}`:   300,
		`doorward_store_fail_open_total{guard="open"}`:       300,
		`doorward_store_away_mode{guard="open",mode="open"}`: 3,
	} {
		if n := f.metric(series); n != want {
			t.Errorf("%s is %v, want %v", series, n, want)
		}
	}
	if n := f.metric(`doorward_store_local_decisions_total{guard="local"}`); n < 300 { // who is busy asks again
		t.Errorf("%v decisions without the store, want 300 at least", n)
	}
	cmd := exec.Command(binary, "unlock", "192.0.2.7", "--admin", f.admin[0], "--reason", "a test")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the store did not answer") {
		t.Errorf("unlock without a store: %v\n%s", err, out)
	}

	redisServer(t, redis)
	for i, p := range f.nodes {
		until(t, fmt.Sprintf("the store to be back at node %d", i), func() bool { return strings.Contains(p.out.String(), "the store is back") })
		if n := strings.Count(p.out.String(), "the store is away"); n != 1 {
			t.Errorf("node %d says %d times that the store is away", i, n)
		}
	}
	if n, statuses := f.guesses(300, 30, "open", "192.0.2.9"); n != 5 {
		t.Errorf("back: %d reached the application, %v; want 5", n, statuses)
	}
}

// What was locked out through one node another one lists, by what the store calls it, and unlocks for
// both.
func TestSharedList(t *testing.T) {
	redis := freePort(t)
	redisServer(t, redis)
	f := startFleet(t, 2, redis)
	f.guesses(10, 1, "local", "192.0.2.1") // in turns, so both know the lockout by heart
	f.guesses(2, 1, "local", "192.0.2.2")
	for range 7 {
		f.guess(0, "local", "2001:db8::1")
	}
	locked := func(node int) (keys []string) {
		t.Helper()
		for line := range strings.Lines(f.run("locked", "--json", "--admin", f.admin[node])) {
			var k struct {
				Guard, Rule, Key string
				Count            int
				LockedUntil      time.Time `json:"locked_until"`
			}
			if err := json.Unmarshal([]byte(line), &k); err != nil || k.Guard != "local" || k.Rule != "own" || k.Count != 5 || time.Until(k.LockedUntil) < 5*time.Minute {
				t.Errorf("%+v, %v", k, err)
			}
			keys = append(keys, k.Key)
		}
		return keys
	}
	keys := locked(1)
	if len(keys) != 2 || !strings.HasPrefix(keys[0], "store:") || strings.Join(keys, " ") != strings.Join(locked(0), " ") {
		t.Fatalf("node 1 lists %q, node 0 %q", keys, locked(0))
	}
	if out := f.run("locked", "--admin", f.admin[1]); !strings.Contains(out, "2 keys locked\n") || !strings.Contains(out, keys[0]) || !strings.Contains(out, "local/own (network: ") {
		t.Errorf("locked:\n%s", out)
	}
	out, err := exec.Command(binary, "why", keys[0], "--admin", f.admin[1]).CombinedOutput()
	if err == nil || !strings.Contains(string(out), keys[0]) || !strings.Contains(string(out), "locked") {
		t.Errorf("why: %v\n%s", err, out)
	}
	for i, key := range keys { // whose it is does not say
		out := f.run("unlock", "--key", key, "--admin", f.admin[1], "--reason", "a test")
		if !strings.Contains(out, "Forgotten: 1 key.") || !strings.Contains(out, key) {
			t.Errorf("unlock:\n%s", out)
		}
		if left := locked(0); len(left) != 1-i || i == 0 && left[0] != keys[1] {
			t.Errorf("%s is unlocked, and locked are %q", key, left)
		}
	}
	for i := range f.nodes {
		for _, from := range []string{"192.0.2.1", "2001:db8::1"} {
			until(t, fmt.Sprintf("the unlock of %s at node %d", from, i), func() bool { return f.guess(i, "local", from) == 200 })
		}
	}
	if out, err := exec.Command(binary, "unlock", "--key", keys[0]+"00", "--admin", f.admin[0], "--reason", "a test").CombinedOutput(); err == nil || !strings.Contains(string(out), "Nothing was counted") {
		t.Errorf("unlock of nobody: %v\n%s", err, out)
	}
}

// A server that is not there is waited for; one that must not be used is an error at the start. The
// modes of doors change with a reload, and the store does not.
func TestStoreAtTheStart(t *testing.T) {
	redis := freePort(t)
	f := startFleet(t, 1, redis)
	p := f.nodes[0]
	until(t, "a line", func() bool { return strings.Contains(p.out.String(), "the store is away") })
	for door, want := range map[string]int{"local": 5, "closed": 0, "open": 20} {
		if n, _ := f.guesses(20, 1, door, "192.0.2.1"); n != want {
			t.Errorf("door %s: %d reached the application, want %d", door, n, want)
		}
	}
	file := p.cmd.Args[len(p.cmd.Args)-1]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(old, new, line string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.cmd.Process.Signal(syscall.SIGHUP)
		until(t, line, func() bool { return strings.Contains(p.out.String(), line) })
	}
	reload("when_store_is_away: open", "when_store_is_away: closed", "msg=reloaded")
	if n, statuses := f.guesses(20, 1, "open", "192.0.2.2"); n != 0 || statuses[503] != 20 {
		t.Errorf("closed now: %d reached the application, %v", n, statuses)
	}
	reload("deadline: 1s", "deadline: 2ms", "store needs a restart")

	redisServer(t, redis, "--requirepass", "open sesame")
	for _, x := range []struct{ more, want string }{
		{"", "NOAUTH"},
		{", password_file: redis.pass", "WRONGPASS"},
	} {
		file, _ := sharedConfig(t, freePort(t), "127.0.0.1:1", redis, x.more)
		for _, command := range [][]string{{"serve", "--config", file}, {"doctor", file}} {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			out, err := exec.CommandContext(ctx, binary, command...).CombinedOutput()
			cancel()
			if err == nil || !strings.Contains(string(out), x.want) || command[0] == "serve" && !strings.Contains(string(out), "store: redisstore: ") {
				t.Errorf("%s with%s: %v\n%s", command[0], x.more, err, out)
			}
		}
	}
	file, _ = sharedConfig(t, freePort(t), "127.0.0.1:1", freePort(t), "")
	if out, _ := exec.Command(binary, "doctor", file).CombinedOutput(); !strings.Contains(string(out), "store: the store cannot be used: ") {
		t.Errorf("doctor:\n%s", out)
	}
	evicting := freePort(t)
	redisServer(t, evicting, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	file, _ = sharedConfig(t, freePort(t), "127.0.0.1:1", evicting, "")
	if out, err := exec.Command(binary, "serve", "--config", file).CombinedOutput(); err == nil || !strings.Contains(string(out), "maxmemory-policy allkeys-lru") {
		t.Errorf("with a server that evicts: %v\n%s", err, out)
	}
}
