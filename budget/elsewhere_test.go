package budget

import (
	"math"
	"slices"
	"testing"
	"time"
)

// What one key gets elsewhere in a day from a clean start.
func TestElsewhere(t *testing.T) {
	want := map[string]int64{
		"OpenSSH before 9.8":    math.MaxInt64,
		"OpenSSH 9.8 and later": 6 * (4 + 17279), // one connection each 5 s, and 15 s owed
		"fail2ban":              5 * 144,
		"Keycloak, multiple":    30*2 + 263, // twice 30, and 263 lockouts of 1 min and up in the 12 hours left
		"Keycloak, linear":      132,
		"Authelia":              3 + 2*719,
		"Vault":                 5 * 96,
		"pam_faillock":          3 * 144,
		"Devise lockable":       20 * 24,
		"NIST SP 800-63B":       100,
	}
	figures := map[string]int64{"OpenSSH 9.8 and later": 103_698, "Keycloak, multiple": 323, "Authelia": 1441, "fail2ban": 720, "Vault": 480, "pam_faillock": 432, "Devise lockable": 480}
	for _, c := range Elsewhere() {
		got, known := want[c.Name]
		if n := c.Most(day); !known || n != got {
			t.Errorf("%s: %d in a day, want %d", c.Name, n, got)
		}
		if n, ok := figures[c.Name]; ok && c.Most(day) != n {
			t.Errorf("%s: %d in a day, want %d", c.Name, c.Most(day), n)
		}
		delete(want, c.Name)
		for _, none := range []time.Duration{0, -1, math.MinInt64} {
			if n := c.Most(none); n != 0 {
				t.Errorf("%s: %d in %v", c.Name, n, none)
			}
		}
		last := int64(0)
		for span := time.Duration(1); span > 0 && span < math.MaxInt64/32; span *= 32 {
			n := c.Most(span)
			if n < last {
				t.Errorf("%s: %d in %v, less than in a part of it", c.Name, n, span)
			}
			last = n
		}
		if c.Most(math.MaxInt64) < last {
			t.Errorf("%s: fewer for ever", c.Name)
		}
		if c.Key == "" || c.Settings == "" || c.Source == "" {
			t.Errorf("%s: key %q, settings %q and source %q must be given", c.Name, c.Key, c.Settings, c.Source)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	for n, span := range map[int64]time.Duration{24: 1, 30: 5*time.Second + 1} {
		if got := Elsewhere()[1].Most(span); got != n {
			t.Errorf("OpenSSH: %d in %v, want %d", got, span, n)
		}
	}
}

// A control is a machine: how it counts a failure, one after the other.
type machine struct {
	count  int64
	last   int64 // failure
	locked int64 // until then
}

// slow finds the most guesses in each span from a clean start: at each instant guess or
// wait, and see.
func slow(spans int64, fail func(m machine, now int64) machine) []int64 {
	best := make([]int64, spans+1)
	type place struct {
		machine
		now int64
	}
	seen := map[place]int64{}
	var from func(m machine, now, n int64)
	from = func(m machine, now, n int64) {
		if now >= spans {
			return
		}
		p := place{m, now}
		if was, ok := seen[p]; ok && was >= n {
			return
		}
		seen[p] = n
		for span := now + 1; span <= spans; span++ {
			best[span] = max(best[span], n)
		}
		from(m, now+1, n)
		if now >= m.locked {
			m := fail(m, now)
			for span := now + 1; span <= spans; span++ {
				best[span] = max(best[span], n+1)
			}
			from(m, now, n+1)
		}
	}
	from(machine{last: math.MinInt32}, 0, 0)
	return best
}

func compareSlow(t *testing.T, name string, parameters []int64, best []int64, most func(int64) int64) {
	t.Helper()
	for span := int64(1); span < int64(len(best)); span++ {
		if n := most(span); n != best[span] {
			t.Fatalf("%s of %v: %d in %d, the slow search finds %d", name, parameters, n, span, best[span])
		}
	}
}

func TestBanAgainstSlowSearch(t *testing.T) {
	for free := int64(1); free <= 4; free++ {
		for window := int64(1); window <= 6; window++ {
			for banned := int64(1); banned <= 6; banned++ {
				best := slow(20, func(m machine, now int64) machine {
					if m.count > 0 && now >= m.last+window {
						m = machine{}
					}
					if m.count++; m.count >= free {
						return machine{locked: now + banned}
					}
					m.last = now
					return m
				})
				compareSlow(t, "ban", []int64{free, window, banned}, best, ban(free, time.Duration(window), time.Duration(banned)))
			}
		}
	}
}

func TestClimbingAgainstSlowSearch(t *testing.T) {
	for free := int64(1); free <= 3; free++ {
		for _, l := range []ladder{{1}, {2}, {1, 2}, {1, 1, 3}, {2, 3, 4}, {1, 2, 3, 4}} {
			for window := l.longest(); window <= 9; window++ {
				best := slow(18, func(m machine, now int64) machine {
					if m.count > 0 && now >= m.last+window {
						m = machine{}
					}
					if m.count++; m.count >= free {
						m.locked = now + l.length(m.count-free)
					}
					m.last = now
					return m
				})
				compareSlow(t, "climbing", append([]int64{free, window}, l...), best, climbing(free, time.Duration(window), l))
			}
		}
	}
}

// Steps are what documents say: each length for so many failures.
func TestSteps(t *testing.T) {
	if got, want := steps(3, 2, 5), (ladder{5, 5, 10, 10, 15, 15}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := steps(15, 1, time.Minute); len(got) != 15 || got.longest() != int64(15*time.Minute) {
		t.Errorf("%v", got)
	}
}
