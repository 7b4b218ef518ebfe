// Package logs keeps a log readable and small while strangers decide how much there
// is to say. A Meter says which lines of one kind are written: a burst, then a few a
// second. Nothing is lost silently: every line that is not written is counted, and
// the count goes out with the next line, or by itself before long.
//
// It does not sample fairly: what comes first in a burst is written.
package logs

import (
	"sync"
	"time"
)

// A Meter is the budget of one kind of line. The zero Meter is ready to use. It is
// safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	burst   int // 0 is Burst
	every   time.Duration
	spent   time.Time // when the burst will be whole again
	dropped uint64
}

// What a zero Meter has.
const (
	// Burst is how many lines of a kind may be written at once.
	Burst = 100
	// PerSecond is how many lines of a kind are written in the long run.
	PerSecond = 20
)

// Set changes how many lines may be written at once and, in the long run, in a second.
// Both must be positive. What was dropped and not reported stays.
func (m *Meter) Set(burst, perSecond int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.burst, m.every = burst, time.Second/time.Duration(perSecond)
}

// Take asks for one line. If it may be written, dropped is how many lines before it
// were not and have not been reported yet; the caller reports them with it.
func (m *Meter) Take(now time.Time) (dropped uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.burst == 0 {
		m.burst, m.every = Burst, time.Second/PerSecond
	}
	if m.spent.Before(now) {
		m.spent = now
	}
	if m.spent.Sub(now) > time.Duration(m.burst-1)*m.every {
		m.dropped++
		return 0, false
	}
	m.spent = m.spent.Add(m.every)
	dropped, m.dropped = m.dropped, 0
	return dropped, true
}

// Drop counts lines that could not be written after all.
func (m *Meter) Drop(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped += n
}

// Drain returns how many lines were dropped and have not been reported yet; the
// caller reports them.
func (m *Meter) Drain() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.dropped
	m.dropped = 0
	return n
}
