package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// namespaceEnv tells the test binary that it runs inside the namespace, and where
// doorward is.
const namespaceEnv = "DOORWARD_E2E_NAMESPACE"

func inNamespace() bool { return os.Getenv(namespaceEnv) != "" }

// In a network namespace of its own a client owns a whole /48 and connects from
// thousands of its addresses, over real sockets.
func TestOwnerOfA48(t *testing.T) {
	runInside(t, "TestInsideOne64", "TestInsideOne48", "TestInsideForwarded")
}

// runInside runs tests again in a network namespace where a /48 is ours.
func runInside(t *testing.T, tests ...string) {
	t.Helper()
	if inNamespace() {
		t.Skip("is inside already")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := namespace(t, `set -e
ip link set lo up
ip -6 route add local 2001:db8:77::/48 dev lo
echo 1 >/proc/sys/net/ipv6/ip_nonlocal_bind
exec "$0" "$@"`, self, "-test.run", "^("+strings.Join(tests, "|")+")$", "-test.v", "-test.timeout", "3m")
	cmd.Env = append(os.Environ(), namespaceEnv+"="+binary)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("inside the namespace: %v\n%s", err, out)
	}
	for _, want := range tests {
		if !strings.Contains(string(out), "--- PASS: "+want) {
			t.Errorf("%s did not pass inside the namespace:\n%s", want, out)
		}
	}
}

// needInside is need for tests that run inside a namespace, and nowhere else.
func needInside(t *testing.T, program string) string {
	t.Helper()
	if !inNamespace() {
		t.Skip("runs inside a namespace")
	}
	return need(t, program)
}

// namespace returns a command that runs a bash script in a network namespace of its own.
func namespace(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	need(t, "ip")
	unshare := []string{"--net"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	script = `PATH="$PATH:/usr/sbin:/sbin"` + "\n" + script
	return exec.Command(need(t, "unshare"), append(append(unshare, "bash", "-c", script), args...)...)
}

// guessFrom sends one wrong password from each address, many at a time, and returns
// how many answers were refusals.
func guessFrom(t *testing.T, addr string, from []netip.Addr) (refused int) {
	t.Helper()
	var mu sync.Mutex
	work := make(chan netip.Addr)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for a := range work {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: a.AsSlice()}, Timeout: 30 * time.Second}
				c := http.Client{
					Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true},
					Timeout:   time.Minute,
				}
				r, err := c.PostForm("http://"+addr+"/login", url.Values{"username": {"alice"}, "password": {"x"}})
				if err != nil {
					t.Errorf("from %v: %v", a, err)
					continue
				}
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
				mu.Lock()
				if r.StatusCode == http.StatusTooManyRequests {
					refused++
				} else if r.StatusCode != http.StatusOK {
					t.Errorf("from %v: %s", a, r.Status)
				}
				mu.Unlock()
			}
		})
	}
	for _, a := range from {
		work <- a
	}
	close(work)
	wg.Wait()
	return refused
}

func address(subnet uint16, host uint64) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:77:%x:%x:%x:%x:%x", subnet,
		uint16(host>>48), uint16(host>>32), uint16(host>>16), uint16(host)))
}

const insideConfig = `
listen: "[::]:8099"
upstream: http://%s
doors:
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
    rules:
      - {name: own, per: network, lockout: {free_failures: 5, window: 10m, first_lockout: 10m, max_lockout: 1h}}
      - {name: site, per: network6/48, lockout: {free_failures: 40, window: 10m, first_lockout: 10m, max_lockout: 1h}}
`

func inside(t *testing.T) (*app, string) {
	t.Helper()
	a, addr, _ := insideLog(t)
	return a, addr
}

func insideLog(t *testing.T) (*app, string, *process) {
	t.Helper()
	if !inNamespace() {
		t.Skip("runs inside a namespace")
	}
	a, upstream := newApp(t)
	file := filepath.Join(t.TempDir(), "doorward.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, insideConfig, upstream), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "[::1]:8099", binary, "serve", "--config", file)
	return a, "[2001:db8:77::1]:8099", p
}

// 2^64 addresses of one /64 are one subscriber: five attempts.
func TestInsideOne64(t *testing.T) {
	a, addr := inside(t)
	var from []netip.Addr
	for range 3000 {
		from = append(from, address(7, rand.Uint64()|1))
	}
	if refused := guessFrom(t, addr, from); refused != 2995 {
		t.Errorf("%d refused, want 2,995", refused)
	}
	if wrong, _ := a.tries(); wrong != 5 {
		t.Errorf("%d attempts reached the application, want 5", wrong)
	}
}

// 65,536 /64s of one /48: the wider rule ends it at 40.
func TestInsideOne48(t *testing.T) {
	a, addr := inside(t)
	var from []netip.Addr
	for i := range 3000 {
		from = append(from, address(uint16(i*21), rand.Uint64()|1))
	}
	if refused := guessFrom(t, addr, from); refused != 2960 {
		t.Errorf("%d refused, want 2,960", refused)
	}
	if wrong, _ := a.tries(); wrong != 40 {
		t.Errorf("%d attempts reached the application, want 40", wrong)
	}
}

// Two callers behind a peer that nobody has named: the second one is enough to tell.
func TestInsideForwarded(t *testing.T) {
	_, addr, p := insideLog(t)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: address(7, 1).AsSlice()}}
	c := http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	for i, want := range []int{0, 1} {
		r, err := http.NewRequest("POST", "http://"+addr+"/login", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if n := strings.Count(p.out.String(), " check=forwarded peer=2001:db8:77:7::1 "); n != want {
			t.Errorf("after %d callers: told %d times, want %d", i+1, n, want)
		}
	}
}
