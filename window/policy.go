package window

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/table"
)

// What a zero field of Policy stands for.
const (
	DefaultLimit    = 10
	DefaultWindow   = time.Minute
	DefaultCapacity = 65_536 // 4 MiB in all
	DefaultInFlight = 65_536 // 2 MiB in all
)

// The largest Limit.
const (
	MaxLimit        = math.MaxInt32
	MaxLimitSliding = math.MaxUint16
)

// Policy says how many requests of one key are admitted in how much time. The zero
// Policy is all defaults.
type Policy struct {
	// Limit is how many requests are admitted per Window: at most MaxLimit, or
	// MaxLimitSliding. 0 is DefaultLimit.
	Limit int
	// Window is counted in whole from the first request, or, with Sliding, at every
	// moment back from it; then it is rounded up to a multiple of 8 ns. 0 is
	// DefaultWindow.
	Window time.Duration
	// Sliding holds Limit in every interval of length Window. Without it, twice Limit
	// less one may be admitted within one Window across an edge, or twice Limit where
	// the request that began the window was taken back.
	Sliding bool
	// Capacity is how many keys are told apart, at 64 bytes each. 0 is
	// DefaultCapacity.
	Capacity int
	// InFlight is how many reservations may be pending at once, at 32 bytes each.
	// 0 is DefaultInFlight.
	InFlight int
}

// WithDefaults returns p with every 0 replaced by its default.
func (p Policy) WithDefaults() Policy {
	if p.Limit == 0 {
		p.Limit = DefaultLimit
	}
	if p.Window == 0 {
		p.Window = DefaultWindow
	}
	if p.Capacity == 0 {
		p.Capacity = DefaultCapacity
	}
	if p.InFlight == 0 {
		p.InFlight = DefaultInFlight
	}
	return p
}

// Validate returns an error that names the first field New would refuse, nil if there
// is none.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	most := MaxLimit
	if p.Sliding {
		most = MaxLimitSliding
	}
	switch {
	case p.Limit < 1 || p.Limit > most:
		return fmt.Errorf("window: Limit must be 1 to %d, got %d", most, p.Limit)
	case p.Window <= 0:
		return fmt.Errorf("window: Window must be positive, got %v", p.Window)
	case p.Capacity < 1 || p.Capacity > table.MaxCapacity:
		return fmt.Errorf("window: Capacity must be 1 to %d, got %d", table.MaxCapacity, p.Capacity)
	case p.InFlight < 1 || p.InFlight > table.MaxCapacity:
		return fmt.Errorf("window: InFlight must be 1 to %d, got %d", table.MaxCapacity, p.InFlight)
	}
	return nil
}

// slices is how many slices count with Sliding. An interval of length Window is eight
// of them long, so it touches at most nine.
const slices = 9

// A state is what is remembered of a key: how many requests were admitted in each
// slice of time that counts. It takes 28 bytes of alignment 4, as the table needs.
type state struct {
	lo, hi uint32 // when the newest slice began, in nanoseconds of the table's clock
	newest uint32
	older  [slices - 1]uint16 // the one before the newest first
}

func stateAt(began int64) state { return state{lo: uint32(began), hi: uint32(began >> 32)} }

func (s *state) began() int64 { return int64(s.lo) | int64(s.hi)<<32 }

// count returns how many requests count.
func (s *state) count() int64 {
	n := int64(s.newest)
	for _, c := range s.older {
		n += int64(c)
	}
	return n
}

// rules are a Policy as the steps need it. A fixed window is one slice that counts
// alone; a sliding one is nine slices of an eighth each. Either way slices lie end to
// end from the first request after rest, and at rest no slice counts anything.
type rules struct {
	limit int64
	width int64 // of a slice
	last  int64 // how many slices before the newest count
}

func newRules(p Policy) rules {
	r := rules{limit: int64(p.Limit), width: int64(p.Window)}
	if p.Sliding {
		r.width = (r.width-1)/8 + 1
		r.last = slices - 1
	}
	return r
}

// end returns when the slice that lies back slices before the newest counts no more.
func (r *rules) end(s *state, back int64) int64 {
	hi, lo := bits.Mul64(uint64(r.last+1-back), uint64(r.width))
	if hi != 0 || lo > math.MaxInt64 {
		return table.Never
	}
	return table.Add(s.began(), int64(lo))
}

// forget returns when nothing counts any more.
func (r *rules) forget(s *state) int64 {
	if s.newest > 0 {
		return r.end(s, 0)
	}
	for i, c := range s.older {
		if c > 0 {
			return r.end(s, int64(i)+1)
		}
	}
	return 0
}

// age returns s as it is at now: the slice that now lies in is the newest. After rest
// it begins now.
func (r *rules) age(s state, now int64) state {
	switch {
	case r.forget(&s) <= now:
		return stateAt(now)
	case now-s.began() < r.width:
		return s
	}
	passed := (now - s.began()) / r.width
	aged := stateAt(s.began() + passed*r.width)
	aged.older[passed-1] = uint16(s.newest)
	copy(aged.older[passed:], s.older[:])
	return aged
}

// judge answers for n requests at once.
func (r *rules) judge(s state, n, now int64) table.Answer {
	s = r.age(s, now)
	left := r.limit - s.count()
	switch {
	case n <= 0:
		return table.Answer{Verdict: table.Allowed, Remaining: int(max(0, left))}
	case n <= left:
		return table.Answer{Verdict: table.Allowed, Remaining: int(left - n)}
	case n > r.limit:
		return table.Answer{Verdict: table.Verdict(doorward.Spent)} // no time will do
	}
	back := r.last
	for ; back > 0; back-- { // the oldest are forgotten first
		if left += int64(s.older[back-1]); n <= left {
			break
		}
	}
	return table.Answer{Verdict: table.Verdict(doorward.Spent), Wait: r.end(&s, back) - now}
}

// charge counts n requests.
func (r *rules) charge(s state, n, now int64) state {
	if n <= 0 {
		return s
	}
	s = r.age(s, now)
	s.newest += uint32(n)
	return s
}

// takeBack takes back a request that was admitted at began, if its slice still counts.
func (r *rules) takeBack(s state, began, now int64) state {
	s = r.age(s, now)
	var back int64
	if began < s.began() {
		back = (s.began()-began-1)/r.width + 1
	}
	switch {
	case back > r.last:
	case back == 0 && s.newest > 0:
		s.newest--
	case back > 0 && s.older[back-1] > 0:
		s.older[back-1]--
	}
	return s
}

// adopt returns what a state that was written under old means from now on. A fixed
// window keeps its beginning. Elsewhere the times are known too roughly: all that
// counts still, counts as if it had been admitted now.
func (r *rules) adopt(old *rules, s state, now int64) state {
	if r.width == old.width && r.last == old.last || r.last == 0 && old.last == 0 {
		return s
	}
	s = old.age(s, now)
	n := s.count()
	s = stateAt(now)
	s.newest = uint32(n)
	if r.last > 0 {
		s.newest = uint32(min(n, MaxLimitSliding))
	}
	return s
}
