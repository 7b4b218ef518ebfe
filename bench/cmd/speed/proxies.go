package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/doorward/doorward/bench/internal/measure"
)

// A throughput is what wrk saw of one server.
type throughput struct {
	name      string
	ours      bool
	group     string
	perSecond float64
	p99       time.Duration
}

// A target is a server and a path of it.
type target struct {
	name, group string
	ours        bool
	port        int
	path        string
}

// Groups of targets that do the same.
const (
	passing  = "passing on, nothing limited"
	admitted = "limited, and within the limit"
	refusing = "limited, and refused"
)

// proxies puts each proxy between wrk and the same application, all on loopback.
func (r *runner) proxies(f *figures) error {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return err
	}
	nginx, err := lookPath("nginx", "/usr/sbin/nginx")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "speed")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	application, bare, ours, theirs := ports[0], ports[1], ports[2], ports[3]
	self, err := os.Executable()
	if err != nil {
		return err
	}
	daemon := filepath.Join(dir, "doorward")
	if out, err := exec.Command("go", "build", "-o", daemon, "./cmd/doorward").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for name, text := range map[string]string{
		"doorward.yaml": fmt.Sprintf(doorwardConfig, ours, application),
		"nginx.conf":    fmt.Sprintf(nginxConfig, theirs, application),
		"post.lua":      `wrk.method = "POST"; wrk.body = "username=alice&password=guess"; wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{self, "-serve", "application", strconv.Itoa(application)},
		{self, "-serve", "proxy", strconv.Itoa(bare), strconv.Itoa(application)},
		{daemon, "serve", "--config", filepath.Join(dir, "doorward.yaml")},
		{nginx, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr"},
	} {
		stop, err := start(args)
		if err != nil {
			return err
		}
		defer stop()
	}
	for _, p := range ports {
		if err := waitFor(p); err != nil {
			return err
		}
	}
	targets := []target{
		{"httputil.ReverseProxy", passing, false, bare, "/page"},
		{"nginx", passing, false, theirs, "/page"},
		{"doorward serve", passing, true, ours, "/page"},
		{"nginx, limit_req", admitted, false, theirs, "/login"},
		{"doorward serve", admitted, true, ours, "/login"},
		{"nginx, limit_req", refusing, false, theirs, "/locked"},
		{"doorward serve", refusing, true, ours, "/locked"},
	}
	rate, p99 := make([][]float64, len(targets)), make([][]time.Duration, len(targets))
	for range r.rounds {
		for i, t := range targets {
			n, tail, err := load(wrk, filepath.Join(dir, "post.lua"), t, r.load)
			if err != nil {
				return err
			}
			rate[i], p99[i] = append(rate[i], n), append(p99[i], tail)
		}
	}
	for i, t := range targets {
		f.proxy = append(f.proxy, throughput{t.name, t.ours, t.group, measure.Median(rate[i]), measure.Median(p99[i])})
	}
	return nil
}

// The limits at /login are far above what wrk can send, those at /locked far below.
const doorwardConfig = `listen: 127.0.0.1:%d
upstream: http://127.0.0.1:%d
reuse: {reads_bodies: true}
log: {level: error}
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 200}}
    rules:
      - {name: network, per: network, lockout: {free_failures: 60000, window: 1m, first_lockout: 1m, max_lockout: 1h}}
  - name: locked
    routes: ["POST /locked"]
    outcome: {succeeded: {status: 201}}
    rules:
      - {name: network, per: network, lockout: {free_failures: 5, window: 1m, first_lockout: 1h, max_lockout: 1h}}
`

const nginxConfig = `worker_processes 2;
daemon off;
pid nginx.pid;
events { worker_connections 1024; }
http {
	access_log off;
	error_log stderr emerg;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	limit_req_zone $binary_remote_addr zone=login:10m rate=1000000r/s;
	limit_req_zone $binary_remote_addr zone=locked:10m rate=5r/m;
	limit_req_status 429;
	server {
		listen 127.0.0.1:%[1]d;
		location / { proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ""; }
		location /login { limit_req zone=login burst=60000 nodelay; proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ""; }
		location /locked { limit_req zone=locked burst=4 nodelay; proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ""; }
	}
	upstream application { server 127.0.0.1:%[2]d; keepalive 64; }
}
`

var (
	wrkRate = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkTail = regexp.MustCompile(`99%\s+([0-9.]+)(us|ms|s)`)
	wrkBad  = regexp.MustCompile(`Non-2xx or 3xx responses: ([0-9]+)`)
	wrkSock = regexp.MustCompile(`Socket errors: .*`)
)

// load runs wrk and checks that it got the answers that were meant.
func load(wrk, script string, t target, d time.Duration) (perSecond float64, p99 time.Duration, err error) {
	// wrk counts in whole seconds.
	seconds := max(1, int(d.Round(time.Second)/time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds+20)*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, wrk, "-t1", "-c16", "-d"+strconv.Itoa(seconds)+"s", "--latency", "-s", script,
		fmt.Sprintf("http://127.0.0.1:%d%s", t.port, t.path)).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("wrk: %w: %s", err, out)
	}
	rate, tail := wrkRate.FindSubmatch(out), wrkTail.FindSubmatch(out)
	if rate == nil || tail == nil {
		return 0, 0, fmt.Errorf("wrk said nothing of %s: %s", t.name, out)
	}
	if m := wrkSock.Find(out); m != nil {
		return 0, 0, fmt.Errorf("%s%s: %s", t.name, t.path, m)
	}
	if bad := wrkBad.Find(out) != nil; bad != (t.group == refusing) {
		return 0, 0, fmt.Errorf("%s%s, %s: %s", t.name, t.path, t.group, out)
	}
	perSecond, err = strconv.ParseFloat(string(rate[1]), 64)
	if err != nil {
		return 0, 0, err
	}
	p99, err = time.ParseDuration(string(tail[1]) + string(tail[2]))
	return perSecond, p99, err
}

// start starts a process and returns what ends it.
func start(args []string) (stop func(), err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
	}, nil
}

func waitFor(port int) error {
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var c net.Conn
		if c, err = net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return c.Close()
		}
	}
	return err
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are known
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// lookPath also finds a program that only root has in its path.
func lookPath(name, also string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return exec.LookPath(also)
}

// serve is the application or the bare proxy, in a process of its own.
func serve(role string, args []string) error {
	var h http.Handler
	switch {
	case role == "application" && len(args) == 1:
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("welcome\n")) })
	case role == "proxy" && len(args) == 2:
		to := &url.URL{Scheme: "http", Host: "127.0.0.1:" + args[1]}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		h = &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
			Transport: transport,
			ErrorLog:  log.New(new(strings.Builder), "", 0),
		}
	default:
		return errors.New("serve takes application PORT, or proxy PORT PORT")
	}
	return http.ListenAndServe("127.0.0.1:"+args[0], h)
}
