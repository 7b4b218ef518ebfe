package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/logs"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
)

// How many attempts are one address's before that is strange, and from how many people
// they seem to be.
const (
	enough = 50
	people = 5
)

// A Watch finds what shows only while requests are served. Its zero value is ready to use.
// It is safe for concurrent use.
type Watch struct {
	mu     sync.Mutex
	found  map[string]Finding // by check and whom it is about
	shared shared
	clock  clock
}

// maxFound bounds what is kept: who comes as many peers is not told of one by one.
const maxFound = 32

// keep returns f with the time, if it is found for the first time.
func (w *Watch) keep(about string, f Finding, now time.Time) (Finding, bool) {
	f.At = now
	id := f.Check + " " + about
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.found[id]
	if w.found == nil {
		w.found = map[string]Finding{}
	}
	if known || len(w.found) < maxFound {
		w.found[id] = f
	}
	return f, !known
}

// Found returns what was found since the start, or since Forget.
func (w *Watch) Found() (all []Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.found {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Finding) int { return a.At.Compare(b.At) })
	return all
}

// Forget begins anew: what callers are named by may have changed.
func (w *Watch) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = nil
	w.shared = shared{}
}

// Suspect takes a suspicion of the proxy.
func (w *Watch) Suspect(s proxy.Suspicion, now time.Time) {
	f := Finding{Check: Forwarded, Fix: s.Fix}
	switch s.What {
	case proxy.Ignored:
		f.Text = fmt.Sprintf("%s forwards addresses, which are not read: all callers behind it are one", s.Peer)
	case proxy.Closed:
		f.Check = Loopback
		f.Text = fmt.Sprintf("%s, on this machine, forwards addresses, and nobody has said whose they are: doors are closed to it", s.Peer)
	case proxy.LocalLocked:
		f.Check = Loopback
		f.Text = fmt.Sprintf("%s, on this machine, is locked out: if it is a proxy, so are all callers behind it", s.Peer)
	}
	w.keep(s.Peer, f, now)
}

// shared is whether all attempts come from one address.
type shared struct {
	over   bool // they do not, or it was said
	addr   netip.Addr
	n      int
	people map[person]bool
}

// A person is known by the account, or by the program, that they use.
type person struct {
	subject doorward.Key
	agent   string
}

// Tell looks at one event. It returns a finding when there is a new one.
func (w *Watch) Tell(e *proxy.Event) (f Finding, found bool) {
	if who, ok := w.shared.tell(&w.mu, e); ok {
		return w.keep("", Finding{
			Check: OneAddress,
			Text:  fmt.Sprintf("all of the first %d attempts came from %s, and they look like those of %d people: if it is a proxy, one of them locks out all", enough, who, people),
			Fix:   "name it in clients: trusted_proxies, with the header that it writes",
		}, e.Time)
	}
	return f, false
}

// tell counts one event, until it is known that callers can be told apart. An address that
// a trusted proxy wrote is not the proxy's own.
func (s *shared) tell(mu *sync.Mutex, e *proxy.Event) (who string, found bool) {
	mu.Lock()
	defer mu.Unlock()
	if s.over {
		return "", false
	}
	if s.n++; s.n == 1 {
		s.addr = e.Addr
	}
	if e.How == clientip.Header || e.Addr != s.addr {
		*s = shared{over: true}
		return "", false
	}
	if s.people == nil {
		s.people = map[person]bool{}
	}
	if len(s.people) < people {
		who := person{subject: e.Subject}
		if who.subject == (doorward.Key{}) {
			who.agent = logs.Cut(e.Agent, 200)
		}
		s.people[who] = true
	}
	if s.n < enough || len(s.people) < people {
		return "", false
	}
	*s = shared{over: true}
	return doorward.KeyFromAddr(e.Addr).String(), true
}

// clock is the difference of wall and monotonic time, as it last was.
type clock struct {
	known bool
	off   time.Duration
}

// step is by how much the clock is set before anybody is told. Clocks are slewed by less.
const step = time.Second

// Clock compares the wall clock, in time since any fixed moment, with one that runs on
// whatever that is set to. It returns a finding if it was set since the last call.
func (w *Watch) Clock(wall, steady time.Duration, now time.Time) (f Finding, found bool) {
	off := wall - steady
	was := w.clock
	w.clock = clock{true, off}
	if d := (off - was.off).Round(time.Millisecond); was.known && (d >= step || d <= -step) {
		f, _ = w.keep(d.String(), Finding{
			Check: Clock,
			Text:  fmt.Sprintf("the clock was set by %v: lockouts are not affected, but times in logs are, and state files if it happens while nothing runs", d),
			Fix:   "see to it that time is synchronized gradually (chrony: makestep only at the start)",
		}, now)
		return f, true
	}
	return f, false
}
