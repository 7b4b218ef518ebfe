// Command speed measures what doorward serve adds to a bare httputil.ReverseProxy, with
// wrk (Debian's package), and prints one table:
//
//	go run ./cmd/doorward/internal/speed
//
// It promises a fair pair: both proxies and the application are processes of their own,
// both proxies keep connections alike, and they are measured in turn, several times, so
// that what else the machine does hits both. The figures are medians over the rounds.
// It is for reading, not for tests: nothing fails when a figure is bad.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	rounds      = flag.Int("rounds", 5, "how often each pair is measured")
	seconds     = flag.Int("seconds", 3, "how long each measurement takes")
	connections = flag.Int("connections", 32, "how many connections wrk holds")
	role        = flag.String("role", "", "what this process is: app or bare (used by itself)")
	listen      = flag.String("listen", "127.0.0.1:0", "where it listens then")
	upstream    = flag.String("upstream", "", "what bare is in front of")
	profile     = flag.String("profile", "", "wait for a line on standard input after starting everything, and print the addresses")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run() error {
	switch *role {
	case "app":
		return serve(http.HandlerFunc(answer))
	case "bare":
		u, err := url.Parse(*upstream)
		if err != nil {
			return err
		}
		return serve(bare(u))
	}
	return measure()
}

// answer is an application that answers at once. It reads what it is sent.
func answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(string(body), "wrong") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header()["Content-Type"] = []string{"text/plain"}
	io.WriteString(w, page)
}

var page = strings.Repeat("0123456789abcde\n", 64) // 1 KiB

// bare is the proxy to compare with: that of net/http and nothing else.
func bare(u *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u); r.SetXForwarded() },
		Transport: &http.Transport{
			DisableCompression:  true,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
		},
	}
}

func serve(h http.Handler) error {
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "msg=serving listen=%s\n", ln.Addr())
	return http.Serve(ln, h)
}

const config = `
listen: 127.0.0.1:0
upstream: %s
clients: {}
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 200}}
    rules: [{name: burst, per: network, lockout: {free_failures: %d, window: 1h, first_lockout: 1h, max_lockout: 1h}}]
reuse: {%s}
log: {level: info}
`

// A target is one URL under load.
type target struct {
	name, url string
	post      bool
}

func measure() error {
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk is missing: apt-get install wrk")
	}
	dir, err := os.MkdirTemp("", "speed")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "doorward")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/doorward/doorward/cmd/doorward").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	script := filepath.Join(dir, "post.lua")
	const lua = "wrk.method = 'POST'\nwrk.body = 'username=alice&password=secret'\nwrk.headers['Content-Type'] = 'application/x-www-form-urlencoded'\n"
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var running children
	defer running.stop()
	app, err := running.start(self, "-role", "app")
	if err != nil {
		return err
	}
	plain, err := running.start(self, "-role", "bare", "-upstream", app)
	if err != nil {
		return err
	}
	doorward := func(name string, free int, reuse string) string {
		if err != nil {
			return ""
		}
		file := filepath.Join(dir, name+".yaml")
		if err = os.WriteFile(file, fmt.Appendf(nil, config, app, free, reuse), 0o600); err != nil {
			return ""
		}
		var at string
		at, err = running.start(binary, "serve", "--config", file)
		return at
	}
	usual := doorward("usual", 60000, "")
	spare := doorward("spare", 60000, "spare: 64")
	reads := doorward("reads", 60000, "reads_bodies: true")
	locked := doorward("locked", 1, "")
	if err != nil {
		return err
	}
	res, err := http.Post(locked+"/login", "text/plain", strings.NewReader("wrong"))
	if err != nil {
		return err
	}
	res.Body.Close()

	get, post := target{"bare, GET", plain + "/page", false}, target{"bare, POST", plain + "/login", true}
	pairs := [][2]target{
		{get, {"outside doors, GET", usual + "/page", false}},
		{post, {"outside doors, POST", usual + "/form", true}},
		{post, {"outside doors, POST, reads_bodies", reads + "/form", true}},
		{post, {"at the door, POST", usual + "/login", true}},
		{post, {"at the door, POST, spare: 64", spare + "/login", true}},
		{post, {"at the door, POST, reads_bodies", reads + "/login", true}},
		{post, {"locked, POST", locked + "/login", true}},
		{get, {"bare again, GET", plain + "/page", false}},
	}
	if *profile != "" {
		fmt.Println(plain, usual, spare, reads, locked)
		bufio.NewReader(os.Stdin).ReadString('\n')
	}
	fmt.Printf("%d rounds of %d s, %d connections; median of the rounds\n\n", *rounds, *seconds, *connections)
	fmt.Println("| requests | requests/s | of bare | p50 | to bare | p99 | to bare |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, pair := range pairs {
		var got [2][]figures
		for range *rounds {
			for i, t := range pair {
				f, err := load(t, script)
				if err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				got[i] = append(got[i], f)
			}
		}
		a, b := median(got[0]), median(got[1])
		fmt.Printf("| %s | %.0f | %.2f | %v | %+.0f %% | %v | %+.0f %% |\n", pair[1].name, b.rate, b.rate/a.rate,
			b.p50, percent(a.p50, b.p50), b.p99, percent(a.p99, b.p99))
	}
	return nil
}

func percent(a, b time.Duration) float64 { return 100 * (float64(b)/float64(a) - 1) }

type figures struct {
	rate     float64
	p50, p99 time.Duration
}

func median(all []figures) (m figures) {
	mid := len(all) / 2
	var rates []float64
	var p50, p99 []time.Duration
	for _, f := range all {
		rates, p50, p99 = append(rates, f.rate), append(p50, f.p50), append(p99, f.p99)
	}
	slices.Sort(rates)
	slices.Sort(p50)
	slices.Sort(p99)
	return figures{rates[mid], p50[mid], p99[mid]}
}

var (
	rateLine = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	p50Line  = regexp.MustCompile(`\n\s+50%\s+(\S+)`)
	p99Line  = regexp.MustCompile(`\n\s+99%\s+(\S+)`)
	badLine  = regexp.MustCompile(`Socket errors:.*`)
	non2xx   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

// load puts a target under load, and fails if it answers what it should not.
func load(t target, script string) (f figures, err error) {
	args := []string{"-t1", "-c", strconv.Itoa(*connections), "-d", strconv.Itoa(*seconds) + "s", "--latency"}
	if t.post {
		args = append(args, "-s", script)
	}
	raw, err := exec.Command("wrk", append(args, t.url)...).CombinedOutput()
	if err != nil {
		return f, fmt.Errorf("wrk: %w: %s", err, raw)
	}
	out := string(raw)
	if bad := badLine.FindString(out); bad != "" {
		return f, errors.New(bad)
	}
	refused := strings.HasPrefix(t.name, "locked")
	if refused != non2xx.MatchString(out) {
		return f, errors.New(out)
	}
	r, a, b := rateLine.FindStringSubmatch(out), p50Line.FindStringSubmatch(out), p99Line.FindStringSubmatch(out)
	if r == nil || a == nil || b == nil {
		return f, errors.New(out)
	}
	f.rate, _ = strconv.ParseFloat(r[1], 64)
	f.p50, _ = time.ParseDuration(a[1])
	f.p99, _ = time.ParseDuration(b[1])
	return f, nil
}

// children are the processes that this one started.
type children []*exec.Cmd

var listening = regexp.MustCompile(`msg=serving listen=(\S+)`)

// start starts a server and returns its URL.
func (c *children) start(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	*c = append(*c, cmd)
	in := bufio.NewScanner(stderr)
	var said []string
	for in.Scan() {
		if m := listening.FindStringSubmatch(in.Text()); m != nil {
			go io.Copy(io.Discard, stderr)
			return "http://" + m[1], nil
		}
		said = append(said, in.Text())
	}
	return "", fmt.Errorf("%s does not serve: %s", name, strings.Join(said, "\n"))
}

func (c *children) stop() {
	for _, cmd := range *c {
		cmd.Process.Kill()
		cmd.Wait()
	}
}
