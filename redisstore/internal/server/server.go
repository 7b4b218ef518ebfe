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

// A Server is a redis-server that tests may do harm to.
type Server struct {
	Addr string

	args  []string
	cmd   *exec.Cmd
	ended chan error
}

// Start starts a server with more of its arguments, and returns its address once it
// answers. Without the program the test is skipped, or fails where CI is true.
func Start(t testing.TB, args ...string) (addr string) {
	t.Helper()
	return Run(t, args...).Addr
}

// StartAt is Start on a port.
func StartAt(t testing.TB, port string, args ...string) (addr string) {
	t.Helper()
	return runAt(t, port, args...).Addr
}

// Run is Start, and returns the process.
func Run(t testing.TB, args ...string) *Server {
	t.Helper()
	return runAt(t, freePort(t), args...)
}

func runAt(t testing.TB, port string, args ...string) *Server {
	t.Helper()
	return run(t, port, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(),
	}, args...)...)
}

// Sentinel starts a Sentinel that knows a server by a name.
func Sentinel(t testing.TB, name, server string) (addr string) {
	t.Helper()
	return sentinel(t, name, server, 1).Addr
}

func sentinel(t testing.TB, name, server string, quorum int, more ...string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(server)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	own := freePort(t)
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s %s %s %d\n", own, name, host, port, quorum)
	for _, line := range more {
		text += line + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, own, file, "--sentinel")
}

// run runs redis-server until the test ends, and returns once it listens on a port.
func run(t testing.TB, port string, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is missing: apt-get install redis-server")
		}
		t.Skip("redis-server is missing: apt-get install redis-server")
	}
	p := &Server{Addr: net.JoinHostPort("127.0.0.1", port), args: args}
	p.Start(t)
	t.Cleanup(p.Kill)
	return p
}

// Start starts the process anew, after Kill.
func (p *Server) Start(t testing.TB) {
	t.Helper()
	cmd := exec.Command("redis-server", p.args...)
	out, err := os.CreateTemp(t.TempDir(), "redis")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if the tests are killed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd, p.ended = cmd, make(chan error, 1)
	go func() { p.ended <- cmd.Wait() }()
	deadline := time.After(20 * time.Second)
	for {
		c, err := net.DialTimeout("tcp", p.Addr, time.Second)
		if err == nil {
			c.Close()
			return
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			text, _ := os.ReadFile(out.Name())
			t.Fatalf("redis-server ended: %v\n%s", err, text)
		case <-deadline:
			t.Fatalf("redis-server does not listen: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill ends the process at once, as power does. What is not on disk is gone.
func (p *Server) Kill() {
	p.cmd.Process.Kill()
	err := <-p.ended
	p.ended <- err
}

// Pause stops the process where it is. Its connections stay, and take what is sent.
func (p *Server) Pause() { p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (p *Server) Resume() { p.cmd.Process.Signal(syscall.SIGCONT) }

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
	text, err := do(c, words...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func do(c rueidis.Client, words ...string) (string, error) {
	r := c.Do(context.Background(), c.B().Arbitrary(words...).Build())
	if rueidis.IsRedisNil(r.Error()) {
		return "", nil
	}
	m, err := r.ToMessage()
	if err != nil {
		return "", fmt.Errorf("%q: %w", words, err)
	}
	if n, err := m.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	s, err := m.ToString()
	if err != nil {
		return "", fmt.Errorf("%q: %w", words, err)
	}
	return s, nil
}

// Ask is Do for one server, whatever it is part of, over a connection of its own.
func Ask(t testing.TB, addr string, words ...string) string {
	t.Helper()
	text, err := Try(addr, words...)
	if err != nil {
		t.Fatalf("%s: %v", addr, err)
	}
	return text
}

// Try is Ask where the server may not do it.
func Try(addr string, words ...string) (string, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, DisableRetry: true, AlwaysRESP2: true, ConnWriteTimeout: 5 * time.Second,
	})
	if err != nil {
		return "", err
	}
	defer c.Close()
	return do(c, words...)
}

// Primary reports whether a server is there and no replica.
func (p *Server) Primary() bool {
	info, err := Try(p.Addr, "INFO", "replication")
	return err == nil && strings.Contains(info, "role:master")
}

// Follows reports whether a server is a replica of another.
func (p *Server) Follows(other *Server) bool {
	_, port, _ := net.SplitHostPort(other.Addr)
	info, err := Try(p.Addr, "INFO", "replication")
	return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_port:"+port+"\r\n")
}

// Offset returns how far a server is in what is replicated.
func (p *Server) Offset(t testing.TB) string {
	t.Helper()
	_, rest, ok := strings.Cut(Ask(t, p.Addr, "INFO", "replication"), "\r\nmaster_repl_offset:")
	offset, _, _ := strings.Cut(rest, "\r\n")
	if !ok {
		t.Fatalf("%s does not say how far it is", p.Addr)
	}
	return offset
}

// MoveSlot moves a slot of a cluster and the keys in it, a few at a time, as tools do. Of each few it moves
// those that next returns.
func MoveSlot(t testing.TB, slot string, from, to *Server, all []*Server, next func(keys []string) []string) {
	t.Helper()
	source, target := Ask(t, from.Addr, "CLUSTER", "MYID"), Ask(t, to.Addr, "CLUSTER", "MYID")
	Ask(t, to.Addr, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	Ask(t, from.Addr, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	host, port, _ := net.SplitHostPort(to.Addr)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{from.Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		keys, err := c.Do(context.Background(), c.B().Arbitrary("CLUSTER", "GETKEYSINSLOT", slot, "25").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		Do(t, c, append([]string{"MIGRATE", host, port, "", "0", "5000", "REPLACE", "KEYS"}, next(keys)...)...)
	}
	for _, p := range append([]*Server{to, from}, all...) {
		if p == to || p == from || p.Primary() {
			Ask(t, p.Addr, "CLUSTER", "SETSLOT", slot, "NODE", target)
		}
	}
}

// Cluster starts so many primaries with all slots between them, and returns their addresses.
func Cluster(t testing.TB, primaries int) (addrs []string) {
	t.Helper()
	for _, p := range Replicated(t, primaries, 0) {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}

// Replicated is Cluster with so many replicas of each primary, which come after all primaries, in
// the same order.
func Replicated(t testing.TB, primaries, replicas int) (nodes []*Server) {
	t.Helper()
	const slots = 16384
	for i := range primaries * (1 + replicas) {
		p := Run(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
		if i < primaries {
			Ask(t, p.Addr, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/primaries), strconv.Itoa(slots*(i+1)/primaries-1))
			Ask(t, p.Addr, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		}
		for _, other := range nodes {
			host, port, _ := net.SplitHostPort(other.Addr)
			Ask(t, p.Addr, "CLUSTER", "MEET", host, port)
		}
		nodes = append(nodes, p)
	}
	whole := func(p *Server) bool {
		info := Ask(t, p.Addr, "CLUSTER", "INFO")
		return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(nodes)))
	}
	for _, p := range nodes {
		Await(t, "the cluster to be whole", func() bool { return whole(p) })
	}
	for i, p := range nodes[primaries:] {
		of := Ask(t, nodes[i%primaries].Addr, "CLUSTER", "MYID")
		Ask(t, p.Addr, "CLUSTER", "REPLICATE", of)
	}
	for _, p := range nodes[primaries:] {
		AwaitReplica(t, p.Addr)
		for _, other := range nodes { // all must know it to be one, or they do not vote for it
			id := Ask(t, p.Addr, "CLUSTER", "MYID")
			Await(t, "all to know the replica", func() bool {
				for line := range strings.Lines(Ask(t, other.Addr, "CLUSTER", "NODES")) {
					if strings.HasPrefix(line, id) {
						return strings.Contains(line, "slave")
					}
				}
				return false
			})
		}
	}
	return nodes
}

// AwaitReplica waits until a server has all that its primary has.
func AwaitReplica(t testing.TB, addr string) {
	t.Helper()
	Await(t, "a replica to follow", func() bool {
		info := Ask(t, addr, "INFO", "replication")
		return strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up") && !strings.Contains(info, "master_sync_in_progress:1")
	})
}

// Watched starts a primary, a replica, and three Sentinels that know the primary by a name and take it to
// be down after a second.
func Watched(t testing.TB, name string) (primary, replica *Server, sentinels []*Server) {
	t.Helper()
	primary = Run(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica = Run(t, "--repl-diskless-sync-delay", "0", "--replicaof", host+" "+port)
	AwaitReplica(t, replica.Addr)
	for range 3 {
		sentinels = append(sentinels, sentinel(t, name, primary.Addr, 2,
			"sentinel down-after-milliseconds "+name+" 1000", "sentinel failover-timeout "+name+" 3000"))
	}
	for _, s := range sentinels {
		Await(t, "Sentinels to know of each other", func() bool {
			text, err := Try(s.Addr, "SENTINEL", "CKQUORUM", name)
			info := Ask(t, s.Addr, "INFO", "sentinel")
			return err == nil && strings.HasPrefix(text, "OK 3 ") && strings.Contains(info, "slaves=1,sentinels=3")
		})
	}
	return primary, replica, sentinels
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
