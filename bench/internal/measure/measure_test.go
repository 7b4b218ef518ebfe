package measure

import (
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward/bench/internal/peer"
)

// None of our limiters allocates, one worker or two.
func TestAllocations(t *testing.T) {
	for _, p := range peer.Ours {
		b := NewBench(p, 4096, false)
		for _, procs := range []int{1, 2} {
			// Starting the workers takes a few, and so may the collector.
			if n := b.Allocations(procs, 50_000); n > 500 {
				t.Errorf("%s, %d workers: %d allocations in %d decisions", p.Name, procs, n, procs*50_000)
			}
		}
	}
}

// A key costs at most 64 bytes. A guard of three rules keeps at most three entries for
// one, and has tables for both families.
func TestBytesPerKey(t *testing.T) {
	const keys = 100_000
	for _, p := range peer.Ours {
		if p.Name == "guard, three rules" {
			continue
		}
		if got := Bytes(p, keys).BytesPerKey; got > 64.5 { // the fixed part of a limiter is in it
			t.Errorf("%s: %.1f bytes per key", p.Name, got)
		}
	}
}

// All peers decide alike on what they agree about: the limit is reached by the attempt
// after the last one allowed, and not by another caller's.
func TestPeersKeepTheLimit(t *testing.T) {
	for _, p := range slices.Concat(peer.Ours, peer.Others, peer.Bounded) {
		l := p.New(peer.Config{Limit: 5, Window: time.Hour, Keys: 100})
		l.Load(peer.Trace{1, 1, 1, 1, 1, 1, 2})
		for i := range 7 {
			if got, want := l.Decide(0, i), i != 5; got != want {
				t.Errorf("%s: attempt %d allowed is %v", p.Name, i+1, got)
			}
		}
	}
}

func TestFlood(t *testing.T) {
	for _, p := range slices.Concat(peer.Ours, peer.Bounded) {
		f := NewFlood(p, 64, 1000)
		for name, times := range map[string]Times{"known": f.Known(), "new": f.New(), "returning": f.Returning(), "forgotten": f.Forgotten()} {
			if _, shifts := f.limiter.(peer.Shifter); (name == "returning" || name == "forgotten") && !shifts {
				continue
			}
			if times.Median <= 0 || times.Median > times.P9999 || times.P9999 > times.Longest {
				t.Errorf("%s, %s: %+v", p.Name, name, times)
			}
		}
	}
}

func TestGrowth(t *testing.T) {
	for _, p := range slices.Concat(peer.Ours, peer.Others) {
		if Growth(p, 1000) <= 0 {
			t.Errorf("%s took no time", p.Name)
		}
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]int64{3, 1, 2}); got != 2 {
		t.Errorf("got %d", got)
	}
}
