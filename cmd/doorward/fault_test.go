package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// TestFaults: what happens to the process, and what becomes of requests then.
func TestFaults(t *testing.T) {
	var rows [][]string
	for _, fault := range []struct {
		name, outcome string
		test          func(*testing.T)
	}{
		{"nothing can be written to the log: its disk is full", "requests are served and attempts counted as before; lines that were lost are counted, and reported when there is space", logFull},
		{"10,000 open connections", "each gets its answer, nobody is locked out by them, and all of them are given back", manyConnections},
		{"SIGTERM under load", "every answer of the application arrives; exit code 0", termUnderLoad},
	} {
		t.Run(strings.ReplaceAll(fault.name, " ", "_"), fault.test)
		rows = append(rows, []string{fault.name, fault.outcome})
	}
	document.Table(t, filepath.Join(docs, "faults.md"), "process", rows)
}

// unused returns an address that nobody listens at.
func unused(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func logFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	p := &process{t: t, addr: unused(t)} // it cannot say
	p.cmd = exec.Command("doorward", "serve", "--listen", p.addr, "--upstream", application(t), "--door", "POST /login", "--succeeded", "302", "--log-level", "debug")
	p.cmd.Stdout, p.cmd.Stderr = full, full
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	await(t, "does not serve", func() bool {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	for i, want := range []int{200, 200, 200, 200, 200, 429, 429} {
		if status := p.login("wrong"); status != want {
			t.Errorf("guess %d: status %d, want %d", i, status, want)
		}
	}
	p.signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// hold is a process of its own: it opens connections, NUMBER to ADDRESS, says so, and asks
// for a page over each of them when it is told to go on.
func hold() {
	n, _ := strconv.Atoi(os.Args[2])
	conns := make([]net.Conn, n)
	each := func(do func(i int) error) {
		var failed atomic.Int64
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := w; i < n; i += 16 {
					if err := do(i); err != nil && failed.Add(1) == 1 {
						fmt.Fprintln(os.Stderr, "hold:", err)
					}
				}
			})
		}
		wg.Wait()
		fmt.Println(int64(n) - failed.Load())
	}
	each(func(i int) (err error) {
		// From as many networks as a site has visitors.
		from := &net.TCPAddr{IP: net.IPv4(127, byte(1+i/250), byte(i%250), 1)}
		conns[i], err = (&net.Dialer{LocalAddr: from}).Dial("tcp", os.Args[1])
		return err
	})
	bufio.NewReader(os.Stdin).ReadString('\n')
	each(func(i int) error {
		conns[i].SetDeadline(time.Now().Add(30 * time.Second))
		io.WriteString(conns[i], "GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conns[i]), nil)
		if err != nil {
			return err
		}
		if res.StatusCode != 200 {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	})
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func manyConnections(t *testing.T) {
	const many = 9_990 // with those of the attempts, the 10,000 that are let in
	file := filepath.Join(t.TempDir(), "doorward.yaml")
	text := "listen: 127.0.0.1:0\nupstream: " + application(t) + `
clients: {}
doors:
  - {name: login, routes: ["POST /login"], outcome: {succeeded: {status: 302}}}
timeouts: {read_header: 2m, idle: 2m}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "serve", "--config", file)
	files := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := files()
	client := exec.Command("hold", p.addr, strconv.Itoa(many))
	client.Stderr = os.Stderr
	in, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Process.Kill() })
	lines := bufio.NewScanner(out)
	said := func() string { lines.Scan(); return lines.Text() }
	if got := said(); got != strconv.Itoa(many) {
		t.Fatalf("%s connections", got)
	}
	await(t, "not all connections are accepted", func() bool { return files() >= before+many })
	if status := p.login("right"); status != http.StatusFound {
		t.Errorf("the right password: status %d", status)
	}
	fmt.Fprintln(in)
	if got := said(); got != strconv.Itoa(many) {
		t.Errorf("%s answers", got)
	}
	for i, want := range []int{200, 200, 200, 200, 200, 429} {
		if status := p.login("wrong"); status != want {
			t.Errorf("guess %d: status %d, want %d", i, status, want)
		}
	}
	fmt.Fprintln(in)
	if err := client.Wait(); err != nil {
		t.Error(err)
	}
	await(t, "connections are not given back", func() bool { return files() < before+100 })
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
}

func termUnderLoad(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		mu.Lock()
		seen[r.Header.Get("X-Id")]++
		mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}))
	defer app.Close()
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--upstream", app.URL, "--door", "POST /login", "--succeeded", "204")
	var answered sync.Map
	var answers atomic.Int64
	var callers sync.WaitGroup
	for c := range 16 {
		callers.Go(func() {
			var conn net.Conn
			var in *bufio.Reader
			for i := 0; ; i++ {
				if conn == nil || i%10 == 0 { // some kept, some fresh
					if conn != nil {
						conn.Close()
					}
					var err error
					if conn, err = net.Dial("tcp", p.addr); err != nil {
						return
					}
					in = bufio.NewReader(conn)
					conn.SetDeadline(time.Now().Add(20 * time.Second))
				}
				id := fmt.Sprintf("%d-%d", c, i)
				line := "GET /page"
				if c == 0 {
					line = "POST /login"
				}
				fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nX-Id: %s\r\nContent-Length: 0\r\n\r\n", line, id)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					conn.Close()
					conn = nil
					continue
				}
				answered.Store(id, res.StatusCode)
				answers.Add(1)
			}
		})
	}
	await(t, "no answers", func() bool { return answers.Load() > 500 })
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
	callers.Wait()
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		if status, _ := answered.Load(id); status != http.StatusNoContent || n != 1 {
			t.Errorf("%s: seen %d times, status %v", id, n, status)
		}
	}
	t.Logf("%d requests reached the application, and as many answers came back", len(seen))
}
