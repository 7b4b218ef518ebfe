package table

import "math"

// A heap holds entries by the time they are forgotten, the earliest first. Every
// node has four children: half as many levels as with two, and the children stand
// side by side in memory. The entry knows its place by its link.
type heap struct {
	at    []int64
	entry []uint32
}

// notInOrder is the link of an entry that has no place in the heap.
const notInOrder = math.MaxUint32

const arity = 4

func newHeap(capacity int) heap {
	return heap{at: make([]int64, 0, capacity), entry: make([]uint32, 0, capacity)}
}

func (h *heap) capacity() int { return cap(h.at) }

func (h *heap) reset() { h.at, h.entry = h.at[:0], h.entry[:0] }

// due reports whether an entry is forgotten at the time at.
func (h *heap) due(at int64) bool { return len(h.at) > 0 && h.at[0] <= at }

// setOrder gives entry i the place that at calls for.
func (t *Table[S]) setOrder(i uint32, at int64) {
	pos := int(t.entries[i].link)
	if t.entries[i].link == notInOrder {
		pos = len(t.order.at)
		t.order.at = append(t.order.at, at)
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
	pos, last := int(e.link), len(t.order.at)-1
	e.link = notInOrder
	at, moved := t.order.at[last], t.order.entry[last]
	t.order.at, t.order.entry = t.order.at[:last], t.order.entry[:last]
	if pos < last {
		t.place(pos, at, moved)
		t.sift(pos)
	}
}

func (t *Table[S]) place(pos int, at int64, i uint32) {
	t.order.at[pos], t.order.entry[pos] = at, i
	t.entries[i].link = uint32(pos)
}

func (t *Table[S]) sift(pos int) {
	if pos > 0 && t.order.at[pos] < t.order.at[(pos-1)/arity] {
		t.siftUp(pos)
	} else {
		t.siftDown(pos)
	}
}

func (t *Table[S]) siftUp(pos int) {
	at, i := t.order.at[pos], t.order.entry[pos]
	for pos > 0 {
		parent := (pos - 1) / arity
		if t.order.at[parent] <= at {
			break
		}
		t.place(pos, t.order.at[parent], t.order.entry[parent])
		pos = parent
	}
	t.place(pos, at, i)
}

func (t *Table[S]) siftDown(pos int) {
	at, i := t.order.at[pos], t.order.entry[pos]
	for {
		first := arity*pos + 1
		if first >= len(t.order.at) {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, len(t.order.at)); c++ {
			if t.order.at[c] < t.order.at[least] {
				least = c
			}
		}
		if t.order.at[least] >= at {
			break
		}
		t.place(pos, t.order.at[least], t.order.entry[least])
		pos = least
	}
	t.place(pos, at, i)
}
