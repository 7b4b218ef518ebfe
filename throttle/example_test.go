package throttle_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/throttle"
)

// A handshake that costs a signature, right or wrong: five wrong ones a minute from one
// network, a hundred from all of them.
func Example() {
	limiter := throttle.New(throttle.Policy{})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	knock := func(addr string, right bool) string {
		key := doorward.KeyFromAddr(netip.MustParseAddr(addr))
		if d := limiter.Blocked(key, now); !d.Allowed {
			return fmt.Sprintf("%v, try again in %v", d.Reason, d.RetryAfter)
		}
		if !right {
			limiter.Refused(key, now)
			return "wrong"
		}
		limiter.Accepted(key, now)
		return "welcome"
	}

	for range 6 {
		fmt.Println(knock("192.0.2.7", false))
	}
	fmt.Println(knock("192.0.2.8", true))
	// Output:
	// wrong
	// wrong
	// wrong
	// wrong
	// wrong
	// spent, try again in 1m0s
	// welcome
}

// What is in flight counts towards both limits: no burst passes between the question
// and the answer.
func ExampleLimiter_Reserve() {
	limiter := throttle.New(throttle.Policy{PerSource: 2})
	source := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.7"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, one := limiter.Reserve(source, now)
	_, two := limiter.Reserve(source, now)
	third, _ := limiter.Reserve(source, now)
	fmt.Println("the third:", third.Reason, third.RetryAfter)

	limiter.Settle(source, one, doorward.Failed, now)
	cleared := limiter.Settle(source, two, doorward.Succeeded, now)
	fmt.Println("cleared:", cleared.N)
	// Output:
	// the third: busy 1s
	// cleared: 1
}
