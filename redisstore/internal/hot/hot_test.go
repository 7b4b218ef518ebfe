package hot

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/doorward/doorward"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func key(n int) doorward.Key {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|uint32(n))
	return doorward.KeyFromAddr(netip.AddrFrom4(b))
}

func locked(d time.Duration) doorward.Decision {
	return doorward.Decision{Reason: doorward.Locked, RetryAfter: d}
}

const minute = time.Minute

func TestOnlyOwnLockouts(t *testing.T) {
	for _, d := range []doorward.Decision{
		{},
		{Allowed: true},
		{Allowed: true, RetryAfter: minute, Reason: doorward.Locked},
		{Reason: doorward.Locked, RetryAfter: minute, Overflow: true},
		{Reason: doorward.Locked},
		{Reason: doorward.Busy, RetryAfter: time.Second},
		{Reason: doorward.Spent, RetryAfter: minute},
		{Reason: doorward.Ceiling, RetryAfter: minute},
		{Reason: doorward.Unavailable, RetryAfter: minute},
	} {
		h := New(0)
		h.Remember(h.News(), "own", key(1), d, start)
		if left := h.Locked("own", key(1), true, start); left != 0 {
			t.Errorf("%+v is remembered for %v", d, left)
		}
	}
}

// A row is what happens to one table, and how long a key is refused after it.
func TestLocked(t *testing.T) {
	type step struct {
		do    func(h *Table)
		at    time.Duration
		alone bool
		want  time.Duration
	}
	learn := func(d, left time.Duration) func(h *Table) {
		return func(h *Table) { h.Remember(h.News(), "own", key(1), locked(left), at(d)) }
	}
	none := func(*Table) {}
	subscribed := func(d time.Duration) func(h *Table) { return func(h *Table) { h.Subscribed(at(d)) } }
	heard := func(d time.Duration) func(h *Table) { return func(h *Table) { h.Heard(at(d)) } }
	const s = time.Second
	for name, steps := range map[string][]step{
		"the end of the lockout": {
			{subscribed(0), 0, false, 0},
			{learn(0, s/2), 0, false, s / 2},
			{none, s/2 - 1, false, 1},
			{none, s / 2, false, 0},
			{none, s / 2, true, 0},
		},
		"time that goes back": {
			{learn(s, s/2), s - 1, true, 0},
			{none, s, false, s / 2},
		},
		"told of no unlocks": {
			{learn(0, minute), s - 1, false, minute - s + 1},
			{none, s, false, 0},
			{none, s, true, minute - s},
			{heard(0), s - 1, false, minute - s + 1},
			{none, s, false, 0},
		},
		"told of unlocks": {
			{subscribed(0), 0, false, 0},
			{learn(1, minute), s - 1, false, minute - s + 2},
			{heard(s - 1), 2*s - 2, false, minute - 2*s + 3},
			{none, 2*s - 1, false, 0}, // silence
			{heard(30 * s), 30 * s, false, minute - 30*s + 1},
			{subscribed(31 * s), 31 * s, false, 0}, // something may have been missed
			{none, 31 * s, true, 0},
		},
		"told again": {
			{subscribed(0), 0, false, 0},
			{learn(0, s), 0, false, s},
			{learn(s, 2*s), s, false, 2 * s},
			{heard(s), 3*s - 1, true, 1},
			{none, 3 * s, true, 0},
		},
		"unlocked": {
			{learn(0, minute), 0, false, minute},
			{func(h *Table) { h.Forget("other", key(1)) }, 0, false, minute},
			{func(h *Table) { h.Forget("own", key(2)) }, 0, false, minute},
			{func(h *Table) { h.Forget("own", key(1)) }, 0, true, 0},
			{learn(0, minute), 0, false, minute},
			{func(h *Table) { h.ForgetAll("other") }, 0, false, minute},
			{func(h *Table) { h.ForgetAll("own") }, 0, true, 0},
			{learn(0, minute), 0, false, minute},
			{func(h *Table) { h.ForgetAll("") }, 0, true, 0},
		},
		"unlocked while the store was asked": {
			{func(h *Table) {
				news := h.News()
				h.Forget("other", key(2))
				h.Remember(news, "own", key(1), locked(minute), start)
			}, 0, true, 0},
			{func(h *Table) {
				news := h.News()
				h.Subscribed(start)
				h.Remember(news, "own", key(1), locked(minute), start)
			}, 0, true, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(64)
			for i, x := range steps {
				x.do(h)
				if left := h.Locked("own", key(1), x.alone, at(x.at)); left != x.want {
					t.Errorf("step %d: %v left after %v, want %v", i, left, x.at, x.want)
				}
				if left := h.Locked("else", key(1), true, at(x.at)); left != 0 {
					t.Errorf("step %d: another rule refuses for %v", i, left)
				}
			}
		})
	}
}

// Where all places are taken, what ended makes room, then what was told of first.
func TestFull(t *testing.T) {
	h := New(1) // one set
	if len(h.places) != ways {
		t.Fatalf("%d places, want %d", len(h.places), ways)
	}
	learn := func(n int, d, left time.Duration) { h.Remember(h.News(), "own", key(n), locked(left), at(d)) }
	known := func(d time.Duration) (n int) {
		for i := range 32 {
			if h.Locked("own", key(i), true, at(d)) > 0 {
				n |= 1 << i
			}
		}
		return n
	}
	for i := range ways {
		learn(i, time.Duration(i), minute)
	}
	if got := known(ways); got != 0xff {
		t.Fatalf("remembered %#x, want all eight", got)
	}
	learn(8, 8, minute)
	if got := known(8); got != 0x1fe {
		t.Errorf("remembered %#x, want all but the first", got)
	}
	h.Forget("own", key(5))
	if got := known(8); got != 0x1de {
		t.Errorf("remembered %#x, want all but the one that was unlocked", got)
	}
	learn(5, 8, minute)
	learn(3, 9, 10) // ends first
	if got := known(9); got != 0x1fe {
		t.Errorf("remembered %#x, want the same keys", got)
	}
	learn(9, 19, minute)
	if got := known(19); got != 0x3f6 {
		t.Errorf("remembered %#x, want the ninth in the place of what ended", got)
	}
	learn(10, 20, minute)
	if got := known(20); got != 0x7f4 {
		t.Errorf("remembered %#x, want the second gone, which was told of first", got)
	}
}

// At a quarter of its places a table remembers nearly all; it never grows.
func TestPlaces(t *testing.T) {
	h := New(0)
	if len(h.places) != DefaultPlaces {
		t.Errorf("%d places, want %d", len(h.places), DefaultPlaces)
	}
	if n := unsafe.Sizeof(entry{}); n > 96 {
		t.Errorf("an entry takes %d bytes, want at most 96", n)
	}
	n, known := DefaultPlaces/4, 0
	for i := range n {
		h.Remember(h.News(), "own", key(i), locked(minute), start)
	}
	for i := range n {
		if h.Locked("own", key(i), false, start) == minute {
			known++
		}
	}
	if known < n*99/100 {
		t.Errorf("%d of %d are remembered", known, n)
	}
}

// Whoever remembers while somebody unlocks, and asked before that, leaves nothing behind.
func TestUnlockRaces(t *testing.T) {
	h := New(1)
	var round, done atomic.Int64
	go func() {
		for n := int64(1); n <= races; n++ {
			for round.Load() < n {
				runtime.Gosched()
			}
			h.Forget("own", key(1))
			done.Store(n)
		}
	}()
	for n := int64(1); n <= races; n++ {
		news := h.News()
		round.Store(n)
		for range n % 32 { // not always at the same moment
			h.News()
		}
		h.Remember(news, "own", key(1), locked(minute), start)
		for done.Load() < n {
			runtime.Gosched()
		}
		if h.Locked("own", key(1), true, start) != 0 {
			t.Fatal("a lockout outlived its unlock")
		}
	}
}

const races = 100_000

// What the table says never differs from what a map of everything would say, but for what
// it does not remember.
func TestAgainstAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	h := New(16)
	ends := map[of]time.Time{}
	now := start
	h.Subscribed(now)
	hits := 0
	for range 60_000 {
		now = now.Add(time.Duration(rnd.IntN(20)) * time.Millisecond)
		h.Heard(now)
		o := of{[]string{"own", "pair"}[rnd.IntN(2)], key(rnd.IntN(24))}
		switch n := rnd.IntN(40); {
		case n == 0:
			h.Forget(o.rule, o.key)
			delete(ends, o)
		case n == 1 && rnd.IntN(10) == 0:
			h.ForgetAll(o.rule)
			for x := range ends {
				if x.rule == o.rule {
					delete(ends, x)
				}
			}
		case n < 10:
			if !ends[o].After(now) {
				ends[o] = now.Add(time.Duration(1 + rnd.IntN(int(10*time.Second))))
			}
			h.Remember(h.News(), o.rule, o.key, locked(ends[o].Sub(now)), now)
		}
		left := h.Locked(o.rule, o.key, rnd.IntN(2) == 0, now)
		if left != 0 && left != ends[o].Sub(now) {
			t.Fatalf("%v: %v left, want %v", o, left, ends[o].Sub(now))
		}
		if left > 0 {
			hits++
		}
	}
	if hits < 3_000 {
		t.Errorf("%d hits: the table remembers too little to be tested", hits)
	}
}

func TestNoAllocation(t *testing.T) {
	h := New(0)
	h.Remember(h.News(), "own", key(1), locked(minute), start)
	if n := testing.AllocsPerRun(1000, func() {
		h.Locked("own", key(1), false, start)
		h.Locked("own", key(2), false, start)
	}); n != 0 {
		t.Errorf("a question allocates %v times", n)
	}
}

// Who is meant is forgotten in one rule, and answers that are under way are too.
func TestForgetFunc(t *testing.T) {
	table := New(64)
	news := table.News()
	for i := range 8 {
		table.Remember(news, "own", key(i), locked(time.Minute), at(0))
		table.Remember(news, "wide", key(i), locked(time.Minute), at(0))
	}
	table.ForgetFunc("own", func(k doorward.Key) bool { return k == key(3) })
	for i := range 8 {
		own, wide := table.Locked("own", key(i), false, at(0)), table.Locked("wide", key(i), false, at(0))
		if own > 0 == (i == 3) || wide == 0 {
			t.Errorf("%d is locked for %v and %v", i, own, wide)
		}
	}
	table.Remember(news, "own", key(3), locked(time.Minute), at(0))
	if left := table.Locked("own", key(3), false, at(0)); left != 0 {
		t.Errorf("an answer from before is believed for %v", left)
	}
}

func BenchmarkLocked(b *testing.B) {
	h := New(0)
	now := time.Now()
	h.Remember(h.News(), "network", key(1), locked(minute), now)
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.Locked("network", key(1), false, now)
		}
	})
	b.Run("miss", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.Locked("network", key(2), false, now)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				h.Locked("network", key(1), false, now)
			}
		})
	})
}
