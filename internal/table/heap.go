package table

import "math"

// A heap holds entries by the time they are forgotten, the earliest first. Every
// node has four children: half as many levels as with two, and the children stand
// side by side in memory. The entry knows its place by its link.
type heap struct {
	entry []uint32
	at    []int64 // the times beside them; nil where entries are large: then they are asked
}

// smallEntry is how large an entry may be, in bytes, for the times to fit beside it
// within 64 bytes a key.
const smallEntry = 48

// notInOrder is the link of an entry that has no place in the heap.
const notInOrder = math.MaxUint32

const arity = 4

func newHeap(capacity int, small bool) heap {
	h := heap{entry: make([]uint32, 0, capacity)}
	if small {
		h.at = make([]int64, capacity)
	}
	return h
}

func (h *heap) capacity() int { return cap(h.entry) }

func (h *heap) reset() { h.entry = h.entry[:0] }

// due reports whether an entry in order is forgotten at the time at.
func (t *Table[S]) due(at int64) bool { return len(t.order.entry) > 0 && t.when(0) <= at }

// when returns the time of the entry at a place.
func (t *Table[S]) when(pos int) int64 {
	if t.order.at != nil {
		return t.order.at[pos]
	}
	return t.policy.Forget(t.entries[t.order.entry[pos]].state)
}

// setOrder gives entry i, whose state is stored, the place that at calls for.
func (t *Table[S]) setOrder(i uint32, at int64) {
	pos := int(t.entries[i].link)
	if t.entries[i].link == notInOrder {
		pos = len(t.order.entry)
		t.order.entry = append(t.order.entry, i)
	}
	t.place(pos, at, i)
	t.sift(pos)
}

// leaveOrder takes entry i out of the order, if it is there.
func (t *Table[S]) leaveOrder(i uint32) {
	e := &t.entries[i]
	if i < firstOwn || e.link == notInOrder {
		return
	}
	pos, last := int(e.link), len(t.order.entry)-1
	e.link = notInOrder
	at, moved := t.when(last), t.order.entry[last]
	t.order.entry = t.order.entry[:last]
	if pos < last {
		t.place(pos, at, moved)
		t.sift(pos)
	}
}

func (t *Table[S]) place(pos int, at int64, i uint32) {
	t.order.entry[pos] = i
	if t.order.at != nil {
		t.order.at[pos] = at
	}
	t.entries[i].link = uint32(pos)
}

func (t *Table[S]) sift(pos int) {
	if pos > 0 && t.when(pos) < t.when((pos-1)/arity) {
		t.siftUp(pos)
	} else {
		t.siftDown(pos)
	}
}

func (t *Table[S]) siftUp(pos int) {
	at, i := t.when(pos), t.order.entry[pos]
	for pos > 0 {
		parent := (pos - 1) / arity
		above := t.when(parent)
		if above <= at {
			break
		}
		t.place(pos, above, t.order.entry[parent])
		pos = parent
	}
	t.place(pos, at, i)
}

func (t *Table[S]) siftDown(pos int) {
	at, i := t.when(pos), t.order.entry[pos]
	for {
		first := arity*pos + 1
		if first >= len(t.order.entry) {
			break
		}
		least, below := first, t.when(first)
		for c := first + 1; c < min(first+arity, len(t.order.entry)); c++ {
			if w := t.when(c); w < below {
				least, below = c, w
			}
		}
		if below >= at {
			break
		}
		t.place(pos, below, t.order.entry[least])
		pos = least
	}
	t.place(pos, at, i)
}
