// Package attack puts limiters in front of the same application and attacks it. It
// counts two things: guesses that were judged beyond what the policy allows, and honest
// callers who were refused. Every limiter is set up as its own documentation shows, and
// stands as a middleware, where what a request carries can be used against it.
//
// It gives up on time: rows that need some of it run on the clock of a test bubble,
// see Run. It measures no speed.
package attack

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Figures are what an attack gained.
type Figures struct {
	Beyond  int // guesses judged beyond the policy
	Refused int // honest callers refused
}

// A Size says how large attacks are: full size for the document, small for tests.
type Size struct {
	Guesses   int // of one caller
	Addresses int // of a network
	Capacity  int // of a table that is to overflow
	Keys      int // callers of a limiter that is weighed
	Bound     int // which tells as many of them apart, where there is a bound
}

// The sizes there are.
var (
	Full  = Size{1000, 65_536, 4096, 5_000_000, 65_536} // the bound that this project and throttled's documentation have
	Small = Size{200, 512, 64, 2000, 512}
)

// A Row is one attack.
type Row struct {
	Name string
	// What says what is done, in a sentence or two, with %s for sizes.
	What func(Size) string
	// Headers says that contenders which differ in reading headers only take part.
	Headers bool
	// Stepped needs a clock that can be set, see Run.
	Stepped bool
	run     func(*trial) Figures
}

// A trial is one attack on one contender.
type trial struct {
	contender Contender
	size      Size
}

// A site is a limiter with the application behind it.
type site struct {
	instance
	Setup
	handler http.Handler
	mu      sync.Mutex
	judged  []time.Time // wrong guesses that the application judged
	refused int         // honest callers
}

// open starts the contender anew.
func (t *trial) open(s Setup) *site {
	if s.Window == 0 {
		s.Window = time.Minute
	}
	if s.Capacity == 0 {
		s.Capacity = 65_536
	}
	out := &site{instance: t.contender.make(s), Setup: s}
	out.handler = out.wrap(http.HandlerFunc(out.application))
	return out
}

func (s *site) done() Figures {
	if s.close != nil {
		s.close()
	}
	return Figures{0, s.refused}
}

// beyond is done, with the guesses judged beyond the policy.
func (s *site) beyond(policy int) Figures {
	f := s.done()
	f.Beyond = max(0, len(s.judged)-policy)
	return f
}

// A request is one attempt at the application.
type request struct {
	from      string   // the peer of the connection, or behind the proxy the caller
	forwarded []string // what the caller sends as X-Forwarded-For
	lines     bool     // the proxy adds a line of its own instead of appending
	right     bool
	takes     time.Duration // to judge
	then      then
}

// then is what happens after a guess was judged, other than an answer that says so.
type then uint8

const (
	answer then = iota
	hangUp      // the caller is gone before there is an answer
	crash       // the application answers 500
	void        // the application says that nothing was judged, which is true
)

type requestKey struct{}
type cancelKey struct{}

// application judges attempts.
func (s *site) application(w http.ResponseWriter, r *http.Request) {
	q := r.Context().Value(requestKey{}).(request)
	time.Sleep(q.takes)
	if q.then == void {
		if s.void != nil {
			s.void(r)
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if q.right {
		if s.succeeded != nil {
			s.succeeded(r)
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	s.mu.Lock()
	s.judged = append(s.judged, time.Now())
	s.mu.Unlock()
	switch q.then {
	case hangUp:
		r.Context().Value(cancelKey{}).(context.CancelFunc)()
		<-r.Context().Done()
	case crash:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// send returns the status of the answer.
func (s *site) send(q request) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx = context.WithValue(context.WithValue(ctx, requestKey{}, q), cancelKey{}, cancel)
	r, err := http.NewRequestWithContext(ctx, "POST", "http://site.example/login", nil)
	if err != nil {
		panic(err)
	}
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(q.from), 1234).String()
	if s.Proxied {
		r.RemoteAddr = proxy + ":1234"
		r.Header["X-Forwarded-For"] = q.header()
	}
	w := &recorder{header: http.Header{}}
	s.handler.ServeHTTP(w, r)
	return w.status
}

// header is what the proxy makes of what the caller sent.
func (q request) header() []string {
	if q.lines || len(q.forwarded) == 0 {
		return append(slices.Clone(q.forwarded), q.from)
	}
	last := len(q.forwarded) - 1
	return append(slices.Clone(q.forwarded[:last]), q.forwarded[last]+", "+q.from)
}

type recorder struct {
	header http.Header
	status int
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}

// guess sends n wrong guesses, one after the other.
func (s *site) guess(n int, q request) {
	for range n {
		s.send(q)
	}
}

// together sends n attempts at once and waits for all answers. It returns how many
// were refused.
func (s *site) together(n int, q request) int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range n {
		wg.Go(func() {
			if status := s.send(q); status == http.StatusTooManyRequests || status == http.StatusInternalServerError {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return refused
}

// people is how many honest callers there are.
const people = 20

// honest lets people log in, each from a network of their own.
func (s *site) honest() { s.login(0) }

func (s *site) login(first int) {
	for i := range people {
		if s.send(request{from: home(first + i), right: true}) != http.StatusOK {
			s.refused++
		}
	}
}

// home returns the address of one of many networks, each a /24 of its own.
func home(i int) string { return fmt.Sprintf("198.%d.%d.7", 18+i>>8, i&0xff) }

// bot returns the address of one of 65,536 networks, each a /24 of its own.
func bot(i int) string { return fmt.Sprintf("100.%d.%d.9", i>>8, i&0xff) }

// Results are the figures of a row by contender.
type Results map[string]Figures

// Run attacks every contender. Each row runs within bubble, which must call its argument
// in a testing/synctest bubble; rows that need a stepped clock run outside, and only in a
// build that can step it.
func Run(size Size, bubble func(f func())) map[string]Results {
	all := map[string]Results{}
	for _, row := range Rows {
		all[row.Name] = Results{}
		for _, c := range Contenders {
			if c.Headers && !row.Headers || row.Stepped && !canStep {
				continue
			}
			t := &trial{c, size}
			if row.Stepped {
				all[row.Name][c.Name] = row.run(t)
				continue
			}
			bubble(func() { all[row.Name][c.Name] = row.run(t) })
		}
	}
	return all
}
