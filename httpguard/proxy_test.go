package httpguard_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/outcome"
)

// proxy returns a guarded reverse proxy in front of an application.
func proxy(t *testing.T, calls recording, app http.Handler, http2 bool) *httptest.Server {
	t.Helper()
	upstream, err := url.Parse(serve(t, app, false).URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }, ErrorLog: quiet}
	gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(50)), Outcome: speaks(t), Settled: calls.callback})
	return serve(t, gate.Handler(p), http2)
}

func TestReverseProxy(t *testing.T) {
	for _, tt := range []struct {
		name string
		app  http.HandlerFunc
		want doorward.Outcome
	}{
		{"a success", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, doorward.Succeeded},
		{"a wrong guess", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }, doorward.Failed},
		{"the header", func(w http.ResponseWriter, r *http.Request) { say(w, "malformed") }, doorward.Malformed},
		{"the header in 103 only", func(w http.ResponseWriter, r *http.Request) {
			say(w, "succeeded")
			w.WriteHeader(103)
			w.Header().Del(outcome.Header)
		}, doorward.Failed},
		{"the header after 103", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			say(w, "succeeded")
		}, doorward.Succeeded},
		{"the header as a trailer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", outcome.Header)
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			say(w, "succeeded")
		}, doorward.Failed},
		{"the header as a trailer unannounced", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+outcome.Header, "succeeded")
		}, doorward.Failed},
		{"a dead connection", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, doorward.Failed},
		{"an echo of the request", func(w http.ResponseWriter, r *http.Request) {
			w.Header()[outcome.Header] = r.Header[outcome.Header]
		}, doorward.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				calls := record()
				s := proxy(t, calls, tt.app, http2)
				hints := 0
				trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					hints++
					if h.Get(outcome.Header) != "" {
						t.Errorf("%d has the outcome", code)
					}
					return nil
				}}
				r := httptest.NewRequest("POST", s.URL, strings.NewReader("x"))
				r.RequestURI = ""
				r.Header.Set(outcome.Header, "succeeded")
				res, err := s.Client().Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if got := fmt.Sprint(res.Header, res.Trailer); strings.Contains(got, "Doorward") {
					t.Errorf("the answer has %s", got)
				}
				if strings.Contains(tt.name, "103") != (hints == 1) {
					t.Errorf("%d early hints", hints)
				}
				if got := calls.next(t); got.outcome != tt.want {
					t.Errorf("settled as %v, want %v", got.outcome, tt.want)
				}
			})
		})
	}
}

// TestReverseProxyBody: the application gets the body byte for byte.
func TestReverseProxyBody(t *testing.T) {
	s := proxy(t, record(), http.HandlerFunc(echo), false)
	for request, want := range map[string]string{
		"Content-Length: 3\r\n\r\na\x00b":                                             "3 [] map[] <nil> a\x00b",
		"Content-Length: 0\r\n\r\n":                                                   "0 [] map[] <nil> ",
		"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n":            "3 [] map[] <nil> abc",
		"Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n": "-1 [chunked] map[X:[y]] <nil> a",
		"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc":                        "3 [] map[] <nil> abc",
	} {
		if got := raw(t, s, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+request); !strings.HasSuffix(got, "\r\n\r\n"+want) {
			t.Errorf("%q: got\n%s\nwant %s", request, got, want)
		}
	}
}

// TestReverseProxyUpgrade: a switch of protocols works and is a failure.
func TestReverseProxyUpgrade(t *testing.T) {
	calls := record()
	s := proxy(t, calls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, b, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := b.ReadString('\n')
		io.WriteString(c, line)
	}), false)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	b := bufio.NewReader(c)
	if res, err := http.ReadResponse(b, nil); err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	io.WriteString(c, "hello\n")
	if line, err := b.ReadString('\n'); line != "hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
	if got := calls.next(t); got.outcome != doorward.Failed {
		t.Errorf("settled as %v", got.outcome)
	}
}

// TestReverseProxyEvents: an event stream arrives event by event.
func TestReverseProxyEvents(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		calls, events := record(), make(chan string)
		s := proxy(t, calls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			say(w, "succeeded")
			w.(http.Flusher).Flush()
			for e := range events {
				fmt.Fprintf(w, "data: %s\n\n", e)
				w.(http.Flusher).Flush()
			}
		}), http2)
		res, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got := calls.next(t); got.outcome != doorward.Succeeded {
			t.Errorf("settled as %v", got.outcome)
		}
		lines := bufio.NewReader(res.Body)
		for _, e := range []string{"one", "two"} {
			events <- e
			if got, err := lines.ReadString('\n'); got != "data: "+e+"\n" {
				t.Fatalf("got %q, %v", got, err)
			}
			lines.ReadString('\n')
		}
		close(events)
	})
}
