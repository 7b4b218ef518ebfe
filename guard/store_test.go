package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

// A limiterStore keeps the counts of each rule in a limiter of its own, as a remote
// store would, and fails on demand.
type limiterStore struct {
	limiters map[string]*lockout.Limiter
	err      error
}

func (s *limiterStore) limiter(c guard.Charge) *lockout.Limiter {
	name := c.Rule.Name
	if p := c.Key.Prefix(); p.IsValid() && p.Addr().Is6() {
		name += " 6"
	}
	l := s.limiters[name]
	if l == nil {
		var err error
		if l, err = lockout.New(*c.Rule.Lockout); err != nil {
			panic(err)
		}
		s.limiters[name] = l
	}
	return l
}

func (s *limiterStore) Reserve(_ context.Context, charges []guard.Charge) error {
	if s.err != nil {
		return s.err
	}
	refused := false
	for i, c := range charges {
		d := s.limiter(c).Check(c.Key, c.Now)
		charges[i].Decision = d
		refused = refused || c.MayRefuse && !d.Allowed && !(c.Known && d.Overflow)
	}
	if refused {
		return nil
	}
	apart := false
	for i, c := range charges {
		l := s.limiter(c)
		switch {
		case !c.Decision.Allowed:
		case c.Rule.Per == guard.Pair && (apart || c.Apart):
			charges[i].Decision, charges[i].Ticket = l.ReserveApart(c.Key, c.Now)
		default:
			charges[i].Decision, charges[i].Ticket = l.Reserve(c.Key, c.Now)
		}
		apart = apart || c.Given && (!charges[i].Decision.Allowed || charges[i].Decision.Overflow)
	}
	return nil
}

func (s *limiterStore) Settle(_ context.Context, charges []guard.Charge) error {
	if s.err != nil {
		return s.err
	}
	var cleared []doorward.Cleared
	for i, c := range charges {
		l := s.limiter(c)
		charges[i].Cleared, charges[i].Lockout = l.SettleTold(c.Key, c.Ticket, c.Outcome, c.Apart, c.Now)
		switch {
		case c.Rule.Per == guard.Pair:
			cleared = append(cleared, charges[i].Cleared)
		case c.GiveBack:
			l.GiveBackMost(c.Key, cleared, c.Now)
		}
	}
	return nil
}

func storeRules() []guard.Rule {
	return []guard.Rule{
		{Name: "burst", Lockout: free(3, 10*time.Second, 5*time.Second)},
		{Name: "day", Lockout: decaying(6, time.Minute, 3*time.Second)},
		{Name: "site", V4: 24, V6: 48, Lockout: decaying(8, time.Minute, 2*time.Second)},
		{Name: "trial", Action: guard.Shadow, Lockout: free(2, 20*time.Second, 5*time.Second)},
		{Name: "pair", Per: guard.Pair, Lockout: free(2, 20*time.Second, 5*time.Second)},
		{Name: "pair-long", Per: guard.Pair, Lockout: free(4, time.Minute, 5*time.Second)},
		{Name: "subject", Per: guard.Subject, Lockout: decaying(5, time.Minute, 5*time.Second)},
		{Name: "code", Per: guard.Challenge, Lockout: free(2, time.Minute, 5*time.Second)},
		{Name: "all", Per: guard.Everyone, Lockout: decaying(12, time.Minute, time.Second)},
	}
}

// The same histories through memory and through a store end in the same decisions.
func TestStoreAgreesWithMemory(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		memory := tell(t, guard.Config{Rules: storeRules()})
		store := &limiterStore{limiters: map[string]*lockout.Limiter{}}
		remote := tell(t, guard.Config{Rules: storeRules(), Store: store})
		type pair struct{ memory, remote guard.Permit }
		var flying []pair
		now := start
		for step := range 2000 {
			now = now.Add(time.Duration(rnd.IntN(3)) * time.Second)
			if n := len(flying); n > 0 && rnd.IntN(2) == 0 {
				i := rnd.IntN(n)
				p := flying[i]
				flying[i] = flying[n-1]
				flying = flying[:n-1]
				o := doorward.Outcome(rnd.IntN(4))
				m := p.memory.Settle(o, now)
				r, err := p.remote.SettleContext(ctx, o, now)
				if m != r || err != nil {
					t.Fatalf("seed %d step %d: settled as %+v in memory, %+v, %v in the store", seed, step, m, r, err)
				}
				continue
			}
			q := guard.Request{How: clientip.Peer}
			switch rnd.IntN(3) {
			case 0:
				q.Addr = netip.AddrFrom4([4]byte{192, 0, 2, byte(rnd.IntN(4))})
			case 1:
				q.Addr = netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%d::1", rnd.IntN(4)))
			}
			if rnd.IntN(2) == 0 {
				q.Subject = doorward.KeyFromName(fmt.Sprint("s", rnd.IntN(3)))
				q.Challenge = doorward.KeyFromName(fmt.Sprint("c", rnd.IntN(3)))
			}
			m := memory.Attempt(q, now)
			r, err := remote.AttemptContext(ctx, q, now)
			if m.Verdict != r.Verdict || err != nil {
				t.Fatalf("seed %d step %d: %+v in memory, %+v, %v in the store", seed, step, m.Verdict, r.Verdict, err)
			}
			if m.Allowed {
				flying = append(flying, pair{m, r})
			}
		}
	}
}

// Whoever sees only how an attempt ended knows from it whether the pair alone counts it.
func TestStoreIsToldApart(t *testing.T) {
	ctx := context.Background()
	one := free(1, time.Minute, time.Minute)
	store := &toldStore{limiterStore: limiterStore{limiters: map[string]*lockout.Limiter{}}}
	s := tell(t, guard.Config{Store: store, Rules: []guard.Rule{
		{Name: "trial", Action: guard.Shadow, Lockout: one},
		{Name: "trial-code", Per: guard.Challenge, Action: guard.Shadow, Lockout: one},
		{Name: "pair", Per: guard.Pair, Lockout: free(9, time.Minute, time.Minute)},
		{Name: "device", Per: guard.Device, Lockout: free(9, time.Minute, time.Minute)},
		{Name: "subject", Per: guard.Subject, Lockout: free(9, time.Minute, time.Minute)},
	}})
	q := from("192.0.2.1")
	q.Subject = doorward.KeyFromName("ada")
	known := q
	known.Addr, known.Device = netip.MustParseAddr("192.0.2.2"), doorward.KeyFromName("telephone")
	code := q
	code.Addr, code.Challenge = netip.MustParseAddr("192.0.2.3"), doorward.KeyFromName("123456")
	elsewhere := code
	elsewhere.Addr = netip.MustParseAddr("192.0.2.4")
	for i, c := range []struct {
		q     guard.Request
		o     doorward.Outcome
		apart bool
	}{
		{q, doorward.Void, false},
		{q, doorward.Failed, false},         // locks the trial
		{q, doorward.Failed, true},          // which does not count this
		{known, doorward.Failed, true},      // nor the subject this
		{code, doorward.Failed, false},      // locks the trial of the code
		{elsewhere, doorward.Failed, false}, // which does not matter: it is not given back
		{from("192.0.2.9"), doorward.Failed, false},
	} {
		p, err := s.AttemptContext(ctx, c.q, at(float64(i)))
		if !p.Allowed || err != nil {
			t.Fatalf("%d: %+v, %v", i, p.Verdict, err)
		}
		store.told = nil
		if _, err := p.SettleContext(ctx, c.o, at(float64(i))); err != nil {
			t.Fatal(err)
		}
		for _, x := range store.told {
			if x.Apart != (c.apart && x.Rule.Per == guard.Pair) {
				t.Errorf("%d: rule %s: apart %v", i, x.Rule.Name, x.Apart)
			}
		}
	}
}

// A toldStore remembers what it was to settle last.
type toldStore struct {
	limiterStore
	told []guard.Charge
}

func (s *toldStore) Settle(ctx context.Context, charges []guard.Charge) error {
	s.told = append(s.told, charges...)
	return s.limiterStore.Settle(ctx, charges)
}

func TestStoreFails(t *testing.T) {
	ctx := context.Background()
	broken := errors.New("connection refused")
	store := &limiterStore{limiters: map[string]*lockout.Limiter{}, err: broken}
	c := guard.Config{Rules: storeRules(), Store: store, Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	s := tell(t, c)
	p, err := s.AttemptContext(ctx, from("192.0.2.1"), start)
	if p.Allowed || p.Reason != doorward.Unavailable || !errors.Is(err, broken) {
		t.Errorf("a store that fails: %+v, %v; want unavailable", p.Verdict, err)
	}
	if p := s.Attempt(from("192.0.2.1"), start); p.Allowed || p.Reason != doorward.Unavailable {
		t.Errorf("Attempt with a store that fails: %+v, want unavailable", p.Verdict)
	}
	if p, err := s.AttemptContext(ctx, from("10.0.0.1"), start); !p.Exempt || err != nil {
		t.Errorf("an exempt network needs no store, got %+v, %v", p.Verdict, err)
	}
	store.err = nil
	if p, err = s.AttemptContext(ctx, from("192.0.2.1"), start); !p.Allowed || err != nil {
		t.Fatalf("a store that works again: %+v, %v", p.Verdict, err)
	}
	store.err = broken
	if got, err := p.SettleContext(ctx, doorward.Succeeded, start); !errors.Is(err, broken) || !got.Settled {
		t.Errorf("settling in a store that fails: %+v, %v", got, err)
	}
}
