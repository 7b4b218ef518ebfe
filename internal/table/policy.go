package table

// A Policy says what a state means. The zero S is the state of a key that nothing is
// known of. Times are nanoseconds of the table's clock. The table calls all methods
// under its lock, with times that never go back: a policy may keep a count of its own
// that all keys share.
//
// States stay in their place in the table and are handed over by pointer. Judge and
// Step must take one that is forgotten by now for the zero S.
type Policy[S any] interface {
	// Judge answers an attempt on a key in state s, which it leaves alone. Of a Busy
	// answer the table fills in Wait.
	Judge(s *S, p Pending, now int64) Answer
	// Step lets e happen to s now, and returns when it is forgotten from then on. It is
	// what becomes of an attempt that began then: charged, reserved, or ended.
	Step(s *S, e Event, began, now int64) (forget int64)
	// Forget returns when s means nothing any more, 0 if and only if it is the zero S.
	Forget(s *S) int64
}

// A Resetter is a Policy with a count that all keys share. Clear resets it as well.
type Resetter interface{ Reset() }

// An Adopter is a Policy that reads states otherwise than the one before it may have
// written them.
type Adopter[S any] interface {
	// Adopt returns what s, written under old, is from now on. What means nothing
	// stays so.
	Adopt(old Policy[S], s S, now int64) S
}

// Pending counts reservations in flight.
type Pending struct{ Own, All int } // of the key, and of all keys

// An Event is what happens to an attempt. How it may end is the policy's business,
// but for Failed.
type Event uint8

const (
	// Failed is how an attempt ends whose lease ends.
	Failed Event = 0
	// Charged is an attempt that begins and ends at once.
	Charged Event = 0x20
	// Reserved is the beginning of an attempt that ends later.
	Reserved Event = 0x40
	// Tagged is set in the end of a reservation that was tagged when it began.
	Tagged Event = 0x80
)

// An Answer is the answer to one attempt. The zero Answer refuses. (Four fields are what
// the compiler keeps in registers.)
type Answer struct {
	Verdict   Verdict
	Overflow  bool  // given by the entry that all keys share; filled in by the table
	Wait      int64 // nanoseconds
	Remaining int   // attempts that could still be started
}

// A Verdict is Allowed, Busy, or the policy's own word for why not.
type Verdict uint8

const (
	Allowed Verdict = 0xff
	Busy    Verdict = 0xfe // refused only because of others in flight
)

// A Key is what the table tells apart.
type Key struct {
	Hi, Lo      uint64
	Kind, Width uint8
}

// Loopback is the kind of two keys that have an entry of their own past Capacity too. Their
// width is Loopback4 or Loopback6, and they have no words.
const Loopback = 0xff

// A Ticket names one reservation for ever. The zero Ticket names none.
type Ticket struct{ A, B uint64 }
