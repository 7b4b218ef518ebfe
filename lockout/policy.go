package lockout

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/table"
)

// What a zero field of Policy stands for: keys told apart, 4 MiB in all, and
// reservations pending at once, 2 MiB in all.
const (
	DefaultCapacity = 65_536
	DefaultInFlight = 65_536
)

// OnSuccess says what a right attempt does to the failures before it.
type OnSuccess uint8

const (
	// Clear forgets all failures of the key and ends its lockout. Right where one
	// key guards one secret.
	Clear OnSuccess = iota
	// TakeBack takes back the attempt itself and nothing else. Right wherever a key
	// is shared: nobody washes off four wrong guesses by logging in to an account of
	// their own.
	TakeBack
)

// Policy says how many failures a key may make before it has to wait, and how long.
// The zero Policy is an error.
type Policy struct {
	// FreeFailures is how many failures a key may make: the last of them starts the
	// first lockout. 1 to 65,535.
	FreeFailures int
	// Window is how long failures are remembered after the last of them, or after
	// the end of its lockout if that is later.
	Window time.Duration
	// FirstLockout is the length of the first lockout. Each further failure doubles it.
	FirstLockout time.Duration
	// MaxLockout is the length that lockouts grow to, at least FirstLockout.
	MaxLockout time.Duration
	// Decay forgets one failure every Window / FreeFailures instead of all of them
	// at once. Use it for keys that many share: without it one failure per Window
	// keeps such a key locked for ever.
	Decay bool
	// OnSuccess is Clear or TakeBack.
	OnSuccess OnSuccess
	// Lease is how long a reservation may stay unsettled before it counts as a
	// failure: at most Window. 0 is a minute or Window, whichever is shorter.
	Lease time.Duration
	// Capacity is how many keys are told apart, at 64 bytes each. 0 is
	// DefaultCapacity.
	Capacity int
	// InFlight is how many reservations may be pending at once, at 32 bytes each.
	// 0 is DefaultInFlight.
	InFlight int
}

// Policies to copy and edit. After the free failures the first lockout is a minute; it
// doubles up to an hour. They limit bursts, not patience: who makes one attempt fewer
// than is free and waits for Window never meets a lockout. Each ends with its bound: how
// many wrong attempts are admitted at worst in any span of that length.
var (
	// Login suits a password: five typos in a row happen to people.
	//
	// Bound of one key: 5 at once, 241 in an hour, 5,761 in a day, 172,801 in 30 days.
	Login = Policy{FreeFailures: 5, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour}
	// Enroll suits enrolment and pairing codes, which people type once.
	//
	// Bound of one key: 5 at once, 32 in an hour, 669 in a day, 19,943 in 30 days.
	Enroll = Policy{FreeFailures: 5, Window: 10 * time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour}
	// PasskeyLogin suits passkeys, which nobody guesses: it bounds work, not guesses.
	//
	// Bound of one key: 30 at once, 1,741 in an hour, 41,761 in a day, 1,252,801 in 30 days.
	PasskeyLogin = Policy{FreeFailures: 30, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour}
)

// WithDefaults returns p with every 0 that has a meaning replaced by it.
func (p Policy) WithDefaults() Policy {
	if p.Lease == 0 {
		p.Lease = min(time.Minute, p.Window)
	}
	if p.Capacity == 0 {
		p.Capacity = DefaultCapacity
	}
	if p.InFlight == 0 {
		p.InFlight = DefaultInFlight
	}
	return p
}

// Validate returns an error that names the first field New would refuse, nil if
// there is none.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	switch {
	case p.FreeFailures < 1 || p.FreeFailures > math.MaxUint16:
		return fmt.Errorf("lockout: FreeFailures must be 1 to %d, got %d", math.MaxUint16, p.FreeFailures)
	case p.Window <= 0:
		return fmt.Errorf("lockout: Window must be positive, got %v", p.Window)
	case p.FirstLockout <= 0:
		return fmt.Errorf("lockout: FirstLockout must be positive, got %v", p.FirstLockout)
	case p.MaxLockout < p.FirstLockout:
		return fmt.Errorf("lockout: MaxLockout must be at least FirstLockout (%v), got %v", p.FirstLockout, p.MaxLockout)
	case p.OnSuccess > TakeBack:
		return fmt.Errorf("lockout: OnSuccess must be Clear or TakeBack, got %d", p.OnSuccess)
	case p.Lease < 0 || p.Lease > p.Window:
		return fmt.Errorf("lockout: Lease must be positive and at most Window (%v), got %v", p.Window, p.Lease)
	case p.Capacity < 0 || p.Capacity > table.MaxCapacity:
		return fmt.Errorf("lockout: Capacity must be 1 to %d, got %d", table.MaxCapacity, p.Capacity)
	case p.InFlight < 0 || p.InFlight > table.MaxCapacity:
		return fmt.Errorf("lockout: InFlight must be 1 to %d, got %d", table.MaxCapacity, p.InFlight)
	}
	return nil
}

// A state is what is remembered of a key, in 24 bytes. Times are nanoseconds of the
// table's clock. The zero state remembers nothing. (Four fields are what the compiler
// keeps in registers.)
type state struct {
	// began is when the first of the failures was counted. Under TakeBack, where that is
	// never asked for, it moves on to the end of each lockout: what GiveBack may not
	// reach behind.
	began int64
	// at is the end of the last lockout if the last failure started one, else the
	// time of the last failure; with Decay, when the clock that forgets started.
	// With failures, an at that lies ahead is a lockout that runs.
	at    int64
	count uint32 // failures
	marks uint32
}

// What marks a state.
const (
	// ended: a success ended the lockout that at is the end of (without Decay, which
	// needs at for nothing else).
	ended = 1 << iota
	// apart: some of the failures may be counted nowhere else.
	apart
)

func (s state) locked(now int64) bool { return now < s.at && s.marks&ended == 0 }

// rules are a Policy as the steps need it.
type rules struct {
	free, first, max int64
	step             int64 // how long failures are remembered; with decay, one of them
	most             int64 // the count that is not exceeded
	decay, takeBack  bool
}

func newRules(p Policy) rules {
	r := rules{
		free: int64(p.FreeFailures), step: int64(p.Window),
		first: int64(p.FirstLockout), max: int64(p.MaxLockout),
		most: math.MaxInt32, decay: p.Decay, takeBack: p.OnSuccess == TakeBack,
	}
	if p.Decay {
		r.step = max(1, r.step/r.free)
		for r.most = r.free; r.lockout(r.most) < r.max; r.most++ {
		}
	}
	return r
}

// lockout returns how long the failure number count locks.
func (r *rules) lockout(count int64) int64 {
	if shift := count - r.free; shift < 63 && r.first <= r.max>>shift {
		return r.first << shift
	}
	return r.max
}

// age returns s as it is at now: with Decay some failures may be forgotten since, and
// all of them either way.
func (r *rules) age(s state, now int64) state {
	passed := now - s.at
	switch {
	case passed < r.step: // a lockout runs, or nothing is forgotten yet
		return s
	case !r.decay:
		return state{}
	}
	steps := passed / r.step
	if steps >= int64(s.count) {
		return state{}
	}
	s.count -= uint32(steps)
	s.at += steps * r.step
	return s
}

// alive returns s, or the zero state if it is forgotten at now.
func (r *rules) alive(s state, now int64) state {
	if r.forget(s) <= now {
		return state{}
	}
	return s
}

// forget returns when s means nothing any more.
func (r *rules) forget(s state) int64 {
	switch {
	case s.count == 0:
		return 0
	case !r.decay:
		return table.Add(s.at, r.step)
	}
	hi, lo := bits.Mul64(uint64(s.count), uint64(r.step))
	if hi != 0 || lo > math.MaxInt64 {
		return table.Never
	}
	return table.Add(s.at, int64(lo))
}

// judge answers an attempt: in flight is not failed, but it uses up what is free.
func (r *rules) judge(s state, pending int64, now int64) table.Answer {
	s = r.age(s, now)
	if s.locked(now) {
		return table.Answer{Verdict: table.Verdict(doorward.Locked), Wait: s.at - now}
	}
	if left := r.free - int64(s.count) - pending; left > 0 {
		return table.Answer{Verdict: table.Allowed, Remaining: int(left - 1)}
	}
	if pending == 0 {
		return table.Answer{Verdict: table.Allowed}
	}
	return table.Answer{Verdict: table.Busy}
}

// failed counts a failure and starts the lockout that it calls for.
func (r *rules) failed(s state, now int64) state {
	s = r.age(s, now)
	if s.count == 0 {
		s = state{began: now, at: now}
	}
	count := min(int64(s.count)+1, r.most)
	s.count = uint32(count)
	switch {
	case count >= r.free:
		s.at, s.marks = table.Add(now, r.lockout(count)), s.marks&^ended
		if r.takeBack {
			s.began = s.at
		}
	case !r.decay:
		s.at, s.marks = now, s.marks&^ended
	}
	return s
}

// succeeded is a success that was charged as a failure: it clears, or takes that one
// failure back and ends the lockout.
func (r *rules) succeeded(s state, now int64) state {
	s = r.age(s, now)
	if !r.takeBack || s.count <= 1 {
		return state{}
	}
	if s.locked(now) {
		s.began = now
		if r.decay {
			s.at = now
		} else {
			s.marks |= ended
		}
	}
	s.count--
	return s
}

// giveBack takes n failures back, the first of which was counted at first, if s
// surely still counts them: it has forgotten none since, and no lockout has begun.
func (r *rules) giveBack(s state, n int64, first, now int64) state {
	s = r.age(s, now)
	since, count := s.began, int64(s.count)
	if r.decay || count >= r.free && s.marks&ended == 0 {
		since = max(since, s.at)
	}
	if n <= 0 || first < since || s.locked(now) {
		return s
	}
	if count <= n {
		return state{}
	}
	s.count = uint32(count - n)
	return s
}

// settled returns the state after a reservation ended as o.
func (r *rules) settled(s state, o doorward.Outcome, now int64) state {
	switch {
	case o == doorward.Void, o == doorward.Succeeded && r.takeBack:
		return s
	case o == doorward.Succeeded:
		return state{}
	}
	return r.failed(s, now)
}
