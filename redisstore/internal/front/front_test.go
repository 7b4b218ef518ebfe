package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/breaker"
	"github.com/doorward/doorward/redisstore/internal/faulty"
	"github.com/doorward/doorward/redisstore/internal/hot"
	"github.com/doorward/doorward/redisstore/internal/line"
	"github.com/doorward/doorward/redisstore/internal/memory"
)

var (
	ctx  = context.Background()
	down = faulty.Plan{Err: io.EOF}
	up   = faulty.Plan{}
)

// A node is a process of a fleet: a guard with a Store of its own on a server of all.
type node struct {
	*guard.Guard
	Store *Store
	testing.TB
}

func start(t testing.TB, far guard.Store, m Mode, rules ...guard.Rule) node {
	t.Helper()
	l, err := line.New(line.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(far, l, Config{Mode: m})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{Rules: rules, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return node{g, s, t}
}

func from(addr string) guard.Request { return guard.Request{Addr: netip.MustParseAddr(addr)} }

// guess makes a wrong attempt and reports whether it was admitted.
func (n node) guess(q guard.Request) bool {
	n.Helper()
	p, err := n.AttemptContext(ctx, q, time.Now())
	if err != nil {
		if p.Allowed || p.Reason != doorward.Unavailable {
			n.Errorf("%+v with %v", p.Verdict, err)
		}
		return false
	}
	p.SettleContext(ctx, doorward.Failed, time.Now())
	return p.Allowed
}

func (n node) guesses(times int, q guard.Request) (admitted int) {
	n.Helper()
	for range times {
		if n.guess(q) {
			admitted++
		}
	}
	return admitted
}

// five is a rule of five failures and a lockout of ten minutes.
func five() guard.Rule {
	return guard.Rule{Name: "own", Lockout: faulty.Free(5, time.Hour, 10*time.Minute, 64)}
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// The same histories through a guard in memory and through a server end in the same
// decisions, but for what the package says of those that are hot.
func TestAgreesWithGuard(t *testing.T) { synctest.Test(t, agreesWithGuard) }

func agreesWithGuard(t *testing.T) {
	var hits, named, shadows int
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		plain, err := guard.New(guard.Config{Rules: faulty.Rules()})
		if err != nil {
			t.Fatal(err)
		}
		far := faulty.New()
		n := start(t, far, Mode(rnd.IntN(3)), faulty.Rules()...)
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		n.Store.Subscribed(now)
		type pair struct{ plain, stored guard.Permit }
		var flying []pair
		for step := range 1500 {
			now = now.Add(time.Duration(rnd.IntN(1500)) * time.Millisecond)
			n.Store.Heard(now)
			if k := len(flying); k > 0 && rnd.IntN(2) == 0 {
				i := rnd.IntN(k)
				p := flying[i]
				flying[i] = flying[k-1]
				flying = flying[:k-1]
				o := doorward.Outcome(rnd.IntN(4))
				want := p.plain.Settle(o, now)
				if got, err := p.stored.SettleContext(ctx, o, now); got != want || err != nil {
					t.Fatalf("seed %d step %d: settled as %+v, %v, want %+v", seed, step, got, err, want)
				}
				continue
			}
			q := faulty.Request(rnd)
			if rnd.IntN(30) == 0 {
				rule, k := faulty.Rules()[rnd.IntN(13)], doorward.KeyFromAddr(q.Addr)
				plain.Unlock(rule.Name, k)
				if rnd.IntN(2) == 0 {
					err = n.UnlockContext(ctx, rule.Name, k)
				} else { // another process does
					err = far.Unlock(ctx, &rule, k)
					n.Store.Forget(rule.Name, k)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			asked, before := far.Asked.Load(), n.Store.Counts().Hot
			want := plain.Attempt(q, now)
			got, err := n.AttemptContext(ctx, q, now)
			if err != nil {
				t.Fatal(err)
			}
			if n.Store.Counts().Hot != before {
				hits++
				// A device that has no room is tried again as a stranger.
				if far.Asked.Load() != asked && q.Device == (doorward.Key{}) {
					t.Fatalf("seed %d step %d: the store was asked about what is hot", seed, step)
				}
				if got.Reason != doorward.Locked || got.Overflow || got.RetryAfter > want.RetryAfter || want.Allowed || got.Shadow&^want.Shadow != 0 {
					t.Fatalf("seed %d step %d: hot %+v\nwant %+v", seed, step, got.Verdict, want.Verdict)
				}
				if got.Rule != want.Rule {
					named++
				}
				if got.Shadow != want.Shadow {
					shadows++
				}
				continue
			}
			if got.Verdict != want.Verdict {
				t.Fatalf("seed %d step %d: %+v\nwant %+v", seed, step, got.Verdict, want.Verdict)
			}
			if want.Allowed {
				flying = append(flying, pair{want, got})
			}
		}
	}
	t.Logf("%d hits, another rule named %d times, other shadows %d times", hits, named, shadows)
	if hits < 1000 || named == 0 || named > hits/2 {
		t.Errorf("%d hits, another rule named %d times", hits, named)
	}
}

// A caller who is locked out costs the server nothing, and the wait counts down.
func TestHot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := faulty.New()
		n := start(t, far, Local, five())
		n.Store.Subscribed(time.Now())
		q := from("192.0.2.1")
		if got := n.guesses(5, q); got != 5 {
			t.Fatalf("%d admitted", got)
		}
		ends := time.Now().Add(10 * time.Minute)
		n.guess(q) // asks, and is told
		asked := far.Asked.Load()
		for time.Until(ends) > 0 {
			n.Store.Heard(time.Now())
			if v, v2 := n.Check(q, time.Now()), n.Check(from("192.0.2.2"), time.Now()); v.Allowed || v.RetryAfter != time.Until(ends) || v.Rule != "own" || !v2.Allowed {
				t.Fatalf("%+v and %+v before the body is read", v, v2)
			}
			p, err := n.AttemptContext(ctx, q, time.Now())
			want := guard.Verdict{Decision: doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Until(ends)}, Rule: "own"}
			if p.Verdict != want || err != nil {
				t.Fatalf("%+v, %v, want %+v", p.Verdict, err, want)
			}
			time.Sleep(time.Second / 2)
		}
		if got := far.Asked.Load(); got != asked {
			t.Errorf("asked %d times", got-asked)
		}
		if got, want := n.Store.Counts(), (Counts{Hot: 2400}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if n.guesses(2, q) != 1 {
			t.Error("the lockout has ended: one more")
		}
	})
}

// The server is asked while answers travel, so nobody is refused for longer than it says.
func TestHotIsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := faulty.New()
		n := start(t, far, Closed, five())
		q := from("192.0.2.1")
		n.guesses(5, q)
		ends := time.Now().Add(10 * time.Minute)
		time.Sleep(time.Until(ends) - 100*time.Millisecond)
		far.Set(faulty.Plan{Before: 20 * time.Millisecond, After: 20 * time.Millisecond})
		n.guess(q) // is told of 80 ms when 60 are left
		far.Set(up)
		time.Sleep(time.Until(ends) - 21*time.Millisecond)
		if n.guess(q) || n.Store.Counts().Hot != 1 {
			t.Error("not hot before that")
		}
		time.Sleep(time.Until(ends))
		if !n.guess(q) {
			t.Error("refused past the end of the lockout")
		}
	})
}

// An unlock by another process reaches this one within a second, whether it is told or not.
func TestUnlock(t *testing.T) {
	for _, c := range []struct {
		name   string
		tell   func(n node, k doorward.Key)
		within time.Duration
	}{
		{"told of the key", func(n node, k doorward.Key) { n.Store.Forget("own", k) }, 0},
		{"told of the rule", func(n node, k doorward.Key) { n.Store.ForgetAll("own") }, 0},
		{"told to begin anew", func(n node, k doorward.Key) { n.Store.Subscribed(time.Now()) }, 0},
		{"told nothing", func(node, doorward.Key) {}, time.Second},
	} {
		bubble(t, c.name, func(t *testing.T) {
			far := faulty.New()
			n := start(t, far, Local, five())
			q := from("192.0.2.1")
			k := doorward.KeyFromAddr(q.Addr)
			n.Store.Subscribed(time.Now())
			n.guesses(6, q)
			for range 10 {
				time.Sleep(time.Second / 2)
				n.Store.Heard(time.Now())
			}
			far.Unlock(ctx, &n.Rules()[0], k)
			if n.guess(q) {
				t.Fatal("admitted before anybody told it")
			}
			c.tell(n, k)
			began := time.Now()
			for !n.guess(q) {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(began); took != c.within {
				t.Errorf("admitted after %v, want %v", took, c.within)
			}
		})
	}
	// By this one: at once, and by its own counts too.
	bubble(t, "here", func(t *testing.T) {
		far := faulty.New()
		n := start(t, far, Local, five())
		q := from("192.0.2.1")
		n.guesses(6, q)
		if err := n.UnlockContext(ctx, "own", doorward.KeyFromAddr(q.Addr)); err != nil {
			t.Fatal(err)
		}
		if got := n.guesses(9, q); got != 5 {
			t.Errorf("%d admitted, want 5", got)
		}
		if err := n.ClearContext(ctx, "own"); err != nil {
			t.Fatal(err)
		}
		far.Set(down)
		if got := n.guesses(9, q); got != 5 {
			t.Errorf("%d admitted by its own counts, want 5", got)
		}
		if err := n.UnlockContext(ctx, "own", doorward.KeyFromAddr(q.Addr)); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want that the server was not told", err)
		}
		if got := n.guesses(9, q); got != 5 {
			t.Errorf("%d admitted by its own counts after an unlock, want 5", got)
		}
	})
}

// What each mode makes of each trouble.
func TestModes(t *testing.T) {
	oom := errors.New("OOM command not allowed")
	hung := faulty.Plan{Before: time.Hour, Deaf: true}
	for _, c := range []struct {
		mode   Mode
		plan   faulty.Plan
		allow  bool
		counts Counts
	}{
		{Local, down, true, Counts{Local: 1}},
		{Local, hung, true, Counts{Local: 1}},
		{Local, faulty.Plan{Err: oom}, true, Counts{Local: 1}},
		{Closed, down, false, Counts{Unavailable: 1}},
		{Closed, hung, false, Counts{Unavailable: 1}},
		{Closed, faulty.Plan{Err: oom}, false, Counts{Unavailable: 1}},
		{FailOpen, down, true, Counts{Open: 1}},
		{FailOpen, hung, true, Counts{Open: 1}},
		{FailOpen, faulty.Plan{Err: oom}, false, Counts{Unavailable: 1}},
	} {
		bubble(t, fmt.Sprint(c.mode, c.plan), func(t *testing.T) {
			far := faulty.New()
			n := start(t, far, c.mode, five(), guard.Rule{Name: "step", Per: guard.Subject, Action: guard.StepUp, Lockout: faulty.Free(5, time.Hour, time.Minute, 8)})
			q := from("192.0.2.1")
			q.Subject = doorward.KeyFromName("ada")
			far.Set(c.plan)
			p, err := n.AttemptContext(ctx, q, time.Now())
			if p.Allowed != c.allow || (err == nil) != c.allow || p.StepUp || !c.allow && p.Reason != doorward.Unavailable {
				t.Errorf("%+v, %v", p.Verdict, err)
			}
			if got := n.Store.Counts(); got != c.counts {
				t.Errorf("%+v, want %+v", got, c.counts)
			}
			far.Set(faulty.Plan{Deaf: true})
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			far.Set(up)
			asked := far.Asked.Load()
			s, err := p.SettleContext(ctx, doorward.Failed, time.Now())
			if s.Settled != c.allow || err != nil || far.Asked.Load() != asked {
				t.Errorf("settled: %+v, %v: the server has nothing to do with it", s, err)
			}
		})
	}
	bubble(t, "hot", func(t *testing.T) {
		for _, m := range []Mode{Local, Closed, FailOpen} {
			far := faulty.New()
			n := start(t, far, m, five())
			q := from("192.0.2.1")
			n.guesses(6, q)
			ends := time.Now().Add(10 * time.Minute)
			far.Set(down)
			time.Sleep(5 * time.Minute)
			p, err := n.AttemptContext(ctx, q, time.Now())
			if p.Allowed || p.Reason != doorward.Locked || p.RetryAfter != time.Until(ends) || err != nil {
				t.Errorf("%v: %+v, %v: a lockout is kept while the server is away", m, p.Verdict, err)
			}
		}
	})
}

// Limits that a reload made lower may lock a key that has an attempt in flight. If that
// succeeds it is not hot any more.
func TestSuccessEndsLockout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := faulty.New()
		of := func(failures int) guard.Rule {
			return guard.Rule{Per: guard.Pair, Lockout: faulty.Free(failures, time.Hour, 10*time.Minute, 64)}
		}
		n := start(t, far, Closed, of(5))
		q := from("192.0.2.1")
		q.Subject = doorward.KeyFromName("ada")
		var flying []guard.Permit
		for range 3 {
			p, _ := n.AttemptContext(ctx, q, time.Now())
			flying = append(flying, p)
		}
		g, err := n.Guard.Reload(guard.Config{Rules: []guard.Rule{of(2)}, Store: n.Store})
		if err != nil {
			t.Fatal(err)
		}
		n.Guard = g
		far.Memory.Look(ctx, &g.Rules()[0], doorward.Key{}, time.Now()) // the new limits are in force
		for i := range 2 {
			flying[i].SettleContext(ctx, doorward.Failed, time.Now())
		}
		if n.guesses(2, q) != 0 || n.Store.Counts().Hot != 1 {
			t.Errorf("%+v: not hot", n.Store.Counts())
		}
		if s, err := flying[2].SettleContext(ctx, doorward.Succeeded, time.Now()); s.Cleared != 2 || err != nil {
			t.Errorf("%+v, %v", s, err)
		}
		if !n.guess(q) {
			t.Error("hot after a success that ended the lockout")
		}
	})
}

// fleet returns so many nodes on one server.
func fleet(t *testing.T, n int, m Mode) (*faulty.Store, []node) {
	far := faulty.New()
	var nodes []node
	for range n {
		nodes = append(nodes, start(t, far, m, five()))
	}
	return far, nodes
}

// The bound of each mode, for a rule of five and three nodes, all of them asked as often as
// they answer. The policy is five by any moment before the lockout ends.
func TestBound(t *testing.T) {
	type phase struct {
		plan  faulty.Plan
		nodes []int
		want  int
	}
	all := []int{0, 1, 2}
	flapping := []phase{{down, all, 15}}
	for range 20 {
		flapping = append(flapping, phase{up, all, 0}, phase{down, all, 0})
	}
	flapping[1].want = 5
	for name, c := range map[string]struct {
		mode   Mode
		phases []phase
	}{
		"never down":                        {Local, []phase{{up, all, 5}, {up, all, 0}}},
		"local, down first":                 {Local, []phase{{down, all, 15}, {up, all, 5}, {down, all, 0}, {up, all, 0}}},
		"local, locked before":              {Local, []phase{{up, all, 5}, {down, all, 0}, {up, all, 0}}},
		"local, locked before by one":       {Local, []phase{{up, []int{0}, 5}, {down, []int{0}, 0}, {down, all, 10}, {up, all, 0}}},
		"local, up and down and up":         {Local, flapping},
		"local, one node alone":             {Local, []phase{{up, []int{1}, 5}, {down, []int{1}, 0}}},
		"local, one node alone, down first": {Local, []phase{{down, []int{1}, 5}, {up, []int{1}, 5}, {down, []int{1}, 0}}},
		"closed":                            {Closed, []phase{{down, all, 0}, {up, all, 5}, {down, all, 0}, {up, all, 0}}},
		"open":                              {FailOpen, []phase{{down, all, 300}, {up, all, 5}, {down, all, 0}}},
	} {
		bubble(t, name, func(t *testing.T) {
			far, nodes := fleet(t, 3, c.mode)
			for i, p := range c.phases {
				far.Set(p.plan)
				time.Sleep(6 * time.Second) // the breakers try again
				for _, n := range p.nodes {
					nodes[n].guess(from("198.51.100.1")) // and see how it is
				}
				admitted := 0
				for range 100 {
					for _, n := range p.nodes {
						admitted += nodes[n].guesses(1, from("192.0.2.1"))
					}
				}
				if admitted != p.want {
					t.Errorf("phase %d: %d admitted, want %d", i, admitted, p.want)
				}
			}
		})
	}
}

// What this process saw of three guesses counts when the server is gone.
func TestSeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, nodes := fleet(t, 2, Local)
		q := from("192.0.2.1")
		nodes[0].guesses(3, q)
		late, _ := nodes[0].AttemptContext(ctx, from("192.0.2.2"), time.Now())
		far.Set(down)
		if got := nodes[0].guesses(9, q); got != 2 {
			t.Errorf("%d admitted, want 2", got)
		}
		if got := nodes[1].guesses(9, q); got != 5 {
			t.Errorf("%d admitted by the other, want 5", got)
		}
		// What the server admitted it cannot be told the end of: a failure there when the
		// lease ends, and here what it was.
		if s, err := late.SettleContext(ctx, doorward.Failed, time.Now()); !s.Settled || err == nil {
			t.Errorf("%+v, %v", s, err)
		}
		if got := nodes[0].guesses(9, from("192.0.2.2")); got != 4 {
			t.Errorf("%d admitted, want 4", got)
		}
		time.Sleep(5 * time.Second)
		e, _, _, _ := far.Memory.Look(ctx, &nodes[0].Rules()[0], doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.2")), time.Now())
		if e.Count != 1 || e.Pending != 0 {
			t.Errorf("%+v: want a failure by lease", e)
		}
	})
}

// Each attempt is settled where it was decided.
func TestTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, nodes := fleet(t, 2, Local)
		q := from("192.0.2.1")
		rule, k := &nodes[0].Rules()[0], doorward.KeyFromAddr(q.Addr)
		attempt := func() guard.Permit {
			t.Helper()
			p, err := nodes[0].AttemptContext(ctx, q, time.Now())
			if !p.Allowed || err != nil {
				t.Fatalf("%+v, %v", p.Verdict, err)
			}
			return p
		}
		pending := func(server, here int) {
			t.Helper()
			f, _ := far.Memory.Stats(ctx, rule)
			m, _ := nodes[0].Store.memory.Stats(ctx, rule)
			if f.Pending != server || m.Pending != here {
				t.Errorf("%d and %d pending, want %d and %d", f.Pending, m.Pending, server, here)
			}
		}
		remote := attempt()
		far.Set(down)
		local := attempt()
		lent := attempt()
		far.Set(up)
		pending(1, 2)
		if s, err := local.SettleContext(ctx, doorward.Void, time.Now()); !s.Settled || err != nil {
			t.Errorf("%+v, %v", s, err)
		}
		pending(1, 1)
		if s, err := remote.SettleContext(ctx, doorward.Void, time.Now()); !s.Settled || err != nil {
			t.Errorf("%+v, %v", s, err)
		}
		pending(0, 1)
		// Another process cannot settle what this one decided: it becomes a failure here.
		b, err := lent.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		there, err := nodes[1].ReadPermit(b)
		if err != nil {
			t.Fatal(err)
		}
		there.SettleContext(ctx, doorward.Void, time.Now())
		pending(0, 1)
		time.Sleep(5 * time.Second)
		if e, _, _, _ := nodes[0].Store.memory.Look(ctx, rule, k, time.Now()); e.Count != 1 || e.Pending != 0 {
			t.Errorf("%+v, want a failure", e)
		}
		if got, want := nodes[0].Store.Counts(), (Counts{Local: 2, Settled: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// No attempt waits longer than the deadline, and no login is lost to one that was late.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := faulty.New()
		n := start(t, far, Local, five())
		far.Set(faulty.Plan{Before: 60 * time.Millisecond, Deaf: true})
		for i := range 100 {
			q := from("192.0.2.1")
			began := time.Now()
			p, err := n.AttemptContext(ctx, q, time.Now())
			if !p.Allowed || err != nil {
				t.Fatalf("attempt %d: %+v, %v", i, p.Verdict, err)
			}
			p.SettleContext(ctx, doorward.Succeeded, time.Now())
			if took := time.Since(began); took > 50*time.Millisecond {
				t.Fatalf("attempt %d took %v", i, took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		e, _, _, _ := far.Memory.Look(ctx, &n.Rules()[0], doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1")), time.Now())
		if e.Count != 0 || e.Pending != 0 {
			t.Errorf("%+v: who logged in rightly is charged", e)
		}
		if h := n.Store.Health(); h.State != breaker.Down || h.Downs != 1 {
			t.Errorf("%+v", h)
		}
	})
}

// Somebody unlocks what is hot while it is asked about: never an admission that nobody
// counts.
func TestForgetRaces(t *testing.T) {
	far := faulty.New()
	n := start(t, far, Closed, five())
	q := from("192.0.2.1")
	k := doorward.KeyFromAddr(q.Addr)
	far.Set(faulty.Plan{Err: errors.New("NOSCRIPT")})
	now := time.Now()
	lockedOut := doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Minute}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				n.Store.hot.Remember(n.Store.hot.News(), "own", k, lockedOut, now)
				n.Store.Forget("own", k)
			}
		}
	})
	for n.Store.Counts().Hot < 100_000 {
		charges := []guard.Charge{{Rule: &n.Rules()[0], Key: k, Now: now, MayRefuse: true}}
		if err := n.Store.Reserve(ctx, charges); err == nil && charges[0].Decision.Allowed {
			t.Fatal("admitted")
		}
	}
	close(stop)
	wg.Wait()
}

func TestOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := faulty.New()
		n := start(t, far, Closed, five())
		q := from("192.0.2.1")
		n.guesses(2, q)
		found, err := n.LookupContext(ctx, q, time.Now())
		if err != nil || len(found) != 1 || found[0].Count != 2 || !found[0].Tracked || found[0].Decision.Remaining != 2 {
			t.Errorf("%+v, %v", found, err)
		}
		if s, err := n.StatsContext(ctx, "own"); err != nil || s.Tracked != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		all := func(n node) (errs []error) {
			_, stats := n.StatsContext(ctx, "own")
			_, look := n.LookupContext(ctx, q, time.Now())
			unlock, clear := n.UnlockContext(ctx, "own", doorward.Key{}), n.ClearContext(ctx, "own")
			return []error{stats, look, unlock, clear}
		}
		far.Set(down)
		n.guesses(5, q)
		if n.Store.Health().State != breaker.Down {
			t.Fatal("not down")
		}
		for i, err := range all(n) {
			if !errors.Is(err, io.EOF) {
				t.Errorf("%d: %v", i, err)
			}
		}
		far.Set(faulty.Plan{Before: operating - 1})
		for i, err := range all(n) {
			if err != nil {
				t.Errorf("%d: %v: an operator waits, and asks what is down", i, err)
			}
		}
		far.Set(faulty.Plan{Before: operating + 1})
		for i, err := range all(n) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d: %v", i, err)
			}
		}
		for i, err := range all(start(t, struct{ guard.Store }{far}, Closed, five())) {
			if !errors.Is(err, guard.ErrStore) {
				t.Errorf("%d of a Store that is no Operator: %v", i, err)
			}
		}
	})
}

// A named store calls keys as they are written.
type named struct{ *faulty.Store }

func (s named) AppendEntries(ctx context.Context, dst []doorward.Entry, r *guard.Rule, c guard.Cursor, places int, now time.Time) ([]doorward.Entry, guard.Cursor, error) {
	_, err := s.Stats(ctx, r)
	return append(dst, doorward.Entry{Name: "192.0.2.1"}), c + guard.Cursor(places), err
}

func (s named) LookNamed(ctx context.Context, r *guard.Rule, name string, now time.Time) (doorward.Entry, bool, doorward.Decision, error) {
	return s.Look(ctx, r, doorward.KeyFromAddr(netip.MustParseAddr(name)), now)
}

func (s named) UnlockNamed(ctx context.Context, r *guard.Rule, name string) error {
	return s.Unlock(ctx, r, doorward.KeyFromAddr(netip.MustParseAddr(name)))
}

func (s named) Name(_ *guard.Rule, k doorward.Key) string { return k.String() }

func TestLister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := named{faulty.New()}
		n := start(t, far, Local, five())
		n.Store.Subscribed(time.Now())
		q := from("192.0.2.1")
		n.guesses(6, q)
		all := func(n node) []error {
			page, c, list := n.AppendEntriesContext(ctx, nil, "own", doorward.ShowAll, 3, 4, time.Now())
			found, look := n.LookupNamed(ctx, "192.0.2.1", time.Now())
			if list == nil && (len(page) != 1 || c != 7) || look == nil && (len(found) != 1 || found[0].Count != 5) {
				t.Errorf("%+v, %d, %+v", page, c, found)
			}
			return []error{list, look, n.UnlockNamed(ctx, "", "192.0.2.2")}
		}
		for i, err := range all(n) {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if name := n.Store.Name(&n.Rules()[0], doorward.KeyFromAddr(q.Addr)); name != "192.0.2.1" {
			t.Errorf("it is called %q", name)
		}
		if err := n.UnlockNamed(ctx, "own", "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		meant := func(k doorward.Key) bool { return k == doorward.KeyFromAddr(q.Addr) }
		n.Store.ForgetFunc("own", meant, time.Now()) // as the server tells
		if admitted := n.guesses(6, q); admitted != 5 {
			t.Errorf("%d admitted after the unlock", admitted)
		}
		if err := n.UnlockNamed(ctx, "own", "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		n.Store.ForgetFunc("own", meant, time.Now())
		far.Set(down)
		if admitted := n.guesses(6, q); admitted != 5 { // what Note told memory is forgotten too
			t.Errorf("%d admitted after the unlock, while the server is down", admitted)
		}
		far.Set(faulty.Plan{Before: operating + 1})
		for i, err := range all(n) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d: %v", i, err)
			}
		}
		none := start(t, faulty.New(), Closed, five())
		for i, err := range all(none) {
			if !errors.Is(err, guard.ErrStore) {
				t.Errorf("%d of a Store that is no Lister: %v", i, err)
			}
		}
		if name := none.Store.Name(&none.Rules()[0], doorward.Key{}); name != "" {
			t.Errorf("it is called %q", name)
		}
	})
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"front: Mode must be Local, Closed or FailOpen, got 3": {Mode: 3},
		"front: Places must be 1 to 16777216, got -1":          {Places: -1},
		"front: Places must be 1 to 16777216, got 16777217":    {Places: hot.MaxPlaces + 1},
	} {
		if _, err := New(faulty.New(), nil, c); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	var read []Mode
	for _, word := range []string{"local", "closed", "open"} {
		m, err := ParseMode(word)
		if err != nil || m.String() != word {
			t.Errorf("%s is read as %v, %v", word, m, err)
		}
		read = append(read, m)
	}
	if !reflect.DeepEqual(read, []Mode{Local, Closed, FailOpen}) || Mode(3).String() != "Mode(3)" {
		t.Errorf("%v", read)
	}
	if _, err := ParseMode("ajar"); err == nil || err.Error() != `front: Mode must be local, closed or open, got "ajar"` {
		t.Error(err)
	}
}

// attack returns the charges of an attempt under three rules by a caller who is locked out
// by one of them.
func attack(t testing.TB, m Mode) (node, *faulty.Store, []guard.Charge) {
	far := faulty.New()
	wide := func(v4, v6 int) guard.Rule {
		return guard.Rule{V4: v4, V6: v6, Lockout: faulty.Free(500, time.Hour, time.Minute, 64)}
	}
	n := start(t, far, m, five(), wide(24, 48), wide(-1, 32))
	n.Store.Subscribed(time.Now())
	q := from("2001:db8::1")
	n.guesses(6, q)
	var charges []guard.Charge
	for i := range n.Rules() {
		r := &n.Rules()[i]
		charges = append(charges, guard.Charge{Rule: r, Key: doorward.KeyFromPrefix(q.Addr, 32, r.V6), Now: time.Now(), MayRefuse: true, Outcome: doorward.Void})
	}
	return n, far, charges
}

func TestNoAllocation(t *testing.T) {
	n, far, charges := attack(t, Local)
	asked := far.Asked.Load()
	if got := testing.AllocsPerRun(1000, func() { n.Store.Reserve(ctx, charges) }); got != 0 {
		t.Errorf("a refusal of what is hot allocates %v times", got)
	}
	if far.Asked.Load() != asked || charges[0].Decision.Reason != doorward.Locked {
		t.Errorf("not hot: %+v", charges[0])
	}
	far.Set(down)
	charges[0].Key = doorward.Key{}
	for n.Store.Health().State != breaker.Down {
		n.Store.Reserve(ctx, charges)
		n.Store.Settle(ctx, charges)
	}
	if got := testing.AllocsPerRun(1000, func() {
		n.Store.Reserve(ctx, charges)
		n.Store.Settle(ctx, charges)
	}); got > 0.1 { // some are probes
		t.Errorf("a decision without the server allocates %v times", got)
	}
	if !memory.Issued(charges[0].Ticket) {
		t.Errorf("not local: %+v", charges[0])
	}
}

func BenchmarkReserve(b *testing.B) {
	n, far, charges := attack(b, Local)
	b.Run("hot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n.Store.Reserve(ctx, charges)
		}
	})
	b.Run("hot/guard", func(b *testing.B) {
		b.ReportAllocs()
		q, now := from("2001:db8::1"), charges[0].Now
		for b.Loop() {
			n.AttemptContext(ctx, q, now)
		}
	})
	b.Run("hot/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			mine := append([]guard.Charge(nil), charges...)
			for pb.Next() {
				n.Store.Reserve(ctx, mine)
			}
		})
	})
	far.Set(down)
	charges[0].Key = doorward.Key{}
	b.Run("local", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n.Store.Reserve(ctx, charges)
			n.Store.Settle(ctx, charges)
		}
	})
}
