package guard

import (
	"errors"
	"fmt"
	"time"

	"github.com/doorward/doorward"
	ledger "github.com/doorward/doorward/internal/limiter"
)

// ErrStore is what a guard with a Store answers to whoever asks what it counted: its
// counts are elsewhere.
var ErrStore = errors.New("guard: the Store has the counts")

// ledgers returns what r keeps its entries in, each once.
func (r *rule) ledgers() (ls []ledger.Ledger) {
	for f, l := range r.tables {
		if l != nil && (f == 0 || l != r.tables[0]) {
			ls = append(ls, l.Ledger())
		}
	}
	return ls
}

// find returns the rule of a name.
func (g *Guard) find(name string) (*rule, error) {
	if g.config.Store != nil {
		return nil, ErrStore
	}
	for i := range g.rules {
		if r := &g.rules[i]; r.Name == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("guard: no rule is named %q", name)
}

// Stats returns the live figures of a rule, of both families together. It takes constant
// time.
func (g *Guard) Stats(rule string) (s doorward.Stats, err error) {
	r, err := g.find(rule)
	if err != nil {
		return s, err
	}
	for _, l := range r.ledgers() {
		s = s.Plus(l.Stats())
	}
	return s, nil
}

// A Cursor is a place in a walk over the entries of a rule. The zero Cursor is the
// beginning, and what the last page returns.
type Cursor uint64

// MaxPage is how many places a page looks at, at most.
const MaxPage = ledger.MaxPage

// AppendEntries appends to dst one page of the live entries of a rule, of which show says,
// and returns where to go on. It looks at as many places as it is told, at most MaxPage,
// and holds the lock for no more: a page may well be empty and not the last. A key whose
// entry exists from the first page to the last is on exactly one of them, whatever else
// changes; one that comes or goes meanwhile may be missing, and one that goes and comes
// back may be there twice. Clear and Load begin anew.
func (g *Guard) AppendEntries(dst []doorward.Entry, rule string, show doorward.Show, c Cursor, places int, now time.Time) ([]doorward.Entry, Cursor, error) {
	r, err := g.find(rule)
	if err != nil {
		return dst, 0, err
	}
	ledgers := r.ledgers()
	f := c >> 32
	if f >= Cursor(len(ledgers)) {
		return dst, 0, nil
	}
	dst, place := ledgers[f].AppendEntries(dst, show, uint32(c), places, now)
	switch {
	case place != 0:
		return dst, f<<32 | Cursor(place), nil
	case f+1 < Cursor(len(ledgers)):
		return dst, (f + 1) << 32, nil
	}
	return dst, 0, nil
}

// A Finding is what one rule says of a request.
type Finding struct {
	Rule   string
	Per    Per
	Action Action
	// Entry is what the rule remembers of the request's key. Key is set in any case.
	doorward.Entry
	// Tracked says that the key has an entry of its own.
	Tracked bool
	// Decision is what the rule would answer now. With Overflow, it would not be charged
	// to the key but to the entry that all share.
	Decision doorward.Decision
}

// Lookup returns what each rule that applies to r says of it, in the order that they are
// charged. It charges nothing, and Stats do not count it. Exempt and Blocked networks are
// looked up like others: ask Check whether they apply.
func (g *Guard) Lookup(r Request, now time.Time) ([]Finding, error) {
	if g.config.Store != nil {
		return nil, ErrStore
	}
	var found []Finding
	known, family := g.known(&r, now), familyOf(r.Addr)
	for i := range g.rules {
		rule := &g.rules[i]
		key, f, applies := rule.charge(&r, family, known)
		if !applies {
			continue
		}
		x := Finding{Rule: rule.Name, Per: rule.Per, Action: rule.Action}
		x.Entry, x.Tracked, x.Decision = rule.tables[f].Ledger().Look(key, now)
		found = append(found, x)
	}
	return found, nil
}

// Unlock forgets a key in one rule, or in all if rule is empty: what it counted, its
// lockout, and its attempts in flight, whose permits change nothing there from then on.
// What a key was charged to an overflow entry, or a throttle for everyone, stays.
func (g *Guard) Unlock(rule string, k doorward.Key) error {
	return g.each(rule, func(l ledger.Ledger) { l.Unlock(k) })
}

// Clear forgets everything that one rule counted, or all of them if rule is empty,
// overflow entries and ceilings too. Permits of before change nothing there from then on.
func (g *Guard) Clear(rule string) error {
	return g.each(rule, ledger.Ledger.Clear)
}

// each calls f for what the rule of a name, or every rule, keeps.
func (g *Guard) each(rule string, f func(ledger.Ledger)) error {
	if g.config.Store != nil {
		return ErrStore
	}
	if rule != "" {
		if _, err := g.find(rule); err != nil {
			return err
		}
	}
	for i := range g.rules {
		if r := &g.rules[i]; rule == "" || r.Name == rule {
			for _, l := range r.ledgers() {
				f(l)
			}
		}
	}
	return nil
}
