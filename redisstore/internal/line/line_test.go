package line

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/redisstore/internal/breaker"
	"github.com/doorward/doorward/redisstore/internal/faulty"
)

var (
	ctx = context.Background()
	own = doorward.KeyFromAddr(netip.MustParseAddr("192.0.2.1"))
)

const (
	ms       = time.Millisecond
	deadline = 50 * ms
	lease    = 30 * time.Second
)

// A story is a line to a store, in the time of a bubble.
type story struct {
	*testing.T
	*Line
	store *faulty.Store
	rule  *guard.Rule
}

func tell(t *testing.T, c Config) story {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{Store: faulty.New(), Rules: []guard.Rule{{Name: "own", Lockout: &lockout.Policy{
		FreeFailures: 5, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Hour, Lease: lease, Capacity: 8, InFlight: 64,
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	return story{t, l, faulty.New(), &g.Rules()[0]}
}

func (s story) charges() []guard.Charge {
	return []guard.Charge{{Rule: s.rule, Key: own, Now: time.Now(), MayRefuse: true}}
}

// reserve makes an attempt that must take so long, and returns it with its error.
func (s story) reserve(takes time.Duration) ([]guard.Charge, error) {
	s.Helper()
	c, began := s.charges(), time.Now()
	err := s.Reserve(ctx, s.store, c)
	if took := time.Since(began); took != takes {
		s.Errorf("Reserve took %v, want %v", took, takes)
	}
	return c, err
}

// left returns how many attempts the store would admit.
func (s story) left() int {
	_, _, d, _ := s.store.Memory.Look(ctx, s.rule, own, time.Now())
	if !d.Allowed {
		return 0
	}
	return d.Remaining + 1
}

// counts compares all but times, which TestTook does.
func (s story) counts(want Counts) {
	s.Helper()
	got := s.Counts()
	if want.Took, want.Waited = got.Took, got.Waited; got != want {
		s.Errorf("%+v, want %+v", got, want)
	}
}

// Each call is in one bucket, by how long it was waited for; one that was not made is in none.
func TestTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{Deadline: time.Second})
		var want Counts
		for i, bound := range Buckets {
			for _, took := range []time.Duration{bound - 1, bound} {
				if took >= time.Second {
					continue
				}
				s.store.Set(faulty.Plan{Before: took})
				s.reserve(took)
				want.Took[i]++
				want.Waited += took
			}
			s.store.Set(faulty.Plan{Before: bound + 1})
			if bound == time.Second {
				s.reserve(time.Second) // no longer than the deadline
				want.Took[i]++
				want.Waited += bound
				continue
			}
			s.reserve(bound + 1)
			want.Took[i+1]++
			want.Waited += bound + 1
		}
		s.store.Set(faulty.Plan{Err: io.EOF})
		for range 10 { // four are made: the fifth failure in a row was the one before
			s.reserve(0)
		}
		want.Took[0] += 4
		time.Sleep(time.Second) // what came late ends
		synctest.Wait()
		if got := s.Counts(); got.Took != want.Took || got.Waited != want.Waited {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{})
		s.store.Set(faulty.Plan{Before: deadline - 1})
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		c := s.charges()
		if err := s.Reserve(canceled, s.store, c); err != nil || !c[0].Decision.Allowed {
			t.Fatalf("%+v, %v: a caller who hangs up does not end a call", c, err)
		}
		c[0].Outcome = doorward.Failed
		began := time.Now()
		if err := s.Settle(canceled, s.store, c); err != nil || time.Since(began) != deadline-1 {
			t.Errorf("settled: %v after %v", err, time.Since(began))
		}
		if s.left() != 4 {
			t.Errorf("%d left, want 4", s.left())
		}
		s.counts(Counts{Calls: 2})
	})
}

// A store that does not hear of the end of a context stalls nobody, and what it writes
// afterwards reaches nobody.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{})
		s.store.Set(faulty.Plan{Before: time.Hour, Deaf: true})
		c, err := s.reserve(deadline)
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
		before := s.charges()
		before[0].Now = c[0].Now
		s.counts(Counts{Calls: 1, Timeouts: 1, UnderWay: 1})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if !reflect.DeepEqual(c, before) {
			t.Errorf("%+v, want %+v", c, before)
		}
		s.counts(Counts{Calls: 1, Timeouts: 1, Late: 1, TakenBack: 1})
	})
}

// What comes too late is taken back, or becomes a failure.
func TestLate(t *testing.T) {
	for name, c := range map[string]struct {
		plan        faulty.Plan
		left, later int // attempts, after twenty seconds and after the lease
		counts      Counts
	}{
		"late":                        {faulty.Plan{Before: 60 * ms}, 5, 5, Counts{Late: 1, TakenBack: 1}},
		"decided in time":             {faulty.Plan{After: 60 * ms}, 5, 5, Counts{Late: 1, TakenBack: 1}},
		"just before patience ends":   {faulty.Plan{Before: patience - 1}, 5, 5, Counts{Late: 1, TakenBack: 1}},
		"after that, nothing decided": {faulty.Plan{Before: patience + spell + 1}, 5, 5, Counts{}},
		"after that, decided":         {faulty.Plan{After: patience + spell + 1}, 4, 4, Counts{}},
		"answer lost":                 {faulty.Plan{After: 60 * ms, Lost: io.EOF}, 4, 4, Counts{}},
		"cannot be taken back":        {faulty.Plan{After: 60 * ms, Settle: &faulty.Plan{Err: io.EOF}}, 4, 4, Counts{Late: 1}},
		"taken back slowly":           {faulty.Plan{After: 60 * ms, Settle: &faulty.Plan{Before: 9 * time.Second}}, 5, 5, Counts{Late: 1, TakenBack: 1}},
		"too slowly":                  {faulty.Plan{After: 60 * ms, Settle: &faulty.Plan{Before: 20 * time.Second}}, 4, 4, Counts{Late: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tell(t, Config{})
				s.store.Set(c.plan)
				if _, err := s.reserve(deadline); !Unreachable(err) {
					t.Errorf("%v", err)
				}
				time.Sleep(2 * patience)
				synctest.Wait()
				c.counts.Calls, c.counts.Timeouts = 1, 1
				s.counts(c.counts)
				if got := s.left(); got != c.left {
					t.Errorf("%d left, want %d", got, c.left)
				}
				time.Sleep(lease)
				if got := s.left(); got != c.later {
					t.Errorf("%d left after the lease, want %d", got, c.later)
				}
				e, _, _, _ := s.store.Memory.Look(ctx, s.rule, own, time.Now())
				if e.Count != 5-c.later || e.Pending != 0 {
					t.Errorf("%+v, want %d failures", e, 5-c.later)
				}
			})
		})
	}
}

// Whenever a call begins, it may take as long as patience lasts, and no more than a spell longer.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for _, x := range []struct{ at, left time.Duration }{
			{0, patience + spell}, {1, patience + spell - 1}, {spell - 1, patience + 1}, {spell, patience + spell}, {time.Hour, patience + spell},
		} {
			time.Sleep(x.at - time.Since(begin))
			ctx := l.patient(time.Now())
			end, ok := ctx.Deadline()
			if left := time.Until(end); !ok || left != x.left || ctx.Err() != nil {
				t.Errorf("after %v: %v, %v left, want %v", x.at, ctx.Err(), left, x.left)
			}
		}
	})
}

// A refusal that comes too late has nothing to take back.
func TestLateRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{})
		for range 5 {
			c, _ := s.reserve(0)
			s.Settle(ctx, s.store, c)
		}
		asked := s.store.Asked.Load()
		s.store.Set(faulty.Plan{Before: 60 * ms})
		s.reserve(deadline)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.store.Asked.Load() - asked; n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		s.counts(Counts{Calls: 11, Timeouts: 1})
	})
}

// A settlement that comes too late stands.
func TestLateSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{})
		c, _ := s.reserve(0)
		s.store.Set(faulty.Plan{Before: 60 * ms})
		if err := s.Settle(ctx, s.store, c); !Unreachable(err) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.store.Asked.Load(); n != 2 || s.left() != 4 {
			t.Errorf("asked %d times, %d left, want 2 and 4", n, s.left())
		}
		s.counts(Counts{Calls: 2, Timeouts: 1})
	})
}

// At most so many calls are under way, late ones included.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{Calls: 3})
		s.store.Set(faulty.Plan{Before: time.Minute, Deaf: true})
		for range 3 {
			s.reserve(deadline)
		}
		if _, err := s.reserve(0); !errors.Is(err, errFull) || Unreachable(err) {
			t.Errorf("%v", err)
		}
		s.counts(Counts{Calls: 3, Timeouts: 3, Full: 1, UnderWay: 3})
		s.store.Set(faulty.Plan{Deaf: true})
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := s.reserve(0); err != nil {
			t.Error(err)
		}
		s.counts(Counts{Calls: 4, Timeouts: 3, Full: 1, Late: 3, TakenBack: 3})
	})
}

// One minute without a server, at a call each millisecond: the first five wait, then one
// at a time. It is asked again within five seconds and a deadline after it is back.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{})
		s.store.Set(faulty.Plan{Before: time.Hour})
		began, waited, longest := time.Now(), 0, time.Duration(0)
		for time.Since(began) < time.Minute {
			at := time.Now()
			if err := s.Reserve(ctx, s.store, s.charges()); !Unreachable(err) {
				t.Fatal(err)
			}
			took := time.Since(at)
			if longest = max(longest, took); took > 0 {
				waited++
			}
			time.Sleep(ms)
		}
		// 5, then probes after 0.1 to 0.2 s, 0.2 to 0.4, up to 2.5 to 5: 11 of these at
		// least in what is left of the minute, 23 at most.
		if longest != deadline || waited < 5+5+10 || waited > 5+6+23 {
			t.Errorf("%d calls waited, at most %v", waited, longest)
		}
		h := s.Health()
		if h.State != breaker.Down || h.Downs != 1 || h.Since.Sub(began) != 5*deadline+4*ms || !errors.Is(h.Err, ErrUnreachable) {
			t.Errorf("%+v", h)
		}
		if n := s.Counts(); n.Timeouts != uint64(waited) || n.Calls != uint64(waited) || n.Short != h.Refused || n.Short < 50_000 {
			t.Errorf("%+v, waited %d", n, waited)
		}
		s.store.Set(faulty.Plan{})
		back := time.Now()
		for s.Reserve(ctx, s.store, s.charges()) != nil {
			time.Sleep(ms)
		}
		if d := time.Since(back); d > 5*time.Second {
			t.Errorf("asked again after %v", d)
		}
		if h := s.Health(); h.State != breaker.Up || h.Since.Before(back) {
			t.Errorf("%+v", h)
		}
		time.Sleep(patience)
		synctest.Wait()
		if n := s.Counts().UnderWay; n != 0 {
			t.Errorf("%d calls are still under way", n)
		}
	})
}

// An answer that is an error is an answer: the server is up, and whoever can bring one
// about does not take it from others.
func TestFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(t, Config{})
		oom := errors.New("OOM command not allowed")
		s.store.Set(faulty.Plan{Err: oom})
		for range 20 {
			if _, err := s.reserve(0); err != oom || Unreachable(err) {
				t.Fatal(err)
			}
		}
		if h := s.Health(); h.State != breaker.Up || h.Err != nil || h.Fault != oom || !h.FaultAt.Equal(time.Now()) {
			t.Errorf("%+v", h)
		}
		s.counts(Counts{Calls: 20, Errors: 20})
		s.store.Set(faulty.Plan{Err: io.EOF})
		for range 5 {
			s.reserve(0)
		}
		if h := s.Health(); h.State != breaker.Down || h.Err != io.EOF {
			t.Errorf("%+v", h)
		}
		s.counts(Counts{Calls: 25, Errors: 25})
		s.store.Set(faulty.Plan{Err: oom})
		time.Sleep(200 * ms)
		for range 2 {
			if _, err := s.reserve(0); err != oom {
				t.Fatal(err)
			}
		}
		if h := s.Health(); h.State != breaker.Up {
			t.Errorf("%+v: it answered the one who found out", h)
		}
	})
}

func TestUnreachable(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                                   false,
		errors.New("NOSCRIPT"):                false,
		errFull:                               false,
		context.Canceled:                      false,
		errDeadline:                           true,
		context.DeadlineExceeded:              true,
		io.EOF:                                true,
		io.ErrUnexpectedEOF:                   true,
		net.ErrClosed:                         true,
		fmt.Errorf("x: %w", ErrUnreachable):   true,
		&net.OpError{Err: syscall.ECONNRESET}: true,
		&net.DNSError{}:                       true,
	} {
		if got := Unreachable(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"line: Deadline must be positive and at most 1s, got -1ns":   {Deadline: -1},
		"line: Deadline must be positive and at most 1s, got 1.001s": {Deadline: time.Second + ms},
		"line: Calls must be positive, got -1":                       {Calls: -1},
		"breaker: Failures must be positive, got -1":                 {Breaker: breaker.Policy{Failures: -1}},
	} {
		if _, err := New(c); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	want := Config{deadline, 4096, breaker.Policy{Failures: 5, Rest: 200 * ms, MaxRest: 5 * time.Second}}
	if got := (Config{}).WithDefaults(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// nothing is a Store that answers at once.
type nothing struct{}

func (nothing) Reserve(context.Context, []guard.Charge) error { return nil }
func (nothing) Settle(context.Context, []guard.Charge) error  { return nil }

func BenchmarkReserve(b *testing.B) {
	l, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	charges := make([]guard.Charge, 6)
	b.ReportAllocs()
	for b.Loop() {
		l.Reserve(ctx, nothing{}, charges)
	}
}
