package httpguard

import (
	"net/netip"
	"sync"

	"github.com/doorward/doorward"
)

// A queue holds the requests that wait for a Busy key: one line for each network, in
// which first come is first served. The zero queue lets nobody wait.
type queue struct {
	max, share int // in all, of one IPv4 /24 or IPv6 /48

	mu    sync.Mutex
	total int
	wide  map[doorward.Key]int   // who waits, by /24 and /48: no network is wider
	lines map[doorward.Key]*line // by network
}

// A line holds the waiters of a network. There is none that is empty.
type line struct{ front, back *waiter }

type waiter struct {
	network, wide doorward.Key
	before, after *waiter
	first         chan struct{} // closed when nobody is before it
}

func (w *waiter) isFirst() bool {
	select {
	case <-w.first:
		return true
	default:
		return false
	}
}

func (q *queue) limit(n int) {
	if n > 0 {
		q.max, q.share = n, max(n/4, 1)
		q.wide, q.lines = map[doorward.Key]int{}, map[doorward.Key]*line{}
	}
}

// waits reports whether somebody of the network of addr waits.
func (q *queue) waits(addr netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total > 0 && q.lines[doorward.KeyFromAddr(addr)] != nil
}

// join goes to the end of the line of addr, or returns nil if there is no place.
func (q *queue) join(addr netip.Addr) *waiter {
	w := &waiter{
		network: doorward.KeyFromAddr(addr), wide: doorward.KeyFromPrefix(addr, 24, 48),
		first: make(chan struct{}),
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total >= q.max || q.wide[w.wide] >= q.share {
		return nil
	}
	q.total++
	q.wide[w.wide]++
	l := q.lines[w.network]
	if l == nil {
		q.lines[w.network] = &line{w, w}
		close(w.first)
		return w
	}
	w.before, l.back.after, l.back = l.back, w, w
	return w
}

// leave takes w out of its line. If it was the first, the next one is.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.wide[w.wide]--; q.wide[w.wide] == 0 {
		delete(q.wide, w.wide)
	}
	l := q.lines[w.network]
	if w.before != nil {
		w.before.after = w.after
	} else {
		l.front = w.after
	}
	if w.after != nil {
		w.after.before = w.before
	} else {
		l.back = w.before
	}
	switch {
	case l.front == nil:
		delete(q.lines, w.network)
	case w.before == nil:
		close(l.front.first)
	}
}
