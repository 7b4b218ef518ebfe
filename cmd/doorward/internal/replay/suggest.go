package replay

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

// Suggestions are the lockouts on callers that no other of the grid beats: each other one
// admits more guesses or refuses more honest callers, or as many of both.
type Suggestions struct {
	Tried    int          `json:"tried"`
	Attempts int64        `json:"attempts"`
	Honest   int64        `json:"honest"` // callers with a success
	Guesses  int64        `json:"guesses"`
	Frontier []Suggestion `json:"frontier"`
	// All has every policy of the grid.
	All []Suggestion `json:"all"`
}

// A Suggestion is what one lockout on callers, alone, would have done.
type Suggestion struct {
	FreeFailures      int     `json:"free_failures"`
	Window            float64 `json:"window_seconds"`
	First             float64 `json:"first_lockout_seconds"`
	Max               float64 `json:"max_lockout_seconds"`
	AdmittedFailed    int64   `json:"admitted_failed"`
	RefusedSucceeded  int64   `json:"refused_succeeded"`
	HonestRefused     int64   `json:"honest_refused"` // callers with a success of which an attempt was refused
	KeysRefused       int64   `json:"keys_refused"`
	AdmittedSucceeded int64   `json:"admitted_succeeded"`
	RefusedFailed     int64   `json:"refused_failed"`
}

// Policy returns the lockout, as --lockout has it and as files have it.
func (s Suggestion) Policy() (flag, yaml string) {
	show := func(seconds float64) string {
		return config.ShowDuration(time.Duration(seconds * float64(time.Second)))
	}
	w, f, m := show(s.Window), show(s.First), show(s.Max)
	return fmt.Sprintf("%d/%s/%s/%s", s.FreeFailures, w, f, m),
		fmt.Sprintf("{free_failures: %d, window: %s, first_lockout: %s, max_lockout: %s}", s.FreeFailures, w, f, m)
}

// ParseLockout returns the rules of one lockout per network from its flag:
// FREE/WINDOW/FIRST/MAX.
func ParseLockout(s string) (c guard.Config, err error) {
	wrong := fmt.Errorf("must be FREE/WINDOW/FIRST/MAX, such as 5/1m/1m/1h, got %q", s)
	parts := strings.Split(s, "/")
	if len(parts) != 4 {
		return c, wrong
	}
	var p lockout.Policy
	if p.FreeFailures, err = strconv.Atoi(parts[0]); err != nil {
		return c, wrong
	}
	for i, to := range []*time.Duration{&p.Window, &p.FirstLockout, &p.MaxLockout} {
		d, ok := config.ParseDuration(parts[i+1])
		if !ok {
			return c, wrong
		}
		*to = d
	}
	c = guard.Config{Rules: []guard.Rule{{Per: guard.Network, Lockout: &p}}}
	if _, err := config.Probe(c); err != nil {
		return c, fmt.Errorf("%q: %w", s, err)
	}
	return c, nil
}

// ErrKept is returned by Suggest if there were more attempts, or callers, than it takes.
var ErrKept = errors.New("--suggest takes up to 4,194,304 attempts and 1,048,576 callers, and the log has more: give it a part of the log")

// Grid returns the policies that Suggest tries, from mild to strict.
func Grid() (all []lockout.Policy) {
	const minute, hour, day = time.Minute, time.Hour, 24 * time.Hour
	for _, free := range []int{50, 20, 15, 10, 8, 6, 5, 4, 3, 2} {
		for _, window := range []time.Duration{minute, 10 * minute, hour, 6 * hour, day} {
			for _, l := range [][2]time.Duration{{30 * time.Second, 15 * minute}, {minute, hour}, {10 * minute, day}, {day, day}} {
				all = append(all, lockout.Policy{FreeFailures: free, Window: window, FirstLockout: l[0], MaxLockout: l[1]})
			}
		}
	}
	return all
}

// Suggest tries each policy as the only rule, on callers, and returns the frontier. Tried
// is called after each. The attempts must have been kept: Options.Suggest.
func (r *Replay) Suggest(grid []lockout.Policy, tried func(done, of int)) (*Suggestions, error) {
	if !r.keptAll {
		return nil, ErrKept
	}
	callers := newSuspects(r)
	all := make([]Suggestion, len(grid))
	var wait sync.WaitGroup
	var next, done atomic.Int64
	var lock sync.Mutex
	var fault error
	for range min(runtime.GOMAXPROCS(0), len(grid)) {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(grid) {
					return
				}
				s, err := callers.try(grid[i])
				lock.Lock()
				all[i] = s
				fault = cmp.Or(fault, err)
				if n := done.Add(1); tried != nil {
					tried(int(n), len(grid))
				}
				lock.Unlock()
			}
		})
	}
	wait.Wait()
	if fault != nil {
		return nil, fault
	}
	s := &Suggestions{Tried: len(grid), Attempts: int64(len(r.kept)), Honest: callers.honest, Guesses: callers.guesses, All: all, Frontier: Frontier(all)}
	return s, nil
}

// Frontier returns those of all that no other beats, by guesses admitted. Of several that
// are equal it takes the first.
func Frontier(all []Suggestion) []Suggestion {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(a.AdmittedFailed, b.AdmittedFailed), cmp.Compare(a.HonestRefused, b.HonestRefused))
	})
	front := []Suggestion{}
	for _, s := range sorted {
		if len(front) == 0 || s.HonestRefused < front[len(front)-1].HonestRefused {
			front = append(front, s)
		}
	}
	return front
}

// suspects are the kept attempts and what is known of their callers.
type suspects struct {
	kept     []kept
	addrs    []netip.Addr
	failed   []uint32
	succeeds []uint32
	honest   int64
	guesses  int64
}

func newSuspects(r *Replay) *suspects {
	n := len(r.callers.all)
	s := &suspects{kept: r.kept, addrs: make([]netip.Addr, n), failed: make([]uint32, n), succeeds: make([]uint32, n)}
	for i, k := range r.callers.all {
		if p := k.Prefix(); p.IsValid() {
			s.addrs[i] = p.Addr() // stands for all that count as one
		}
	}
	for _, k := range r.kept {
		switch k.outcome {
		case doorward.Failed, doorward.Malformed:
			s.failed[k.caller]++
			s.guesses++
		case doorward.Succeeded:
			if s.succeeds[k.caller] == 0 {
				s.honest++
			}
			s.succeeds[k.caller]++
		}
	}
	return s
}

// try plays one policy. Callers with fewer failures than are free never meet a lockout,
// so they are only counted.
func (s *suspects) try(p lockout.Policy) (out Suggestion, err error) {
	out = Suggestion{FreeFailures: p.FreeFailures, Window: p.Window.Seconds(), First: p.FirstLockout.Seconds(), Max: p.MaxLockout.Seconds()}
	keys := 0
	for i, n := range s.failed {
		if int(n) < p.FreeFailures {
			out.AdmittedFailed += int64(n)
			out.AdmittedSucceeded += int64(s.succeeds[i])
		} else {
			keys++
		}
	}
	if keys == 0 {
		return out, nil
	}
	p.Capacity, p.InFlight = keys, 4
	g, err := guard.New(guard.Config{Rules: []guard.Rule{{Per: guard.Network, Lockout: &p}}})
	if err != nil {
		return out, err
	}
	refused := make([]bool, len(s.failed))
	for _, k := range s.kept {
		if int(s.failed[k.caller]) < p.FreeFailures {
			continue
		}
		now := time.Unix(0, k.when)
		permit := g.Attempt(guard.Request{Addr: s.addrs[k.caller], How: clientip.Peer}, now)
		permit.Settle(k.outcome, now)
		var t Totals
		t.add(k.outcome, permit.Allowed)
		out.AdmittedFailed += t.AdmittedFailed
		out.RefusedFailed += t.RefusedFailed
		out.AdmittedSucceeded += t.AdmittedSucceeded
		out.RefusedSucceeded += t.RefusedSucceeded
		if !permit.Allowed && !refused[k.caller] {
			refused[k.caller] = true
			out.KeysRefused++
			out.HonestRefused += one(s.succeeds[k.caller] > 0)
		}
	}
	return out, nil
}
