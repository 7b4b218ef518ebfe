// Package script holds the functions that keep the policies of a guard in Redis, in Lua, and
// what they are told of a rule. It promises that they judge, charge and settle as packages
// lockout, throttle and window do, in one step that nothing else comes between.
//
// It gives up what is finer than a microsecond: what a policy says is rounded up to whole ones,
// so that no more is admitted, and nothing is remembered for longer than 71 years.
//
// They are functions (FUNCTION LOAD), not scripts: those are replicated and saved with the
// data, so that they are there after a failover, and their Lua is put together once, not at
// each call.
package script

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"time"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

//go:embed library.lua
var source string

// ServerClock is the Lua of a function clock that asks the server what time it is.
const ServerClock = `local function clock()
  local t = call('TIME')
  return t[1] * SECOND + t[2]
end`

// A Library is what a server has to load. Its functions are named after what they hold, so
// that different versions do not meet.
type Library struct {
	Text                                             string
	Reserve, Settle, Mark, Look, Unlock, Clear, Page string
}

// New returns the library with a clock: the Lua of a function clock(args).
func New(clock string) Library {
	text := strings.Replace(source, "@clock@", clock, 1)
	sum := sha256.Sum256([]byte(text))
	name := "doorward_" + hex.EncodeToString(sum[:4])
	return Library{
		Text:    strings.ReplaceAll(text, "@name@", name),
		Reserve: name + "_reserve", Settle: name + "_settle", Mark: name + "_mark",
		Look: name + "_look", Unlock: name + "_unlock", Clear: name + "_clear", Page: name + "_page",
	}
}

// The kinds of a rule, as the library numbers them.
const (
	kindLockout = iota + 1
	kindThrottle
	kindWindow
)

// What marks a lockout.
const (
	decay = 1 << iota
	takeBack
)

// lease is how long reservations of throttles and windows last.
const lease = time.Minute

// AppendRule appends what the functions are told of a rule whose policy has its defaults filled
// in. Each of its partitions has a share of Capacity, at least one key.
func AppendRule(b []byte, r *guard.Rule, partitions int) []byte {
	switch {
	case r.Lockout != nil:
		p := r.Lockout
		free, first, most := int64(p.FreeFailures), micros(p.FirstLockout), int64(math.MaxInt32)
		longest, step, flags := micros(p.MaxLockout), micros(p.Window), byte(0)
		memory := longest + step
		if p.Decay {
			flags |= decay
			step = micros(max(1, p.Window/time.Duration(free)))
			for most = free; lockoutOf(most, free, first, longest) < longest; most++ {
			}
			memory = longest + times(step, most)
		}
		if p.OnSuccess == lockout.TakeBack {
			flags |= takeBack
		}
		b = header(b, kindLockout, flags, share(p.Capacity, partitions), p.InFlight, p.Lease, memory)
		return floats(b, free, first, longest, step, most)
	case r.Throttle != nil:
		p := r.Throttle
		b = header(b, kindThrottle, 0, share(p.Sources, partitions), p.InFlight, lease, micros(p.Window))
		return floats(b, int64(p.PerSource), int64(p.Global), micros(p.Window), 0, 0)
	}
	p := r.Window
	width, last := micros(p.Window), int64(0)
	if p.Sliding {
		width, last = micros((p.Window-1)/8+1), 8
	}
	b = header(b, kindWindow, 0, share(p.Capacity, partitions), p.InFlight, lease, times(width, last+1))
	return floats(b, int64(p.Limit), width, last, micros(p.Window), 0)
}

func header(b []byte, kind, flags byte, capacity, inFlight int, lease time.Duration, memory int64) []byte {
	b = append(b, kind, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(capacity))
	b = binary.LittleEndian.AppendUint32(b, uint32(inFlight))
	return floats(b, micros(lease), memory)
}

func floats(b []byte, vs ...int64) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
	}
	return b
}

func share(capacity, partitions int) int { return (capacity + partitions - 1) / partitions }

// longest is what durations end at, in microseconds: 71 years. Today and three of them are below
// 2^53.
const longest = 1 << 51

// micros rounds up.
func micros(d time.Duration) int64 {
	n := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		n++
	}
	return min(n, longest)
}

// times returns step n times, at most longest.
func times(step, n int64) int64 {
	if step > longest/n {
		return longest
	}
	return step * n
}

// lockoutOf returns how long the failure number count locks.
func lockoutOf(count, free, first, longest int64) int64 {
	if shift := count - free; shift < 63 && first <= longest>>shift {
		return first << shift
	}
	return longest
}
