package device_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/doorward/doorward"
)

// alphabet is that of base64url.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// TestOneSpelling: with any one character changed, removed or added, anywhere, a
// token is nothing. So each of its bits counts.
func TestOneSpelling(t *testing.T) {
	s := signer("ba")
	token, _ := s.Issue(alice, start)
	if len(token) != 88 || strings.Trim(token, alphabet) != "" {
		t.Fatalf("token %q: want 88 characters of base64url", token)
	}
	check := func(spelling string) {
		t.Helper()
		if _, ok := s.Verify(spelling, alice, start); ok != (spelling == token) {
			t.Errorf("%q verified %v, of %q", spelling, ok, token)
		}
		if _, ok := s.Renew(spelling, alice, start); ok != (spelling == token) {
			t.Errorf("%q renewed %v, of %q", spelling, ok, token)
		}
	}
	for i := range len(token) {
		for _, c := range alphabet + "\r\n\t =+/.%\x00\xff" {
			check(token[:i] + string(c) + token[i+1:])
		}
		for _, c := range []byte("A\r\n =") {
			check(token[:i] + string(c) + token[i:])
		}
		check(token[:i])
		check(token[i+1:])
		check(token[:i] + token[i+1:])
		check(token[:i] + token[i+1:] + "\n")
	}
	check(token + token)
	check(token + "=")
	check(" " + token)
	check(strings.ToUpper(token))
	check(strings.ToLower(token))
	check(strings.Repeat("A", 88))
	check(strings.Repeat("\n", 88))
	check(strings.Repeat("A", 1<<20))
	check(token)
}

// TestNoSpellingForZeros: a last byte that is 0 cannot be left out for a line break,
// which decoders skip.
func TestNoSpellingForZeros(t *testing.T) {
	m, s := model{config("a")}, signer("a")
	var token string
	for i := 0; ; i++ {
		token = m.forge(key('a'), alice, "d1", [16]byte{byte(i), byte(i >> 8)}, start.Unix(), start.Unix())
		if raw := must(base64.RawURLEncoding.DecodeString(token)); raw[len(raw)-1] == 0 {
			break
		}
	}
	for spelling, want := range map[string]bool{
		token: true, token[:87] + "\n": false, "\n" + token[:87]: false, token[:87] + "!": false, token[:87] + "=": false,
	} {
		if _, ok := s.Verify(spelling, alice, start); ok != want {
			t.Errorf("%q verified %v, of %q", spelling, ok, token)
		}
	}
}

// TestFormat: tokens of today are valid in every later version, and those of another
// version, if well signed, are not.
func TestFormat(t *testing.T) {
	const token = "ZDFpaWlpaWlpaWlpaWlpaWlpAAAAAGlXNaUAAAAAaVc1pUZ7RJ7juaYO3ltENNrz14w_W-AENdQ8N9oM0VoC4kZj"
	id := [16]byte([]byte("iiiiiiiiiiiiiiii"))
	m, s := model{config("a")}, signer("a")
	if got := m.forge(key('a'), alice, "d1", id, start.Unix(), start.Unix()); got != token {
		t.Errorf("token %q, want %q", got, token)
	}
	d, ok := s.Verify(token, alice, start)
	if want := "pair:140CID7DK8"; !ok || d.ID.String() != want || d.Issued != start || d.Renew {
		t.Errorf("%+v, %v, want id %s", d, ok, want)
	}
	for _, version := range []string{"d2", "d0", "D1", "e1", "\x00\x00"} {
		if _, ok := s.Verify(m.forge(key('a'), alice, version, id, start.Unix(), start.Unix()), alice, start); ok {
			t.Errorf("a token of version %q verified", version)
		}
	}
	// Well signed, but for nobody.
	if _, ok := s.Verify(m.forge(key('a'), doorward.Key{}, "d1", id, start.Unix(), start.Unix()), doorward.Key{}, start); ok {
		t.Error("a token of the Unknown subject verified")
	}
}
