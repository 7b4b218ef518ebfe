package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

// An operatorStore is a limiterStore that shows what it counts, and fails where it is told
// to.
type operatorStore struct {
	limiterStore
	failing string // the rule
	asked   []string
}

func (s *operatorStore) of(rule *guard.Rule, k doorward.Key, what string) (*lockout.Limiter, error) {
	s.asked = append(s.asked, what+" "+rule.Name)
	if rule.Name == s.failing {
		return nil, errors.New("out of order")
	}
	return s.limiter(guard.Charge{Rule: rule, Key: k}), nil
}

func (s *operatorStore) Stats(_ context.Context, rule *guard.Rule) (doorward.Stats, error) {
	l, err := s.of(rule, doorward.Key{}, "stats")
	if err != nil {
		return doorward.Stats{}, err
	}
	return l.Stats(), nil
}

func (s *operatorStore) Look(_ context.Context, rule *guard.Rule, k doorward.Key, now time.Time) (e doorward.Entry, own bool, d doorward.Decision, err error) {
	l, err := s.of(rule, k, "look")
	if err == nil {
		e, own, d = l.Ledger().Look(k, now)
	}
	return e, own, d, err
}

func (s *operatorStore) Unlock(_ context.Context, rule *guard.Rule, k doorward.Key) error {
	l, err := s.of(rule, k, "unlock")
	if err == nil {
		l.Unlock(k)
	}
	return err
}

func (s *operatorStore) Clear(_ context.Context, rule *guard.Rule) error {
	l, err := s.of(rule, doorward.Key{}, "clear")
	if err == nil {
		l.Clear()
	}
	return err
}

func TestOperator(t *testing.T) {
	ctx := context.Background()
	one := free(1, time.Minute, time.Minute)
	one.Capacity = 1
	c := guard.Config{Rules: []guard.Rule{
		{Name: "own", Lockout: free(2, time.Minute, time.Minute)},
		{Name: "subject", Per: guard.Subject, Lockout: free(9, time.Minute, time.Minute)},
		{Name: "device", Per: guard.Device, Lockout: one},
	}}
	memory := tell(t, c)
	store := &operatorStore{limiterStore: limiterStore{limiters: map[string]*lockout.Limiter{}}}
	c.Store = store
	remote := tell(t, c)

	q := from("192.0.2.1")
	q.Subject, q.Device = doorward.KeyFromName("ada"), doorward.KeyFromName("telephone")
	other := q
	other.Device = doorward.KeyFromName("tablet") // has no room
	same := func(second float64) {
		t.Helper()
		for _, q := range []guard.Request{q, other, from("192.0.2.1")} {
			want, err := memory.Lookup(q, at(second))
			got, err2 := remote.LookupContext(ctx, q, at(second))
			if !reflect.DeepEqual(got, want) || err != nil || err2 != nil {
				t.Errorf("after %v s: %+v, %v in the store, %+v, %v in memory", second, got, err2, want, err)
			}
		}
		for _, rule := range []string{"own", "subject", "device"} {
			want, got := memory.stats(rule), remote.stats(rule)
			if got != want {
				t.Errorf("after %v s: rule %s: %+v in the store, %+v in memory", second, rule, got, want)
			}
		}
	}
	both := func(f func(*guard.Guard) error) {
		t.Helper()
		if err := errors.Join(f(memory.Guard), f(remote.Guard)); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []story{memory, remote} {
		s.admitted(0, q, doorward.Failed)
		s.admitted(1, from("192.0.2.1"), doorward.Failed)
	}
	same(2)
	both(func(g *guard.Guard) error { return g.UnlockContext(ctx, "own", doorward.KeyFromAddr(q.Addr)) })
	if got, err := remote.LookupContext(ctx, q, at(3)); err != nil || got[0].Tracked || got[1].Decision.Allowed {
		t.Errorf("after an unlock of own alone: %+v, %v", got, err)
	}
	same(3)
	both(func(g *guard.Guard) error { return g.ClearContext(ctx, "device") })
	same(4)
	for _, s := range []story{memory, remote} {
		s.admitted(5, q, doorward.Failed)
	}
	same(6)
	both(func(g *guard.Guard) error { return g.Clear("") })
	same(7)

	store.failing, store.asked = "own", nil
	k := doorward.KeyFromAddr(q.Addr)
	for what, err := range map[string]error{
		"unlock": remote.Unlock("", k),
		"clear":  remote.Clear(""),
		"stats":  second(remote.Stats("own")),
		"look":   second(remote.Lookup(from("192.0.2.1"), at(8))),
	} {
		if err == nil || !strings.Contains(err.Error(), `"own": out of order`) {
			t.Errorf("%s of a rule that fails: %v", what, err)
		}
	}
	for _, want := range []string{"unlock own", "unlock subject", "unlock device", "clear own", "clear subject", "clear device"} {
		if !strings.Contains(strings.Join(store.asked, "\n"), want) {
			t.Errorf("a rule that fails must not keep others from being forgotten: no %q in %q", want, store.asked)
		}
	}
	if _, err := remote.Stats("none"); err == nil || errors.Is(err, guard.ErrStore) {
		t.Errorf("a rule that does not exist: %v", err)
	}
	if _, _, err := remote.AppendEntries(nil, "own", doorward.ShowAll, 0, 1, at(8)); !errors.Is(err, guard.ErrStore) {
		t.Errorf("pages of entries: %v, want ErrStore", err)
	}
	for what, err := range map[string]error{
		"pages": second(remote.named(ctx)), "look": second(remote.LookupNamed(ctx, "x", at(8))), "unlock": remote.UnlockNamed(ctx, "own", "x"),
	} {
		if !errors.Is(err, guard.ErrStore) {
			t.Errorf("%s of a Store that is no Lister: %v", what, err)
		}
	}
	if all, err := memory.named(ctx); len(all) != 0 || err != nil {
		t.Errorf("memory: %v, %v", all, err)
	}
	if all, err := memory.LookupNamed(ctx, "x", at(8)); all != nil || err != nil {
		t.Errorf("memory has names: %v, %v", all, err)
	}
	if err := memory.UnlockNamed(ctx, "own", "x"); err != nil {
		t.Error(err)
	}
}

// named returns the first page of a rule.
func (s story) named(ctx context.Context) ([]doorward.Entry, error) {
	all, _, err := s.AppendEntriesContext(ctx, nil, "own", doorward.ShowLocked, 0, 9, at(8))
	return all, err
}

// A listerStore has two entries in every rule, by names.
type listerStore struct{ operatorStore }

func (s *listerStore) AppendEntries(_ context.Context, dst []doorward.Entry, rule *guard.Rule, c guard.Cursor, places int, _ time.Time) ([]doorward.Entry, guard.Cursor, error) {
	_, err := s.of(rule, doorward.Key{}, fmt.Sprintf("%d from %d of", places, c))
	return append(dst, doorward.Entry{Name: "locked", LockedUntil: at(9)}, doorward.Entry{Name: "free", Pending: 1}), c + 1, err
}

func (s *listerStore) LookNamed(_ context.Context, rule *guard.Rule, name string, _ time.Time) (doorward.Entry, bool, doorward.Decision, error) {
	_, err := s.of(rule, doorward.Key{}, "look "+name)
	return doorward.Entry{Name: name}, rule.Name != "subject", doorward.Decision{Reason: doorward.Locked}, err
}

func (s *listerStore) UnlockNamed(_ context.Context, rule *guard.Rule, name string) error {
	_, err := s.of(rule, doorward.Key{}, "unlock "+name)
	return err
}

func (s *listerStore) Name(*guard.Rule, doorward.Key) string { return "" }

func TestLister(t *testing.T) {
	ctx := context.Background()
	store := &listerStore{operatorStore{limiterStore: limiterStore{limiters: map[string]*lockout.Limiter{}}}}
	s := tell(t, guard.Config{Store: store, Rules: []guard.Rule{
		{Name: "own", Lockout: free(2, time.Minute, time.Minute)},
		{Name: "subject", Per: guard.Subject, Lockout: free(9, time.Minute, time.Minute)},
		{Name: "all", Per: guard.Everyone, Lockout: free(9, time.Minute, time.Minute)},
	}})
	for show, want := range map[doorward.Show]string{doorward.ShowAll: "first locked free", doorward.ShowLocked: "first locked", doorward.ShowPending: "first free"} {
		page, c, err := s.AppendEntriesContext(ctx, []doorward.Entry{{Name: "first"}}, "own", show, 7, 1000, at(0))
		var names []string
		for _, e := range page {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != want || c != 8 || err != nil || store.asked[len(store.asked)-1] != "256 from 7 of own" {
			t.Errorf("%d: %q, %d, %v; asked %q", show, got, c, err, store.asked)
		}
	}
	found, err := s.LookupNamed(ctx, "x", at(0))
	if err != nil || len(found) != 2 || found[0].Rule != "all" || found[1].Rule != "own" || found[0].Per != guard.Everyone || found[0].Name != "x" || !found[0].Tracked || found[0].Decision.Reason != doorward.Locked {
		t.Errorf("%+v, %v", found, err)
	}
	store.asked = nil
	if err := errors.Join(s.UnlockNamed(ctx, "own", "x"), s.UnlockNamed(ctx, "", "y")); err != nil || strings.Join(store.asked, ", ") != "unlock x own, unlock y all, unlock y own, unlock y subject" {
		t.Errorf("asked %q, %v", store.asked, err)
	}
	store.failing = "own"
	for what, err := range map[string]error{
		"pages": second(s.named(ctx)), "look": second(s.LookupNamed(ctx, "x", at(0))), "unlock": s.UnlockNamed(ctx, "", "x"),
	} {
		if err == nil || !strings.Contains(err.Error(), `"own": out of order`) {
			t.Errorf("%s of a rule that fails: %v", what, err)
		}
	}
	for what, err := range map[string]error{"pages": third(s.AppendEntriesContext(ctx, nil, "none", 0, 0, 1, at(0))), "unlock": s.UnlockNamed(ctx, "none", "x")} {
		if err == nil || !strings.Contains(err.Error(), `"none"`) {
			t.Errorf("%s of no rule: %v", what, err)
		}
	}
}

func third[T, U any](_ T, _ U, err error) error { return err }

func second[T any](_ T, err error) error { return err }

// A checkerStore refuses one network by heart.
type checkerStore struct {
	limiterStore
	locked doorward.Key
	asked  int
}

func (s *checkerStore) Check(charges []guard.Charge) (refused bool) {
	s.asked++
	for i, c := range charges {
		charges[i].Decision = doorward.Decision{Allowed: true}
		if c.Key == s.locked && c.MayRefuse {
			charges[i].Decision, refused = doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Minute}, true
		}
	}
	return refused
}

func TestChecker(t *testing.T) {
	store := &checkerStore{locked: doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1"))}
	s := tell(t, guard.Config{
		Rules: storeRules(), Store: store,
		Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Blocked: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
	})
	for addr, want := range map[string]guard.Verdict{
		"192.0.2.1": {Decision: doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Minute}, Rule: "burst"},
		"192.0.2.2": {Decision: doorward.Decision{Allowed: true}},
		"10.0.0.1":  {Decision: doorward.Decision{Allowed: true}, Exempt: true},
		"10.1.0.1":  {Decision: doorward.Decision{Reason: doorward.Blocked}},
	} {
		q := from(addr)
		q.How = clientip.Peer
		if v := s.Check(q, at(0)); v != want {
			t.Errorf("%s: %+v, want %+v", addr, v, want)
		}
	}
	if store.asked != 2 || len(store.limiters) != 0 {
		t.Errorf("asked %d times, and %d limiters, want 2 and none", store.asked, len(store.limiters))
	}
}
