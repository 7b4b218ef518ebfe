// Package count counts what is there at one time, in all and per network, against two
// limits. It promises that neither is ever passed, and that a limit which refuses
// one network refuses no other.
//
// It gives up on fairness within the limit for all: who has come is not sent away for
// who comes later. It is no rate limit: package window is.
package count

import (
	"sync"

	"github.com/doorward/doorward"
)

// A Count is safe for concurrent use. Its memory grows with what is there, not with
// what has been.
type Count struct {
	mu        sync.Mutex
	all, each int
	n         int
	per       map[doorward.Key]int
}

// New returns a Count of at most all, and at most each of one network.
func New(all, each int) *Count {
	return &Count{all: all, each: each, per: map[doorward.Key]int{}}
}

// Limit changes how many there may be from now on. What is there stays.
func (c *Count) Limit(all, each int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.each = all, each
}

// Enter counts one more and reports whether there was room for it.
func (c *Count) Enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n >= c.all {
		return false
	}
	c.n++
	return true
}

// N returns how many there are.
func (c *Count) N() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Leave takes back what Enter counted.
func (c *Count) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
}

// Join counts one that has entered to its network and reports whether there was room.
func (c *Count) Join(network doorward.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.per[network] >= c.each {
		return false
	}
	c.per[network]++
	return true
}

// Part takes back what Join counted.
func (c *Count) Part(network doorward.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.per[network]--; c.per[network] == 0 {
		delete(c.per, network)
	}
}
