// Package ordered puts values that come nearly in the order of their times into that
// order: a value is held until one has come that is a span later.
//
// It promises the order of time, and of coming among equal times, to all that come no
// more than the span after a later one. It gives up on what comes later than that, which
// it hands on at once and calls late, and it holds at most so many values: past that
// the earliest goes.
//
// One time far ahead of all others does no harm: its value is held to the end, and those
// after it are handed on as they come.
package ordered

// A Queue puts values into order. It is not safe for concurrent use.
type Queue[T any] struct {
	span   int64
	most   int
	fifo   ring[T] // those that came in order
	heap   heap[T] // those that did not
	n      uint64  // how many came
	newest int64   // the latest time that came, while there is one
	last   int64   // the latest time handed on
	any    bool    // whether one was
}

type item[T any] struct {
	at int64
	n  uint64 // which it was of those that came
	v  T
}

func (a *item[T]) before(b *item[T]) bool { return a.at < b.at || a.at == b.at && a.n < b.n }

// New returns a queue that holds values for a span of time, in any unit, and at most so
// many, at least one.
func New[T any](span int64, most int) *Queue[T] {
	return &Queue[T]{span: max(span, 0), most: max(most, 1)}
}

// Push takes a value. It costs constant time if none came before it that is later, else
// the logarithm of how many are held.
func (q *Queue[T]) Push(at int64, v T) {
	if q.n == 0 || at > q.newest {
		q.newest = at
	}
	it := item[T]{at, q.n, v}
	q.n++
	if q.fifo.n > 0 && at < q.fifo.last().at {
		q.heap.push(it)
		return
	}
	q.fifo.push(it)
}

// Pop returns the earliest value if it need not be held any longer, or, at the end, if
// there is one. It is late if a later one was returned before.
func (q *Queue[T]) Pop(end bool) (at int64, v T, late, ok bool) {
	held := q.fifo.n + len(q.heap)
	if held == 0 {
		return 0, v, false, false
	}
	fromHeap := q.fifo.n == 0 || len(q.heap) > 0 && q.heap[0].before(q.fifo.first())
	first := q.fifo.first()
	if fromHeap {
		first = &q.heap[0]
	}
	// The difference of two times may be more than fits.
	if age := uint64(q.newest) - uint64(first.at); !end && held <= q.most && age < uint64(q.span) {
		return 0, v, false, false
	}
	at, v = first.at, first.v
	if fromHeap {
		q.heap.pop()
	} else {
		q.fifo.pop()
	}
	late = q.any && at < q.last
	if !late {
		q.last, q.any = at, true
	}
	return at, v, late, true
}

// A ring is a first-in first-out list in one piece of memory.
type ring[T any] struct {
	items []item[T]
	head  int
	n     int
}

func (r *ring[T]) at(i int) *item[T] {
	if i += r.head; i >= len(r.items) {
		i -= len(r.items)
	}
	return &r.items[i]
}

// first returns the first item, nil if there is none.
func (r *ring[T]) first() *item[T] {
	if r.n == 0 {
		return nil
	}
	return &r.items[r.head]
}

func (r *ring[T]) last() *item[T] { return r.at(r.n - 1) }

func (r *ring[T]) push(it item[T]) {
	if r.n == len(r.items) {
		grown := make([]item[T], max(16, 2*r.n))
		for i := range r.n {
			grown[i] = *r.at(i)
		}
		r.items, r.head = grown, 0
	}
	r.n++
	*r.last() = it
}

func (r *ring[T]) pop() {
	r.items[r.head] = item[T]{}
	if r.head++; r.head == len(r.items) {
		r.head = 0
	}
	r.n--
}

// A heap has its least item first.
type heap[T any] []item[T]

func (h *heap[T]) push(it item[T]) {
	*h = append(*h, it)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *heap[T]) pop() {
	s := *h
	n := len(s) - 1
	s[0], s[n] = s[n], item[T]{}
	s = s[:n]
	*h = s
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if s[c].before(&s[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
