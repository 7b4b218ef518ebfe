// Package breaker stops asking a server that does not answer, and finds out when it does
// again. It promises that after so many failures in a row nobody waits for the server any
// more but one caller at a time, and that the times at which many processes try again are
// spread.
//
// It gives up noticing a server that fails now and then, or of which one part fails: any
// answer in between counts as health. Those calls end at their deadline.
//
// Nothing here reads a clock, waits, or starts a goroutine.
package breaker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Policy says when a breaker opens and how it tries again. 0 takes the default.
type Policy struct {
	Failures int           // in a row, after which the server is down: 5
	Rest     time.Duration // until it is tried again, doubled by each failed try: 200 ms
	MaxRest  time.Duration // at most: 5 s
}

// WithDefaults returns p with every 0 replaced.
func (p Policy) WithDefaults() Policy {
	if p.Failures == 0 {
		p.Failures = 5
	}
	if p.Rest == 0 {
		p.Rest = 200 * time.Millisecond
	}
	if p.MaxRest == 0 {
		p.MaxRest = max(p.Rest, 5*time.Second)
	}
	return p
}

// Validate returns an error that names the first field that is wrong.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	switch {
	case p.Failures < 0:
		return fmt.Errorf("breaker: Failures must be positive, got %d", p.Failures)
	case p.Rest < 0:
		return fmt.Errorf("breaker: Rest must be positive, got %v", p.Rest)
	case p.MaxRest < p.Rest:
		return fmt.Errorf("breaker: MaxRest must be at least Rest (%v), got %v", p.Rest, p.MaxRest)
	}
	return nil
}

// State says whether the server is asked.
type State uint8

const (
	Up      State = iota // it is
	Down                 // it is not
	Probing              // one caller finds out
)

var states = [...]string{"up", "down", "probing"}

// String returns the word used in logs and metrics.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprintf("State(%d)", s)
}

// Health is what is known of the server.
type Health struct {
	State   State
	Since   time.Time // of the last change between Up and not Up; zero if there was none
	Retry   time.Time // when it is tried again, while Down
	Err     error     // the last failure, nil if there was none
	ErrAt   time.Time
	Downs   uint64 // how often it went down
	InARow  int    // failures since the last answer
	Refused uint64 // calls that were not made
}

// A Breaker keeps count of the calls to one server. It is safe for concurrent use.
type Breaker struct {
	policy Policy

	mu     sync.Mutex
	health Health
	turn   uint64 // of Up and of each probe: what ends later than its turn tells nothing
	rest   time.Duration
	short  error // for calls that are not made
}

// A Pass is the right to make one call.
type Pass struct{ turn uint64 }

// New returns a breaker of a server that is taken to be up. An error names the field that
// is wrong.
func New(p Policy) (*Breaker, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &Breaker{policy: p.WithDefaults()}, nil
}

// Enter returns a pass for one call, or an error that wraps the failure which made the
// server be down. Each pass ends with Leave, and soon.
func (b *Breaker) Enter(now time.Time) (Pass, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.health.State == Up:
	case b.health.State == Down && !now.Before(b.health.Retry):
		b.health.State = Probing
	default:
		b.health.Refused++
		return Pass{}, b.short
	}
	return Pass{b.turn}, nil
}

// Leave says how the call ended: nil is an answer.
func (b *Breaker) Leave(p Pass, err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &b.health
	if err != nil {
		h.Err, h.ErrAt = err, now
	}
	if p.turn != b.turn {
		return
	}
	switch {
	case err == nil && h.State == Up:
		h.InARow = 0
	case err == nil:
		h.State, h.Since, h.Retry, h.InARow = Up, now, time.Time{}, 0
		b.turn++
		b.rest = 0
	default:
		if h.InARow++; h.State == Up && h.InARow < b.policy.Failures {
			return
		}
		if h.State == Up {
			h.Since = now
			h.Downs++
		}
		h.State = Down
		b.turn++
		b.rest = min(max(2*b.rest, b.policy.Rest), b.policy.MaxRest)
		// Half of it at least, and the rest by chance: processes that saw the same failure do
		// not all come back at once.
		h.Retry = now.Add(b.rest/2 + rand.N(b.rest/2+1))
		b.short = fmt.Errorf("not asked, it failed %d times in a row: %w", h.InARow, err)
	}
}

// Health returns what is known of the server.
func (b *Breaker) Health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}
