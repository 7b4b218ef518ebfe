// Package hub passes what happens on to those who watch, as lines of package trace.
//
// It promises that nobody who watches slows down who serves: an event is offered to a
// watcher whose queue has room, or counted as dropped, exactly, and said later. Without
// watchers it costs one load. It gives up on history: who watches sees what happens from
// then on.
package hub

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward/trace"
)

// Streams is how many may watch at one time, and Queue how many events wait for one.
const (
	Streams = 16
	Queue   = 512
)

// ErrFull says that too many watch already.
var ErrFull = errors.New("hub: too many streams")

// Filter says which events a stream is for. The zero Filter is all of them.
type Filter struct {
	Door   string       // or realm
	Client netip.Prefix // whose network overlaps it
	Events []trace.Event
}

func (f *Filter) passes(e *Event) bool {
	return (f.Door == "" || f.Door == e.Door || f.Door == e.Realm) &&
		(!f.Client.IsValid() || e.Client.IsValid() && f.Client.Overlaps(e.Client)) &&
		(len(f.Events) == 0 || slices.Contains(f.Events, e.Event))
}

// Event is what a filter asks of an event, and how to make a record of it if somebody is
// there for it.
type Event struct {
	Event       trace.Event
	Door, Realm string
	Client      netip.Prefix
	Record      func() trace.Record
}

// A Hub is safe for concurrent use. The zero Hub is ready.
type Hub struct {
	mu      sync.Mutex
	streams atomic.Pointer[[]*Stream]
}

// Watched reports whether anybody watches.
func (h *Hub) Watched() bool {
	all := h.streams.Load()
	return all != nil && len(*all) > 0
}

// Tell offers e to all who watch. It does not wait.
func (h *Hub) Tell(e *Event) {
	all := h.streams.Load()
	if all == nil {
		return
	}
	for _, s := range *all {
		if s.filter.passes(e) {
			s.offer(e)
		}
	}
}

// Watch begins a stream, until it is closed.
func (h *Hub) Watch(f Filter) (*Stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*Stream
	if old := h.streams.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if len(all) >= Streams {
		return nil, ErrFull
	}
	s := &Stream{hub: h, filter: f, queue: make(chan trace.Record, Queue), dropped: map[kind]uint64{}}
	all = append(all, s)
	h.streams.Store(&all)
	return s, nil
}

// A Stream is what one watcher sees. It is for one goroutine.
type Stream struct {
	hub    *Hub
	filter Filter
	queue  chan trace.Record

	mu      sync.Mutex
	dropped map[kind]uint64 // not said yet
}

// A kind is what is dropped, and told of, together. There are no more of them than events and
// doors.
type kind struct {
	event trace.Event
	door  string
}

func (s *Stream) offer(e *Event) {
	if len(s.queue) < cap(s.queue) {
		select {
		case s.queue <- e.Record():
			return
		default: // others came in between
		}
	}
	s.mu.Lock()
	s.dropped[kind{e.Event, e.Door}]++
	s.mu.Unlock()
}

// Queue returns what waits to be read: each is to be passed to Say.
func (s *Stream) Queue() <-chan trace.Record { return s.queue }

// Say returns r, which came from the queue, with how many of its kind were dropped before
// it and not told yet.
func (s *Stream) Say(r trace.Record) trace.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kind{r.Event, r.Door}
	r.Dropped = s.dropped[k]
	delete(s.dropped, k)
	return r
}

// Rest returns records that say what was dropped and not told yet.
func (s *Stream) Rest(now time.Time) (all []trace.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range s.dropped {
		all = append(all, trace.Record{Time: now, Event: trace.Dropped, Of: k.event, Door: k.door, Dropped: n})
	}
	clear(s.dropped)
	return all
}

// Close ends the stream.
func (s *Stream) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	all := slices.Clone(*s.hub.streams.Load())
	all = slices.DeleteFunc(all, func(o *Stream) bool { return o == s })
	s.hub.streams.Store(&all)
}
