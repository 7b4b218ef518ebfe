package httpguard_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

// login has the budgets that matter here: 36 per network and per subject, 10 per
// device, 5 per pair.
func login() guard.Config {
	return guard.Config{Rules: []guard.Rule{
		{Lockout: free(36)}, {Per: guard.Subject, Lockout: free(36)}, {Per: guard.Device, Lockout: free(10)}, {Per: guard.Pair, Lockout: free(5)},
	}}
}

func withDevices(t testing.TB, s *device.Signer) httpguard.Options {
	return httpguard.Options{Guard: newGuard(t, login()), Subject: account, Devices: s}
}

// password is right if it is "right".
var password = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("password") == "right" {
		httpguard.FromRequest(r).Succeeded()
		return
	}
	wrong(w, r)
})

// A browser keeps its cookie.
type browser struct {
	h      http.Handler
	cookie string
}

// try posts a password from an address and returns the status.
func (b *browser) try(from, user, password string) int {
	r := form(from, "user="+user+"&password="+password)
	if b.cookie != "" {
		r.Header.Set("Cookie", httpguard.DefaultDeviceCookie+"="+b.cookie)
	}
	w := do(b.h, r)
	for _, c := range w.Result().Cookies() {
		b.cookie = c.Value
	}
	return w.Code
}

func (b *browser) tokens() []string { return strings.Split(b.cookie, ".") }

// lockOut lets 40 networks guess at one account until strangers are refused there.
func lockOut(t *testing.T, h http.Handler, user string) {
	t.Helper()
	admitted := 0
	for i := range 40 {
		if (&browser{h: h}).try(fmt.Sprintf("198.51.100.%d", i), user, "guess") == 401 {
			admitted++
		}
	}
	if admitted != 36 {
		t.Fatalf("%d guesses, want 36", admitted)
	}
}

// TestBotnet: strangers cannot lock out the owner of an account.
func TestBotnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGate(t, withDevices(t, signer(t, 'a'))).Handler(password)
		owner, stranger := &browser{h: h}, &browser{h: h}
		if owner.try("192.0.2.7", "ada", "right") != 200 || len(owner.tokens()) != 1 {
			t.Fatalf("cookie %q", owner.cookie)
		}
		lockOut(t, h, "ada")
		if n := stranger.try("192.0.2.8", "ada", "right"); n != 429 || stranger.cookie != "" {
			t.Errorf("a stranger: %d", n)
		}
		known := owner.cookie
		for _, user := range []string{"ada", "ADA"} {
			if n := owner.try("192.0.2.9", user, "right"); n != 200 || owner.cookie != known {
				t.Errorf("the owner as %s: %d, cookie %s", user, n, owner.cookie)
			}
		}
	})
}

// TestThief: a stolen token is worth its budget, not the account, wherever it is shown.
func TestThief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGate(t, withDevices(t, signer(t, 'a'))).Handler(password)
		first, second, stranger := &browser{h: h}, &browser{h: h}, &browser{h: h}
		first.try("192.0.2.7", "ada", "right")
		second.try("192.0.2.8", "ada", "right")
		thief := &browser{h: h, cookie: first.cookie}
		guesses := 0
		for i := range 40 {
			if thief.try(fmt.Sprintf("198.51.100.%d", i), "ada", "guess") == 401 {
				guesses++
			}
		}
		if guesses != 10 {
			t.Errorf("%d guesses, want 10", guesses)
		}
		for i, want := range []int{429, 200, 200} {
			b := []*browser{first, second, stranger}[i]
			if got := b.try("192.0.2.9", "ada", "right"); got != want {
				t.Errorf("browser %d: %d, want %d", i, got, want)
			}
		}
	})
}

// TestOtherSubject: a token is for one subject.
func TestOtherSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGate(t, withDevices(t, signer(t, 'a'))).Handler(password)
		eve := &browser{h: h}
		eve.try("192.0.2.7", "eve", "right")
		lockOut(t, h, "ada")
		if n := eve.try("192.0.2.7", "ada", "right"); n != 429 {
			t.Errorf("%d", n)
		}
		if n := eve.try("192.0.2.7", "bob", "right"); n != 200 || len(eve.tokens()) != 2 {
			t.Errorf("%d, cookie %s", n, eve.cookie)
		}
	})
}

// TestFiveTokens: a browser is known for the last five subjects, newest first.
func TestFiveTokens(t *testing.T) {
	h := newGate(t, withDevices(t, signer(t, 'a'))).Handler(password)
	b := &browser{h: h}
	var all []string
	for i := range 7 {
		b.try("192.0.2.7", fmt.Sprintf("user%d", i), "right")
		tokens := b.tokens()
		all = append([]string{tokens[0]}, all...)
		if want := all[:min(len(all), 5)]; !slices.Equal(tokens, want) {
			t.Fatalf("after %d: %v, want %v", i, tokens, want)
		}
	}
	before := b.cookie
	if b.try("192.0.2.7", "user2", "right"); b.cookie != before {
		t.Error("the fifth is not known")
	}
	if b.try("192.0.2.7", "user1", "right"); b.cookie == before || len(b.tokens()) != 5 {
		t.Error("the sixth is known")
	}
}

// TestRenewal: a success renews a token that is half over or has an old key, under the
// same id.
func TestRenewal(t *testing.T) {
	const half = device.DefaultTTL / 2
	ada := doorward.KeyFromName("ada")
	for _, tt := range []struct {
		name     string
		after    time.Duration
		password string
		keys     []byte
		renewed  bool
	}{
		{"young", half - 1, "right", []byte("a"), false},
		{"half over", half, "right", []byte("a"), true},
		{"half over, wrong", half, "guess", []byte("a"), false},
		{"old key", 0, "right", []byte("ba"), true},
		{"old key, wrong", 0, "guess", []byte("ba"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &browser{h: newGate(t, withDevices(t, signer(t, 'a'))).Handler(password)}
			for _, user := range []string{"eve", "ada", "bob"} {
				b.try("192.0.2.7", user, "right")
			}
			was := b.tokens()
			before, _ := signer(t, tt.keys...).Verify(was[1], ada, time.Now())
			time.Sleep(tt.after) // virtual
			s := signer(t, tt.keys...)
			b.h = newGate(t, withDevices(t, s)).Handler(password)
			b.try("192.0.2.7", "ada", tt.password)
			is := b.tokens()
			if !tt.renewed {
				if !slices.Equal(is, was) {
					t.Errorf("%s: renewed", tt.name)
				}
				return
			}
			after, ok := s.Verify(is[0], ada, time.Now())
			if !ok || after.Renew || after.ID != before.ID || is[0] == was[1] || !slices.Equal(is[1:], []string{was[0], was[2]}) {
				t.Errorf("%s: %v, %+v, was %v, %+v", tt.name, is, after, was, before)
			}
		})
	}
}
