package budget_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
	ever = time.Duration(math.MaxInt64)
)

var (
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one   = doorward.KeyFromName("one")
)

// A knocker is one key at a real limiter, or all of them.
type knocker struct {
	bound   budget.Bound
	policy  string
	typical []time.Duration // what may be worth waiting for
	attempt func(now time.Time) doorward.Decision
	reserve func(now time.Time) (d doorward.Decision, settle func(doorward.Outcome, time.Time))
}

func atLockout(p lockout.Policy) knocker {
	p.Capacity, p.InFlight = 2, 64
	l, err := lockout.New(p)
	if err != nil {
		panic(err)
	}
	p = l.Policy()
	k := knocker{bound: lockoutBound(p), policy: fmt.Sprintf("lockout %+v", p)}
	k.typical = []time.Duration{p.Window, p.Window / time.Duration(p.FreeFailures), p.Lease, p.FirstLockout, p.MaxLockout}
	k.attempt = func(now time.Time) doorward.Decision { return l.Attempt(one, now) }
	k.reserve = func(now time.Time) (doorward.Decision, func(doorward.Outcome, time.Time)) {
		d, ticket := l.Reserve(one, now)
		return d, func(o doorward.Outcome, now time.Time) { l.Settle(one, ticket, o, now) }
	}
	return k
}

func atWindow(p window.Policy) knocker {
	p.Capacity, p.InFlight = 2, 64
	l, err := window.New(p)
	if err != nil {
		panic(err)
	}
	p = l.Policy()
	k := knocker{bound: windowBound(p), policy: fmt.Sprintf("window %+v", p)}
	k.typical = []time.Duration{p.Window, p.Window / 8, p.Window / 8 * 9, time.Minute}
	k.attempt = func(now time.Time) doorward.Decision { return l.Allow(one, now) }
	k.reserve = func(now time.Time) (doorward.Decision, func(doorward.Outcome, time.Time)) {
		d, ticket := l.Reserve(one, now)
		return d, func(o doorward.Outcome, now time.Time) { l.Settle(one, ticket, o, now) }
	}
	return k
}

// atThrottle returns a source, or all of more than can be refused in a window.
func atThrottle(p throttle.Policy, all bool) knocker {
	p = p.WithDefaults()
	p.Sources, p.InFlight = 2*p.Global+1, 64
	l := throttle.New(p)
	source, together := throttleBounds(p)
	k := knocker{bound: source, policy: fmt.Sprintf("throttle %+v, source", p), typical: []time.Duration{p.Window, time.Minute}}
	who := func() doorward.Key { return one }
	admitted := 0
	if all {
		k.bound, k.policy = together, fmt.Sprintf("throttle %+v, all", p)
		who = func() doorward.Key { return doorward.KeyFromName(fmt.Sprint(admitted % p.Sources)) }
	}
	k.attempt = func(now time.Time) doorward.Decision {
		who := who()
		d := l.Blocked(who, now)
		if d.Allowed {
			admitted++
			l.Refused(who, now)
		}
		return d
	}
	k.reserve = func(now time.Time) (doorward.Decision, func(doorward.Outcome, time.Time)) {
		who := who()
		d, ticket := l.Reserve(who, now)
		if d.Allowed {
			admitted++
		}
		return d, func(o doorward.Outcome, now time.Time) {
			if o == doorward.Malformed && (all || p.Global < p.PerSource) {
				o = doorward.Failed // a malformed one is not charged to all
			}
			l.Settle(who, ticket, o, now)
		}
	}
	return k
}

// play makes the attempts of a plan. All are admitted, they are as many as Most says,
// and then there is no room for one more. Plans of more than limit are not played.
func play(t *testing.T, k knocker, span time.Duration, limit int64) (played bool) {
	t.Helper()
	most := k.bound.Most(span)
	if most > limit {
		return false
	}
	var admitted int64
	before := time.Duration(math.MinInt64)
	var begin time.Time
	for at, n := range k.bound.Plan(span) {
		if begin.IsZero() {
			if begin = epoch.Add(-min(at, 0)); span > ever-1+min(at, 0) {
				return false // longer than the clock of a limiter runs
			}
		}
		if at < before || at >= span || n <= 0 {
			t.Errorf("%s: plan of %d has %d at %d, after %d", k.policy, span, n, at, before)
			return true
		}
		before = at
		for i := range n {
			if d := k.attempt(begin.Add(at)); !d.Allowed {
				t.Errorf("%s: in a span of %v attempt %d of %d at %v is refused: %+v", k.policy, span, i+1, n, at, d)
				return true
			}
		}
		if at >= 0 {
			admitted += n
		}
	}
	if admitted != most {
		t.Errorf("%s: the plan of %v makes %d attempts, Most is %d", k.policy, span, admitted, most)
	}
	if d := k.attempt(begin.Add(span - 1)); d.Allowed {
		t.Errorf("%s: Most(%v) is %d, and one more was admitted", k.policy, span, most)
	}
	return true
}

var spans = []time.Duration{
	1, 2, 3, 7, 8, 9, 10, 100, time.Second, time.Minute - 1, time.Minute, time.Minute + 1, time.Minute + 2,
	10*time.Minute + 1, time.Hour - 1, time.Hour, time.Hour + 1, day, 30 * day, year, 100 * year,
}

func TestPlansAgainstLockout(t *testing.T) {
	policies := []lockout.Policy{
		lockout.Login, lockout.Enroll, lockout.PasskeyLogin,
		{FreeFailures: 3, Window: time.Minute, FirstLockout: 10 * time.Second, MaxLockout: 35 * time.Second},
		{FreeFailures: 1, Window: day, FirstLockout: 1, MaxLockout: ever},
		{FreeFailures: 2, Window: ever, FirstLockout: 1, MaxLockout: ever},
		{FreeFailures: 2, Window: ever, FirstLockout: ever, MaxLockout: ever},
		{FreeFailures: 2, Window: ever - 1, FirstLockout: ever/2 - 1, MaxLockout: ever - 1},
		{FreeFailures: 4, Window: 1, FirstLockout: ever / 3, MaxLockout: ever},
		{FreeFailures: 65_535, Window: 10 * day, FirstLockout: day, MaxLockout: day},
	}
	thorough := len(policies)
	for _, free := range []int{1, 2, 5, 36, 1000} {
		for _, window := range []time.Duration{1, 8, time.Second, time.Minute, 10 * time.Minute, day, 3 * year} {
			policies = append(policies,
				lockout.Policy{FreeFailures: free, Window: window, FirstLockout: 1, MaxLockout: 9},
				lockout.Policy{FreeFailures: free, Window: window, FirstLockout: time.Second, MaxLockout: time.Second},
				lockout.Policy{FreeFailures: free, Window: window, FirstLockout: time.Minute, MaxLockout: time.Hour},
				lockout.Policy{FreeFailures: free, Window: window, FirstLockout: 7 * time.Millisecond, MaxLockout: 40 * day})
		}
	}
	played := 0
	for i, p := range policies {
		limit := int64(5000)
		if i < thorough {
			limit = 200_000
		}
		for _, p.Decay = range []bool{false, true} {
			for _, span := range spans {
				if play(t, atLockout(p), span, limit) {
					played++
				}
			}
		}
	}
	if played < 3500 {
		t.Errorf("only %d plans were played", played)
	}
}

func TestPlansAgainstWindow(t *testing.T) {
	played := 0
	for _, limit := range []int{1, 2, 5, 36, 1000, 65_535} {
		for _, length := range []time.Duration{1, 2, 7, 8, 9, time.Second, time.Minute, 10 * time.Minute, day, 3 * year, ever / 2, ever - 1, ever} {
			for _, span := range spans {
				if limit == 65_535 && span != time.Minute+1 {
					continue // takes its time
				}
				for _, k := range []knocker{
					atWindow(window.Policy{Limit: limit, Window: length}),
					atWindow(window.Policy{Limit: limit, Window: length, Sliding: true}),
				} {
					if play(t, k, span, max(5000, 2*int64(limit))) {
						played++
					}
				}
			}
		}
	}
	if played < 1000 {
		t.Errorf("only %d plans were played", played)
	}
}

func TestPlansAgainstThrottle(t *testing.T) {
	played := 0
	for _, p := range []throttle.Policy{
		{}, {Global: 3}, {PerSource: 1, Global: 1}, {PerSource: 1, Global: 50}, {PerSource: 1000, Global: 1000}, {PerSource: 2, Global: 20_000},
	} {
		for _, p.Window = range []time.Duration{1, 2, time.Second, time.Minute, day} {
			for _, span := range spans {
				for _, all := range []bool{false, true} {
					if play(t, atThrottle(p, all), span, 25_000) {
						played++
					}
				}
			}
		}
	}
	if played < 500 {
		t.Errorf("only %d plans were played", played)
	}
}

// strategy plays at random, at moments that matter, and returns when what was admitted
// was admitted. Reservations end as failed, as malformed, or with their lease.
func strategy(k knocker, random *rand.Rand, steps int, reserve bool) (admitted []time.Duration) {
	type pending func(doorward.Outcome, time.Time)
	var open []pending
	var marks []time.Duration // when something happened
	var now, retry time.Duration
	greedy := random.IntN(4) > 0
	for range steps {
		mark := now
		if len(marks) > 0 {
			mark = marks[max(0, len(marks)-1-random.IntN(8))]
		}
		switch random.IntN(4) {
		case 0:
			now = max(now, mark+k.typical[random.IntN(len(k.typical))]*time.Duration(1+random.IntN(2))+time.Duration(random.IntN(3)-1))
		case 1:
			now = max(now, now+retry+time.Duration(random.IntN(3)-1))
		case 2:
			now += time.Duration(random.IntN(2))
		}
		marks = append(marks, now)
		for again := true; again; again = greedy && random.IntN(8) > 0 {
			if len(open) > 0 && random.IntN(3) == 0 {
				i := random.IntN(len(open))
				open[i]([]doorward.Outcome{doorward.Failed, doorward.Malformed}[random.IntN(2)], epoch.Add(now))
				open = slices.Delete(open, i, i+1)
				continue
			}
			var d doorward.Decision
			var settle pending
			if reserve && random.IntN(2) == 0 {
				d, settle = k.reserve(epoch.Add(now))
			} else {
				d = k.attempt(epoch.Add(now))
			}
			if retry = d.RetryAfter; !d.Allowed {
				break
			}
			admitted = append(admitted, now)
			if settle != nil && random.IntN(4) > 0 {
				open = append(open, settle)
			}
		}
	}
	return admitted
}

// Between any two of them no more are admitted than the bound of that span.
func TestNoStrategyBeatsTheBound(t *testing.T) {
	seed := rand.Uint64()
	var random *rand.Rand // begun anew for each history
	units := []time.Duration{1, 1, time.Millisecond, 10 * time.Second}
	some := func(n int, unit time.Duration) time.Duration { return time.Duration(1+random.IntN(n)) * unit }
	kinds := map[string]func() knocker{
		"lockout": func() knocker {
			unit := units[random.IntN(len(units))]
			p := lockout.Policy{FreeFailures: 1 + random.IntN(6), Window: some(20, unit), FirstLockout: some(8, unit), Decay: random.IntN(2) == 0}
			p.MaxLockout = p.FirstLockout + some(30, unit) - unit
			p.Lease = min(p.Window, some(20, unit))
			return atLockout(p)
		},
		"window": func() knocker {
			return atWindow(window.Policy{Limit: 1 + random.IntN(6), Window: some(30, units[random.IntN(len(units))]), Sliding: random.IntN(2) == 0})
		},
		"throttle": func() knocker {
			p := throttle.Policy{PerSource: 1 + random.IntN(5), Global: 1 + random.IntN(8), Window: some(20, units[random.IntN(len(units))])}
			return atThrottle(p, random.IntN(2) == 0)
		},
	}
	for kind, choose := range kinds {
		reached := 0
		for i := range uint64(20_000) {
			random = rand.New(rand.NewPCG(seed, i))
			k, reserve := choose(), random.IntN(3) > 0
			admitted := strategy(k, random, 25, reserve)
			tight := false
			for from := range admitted {
				for j := from + 1; j < len(admitted); j++ {
					if j+1 < len(admitted) && admitted[j+1] == admitted[j] {
						continue
					}
					span, n := admitted[j]-admitted[from]+1, int64(j-from+1)
					most := k.bound.Most(span)
					if n > most {
						t.Fatalf("seed %#x, %d, reservations %v, %s: %d admitted in %d ns, Most is %d: %v",
							seed, i, reserve, k.policy, n, span, most, admitted[from:j+1])
					}
					tight = tight || n == most && most > k.bound.Most(1)
				}
			}
			if tight {
				reached++
			}
		}
		if reached < 2000 {
			t.Errorf("seed %#x: only %d strategies against %s reached a bound beyond that of an instant", seed, reached, kind)
		}
	}
}
