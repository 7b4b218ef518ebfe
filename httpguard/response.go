package httpguard

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/doorward/doorward/outcome"
)

// A response settles the attempt when the final status is known, before it is sent.
// Like any ResponseWriter it belongs to one goroutine at a time.
type response struct {
	w      http.ResponseWriter
	gate   *Gate
	permit *Permit
	fixed  bool
}

// final fixes the outcome: an answer with this status is about to be sent. An explicit
// word that came before wins.
func (r *response) final(status int) {
	if r.fixed {
		return
	}
	r.fixed = true
	var v outcome.Verdict // failed
	if r.gate.outcome != nil && r.permit.request.Context().Err() == nil {
		v = r.gate.outcome.Classify(status, r.w.Header())
	}
	r.permit.settle(v.Outcome, v.Warning)
	if r.gate.outcome != nil {
		stripResponse(r.w.Header())
	}
	r.gate.showQuotas(r.w.Header(), r.permit)
	if status != http.StatusSwitchingProtocols { // a hijacked connection, too
		r.gate.remember(r.w.Header(), r.permit)
	}
}

// Unwrap is for http.ResponseController: deadlines and full duplex.
func (r *response) Unwrap() http.ResponseWriter { return r.w }

func (r *response) Header() http.Header { return r.w.Header() }

func (r *response) WriteHeader(status int) {
	switch {
	case r.fixed, status < 100, status > 999: // superfluous, or a panic
		r.w.WriteHeader(status)
	case status < 200 && status != http.StatusSwitchingProtocols:
		if r.gate.outcome == nil {
			r.w.WriteHeader(status)
			return
		}
		// The same headers may go into the final answer, where they count.
		taken := takeResponse(r.w.Header())
		r.w.WriteHeader(status)
		taken.putBack(r.w.Header())
	default:
		r.final(status)
		r.w.WriteHeader(status)
	}
}

func (r *response) Write(b []byte) (int, error) {
	r.final(http.StatusOK)
	return r.w.Write(b)
}

func (r *response) WriteString(s string) (int, error) {
	r.final(http.StatusOK)
	return io.WriteString(r.w, s)
}

// firstCopy is how much goes through Write before the rest is left to the server: as
// long as the source has given nothing, the status is not known.
const firstCopy = 512

// ReadFrom keeps the server's way of copying files and connections.
func (r *response) ReadFrom(src io.Reader) (n int64, err error) {
	to, ok := r.w.(io.ReaderFrom)
	if !ok {
		return io.Copy(writerOnly{r}, src)
	}
	if !r.fixed {
		n, err = io.CopyN(writerOnly{r}, src, firstCopy)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	m, err := to.ReadFrom(src)
	return n + m, err
}

// writerOnly hides ReadFrom.
type writerOnly struct{ io.Writer }

// The methods that only some ResponseWriters have are types of their own, so that a
// response has those that what it wraps has.
type (
	flushing  response
	hijacking response
	pushing   response
)

func (f *flushing) Flush() { f.FlushError() }

func (f *flushing) FlushError() error {
	(*response)(f).final(http.StatusOK)
	return http.NewResponseController(f.w).Flush()
}

// Hijack settles the attempt as failed unless the handler has spoken: what goes over
// the connection from now on is not seen.
func (h *hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.w).Hijack()
	if err == nil {
		(*response)(h).final(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

func (p *pushing) Push(target string, opts *http.PushOptions) error {
	return p.w.(http.Pusher).Push(target, opts)
}

// wrap returns r with the methods that what it wraps has, itself or by Unwrap.
func (r *response) wrap() http.ResponseWriter {
	f, h, p := (*flushing)(r), (*hijacking)(r), (*pushing)(r)
	flushes, hijacks := abilities(r.w)
	_, pushes := r.w.(http.Pusher)
	switch {
	case flushes && hijacks && pushes:
		return struct {
			*response
			*flushing
			*hijacking
			*pushing
		}{r, f, h, p}
	case flushes && hijacks:
		return struct {
			*response
			*flushing
			*hijacking
		}{r, f, h}
	case flushes && pushes:
		return struct {
			*response
			*flushing
			*pushing
		}{r, f, p}
	case hijacks && pushes:
		return struct {
			*response
			*hijacking
			*pushing
		}{r, h, p}
	case flushes:
		return struct {
			*response
			*flushing
		}{r, f}
	case hijacks:
		return struct {
			*response
			*hijacking
		}{r, h}
	case pushes:
		return struct {
			*response
			*pushing
		}{r, p}
	}
	return r
}

// abilities looks for what http.ResponseController would find.
func abilities(w http.ResponseWriter) (flushes, hijacks bool) {
	for {
		switch w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			flushes = true
		}
		if _, ok := w.(http.Hijacker); ok {
			hijacks = true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return flushes, hijacks
		}
		w = u.Unwrap()
	}
}
