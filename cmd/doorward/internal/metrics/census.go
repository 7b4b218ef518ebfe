package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

const (
	// countEvery is how often keys are counted at most, however often somebody scrapes.
	countEvery = 15 * time.Second
	// placesAtOnce is how many places of tables one scrape looks at, at most: a few tens of
	// milliseconds. Larger tables are counted over several scrapes.
	placesAtOnce = 1 << 19
)

// A census counts the keys that are live and those that are locked, which no rule does: it
// walks through all tables. It holds the lock of a table for one page at a time, and works
// only while somebody scrapes. The counts are those of one whole walk, or none yet.
type census struct {
	places int // looked at by one scrape

	mu     sync.Mutex
	counts map[ruleName]keys
	began  time.Time // the walk that they are from
	walk   *walk     // the one that has begun since
	page   []doorward.Entry
}

type ruleName struct{ guard, rule string }

type keys struct {
	live   [2]int // of IPv6 networks the second, all others the first
	locked int
}

// A walk is one that is under way.
type walk struct {
	began  time.Time
	rules  []ruleName // that are left, the first one begun
	cursor guard.Cursor
	counts map[ruleName]keys
}

// take returns the last counts, and when they were taken. It goes on counting first if they
// are old. Guards may be others each time.
func (c *census) take(guards map[string]*guard.Guard, now time.Time) (map[ruleName]keys, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.walk == nil && (c.counts == nil || now.Sub(c.began) >= countEvery) {
		c.walk = newWalk(guards, now)
	}
	for places := 0; c.walk != nil && places < c.places; places += guard.MaxPage {
		if len(c.walk.rules) == 0 {
			c.counts, c.began, c.walk = c.walk.counts, c.walk.began, nil
			break
		}
		c.page = c.walk.step(c.page[:0], guards, now)
	}
	return c.counts, c.began
}

func newWalk(guards map[string]*guard.Guard, now time.Time) *walk {
	w := &walk{began: now, counts: map[ruleName]keys{}}
	for _, name := range slices.Sorted(maps.Keys(guards)) {
		for _, r := range guards[name].Rules() {
			w.rules = append(w.rules, ruleName{name, r.Name})
		}
	}
	return w
}

// step counts one page, and returns it.
func (w *walk) step(page []doorward.Entry, guards map[string]*guard.Guard, now time.Time) []doorward.Entry {
	name := w.rules[0]
	g := guards[name.guard]
	if g == nil {
		w.next()
		return page
	}
	page, cursor, err := g.AppendEntries(page, name.rule, doorward.ShowAll, w.cursor, guard.MaxPage, now)
	if err != nil { // a Store has the counts, or a reload took the rule away
		w.next()
		return page
	}
	n := w.counts[name]
	for i := range page {
		n.add(&page[i])
	}
	w.counts[name], w.cursor = n, cursor
	if cursor == 0 {
		w.next()
	}
	return page
}

func (w *walk) next() { w.rules, w.cursor = w.rules[1:], 0 }

func (n *keys) add(e *doorward.Entry) {
	if e.Overflow {
		return
	}
	if !e.LockedUntil.IsZero() {
		n.locked++
	}
	family := 0
	if e.Key.Prefix().Addr().Is6() {
		family = 1
	}
	n.live[family]++
}

// ratio is how full the fuller table of r is.
func (n keys) ratio(r guard.Rule) float64 {
	keys, tables := r.Room()
	if tables == 1 {
		return float64(n.live[0]+n.live[1]) / float64(keys)
	}
	return float64(max(n.live[0], n.live[1])) / float64(keys)
}

// room is how many keys r has room for.
func room(r guard.Rule) int {
	keys, tables := r.Room()
	return keys * tables
}
