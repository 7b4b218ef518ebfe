package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/door"
)

// hold is an application that answers an attempt when it is told to.
func hold(t *testing.T) (a *app, arrived chan bool, release chan bool) {
	arrived, release = make(chan bool, 100), make(chan bool)
	a = listen(t, func(conn net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		if req.URL.Path == "/login" {
			arrived <- true
			<-release
		}
		io.WriteString(conn, right)
	})
	return a, arrived, release
}

// TestInFlight: a door has as many requests as it may have; one more is answered 503,
// costs no attempt and no connection to the application; other places are open.
func TestInFlight(t *testing.T) {
	a, arrived, release := hold(t)
	s := serve(t, a.addr, func(c *Config) {
		c.Doors[0].Guard = lockoutGuard(t, 100)
		c.Doors[0].MaxInFlight = 8 // two of a network
		other := c.Doors[0]
		other.Name, other.Match = "other", mustDoor(t, door.Config{Routes: []string{"POST /other"}})
		c.Doors = append(c.Doors, other)
	})
	begin := func(peer string) chan int {
		s.from(peer)
		conn := s.dial()
		io.WriteString(conn, request("POST", "/login", "a=b"))
		status := make(chan int, 1)
		go func() {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				status <- 0
				return
			}
			status <- res.StatusCode
		}()
		return status
	}
	var running []chan int
	for i := range 8 {
		running = append(running, begin(fmt.Sprintf("192.0.2.%d", 1+i/2)))
		<-arrived
	}
	at := map[string]int{}
	s.proxy.InFlight(func(door string, n int) { at[door] = n })
	if len(at) != 2 || at["login"] != 8 || at["other"] != 0 {
		t.Errorf("in flight: %v, want 8 at login and none at other", at)
	}
	for _, peer := range []string{"192.0.2.1", "192.0.2.9", "127.0.0.1"} {
		s.from(peer)
		before := s.remaining(peer)
		res := s.post("/login")
		if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("%s at a full door: %d, Retry-After %q", peer, res.StatusCode, res.Header.Get("Retry-After"))
		}
		if n := s.remaining(peer); n != before {
			t.Errorf("%s: %d attempts remain, were %d", peer, n, before)
		}
	}
	// A body that is looked into for a method takes room as well.
	conn := s.dial()
	io.WriteString(conn, request("PUT", "/login", "a=b"))
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 503 {
		t.Errorf("another method at a full door: %v, %v, want 503", res, err)
	}
	if n := a.conns.Load(); n != 8 {
		t.Errorf("%d requests reached the application, want 8", n)
	}
	for _, target := range []string{"/elsewhere", "/other"} {
		if res := s.post(target); res.StatusCode != 302 {
			t.Errorf("%s: %d, want 302", target, res.StatusCode)
		}
	}
	lines := s.log.wait(t, "door is full", 4)
	if l := lines[0]; l["door"] != "login" || l["client"] != "192.0.2.1" || l["why"] != "max_in_flight" {
		t.Errorf("line %v", l)
	}
	release <- true
	release <- true
	// One network finds its share taken though there is room, and takes none by asking.
	until(t, "room", func() bool {
		s.from("192.0.2.4")
		return s.post("/login").StatusCode == 503 && strings.Contains(fmt.Sprint(last(s.log.of("door is full"))["why"]), "network")
	})
	for range 10 {
		if res := s.post("/login"); res.StatusCode != 503 {
			t.Errorf("a network with its share: %d, want 503", res.StatusCode)
		}
	}
	again := begin("192.0.2.9")
	<-arrived
	for range 7 {
		release <- true
	}
	until(t, "an empty door", func() bool {
		left := 0
		s.proxy.InFlight(func(_ string, n int) { left += n })
		return left == 0
	})
	// Loopback callers, who may be all callers of a proxy, have no share.
	running = append(running, again)
	for range 3 {
		running = append(running, begin("127.0.0.1"))
		<-arrived
	}
	for range 3 {
		release <- true
	}
	for i, status := range running {
		if got := <-status; got != 302 {
			t.Errorf("request %d: %d, want 302", i, got)
		}
	}
}

func last(lines []map[string]any) map[string]any {
	if len(lines) == 0 {
		return nil
	}
	return lines[len(lines)-1]
}

// TestWebSocketsLeave: a WebSocket at a door takes no place at it.
func TestWebSocketsLeave(t *testing.T) {
	a := echoApp(t)
	s := serve(t, a.addr, func(c *Config) {
		c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"/login"}})
		c.Doors[0].Guard = lockoutGuard(t, 100)
		c.Doors[0].MaxInFlight = 1
	})
	for range 5 {
		conn := s.dial()
		io.WriteString(conn, "GET /login HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		r := bufio.NewReader(conn)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
			t.Fatalf("%v, %v", res, err)
		}
		io.WriteString(conn, "ping\n")
		if l, err := r.ReadString('\n'); l != "ping\n" {
			t.Fatalf("%q, %v", l, err)
		}
	}
}

// TestTakesNothing: who asks at a door and takes nothing of the answer leaves in time,
// over HTTP/1 and HTTP/2; who takes it slowly gets it whole. A connection that has been
// slow serves on.
func TestTakesNothing(t *testing.T) {
	addr := handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := zeros(64 << 20)
		if r.URL.Path == "/small" {
			size = 100
		}
		if r.URL.Query().Get("slow") != "" {
			size = 8 << 20
		}
		io.Copy(w, &size)
	}))
	const stall = time.Second
	options := func(c *Config) {
		c.Doors[0].Guard = lockoutGuard(t, 100)
		c.Doors[0].MaxInFlight = 1
		c.Timeouts.Write = stall
	}
	free := func(s *site) {
		t.Helper()
		until(t, "a place", func() bool {
			return s.proxy.set.Load().doors[0].inFlight.Enter()
		})
		s.proxy.set.Load().doors[0].inFlight.Leave()
	}
	plain, tlsSite := serve(t, addr, options), servePort(t, addr, secure, options)
	begun := time.Now()
	conn := plain.dial()
	io.WriteString(conn, request("POST", "/login", "a=b"))
	f := tlsSite.frames() // the window for a stream is 64 KiB, and is never opened further
	f.send(true, lines2("POST", "/login")...)
	until(t, "both", func() bool {
		full := true
		for _, s := range []*site{plain, tlsSite} {
			if in := s.proxy.set.Load().doors[0].inFlight; in.Enter() {
				in.Leave()
				full = false
			}
		}
		return full
	})
	free(plain)
	free(tlsSite)
	if took := time.Since(begun); took < stall || took > stall+5*time.Second {
		t.Errorf("left after %v, want about %v", took, stall)
	}

	slow := plain.dial()
	r := bufio.NewReaderSize(slow, 1<<10)
	io.WriteString(slow, "POST /login?slow=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for range 16 { // longer than stall in all
		k, err := io.CopyN(io.Discard, res.Body, 8<<20/16)
		if n += k; err != nil {
			break
		}
		<-time.After(stall / 8) // this is what is slow
	}
	rest, err := io.Copy(io.Discard, res.Body)
	if n+rest != 8<<20 || err != nil {
		t.Fatalf("slow: %d bytes, %v", n+rest, err)
	}
	<-time.After(stall) // past every deadline there was
	io.WriteString(slow, "GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, body := plain.answer(r, "GET"); res.StatusCode != 200 || len(body) != 100 {
		t.Errorf("afterwards: %d, %d bytes", res.StatusCode, len(body))
	}
}
