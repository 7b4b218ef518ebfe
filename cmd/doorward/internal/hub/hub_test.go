package hub

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward/trace"
)

func event(kind trace.Event, door, realm, client string) *Event {
	e := &Event{Event: kind, Door: door, Realm: realm}
	if client != "" {
		e.Client = netip.MustParsePrefix(client)
	}
	e.Record = func() trace.Record { return trace.Record{Event: kind, Door: door} }
	return e
}

func TestFilter(t *testing.T) {
	for _, row := range []struct {
		f    Filter
		e    *Event
		want bool
	}{
		{Filter{}, event(trace.Refused, "login", "", ""), true},
		{Filter{Door: "login"}, event(trace.Refused, "login", "", ""), true},
		{Filter{Door: "login"}, event(trace.Refused, "reset", "", ""), false},
		{Filter{Door: "accounts"}, event(trace.Refused, "reset", "accounts", ""), true},
		{Filter{Client: netip.MustParsePrefix("192.0.2.0/24")}, event(trace.Refused, "", "", "192.0.2.7/32"), true},
		{Filter{Client: netip.MustParsePrefix("2001:db8::1/128")}, event(trace.Refused, "", "", "2001:db8::/64"), true},
		{Filter{Client: netip.MustParsePrefix("192.0.2.0/24")}, event(trace.Refused, "", "", "192.0.3.7/32"), false},
		{Filter{Client: netip.MustParsePrefix("192.0.2.0/24")}, event(trace.Refused, "", "", ""), false},
		{Filter{Events: []trace.Event{trace.Locked, trace.Unlocked}}, event(trace.Unlocked, "", "", ""), true},
		{Filter{Events: []trace.Event{trace.Locked}}, event(trace.Unlocked, "", "", ""), false},
	} {
		var h Hub
		s, err := h.Watch(row.f)
		if err != nil {
			t.Fatal(err)
		}
		h.Tell(row.e)
		if got := len(s.Queue()) == 1; got != row.want {
			t.Errorf("%+v and %+v: %v, want %v", row.f, row.e, got, row.want)
		}
	}
}

// What is read and what is said to be dropped are together what there was, of each kind.
func TestDropped(t *testing.T) {
	var h Hub
	s, err := h.Watch(Filter{Events: []trace.Event{trace.Refused, trace.Settled}})
	if err != nil {
		t.Fatal(err)
	}
	var tellers sync.WaitGroup
	for range 4 {
		tellers.Go(func() {
			for range 5_000 {
				h.Tell(event(trace.Refused, "login", "", ""))
				h.Tell(event(trace.Refused, "reset", "", ""))
				h.Tell(event(trace.Settled, "login", "", ""))
				h.Tell(event(trace.Locked, "login", "", "")) // for nobody
			}
		})
	}
	told, read := make(chan bool), map[kind]uint64{}
	go func() { tellers.Wait(); close(told) }()
	said := false
	take := func(r trace.Record) {
		r = s.Say(r)
		read[kind{r.Event, r.Door}] += 1 + r.Dropped
		said = said || r.Dropped > 0
	}
	<-told // nobody read
	for range Queue {
		take(<-s.Queue())
	}
	h.Tell(event(trace.Settled, "login", "", ""))
	take(<-s.Queue())
	rest := s.Rest(time.Unix(1, 0))
	for _, r := range rest {
		if r.Event != trace.Dropped {
			t.Errorf("%+v", r)
		}
		read[kind{r.Of, r.Door}] += r.Dropped
	}
	want := map[kind]uint64{{trace.Refused, "login"}: 20_000, {trace.Refused, "reset"}: 20_000, {trace.Settled, "login"}: 20_001}
	if len(read) != len(want) {
		t.Errorf("%v", read)
	}
	for k, n := range want {
		if read[k] != n {
			t.Errorf("%v: %d, want %d", k, read[k], n)
		}
	}
	if !said || len(s.Rest(time.Unix(1, 0))) != 0 {
		t.Error("what was dropped is to be said once, with the next line")
	}
}

// A stream more than there may be is refused, and one that is closed makes room.
func TestStreams(t *testing.T) {
	var h Hub
	if h.Watched() {
		t.Error("nobody watches")
	}
	var all []*Stream
	for range Streams {
		s, err := h.Watch(Filter{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if _, err := h.Watch(Filter{}); err != ErrFull {
		t.Errorf("%v, want ErrFull", err)
	}
	all[3].Close()
	all[3].Close()
	s, err := h.Watch(Filter{})
	if err != nil {
		t.Fatal(err)
	}
	h.Tell(event(trace.Refused, "login", "", ""))
	if len(all[3].Queue()) != 0 || len(s.Queue()) != 1 || len(all[0].Queue()) != 1 {
		t.Error("told the wrong ones")
	}
	for _, s := range append(all, s) {
		s.Close()
	}
	if h.Watched() {
		t.Error("nobody watches any more")
	}
}

// Who comes first takes the last room, and the other is counted.
func TestLastRoom(t *testing.T) {
	var h Hub
	s, err := h.Watch(Filter{})
	if err != nil {
		t.Fatal(err)
	}
	e := event(trace.Refused, "login", "", "")
	e.Record = func() trace.Record {
		for len(s.queue) < cap(s.queue) {
			s.queue <- trace.Record{}
		}
		return trace.Record{}
	}
	h.Tell(e)
	if rest := s.Rest(time.Unix(1, 0)); len(rest) != 1 || rest[0].Dropped != 1 {
		t.Errorf("%+v", rest)
	}
}

// A stream that nobody reads costs no allocation and no record.
func TestFull(t *testing.T) {
	var h Hub
	if _, err := h.Watch(Filter{}); err != nil {
		t.Fatal(err)
	}
	made := 0
	e := event(trace.Refused, "login", "", "")
	e.Record = func() trace.Record { made++; return trace.Record{} }
	for range 2 * Queue {
		h.Tell(e)
	}
	if made != Queue {
		t.Errorf("%d records, want %d", made, Queue)
	}
	if n := testing.AllocsPerRun(1000, func() { h.Tell(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
