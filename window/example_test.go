package window_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

// Password reset mails: two an hour for each account, whoever asks and whatever becomes
// of them.
func Example() {
	limiter, err := window.New(window.Policy{Limit: 2, Window: time.Hour, Sliding: true})
	if err != nil {
		panic(err)
	}
	account := doorward.KeyFromName("alice@example.org")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 3 {
		d := limiter.Allow(account, now)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
		now = now.Add(5 * time.Minute)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 57m30s
}

// A request that came to nothing, as the mail could not be sent, is taken back.
func ExampleLimiter_Reserve() {
	limiter, err := window.New(window.Policy{Limit: 1, Window: time.Hour})
	if err != nil {
		panic(err)
	}
	source := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.7"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, ticket := limiter.Reserve(source, now)
	fmt.Println(limiter.Check(source, now).Allowed)
	limiter.Settle(source, ticket, doorward.Void, now.Add(time.Second))
	fmt.Println(limiter.Check(source, now).Allowed)
	// Output:
	// false
	// true
}

// Many at once are counted all or not at all.
func ExampleLimiter_AllowN() {
	limiter, err := window.New(window.Policy{Limit: 10, Window: time.Minute})
	if err != nil {
		panic(err)
	}
	sender := doorward.KeyFromName("newsletter")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fmt.Println(limiter.AllowN(sender, 7, now).Allowed)
	fmt.Println(limiter.AllowN(sender, 7, now).RetryAfter)
	fmt.Println(limiter.AllowN(sender, 3, now).Allowed)
	// Output:
	// true
	// 1m0s
	// true
}

// A policy that cannot be is an error that names the field.
func ExampleNew() {
	_, err := window.New(window.Policy{Limit: -1})
	fmt.Println(err)
	// Output: window: Limit must be 1 to 2147483647, got -1
}
