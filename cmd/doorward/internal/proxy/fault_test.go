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

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// never answers nothing until the other side hangs up.
func never(conn net.Conn, r *bufio.Reader) {
	io.Copy(io.Discard, r)
}

// reset ends a connection with an RST.
func reset(conn net.Conn) {
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// answers sends text as soon as a request's header has arrived, then goes on with then.
func answers(text string, then func(net.Conn, *bufio.Reader)) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(conn, text)
		if then != nil {
			then(conn, r)
		}
	}
}

// TestFaults is a table of what can go wrong at a door, and the outcome that each row
// has. An attempt that has no outcome was not charged.
func TestFaults(t *testing.T) {
	rst := func(conn net.Conn, _ *bufio.Reader) { reset(conn) }
	headSeen := make(chan bool)
	word := "Doorward-Outcome: succeeded\r\n"
	table := []struct {
		name    string
		app     func(net.Conn, *bufio.Reader)
		send    string // what the client sends if it is no ordinary attempt
		outcome string
		status  int
	}{
		{"no connection: nobody listens", nil, "", "void", 502},
		{"no connection: nobody accepts it", nil, "", "void", 504},
		{"right", reads(right), "", "succeeded", 302},
		{"wrong", reads(wrong), "", "failed", 200},
		{"right status, no cookie", reads("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"), "", "failed", 302},
		{"closes at the first byte", func(conn net.Conn, r *bufio.Reader) { r.Peek(1) }, "", "failed", 502},
		{"resets at the first byte", func(conn net.Conn, r *bufio.Reader) { r.Peek(1); reset(conn) }, "", "failed", 502},
		{"never answers", never, "", "failed", 504},
		{"half a status line", answers("HTTP/1.1 302 Fo", never), "", "failed", 504},
		{"closes instead of answering", reads(""), "", "failed", 502},
		{"closes in the header", reads("HTTP/1.1 302 Found\r\nSet-Cookie: session=s\r\n"), "", "failed", 502},
		{"resets in the header", answers("HTTP/1.1 302 Found\r\nSet-Cookie: session=s\r\n", rst), "", "failed", 502},
		{"resets in the body", answers("HTTP/1.1 302 Found\r\nSet-Cookie: session=s\r\nContent-Length: 9\r\n\r\nabc", func(conn net.Conn, r *bufio.Reader) {
			select {
			case <-headSeen:
			case <-time.After(patience):
			}
			reset(conn)
		}), "", "succeeded", 302},
		{"stalls in the body", answers("HTTP/1.1 302 Found\r\nSet-Cookie: session=s\r\nContent-Length: 9\r\n\r\nabc", never), "", "succeeded", 302},
		{"garbage", reads("SSH-2.0-OpenSSH_9.2\r\n"), "", "failed", 502},
		{"garbage header", reads("HTTP/1.1 302 Found\r\nSet-Cookie session\r\n\r\n"), "", "failed", 502},
		{"two lengths", reads("HTTP/1.1 302 Found\r\nSet-Cookie: session=s\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "", "failed", 502},
		{"endless header", func(conn net.Conn, r *bufio.Reader) {
			io.WriteString(conn, "HTTP/1.1 302 Found\r\nX: ")
			zeros := strings.Repeat("0", 1<<16)
			for {
				if _, err := io.WriteString(conn, zeros); err != nil {
					return
				}
			}
		}, "", "failed", 502},
		{"before the body is read", answers(right, never), "", "succeeded", 302},
		{"before the body is read, then closes", answers(right, nil), "", "succeeded", 302},
		{"a byte at a time", func(conn net.Conn, r *bufio.Reader) {
			req, _ := http.ReadRequest(r)
			io.Copy(io.Discard, req.Body)
			for i := range right {
				io.WriteString(conn, right[i:i+1])
			}
		}, "", "succeeded", 302},
		{"answers twice", reads(right + wrong), "", "succeeded", 302},
		{"HTTP/1.0", reads("HTTP/1.0 302 Found\r\nSet-Cookie: session=s\r\n\r\n"), "", "succeeded", 302},
		{"103, then right", reads("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + right), "", "succeeded", 302},
		{"a word in 103", reads("HTTP/1.1 103 Early Hints\r\n" + word + "\r\n" + wrong), "", "failed", 200},
		{"103 for ever", answers("HTTP/1.1 103 Early Hints\r\n\r\n", never), "", "failed", 504},
		{"a word in a trailer", reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Doorward-Outcome, X-T\r\n\r\n1\r\na\r\n0\r\n" + word + "X-T: 1\r\n\r\n"), "", "failed", 200},
		{"a word in a trailer, unannounced", reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + word + "\r\n"), "", "failed", 200},
		{"101", reads("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: session=s\r\n" + word + "\r\n"),
			"POST /login HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", "failed", 101},
		{"101 that nobody asked for", reads("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "", "failed", 502},
		{"expects 100", func(conn net.Conn, r *bufio.Reader) {
			if req, err := http.ReadRequest(r); err == nil && req.Header.Get("Expect") == "" {
				io.WriteString(conn, right) // the body has been asked for already
			}
		}, "expect", "succeeded", 302},
		{"body too large", reads(right), "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1073741824\r\n\r\nabc", "malformed", 413},
		{"body never comes", reads(right), "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", "", 408},
		{"body breaks off", reads(right), "half", "", 400},
		{"two lengths sent", reads(right), "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "", 400},
		{"header too long", reads(right), "POST /login HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\nContent-Length: 0\r\n\r\n", "", 431},
	}
	defer func() {
		var rows [][]string
		for _, row := range table {
			became := row.outcome
			if became == "" {
				became = "not charged"
			}
			rows = append(rows, []string{row.name, fmt.Sprint(row.status), became})
		}
		document.Table(t, faultsDocument, "application", rows)
	}()
	t.Run("rows", func(t *testing.T) {
		for _, row := range table {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				var addr string
				switch {
				case row.app != nil:
					addr = listen(t, row.app).addr
				case row.status == 504:
					addr = deaf(t)
				default:
					addr = deadAddr(t)
				}
				s := serve(t, addr, func(c *Config) {
					switch row.status { // others must not be cut off on a busy machine
					case 504:
						c.Timeouts.Response = time.Second
					case 408:
						c.Timeouts.Body = time.Second
					}
				})
				conn := s.dial()
				r := bufio.NewReader(conn)
				switch row.send {
				case "":
					io.WriteString(conn, request("POST", "/login", "user=a&pass=b"))
				case "half":
					io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
					conn.(*net.TCPConn).CloseWrite()
				case "expect":
					io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
					if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
						t.Fatalf("%q, %v instead of 100 Continue", line, err)
					}
					r.ReadString('\n')
					io.WriteString(conn, "a=b")
				default:
					io.WriteString(conn, row.send)
				}
				var res *http.Response
				for {
					var err error
					if res, err = http.ReadResponse(r, &http.Request{Method: "POST"}); err != nil {
						t.Fatal(err)
					}
					if v := res.Header.Get("Doorward-Outcome"); v != "" {
						t.Errorf("status %d carries Doorward-Outcome: %s", res.StatusCode, v)
					}
					if res.StatusCode >= 200 || res.StatusCode == 101 {
						break
					}
				}
				if res.StatusCode != row.status {
					t.Errorf("status %d, want %d", res.StatusCode, row.status)
				}
				switch row.name {
				case "stalls in the body":
					conn.Close()
				case "resets in the body":
					close(headSeen)
				}
				io.Copy(io.Discard, res.Body)
				if v, ok := res.Trailer["Doorward-Outcome"]; ok {
					t.Errorf("trailer Doorward-Outcome: %q", v)
				}
				s.ended(row.outcome)
			})
		}
	})
}

const faultsDocument = "../../../../docs/faults.md"

// deadAddr returns an address that nobody listens at.
func deadAddr(t testing.TB) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return ln.Addr().String()
}

// ended checks how the one attempt of a site ended, by its log and by its guard, once
// every request has ended.
func (s *site) ended(outcome string) {
	s.t.Helper()
	if err := s.stop(); err != nil {
		s.t.Error(err)
	}
	var got []string
	for _, l := range s.log.of("settled") {
		got = append(got, fmt.Sprint(l["outcome"]))
	}
	if got := strings.Join(got, ","); got != outcome {
		s.t.Errorf("outcome %q, want %q", got, outcome)
	}
	want := map[string]int{"": 5, "succeeded": 5, "void": 5, "failed": 4, "malformed": 4}[outcome]
	if n := s.remaining("127.0.0.1"); n != want {
		s.t.Errorf("%d attempts left after %q, want %d", n, outcome, want)
	}
}

// TestHangUp: a caller that hangs up before the answer has failed, at whatever point.
func TestHangUp(t *testing.T) {
	t.Run("before the answer", func(t *testing.T) {
		arrived, gone := make(chan bool, 1), make(chan bool, 1)
		a := listen(t, func(conn net.Conn, r *bufio.Reader) {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			arrived <- true
			_, err = r.ReadByte()
			gone <- err == io.EOF || strings.Contains(err.Error(), "reset")
		})
		s := serve(t, a.addr)
		conn := s.dial()
		io.WriteString(conn, request("POST", "/login", "a=b"))
		<-arrived
		conn.Close()
		s.log.wait(t, "settled", 1)
		if !<-gone {
			t.Error("the application was kept waiting for a caller that is gone")
		}
		s.ended("failed")
		if lines := s.log.of("upstream failed"); len(lines) > 0 {
			t.Errorf("the application is blamed: %v", lines)
		}
	})
	t.Run("after the status", func(t *testing.T) {
		a := listen(t, answers("HTTP/1.1 302 Found\r\nSet-Cookie: session=s\r\nContent-Length: 9\r\n\r\nabc", never))
		s := serve(t, a.addr)
		conn := s.dial()
		io.WriteString(conn, request("POST", "/login", "a=b"))
		s.answerHead(conn)
		conn.Close()
		s.ended("succeeded")
	})
	t.Run("before the body", func(t *testing.T) {
		a := listen(t, reads(right))
		s := serve(t, a.addr)
		conn := s.dial()
		io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
		reset(conn)
		s.ended("")
		if a.conns.Load() != 0 {
			t.Error("half a request reached the application")
		}
	})
}

func (s *site) answerHead(conn net.Conn) {
	s.t.Helper()
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		s.t.Fatal(err)
	}
}

// TestDeadUpstream: what never reached the application is void, each time; but not
// for who lists the status, and not for who hangs up.
func TestDeadUpstream(t *testing.T) {
	s := serve(t, deadAddr(t))
	for i := range 20 {
		if res := s.post("/login"); res.StatusCode != 502 {
			t.Fatalf("try %d: status %d", i, res.StatusCode)
		}
		if n := s.remaining("127.0.0.1"); n != 5 {
			t.Fatalf("try %d: %d attempts left", i, n)
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	lines := s.log.of("settled")
	for _, l := range lines {
		if l["outcome"] != "void" {
			t.Errorf("outcome %v", l["outcome"])
		}
	}
	if len(lines) != 20 || len(s.log.of("upstream failed")) != 20 {
		t.Errorf("%d settled, %d upstream lines, want 20 each", len(lines), len(s.log.of("upstream failed")))
	}
}
