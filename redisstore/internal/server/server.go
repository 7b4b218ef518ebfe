// Package server runs redis-server for tests, on free ports of the loopback interface, with
// nothing kept on disk. What it starts ends with the test.
package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Start starts a server with more of its arguments, and returns its address once it
// answers. Without the program the test is skipped, or fails where CI is true.
func Start(t testing.TB, args ...string) (addr string) {
	t.Helper()
	return StartAt(t, freePort(t), args...)
}

// StartAt is Start on a port.
func StartAt(t testing.TB, port string, args ...string) (addr string) {
	t.Helper()
	return run(t, port, arguments(t, port, args)...)
}

func arguments(t testing.TB, port string, more []string) []string {
	return append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(),
	}, more...)
}

// Process starts a server, and returns its address and its process, for signals.
func Process(t testing.TB, args ...string) (addr string, process *os.Process) {
	t.Helper()
	port := freePort(t)
	return start(t, port, arguments(t, port, args)...)
}

// Sentinel starts a Sentinel that knows a server by a name.
func Sentinel(t testing.TB, name, server string) (addr string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(server)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	own := freePort(t)
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s %s %s 1\n", own, name, host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, own, file, "--sentinel")
}

func run(t testing.TB, port string, args ...string) (addr string) {
	t.Helper()
	addr, _ = start(t, port, args...)
	return addr
}

// start runs redis-server until the test ends, and returns its address once it listens on a port.
func start(t testing.TB, port string, args ...string) (addr string, process *os.Process) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is missing: apt-get install redis-server")
		}
		t.Skip("redis-server is missing: apt-get install redis-server")
	}
	addr = net.JoinHostPort("127.0.0.1", port)
	cmd := exec.Command(program, args...)
	out, err := os.CreateTemp(t.TempDir(), "redis")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if the tests are killed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill() // a paused one too
		<-ended
		out.Close()
	})
	deadline := time.After(20 * time.Second)
	for {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return addr, cmd.Process
		}
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(out.Name())
			t.Fatalf("redis-server ended: %v\n%s", err, text)
		case <-deadline:
			t.Fatalf("redis-server does not listen: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 55_000 { // a cluster's bus is 10,000 above
			return strconv.Itoa(port)
		}
	}
}

// Client returns a client of a server, closed when the test ends.
func Client(t testing.TB, addrs ...string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Do sends a command and returns its answer as text, "" for none.
func Do(t testing.TB, c rueidis.Client, words ...string) string {
	t.Helper()
	r := c.Do(context.Background(), c.B().Arbitrary(words...).Build())
	if rueidis.IsRedisNil(r.Error()) {
		return ""
	}
	m, err := r.ToMessage()
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	if n, err := m.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}
	s, err := m.ToString()
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return s
}

// Cluster starts so many primaries with all slots between them, and returns their addresses.
func Cluster(t testing.TB, primaries int) []string {
	t.Helper()
	const slots = 16384
	var addrs []string
	for i := range primaries {
		addr := Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		c := single(t, addr)
		Do(t, c, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/primaries), strconv.Itoa(slots*(i+1)/primaries-1))
		for _, other := range addrs {
			host, port, _ := net.SplitHostPort(other)
			Do(t, c, "CLUSTER", "MEET", host, port)
		}
		addrs = append(addrs, addr)
	}
	for _, addr := range addrs {
		c := single(t, addr)
		Await(t, "the cluster to be whole", func() bool {
			info := Do(t, c, "CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(primaries))
		})
	}
	return addrs
}

func single(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Await waits until something is so, for half a minute at most.
func Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}
