package window_test

import (
	"strings"
	"testing"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

const (
	fixed   = "limit=3 window=60 "
	sliding = "limit=3 window=80 sliding " // slices of ten seconds
)

// W1 to W5, each by name.
var ruleHistories = []history{
	{"W1 Limit requests pass, the rest waits for the end", fixed, `
		10 a allow -> allowed 2
		20 a allow -> allowed 1
		69 a allow -> allowed 0
		69 a allow -> spent 1
		69.999999999 a allow -> spent 0.000000001
		70 a allow -> allowed 2
		70 b allow -> allowed 2`},
	{"W1, D4 to be refused prolongs nothing", fixed, `
		0  a allow 3 -> allowed 0
		30 a allow -> spent 30
		59 a reserve x -> spent 1
		60 a allow -> allowed 2`},
	{"W1 the next window starts at its own first request", fixed, `
		0   a allow -> allowed 2
		100 a allow 3 -> allowed 0
		120 a allow -> spent 40
		160 a allow -> allowed 2`},
	{"W1 across the edge", fixed, `
		0  a allow   -> allowed 2
		59.999999999 a allow 2 -> allowed 0
		59.999999999 a allow -> spent 0.000000001
		60 a allow 3 -> allowed 0
		60 a allow -> spent 60`},
	{"AllowN is all or nothing", fixed, `
		0 a allow 2 -> allowed 1
		0 a allow 2 -> spent 60
		0 a allow 1 -> allowed 0`},
	{"AllowN of more than Limit has no time", fixed, `
		0 a allow 4 -> spent 0
		0 - tracked -> 0
		0 a allow 3 -> allowed 0
		0 a allow 4 -> spent 0`},
	{"AllowN of nothing is allowed and counts nothing", fixed, `
		0 a allow 0 -> allowed 3
		0 a allow -5 -> allowed 3
		0 - tracked -> 0
		0 a allow 3 -> allowed 0
		0 a allow -5 -> allowed 0
		0 a allow -> spent 60`},
	{"AllowN of more than an int32 holds", "limit=2147483647 window=60", `
		0 a allow 2147483647 -> allowed 0
		0 a allow -> spent 60
		0 b allow 4294967297 -> spent 0
		0 b allow 2147483646 -> allowed 1
		0 b reserve x -> allowed 0
		0 b reserve y -> spent 60`},

	{"W2 from rest Limit requests pass at once", sliding, `
		5  a allow 3 -> allowed 0
		5  a allow -> spent 90
		94.999999999 a allow -> spent 0.000000001
		95 a allow 3 -> allowed 0`},
	{"W2 slices from the first request", sliding, `
		3    a allow -> allowed 2
		12.999999999 a allow -> allowed 1
		13   a allow -> allowed 0
		13   a allow -> spent 80
		92.999999999 a allow -> spent 0.000000001
		93   a allow 2 -> allowed 0
		93   a allow -> spent 10
		103  a allow -> allowed 0
		103  a allow -> spent 80
		183  a allow 3 -> spent 10
		183  a allow 2 -> allowed 0`},
	{"W2 an interval of one Window, not a moment less", sliding, `
		0  a allow -> allowed 2
		9.999999999 a allow 2 -> allowed 0
		89.999999998 a allow -> spent 0.000000002
		89.999999999 a allow -> spent 0.000000001
		90 a allow 3 -> allowed 0`},
	{"W2 slices run on while anything counts", sliding, `
		0   a allow -> allowed 2
		85  a allow -> allowed 1
		90  a check -> allowed 1
		169.999999999 a check -> allowed 1
		170 a check -> allowed 2
		174 a allow 3 -> allowed 0
		174 a check -> spent 90`},
	{"W2 and start anew after rest", sliding, `
		0   a allow -> allowed 2
		96  a allow 3 -> allowed 0
		96  a allow -> spent 90`},
	{"W2 nine slices, one request each", "limit=9 window=80 sliding", `
		0  a allow -> allowed 8
		10 a allow -> allowed 7
		20 a allow -> allowed 6
		30 a allow -> allowed 5
		40 a allow -> allowed 4
		50 a allow -> allowed 3
		60 a allow -> allowed 2
		70 a allow -> allowed 1
		80 a allow -> allowed 0
		80 a allow -> spent 10
		80 a allow 2 -> spent 20
		80 a allow 9 -> spent 90
		80 a allow 10 -> spent 0
		90 a allow -> allowed 0
		90 a allow -> spent 10
		150 a allow 6 -> allowed 0
		150 a allow -> spent 10
		230 a allow 3 -> allowed 0
		230 a allow -> spent 10
		240 a allow 6 -> allowed 0
		240 a allow -> spent 80`},
	{"W2 Window is rounded up to a multiple of 8 ns", "limit=1 window=0.000000009 sliding", `
		0           a allow -> allowed 0
		0           a allow -> spent 0.000000018
		0.000000017 a allow -> spent 0.000000001
		0.000000018 a allow -> allowed 0`},
	{"W2 the least there is", "limit=1 window=0.000000001 sliding", `
		0           a allow -> allowed 0
		0.000000008 a allow -> spent 0.000000001
		0.000000009 a allow -> allowed 0`},
	{"W2 Limit up to 65,535", "limit=65535 window=80 sliding", `
		0  a allow 65534 -> allowed 1
		10 a allow 2 -> spent 80
		10 a allow -> allowed 0
		90 a allow 65534 -> allowed 0
		90 a allow -> spent 10`},
	{"P14 asking for a new code does not buy new guesses", "limit=3 window=600 sliding", `
		0 account-a allow -> allowed 2
		5 account-a allow -> allowed 1
		7 account-a allow -> allowed 0
		8 account-a allow -> spent 667
		8 account-b allow -> allowed 2`},

	{"W3 no address is one key", fixed, `
		0 0.0.0.0   allow -> allowed 2
		0 224.0.0.1 allow -> allowed 1
		0 255.255.255.255 allow -> allowed 0`},
	{"W4 an elapsed window is reclaimed when its room is asked for", fixed + "capacity=1", `
		0  a allow -> allowed 2
		59.999999999 b check -> allowed 2 overflow
		60 - tracked -> 1
		60 b allow -> allowed 2
		60 - tracked -> 1
		60 a check -> allowed 2 overflow`},
	{"W4 a sliding one when nothing counts", sliding + "capacity=1", `
		0  a allow -> allowed 2
		15 a allow -> allowed 1
		99.999999999 b check -> allowed 2 overflow
		100 b allow -> allowed 2`},

	{"W5 void takes back", fixed, `
		0 a reserve x -> allowed 2
		0 a reserve y -> allowed 1
		1 a settle x void
		1 a check -> allowed 1
		1 a settle y void
		1 - tracked -> 0
		2 a allow 3 -> allowed 0
		2 a check -> spent 60`},
	{"W5 nothing else changes a count", fixed, `
		0 a reserve x -> allowed 2
		0 a reserve y -> allowed 1
		0 a reserve z -> allowed 0
		0 a settle x succeeded
		0 a settle y failed
		0 a settle z malformed
		0 a check -> spent 60`},
	{"W5 only while its window runs", "limit=3 window=10", `
		0  a reserve x -> allowed 2
		9  a reserve y -> allowed 1
		10 a reserve z -> allowed 2
		10 a settle x void
		11 a settle y void
		11 a check -> allowed 1
		11 a settle z void
		11 a check -> allowed 2`},
	{"W5 also when nothing came after it", "limit=3 window=10", `
		0  a reserve x -> allowed 2
		10 a settle x void
		10 - tracked -> 0
		10 a allow -> allowed 2`},
	{"W5 only before a minute has passed", "limit=3 window=600", `
		0  a reserve x -> allowed 2
		0  a reserve y -> allowed 1
		59.999999999 a settle x void
		60 a settle y void
		60 a check -> allowed 1`},
	{"W5 a minute unsettled stays counted", "limit=1 window=600", `
		0   a reserve x -> allowed 0
		61  a check -> spent 539
		600 a check -> allowed 0`},
	{"W5 a window that began with what was taken back runs on", fixed, `
		0  a reserve x -> allowed 2
		30 a allow 2 -> allowed 0
		31 a settle x void
		31 a allow -> allowed 0
		31 a allow -> spent 29
		60 a allow -> allowed 2`},
	{"W5 no count goes below 0", fixed, `
		0 a reserve x -> allowed 2
		0 a settle x void
		0 a settle x void
		0 a reserve y -> allowed 2
		0 a settle x void
		0 a check -> allowed 1
		0 a unlock
		0 a settle y void
		0 a allow 3 -> allowed 0`},
	{"W5 nor after a reload", "limit=3 window=10 capacity=4 inflight=4", `
		0 a allow -> allowed 2
		5 a reserve x -> allowed 1
		5 - reload limit=3 window=3 capacity=4 inflight=4
		5 a reserve y -> allowed 2
		5 a settle x void
		5 a settle y void
		5 a check -> allowed 2`},
	{"W5 sliding: from the slice it was counted in", sliding, `
		0  a reserve w -> allowed 2
		15 a reserve x -> allowed 1
		25 a reserve y -> allowed 0
		30 a settle x void
		30 a allow -> allowed 0
		30 a settle w void
		30 a check -> allowed 0
		90 a check -> allowed 0
		110 a check -> allowed 1
		120 a check -> allowed 2`},
	{"W5 sliding: while its slice counts", "limit=3 window=8 sliding", `
		0.5 a reserve x -> allowed 2
		2   a reserve y -> allowed 1
		3   a reserve z -> allowed 0
		9.5 a check -> allowed 0
		9.5 a settle x void
		9.5 a check -> allowed 0
		10.499999999 a settle y void
		10.499999999 a check -> allowed 1
		11.5 a settle z void
		11.5 a check -> allowed 2`},
	{"W5 tickets settle once, for their key, not after Unlock or Clear", fixed, `
		0 a reserve x -> allowed 2
		0 b settle x void
		0 a settle x failed
		0 a settle x void
		0 a settle none void
		0 a settle forged void
		0 a check -> allowed 1
		0 a reserve y -> allowed 1
		0 - clear
		0 a allow -> allowed 2
		0 a settle y void
		0 a check -> allowed 1`},
	{"W5, T4 overflow: taken back there, and kept by every other outcome", fixed + "capacity=1", `
		0 a allow -> allowed 2
		0 b reserve x -> allowed 2 overflow
		0 c reserve y -> allowed 1 overflow
		0 c settle y succeeded
		0 c check -> allowed 0 overflow
		0 b settle x void
		0 c check -> allowed 1 overflow`},

	{"T7 Busy only where the pool is full", "limit=9 window=60 inflight=2", `
		0  a reserve x -> allowed 8
		59.5 a reserve y -> allowed 7
		59.5 a reserve z -> busy 0.5
		59.5 a allow -> allowed 6`},
	{"T0 a reservation keeps the entry for a minute", "limit=3 window=1 capacity=1", `
		0  a reserve x -> allowed 2
		59.999999999 b check -> allowed 2 overflow
		59.999999999 a check -> allowed 2
		60 b check -> allowed 2`},
	{"T4, T5 past Capacity", fixed + "capacity=1", `
		0 a allow -> allowed 2
		0 b allow 2 -> allowed 1 overflow
		0 c allow 2 -> spent 60 overflow
		0 ::1 allow 3 -> allowed 0
		0 127.0.0.1 allow -> allowed 2
		0 - tracked -> 3
		1 a unlock
		1 c allow -> allowed 2`},
	{"T9 going back in time admits nothing more", sliding, `
		100 a allow 3 -> allowed 0
		0   a allow -> spent 90
		189 a allow -> spent 1
		50  a allow -> spent 1
		190 a allow -> allowed 2`},
	{"Check adds no entry", fixed, `
		0 a check -> allowed 2
		0 - tracked -> 0`},

	{"a reload keeps what was counted", fixed + "capacity=4 inflight=4", `
		0  a allow 3 -> allowed 0
		0  b reserve x -> allowed 2
		10 - reload limit=5 window=120 capacity=4 inflight=4
		10 a allow 2 -> allowed 0
		10 a allow -> spent 110
		10 b settle x void
		10 b check -> allowed 4
		10 - reload limit=1 window=30 capacity=4 inflight=4
		10 a allow -> spent 20
		10 a allow 0 -> allowed 0
		30 a allow -> allowed 0`},
	{"a reload to sliding: as if admitted at the latest time before", fixed + "capacity=4 inflight=4", `
		0  a allow -> allowed 2
		50 a allow -> allowed 1
		52 b reserve x -> allowed 2
		52.5 a check -> allowed 0
		52.5 - reload limit=3 window=80 sliding capacity=4 inflight=4
		53 a allow -> allowed 0
		53 b settle x void
		53 b check -> allowed 1
		142.499999999 a check -> spent 0.000000001
		142.5 a check -> allowed 2`},
	{"a reload from sliding, or of its window", sliding + "capacity=4 inflight=4", `
		0  a allow -> allowed 2
		50 a allow -> allowed 1
		90 a check -> allowed 1
		90 - reload limit=3 window=800 sliding capacity=4 inflight=4
		989.999999999 a check -> allowed 1
		989.999999999 a allow -> allowed 1
		989.999999999 - reload limit=3 window=100 capacity=4 inflight=4
		989.999999999 a check -> allowed 0
		1089.999999998 a check -> allowed 0
		1089.999999999 a check -> allowed 2`},
	{"a reload that changes only Limit dates nothing anew", sliding + "capacity=4 inflight=4", `
		0  a allow 2 -> allowed 1
		50 - reload limit=4 window=80 sliding capacity=4 inflight=4
		50 a allow 2 -> allowed 0
		50 a allow -> spent 40
		90 a allow -> allowed 1`},
	{"a reload from more than sliding can count", "limit=100000 window=60 capacity=4 inflight=4", `
		0  a allow 100000 -> allowed 0
		0  - reload limit=65535 window=80 sliding capacity=4 inflight=4
		0  a allow -> spent 90
		10 a allow -> spent 80
		90 a check -> allowed 65534`},
	{"a reload that is refused changes nothing", fixed + "capacity=4 inflight=4", `
		0 - reload limit=9 capacity=5 inflight=4 -> window: Capacity cannot change in a reload, from 4 to 5
		0 - reload limit=9 inflight=4 -> window: Capacity cannot change in a reload, from 4 to 65536
		0 - reload limit=9 capacity=4 inflight=5 -> window: InFlight cannot change in a reload, from 4 to 5
		0 - reload limit=-1 capacity=4 inflight=4 -> window: Limit must be 1 to 2147483647, got -1
		0 a check -> allowed 2`},
}

func TestRules(t *testing.T) {
	for _, h := range ruleHistories {
		t.Run(h.name, h.play)
	}
}

// W3: names that are too long share one key.
func TestLongNames(t *testing.T) {
	l := must(window.New(policyOf(fixed)))
	long := strings.Repeat("x", doorward.MaxNameLength)
	l.Allow(doorward.KeyFromName(long), start)
	l.Allow(doorward.KeyFromName(long+"1"), start)
	if d := l.Allow(doorward.KeyFromName(long+"2"), start); d.Remaining != 1 {
		t.Errorf("%+v", d)
	}
}
