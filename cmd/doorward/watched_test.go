package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/guard"
)

// locked is how many keys are locked while decisions are measured.
const locked = 100_000

// dialSocket reaches what listens at a unix socket, whatever address it is asked for.
func dialSocket(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

// spread counts times to the nanosecond.
type spread [20_000]uint32

func (s *spread) add(d time.Duration) { s[min(int(d), len(s)-1)]++ }

func (s *spread) at(part float64) time.Duration {
	n := 0
	for _, k := range s {
		n += int(k)
	}
	for d, seen := 0, 0; d < len(s); d++ {
		if seen += int(s[d]); float64(seen) >= part*float64(n) {
			return time.Duration(d)
		}
	}
	return 0
}

// BenchmarkWatched compares decisions of a flood at full speed, with all that is told of
// them, while nobody watches and while doorward top, doorward events --follow and a scrape
// every second do: in turns, in one run. 100,000 keys are locked. It takes 40 seconds:
//
//	go test -run '^$' -bench BenchmarkWatched -benchtime 1x ./cmd/doorward
func BenchmarkWatched(b *testing.B) {
	dir := b.TempDir()
	socket := "unix:" + filepath.Join(dir, "admin.sock")
	c, err := config.Parse("doorward.yaml", fmt.Appendf(nil, `
listen: 127.0.0.1:0
upstream: http://127.0.0.1:1
admin: {listen: [%q]}
audit: {file: %q}
doors:
  - name: login
    routes: [POST /login]
    outcome: {succeeded: {status: 302}}
    rules:
      - {name: burst, per: network, lockout: {free_failures: 1, window: 1h, first_lockout: 1h, max_lockout: 1h, capacity: 131072}}
      - {name: day, per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true, capacity: 131072}}
      - {name: site, per: network4/24, lockout: {free_failures: 300, window: 24h, first_lockout: 1m, max_lockout: 15m, decay: true}}
`, socket, filepath.Join(dir, "audit.log")), config.Overrides{})
	if err != nil {
		b.Fatal(err)
	}
	d := newDaemon(c)
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx, io.Discard) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
	}()
	for end := time.Now().Add(30 * time.Second); exec.Command("doorward", "status", "--admin", socket).Run() != nil; {
		if time.Now().After(end) {
			b.Fatal("it does not serve")
		}
	}
	g := d.guards["login"]
	from := func(i int) guard.Request {
		return guard.Request{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), How: clientip.Peer}
	}
	for i := range locked {
		p := g.Attempt(from(i), time.Now())
		if s := p.Settle(doorward.Failed, time.Now()); s.Lockout.Rule != "burst" {
			b.Fatalf("key %d: %+v", i, s)
		}
	}

	decide := func(s *spread, i int) {
		r := from(i)
		now := time.Now()
		v := g.Check(r, now)
		d.tell(&proxy.Event{Time: now, Door: "login", Guard: g, Addr: r.Addr, How: r.How, Method: "POST", Path: "/login", Agent: "flood", Verdict: v, Took: time.Since(now)})
		s.add(time.Since(now))
	}
	const round = 4 * time.Second
	flood := func(all *spread) (n uint64) {
		var mu sync.Mutex
		var total atomic.Uint64
		var wg sync.WaitGroup
		for w := range runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				mine, k := new(spread), w*locked/2
				for end := time.Now().Add(round); time.Now().Before(end); {
					for range 64 {
						decide(mine, k*7919%locked)
						k++
					}
				}
				total.Add(uint64(k - w*locked/2))
				mu.Lock()
				defer mu.Unlock()
				for ns, k := range mine {
					all[ns] += k
				}
			})
		}
		wg.Wait()
		return total.Load()
	}
	scrape := &http.Client{Transport: &http.Transport{DialContext: dialSocket(filepath.Join(dir, "admin.sock"))}}
	for b.Loop() {
		var quiet, watched spread
		var without, with uint64
		goroutines := 0
		for range 5 {
			without += flood(&quiet)
			ctx, cancel := context.WithCancel(b.Context())
			var watchers sync.WaitGroup
			for _, args := range [][]string{{"top"}, {"events", "--follow"}} {
				cmd := exec.CommandContext(ctx, "doorward", append(args, "--admin", socket)...)
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				watchers.Go(func() { cmd.Wait() })
			}
			watchers.Go(func() {
				for tick := time.Tick(time.Second); ; {
					if res, err := scrape.Get("http://doorward/metrics"); err != nil {
						b.Error(err)
					} else {
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					goroutines = max(goroutines, runtime.NumGoroutine())
					select {
					case <-ctx.Done():
						return
					case <-tick:
					}
				}
			})
			with += flood(&watched)
			cancel()
			watchers.Wait()
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(quiet.at(0.5)), "quiet-median-ns")
		b.ReportMetric(float64(watched.at(0.5)), "watched-median-ns")
		b.ReportMetric(float64(watched.at(0.5))/float64(quiet.at(0.5)), "median-ratio")
		b.ReportMetric(float64(watched.at(0.99))/float64(quiet.at(0.99)), "p99-ratio")
		b.ReportMetric(float64(with)/float64(without), "rate-ratio")
		b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MiB")
		b.ReportMetric(float64(goroutines), "goroutines")
	}
}
