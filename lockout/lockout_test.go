package lockout_test

import "testing"

const three = "free=3 window=60 first=10 max=35 "

// L1 to L10, each by name.
var lockoutHistories = []history{
	{"the worked example", three, `
		0            a attempt -> allowed 2
		1            a attempt -> allowed 1
		2            a attempt -> allowed 0
		2.5          a attempt -> locked 9.5
		12           a attempt -> allowed 0
		31.999999999 a attempt -> locked 0.000000001
		32           a attempt -> allowed 0
		66.999999999 a attempt -> locked 0.000000001
		67           a attempt -> allowed 0
		161.999999999 a attempt -> allowed 0
		162          a attempt -> locked 34.999999999`},
	{"the worked example, forgotten at 162", three, `
		0   a attempt -> allowed 2
		1   a attempt -> allowed 1
		2   a attempt -> allowed 0
		12  a attempt -> allowed 0
		32  a attempt -> allowed 0
		67  a attempt -> allowed 0
		162 a attempt -> allowed 2`},
	{"each failure falls inside the window of the one before", three, `
		0   a attempt -> allowed 2
		59  a attempt -> allowed 1
		118 a attempt -> allowed 0
		118 a attempt -> locked 10`},

	{"L1, T6 at one instant", three, `
		0 a attempt -> allowed 2
		0 a attempt -> allowed 1
		0 a attempt -> allowed 0
		0 a attempt -> locked 10
		0 a attempt -> locked 10
		0 b attempt -> allowed 2`},
	{"L2 one free failure", "free=1 window=60 first=10 max=10", `
		0  a attempt -> allowed 0
		0  a attempt -> locked 10
		10 a attempt -> allowed 0
		10 a attempt -> locked 10`},
	{"L2 doubled once and capped between two powers", "free=1 window=100 first=3 max=7", `
		0  a attempt -> allowed 0
		0  a check   -> locked 3
		3  a attempt -> allowed 0
		3  a check   -> locked 6
		9  a attempt -> allowed 0
		9  a check   -> locked 7
		16 a attempt -> allowed 0
		16 a check   -> locked 7`},
	{"L3, D4 refused attempts prolong nothing", three, `
		0 a attempt -> allowed 2
		0 a attempt -> allowed 1
		0 a attempt -> allowed 0
		3 a attempt -> locked 7
		9 a attempt -> locked 1
		9 a reserve x -> locked 1
		10 a attempt -> allowed 0
		10 a check  -> locked 20`},
	{"L4 a window after the last failure", three, `
		0            a attempt -> allowed 2
		1            a attempt -> allowed 1
		60.999999999 a check   -> allowed 0
		61           a check   -> allowed 2`},
	{"L4 a window after the end of the lockout", "free=2 window=5 first=100 max=100", `
		0             a attempt -> allowed 1
		0             a attempt -> allowed 0
		104.999999999 a check   -> allowed 0
		105           a check   -> allowed 1`},
	{"L5 Succeeded clears failures and lockout, newer ones too", three, `
		0 a attempt -> allowed 2
		0 a attempt -> allowed 1
		0 a attempt -> allowed 0
		1 a succeeded
		1 a attempt -> allowed 2`},
	{"L5 right after right costs nothing", three, `
		0 a attempt -> allowed 2
		0 a succeeded
		0 a attempt -> allowed 2
		0 a succeeded
		0 - tracked -> 0`},
	{"L5 of a key that nothing is known of", three, `
		0 a succeeded
		0 - tracked -> 0`},
	{"L5 leaves others' pending alone", three, `
		0 a reserve x -> allowed 2
		0 a attempt   -> allowed 1
		0 a succeeded
		0 a check     -> allowed 1
		1 a settle x failed
		1 a check     -> allowed 1`},

	{"L6 in flight is not failed", three, `
		0 a reserve x -> allowed 2
		0 a reserve y -> allowed 1
		0 a reserve z -> allowed 0
		0 a reserve w -> busy 1
		0 a attempt   -> busy 1
		0 a check     -> busy 1
		1 a settle x succeeded
		1 a settle y succeeded
		1 a settle z succeeded
		1 - tracked -> 0`},
	{"L6 failures settle, the last locks from then", three, `
		0 a reserve x -> allowed 2
		0 a reserve y -> allowed 1
		0 a reserve z -> allowed 0
		1 a settle x failed
		2 a settle y malformed
		2 a check     -> busy 1
		5 a settle z failed
		5 a check     -> locked 10`},
	{"L6 failures and pending together", three, `
		0 a attempt   -> allowed 2
		0 a reserve x -> allowed 1
		0 a reserve y -> allowed 0
		0 a reserve z -> busy 1
		0 a settle x void
		0 a attempt   -> allowed 0
		0 a attempt   -> busy 1
		0 a settle y failed
		0 a attempt   -> locked 10`},
	{"L6 past the free ones, one at a time", three, `
		0  a attempt   -> allowed 2
		0  a attempt   -> allowed 1
		0  a attempt   -> allowed 0
		10 a reserve x -> allowed 0
		10 a reserve y -> busy 1
		10 a attempt   -> busy 1
		12 a settle x failed
		12 a check     -> locked 20
		32 a reserve x -> allowed 0
		33 a settle x void
		33 a reserve x -> allowed 0
		34 a settle x succeeded -> cleared 4 since 0
		34 a attempt   -> allowed 2`},
	{"L6 a success clears failures, not others' pending", three, `
		0 a attempt   -> allowed 2
		1 a reserve x -> allowed 1
		1 a reserve y -> allowed 0
		2 a settle x succeeded -> cleared 1 since 0
		2 a check     -> allowed 1
		3 a settle y failed
		3 a check     -> allowed 1`},
	{"L6 void is as if it had not been", three, `
		0  a attempt   -> allowed 2
		59 a reserve x -> allowed 1
		59 a settle x void
		60 a attempt   -> allowed 2`},

	{"L7 a lease that ends is a failure, dated then", three + "lease=5", `
		0  a reserve x -> allowed 2
		4.999999999 a check -> allowed 1
		5  a settle x succeeded
		5  a check     -> allowed 1
		64.999999999 a check -> allowed 1
		65 a check     -> allowed 2`},
	{"L7 whether anybody looks or not", three + "lease=5", `
		0  a reserve x -> allowed 2
		1  a reserve y -> allowed 1
		2  a reserve z -> allowed 0
		9  a check     -> locked 8`},
	{"L7 leases end in order, and what they add up to is forgotten in time", three + "lease=5", `
		0  a attempt   -> allowed 2
		0  a reserve x -> allowed 1
		58 a attempt   -> allowed 0
		58 a check     -> locked 10
		68 a reserve y -> allowed 0
		73 a check     -> locked 20
		152.999999999 a check -> allowed 0
		153 a check    -> allowed 2`},
	{"L7 no lease is a minute", "free=1 window=3600 first=10 max=10", `
		0  a reserve x -> allowed 0
		59.999999999 a check -> busy 0.000000001
		60 a check     -> locked 10`},
	{"L7 no lease is a window if that is shorter", "free=1 window=7 first=10 max=10", `
		0 a reserve x -> allowed 0
		7 a check     -> locked 10`},
	{"L7 a ticket settles once", three, `
		0 a reserve x -> allowed 2
		0 a settle x failed
		0 a settle x failed
		0 a settle x succeeded
		0 a check     -> allowed 1`},
	{"L7 for its own key", three, `
		0 a reserve x -> allowed 2
		0 b attempt   -> allowed 2
		0 b settle x succeeded
		0 b check     -> allowed 1
		0 a check     -> allowed 1`},
	{"L7 not after Unlock", three, `
		0 a reserve x -> allowed 2
		0 a unlock
		0 a settle x failed
		0 a attempt   -> allowed 2
		0 a settle x succeeded
		0 a check     -> allowed 1`},
	{"L7 not after Clear", three + "capacity=1", `
		0 a reserve x -> allowed 2
		0 b reserve y -> allowed 2 overflow
		0 - clear
		0 c reserve z -> allowed 2
		0 a settle x failed
		0 b settle y failed
		0 c check     -> allowed 1
		0 b check     -> allowed 2 overflow`},
	{"L7 nor out of thin air", three, `
		0 a reserve x -> allowed 2
		0 a settle none failed
		0 a settle forged failed
		0 a check     -> allowed 1`},
	{"L7 a slot that is used again has another name", three + "inflight=1", `
		0 a reserve x -> allowed 2
		0 a settle x void
		0 a reserve y -> allowed 2
		0 a settle x succeeded
		0 a check     -> allowed 1`},

	{"L8 TakeBack takes one back and ends the lockout", three + "takeback", `
		0 a attempt -> allowed 2
		0 a attempt -> allowed 1
		0 a attempt -> allowed 0
		1 a check   -> locked 9
		1 a succeeded
		1 a check   -> allowed 0
		1 a attempt -> allowed 0
		1 a check   -> locked 10`},
	{"L8 the forget time stays", three + "takeback", `
		0 a attempt -> allowed 2
		0 a attempt -> allowed 1
		0 a attempt -> allowed 0
		1 a succeeded
		69.999999999 a check -> allowed 0
		70 a check -> allowed 2`},
	{"L8 not below 0, and at 0 forgotten", three + "takeback", `
		0 a attempt -> allowed 2
		0 a succeeded
		0 - tracked -> 0
		0 a succeeded
		0 a attempt -> allowed 2`},
	{"L8 at 0 with others pending the entry stays", three + "takeback", `
		0 a reserve x -> allowed 2
		0 a attempt   -> allowed 1
		0 a succeeded
		0 - tracked -> 1
		0 a check     -> allowed 1`},
	{"L8 settled, TakeBack is void", three + "takeback", `
		0 a attempt   -> allowed 2
		0 a attempt   -> allowed 1
		0 a reserve x -> allowed 0
		0 a settle x succeeded
		0 a check     -> allowed 0`},

	{"L10 one failure every twenty seconds", three + "decay", `
		0  a attempt -> allowed 2
		0  a attempt -> allowed 1
		19.999999999 a check -> allowed 0
		20 a check   -> allowed 1
		39.999999999 a check -> allowed 1
		40 - tracked -> 1
		40 a check   -> allowed 2`},
	{"L10 the clock runs on through further failures", three + "decay", `
		0  a attempt -> allowed 2
		19 a attempt -> allowed 1
		20 a check   -> allowed 1
		39 a attempt -> allowed 1
		40 a check   -> allowed 1
		60 a check   -> allowed 2`},
	{"L10 a lockout stops it, and it starts anew at the end", three + "decay", `
		0  a attempt -> allowed 2
		19 a attempt -> allowed 1
		19 a attempt -> allowed 0
		20 a check   -> locked 9
		29 a check   -> allowed 0
		48.999999999 a attempt -> allowed 0
		49 a check   -> locked 19.999999999`},
	{"L10 the length follows the count as it then is", three + "decay", `
		0  a attempt -> allowed 2
		0  a attempt -> allowed 1
		0  a attempt -> allowed 0
		10 a attempt -> allowed 0
		10 a check   -> locked 20
		50 a attempt -> allowed 0
		50 a check   -> locked 20
		130 a check  -> allowed 1
		150 a check  -> allowed 2`},
	{"L10 the count does not grow beyond the first that gives MaxLockout", three + "decay", `
		0   a attempt -> allowed 2
		0   a attempt -> allowed 1
		0   a attempt -> allowed 0
		10  a attempt -> allowed 0
		30  a attempt -> allowed 0
		65  a attempt -> allowed 0
		100 a attempt -> allowed 0
		135 a check   -> allowed 0
		194.999999999 a check -> allowed 0
		195 a check   -> allowed 0
		215 a check   -> allowed 1`},
	{"L10 which may be the first that locks", "free=2 window=60 first=10 max=10 decay", `
		0  a attempt -> allowed 1
		0  a attempt -> allowed 0
		10 a attempt -> allowed 0
		20 a check   -> allowed 0
		50 a check   -> allowed 0
		80 a check   -> allowed 1`},
	{"L10 a step is whole nanoseconds, at least one", "free=3 window=0.000000002 first=0.000000001 max=0.000000001 decay", `
		0           a attempt -> allowed 2
		0           a attempt -> allowed 1
		0.000000001 a check   -> allowed 1
		0.000000002 a check   -> allowed 2`},
	{"L10, L8 the forget time follows the count", three + "decay takeback", `
		0  a attempt -> allowed 2
		0  a attempt -> allowed 1
		0  a attempt -> allowed 0
		4  a succeeded
		23.999999999 a check -> allowed 0
		24 a check   -> allowed 1
		44 a check   -> allowed 2`},
}

func TestLockout(t *testing.T) {
	for _, h := range lockoutHistories {
		t.Run(h.name, h.play)
	}
}
