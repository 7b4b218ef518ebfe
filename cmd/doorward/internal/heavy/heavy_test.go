package heavy

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward"
)

var t0 = time.Unix(1_700_000_000, 0)

func network(n int) doorward.Key {
	return doorward.KeyFromAddr(netip.AddrFrom4([4]byte{203, byte(n >> 16), byte(n >> 8), byte(n)}))
}

// While there are few networks, counts are exact.
func TestFew(t *testing.T) {
	s := New(t0)
	for n := range 20 {
		for range n + 1 {
			s.Refused(network(n), t0)
		}
	}
	top := s.Top(3, t0)
	want := []Network{{network(19), 20, 0}, {network(18), 19, 0}, {network(17), 18, 0}}
	if !slices.Equal(top, want) {
		t.Errorf("%v, want %v", top, want)
	}
	if n := len(s.Top(100, t0)); n != 20 {
		t.Errorf("%d networks, want 20", n)
	}
}

// What was refused counts for five to ten minutes.
func TestSpan(t *testing.T) {
	s := New(t0)
	a, b := network(1), network(2)
	s.Refused(a, t0)
	s.Refused(b, t0.Add(Span-1))
	s.Refused(a, t0.Add(Span))
	for _, row := range []struct {
		at   time.Duration
		want []Network
	}{
		{Span, []Network{{a, 2, 0}, {b, 1, 0}}},
		{2*Span - 1, []Network{{a, 2, 0}, {b, 1, 0}}},
		{2 * Span, []Network{{a, 1, 0}}},
		{4 * Span, []Network{}},
		{0, []Network{}}, // time that goes back brings nothing back
	} {
		if got := s.Top(9, t0.Add(row.at)); !slices.Equal(got, row.want) {
			t.Errorf("at %v: %v, want %v", row.at, got, row.want)
		}
	}
}

// The bounds hold for every network, against counts that are exact, with a flood of others
// around and over a turn; and who has more than any error is named.
func TestBounds(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		s, exact := New(t0), map[doorward.Key]uint64{}
		// What is older than the last turn is not to be counted: one before, one after.
		for i := range 60_000 {
			n := int(r.ExpFloat64() * 300)
			if r.IntN(2) == 0 {
				n = 10_000 + r.IntN(100_000)
			}
			s.Refused(network(n), t0.Add(time.Duration(i)*Span/40_000))
			exact[network(n)]++
		}
		all := s.Top(1<<20, t0.Add(Span+Span/2))
		if most := 2 * Slots * Parts; len(all) > most {
			t.Fatalf("%d networks are kept, want at most %d", len(all), most)
		}
		named, worst := map[doorward.Key]bool{}, uint64(0)
		for _, n := range all {
			if exact[n.Key] > n.Refused || exact[n.Key] < n.Refused-n.Error {
				t.Fatalf("seed %d: %v was refused %d times, said are %d less at most %d", seed, n.Key, exact[n.Key], n.Refused, n.Error)
			}
			named[n.Key], worst = true, max(worst, n.Error)
		}
		if worst == 0 {
			t.Fatal("the flood is too small to try anything")
		}
		for k, n := range exact {
			if n > worst && !named[k] {
				t.Fatalf("seed %d: %v was refused %d times and is not named, errors are up to %d", seed, k, n, worst)
			}
		}
	}
}

func TestParallel(t *testing.T) {
	s := New(t0)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for i := range 5_000 {
				s.Refused(network(i%10), t0)
				if i%1000 == 0 {
					s.Top(3, t0)
				}
			}
		})
	}
	running.Wait()
	for _, n := range s.Top(10, t0) {
		if n.Refused != 2_000 || n.Error != 0 {
			t.Errorf("%v, want 2000", n)
		}
	}
}

func TestAllocations(t *testing.T) {
	s, i := New(t0), 0
	if n := testing.AllocsPerRun(10_000, func() { i++; s.Refused(network(i), t0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRefused(b *testing.B) {
	for _, row := range []struct {
		name     string
		networks int
	}{{"one", 1}, {"few", 100}, {"many", 1 << 20}} {
		b.Run(row.name, func(b *testing.B) {
			s := New(t0)
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(1 << 20); pb.Next(); i++ {
					s.Refused(network(i%row.networks), t0)
				}
			})
		})
	}
}
