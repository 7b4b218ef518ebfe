// Package faulty is a guard.Store for tests, which is as slow and fails as it is told. Its
// counts are those of package memory. Rules and Request make up histories for it.
package faulty

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/memory"
)

// A Store is far away. Its tickets are not those of package memory.
type Store struct {
	Memory *memory.Store
	Asked  atomic.Int64 // calls of any kind

	mu   sync.Mutex
	plan Plan
}

// A Plan says what becomes of a call.
type Plan struct {
	Before time.Duration // until it is decided
	After  time.Duration // until the answer arrives
	Deaf   bool          // goes on when the context has ended
	Err    error         // instead of a decision
	Lost   error         // instead of the answer; the decision stands
	Settle *Plan         // what becomes of Settle, if not the same
}

// New returns a Store that answers at once.
func New() *Store { return &Store{Memory: memory.New()} }

// Set changes what becomes of calls from now on, and of those that are not decided yet.
func (s *Store) Set(p Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = p
}

func (s *Store) now(settle bool) Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if settle && s.plan.Settle != nil {
		return *s.plan.Settle
	}
	return s.plan
}

func (p Plan) wait(ctx context.Context, d time.Duration) error {
	if p.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) call(ctx context.Context, settle bool, decide func() error) error {
	s.Asked.Add(1)
	p := s.now(settle)
	if err := p.wait(ctx, p.Before); err != nil {
		return err
	}
	if p = s.now(settle); p.Err != nil {
		return p.Err
	}
	if err := decide(); err != nil {
		return err
	}
	if err := p.wait(ctx, p.After); err != nil {
		return err
	}
	return p.Lost
}

// flip makes a ticket of package memory one of a server, and back.
func flip(charges []guard.Charge) {
	for i := range charges {
		if t := &charges[i].Ticket; *t != (doorward.Ticket{}) {
			t.B ^= 1 << 63
		}
	}
}

// Reserve is that of package memory.
func (s *Store) Reserve(ctx context.Context, charges []guard.Charge) error {
	return s.call(ctx, false, func() error {
		defer flip(charges)
		return s.Memory.Reserve(ctx, charges)
	})
}

// Settle is that of package memory.
func (s *Store) Settle(ctx context.Context, charges []guard.Charge) error {
	return s.call(ctx, true, func() error {
		flip(charges)
		defer flip(charges)
		return s.Memory.Settle(ctx, charges)
	})
}

// Stats is that of package memory.
func (s *Store) Stats(ctx context.Context, rule *guard.Rule) (n doorward.Stats, err error) {
	err = s.call(ctx, false, func() error {
		n, err = s.Memory.Stats(ctx, rule)
		return err
	})
	return n, err
}

// Look is that of package memory.
func (s *Store) Look(ctx context.Context, rule *guard.Rule, k doorward.Key, now time.Time) (e doorward.Entry, own bool, d doorward.Decision, err error) {
	err = s.call(ctx, false, func() error {
		e, own, d, err = s.Memory.Look(ctx, rule, k, now)
		return err
	})
	return e, own, d, err
}

// Unlock is that of package memory.
func (s *Store) Unlock(ctx context.Context, rule *guard.Rule, k doorward.Key) error {
	return s.call(ctx, false, func() error { return s.Memory.Unlock(ctx, rule, k) })
}

// Clear is that of package memory.
func (s *Store) Clear(ctx context.Context, rule *guard.Rule) error {
	return s.call(ctx, false, func() error { return s.Memory.Clear(ctx, rule) })
}
