package device_test

import (
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/device"
)

// FuzzVerify shows any text, and tokens that the model wrote with a character
// changed, to a signer and to the model. Only what the model wrote, as it wrote it,
// with a key of the signer, for this subject, may verify.
func FuzzVerify(f *testing.F) {
	f.Add("", "alice", "alice", byte(0), int64(0), int64(0), int64(0), uint32(0), uint32(1), byte(100), byte('A'))
	f.Add("", "alice", "alice", byte(1), int64(-9), int64(100), int64(99), uint32(999_999_999), uint32(90), byte(100), byte('A'))
	f.Add("", "alice", "bob", byte(0), int64(0), int64(0), int64(0), uint32(0), uint32(9), byte(100), byte('A'))
	f.Add("", "alice", "alice", byte(2), int64(0), int64(0), int64(0), uint32(0), uint32(9), byte(100), byte('A'))
	f.Add("", "alice", "alice", byte(0), int64(0), int64(0), int64(0), uint32(0), uint32(9), byte(87), byte('A'))
	f.Add("", "alice", "alice", byte(0), int64(0), int64(301), int64(0), uint32(0), uint32(9), byte(100), byte('A'))
	f.Add("ZDEA", "alice", "alice", byte(0), int64(0), int64(0), int64(0), uint32(0), uint32(9), byte(0), byte('A'))
	f.Fuzz(func(t *testing.T, text, owner, subject string, by byte, issued, signed, now int64, nsec, ttl uint32, pos, char byte) {
		c := config("ba")
		c.TTL = time.Duration(ttl) * time.Second
		m, s := model{c}, must(device.New(c))
		at := time.Unix(now, int64(nsec%1e9))
		token := text
		if token == "" {
			id := [16]byte([]byte("0123456789abcdef"))
			token = m.forge(key("bac"[by%3]), doorward.KeyFromName(owner), "d1", id, issued, signed)
		}
		forged := token
		if int(pos) < len(token) {
			token = token[:pos] + string(rune(char)) + token[pos+1:]
		}
		k := doorward.KeyFromName(subject)
		got, ok := s.Verify(token, k, at)
		if want, wanted := m.verify(token, k, at); got != want || ok != wanted {
			t.Fatalf("%q: %+v, %v, the model says %+v, %v", token, got, ok, want, wanted)
		}
		if ok && (text != "" || token != forged || owner != subject && len(owner) <= doorward.MaxNameLength || by%3 == 2) {
			t.Fatalf("%q verified, but nobody issued it", token)
		}
		renewed, again := s.Renew(token, k, at)
		if again != ok {
			t.Fatalf("%q verified %v, renewed %v", token, ok, again)
		}
		if d, known := s.Verify(renewed, k, at); known != ok || d.ID != got.ID || d.Issued != got.Issued || d.Renew {
			t.Fatalf("%q renewed as %q: %+v, %v, was %+v", token, renewed, d, known, got)
		}
	})
}
