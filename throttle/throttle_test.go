package throttle_test

import "testing"

const small = "source=2 global=4 window=60 "

// R1 to R7, each by name.
var ruleHistories = []history{
	{"R1 the window starts at the first refusal", small, `
		10           a refused
		69           a refused
		69           a blocked -> spent 1
		69.999999999 a blocked -> spent 0.000000001
		70           a blocked -> allowed 1`},
	{"R1 and what comes after its end starts another", small, `
		0   a refused
		60  a refused
		60  a blocked -> allowed 0
		60  a refused
		119.999999999 a blocked -> spent 0.000000001
		120 a blocked -> allowed 1`},
	{"R1 the global window is its own", small, `
		0  a refused
		30 b refused 2
		30 c refused
		30 d blocked -> ceiling 30
		60 d blocked -> allowed 1
		60 b blocked -> spent 30
		90 b blocked -> allowed 1`},
	{"R1 a refusal by source starts no global window", small, `
		0  a bysource
		50 b refused 2
		50 c refused 2
		60 d blocked -> ceiling 50
		110 d blocked -> allowed 1`},

	{"R2 PerSource is spent exactly", small, `
		0 a blocked -> allowed 1
		0 a refused
		0 a blocked -> allowed 0
		0 a refused
		0 a blocked -> spent 60
		0 b blocked -> allowed 1`},
	{"R2 Global is spent exactly", small, `
		0 a refused
		0 b refused
		0 c refused
		0 d blocked -> allowed 0
		0 d refused
		0 e blocked -> ceiling 60
		0 d blocked -> ceiling 60`},
	{"R2 both: Spent with the longer wait, the key's", small, `
		0  b refused 2
		20 a refused 2
		20 a blocked -> spent 60
		60 a blocked -> spent 20
		80 a blocked -> allowed 1`},
	{"R2 both: Spent with the longer wait, that of all", "source=1 global=2 window=60", `
		0  a bysource
		10 b refused
		10 c refused
		10 a blocked -> spent 60
		60 a blocked -> ceiling 10
		70 a blocked -> allowed 0`},
	{"R2, D4 to be refused prolongs nothing", small, `
		0  a refused 2
		30 a blocked -> spent 30
		30 a reserve x -> spent 30
		59 a blocked -> spent 1
		60 a blocked -> allowed 1`},
	{"R2 Busy by pending of the key alone", small, `
		0 a refused
		0 a reserve x -> allowed 0
		0 a blocked -> busy 1
		0 b blocked -> allowed 1
		0 a settle x void
		0 a blocked -> allowed 0`},
	{"R2 Busy by what is pending in all", small, `
		0 a reserve w -> allowed 1
		0 b reserve x -> allowed 1
		0 c reserve y -> allowed 1
		0 d refused
		0 e blocked -> busy 1
		0 e reserve z -> busy 1
		0 a settle w succeeded
		0 e blocked -> allowed 0`},
	{"R2 what all refusals spent is a Ceiling whatever is pending", small, `
		0 a reserve x -> allowed 1
		0 a refused
		0 b refused 2
		0 c refused
		0 a blocked -> ceiling 60`},
	{"R2 a key's own limit is Spent whatever is pending", small, `
		0 b reserve w -> allowed 1
		0 c reserve x -> allowed 1
		0 c reserve y -> allowed 0
		0 a refused 2
		0 a blocked -> spent 60`},

	{"R3 Refused charges both, also past the limits", small, `
		0 a refused 4
		0 b blocked -> ceiling 60
		0 a blocked -> spent 60`},
	{"R3 RefusedBySource charges the key alone", small, `
		0 a bysource 100
		0 a blocked -> spent 60
		0 b blocked -> allowed 1
		0 b refused 2
		0 c refused
		0 d blocked -> allowed 0`},

	{"R4 Accepted clears the key", small, `
		0 a refused 2
		1 a accepted
		1 a blocked -> allowed 1
		1 - tracked -> 0
		1 a refused
		60.999999999 a blocked -> allowed 0
		61 a blocked -> allowed 1`},
	{"R4 and not what all share", small, `
		0 a refused 4
		1 a accepted
		1 a blocked -> ceiling 59
		1 b blocked -> ceiling 59`},
	{"R4 nor what others have pending", small, `
		0 a reserve x -> allowed 1
		0 a refused
		0 a accepted
		0 a blocked -> allowed 0`},
	{"R4 of a key that nothing is known of", small, `
		0 a accepted
		0 - tracked -> 0`},

	{"R5 past Sources they share one entry", small + "sources=1", `
		0 a refused
		0 b refused
		0 c blocked -> allowed 0 overflow
		0 c refused
		0 d blocked -> spent 60 overflow
		0 a blocked -> allowed 0`},
	{"R5 which charges all as well", small + "sources=1", `
		0 a refused
		0 b bysource
		0 b refused 3
		0 a blocked -> ceiling 60`},
	{"R5 and no success clears it", small + "sources=1", `
		0 a refused
		0 b refused
		0 b accepted
		0 b blocked -> allowed 0 overflow
		0 b reserve x -> allowed 0 overflow
		0 b settle x succeeded
		0 b blocked -> allowed 0 overflow
		0 b reserve y -> allowed 0 overflow
		0 b settle y failed
		0 c blocked -> spent 60 overflow`},
	{"R5 a ceiling there is one", small + "sources=1", `
		0 a refused 4
		0 b blocked -> ceiling 60 overflow`},
	{"R5, T4 a fresh count after room is made", small + "sources=1", `
		0 a refused
		0 b refused 2
		0 b blocked -> spent 60 overflow
		0 a accepted
		0 b blocked -> allowed 0`},
	{"R5, T5 loopback has its own", small + "global=100 sources=1", `
		0 a refused
		0 127.0.0.1 refused 2
		0 ::1 refused
		0 127.0.0.1 blocked -> spent 60
		0 ::1 blocked -> allowed 0
		0 b blocked -> allowed 1 overflow
		0 - tracked -> 3`},

	{"R6 what a source is refused by its own limit, nobody pays", small, `
		0 a refused 2
		0 a reserve x -> spent 60
		0 a reserve x -> spent 60
		0 a reserve x -> spent 60
		0 a settle x failed
		0 b blocked -> allowed 1
		0 b reserve y -> allowed 1
		0 b settle y failed
		0 b blocked -> allowed 0`},

	{"R7 no burst passes", small, `
		0 a reserve x -> allowed 1
		0 a reserve y -> allowed 0
		0 a reserve z -> busy 1
		0 a settle x failed
		0 a reserve z -> busy 1
		0 a settle y failed
		0 a reserve z -> spent 60`},
	{"R7 failed is Refused", small, `
		0 a reserve x -> allowed 1
		0 b reserve y -> allowed 1
		5 a settle x failed
		6 b settle y failed
		6 a blocked -> allowed 0
		6 b blocked -> allowed 0
		6 c refused
		6 d refused
		6 d blocked -> ceiling 59
		64.999999999 a blocked -> ceiling 0.000000001
		65 a blocked -> allowed 1`},
	{"R7 malformed is RefusedBySource", small, `
		0 a reserve x -> allowed 1
		0 a reserve y -> allowed 0
		0 a settle x malformed
		0 a settle y malformed
		0 a blocked -> spent 60
		0 b refused 3
		0 c blocked -> allowed 0`},
	{"R7 succeeded is Accepted", small, `
		3 a refused
		4 a reserve x -> allowed 0
		5 a settle x succeeded -> cleared 1 since 3
		5 a blocked -> allowed 1
		5 - tracked -> 0
		5 a reserve y -> allowed 1
		5 a settle y succeeded`},
	{"R7 and clears not what others have pending", small, `
		0 a reserve x -> allowed 1
		0 a reserve y -> allowed 0
		0 a settle x succeeded
		0 a blocked -> allowed 0
		1 a settle y failed
		1 a blocked -> allowed 0`},
	{"R7 void takes back", small, `
		0 a reserve x -> allowed 1
		0 a settle x void
		0 - tracked -> 0
		0 a refused
		0 a reserve y -> allowed 0
		0 a settle y void
		0 a blocked -> allowed 0`},
	{"R7, L7 a minute unsettled is Refused, dated then", "source=1 global=2 window=30", `
		0 a reserve x -> allowed 0
		59.999999999 a blocked -> busy 0.000000001
		61 a settle x void
		61 a blocked -> spent 29
		61 b blocked -> allowed 0
		61 b refused
		61 c blocked -> ceiling 29
		90 a blocked -> allowed 0`},
	{"R7, L7 in order, also for all", "source=1 global=2 window=10", `
		0  a reserve x -> allowed 0
		8  b reserve y -> allowed 0
		69 c blocked -> ceiling 1
		69 b blocked -> spent 9
		70 c blocked -> allowed 0
		70 b blocked -> spent 8`},
	{"R7, L7 tickets settle once, for their key, not after Unlock or Clear", small, `
		0 a reserve x -> allowed 1
		0 b settle x failed
		0 a settle x failed
		0 a settle x failed
		0 a settle none failed
		0 a settle forged failed
		0 a blocked -> allowed 0
		0 a reserve y -> allowed 0
		0 a unlock
		0 a settle y failed
		0 a blocked -> allowed 1
		0 a reserve z -> allowed 1
		0 - clear
		0 a settle z failed
		0 a blocked -> allowed 1`},

	{"D3 the limit that is full only with what is pending is waited for", "source=1 global=2 window=10", `
		0  a bysource
		5  b refused
		6  c reserve x -> allowed 0
		7  a blocked -> spent 8
		14.999999999 a blocked -> busy 1
		15 a blocked -> allowed 0`},
	{"D3 the same for a ceiling", "source=2 global=2 window=10", `
		0  b reserve w -> allowed 1
		1  b settle w failed
		1  c reserve x -> allowed 0
		2  c bysource
		2  d refused
		2  c blocked -> ceiling 10
		10.999999999 c blocked -> ceiling 1.000000001
		12 c blocked -> allowed 0`},
	{"D3 Remaining is what both limits leave", small, `
		0 a blocked -> allowed 1
		0 b refused 3
		0 a blocked -> allowed 0`},
	{"D3 Blocked adds no entry", small, `
		0 a blocked -> allowed 1
		0 - tracked -> 0`},
	{"T0 pending is live", small + "sources=1", `
		0  a reserve x -> allowed 1
		59 b blocked -> allowed 1 overflow
		60 b blocked -> allowed 1 overflow
		120 b blocked -> allowed 1`},
	{"T7 a full pool is Busy until its first lease ends", "source=9 global=9 window=60 inflight=2", `
		0    a reserve x -> allowed 8
		59.5 b reserve y -> allowed 7
		59.5 c reserve z -> busy 0.5
		59.5 c blocked -> allowed 6`},
	{"T9 going back in time admits nothing more", small, `
		100 a refused 2
		0   a blocked -> spent 60
		159 a blocked -> spent 1
		50  a accepted
		50  a refused
		160 a blocked -> allowed 0
		219 a blocked -> allowed 1`},
	{"Unlock forgets the key, Clear what all share too", small, `
		0 a refused 4
		0 a unlock
		0 - tracked -> 0
		0 a blocked -> ceiling 60
		0 - clear
		0 a blocked -> allowed 1`},
	{"a reload keeps what was counted", small + "sources=8 inflight=8", `
		0  a refused
		0  b refused
		0  b reserve x -> allowed 0
		1  - reload source=3 global=5 window=120 sources=8 inflight=8
		1  a blocked -> allowed 1
		1  b blocked -> allowed 0
		1  b settle x failed
		1  c refused 2
		1  d blocked -> ceiling 119
		119.999999999 a blocked -> ceiling 0.000000001
		120 a blocked -> allowed 2
		120 - reload source=3 sources=9 inflight=8 -> throttle: Sources cannot change in a reload, from 8 to 9
		120 - reload source=3 inflight=8 -> throttle: Sources cannot change in a reload, from 8 to 4096
		120 - reload source=3 sources=8 inflight=9 -> throttle: InFlight cannot change in a reload, from 8 to 9
		120 - reload source=65536 sources=8 inflight=8 -> throttle: PerSource must be at most 65535, got 65536
		120 - clear
		120 a blocked -> allowed 2`},
}

func TestRules(t *testing.T) {
	for _, h := range ruleHistories {
		t.Run(h.name, h.play)
	}
}
