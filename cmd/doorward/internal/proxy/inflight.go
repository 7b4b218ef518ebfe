package proxy

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/count"
)

// shareOfDoor is the part of a door's requests in flight that one network may have:
// who has a hundred streams on each connection would else take them all.
const shareOfDoor = 4

// newInFlight counts requests that are at a door at one time, and with them the memory
// that their bodies take.
func newInFlight(most int) *count.Count { return count.New(inFlight(most)) }

func inFlight(most int) (all, each int) { return most, max(1, most/shareOfDoor) }

// room takes room for r at a door, unless it has some there, until v.leave. It reports
// false if there is none and r is answered: nothing is charged.
func (p *Proxy) room(w http.ResponseWriter, r *http.Request, d *guarded, v *visit) bool {
	if v.at == d {
		return true
	}
	v.leave() // a body that was kept for another door is this one's now
	if !d.inFlight.Enter() {
		p.full(w, r, d, v, "max_in_flight")
		return false
	}
	leave := d.inFlight.Leave
	if network := doorward.KeyFromAddr(v.addr); !v.addr.IsLoopback() { // as for connections
		if !d.inFlight.Join(network) {
			d.inFlight.Leave()
			p.full(w, r, d, v, "max_in_flight of a network")
			return false
		}
		leave = func() { d.inFlight.Part(network); d.inFlight.Leave() }
	}
	v.at, v.leave = d, sync.OnceFunc(leave)
	return true
}

// enter lets the door's gate handle r if there is room for one more.
func (p *Proxy) enter(w http.ResponseWriter, r *http.Request, d *guarded, v *visit) {
	if !p.room(w, r, d, v) {
		return
	}
	a := &atDoor{ResponseWriter: w, stall: v.set.config.Timeouts.Write, leave: v.leave}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &timedBody{ReadCloser: r.Body, late: func() { p.lines.late("body", v.door, v.addr) }}
	}
	d.handler.ServeHTTP(a, r)
}

// full answers who finds a door full.
func (p *Proxy) full(w http.ResponseWriter, r *http.Request, d *guarded, v *visit, why string) {
	p.lines.full.Write(time.Now(), func() []slog.Attr {
		return append([]slog.Attr{slog.String("why", why), client(v), how(v)}, p.lines.request(d.Name, r)...)
	})
	w.Header().Set("Retry-After", "1")
	p.answer(w, r, http.StatusServiceUnavailable)
}

// atDoor is the answer to a request at a door: a client that takes nothing of it for too
// long is cut off, since it keeps others out.
type atDoor struct {
	http.ResponseWriter
	stall time.Duration
	leave func()
}

func (a *atDoor) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *atDoor) Write(b []byte) (int, error) {
	a.pace()
	return a.ResponseWriter.Write(b)
}

func (a *atDoor) FlushError() error {
	a.pace()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// pace sets a deadline for what is written next. net/http takes it off before the next
// request.
func (a *atDoor) pace() {
	http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.stall))
}

// Hijack ends the request: a WebSocket takes no room at a door.
func (a *atDoor) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.leave()
	}
	return conn, rw, err
}

// timedBody tells when the client took too long.
type timedBody struct {
	io.ReadCloser
	late func()
}

func (b *timedBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	if err != nil && b.late != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		b.late()
		b.late = nil
	}
	return n, err
}
