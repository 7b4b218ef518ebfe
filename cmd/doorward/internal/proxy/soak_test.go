package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// TestSoak: memory, goroutines and connections do not grow with the requests that have
// been served, whatever became of them. DOORWARD_SOAK is how many rounds are soaked
// after the first: 300 are some minutes.
func TestSoak(t *testing.T) {
	rounds := 6
	if s := os.Getenv("DOORWARD_SOAK"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	// It answers, but by what the request asks for it also fails in some way.
	a := listen(t, func(conn net.Conn, r *bufio.Reader) {
		conn.SetDeadline(time.Now().Add(30 * time.Minute))
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			switch req.Header.Get("X-Fault") {
			case "close":
				return
			case "reset":
				reset(conn)
				return
			case "half":
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
				return
			case "early":
				io.WriteString(conn, right)
				return
			}
			io.Copy(io.Discard, req.Body)
			answer := wrong
			if req.Header.Get("X-Right") != "" {
				answer = right
			}
			io.WriteString(conn, answer)
			if req.Close {
				return
			}
		}
	})
	s := serve(t, a.addr, func(c *Config) {
		c.Log = nil
		c.Reuse.Spare = 4
	})
	kinds := []string{
		"GET /page HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /page HTTP/1.1\r\nHost: x\r\nX-Fault: close\r\n\r\n",
		"GET /page HTTP/1.1\r\nHost: x\r\nX-Fault: half\r\n\r\n",
		"POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na=b",
		"POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na",
		"POST /login HTTP/1.1\r\nHost: x\r\nX-Right: 1\r\nContent-Length: 3\r\n\r\na=b",
		"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na=b",
		"POST /login HTTP/1.1\r\nHost: x\r\nX-Fault: close\r\nContent-Length: 3\r\n\r\na=b",
		"POST /login HTTP/1.1\r\nHost: x\r\nX-Fault: reset\r\nContent-Length: 3\r\n\r\na=b",
		"POST /login HTTP/1.1\r\nHost: x\r\nX-Fault: early\r\nContent-Length: 3\r\n\r\na=b",
		"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na",
		"nonsense\r\n\r\n",
	}
	served := 0
	round := func() {
		for range 10 {
			var wg sync.WaitGroup
			for i, text := range kinds {
				served += 2
				s.from(fmt.Sprintf("10.%d.%d.%d", served>>16&255, served>>8&255, served&255))
				for range 2 {
					conn, err := net.Dial("tcp", s.addr)
					if err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						defer conn.Close()
						conn.SetDeadline(time.Now().Add(patience))
						io.WriteString(conn, text)
						if text[len(text)-1] == 'a' || i%5 == 4 { // hangs up
							conn.(*net.TCPConn).CloseWrite()
						}
						if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
							io.Copy(io.Discard, res.Body)
						}
					})
				}
			}
			wg.Wait()
		}
	}
	// measure waits until all has come to rest.
	measure := func(goroutines int) (int, uint64) {
		t.Helper()
		s.proxy.pool.CloseIdle()
		for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			n := runtime.NumGoroutine()
			if s.proxy.pool.Connections() == 0 && n <= goroutines || time.Now().After(deadline) {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC() // pools are emptied by the second
				runtime.ReadMemStats(&m)
				return n, m.HeapAlloc
			}
		}
	}
	idle := runtime.NumGoroutine()
	for range 2 {
		round()
	}
	_, heap := measure(idle + 2)
	for range rounds {
		round()
	}
	n, after := measure(idle + 2)
	t.Logf("%d requests: %d goroutines, %d bytes; before %d, %d", served, n, after, idle, heap)
	if n > idle+2 {
		t.Errorf("%d goroutines after %d requests, %d before", n, served, idle)
	}
	if after > heap+1<<20 {
		t.Errorf("%d bytes in use after %d requests, %d before", after, served, heap)
	}
	if n := s.proxy.pool.Connections(); n != 0 {
		t.Errorf("%d connections to the application are left", n)
	}
	document.Table(t, faultsDocument, "soak", [][]string{
		{"right and wrong attempts, pages, uploads, hang-ups, nonsense, and an application that closes, resets, breaks off and answers early",
			"goroutines and connections are as many as before the first request; memory within 1 MiB"},
	})
}
