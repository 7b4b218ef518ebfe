package device_test

import (
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/device"
)

// shown is what callers show to a signer with the keys "ba".
func shown() []struct{ name, token string } {
	fresh, _ := signer("b").Issue(alice, start)
	old, _ := signer("a").Issue(alice, start)
	forged, _ := signer("c").Issue(alice, start)
	expired, _ := signer("b").Issue(alice, start.Add(-device.DefaultTTL))
	return []struct{ name, token string }{
		{"fresh", fresh}, {"old key", old}, {"forged", forged}, {"expired", expired}, {"none", ""},
		{"not base64", strings.Repeat("!", 88)}, {"late not base64", fresh[:87] + "!"}, {"no version", strings.Repeat("A", 88)},
		{"short", fresh[1:]}, {"flood", strings.Repeat("A", 1<<20)},
	}
}

func TestAllocations(t *testing.T) {
	s := signer("ba")
	for _, c := range shown() {
		if n := testing.AllocsPerRun(100, func() { s.Verify(c.token, alice, start) }); n != 0 {
			t.Errorf("verify %s: %v allocations, want 0", c.name, n)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := signer("ba")
	for _, c := range shown() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Verify(c.token, alice, start)
			}
		})
	}
}

func BenchmarkIssue(b *testing.B) {
	s := signer("a")
	b.ReportAllocs()
	for b.Loop() {
		s.Issue(alice, start)
	}
}

func BenchmarkRenew(b *testing.B) {
	s := signer("a")
	token, _ := s.Issue(alice, start)
	b.ReportAllocs()
	for b.Loop() {
		s.Renew(token, alice, start.Add(time.Hour))
	}
}
