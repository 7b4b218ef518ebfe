package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

// A siege is a small guard and those who guess at it, on a grid of seconds. At
// one victim, or at a fresh one with each guess, which no rule for subjects or pairs
// hinders.
type siege struct {
	name  string
	one   bool // victim
	nets  int  // from which attackers come, all in one /48
	rules []guard.Rule
}

func sieges() []siege {
	lock := func(free, window, first, longest int, decay bool) *lockout.Policy {
		return &lockout.Policy{
			FreeFailures: free, Window: time.Duration(window) * time.Second, Decay: decay, Lease: 3 * time.Second,
			FirstLockout: time.Duration(first) * time.Second, MaxLockout: time.Duration(longest) * time.Second,
			Capacity: 32, InFlight: 32,
		}
	}
	pair := guard.Rule{Per: guard.Pair, Lockout: lock(2, 12, 3, 6, false)}
	long := guard.Rule{Per: guard.Pair, Lockout: lock(4, 30, 2, 20, false)}
	fading := guard.Rule{Per: guard.Pair, Lockout: lock(3, 9, 2, 8, true)}
	network := guard.Rule{Lockout: lock(3, 12, 4, 16, true)}
	plain := guard.Rule{Lockout: lock(3, 7, 2, 8, false)}
	wide := guard.Rule{V4: 24, V6: 48, Lockout: lock(5, 20, 5, 10, true)}
	subject := guard.Rule{Per: guard.Subject, Lockout: lock(4, 16, 3, 12, true)}
	everyone := guard.Rule{Per: guard.Everyone, Lockout: lock(5, 15, 4, 8, false)}
	device := guard.Rule{Per: guard.Device, Lockout: lock(3, 10, 2, 4, false)}
	code := guard.Rule{Per: guard.Challenge, Lockout: lock(4, 20, 5, 20, false)}
	shadow := guard.Rule{Action: guard.Shadow, Lockout: lock(1, 20, 20, 20, true)}
	return []siege{
		{"pair and network", false, 1, []guard.Rule{pair, network}},
		{"pair and network that does not decay", false, 1, []guard.Rule{pair, plain}},
		{"network under a wider one", false, 2, []guard.Rule{long, network, wide}},
		{"everyone", false, 2, []guard.Rule{pair, everyone}},
		{"network and everyone", false, 1, []guard.Rule{long, network, everyone}},
		{"two pairs", false, 1, []guard.Rule{pair, long, network}},
		{"a pair that decays", false, 1, []guard.Rule{fading, pair, network}},
		{"subject", true, 1, []guard.Rule{pair, subject}},
		{"subject, two networks", true, 2, []guard.Rule{pair, subject}},
		{"subject and network", true, 1, []guard.Rule{long, network, subject}},
		{"devices", true, 2, []guard.Rule{long, device, subject}},
		{"devices and a fresh victim", false, 1, []guard.Rule{pair, device, network}},
		{"challenges", false, 1, []guard.Rule{pair, code, network}},
		{"a trial rule", false, 1, []guard.Rule{pair, shadow, network}},
		{"step-up", true, 1, []guard.Rule{pair, {Per: guard.Subject, Action: guard.StepUp, Lockout: lock(2, 20, 20, 20, false)}, network}},
	}
}

// spot is a page at an instant, everything relative to it.
type spot struct{ count, lock, clock, forget int32 }

// guessOnly finds, second by second, the most guesses that any schedule of nothing but
// guesses gets admitted by then. Every one is tried.
func (s siege) guessOnly(t testing.TB, seconds int) (best []int) {
	g, err := guard.New(guard.Config{Rules: s.rules})
	if err != nil {
		t.Fatal(err)
	}
	var books []*book // one for each key that guesses are charged to
	places := map[string]int{}
	charged := make([][]int, s.nets)
	for n := range charged {
		for _, r := range g.Rules() {
			if r.Action != guard.Refuse || r.Per == guard.Device || r.Per == guard.Challenge ||
				!s.one && (r.Per == guard.Pair || r.Per == guard.Subject) {
				continue
			}
			key := r.Name
			if r.Per == guard.Pair || r.Per == guard.Network && !strings.Contains(r.Name, "24") {
				key += fmt.Sprint(n)
			}
			if _, ok := places[key]; !ok {
				places[key] = len(books)
				books = append(books, newBook(r))
			}
			charged[n] = append(charged[n], places[key])
		}
	}
	type state [6]spot
	at := func(s state, i, second int) *page {
		now := int64(second) * int64(time.Second)
		x, p := s[i], &page{count: int(s[i].count)}
		if x.lock > 0 {
			p.lockEnd = now + int64(x.lock)*int64(time.Second)
		}
		p.clock, p.forget = now+int64(x.clock)*int64(time.Second), now+int64(x.forget)*int64(time.Second)
		return p
	}
	back := func(b *book, p *page, second int) (x spot) {
		rel := func(t int64) int32 { return int32(t/int64(time.Second)) - int32(second) }
		if x.count = int32(p.count); x.count == 0 {
			return x
		}
		x.lock = max(0, rel(p.lockEnd))
		if b.Lockout.Decay {
			x.clock = rel(p.clock)
		} else {
			x.forget = rel(p.forget)
		}
		return x
	}
	reached := map[state]int{{}: 0}
	for second := range seconds {
		now := int64(second) * int64(time.Second)
		todo := make([]state, 0, len(reached))
		for x := range reached {
			todo = append(todo, x)
		}
		for len(todo) > 0 {
			x := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, places := range charged {
				y := x
				if slices.ContainsFunc(places, func(i int) bool { return x[i].lock > 0 }) {
					continue
				}
				for _, i := range places {
					p := at(x, i, second)
					books[i].fail(p, now, false, true)
					y[i] = back(books[i], p, second)
				}
				if old, ok := reached[y]; !ok || old < reached[x]+1 {
					reached[y] = reached[x] + 1
					todo = append(todo, y)
				}
			}
		}
		most, next := 0, map[state]int{}
		for x, n := range reached {
			most = max(most, n)
			y := state{}
			for i, b := range books {
				p := at(x, i, second)
				b.fade(p, now+int64(time.Second))
				y[i] = back(b, p, second+1)
			}
			next[y] = max(next[y], n)
		}
		best = append(best, most)
		reached = next
	}
	return best
}
