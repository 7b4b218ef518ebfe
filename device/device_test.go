package device_test

import (
	"bytes"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/device"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	alice = doorward.KeyFromName("alice")
	bob   = doorward.KeyFromName("bob")
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// key is a key of 32 bytes named by a letter.
func key(letter byte) []byte { return bytes.Repeat([]byte{letter}, 32) }

// keys are the keys named by letters, newest first.
func keys(letters string) (ks [][]byte) {
	for _, l := range []byte(letters) {
		ks = append(ks, key(l))
	}
	return ks
}

// config is that of guard "login" with the keys named by letters.
func config(letters string) device.Config {
	return device.Config{Guard: "login", Keys: keys(letters)}
}

func signer(letters string) *device.Signer { return must(device.New(config(letters))) }

const (
	day  = 24 * time.Hour
	life = device.DefaultTTL
)

// TestHistories issues one token to alice at start, by the signer "login/a/2160h",
// and shows it, as the last renewal left it, to one signer after the other.
func TestHistories(t *testing.T) {
	type step struct {
		at      time.Duration
		signer  string // guard/keys/TTL
		subject doorward.Key
		do      string // verify or renew
		want    string // stranger, known (need not renew), aging (should renew)
	}
	const login = "login/a/2160h"
	for _, h := range []struct {
		name  string
		steps []step
	}{
		{"a life", []step{
			{0, login, alice, "verify", "known"},
			{45*day - 1, login, alice, "verify", "known"},
			{45 * day, login, alice, "verify", "aging"},
			{life - time.Second, login, alice, "verify", "aging"},
			{life - 1, login, alice, "verify", "aging"},
			{life, login, alice, "verify", "stranger"},
			{life + time.Second, login, alice, "verify", "stranger"},
			{1000 * life, login, alice, "verify", "stranger"},
		}},
		{"a clock behind the signer's", []step{
			{-1, login, alice, "verify", "known"},
			{-5 * time.Minute, login, alice, "verify", "known"},
			{-5*time.Minute - 1, login, alice, "verify", "stranger"},
			{-5*time.Minute - time.Second, login, alice, "verify", "stranger"},
			{-10000 * day, login, alice, "verify", "stranger"},
		}},
		{"for one subject", []step{
			{0, login, bob, "verify", "stranger"},
			{0, login, bob, "renew", "stranger"},
			{0, login, doorward.Key{}, "verify", "stranger"},
			{0, login, doorward.Key{}, "renew", "stranger"},
			{0, login, doorward.KeyForEveryone(), "verify", "stranger"},
			{0, login, doorward.KeyFromPair(alice, alice), "verify", "stranger"},
			{0, login, doorward.KeyFromName("Alice"), "verify", "stranger"},
			{0, login, alice, "verify", "known"},
		}},
		{"for one guard", []step{
			{0, "reset/a/2160h", alice, "verify", "stranger"},
			{0, "reset/a/2160h", alice, "renew", "stranger"},
			{0, "logi/a/2160h", alice, "verify", "stranger"},
			{0, "login\x00/a/2160h", alice, "verify", "stranger"},
			{0, "Login/a/2160h", alice, "verify", "stranger"},
			{0, login, alice, "verify", "known"},
		}},
		{"keys rotate", []step{
			{0, "login/b/2160h", alice, "verify", "stranger"},
			{0, "login/b/2160h", alice, "renew", "stranger"},
			{0, "login/ab/2160h", alice, "verify", "known"},
			{0, "login/ba/2160h", alice, "verify", "aging"},
			{0, "login/cba/2160h", alice, "verify", "aging"},
			{life - 1, "login/ba/2160h", alice, "verify", "aging"},
			{life, "login/ba/2160h", alice, "verify", "stranger"},
			{day, "login/ba/2160h", alice, "renew", "known"},
			{day, "login/b/2160h", alice, "verify", "known"},
			{day, "login/ab/2160h", alice, "verify", "aging"},
			{day, "login/a/2160h", alice, "verify", "stranger"},
		}},
		{"renewal starts a new life", []step{
			{day, login, alice, "renew", "known"},
			{46*day - 1, login, alice, "verify", "known"},
			{46 * day, login, alice, "verify", "aging"},
			{life, login, alice, "verify", "aging"},
			{life + day - 1, login, alice, "verify", "aging"},
			{life + day - 1, login, alice, "renew", "known"},
			{2*life + day - time.Second - 1, login, alice, "verify", "aging"},
			{2*life + day - time.Second, login, alice, "verify", "stranger"}, // its second began with day-1s
		}},
		{"what has expired is not renewed", []step{
			{life, login, alice, "renew", "stranger"},
			{life - 1, login, alice, "verify", "aging"},
			{life - 1, login, alice, "renew", "known"},
			{life, login, alice, "verify", "known"},
		}},
		{"what is not valid yet is not renewed", []step{
			{-5*time.Minute - 1, login, alice, "renew", "stranger"},
			{-5 * time.Minute, login, alice, "renew", "known"},
			{-10 * time.Minute, login, alice, "verify", "known"},
			{-10*time.Minute - 1, login, alice, "verify", "stranger"},
			{life - 5*time.Minute, login, alice, "verify", "stranger"},
		}},
		{"TTL counts when a token is read", []step{
			{10*time.Second - 1, "login/a/10s", alice, "verify", "aging"},
			{10 * time.Second, "login/a/10s", alice, "verify", "stranger"},
			{life, "login/a/2161h", alice, "verify", "aging"},
			{5*time.Second - 1, "login/a/10s", alice, "verify", "known"},
			{5 * time.Second, "login/a/10s", alice, "verify", "aging"},
			{0, "login/a/1s", alice, "verify", "known"},
			{time.Second - 1, "login/a/1s", alice, "verify", "known"},
			{time.Second, "login/a/1s", alice, "verify", "stranger"},
		}},
	} {
		t.Run(h.name, func(t *testing.T) {
			token, id := signer("a").Issue(alice, start)
			for i, s := range h.steps {
				f := strings.Split(s.signer, "/")
				c := device.Config{Guard: f[0], Keys: keys(f[1]), TTL: must(time.ParseDuration(f[2]))}
				sgn, now := must(device.New(c)), start.Add(s.at)
				if s.do == "renew" {
					renewed, ok := sgn.Renew(token, s.subject, now)
					if ok != (s.want != "stranger") || ok != (renewed != "") {
						t.Fatalf("step %d: renewed %q, %v, want %s", i, renewed, ok, s.want)
					}
					if !ok {
						continue
					}
					token = renewed
				}
				d, ok := sgn.Verify(token, s.subject, now)
				got := map[[2]bool]string{{true, false}: "known", {true, true}: "aging", {}: "stranger"}[[2]bool{ok, d.Renew}]
				if got != s.want {
					t.Errorf("step %d: %s after %v by %s, want %s", i, got, s.at, s.signer, s.want)
				}
				want := device.Device{ID: id, Issued: start, Renew: got == "aging"}
				if !ok {
					want = device.Device{}
				}
				if d != want {
					t.Errorf("step %d: %+v, want %+v", i, d, want)
				}
			}
		})
	}
}

// TestWithinASecond: a life begins with the second in which a token was signed, also
// before 1970.
func TestWithinASecond(t *testing.T) {
	c := config("a")
	c.TTL = 10 * time.Second
	s := must(device.New(c))
	for _, second := range []time.Time{start, time.Unix(0, 0), time.Unix(-3, 0)} {
		token, _ := s.Issue(alice, second.Add(999_999_999))
		for at, want := range map[time.Duration]bool{
			-5 * time.Minute: true, -5*time.Minute - 1: false, 10*time.Second - 1: true, 10 * time.Second: false,
		} {
			if _, ok := s.Verify(token, alice, second.Add(at)); ok != want {
				t.Errorf("verified %v, %v after %v, want %v", ok, at, second, want)
			}
		}
	}
}

// TestDefaults: a Signer signs with its newest key, for 90 days unless told
// otherwise.
func TestDefaults(t *testing.T) {
	token, _ := signer("ba").Issue(alice, start)
	for letters, want := range map[string]bool{"ba": true, "b": true, "ab": true, "a": false} {
		if _, ok := signer(letters).Verify(token, alice, start); ok != want {
			t.Errorf("keys %s: verified %v what ba issued", letters, ok)
		}
	}
	for at, want := range map[time.Duration]bool{90*day - 1: true, 90 * day: false} {
		if _, ok := signer("b").Verify(token, alice, start.Add(at)); ok != want {
			t.Errorf("verified %v after %v", ok, at)
		}
	}
}

func TestFarTimes(t *testing.T) {
	far := []time.Time{
		{}, time.Unix(0, 0), start, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(-9999, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0), time.Unix(1<<62, 0), time.Unix(-1<<62, 0),
	}
	s := signer("a")
	for _, issued := range far {
		token, id := s.Issue(alice, issued)
		for _, now := range far {
			d, ok := s.Verify(token, alice, now)
			if ok != now.Equal(issued) {
				t.Errorf("issued at %v and verified %v at %v", issued.Unix(), ok, now.Unix())
			}
			if ok && (d.ID != id || !d.Issued.Equal(issued)) {
				t.Errorf("issued at %v: %+v", issued.Unix(), d)
			}
			if _, renewed := s.Renew(token, alice, now); renewed != ok {
				t.Errorf("issued at %v and renewed %v at %v", issued.Unix(), renewed, now.Unix())
			}
		}
	}
	longest := must(device.New(device.Config{Guard: "login", Keys: keys("a"), TTL: math.MaxInt64 / time.Second * time.Second}))
	token, _ := longest.Issue(alice, time.Unix(math.MaxInt64-1, 0))
	if d, ok := longest.Verify(token, alice, time.Unix(math.MaxInt64, 0)); !ok || d.Renew {
		t.Errorf("a token of the last second but one: %+v, %v", d, ok)
	}
}

func TestUnknownSubject(t *testing.T) {
	for name, s := range map[string]*device.Signer{"signer": signer("a"), "zero Signer": {}} {
		token, id := s.Issue(doorward.KeyFromName(""), start)
		if token != "" || id != (doorward.Key{}) {
			t.Errorf("%s: issued %q, %v to the Unknown subject", name, token, id)
		}
		if d, ok := s.Verify(token, doorward.Key{}, start); ok || d != (device.Device{}) {
			t.Errorf("%s: verified %+v", name, d)
		}
	}
	zero := &device.Signer{}
	if token, id := zero.Issue(alice, start); token != "" || id != (doorward.Key{}) {
		t.Errorf("the zero Signer issued %q, %v", token, id)
	}
	token, _ := signer("a").Issue(alice, start)
	if _, ok := zero.Verify(token, alice, start); ok {
		t.Error("the zero Signer verified a token")
	}
	if _, ok := zero.Renew(token, alice, start); ok {
		t.Error("the zero Signer renewed a token")
	}
}

// TestIDs: every token issued has an id of its own, no subject can be called like
// one, and an id counts in one guard.
func TestIDs(t *testing.T) {
	s := signer("a")
	ids, tokens := map[doorward.Key]bool{}, map[string]bool{}
	for range 10_000 {
		token, id := s.Issue(alice, start)
		ids[id], tokens[token] = true, true
	}
	if len(ids) != 10_000 || len(tokens) != 10_000 {
		t.Errorf("10,000 devices have %d ids and %d tokens", len(ids), len(tokens))
	}
	for id := range ids {
		if text := id.String(); !strings.HasPrefix(text, "pair:") {
			t.Fatalf("id %s could be a name or a network", text)
		}
	}
	raw := [16]byte([]byte("iiiiiiiiiiiiiiii"))
	seen := map[doorward.Key]string{
		doorward.KeyFromPair(doorward.KeyFromName("login"), doorward.KeyFromName(string(raw[:]))): "a pair of names",
	}
	for _, guard := range []string{"login", "reset", strings.Repeat("x", 255), strings.Repeat("x", 256)} {
		c := config("a")
		c.Guard = guard
		d, ok := must(device.New(c)).Verify(model{c}.forge(key('a'), alice, "d1", raw, 0, start.Unix()), alice, start)
		if other := seen[d.ID]; !ok || other != "" {
			t.Errorf("%s: verified %v, its id is that of %s", guard, ok, other)
		}
		seen[d.ID] = guard
	}
}

func TestConcurrent(t *testing.T) {
	s := signer("ba")
	old, _ := signer("a").Issue(alice, start)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				token, id := s.Issue(bob, start)
				if d, ok := s.Verify(token, bob, start); !ok || d.ID != id {
					t.Error("a fresh token does not verify")
				}
				if _, ok := s.Renew(old, alice, start); !ok {
					t.Error("an old token does not renew")
				}
			}
		})
	}
	wg.Wait()
}
