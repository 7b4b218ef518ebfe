package table

// An order knows which entry is forgotten first: a tournament. Eight neighbours in
// memory share a node that holds the earliest time among them and whose it is, eight
// nodes share one on the level above, up to a single root. Entries keep their place. One
// whose time changes to a later one is passed over unless it was the earliest of its
// eight, which nodes small enough for the cache tell; the levels above are asked only
// if that changed. Attempts mostly make their entry's time later.
type order struct {
	at    [][]int64 // by level, nodes of entries first: the earliest time below, Never if there is none
	least [][]uint8 // beside it: which of the eight below has it
	root  int       // the level of one node
}

const fan = 8

func newOrder(n int) order {
	var o order
	for n > 1 {
		n = (n-1)/fan + 1
		o.at = append(o.at, make([]int64, 0, n))
		o.least = append(o.least, make([]uint8, 0, n))
	}
	o.extend(0)
	return o
}

// reset forgets all entries.
func (o *order) reset() {
	for l := range o.at {
		o.at[l], o.least[l] = o.at[l][:0], o.least[l][:0]
	}
	o.root = 0
	o.extend(0)
}

// extend makes nodes for entry i, which must be the first or follow the last. There are
// no more of them, and no more levels, than the entries in use call for.
func (o *order) extend(i uint32) {
	for l, node := 0, int(i/fan); node == len(o.at[l]); l, node = l+1, node/fan {
		at := int64(Never)
		if node == 0 && l > 0 { // a new root over the one before and its new neighbour
			at = o.at[l-1][0]
		}
		o.at[l], o.least[l] = append(o.at[l], at), append(o.least[l], 0)
		if node == 0 {
			o.root = l
			return
		}
	}
}

// first returns when the first entry is forgotten, Never if there is none.
func (o *order) first() int64 { return o.at[o.root][0] }

// firstEntry returns the entry that first speaks of.
func (o *order) firstEntry() uint32 {
	i := 0
	for l := o.root; l >= 0; l-- {
		i = i*fan + int(o.least[l][i])
	}
	return uint32(i)
}

// reorder notes that entry i is forgotten at the time at, Never if it cannot be. What
// the entry itself says must agree already.
func (t *Table[S]) reorder(i uint32, at int64) {
	o := &t.order
	for l, child := 0, int(i); l <= o.root; l++ {
		node, c := child/fan, uint8(child%fan)
		before := o.at[l][node]
		switch {
		case at < before:
			o.at[l][node], o.least[l][node] = at, c
		case at == before || o.least[l][node] != c:
			return
		default:
			at = t.contest(l, node)
			if at == before {
				return
			}
		}
		child = node
	}
}

// contest finds the earliest below a node anew.
func (t *Table[S]) contest(l, node int) int64 {
	o := &t.order
	at, least := int64(Never), 0
	if l == 0 {
		first := uint32(node * fan)
		for i := max(first, firstOwn); i < min(first+fan, t.unused); i++ {
			if f := t.forgotten(i); f < at {
				at, least = f, int(i-first)
			}
		}
	} else {
		below := o.at[l-1][node*fan:]
		for c, f := range below[:min(fan, len(below))] {
			if f < at {
				at, least = f, c
			}
		}
	}
	o.at[l][node], o.least[l][node] = at, uint8(least)
	return at
}

// forgotten returns when entry i, of no reserved key, is forgotten, Never if it is free
// or has something pending.
func (t *Table[S]) forgotten(i uint32) int64 {
	e := &t.entries[i]
	if e.pending == 0 {
		if at := t.policy.Forget(&e.state); at != 0 {
			return at
		}
	}
	return Never
}
