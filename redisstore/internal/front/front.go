// Package front stands between a guard and its Store on a server. What is known to be
// locked is refused here (package hot); all else is asked of the server, which is never
// waited for long (package line); and while the server does not answer, a mode that the
// operator chose by name decides. It promises that each call is answered within the
// deadline of its line; an attempt is one, and three at most if it comes from a known
// device for which there is no room.
//
// While the server answers, decisions are the server's, but for three things. A refusal
// of what is hot names a rule that is locked, even if another would refuse for longer.
// Then nobody else is asked: shadow and step-up rules are silent unless they are hot too.
// And it takes up to a second until an unlock is known here.
//
// While it does not answer, each process that uses it decides for itself. Mode says what
// that admits.
package front

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/hot"
	"github.com/doorward/doorward/redisstore/internal/line"
	"github.com/doorward/doorward/redisstore/internal/memory"
)

// Mode says what decides while the server does not.
type Mode uint8

const (
	// Local: the same rules, counted in the memory of this process. It knows the lockouts
	// that are hot and how attempts that were settled here ended, so a caller who always
	// came to one process is admitted what is left when the server goes. What was counted here stays
	// until it is forgotten, as the policies say, and does not go to the server. So one
	// key is admitted at most what its policy admits by the server and once more by each
	// process, in any span of time and however often the server comes and goes.
	//
	// It takes the memory of a guard without a Store.
	Local Mode = iota
	// Closed: nothing is admitted. Attempts are refused as Unavailable.
	Closed
	// FailOpen: everything is admitted and nothing counted, but for what is hot. It is for
	// doors where a lost login costs more than any number of guesses. An answer that is
	// an error does not open the door: whoever can bring one about would be let in. Nor
	// does it when too many calls are under way.
	FailOpen
)

var modes = [...]string{"local", "closed", "open"}

// String returns the word used in configuration and logs.
func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return fmt.Sprintf("Mode(%d)", m)
}

// ParseMode reads the word of a mode.
func ParseMode(s string) (Mode, error) {
	for m, word := range modes {
		if s == word {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("front: Mode must be local, closed or open, got %q", s)
}

// Config describes what stands in front of one guard's Store.
type Config struct {
	Mode   Mode
	Places int // lockouts that are hot at once, 0 is hot.DefaultPlaces
}

// Counts are what was decided without the server since the Store was made.
type Counts struct {
	Hot         uint64 // refused because it is known to be locked
	Local       uint64 // decided by this process's own counts
	Settled     uint64 // of these, settled
	Open        uint64 // let in undecided: fail open
	Unavailable uint64 // refused undecided
}

// A Store is the guard.Store of one guard, a guard.Checker and a guard.Lister. It is safe
// for concurrent use.
type Store struct {
	far    guard.Store
	line   *line.Line
	mode   atomic.Uint32
	hot    *hot.Table
	memory *memory.Store

	hits, local, settled, open, unavailable atomic.Uint64
}

// New returns what stands in front of far, whose server is at the end of l. The tickets of
// far must leave the top bit of B free. A guard that is reloaded keeps its Store; two
// guards must not share one. An error names the field that is wrong.
func New(far guard.Store, l *line.Line, c Config) (*Store, error) {
	if c.Places < 0 || c.Places > hot.MaxPlaces {
		return nil, fmt.Errorf("front: Places must be 1 to %d, got %d", hot.MaxPlaces, c.Places)
	}
	s := &Store{far: far, line: l, hot: hot.New(c.Places), memory: memory.New()}
	if err := s.SetMode(c.Mode); err != nil {
		return nil, err
	}
	return s, nil
}

// Mode returns what decides while the server does not.
func (s *Store) Mode() Mode { return Mode(s.mode.Load()) }

// SetMode changes that. Local knows nothing of attempts that ended in another mode.
func (s *Store) SetMode(m Mode) error {
	if m > FailOpen {
		return fmt.Errorf("front: Mode must be Local, Closed or FailOpen, got %d", m)
	}
	s.mode.Store(uint32(m))
	return nil
}

// Health returns what is known of the server.
func (s *Store) Health() line.Health { return s.line.Health() }

// Counts returns what was decided without the server.
func (s *Store) Counts() Counts {
	return Counts{s.hits.Load(), s.local.Load(), s.settled.Load(), s.open.Load(), s.unavailable.Load()}
}

// Reserve decides on the charges of one attempt.
func (s *Store) Reserve(ctx context.Context, charges []guard.Charge) error {
	if s.refuse(charges, false) {
		return nil
	}
	news := s.hot.News()
	err := s.line.Reserve(ctx, s.far, charges)
	if err != nil {
		return s.alone(ctx, charges, err)
	}
	for i := range charges {
		c := &charges[i]
		s.hot.Remember(news, c.Rule.Name, c.Key, c.Decision, c.Now)
	}
	return nil
}

// Check is that of a guard.Checker: it refuses what is hot.
func (s *Store) Check(charges []guard.Charge) bool { return s.refuse(charges, false) }

// refuse fills in the decisions, and reports whether one of the charges that may refuse is
// hot: else they mean nothing. Alone says that the server cannot be asked.
func (s *Store) refuse(charges []guard.Charge, alone bool) (refused bool) {
	for i := range charges {
		c := &charges[i]
		c.Decision, c.Ticket = doorward.Decision{Allowed: true}, doorward.Ticket{}
		// Asked once: somebody may unlock it meanwhile.
		if left := s.hot.Locked(c.Rule.Name, c.Key, alone, c.Now); left > 0 {
			c.Decision = doorward.Decision{Reason: doorward.Locked, RetryAfter: left}
			refused = refused || c.MayRefuse
		}
	}
	if refused {
		s.hits.Add(1)
	}
	return refused
}

// alone decides without the server, which did not because of err.
func (s *Store) alone(ctx context.Context, charges []guard.Charge, err error) error {
	mode := s.Mode()
	switch {
	case s.refuse(charges, true):
		return nil
	case mode == Local:
		s.local.Add(1)
		return s.memory.Reserve(ctx, charges)
	case mode == FailOpen && line.Unreachable(err):
		s.open.Add(1)
		for i := range charges { // fail open: nothing is counted, so there is no ticket
			charges[i].Decision, charges[i].Ticket = doorward.Decision{Allowed: true}, doorward.Ticket{}
		}
		return nil
	}
	s.unavailable.Add(1)
	return err
}

// Settle ends an attempt where it was decided. One that another process decided by its own
// counts, and one that failed open, are not counted here, and settling them does nothing.
func (s *Store) Settle(ctx context.Context, charges []guard.Charge) error {
	far, local := false, false
	for i := range charges {
		t := charges[i].Ticket
		local = local || memory.Issued(t)
		far = far || !memory.Issued(t) && t != doorward.Ticket{}
		charges[i].Cleared, charges[i].Lockout = doorward.Cleared{}, 0
	}
	switch {
	case local:
		s.settled.Add(1)
		return s.memory.Settle(ctx, charges)
	case !far:
		return nil
	}
	if s.Mode() == Local {
		s.memory.Note(charges)
	}
	if err := s.line.Settle(ctx, s.far, charges); err != nil {
		return err
	}
	for i := range charges {
		// No lockout runs while an attempt is in flight, unless a reload made limits lower.
		if c := &charges[i]; c.Cleared.N > 0 {
			s.hot.Forget(c.Rule.Name, c.Key)
		}
	}
	return nil
}

// Subscribed says that from now on Forget and ForgetAll are called for every unlock, by
// whatever process.
func (s *Store) Subscribed(now time.Time) { s.hot.Subscribed(now) }

// Heard says that they were called for every unlock from before now, since Subscribed. A
// lockout is hot for more than a second only while this goes on: call it twice a second.
func (s *Store) Heard(now time.Time) { s.hot.Heard(now) }

// Forget says that a key was unlocked in the rule of a name.
func (s *Store) Forget(rule string, k doorward.Key) {
	s.hot.Forget(rule, k)
	s.memory.Forget(rule, k)
}

// ForgetFunc says that the keys that are meant were unlocked in the rule of a name. It
// looks at all that is remembered of it.
func (s *Store) ForgetFunc(rule string, meant func(doorward.Key) bool, now time.Time) {
	s.hot.ForgetFunc(rule, meant)
	s.memory.ForgetFunc(rule, meant, now)
}

// ForgetAll says that everything was forgotten in the rule of a name, or in all rules if
// it is empty.
func (s *Store) ForgetAll(rule string) {
	s.hot.ForgetAll(rule)
	s.memory.ForgetAll(rule)
}

// operating is how long an operator waits for the server at most. Whether it is down does
// not matter to them: they may know better.
const operating = 10 * time.Second

// as returns the far Store as one that shows what it counts, and until when that may take.
func as[O guard.Operator](ctx context.Context, far guard.Store) (o O, until context.Context, cancel context.CancelFunc, err error) {
	o, ok := far.(O)
	if !ok {
		return o, ctx, func() {}, guard.ErrStore
	}
	until, cancel = context.WithTimeout(ctx, operating)
	return o, until, cancel, nil
}

// Stats asks the server for the figures of a rule.
func (s *Store) Stats(ctx context.Context, rule *guard.Rule) (doorward.Stats, error) {
	o, ctx, cancel, err := as[guard.Operator](ctx, s.far)
	defer cancel()
	if err != nil {
		return doorward.Stats{}, err
	}
	return o.Stats(ctx, rule)
}

// Look asks the server what it knows of a key.
func (s *Store) Look(ctx context.Context, rule *guard.Rule, k doorward.Key, now time.Time) (doorward.Entry, bool, doorward.Decision, error) {
	o, ctx, cancel, err := as[guard.Operator](ctx, s.far)
	defer cancel()
	if err != nil {
		return doorward.Entry{}, false, doorward.Decision{}, err
	}
	return o.Look(ctx, rule, k, now)
}

// Unlock forgets a key on the server and in this process: there, after an error too.
func (s *Store) Unlock(ctx context.Context, rule *guard.Rule, k doorward.Key) error {
	o, ctx, cancel, err := as[guard.Operator](ctx, s.far)
	defer cancel()
	if err == nil {
		err = o.Unlock(ctx, rule, k)
	}
	s.Forget(rule.Name, k)
	return err
}

// Clear forgets everything of a rule on the server and in this process: there, after an
// error too.
func (s *Store) Clear(ctx context.Context, rule *guard.Rule) error {
	o, ctx, cancel, err := as[guard.Operator](ctx, s.far)
	defer cancel()
	if err == nil {
		err = o.Clear(ctx, rule)
	}
	s.ForgetAll(rule.Name)
	return err
}

// AppendEntries asks the server for a page of the entries of a rule.
func (s *Store) AppendEntries(ctx context.Context, dst []doorward.Entry, rule *guard.Rule, c guard.Cursor, places int, now time.Time) ([]doorward.Entry, guard.Cursor, error) {
	o, ctx, cancel, err := as[guard.Lister](ctx, s.far)
	defer cancel()
	if err != nil {
		return dst, 0, err
	}
	return o.AppendEntries(ctx, dst, rule, c, places, now)
}

// LookNamed asks the server what it knows of a key by its name.
func (s *Store) LookNamed(ctx context.Context, rule *guard.Rule, name string, now time.Time) (doorward.Entry, bool, doorward.Decision, error) {
	o, ctx, cancel, err := as[guard.Lister](ctx, s.far)
	defer cancel()
	if err != nil {
		return doorward.Entry{}, false, doorward.Decision{}, err
	}
	return o.LookNamed(ctx, rule, name, now)
}

// UnlockNamed forgets a key by its name on the server. Here it is forgotten as in every
// other process: when the server tells of it.
func (s *Store) UnlockNamed(ctx context.Context, rule *guard.Rule, name string) error {
	o, ctx, cancel, err := as[guard.Lister](ctx, s.far)
	defer cancel()
	if err != nil {
		return err
	}
	return o.UnlockNamed(ctx, rule, name)
}

// Name returns what the server calls a key.
func (s *Store) Name(rule *guard.Rule, k doorward.Key) string {
	if o, ok := s.far.(guard.Lister); ok {
		return o.Name(rule, k)
	}
	return ""
}
