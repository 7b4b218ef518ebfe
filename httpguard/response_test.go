package httpguard_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/outcome"
)

// Writers with some of the methods, one below the other.
type (
	plain    struct{ http.ResponseWriter }
	flusher  struct{ plain }
	flushErr struct{ plain }
	hijacker struct{ plain }
	pusher   struct{ plain }
	wrapper  struct{ http.ResponseWriter }
	both     struct {
		plain
		flusher
		hijacker
		pusher
	}
)

var errMethod = errors.New("called")

func (flusher) Flush()                                        {}
func (flushErr) FlushError() error                            { return errMethod }
func (hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errMethod }
func (pusher) Push(string, *http.PushOptions) error           { return errMethod }
func (w wrapper) Unwrap() http.ResponseWriter                 { return w.ResponseWriter }
func (b both) Header() http.Header                            { return b.plain.Header() }
func (b both) WriteHeader(status int)                         { b.plain.WriteHeader(status) }
func (b both) Write(p []byte) (int, error)                    { return b.plain.Write(p) }

func TestAbilities(t *testing.T) {
	base := plain{httptest.NewRecorder()}
	for _, tt := range []struct {
		name                     string
		w                        http.ResponseWriter
		flushes, hijacks, pushes bool
	}{
		{"none", base, false, false, false},
		{"flush", flusher{base}, true, false, false},
		{"flush with an error", flushErr{base}, true, false, false},
		{"hijack", hijacker{base}, false, true, false},
		{"push", pusher{base}, false, false, true},
		{"flush and hijack, as HTTP/1", struct {
			plain
			http.Flusher
			http.Hijacker
		}{base, flusher{base}, hijacker{base}}, true, true, false},
		{"flush and push, as HTTP/2", struct {
			plain
			http.Flusher
			http.Pusher
		}{base, flusher{base}, pusher{base}}, true, false, true},
		{"hijack and push", struct {
			plain
			http.Hijacker
			http.Pusher
		}{base, hijacker{base}, pusher{base}}, false, true, true},
		{"all", both{plain: base}, true, true, true},
		{"below others", wrapper{wrapper{flusher{base}}}, true, false, false},
		{"apart", wrapper{hijacker{plain{wrapper{flusher{base}}}}}, false, true, false},
		{"at two levels", struct {
			wrapper
			http.Hijacker
		}{wrapper{flusher{base}}, hijacker{base}}, true, true, false},
		{"none below others", wrapper{wrapper{base}}, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := record()
			gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Settled: calls.callback})
			gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, flushes := w.(http.Flusher)
				_, flushErrs := w.(interface{ FlushError() error })
				_, hijacks := w.(http.Hijacker)
				p, pushes := w.(http.Pusher)
				if flushes != tt.flushes || flushErrs != tt.flushes || hijacks != tt.hijacks || pushes != tt.pushes {
					t.Errorf("Flusher %v, FlushError %v, Hijacker %v, Pusher %v", flushes, flushErrs, hijacks, pushes)
				}
				rc := http.NewResponseController(w)
				if _, _, err := rc.Hijack(); tt.hijacks != (err == errMethod) || !tt.hijacks && !errors.Is(err, http.ErrNotSupported) {
					t.Errorf("Hijack: %v", err)
				}
				if pushes && p.Push("/x", nil) != errMethod {
					t.Error("Push did not reach the writer")
				}
				calls.none(t) // a failed hijack and a push are no answers
				if err := rc.Flush(); tt.flushes == errors.Is(err, http.ErrNotSupported) {
					t.Errorf("Flush: %v", err)
				}
				if tt.flushes {
					calls.next(t)
				} else {
					calls.none(t)
				}
			})).ServeHTTP(tt.w, from("192.0.2.7", "GET", ""))
		})
	}
}

// TestController: the rest of http.ResponseController reaches the server.
func TestController(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5))})
		s := serve(t, gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			for name, err := range map[string]error{
				"SetReadDeadline":  rc.SetReadDeadline(time.Now().Add(time.Minute)),
				"SetWriteDeadline": rc.SetWriteDeadline(time.Now().Add(time.Minute)),
				"EnableFullDuplex": rc.EnableFullDuplex(),
				"Flush":            rc.Flush(),
			} {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, ok := w.(http.Pusher); ok != http2 {
				t.Errorf("Pusher: %v", ok)
			}
			if _, ok := w.(http.Hijacker); ok == http2 {
				t.Errorf("Hijacker: %v", ok)
			}
		})), http2)
		res, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	})
}

// readsFrom notes what it was given to read from.
type readsFrom struct {
	*httptest.ResponseRecorder
	src io.Reader
}

func (r *readsFrom) ReadFrom(src io.Reader) (int64, error) {
	r.src = src
	return io.Copy(r.ResponseRecorder, src)
}

// TestReadFrom: the server gets the file itself, so that it can use sendfile.
func TestReadFrom(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	name := t.TempDir() + "/file"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, under := range []http.ResponseWriter{&readsFrom{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRecorder()} {
		gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Outcome: speaks(t)})
		gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if n, err := io.Copy(w, struct{ io.Reader }{f}); n != int64(len(text)) || err != nil {
				t.Errorf("copied %d bytes, %v", n, err)
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				t.Error(err)
			}
			if n, err := w.(io.ReaderFrom).ReadFrom(f); n != int64(len(text)) || err != nil {
				t.Errorf("read %d bytes, %v", n, err)
			}
			if u, ok := under.(*readsFrom); ok && u.src != io.Reader(f) {
				t.Errorf("the server was given a %T", u.src)
			}
			if n, err := w.(io.ReaderFrom).ReadFrom(iotestErr{}); n != 0 || err != errMethod {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})).ServeHTTP(under, from("192.0.2.7", "GET", ""))
		var got *bytes.Buffer
		switch u := under.(type) {
		case *readsFrom:
			got = u.Body
		case *httptest.ResponseRecorder:
			got = u.Body
		}
		if got.String() != text+text {
			t.Errorf("%T: sent %d bytes", under, got.Len())
		}
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errMethod }

// raw sends one request and returns all bytes of the answer.
func raw(t *testing.T, s *httptest.Server, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, request)
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTE: trailers\r\n\r\n"

// TestHeaderRemoved: however the outcome is written, no byte of it is sent.
func TestHeaderRemoved(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // has to be in the answer
	}{
		{"header", func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded") }, "200 OK"},
		{"twice", func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded", "failed") }, "200 OK"},
		{"in another case", func(w http.ResponseWriter, r *http.Request) { w.Header()["doorward-OUTCOME"] = []string{"failed"} }, "200 OK"},
		{"1xx", func(w http.ResponseWriter, r *http.Request) {
			say(w, "succeeded")
			w.Header().Set("Link", "</a>")
			w.Header().Set("Trailer", outcome.Header+", X")
			w.WriteHeader(103)
			w.WriteHeader(204)
		}, "103 Early Hints\r\nLink: </a>\r\nTrailer: X\r\n"},
		{"announced trailer", func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Trailer"] = []string{"X, " + outcome.Header, "doorward-outcome,Y", outcome.Header}
			io.WriteString(w, "x")
			w.Header().Set("X", "1")
			w.Header().Set("Y", "2")
			say(w, "succeeded")
		}, "\r\n0\r\nX: 1\r\nY: 2\r\n\r\n"},
		{"prefixed trailer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(http.TrailerPrefix+outcome.Header, "succeeded")
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+outcome.Header, "succeeded")
			w.Header()[http.TrailerPrefix+"doorward-outcome"] = []string{"succeeded"}
			w.Header().Set(http.TrailerPrefix+"X", "1")
		}, "0\r\nX: 1\r\n\r\n"},
		{"after the answer", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200); say(w, "succeeded") }, "200 OK"},
		{"after the word", func(w http.ResponseWriter, r *http.Request) {
			httpguard.FromRequest(r).Failed()
			say(w, "succeeded")
		}, "200 OK"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Outcome: speaks(t)})
			h := gate.Handler(tt.handler)
			got := raw(t, serve(t, h, false), get)
			if strings.Contains(strings.ToLower(got), "doorward") || !strings.Contains(got, tt.want) {
				t.Errorf("HTTP/1 got\n%s\nwant %s", got, tt.want)
			}
			s := serve(t, h, true)
			res, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if got := fmt.Sprint(res.Header, res.Trailer); strings.Contains(strings.ToLower(got), "doorward") {
				t.Errorf("HTTP/2 got %s", got)
			}
		})
	}
}

// TestHeaderKept: without a classifier the header means nothing and is left alone.
func TestHeaderKept(t *testing.T) {
	gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5))})
	w := do(gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded") })), from("192.0.2.7", "GET", ""))
	if w.Header().Get(outcome.Header) != "succeeded" {
		t.Error("removed")
	}
}

// TestClientHeaders: no client speaks for us, by any spelling, and the request that
// others hold stays as it is.
func TestClientHeaders(t *testing.T) {
	ours := []string{"Doorward-Outcome", "Doorward_Outcome", "doorward-subject", "DOORWARD.X", "Doorward-"}
	r := from("192.0.2.7", "POST", "x")
	r.Trailer = http.Header{}
	for _, key := range ours {
		r.Header[key] = []string{"succeeded"}
		r.Trailer[key] = nil
	}
	r.Header.Set("Doorwards", "kept")
	r.Trailer.Set("X", "kept")
	calls := record()
	gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Outcome: speaks(t), Settled: calls.callback})
	do(gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header) != 1 || r.Header.Get("Doorwards") != "kept" || len(r.Trailer) != 1 {
			t.Errorf("the handler sees %v, %v", r.Header, r.Trailer)
		}
		for key, values := range r.Header {
			w.Header()[key] = values // an echo
		}
	})), r)
	if got := calls.next(t); got.outcome != doorward.Failed {
		t.Errorf("settled as %v", got.outcome)
	}
	if len(r.Header) != len(ours)+1 || len(r.Trailer) != len(ours)+1 {
		t.Errorf("the request has become %v, %v", r.Header, r.Trailer)
	}
}
