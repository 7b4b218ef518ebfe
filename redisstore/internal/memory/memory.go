// Package memory is a guard.Store whose counts are in this process: what takes over while
// a server cannot be asked. It promises that a rule admits here what its policy says, by
// all guards of this process together that use the Store, and that its tickets are never
// taken for those of another Store.
//
// It knows what happened through this process alone: what it decided, and what Note told
// it of. All is gone when the process ends.
//
// Each rule takes the memory of its limiters, once it is charged: as much as a guard
// without a Store.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	ledger "github.com/doorward/doorward/internal/limiter"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// A Store keeps the counts of the rules of one guard. It is a guard.Operator, and safe
// for concurrent use.
type Store struct {
	mu    sync.RWMutex
	rules map[string]*rule
}

// A rule is a guard's rule with its limiters, of which network rules have two: one for
// each family.
type rule struct {
	*guard.Rule
	tables [2]limiter
}

// A limiter is what the three policies have in common.
type limiter interface {
	Check(k doorward.Key, now time.Time) doorward.Decision
	Reserve(k doorward.Key, now time.Time) (doorward.Decision, doorward.Ticket)
	Settle(k doorward.Key, t doorward.Ticket, o doorward.Outcome, now time.Time) doorward.Cleared
	Ledger() ledger.Ledger
}

// New returns a Store that remembers nothing.
func New() *Store { return &Store{rules: map[string]*rule{}} }

// mark is set in the tickets of this package. No limiter sets it.
const mark = 1 << 63

// Issued reports whether t is a ticket of a Store of this package.
func Issued(t doorward.Ticket) bool { return t.B&mark != 0 }

// Reserve judges all charges, and charges them if none refuses. It never fails for rules
// that a guard has accepted.
func (s *Store) Reserve(_ context.Context, charges []guard.Charge) error {
	var buf [guard.MaxRules]limiter
	seats := buf[:0]
	refused := false
	for i := range charges {
		c := &charges[i]
		l, err := s.limiter(c.Rule, c.Key)
		if err != nil {
			return err
		}
		seats = append(seats, l)
		c.Decision, c.Ticket = l.Check(c.Key, c.Now), doorward.Ticket{}
		refused = refused || refuses(c)
	}
	if refused {
		return nil
	}
	apart := false
	for i := range charges {
		c := &charges[i]
		if c.Decision.Allowed {
			reserve(c, seats[i], apart)
		}
		apart = apart || missed(c)
		if refuses(c) { // another caller came in between
			for j := range charges[:i] {
				if c := &charges[j]; c.Ticket != (doorward.Ticket{}) {
					seats[j].Settle(c.Key, own(c.Ticket), doorward.Void, c.Now)
					c.Ticket = doorward.Ticket{}
				}
			}
			return nil
		}
	}
	return nil
}

// refuses reports whether the decision of c refuses the attempt.
func refuses(c *guard.Charge) bool {
	return c.MayRefuse && !c.Decision.Allowed && !(c.Known && c.Decision.Overflow)
}

// missed reports whether c is given back what a success clears, and does not count the
// attempt on its key.
func missed(c *guard.Charge) bool {
	return c.Given && (!c.Decision.Allowed || c.Decision.Overflow)
}

func reserve(c *guard.Charge, l limiter, apart bool) {
	if k, ok := l.(*lockout.Limiter); ok && c.Rule.Per == guard.Pair && (apart || c.Apart) {
		c.Decision, c.Ticket = k.ReserveApart(c.Key, c.Now)
	} else {
		c.Decision, c.Ticket = l.Reserve(c.Key, c.Now)
	}
	if c.Decision.Allowed {
		c.Ticket.B |= mark
	}
}

// own returns t as the limiter knows it.
func own(t doorward.Ticket) doorward.Ticket { return doorward.Ticket{A: t.A, B: t.B &^ mark} }

// Settle ends reservations of this Store. Those of others it leaves alone.
func (s *Store) Settle(_ context.Context, charges []guard.Charge) error {
	var buf [guard.MaxRules]doorward.Cleared
	cleared := buf[:0]
	for i := range charges {
		c := &charges[i]
		c.Cleared, c.Lockout = doorward.Cleared{}, 0
		all := s.known(c.Rule.Name)
		l := all[table(c.Rule, c.Key)]
		if l == nil || !Issued(c.Ticket) {
			continue
		}
		k, isLockout := l.(*lockout.Limiter)
		if !isLockout {
			c.Cleared = l.Settle(c.Key, own(c.Ticket), c.Outcome, c.Now)
			continue
		}
		c.Cleared, c.Lockout = k.SettleTold(c.Key, own(c.Ticket), c.Outcome, c.Apart, c.Now)
		switch {
		case c.Rule.Per == guard.Pair && c.Cleared.N > 0:
			cleared = append(cleared, c.Cleared)
		case c.GiveBack && len(cleared) > 0:
			k.GiveBackMost(c.Key, cleared, c.Now)
		}
	}
	return nil
}

// Note tells the Store of an attempt that another Store is asked to settle, by what that
// was asked. It counts as if it had been made now, as far as it would have been allowed:
// what is locked here already is not locked for longer.
func (s *Store) Note(charges []guard.Charge) {
	var buf [guard.MaxRules]guard.Charge
	noted := append(buf[:0], charges...)
	apart := false
	for _, pairs := range [...]bool{false, true} {
		for i := range noted {
			c := &noted[i]
			if (c.Rule.Per == guard.Pair) != pairs {
				continue
			}
			c.Given = c.Rule.Lockout != nil && c.Rule.Lockout.OnSuccess == lockout.TakeBack
			c.Decision, c.Ticket = doorward.Decision{}, doorward.Ticket{}
			if l, err := s.limiter(c.Rule, c.Key); err == nil {
				reserve(c, l, apart)
			}
			apart = apart || missed(c)
		}
	}
	s.Settle(context.Background(), noted) // never fails
}

// Stats returns the figures of a rule, of both families together.
func (s *Store) Stats(_ context.Context, rule *guard.Rule) (n doorward.Stats, err error) {
	s.each(rule.Name, func(l limiter) { n = n.Plus(l.Ledger().Stats()) })
	return n, nil
}

// Look returns what is known of a key, and what it would be answered.
func (s *Store) Look(_ context.Context, rule *guard.Rule, k doorward.Key, now time.Time) (e doorward.Entry, own bool, d doorward.Decision, err error) {
	l, err := s.limiter(rule, k)
	if err == nil {
		e, own, d = l.Ledger().Look(k, now)
	}
	return e, own, d, err
}

// Unlock forgets a key.
func (s *Store) Unlock(_ context.Context, rule *guard.Rule, k doorward.Key) error {
	s.Forget(rule.Name, k)
	return nil
}

// Clear forgets everything that a rule counted.
func (s *Store) Clear(_ context.Context, rule *guard.Rule) error {
	s.ForgetAll(rule.Name)
	return nil
}

// Forget is Unlock in the rule of a name.
func (s *Store) Forget(rule string, k doorward.Key) {
	s.each(rule, func(l limiter) { l.Ledger().Unlock(k) })
}

// ForgetAll is Clear of the rule of a name, or of all rules if it is empty.
func (s *Store) ForgetAll(rule string) { s.each(rule, func(l limiter) { l.Ledger().Clear() }) }

// ForgetFunc is Unlock in the rule of a name of the keys that are meant. It looks at all
// that the rule remembers, and holds no lock for longer than a page.
func (s *Store) ForgetFunc(rule string, meant func(doorward.Key) bool, now time.Time) {
	var page []doorward.Entry
	for _, l := range s.known(rule) {
		if l == nil {
			continue
		}
		for from, more := uint32(0), true; more; more = from != 0 {
			page, from = l.Ledger().AppendEntries(page[:0], doorward.ShowAll, from, ledger.MaxPage, now)
			for _, e := range page {
				if !e.Overflow && meant(e.Key) {
					l.Ledger().Unlock(e.Key)
				}
			}
		}
	}
}

// each calls f for the limiters of one rule, or of all.
func (s *Store) each(name string, f func(limiter)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.rules {
		if name != "" && r.Name != name {
			continue
		}
		for i, l := range r.tables {
			if l != nil && (i == 0 || l != r.tables[0]) {
				f(l)
			}
		}
	}
}

// known returns the limiters of the rule of a name, as far as there are any.
func (s *Store) known(name string) (tables [2]limiter) {
	s.mu.RLock()
	if r := s.rules[name]; r != nil {
		tables = r.tables
	}
	s.mu.RUnlock()
	return tables
}

// limiter returns where a rule counts a key. A rule of a guard that was reloaded is another
// one of the same name: its limits are taken over, and what was counted is kept as in
// guard.Reload.
func (s *Store) limiter(of *guard.Rule, k doorward.Key) (limiter, error) {
	i := table(of, k)
	s.mu.RLock()
	if r := s.rules[of.Name]; r != nil && r.Rule == of && r.tables[i] != nil {
		defer s.mu.RUnlock()
		return r.tables[i], nil
	}
	s.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rules[of.Name]
	if r == nil || r.Rule != of {
		r = &rule{of, r.adopted(of)}
		s.rules[of.Name] = r
	}
	if r.tables[i] == nil {
		l, err := newLimiter(of)
		if err != nil {
			return nil, fmt.Errorf("memory: rule %q: %w", of.Name, err)
		}
		r.tables[i] = l
	}
	return r.tables[i], nil
}

// adopted returns those limiters of r that can go on as those of a rule of the same name.
func (r *rule) adopted(of *guard.Rule) (kept [2]limiter) {
	if r == nil || r.Per != of.Per || r.V4 != of.V4 || r.V6 != of.V6 {
		return kept
	}
	for i, l := range r.tables {
		var err error
		switch l := l.(type) {
		case nil:
			continue
		case *lockout.Limiter:
			if of.Lockout == nil || of.Lockout.Lease != l.Policy().Lease {
				continue
			}
			err = l.Reload(*of.Lockout)
		case *throttle.Limiter:
			if of.Throttle == nil {
				continue
			}
			err = l.Reload(*of.Throttle)
		case *window.Limiter:
			if of.Window == nil {
				continue
			}
			err = l.Reload(*of.Window)
		}
		if err == nil { // else it has another size: begin anew
			kept[i] = l
		}
	}
	return kept
}

func newLimiter(r *guard.Rule) (limiter, error) {
	switch {
	case r.Lockout != nil:
		return lockout.New(*r.Lockout)
	case r.Throttle != nil:
		return throttle.New(*r.Throttle), nil
	}
	return window.New(*r.Window)
}

// table says which of the two a key is in. As in a guard, Unknown is in the first unless a
// rule has only the second, and throttles on networks have one for both families.
func table(r *guard.Rule, k doorward.Key) int {
	switch p := k.Prefix(); {
	case r.Per != guard.Network || r.Throttle != nil:
		return 0
	case p.IsValid() && p.Addr().Is6(), !p.IsValid() && r.V4 < 0:
		return 1
	}
	return 0
}
