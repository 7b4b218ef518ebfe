package admin

import (
	"net/http"
	"slices"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/hub"
	"github.com/doorward/doorward/trace"
)

const (
	// heartbeat is how often an empty line says that nothing happens.
	heartbeat = 10 * time.Second
	// breath is how long a stream rests after it has sent what there was: at most
	// hub.Queue lines in that time, whatever happens, since each takes from who serves.
	breath = 100 * time.Millisecond
)

// kinds are the events that can be asked for.
var kinds = []trace.Event{
	trace.Refused, trace.Settled, trace.Locked, trace.Unlocked, trace.Cleared, trace.Listed,
	trace.Unlisted, trace.Reloaded, trace.Started, trace.Stopped,
}

// events sends lines as things happen, until who asked has enough.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "door client", "event")
	if err != nil {
		return err
	}
	f := hub.Filter{Door: first(q["door"])}
	if text := first(q["client"]); text != "" {
		if f.Client, err = parseNetwork(text); err != nil {
			return bad("client must be an address or a network such as 192.0.2.7 or 2001:db8::/48, got %s", cut(text))
		}
	}
	for _, name := range q["event"] {
		if !slices.Contains(kinds, trace.Event(name)) {
			return bad("event must be one of %v, got %s", kinds, cut(name))
		}
		f.Events = append(f.Events, trace.Event(name))
	}
	stream, err := s.daemon.Watch(f)
	if err != nil {
		return err
	}
	defer stream.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := sender{w: w, control: http.NewResponseController(w)}
	out.send() // the header
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	queued := func() { // adds what there is
		for len(out.buf) < maxBatch {
			select {
			case e := <-stream.Queue():
				out.add(stream.Say(e))
			default:
				return
			}
		}
	}
	defer func() { // nothing is lost that happened before the daemon stopped
		queued()
		for _, rest := range stream.Rest(time.Now()) {
			out.add(rest)
		}
		out.send()
	}()
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case now := <-beat.C:
			rest := stream.Rest(now)
			for i := range rest {
				out.add(rest[i])
			}
			if len(rest) == 0 {
				out.buf = append(out.buf, '\n')
			}
			out.send()
		case e := <-stream.Queue():
			out.add(stream.Say(e))
			queued()
			out.send()
			select {
			case <-r.Context().Done():
				return nil
			case <-time.After(breath):
			}
		}
	}
	return nil
}

// maxBatch is how much is sent at a time, in bytes.
const maxBatch = 256 << 10

// A sender writes lines together.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     []byte
	err     error
}

func (o *sender) add(r trace.Record) { o.buf = r.AppendLine(o.buf) }

func (o *sender) send() {
	_ = o.control.SetWriteDeadline(time.Now().Add(sendTime))
	if len(o.buf) > 0 && o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	if o.err == nil {
		o.err = o.control.Flush()
	}
	o.buf = o.buf[:0]
}
