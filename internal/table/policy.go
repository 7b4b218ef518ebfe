package table

// A Policy says what a state means. The zero S is the state of a key that nothing is
// known of. Times are nanoseconds of the table's clock. The table calls all methods
// under its lock, with times that never go back: a policy may keep a count of its own
// that all keys share.
type Policy[S any] interface {
	// Judge answers an attempt on a key in state s. Of a Busy answer the table fills
	// in Wait.
	Judge(s S, p Pending, now int64) Answer
	// Step returns the state after e, which happens now to an attempt that began
	// then: it is reserved, or ends.
	Step(s S, e Event, began, now int64) S
	// Forget returns when s means nothing any more, 0 if it means nothing now.
	Forget(s S) int64
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
	// Failed is how an attempt ends that is charged at once, or whose lease ends.
	Failed Event = 0
	// Reserved is the beginning of an attempt that ends later.
	Reserved Event = 0x40
	// Tagged is set in the end of a reservation that was tagged when it began.
	Tagged Event = 0x80
)

// An Answer is the answer to one attempt. The zero Answer refuses.
type Answer struct {
	Allowed   bool
	Busy      bool  // refused only because of others in flight
	Overflow  bool  // given by the entry that all keys share; filled in by the table
	Reason    uint8 // the policy's own word
	Wait      int64 // nanoseconds
	Remaining int   // attempts that could still be started
}

// A Key is what the table tells apart.
type Key struct {
	Bytes [18]byte
	// Reserved is Loopback4 or Loopback6 for the keys that have an entry of their own
	// past Capacity too, else 0.
	Reserved uint8
}

// A Ticket names one reservation for ever. The zero Ticket names none.
type Ticket struct{ A, B uint64 }
