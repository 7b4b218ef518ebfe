package httpguard_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/outcome"
)

// say sets the application's word.
func say(w http.ResponseWriter, words ...string) { w.Header()[outcome.Header] = words }

// TestOutcome: what the attempt is settled as, by what the handler does.
func TestOutcome(t *testing.T) {
	const (
		classified = 1 << iota // with a classifier only
		silent                 // without one only
	)
	for _, tt := range []struct {
		name    string
		when    int
		handler http.HandlerFunc
		want    doorward.Outcome
	}{
		{"says nothing", silent, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, doorward.Failed},
		{"writes nothing", silent, func(w http.ResponseWriter, r *http.Request) {}, doorward.Failed},
		{"the header without a classifier", silent, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded") }, doorward.Failed},

		{"success by status", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, doorward.Succeeded},
		{"void by status", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, doorward.Void},
		{"unknown status", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200) }, doorward.Failed},
		{"by header", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "malformed"); w.WriteHeader(400) }, doorward.Malformed},
		{"by header and Write", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded"); io.WriteString(w, "x") }, doorward.Succeeded},
		{"by header and ReadFrom", classified, func(w http.ResponseWriter, r *http.Request) {
			say(w, "succeeded")
			w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
		}, doorward.Succeeded},
		{"by header and Flush", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded"); w.(http.Flusher).Flush() }, doorward.Succeeded},
		{"by header and nothing else", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded") }, doorward.Succeeded},
		{"twice", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded", "succeeded") }, doorward.Failed},
		{"misspelt", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "Succeeded") }, doorward.Failed},
		{"after WriteHeader", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200); say(w, "succeeded") }, doorward.Failed},
		{"after Write", classified, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x"); say(w, "succeeded") }, doorward.Failed},
		{"after Flush", classified, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			say(w, "succeeded")
		}, doorward.Failed},
		{"after ReadFrom", classified, func(w http.ResponseWriter, r *http.Request) {
			w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
			say(w, "succeeded")
		}, doorward.Failed},
		{"after ReadFrom that gave nothing", classified, func(w http.ResponseWriter, r *http.Request) {
			w.(io.ReaderFrom).ReadFrom(strings.NewReader(""))
			w.WriteHeader(204)
		}, doorward.Succeeded},
		{"after 1xx", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103); say(w, "succeeded") }, doorward.Succeeded},
		{"before 1xx", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded"); w.WriteHeader(103) }, doorward.Succeeded},
		{"1xx with it, then another", classified, func(w http.ResponseWriter, r *http.Request) {
			say(w, "succeeded")
			w.WriteHeader(103)
			clear(w.Header())
			w.WriteHeader(200)
		}, doorward.Failed},
		{"the second WriteHeader", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200); w.WriteHeader(204) }, doorward.Failed},
		{"the first WriteHeader", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204); w.WriteHeader(401) }, doorward.Succeeded},
		{"an impossible status", classified, func(w http.ResponseWriter, r *http.Request) {
			defer func() { recover(); w.WriteHeader(200) }()
			say(w, "succeeded")
			w.WriteHeader(99)
		}, doorward.Succeeded},
		{"one too large", classified, func(w http.ResponseWriter, r *http.Request) {
			defer func() { recover(); w.WriteHeader(204) }()
			w.WriteHeader(1000)
		}, doorward.Succeeded},
		{"101", classified, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded"); w.WriteHeader(101) }, doorward.Failed},
		{"after 101", 0, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(101)
			httpguard.FromRequest(r).Succeeded()
		}, doorward.Failed},
		{"101 after the word", 0, func(w http.ResponseWriter, r *http.Request) {
			httpguard.FromRequest(r).Succeeded()
			w.WriteHeader(101)
		}, doorward.Succeeded},

		{"explicit", 0, func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Succeeded() }, doorward.Succeeded},
		{"explicit failure", 0, func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Failed(); w.WriteHeader(204) }, doorward.Failed},
		{"explicit malformed", 0, func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Malformed() }, doorward.Malformed},
		{"explicit void", 0, func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Void() }, doorward.Void},
		{"explicit nonsense", 0, func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Settle(77) }, doorward.Failed},
		{"explicit before the header", 0, func(w http.ResponseWriter, r *http.Request) {
			httpguard.FromRequest(r).Void()
			say(w, "succeeded")
			w.WriteHeader(204)
		}, doorward.Void},
		{"explicit twice", 0, func(w http.ResponseWriter, r *http.Request) {
			httpguard.FromRequest(r).Void()
			httpguard.FromRequest(r).Succeeded()
		}, doorward.Void},
		{"explicit after the status", 0, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			httpguard.FromRequest(r).Succeeded()
		}, doorward.Failed},
		{"explicit after 1xx", 0, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			httpguard.FromRequest(r).Succeeded()
		}, doorward.Succeeded},

		{"a panic", 0, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded"); panic("x") }, doorward.Failed},
		{"ErrAbortHandler", 0, func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded"); panic(http.ErrAbortHandler) }, doorward.Failed},
		{"a panic after the word", 0, func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Void(); panic("x") }, doorward.Void},
		{"a panic after the status", classified, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204); panic("x") }, doorward.Succeeded},
	} {
		for _, with := range []bool{false, true} {
			if with && tt.when == silent || !with && tt.when == classified {
				continue
			}
			t.Run(fmt.Sprintf("%s, classifier %v", tt.name, with), func(t *testing.T) {
				protocols(t, func(t *testing.T, http2 bool) {
					calls := record()
					o := httpguard.Options{Guard: newGuard(t, perNetwork(5)), Settled: calls.callback}
					if with {
						o.Outcome = speaks(t)
					}
					s := serve(t, newGate(t, o).Handler(tt.handler), http2)
					res, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("x"))
					if err == nil {
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
						if v := res.Header[outcome.Header]; with && v != nil {
							t.Errorf("the answer has %v", v)
						}
					}
					if got := calls.next(t); got.outcome != tt.want {
						t.Errorf("settled as %v, want %v", got.outcome, tt.want)
					}
					calls.none(t)
				})
			})
		}
	}
}

// TestPanicPasses: settling does not catch a panic, and what a recovering handler
// sends has no outcome either.
func TestPanicPasses(t *testing.T) {
	for _, value := range []any{"x", errors.New("x"), http.ErrAbortHandler} {
		g := newGuard(t, perNetwork(5))
		h := newGate(t, httpguard.Options{Guard: g, Outcome: speaks(t)}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			say(w, "succeeded")
			panic(value)
		}))
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if got := recover(); got != value {
					t.Errorf("recovered %v, want %v", got, value)
				}
			}()
			h.ServeHTTP(w, from("192.0.2.7", "POST", "x"))
		}()
		if w.Header()[outcome.Header] != nil {
			t.Error("the header is left behind")
		}
		if n := remaining(g, "192.0.2.7"); n != 4 {
			t.Errorf("%d attempts left, want 4", n)
		}
	}
}

// TestSettledEarly: the attempt is settled when the status is known, while the answer
// is still being sent.
func TestSettledEarly(t *testing.T) {
	calls, body := record(), make(chan string)
	gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(1)), Outcome: speaks(t), Settled: calls.callback})
	s := serve(t, gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		say(w, "succeeded")
		for b := range body {
			io.WriteString(w, b)
			w.(http.Flusher).Flush()
		}
	})), false)
	go func() { body <- "a" }()
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := calls.next(t); got.outcome != doorward.Succeeded {
		t.Errorf("settled as %v", got.outcome)
	}
	close(body)
	if b, err := io.ReadAll(res.Body); string(b) != "a" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestWarning(t *testing.T) {
	for words, want := range map[string]bool{"": false, "failed": false, "Failed": true, "failed failed": true} {
		calls := record()
		gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(1)), Outcome: speaks(t), Settled: calls.callback})
		do(gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(w, strings.Fields(words)...) })), from("192.0.2.7", "GET", ""))
		if got := calls.next(t); (got.warning != "") != want || got.outcome != doorward.Failed {
			t.Errorf("%q: %v, warning %q", words, got.outcome, got.warning)
		}
	}
}

// TestHangUp: real connections that end before there is a status.
func TestHangUp(t *testing.T) {
	var waits chan struct{} // closed when the handler waits for the caller to hang up
	wait := func(r *http.Request) { close(waits); <-r.Context().Done() }
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    doorward.Outcome
	}{
		{"then a success", func(w http.ResponseWriter, r *http.Request) { wait(r); w.WriteHeader(204) }, doorward.Failed},
		{"then the header", func(w http.ResponseWriter, r *http.Request) { wait(r); say(w, "void") }, doorward.Failed},
		{"then a void status", func(w http.ResponseWriter, r *http.Request) { wait(r); w.WriteHeader(503) }, doorward.Failed},
		{"then nothing", func(w http.ResponseWriter, r *http.Request) { wait(r) }, doorward.Failed},
		{"then a Flush", func(w http.ResponseWriter, r *http.Request) { wait(r); say(w, "void"); w.(http.Flusher).Flush() }, doorward.Failed},
		{"then the word", func(w http.ResponseWriter, r *http.Request) { wait(r); httpguard.FromRequest(r).Succeeded() }, doorward.Succeeded},
		{"after the word", func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Void(); wait(r) }, doorward.Void},
		{"after the status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204); wait(r) }, doorward.Succeeded},
		{"after 103", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103); wait(r); w.WriteHeader(204) }, doorward.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := record()
			waits = make(chan struct{})
			g := newGuard(t, perNetwork(5))
			gate := newGate(t, httpguard.Options{Guard: g, Outcome: speaks(t), Settled: calls.callback})
			s := serve(t, gate.Handler(tt.handler), false)
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
			<-waits
			c.Close()
			if got := calls.next(t); got.outcome != tt.want {
				t.Errorf("settled as %v, want %v", got.outcome, tt.want)
			}
		})
	}
}

// TestHangUpInBody: who hangs up before the body has come has made no attempt.
func TestHangUpInBody(t *testing.T) {
	for name, part := range map[string]string{"nothing of it": "", "a part": "12"} {
		t.Run(name, func(t *testing.T) {
			g, calls, done := newGuard(t, perNetwork(5)), record(), make(chan struct{})
			h := newGate(t, httpguard.Options{Guard: g, Settled: calls.callback}).Handler(wrong)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r); close(done) }), false)
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"+part)
			c.Close()
			<-done
			calls.none(t)
			if n := remaining(g, "127.0.0.1"); n != 5 {
				t.Errorf("%d attempts left, want 5", n)
			}
		})
	}
}

// TestHijack: what goes over a hijacked connection is not seen.
func TestHijack(t *testing.T) {
	const answer = "HTTP/1.1 204 No Content\r\nDoorward-Outcome: succeeded\r\n\r\n"
	for _, tt := range []struct {
		name   string
		before func(*httpguard.Permit)
		want   doorward.Outcome
	}{
		{"without a word", func(*httpguard.Permit) {}, doorward.Failed},
		{"after the word", (*httpguard.Permit).Succeeded, doorward.Succeeded},
	} {
		for how, hijack := range map[string]func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error){
			"Hijacker": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) { return w.(http.Hijacker).Hijack() },
			"controller": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
				return http.NewResponseController(w).Hijack()
			},
		} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				calls := record()
				gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Outcome: speaks(t), Settled: calls.callback})
				s := serve(t, gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					p := httpguard.FromRequest(r)
					tt.before(p)
					say(w, "succeeded")
					c, _, err := hijack(w)
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					if _, settled := p.Outcome(); !settled {
						t.Error("not settled by the hijack")
					}
					p.Succeeded() // too late
					io.WriteString(c, answer)
				})), false)
				res, err := s.Client().Get(s.URL)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if got := calls.next(t); got.outcome != tt.want {
					t.Errorf("settled as %v, want %v", got.outcome, tt.want)
				}
			})
		}
	}
}

func TestPermitConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := record()
		gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Settled: calls.callback})
		p := gate.Check(from("192.0.2.7", "POST", ""))
		var first sync.Map
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if p.Settle(doorward.Outcome(i % 4)) {
					first.Store(i, true)
				}
				p.Outcome()
				p.Warning()
				p.Verdict()
			})
		}
		wg.Wait()
		n := 0
		first.Range(func(k, _ any) bool {
			n++
			if o, settled := p.Outcome(); !settled || o != doorward.Outcome(k.(int)%4) {
				t.Errorf("%v, %v is not what settled it", o, settled)
			}
			return true
		})
		if n != 1 || len(calls) != 1 {
			t.Errorf("settled %d times, %d callbacks", n, len(calls))
		}
	})
}

func TestNilPermit(t *testing.T) {
	p := httpguard.FromRequest(httptest.NewRequest("GET", "/", nil))
	if p != nil {
		t.Fatal("a permit without a gate")
	}
	for _, p := range []*httpguard.Permit{nil, {}} {
		p.Succeeded()
		p.Failed()
		p.Malformed()
		p.Void()
		o, settled := p.Outcome()
		if p.Settle(doorward.Succeeded) || settled || o != doorward.Failed || p.Verdict().Allowed || p.Addr().IsValid() || p.How() != 0 || p.Warning() != "" || p.Err() != nil || p.StepUp() {
			t.Error("not a permit for nothing")
		}
	}
}
