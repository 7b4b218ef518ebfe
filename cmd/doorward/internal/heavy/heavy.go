// Package heavy knows which networks were refused most of late, in memory that does not
// grow with how many there are.
//
// It promises an upper bound for each network that it names, and by how much at most that
// is too high; and that it names every network that had more than Error of Top's answer
// says, among those of its part. What it names began 5 to 10 minutes ago: two
// counts of five minutes each, the older one is dropped as a whole.
//
// It is the space-saving sketch (Metwally, Agrawal, El Abbadi 2005) in parts that are
// locked by themselves, so that a flood is not slowed. It gives up on exact counts when
// many networks are refused: a part keeps Slots of them, and who takes the slot of
// another takes over its count as error.
package heavy

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/doorward/doorward"
)

// Span is how long one of the two counts lasts.
const Span = 5 * time.Minute

// Slots is how many networks a part keeps in one count, and Parts how many parts there
// are. A network is too high by at most a 64th of what its part counted.
const (
	Slots = 64
	Parts = 16
)

// Sketch counts refusals by network. It is safe for concurrent use.
type Sketch struct {
	seed  maphash.Seed
	start time.Time
	parts [Parts]part
}

// A part counts the networks whose hashes end alike.
type part struct {
	mu       sync.Mutex
	now, old count
	span     int64 // the how manieth it is that now counts
}

type count struct {
	n     int
	slots [Slots]slot
}

type slot struct {
	hash     uint64
	key      doorward.Key
	n, error uint64
}

// New returns a sketch that has counted nothing. Its spans begin at start.
func New(start time.Time) *Sketch { return &Sketch{seed: maphash.MakeSeed(), start: start} }

// at is in which span a time is.
func (s *Sketch) at(now time.Time) int64 { return int64(now.Sub(s.start) / Span) }

// Refused counts one refusal.
func (s *Sketch) Refused(k doorward.Key, now time.Time) {
	hash := maphash.Comparable(s.seed, k)
	p := &s.parts[hash%Parts]
	p.mu.Lock()
	p.turn(s.at(now))
	p.now.add(hash, k)
	p.mu.Unlock()
}

// turn begins another count in another span. Time that goes back does nothing.
func (p *part) turn(span int64) {
	switch {
	case span <= p.span:
		return
	case span == p.span+1:
		p.old = p.now
	default:
		p.old.n = 0
	}
	p.now.n, p.span = 0, span
}

func (c *count) add(hash uint64, k doorward.Key) {
	least := 0
	for i := range c.slots[:c.n] {
		if c.slots[i].hash == hash && c.slots[i].key == k {
			c.slots[i].n++
			return
		}
		if c.slots[i].n < c.slots[least].n {
			least = i
		}
	}
	if c.n < Slots {
		c.slots[c.n] = slot{hash, k, 1, 0}
		c.n++
		return
	}
	n := c.slots[least].n
	c.slots[least] = slot{hash, k, n + 1, n}
}

// least is what a network without a slot may have had.
func (c *count) least() uint64 {
	if c.n < Slots {
		return 0
	}
	least := c.slots[0].n
	for i := range c.slots {
		least = min(least, c.slots[i].n)
	}
	return least
}

func (c *count) find(k doorward.Key) (n, error uint64) {
	for _, s := range c.slots[:c.n] {
		if s.key == k {
			return s.n, s.error
		}
	}
	least := c.least()
	return least, least
}

// Network is one that was refused. It was so at most Refused times and at least
// Refused - Error times.
type Network struct {
	Key            doorward.Key
	Refused, Error uint64
}

// Top returns the n networks that were refused most, the heaviest first.
func (s *Sketch) Top(n int, now time.Time) []Network {
	var all []Network
	for i := range s.parts {
		all = append(all, s.parts[i].top(s.at(now))...)
	}
	slices.SortFunc(all, func(a, b Network) int {
		// Of equals who surely was refused more, and then in an order that stays.
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return all[:min(n, len(all))]
}

func (p *part) top(span int64) (all []Network) {
	p.mu.Lock()
	p.turn(span)
	c, old := p.now, p.old
	p.mu.Unlock()
	for _, s := range c.slots[:c.n] {
		n, error := old.find(s.key)
		all = append(all, Network{s.key, s.n + n, s.error + error})
	}
	for _, s := range old.slots[:old.n] {
		if !slices.ContainsFunc(c.slots[:c.n], func(o slot) bool { return o.key == s.key }) {
			least := c.least()
			all = append(all, Network{s.key, s.n + least, s.error + least})
		}
	}
	return all
}
