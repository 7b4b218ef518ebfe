package device_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/device"
)

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		config device.Config
		want   string
	}{
		{"zero", device.Config{}, "device: Guard must be 1 to 256 bytes, got 0"},
		{"no guard", device.Config{Keys: keys("a")}, "device: Guard must be 1 to 256 bytes, got 0"},
		{"long guard", device.Config{Guard: strings.Repeat("x", 257), Keys: keys("a")},
			"device: Guard must be 1 to 256 bytes, got 257"},
		{"no keys", config(""), "device: Keys must be 1 to 16 keys, got 0"},
		{"many keys", config("abcdefghijklmnopq"), "device: Keys must be 1 to 16 keys, got 17"},
		{"no key", device.Config{Guard: "login", Keys: [][]byte{nil}}, "device: Keys[0] must be at least 32 bytes, got 0"},
		{"short key", device.Config{Guard: "login", Keys: [][]byte{key('a'), make([]byte, 16)}},
			"device: Keys[1] must be at least 32 bytes, got 16"},
		{"31 bytes", device.Config{Guard: "login", Keys: [][]byte{key('a')[:31]}},
			"device: Keys[0] must be at least 32 bytes, got 31"},
		{"zeros", device.Config{Guard: "login", Keys: [][]byte{key('a'), make([]byte, 64)}},
			"device: Keys[1] must be random, got zeros only"},
		{"twice", config("aba"), "device: Keys[2] must differ from Keys[0]"},
		{"negative TTL", device.Config{Guard: "login", Keys: keys("a"), TTL: -5 * time.Second},
			"device: TTL must be positive, got -5s"},
		{"fraction", device.Config{Guard: "login", Keys: keys("a"), TTL: 1500 * time.Millisecond},
			"device: TTL must be whole seconds, got 1.5s"},
		{"a nanosecond", device.Config{Guard: "login", Keys: keys("a"), TTL: 1},
			"device: TTL must be whole seconds, got 1ns"},
	} {
		if s, err := device.New(c.config); err == nil || err.Error() != c.want || s != nil {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestConfigLimits(t *testing.T) {
	for name, c := range map[string]device.Config{
		"16 keys":      config("abcdefghijklmnop"),
		"longest name": {Guard: strings.Repeat("x", 256), Keys: keys("a")},
		"a prefix":     {Guard: "login", Keys: [][]byte{key('a'), append(key('a'), 0)}},
		"long key":     {Guard: "login", Keys: [][]byte{bytes.Repeat([]byte("k"), 1000)}},
		"a second":     {Guard: "login", Keys: keys("a"), TTL: time.Second},
	} {
		s, err := device.New(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		token, _ := s.Issue(alice, start)
		if _, ok := s.Verify(token, alice, start); !ok {
			t.Errorf("%s: a fresh token does not verify", name)
		}
	}
}

func TestTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{0: 90 * day, time.Second: time.Second, 1000 * day: 1000 * day} {
		c := config("a")
		c.TTL = ttl
		if s := must(device.New(c)); s.TTL() != want {
			t.Errorf("TTL %v: %v, want %v", ttl, s.TTL(), want)
		}
	}
}

// TestKeysAreCopied: a caller may wipe its keys.
func TestKeysAreCopied(t *testing.T) {
	c := config("a")
	s := must(device.New(c))
	token, _ := s.Issue(alice, start)
	clear(c.Keys[0])
	c.Keys[0] = nil
	if _, ok := s.Verify(token, alice, start); !ok {
		t.Error("the signer's key changed with the caller's")
	}
}
