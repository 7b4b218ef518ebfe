package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doorward/doorward"
	ledger "github.com/doorward/doorward/internal/limiter"
)

// ErrStore is what a guard with a Store answers to whoever asks for what that does not
// show: the pages of its entries unless it is a Lister, and all of it unless it is an
// Operator.
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
	for i := range g.rules {
		if r := &g.rules[i]; r.Name == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("guard: no rule is named %q", name)
}

// operator returns the Store, nil if counts are in memory. A Store that is no Operator is
// an error.
func (g *Guard) operator() (Operator, error) {
	if g.config.Store == nil {
		return nil, nil
	}
	o, ok := g.config.Store.(Operator)
	if !ok {
		return nil, ErrStore
	}
	return o, nil
}

// lister returns the Store, nil if counts are in memory. A Store that is no Lister is an
// error.
func (g *Guard) lister() (Lister, error) {
	if g.config.Store == nil {
		return nil, nil
	}
	l, ok := g.config.Store.(Lister)
	if !ok {
		return nil, ErrStore
	}
	return l, nil
}

// Stats returns the live figures of a rule, of both families together. It takes constant
// time. With a Store use StatsContext.
func (g *Guard) Stats(rule string) (doorward.Stats, error) {
	return g.StatsContext(context.Background(), rule)
}

// StatsContext is Stats for a guard with a Store.
func (g *Guard) StatsContext(ctx context.Context, rule string) (s doorward.Stats, err error) {
	o, err := g.operator()
	if err != nil {
		return s, err
	}
	r, err := g.find(rule)
	if err != nil {
		return s, err
	}
	if o != nil {
		if s, err = o.Stats(ctx, &r.Rule); err != nil {
			err = fmt.Errorf("guard: store has no figures of rule %q: %w", rule, err)
		}
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
// back may be there twice. Clear and Load begin anew. With a Store use
// AppendEntriesContext.
func (g *Guard) AppendEntries(dst []doorward.Entry, rule string, show doorward.Show, c Cursor, places int, now time.Time) ([]doorward.Entry, Cursor, error) {
	if g.config.Store != nil {
		return dst, 0, ErrStore
	}
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

// AppendEntriesContext is AppendEntries for a guard with a Store. Entries that are charged
// meanwhile may be missing there, or there twice.
func (g *Guard) AppendEntriesContext(ctx context.Context, dst []doorward.Entry, rule string, show doorward.Show, c Cursor, places int, now time.Time) ([]doorward.Entry, Cursor, error) {
	s, err := g.lister()
	if err != nil {
		return dst, 0, err
	}
	if s == nil {
		return g.AppendEntries(dst, rule, show, c, places, now)
	}
	r, err := g.find(rule)
	if err != nil {
		return dst, 0, err
	}
	n := len(dst)
	dst, c, err = s.AppendEntries(ctx, dst, &r.Rule, c, max(1, min(places, MaxPage)), now)
	if err != nil {
		return dst[:n], 0, fmt.Errorf("guard: store cannot list rule %q: %w", rule, err)
	}
	left := slices.DeleteFunc(dst[n:], func(e doorward.Entry) bool { return !show.Includes(e) })
	return dst[:n+len(left)], c, nil
}

// LookupNamed returns what the rules say that have an entry of that name in the Store. In
// memory no entry has one.
func (g *Guard) LookupNamed(ctx context.Context, name string, now time.Time) (found []Finding, err error) {
	s, err := g.lister()
	if s == nil {
		return nil, err
	}
	for i := range g.rules {
		r := &g.rules[i].Rule
		x := Finding{Rule: r.Name, Per: r.Per, Action: r.Action}
		if x.Entry, x.Tracked, x.Decision, err = s.LookNamed(ctx, r, name, now); err != nil {
			return nil, fmt.Errorf("guard: store cannot look into rule %q: %w", r.Name, err)
		}
		if x.Tracked {
			found = append(found, x)
		}
	}
	return found, nil
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
// looked up like others: ask Check whether they apply. With a Store use LookupContext.
func (g *Guard) Lookup(r Request, now time.Time) ([]Finding, error) {
	return g.LookupContext(context.Background(), r, now)
}

// LookupContext is Lookup for a guard with a Store.
func (g *Guard) LookupContext(ctx context.Context, r Request, now time.Time) ([]Finding, error) {
	o, err := g.operator()
	if err != nil {
		return nil, err
	}
	known := g.mayBeKnown(&r)
	found, err := g.findings(ctx, o, &r, known, now)
	if known && slices.ContainsFunc(found, func(x Finding) bool { return x.Per == Device && x.Decision.Overflow }) {
		found, err = g.findings(ctx, o, &r, false, now) // as a stranger
	}
	return found, err
}

func (g *Guard) findings(ctx context.Context, o Operator, r *Request, known bool, now time.Time) (found []Finding, err error) {
	family := familyOf(r.Addr)
	for i := range g.rules {
		rule := &g.rules[i]
		key, f, applies := rule.charge(r, family, known)
		if !applies {
			continue
		}
		x := Finding{Rule: rule.Name, Per: rule.Per, Action: rule.Action}
		if o == nil {
			x.Entry, x.Tracked, x.Decision = rule.tables[f].Ledger().Look(key, now)
		} else if x.Entry, x.Tracked, x.Decision, err = o.Look(ctx, &rule.Rule, key, now); err != nil {
			return nil, fmt.Errorf("guard: store cannot look into rule %q: %w", rule.Name, err)
		}
		found = append(found, x)
	}
	return found, nil
}

// Unlock forgets a key in one rule, or in all if rule is empty: what it counted, its
// lockout, and its attempts in flight, whose permits change nothing there from then on.
// What a key was charged to an overflow entry, or a throttle for everyone, stays. With a
// Store use UnlockContext.
func (g *Guard) Unlock(rule string, k doorward.Key) error {
	return g.UnlockContext(context.Background(), rule, k)
}

// UnlockContext is Unlock for a guard with a Store. An error of the store does not keep
// the other rules from being tried.
func (g *Guard) UnlockContext(ctx context.Context, rule string, k doorward.Key) error {
	return g.each(rule, func(l ledger.Ledger) { l.Unlock(k) }, func(o Operator, r *Rule) error { return o.Unlock(ctx, r, k) })
}

// UnlockNamed is UnlockContext by the name that a Store has for a key. In memory it does
// nothing.
func (g *Guard) UnlockNamed(ctx context.Context, rule, name string) error {
	if _, err := g.lister(); err != nil {
		return err
	}
	return g.each(rule, func(ledger.Ledger) {}, func(o Operator, r *Rule) error { return o.(Lister).UnlockNamed(ctx, r, name) })
}

// Clear forgets everything that one rule counted, or all of them if rule is empty,
// overflow entries and ceilings too. Permits of before change nothing there from then on.
// With a Store use ClearContext.
func (g *Guard) Clear(rule string) error { return g.ClearContext(context.Background(), rule) }

// ClearContext is Clear for a guard with a Store. An error of the store does not keep the
// other rules from being tried.
func (g *Guard) ClearContext(ctx context.Context, rule string) error {
	return g.each(rule, ledger.Ledger.Clear, func(o Operator, r *Rule) error { return o.Clear(ctx, r) })
}

// each calls memory for what the rule of a name, or every rule, keeps, or store for the
// rule if counts are there.
func (g *Guard) each(rule string, memory func(ledger.Ledger), store func(Operator, *Rule) error) error {
	o, err := g.operator()
	if err != nil {
		return err
	}
	if rule != "" {
		if _, err := g.find(rule); err != nil {
			return err
		}
	}
	for i := range g.rules {
		r := &g.rules[i]
		switch {
		case rule != "" && r.Name != rule:
		case o != nil:
			if e := store(o, &r.Rule); e != nil {
				err = errors.Join(err, fmt.Errorf("guard: store cannot forget in rule %q: %w", r.Name, e))
			}
		default:
			for _, l := range r.ledgers() {
				memory(l)
			}
		}
	}
	return err
}
