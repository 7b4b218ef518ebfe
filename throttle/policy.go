package throttle

import (
	"fmt"
	"math"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/table"
)

// What a value of Policy that is not positive stands for.
const (
	DefaultPerSource = 5
	DefaultGlobal    = 100
	DefaultWindow    = time.Minute
	DefaultSources   = 4096   // 256 KiB in all
	DefaultInFlight  = 65_536 // 2 MiB in all
)

// DefaultCapacity is how many keys the other policies tell apart by default. Give it
// as Sources to a throttle that stands beside them.
const DefaultCapacity = 65_536

// MaxPerSource is the largest PerSource.
const MaxPerSource = math.MaxUint16

// Policy says how many attempts may be refused, by source and in all. The zero Policy
// is all defaults.
type Policy struct {
	// PerSource is how many refusals one key may cause in a Window, at most
	// MaxPerSource. The default is DefaultPerSource.
	PerSource int
	// Global is how many refusals all keys together may cause in a Window. The
	// default is DefaultGlobal. While it is spent everybody waits: see the package
	// comment.
	Global int
	// Window is how long refusals count from the first of them. The default is
	// DefaultWindow.
	Window time.Duration
	// Sources is how many keys are told apart, at 64 bytes each. The default is
	// DefaultSources.
	Sources int
	// InFlight is how many reservations may be pending at once, at 32 bytes each. The
	// default is DefaultInFlight.
	InFlight int
}

// WithDefaults returns p with every value that is not positive replaced by its
// default.
func (p Policy) WithDefaults() Policy {
	if p.PerSource <= 0 {
		p.PerSource = DefaultPerSource
	}
	if p.Global <= 0 {
		p.Global = DefaultGlobal
	}
	if p.Window <= 0 {
		p.Window = DefaultWindow
	}
	if p.Sources <= 0 {
		p.Sources = DefaultSources
	}
	if p.InFlight <= 0 {
		p.InFlight = DefaultInFlight
	}
	return p
}

// Validate returns an error that names the first field which is too large, nil if
// there is none. New takes the largest value instead.
func (p Policy) Validate() error {
	switch {
	case p.PerSource > MaxPerSource:
		return fmt.Errorf("throttle: PerSource must be at most %d, got %d", MaxPerSource, p.PerSource)
	case p.Sources > table.MaxCapacity:
		return fmt.Errorf("throttle: Sources must be at most %d, got %d", table.MaxCapacity, p.Sources)
	case p.InFlight > table.MaxCapacity:
		return fmt.Errorf("throttle: InFlight must be at most %d, got %d", table.MaxCapacity, p.InFlight)
	}
	return nil
}

// A tally is a count that a window began with, at a time of the table's clock. The
// zero tally counts nothing.
type tally struct{ began, count int64 }

// rules are a Policy as the steps need it.
type rules struct{ perSource, global, window int64 }

// end returns when what t counts is forgotten, 0 if it counts nothing.
func (r *rules) end(t tally) int64 {
	if t.count == 0 {
		return 0
	}
	return table.Add(t.began, r.window)
}

// current returns t as it is at now: nothing once its window has ended.
func (r *rules) current(t tally, now int64) tally {
	if r.end(t) <= now {
		return tally{}
	}
	return t
}

// charge counts one more refusal.
func (r *rules) charge(t tally, now int64) tally {
	if t = r.current(t, now); t.count == 0 {
		t.began = now
	}
	t.count++
	return t
}

// judge answers an attempt by the key's own tally and that of all. What is pending
// uses up both limits, since all of it may be refused.
func (r *rules) judge(own, all tally, p table.Pending, now int64) table.Answer {
	own, all = r.current(own, now), r.current(all, now)
	left := r.perSource - own.count - int64(p.Own)
	leftAll := r.global - all.count - int64(p.All)
	if left > 0 && leftAll > 0 {
		return table.Answer{Verdict: table.Allowed, Remaining: int(min(left, leftAll) - 1)}
	}
	// Both limits must have room again, also one that is full only with what is
	// pending.
	var until int64
	if left <= 0 {
		until = r.end(own)
	}
	if leftAll <= 0 {
		until = max(until, r.end(all))
	}
	switch {
	case own.count >= r.perSource:
		return table.Answer{Verdict: table.Verdict(doorward.Spent), Wait: until - now}
	case all.count >= r.global:
		return table.Answer{Verdict: table.Verdict(doorward.Ceiling), Wait: until - now}
	}
	return table.Answer{Verdict: table.Busy}
}

// settled returns both tallies after an attempt ended as o.
func (r *rules) settled(own, all tally, o doorward.Outcome, now int64) (tally, tally) {
	switch o {
	case doorward.Void:
		return own, all
	case doorward.Succeeded:
		return tally{}, all // it measures work, not people
	}
	own = r.charge(own, now)
	own.count = min(own.count, MaxPerSource) // no limit is larger
	if o == doorward.Malformed {
		return own, all
	}
	return own, r.charge(all, now)
}
