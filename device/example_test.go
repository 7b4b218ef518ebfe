package device_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/device"
)

func Example() {
	s, err := device.New(device.Config{
		Guard: "login",
		Keys:  [][]byte{bytes.Repeat([]byte("k"), 32)}, // 32 bytes of crypto/rand, from a secret store
	})
	if err != nil {
		panic(err)
	}
	alice := doorward.KeyFromName("alice")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	// A login succeeds. The browser keeps the token.
	token, id := s.Issue(alice, now)

	// Two months later, it comes with the next attempt, and this one succeeds too.
	now = now.AddDate(0, 2, 0)
	d, known := s.Verify(token, alice, now)
	fmt.Println(known, d.ID == id, d.Issued.Format(time.DateOnly), d.Renew)
	if d.Renew {
		token, _ = s.Renew(token, alice, now)
	}

	// Another two months later it is known as the same device.
	now = now.AddDate(0, 2, 0)
	d, known = s.Verify(token, alice, now)
	fmt.Println(known, d.ID == id, d.Issued.Format(time.DateOnly), d.Renew)

	// For anybody else it is worth nothing.
	_, known = s.Verify(token, doorward.KeyFromName("bob"), now)
	fmt.Println(known)
	// Output:
	// true true 2026-01-02 true
	// true true 2026-01-02 true
	// false
}
