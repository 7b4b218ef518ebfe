package lockout_test

import "testing"

// G3, T0 to T10 and D3, each by name, as a Limiter shows them.
var tableHistories = []history{
	{"G3 what surely still counts is given back", three + "takeback", `
		0 a attempt -> allowed 2
		1 a attempt -> allowed 1
		2 a giveback 1 since 1
		2 a check   -> allowed 1
		2 a giveback 5 since 0
		2 - tracked -> 0`},
	{"G3 not what is older than the count", three + "takeback", `
		0 a attempt -> allowed 2
		0 a attempt -> allowed 1
		1 a giveback 1 since -0.000000001
		1 a giveback 0 since 0
		1 a giveback -1 since 0
		1 b giveback 1 since 0
		1 a check   -> allowed 0`},
	{"G3 nor older than the end of a lockout", "free=2 window=60 first=10 max=10 takeback", `
		0  a attempt -> allowed 1
		0  a attempt -> allowed 0
		5  a giveback 1 since 0
		5  a giveback 1 since 10
		5  a check   -> locked 5
		11 a giveback 1 since 9.999999999
		11 a check   -> allowed 0
		11 a giveback 1 since 10
		11 a reserve x -> allowed 0
		11 a reserve y -> busy 1
		12 a settle x void
		12 a giveback 1 since 10
		12 a check   -> allowed 1`},
	{"G3 nor older than a decay step", three + "decay takeback", `
		0  a attempt -> allowed 2
		0  a attempt -> allowed 1
		0  a check   -> allowed 0
		21 a giveback 1 since 19.999999999
		21 a check   -> allowed 1
		21 a giveback 1 since 20
		21 - tracked -> 0`},

	{"T0 live until its forget time, not a nanosecond longer", "free=3 window=60 first=10 max=10 capacity=1", `
		0            a attempt -> allowed 2
		59.999999999 b check   -> allowed 2 overflow
		60           b attempt -> allowed 2
		60           a check   -> allowed 2 overflow`},
	{"T0 with nothing left to remember, at once", three + "capacity=1", `
		0 a reserve x -> allowed 2
		0 b check     -> allowed 2 overflow
		0 a settle x void
		0 b attempt   -> allowed 2
		0 b succeeded
		0 c reserve y -> allowed 2
		0 c settle y succeeded
		0 d attempt   -> allowed 2
		0 d unlock
		0 e attempt   -> allowed 2`},
	{"T0 pending is live, its failures are forgotten all the same", three + "capacity=1", `
		0  a attempt   -> allowed 2
		59 a reserve x -> allowed 1
		60 a check     -> allowed 1
		118.999999999 b check -> allowed 2 overflow
		119 b check    -> allowed 2 overflow
		179 b check    -> allowed 2`},
	{"T1, T3 capacity, one less and one more", three + "capacity=2", `
		0 a attempt -> allowed 2
		0 b check   -> allowed 2
		0 b attempt -> allowed 2
		0 c attempt -> allowed 2 overflow
		0 - tracked -> 2`},
	{"T2 others do not shorten a lockout", "free=1 window=60 first=10 max=10 capacity=1", `
		0 a attempt -> allowed 0
		1 b attempt -> allowed 0 overflow
		2 c attempt -> locked 9 overflow
		9.999999999 a attempt -> locked 0.000000001`},
	{"T3 forgotten entries go first", three + "capacity=2", `
		0  a attempt -> allowed 2
		30 b attempt -> allowed 2
		60 c attempt -> allowed 2
		60 b check   -> allowed 1
		60 a check   -> allowed 2 overflow
		60 - tracked -> 2`},
	{"T3 an entry that is forgotten is a new key's, its own too", three + "capacity=1", `
		0  a attempt -> allowed 2
		60 a attempt -> allowed 2
		61 b check   -> allowed 2 overflow`},
	{"T4 one budget and one lockout for all", three + "capacity=1", `
		0 a attempt -> allowed 2
		0 b attempt -> allowed 2 overflow
		0 c attempt -> allowed 1 overflow
		0 d attempt -> allowed 0 overflow
		1 e attempt -> locked 9 overflow
		1 a attempt -> allowed 1`},
	{"T4, L5 no success clears it", three + "capacity=1", `
		0 a attempt   -> allowed 2
		0 b attempt   -> allowed 2 overflow
		0 b succeeded
		0 b reserve x -> allowed 1 overflow
		0 b settle x succeeded
		0 c check     -> allowed 1 overflow`},
	{"T4 a reservation can be taken back, or fail there", three + "capacity=1", `
		0 a attempt   -> allowed 2
		0 b reserve x -> allowed 2 overflow
		0 c check     -> allowed 1 overflow
		0 b settle x void
		0 c check     -> allowed 2 overflow
		0 b reserve y -> allowed 2 overflow
		0 c settle y void
		0 b settle y failed
		0 c check     -> allowed 1 overflow`},
	{"T4, L7 a ticket of the overflow entry settles there", three + "capacity=1", `
		0 a attempt   -> allowed 2
		0 b reserve x -> allowed 2 overflow
		0 a unlock
		0 b attempt   -> allowed 2
		0 b settle x succeeded
		0 b check     -> allowed 1
		0 c check     -> allowed 2 overflow`},
	{"T4 after room is made, a fresh count", three + "capacity=1", `
		0 a attempt -> allowed 2
		0 b attempt -> allowed 2 overflow
		0 b attempt -> allowed 1 overflow
		1 a succeeded
		1 b attempt -> allowed 2`},
	{"T4, L4 the overflow entry forgets as others do", three + "capacity=1", `
		0  a attempt -> allowed 2
		0  b attempt -> allowed 2 overflow
		30 a attempt -> allowed 1
		60 b attempt -> allowed 2 overflow`},
	{"T5 loopback has its own, past capacity too", three + "capacity=1", `
		0 a         attempt -> allowed 2
		0 127.0.0.1 attempt -> allowed 2
		0 ::1       attempt -> allowed 2
		0 127.9.9.9 attempt -> allowed 1
		0 b         attempt -> allowed 2 overflow
		0 -         tracked -> 3`},
	{"T5 and takes no one's room", three + "capacity=1", `
		0 127.0.0.1 attempt -> allowed 2
		0 ::1       attempt -> allowed 2
		0 a         attempt -> allowed 2`},
	{"T5 and is otherwise like any key", three + "capacity=1", `
		0  ::1 attempt -> allowed 2
		0  ::1 attempt -> allowed 1
		0  ::1 attempt -> allowed 0
		0  ::1 attempt -> locked 10
		0  127.0.0.1 attempt -> allowed 2
		70 ::1 attempt -> allowed 2
		70 ::1 succeeded
		70 127.0.0.1 unlock
		70 - tracked -> 0`},
	{"T7 a full pool is Busy until its first lease ends", three + "inflight=2 lease=5", `
		0   a reserve x -> allowed 2
		4.5 b reserve y -> allowed 2
		4.5 c reserve z -> busy 0.5
		4.5 c attempt   -> allowed 2
		4.5 c settle z failed
		4.5 b settle y void
		4.5 c reserve z -> allowed 1
		4.5 d reserve w -> busy 0.5
		5   d reserve w -> allowed 2`},
	{"T9 going back in time admits nothing more", three, `
		100 a attempt -> allowed 2
		100 a attempt -> allowed 1
		100 a attempt -> allowed 0
		0   a attempt -> locked 10
		110 a attempt -> allowed 0
		109 a attempt -> locked 20`},
	{"T9 before the first now", three, `
		0    a attempt -> allowed 2
		-999 a attempt -> allowed 1
		60   a check   -> allowed 2`},
	{"T10 what is forgotten may be tracked still", three + "capacity=2", `
		0  a attempt -> allowed 2
		0  b attempt -> allowed 2
		0  127.0.0.1 attempt -> allowed 2
		0  ::1 attempt -> allowed 2
		0  c attempt -> allowed 2 overflow
		99 - tracked -> 4
		99 - clear
		99 - tracked -> 0`},

	{"D3 Busy is a second or the first lease end", three + "lease=5", `
		0   a reserve x -> allowed 2
		1   a reserve y -> allowed 1
		1   a reserve z -> allowed 0
		2   a attempt   -> busy 1
		4.5 a attempt   -> busy 0.5
		4.5 a settle x void
		4.5 a attempt   -> allowed 0
		4.5 a attempt   -> busy 1`},
	{"D3 Check adds no entry", three, `
		0 a check   -> allowed 2
		0 - tracked -> 0`},
	{"D3 Remaining counts what is pending", three, `
		0 a reserve x -> allowed 2
		0 a check     -> allowed 1
		0 a attempt   -> allowed 1`},
	{"K5 Unknown is one key for all", three + "capacity=3", `
		0 0.0.0.0   attempt -> allowed 2
		0 224.0.0.1 attempt -> allowed 1
		0 a         attempt -> allowed 2`},
}

func TestTable(t *testing.T) {
	for _, h := range tableHistories {
		t.Run(h.name, h.play)
	}
}
