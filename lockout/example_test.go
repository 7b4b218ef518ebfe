package lockout_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

// A login: the attempt is charged before the password is looked at.
func Example() {
	limiter, err := lockout.New(lockout.Login)
	if err != nil {
		panic(err)
	}
	login := func(addr netip.Addr, password string, now time.Time) string {
		key := doorward.KeyFromAddr(addr)
		if d := limiter.Attempt(key, now); !d.Allowed {
			return fmt.Sprintf("%v, try again in %v", d.Reason, d.RetryAfter)
		}
		if password != "tiger" {
			return "wrong"
		}
		limiter.Succeeded(key, now)
		return "welcome"
	}

	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	addr := netip.MustParseAddr("192.0.2.7")
	for range 6 {
		fmt.Println(login(addr, "lion", now))
	}
	fmt.Println(login(addr, "tiger", now.Add(59*time.Second)))
	fmt.Println(login(addr, "tiger", now.Add(60*time.Second)))
	// Output:
	// wrong
	// wrong
	// wrong
	// wrong
	// wrong
	// locked, try again in 1m0s
	// locked, try again in 1s
	// welcome
}

// Behind one address several people log in at a time: what is in flight is not failed.
func ExampleLimiter_Reserve() {
	limiter, err := lockout.New(lockout.Policy{
		FreeFailures: 2, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour,
	})
	if err != nil {
		panic(err)
	}
	office := doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.7"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, one := limiter.Reserve(office, now)
	_, two := limiter.Reserve(office, now)
	third, _ := limiter.Reserve(office, now)
	fmt.Println("the third:", third.Allowed, third.Reason, third.RetryAfter)

	limiter.Settle(office, one, doorward.Failed, now)
	cleared := limiter.Settle(office, two, doorward.Succeeded, now)
	fmt.Println("cleared:", cleared.N)
	fmt.Println("free now:", limiter.Check(office, now).Remaining+1)
	// Output:
	// the third: false busy 1s
	// cleared: 1
	// free now: 2
}

// A policy that cannot be is an error that names the field.
func ExampleNew() {
	policy := lockout.Login
	policy.Window = -5 * time.Second
	_, err := lockout.New(policy)
	fmt.Println(err)
	// Output: lockout: Window must be positive, got -5s
}
