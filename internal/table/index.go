package table

import (
	"math/bits"
	"math/rand/v2"
)

// An index finds the entry of a key by its hash: open addressing, linear probing. A slot
// holds half of the hash beside the entry, so that a search reads no entry but the right
// one (another's once in 2^32 slots), and a removal none at all.
type index struct {
	slots []uint64 // hash in the upper half, entry in the lower; 0 is empty
}

// newIndex returns an index of at most n entries. A quarter of its slots stays empty, so
// that searches end.
func newIndex(n int) index { return index{make([]uint64, n+n/3+1)} }

func (x *index) reset() { clear(x.slots) }

// home is where the search for a hash begins.
func (x *index) home(hash uint64) int { return int(hash >> 32 * uint64(len(x.slots)) >> 32) }

// after is where it goes on.
func (x *index) after(pos int) int {
	if pos++; pos < len(x.slots) {
		return pos
	}
	return 0
}

// between returns how many slots a search goes on from one to another.
func (x *index) between(from, to int) int {
	if to >= from {
		return to - from
	}
	return to - from + len(x.slots)
}

// add must be given an entry that is not there yet.
func (x *index) add(hash uint64, entry uint32) {
	pos := x.home(hash)
	for x.slots[pos] != 0 {
		pos = x.after(pos)
	}
	x.slots[pos] = hash>>32<<32 | uint64(entry)
}

// remove must be given an entry that is there. Those behind it, up to the next empty slot,
// move into the gap unless they would stand before their home.
func (x *index) remove(hash uint64, entry uint32) {
	gap := x.home(hash)
	for uint32(x.slots[gap]) != entry {
		gap = x.after(gap)
	}
	for pos := x.after(gap); x.slots[pos] != 0; pos = x.after(pos) {
		if x.between(x.home(x.slots[pos]), pos) >= x.between(gap, pos) {
			x.slots[gap] = x.slots[pos]
			gap = pos
		}
	}
	x.slots[gap] = 0
}

// A seed makes the hashes of each table its own, so that nobody can aim at a slot.
type seed [4]uint64

func newSeed() seed { return seed{rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64()} }

// hash folds products, as Go's maps do on processors without AES, but with every factor
// secret.
func (s *seed) hash(k Key) uint64 {
	return fold(fold(k.Hi^s[0], k.Lo^s[1])^uint64(k.Kind)<<8^uint64(k.Width)^s[2], s[3])
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
