// Package line asks a guard.Store that is far away, and never waits for it longer than a
// deadline. It promises that a call returns in that time whatever the store does, that
// only a bounded number of calls is under way, and that a store which does not answer is
// soon not asked any more (package breaker).
//
// What a store reserves too late is taken back: the attempt was decided without it. An
// answer that does not come for ten seconds is not waited for by anybody; what was reserved
// all the same becomes a failure when its lease ends.
//
// A caller who hangs up does not end a call: what is charged to an attempt must not depend
// on the patience of whoever makes it.
package line

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/breaker"
)

// Config describes a line. 0 takes the default.
type Config struct {
	Deadline time.Duration // for each call, at most a second: 50 ms
	Calls    int           // under way at once, late ones included: 4,096
	Breaker  breaker.Policy
}

// patience is how long a late answer is waited for, to take back what it reserved: a server
// that was paused goes on with what it was asked. Calls of one spell end together, so it may be
// longer by that.
const (
	patience = 10 * time.Second
	spell    = time.Second
)

const maxDeadline = time.Second

// WithDefaults returns c with every 0 replaced.
func (c Config) WithDefaults() Config {
	if c.Deadline == 0 {
		c.Deadline = 50 * time.Millisecond
	}
	if c.Calls == 0 {
		c.Calls = 4096
	}
	c.Breaker = c.Breaker.WithDefaults()
	return c
}

// Validate returns an error that names the first field that is wrong.
func (c Config) Validate() error {
	c = c.WithDefaults()
	switch {
	case c.Deadline < 0 || c.Deadline > maxDeadline:
		return fmt.Errorf("line: Deadline must be positive and at most %v, got %v", maxDeadline, c.Deadline)
	case c.Calls < 0:
		return fmt.Errorf("line: Calls must be positive, got %d", c.Calls)
	}
	return c.Breaker.Validate()
}

// Why a call was not made or did not end.
var (
	// ErrUnreachable is for a Store to wrap, where the server did not answer for another
	// reason than those of package net and context.
	ErrUnreachable = errors.New("server cannot be reached")
	errDeadline    = fmt.Errorf("%w within the deadline", ErrUnreachable)
	errFull        = errors.New("too many calls are under way")
)

// Unreachable reports whether err, of a call, says that the server gave no answer. An
// answer that is an error is none: the server is there and would not decide.
func Unreachable(err error) bool {
	var network net.Error
	return errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}

// Counts are what became of calls since the line was made.
type Counts struct {
	Calls     uint64 // made
	Errors    uint64 // that the store answered with an error, in time
	Timeouts  uint64 // that were not answered in time
	Short     uint64 // not made: the server is down
	Full      uint64 // not made: too many were under way
	Late      uint64 // attempts that were reserved too late
	TakenBack uint64 // of them, those that were taken back
	UnderWay  int    // now, late ones included
	// Took are the calls by how long they were waited for: as many as each of Buckets has room
	// for and the one before has not, the rest last. Waited is the sum.
	Took   [len(Buckets) + 1]uint64
	Waited time.Duration
}

// Buckets are the upper bounds of the times that are told apart.
var Buckets = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// A Line is the way to one server, for all guards that keep their counts there. It is safe
// for concurrent use.
type Line struct {
	config  Config
	breaker *breaker.Breaker
	free    sync.Pool // of *call

	underWay                                          atomic.Int64
	calls, errors, timeouts, short, full, late, taken atomic.Uint64
	fault                                             atomic.Pointer[fault]
	took                                              [len(Buckets) + 1]atomic.Uint64
	waited                                            atomic.Int64
	spell                                             atomic.Pointer[shared]
}

// A shared is the context of all calls of a spell: one with a timer for each call would cost a tenth
// of what can be carried.
type shared struct {
	context.Context
	until time.Time // when the next begins
}

// patient returns the context of a call that begins now.
func (l *Line) patient(now time.Time) context.Context {
	last := l.spell.Load()
	if last != nil && now.Before(last.until) {
		return last.Context
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience+spell)
	context.AfterFunc(ctx, cancel)
	l.spell.CompareAndSwap(last, &shared{ctx, now.Add(spell)}) // else another call's is as good
	return ctx
}

type fault struct {
	err error
	at  time.Time
}

// Health is what is known of the server.
type Health struct {
	breaker.Health
	// Fault is the last answer that was an error, nil if there was none. The server is up
	// then, and would not decide.
	Fault   error
	FaultAt time.Time
}

// New returns a line to a server that is taken to be up. An error names the field that is
// wrong.
func New(c Config) (*Line, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	b, err := breaker.New(c.Breaker)
	if err != nil {
		return nil, err
	}
	return &Line{config: c, breaker: b}, nil
}

// Health returns what is known of the server.
func (l *Line) Health() Health {
	h := Health{Health: l.breaker.Health()}
	if f := l.fault.Load(); f != nil {
		h.Fault, h.FaultAt = f.err, f.at
	}
	return h
}

// Counts returns what became of calls.
func (l *Line) Counts() Counts {
	c := Counts{
		Calls: l.calls.Load(), Errors: l.errors.Load(), Timeouts: l.timeouts.Load(), Short: l.short.Load(), Full: l.full.Load(),
		Late: l.late.Load(), TakenBack: l.taken.Load(), UnderWay: int(l.underWay.Load()), Waited: time.Duration(l.waited.Load()),
	}
	for i := range l.took {
		c.Took[i] = l.took[i].Load()
	}
	return c
}

// Reserve asks the store to reserve. After an error nothing in charges means anything, and
// nothing stays reserved but what becomes a failure. The store is given another context than the
// caller's.
func (l *Line) Reserve(_ context.Context, s guard.Store, charges []guard.Charge) error {
	return l.charge(s, charges, true)
}

// Settle asks the store to settle. After an error it may have, or will yet.
func (l *Line) Settle(_ context.Context, s guard.Store, charges []guard.Charge) error {
	return l.charge(s, charges, false)
}

func (l *Line) charge(s guard.Store, charges []guard.Charge, reserve bool) error {
	began := time.Now()
	pass, err := l.enter(began)
	if err != nil {
		return err
	}
	c, _ := l.free.Get().(*call)
	if c == nil {
		c = &call{line: l, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		c.run = c.ask
	}
	c.ctx, c.store, c.reserve = l.patient(began), s, reserve
	c.charges = append(c.buf[:0], charges...)
	c.state.Store(waiting)
	c.timer.Reset(l.config.Deadline)
	go c.run()
	select {
	case <-c.done:
	case <-c.timer.C:
		if c.state.CompareAndSwap(waiting, late) {
			return l.leave(pass, errDeadline, began)
		}
		<-c.done // it came at the last moment
	}
	c.timer.Stop()
	if err = c.err; err == nil {
		copy(charges, c.charges)
	}
	clear(c.charges)
	c.ctx, c.store, c.err, c.charges = nil, nil, nil, nil
	l.free.Put(c)
	return l.leave(pass, err, began)
}

// enter returns a pass for one call, and a place among those under way.
func (l *Line) enter(now time.Time) (pass breaker.Pass, err error) {
	if l.underWay.Add(1) > int64(l.config.Calls) {
		l.full.Add(1)
		err = errFull
	} else if pass, err = l.breaker.Enter(now); err != nil {
		l.short.Add(1)
	}
	if err != nil {
		l.underWay.Add(-1)
		return pass, err
	}
	l.calls.Add(1)
	return pass, nil
}

// leave says how a call ended for its caller, and returns that. Its place is given up by
// whoever asked the store.
func (l *Line) leave(pass breaker.Pass, err error, began time.Time) error {
	now := time.Now()
	took := now.Sub(began)
	i, _ := slices.BinarySearch(Buckets[:], took)
	l.took[i].Add(1)
	l.waited.Add(int64(took))
	switch {
	case err == nil:
	case err == errDeadline:
		l.timeouts.Add(1)
	case Unreachable(err):
		l.errors.Add(1)
	default:
		l.errors.Add(1)
		l.fault.Store(&fault{err, now})
		l.breaker.Leave(pass, nil, now)
		return err
	}
	l.breaker.Leave(pass, err, now)
	return err
}

// A call is one question to a store. It has charges of its own: the store may still write
// to them when the caller has left.
type call struct {
	line    *Line
	store   guard.Store
	reserve bool
	ctx     context.Context
	charges []guard.Charge
	buf     [guard.MaxRules]guard.Charge
	err     error
	state   atomic.Uint32
	done    chan struct{}
	timer   *time.Timer
	run     func() // ask
}

// What becomes of a call: whoever changes it from waiting decides. Once it is late, it is
// nobody's but the store's.
const (
	waiting = iota
	answered
	late
)

func (c *call) ask() {
	l := c.line
	if c.reserve {
		c.err = c.store.Reserve(c.ctx, c.charges)
	} else {
		c.err = c.store.Settle(c.ctx, c.charges)
	}
	if c.state.CompareAndSwap(waiting, answered) {
		l.underWay.Add(-1)
		c.done <- struct{}{}
		return
	}
	if c.reserve && c.err == nil {
		c.takeBack()
	}
	l.underWay.Add(-1)
}

// takeBack voids what was reserved when nobody waited any more.
func (c *call) takeBack() {
	held := c.charges[:0]
	for _, x := range c.charges {
		if x.Ticket != (doorward.Ticket{}) {
			x.Outcome = doorward.Void
			held = append(held, x)
		}
	}
	if len(held) == 0 {
		return
	}
	c.line.late.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if c.store.Settle(ctx, held) == nil {
		c.line.taken.Add(1)
	}
}
