package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/logs"
	"github.com/doorward/doorward/cmd/doorward/internal/upstream"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/outcome"
)

// reverse returns a reverse proxy that passes requests on over t.
func (p *Proxy) reverse(t http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:      t,
		Rewrite:        p.rewrite,
		ModifyResponse: modifyResponse,
		ErrorHandler:   p.fault,
		FlushInterval:  flushAfter,
		ErrorLog:       log.New(lineWriter{p.lines.upstream}, "", 0),
		BufferPool:     &p.buffers,
	}
}

// buffers are what bodies are copied through, each of the size that ReverseProxy would
// make for every answer.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if v, ok := b.pool.Get().(*[copySize]byte); ok {
		return v[:]
	}
	return make([]byte, copySize)
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[copySize]byte)(buf)) }

const copySize = 32 << 10

// rewrite prepares the request to the application. What Connection names has been
// removed before, so that no caller can remove what is written here.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	v := visitOf(r.In.Context())
	r.Out.URL = v.target
	r.Out.Host = r.In.Host
	if v.door != "" {
		r.Out.Header.Del("Expect") // the body is here already
	}
	upgrade(r.Out.Header)
	clean(r.Out.Header, v.set.config.Clients.Header(), v.believed())
	v.tell(r.In, r.Out.Header)
	if httpguard.FromRequest(r.In).StepUp() { // only at doors
		r.Out.Header.Set(stepUpHeader, "1")
	}
}

// stepUpHeader asks the application for a stronger proof before it judges the attempt.
const stepUpHeader = "Doorward-Step-Up"

// modifyResponse leaves the answer as it is. At doors, Gate reads and removes what
// the application says about the outcome; elsewhere it says so to nobody.
func modifyResponse(r *http.Response) error {
	if r.StatusCode < 100 {
		return fmt.Errorf("status %d is none", r.StatusCode)
	}
	v := visitOf(r.Request.Context())
	if v.door == "" || r.StatusCode == http.StatusSwitchingProtocols { // which goes around Gate's writer
		r.Header.Del(outcome.Header)
		delete(r.Trailer, outcome.Header)
	}
	if _, ok := r.Header["Content-Type"]; !ok {
		v.w.Header()["Content-Type"] = nil // else net/http guesses one
	}
	return nil
}

// wordless keeps the application's word on outcomes out of informational answers.
type wordless struct{ http.ResponseWriter }

func (w wordless) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w wordless) WriteHeader(status int) {
	if status < 200 {
		w.Header().Del(outcome.Header)
	}
	w.ResponseWriter.WriteHeader(status)
}

// flushAfter is how long a piece of an answer of known length may wait for the next.
// Those of unknown length and event streams do not wait.
const flushAfter = 100 * time.Millisecond

// maxAnswerHeader bounds the header of an answer, in bytes: 1 MiB is more than any
// application means to send.
const maxAnswerHeader = 1 << 20

// errTooSlow says that the application did not answer in time.
var errTooSlow = errors.New("no answer in time")

// pool returns the connections to the application, for doors and all else.
func pool(c Config, lines *lines) (*upstream.Pool, error) {
	return upstream.New(upstream.Config{
		URLs:           c.Upstreams,
		DialTimeout:    DialTime(c.Timeouts.Response, len(c.Upstreams)),
		MaxHeaderBytes: maxAnswerHeader,
		Reuse:          c.Reuse,
		Health:         c.Health,
		Changed:        lines.changed,
	})
}

// DialTime is how long connecting to one of several copies may take. Dead ones are found
// before Timeouts.Response has passed, so that it is known that nothing was sent. It
// cannot change in a reload.
func DialTime(response time.Duration, copies int) time.Duration {
	return min(dialTimeout, response/time.Duration(1+copies))
}

// attempts is for requests at doors.
type attempts struct {
	http.RoundTripper
	wait time.Duration
}

// RoundTrip waits for the final status until wait has passed; for the body after it,
// as long as it takes.
func (a attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(a.wait, func() { cancel(errTooSlow) })
	res, err := a.RoundTripper.RoundTrip(r.WithContext(ctx))
	inTime := timer.Stop()
	switch {
	case err == nil && inTime:
		res.Request = r
		return res, nil // ctx ends with the request's
	case err == nil:
		res.Body.Close()
		err = errTooSlow
	case context.Cause(ctx) == errTooSlow:
		err = errTooSlow
	}
	cancel(nil)
	return nil, err
}

// fault answers a request that got no answer from the application. An attempt is void
// if nothing of it got there, unless its caller hung up: else it has failed, whatever
// the operator has listed for answers of the application's.
func (p *Proxy) fault(w http.ResponseWriter, r *http.Request, err error) {
	v := visitOf(r.Context())
	gone := r.Context().Err() != nil
	var unreached upstream.DialError
	permit := httpguard.FromRequest(r)
	if v.door != "" {
		if errors.As(err, &unreached) && !gone {
			permit.Void()
		} else {
			permit.Failed()
		}
	}
	status := http.StatusBadGateway
	var timeout net.Error
	if errors.Is(err, errTooSlow) || errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	if !gone {
		p.lines.upstream.Write(time.Now(), func() []slog.Attr {
			return append([]slog.Attr{
				slog.String("error", logs.Cut(err.Error(), 300)), slog.Int("status", status),
			}, p.lines.request(v.door, r)...)
		})
	}
	p.answer(w, r, status)
}

// LogWriter returns a writer for the standard log: a line per write, within bounds.
func (p *Proxy) LogWriter() io.Writer { return lineWriter{p.lines.server} }

// lineWriter makes lines of what a log.Logger prints.
type lineWriter struct{ kind *logs.Kind }

func (l lineWriter) Write(b []byte) (int, error) {
	l.kind.Write(time.Now(), func() []slog.Attr { return []slog.Attr{slog.String("error", logs.Cut(string(b), 2000))} })
	return len(b), nil
}

// TryUpstreams connects to each copy of the application once, and calls f with what became
// of it.
func (p *Proxy) TryUpstreams(ctx context.Context, f func(u *url.URL, err error)) { p.pool.Try(ctx, f) }
