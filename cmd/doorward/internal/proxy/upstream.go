package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/logs"
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
	}
}

// rewrite prepares the request to the application. What Connection names has been
// removed before, so that no caller can remove what is written here.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	v := visitOf(r.In.Context())
	r.Out.URL = v.target
	r.Out.Host = r.In.Host
	if v.door != "" {
		r.Out.Header.Del("Expect") // the body is here already
	}
	// An application that answers without reading the body would take it for the next
	// request on a kept connection: one that no door has seen.
	r.Out.Close = r.In.Body != nil && r.In.Body != http.NoBody
	upgrade(r.Out.Header)
	clean(r.Out.Header, p.config.Clients.Header(), v.believed())
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

// dialError says that there was no connection to the application, so that nothing of
// a request can have reached it.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// maxAnswerHeader bounds the header of an answer, in bytes: 1 MiB is more than any
// application means to send.
const maxAnswerHeader = 1 << 20

// errTooSlow says that the application did not answer in time.
var errTooSlow = errors.New("no answer in time")

func transport(c Config) *http.Transport {
	dialer := &net.Dialer{Timeout: min(dialTimeout, c.Timeouts.Response/2)}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, dialError{err}
			}
			return conn, nil
		},
		DisableCompression:     true, // bodies are the application's
		MaxResponseHeaderBytes: maxAnswerHeader,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	secure := &tls.Dialer{NetDialer: dialer, Config: &tls.Config{ServerName: c.Upstream.Hostname()}}
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := secure.DialContext(ctx, network, addr)
		if err != nil {
			return nil, dialError{err}
		}
		return conn, nil
	}
	return t
}

// passTransport is for requests outside doors.
func passTransport(c Config) *http.Transport {
	t := transport(c)
	t.MaxIdleConnsPerHost = 256
	t.IdleConnTimeout = 90 * time.Second
	t.ExpectContinueTimeout = time.Second
	return t
}

// attempts is for requests at doors. http.Transport sends a request again if the kept
// connection that it was sent on turns out to be closed and the method or an
// Idempotency-Key lets it; so connections are not kept.
type attempts struct {
	*http.Transport
	wait time.Duration
}

func attemptTransport(c Config) *attempts {
	t := transport(c)
	t.DisableKeepAlives = true
	return &attempts{Transport: t, wait: c.Timeouts.Response}
}

// RoundTrip waits for the final status until wait has passed; for the body after it,
// as long as it takes.
func (a *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(a.wait, func() { cancel(errTooSlow) })
	res, err := a.Transport.RoundTrip(r.WithContext(ctx))
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
	var unreached dialError
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
