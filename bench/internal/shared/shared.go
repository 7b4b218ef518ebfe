// Package shared measures limiters that keep their counts on one Redis server, beside a bare
// INCR: what they decide in a second and how long the slowest wait, with more and more callers at
// once. All have the same server and the same keys. It gives up what a network between them costs:
// everything is on one machine.
package shared

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/redisstore"
	"github.com/doorward/doorward/window"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
)

// Keys is how many callers come in turn, at random.
const Keys = 10_000

// Kind says what a Contender is.
type Kind int

const (
	Bare Kind = iota // a command that decides nothing
	Ours
	Peer
)

func (k Kind) String() string {
	return [...]string{"the fastest INCR", "ours", "the fastest of the others"}[k]
}

// A Contender decides on one attempt of a key.
type Contender struct {
	Name   string
	Kind   Kind
	Decide func(ctx context.Context, key int) error
}

// A Server is a redis-server of its own.
type Server struct {
	Addr string
	cmd  *exec.Cmd
}

// Start starts a server that keeps nothing on disk, on a free port of the loopback interface.
func Start() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	s := &Server{Addr: addr, cmd: exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")}
	s.cmd.Dir = os.TempDir()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return s, c.Close()
		}
		if time.Now().After(deadline) {
			s.Stop()
			return nil, fmt.Errorf("shared: redis-server does not listen: %w", err)
		}
	}
}

// Stop ends it.
func (s *Server) Stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// A Field is all contenders, connected to one server.
type Field struct {
	Contenders []Contender
	guard      *guard.Guard // of a lockout after one failure
	client     rueidis.Client
	close      []func()
}

// The limit of all: far more than is asked for, so that all is admitted and counted.
const limit = 60_000

// Connect connects all.
func Connect(addr string) (*Field, error) {
	f := &Field{}
	// As redisstore connects.
	one, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, DisableRetry: true, PipelineMultiplex: -1})
	if err != nil {
		return nil, err
	}
	f.close = append(f.close, one.Close)
	if f.client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true}); err != nil {
		return nil, err
	}
	f.close = append(f.close, f.client.Close)
	pool := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 128})
	f.close = append(f.close, func() { pool.Close() })

	f.add("INCR, rueidis", Bare, func(ctx context.Context, k int) error {
		return f.client.Do(ctx, f.client.B().Incr().Key("n"+strconv.Itoa(k)).Build()).Error()
	})
	f.add("INCR, rueidis as doorward has it", Bare, func(ctx context.Context, k int) error {
		return one.Do(ctx, one.B().Incr().Key("n"+strconv.Itoa(k)).Build()).Error()
	})
	f.add("INCR, go-redis", Bare, func(ctx context.Context, k int) error {
		return pool.Incr(ctx, "n"+strconv.Itoa(k)).Err()
	})
	if err := f.ours(addr); err != nil {
		return nil, err
	}
	return f, f.others(pool)
}

func (f *Field) add(name string, kind Kind, decide func(context.Context, int) error) {
	f.Contenders = append(f.Contenders, Contender{name, kind, decide})
}

// dial connects ours. Its deadline is long and its stores are closed, so that what the server did not
// decide is an error and not fast.
func dial(addr string) (*redisstore.Client, error) {
	return redisstore.Dial(redisstore.Options{Addresses: []string{addr}, Secret: []byte("a secret of benchmarks"), Deadline: redisstore.MaxDeadline})
}

func (f *Field) ours(addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	f.close = append(f.close, c.Close)
	store, err := c.Store("bench", redisstore.Closed)
	if err != nil {
		return err
	}
	keys := make([]doorward.Key, Keys)
	for i := range keys {
		keys[i] = doorward.KeyFromAddr(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	long := lockout.Policy{FreeFailures: limit, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Hour}
	one := window.Policy{Limit: 1, Window: time.Hour}
	rules, err := guard.Config{Rules: []guard.Rule{{Name: "long", Lockout: &long}, {Name: "one", Window: &one}}}.Complete()
	if err != nil {
		return err
	}
	reserve := func(ctx context.Context, r *guard.Rule, k int, charge []guard.Charge) error {
		charge[0] = guard.Charge{Rule: r, Key: keys[k], Now: time.Now(), MayRefuse: true}
		return store.Reserve(ctx, charge)
	}
	settle := func(ctx context.Context, charge []guard.Charge) error {
		return store.Settle(ctx, charge)
	}
	f.add("doorward, an attempt of two round trips", Ours, func(ctx context.Context, k int) error {
		var charge [1]guard.Charge
		if err := reserve(ctx, &rules.Rules[0], k, charge[:]); err != nil {
			return err
		}
		if !charge[0].Decision.Allowed {
			return fmt.Errorf("refused: %+v", charge[0].Decision)
		}
		return settle(ctx, charge[:])
	})
	var flying [16][]guard.Charge
	var mu [16]sync.Mutex
	// Half of the calls decide, the other half settle what was decided before: so it says what one
	// call costs.
	f.add("doorward, one round trip", Ours, func(ctx context.Context, k int) error {
		var charge [1]guard.Charge
		i := k % len(flying)
		mu[i].Lock()
		if n := len(flying[i]); n > 4 || n > 0 && k&16 == 0 {
			charge[0], flying[i] = flying[i][n-1], flying[i][:n-1]
			mu[i].Unlock()
			return settle(ctx, charge[:])
		}
		mu[i].Unlock()
		err := reserve(ctx, &rules.Rules[0], k, charge[:])
		mu[i].Lock()
		flying[i] = append(flying[i], charge[0])
		mu[i].Unlock()
		return err
	})
	f.add("doorward, a refusal", Ours, func(ctx context.Context, k int) error {
		var charge [1]guard.Charge
		return reserve(ctx, &rules.Rules[1], k%100, charge[:])
	})
	short := lockout.Policy{FreeFailures: 1, Window: time.Hour, FirstLockout: time.Hour, MaxLockout: time.Hour}
	locked, err := c.Store("locked", redisstore.Closed)
	if err != nil {
		return err
	}
	if f.guard, err = guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &short}}, Store: locked}); err != nil {
		return err
	}
	logins, err := c.Store("logins", redisstore.Closed)
	if err != nil {
		return err
	}
	door, err := guard.New(guard.Config{Rules: guard.Login.Rules, Store: logins})
	if err != nil {
		return err
	}
	f.add(fmt.Sprintf("doorward, a login by all %d rules, two round trips", len(door.Rules())), Ours, func(ctx context.Context, k int) error {
		// Right passwords, each from a home of its own.
		addr := netip.AddrFrom4([4]byte{10, byte(k), byte(k >> 8), 1})
		p, err := door.AttemptContext(ctx, guard.Request{Addr: addr, How: clientip.Peer, Subject: doorward.KeyFromName(strconv.Itoa(k))}, time.Now())
		if err != nil {
			return err
		}
		_, err = p.SettleContext(ctx, doorward.Succeeded, time.Now())
		return err
	})
	return nil
}

func (f *Field) others(pool *redis.Client) error {
	rate := redis_rate.NewLimiter(pool)
	f.add("redis_rate", Peer, func(ctx context.Context, k int) error {
		r, err := rate.Allow(ctx, strconv.Itoa(k), redis_rate.PerHour(limit))
		if err == nil && r.Allowed == 0 {
			err = fmt.Errorf("refused")
		}
		return err
	})
	us, err := ululestore.NewStore(pool)
	if err != nil {
		return err
	}
	ulule := limiter.New(us, limiter.Rate{Period: time.Hour, Limit: 10 * limit})
	f.add("ulule", Peer, func(ctx context.Context, k int) error {
		r, err := ulule.Get(ctx, strconv.Itoa(k))
		if err == nil && r.Reached {
			err = fmt.Errorf("refused")
		}
		return err
	})
	ts, err := throttledstore.NewCtx(pool, "throttled:")
	if err != nil {
		return err
	}
	gcra, err := throttled.NewGCRARateLimiterCtx(ts, throttled.RateQuota{MaxRate: throttled.PerHour(limit), MaxBurst: limit})
	if err != nil {
		return err
	}
	gcra.SetMaxCASAttemptsLimit(100)
	f.add("throttled", Peer, func(ctx context.Context, k int) error {
		no, _, err := gcra.RateLimitCtx(ctx, strconv.Itoa(k), 1)
		if err == nil && no {
			err = fmt.Errorf("refused")
		}
		return err
	})
	return nil
}

// Flush forgets everything on the server.
func (f *Field) Flush(ctx context.Context) error {
	return f.client.Do(ctx, f.client.B().Flushall().Build()).Error()
}

// Close ends all connections.
func (f *Field) Close() {
	for _, c := range f.close {
		c()
	}
}

// A Speed is what was decided.
type Speed struct {
	PerSecond float64
	P99       time.Duration
}

// Run lets so many callers decide at once for d.
func Run(ctx context.Context, c Contender, callers int, d time.Duration) (Speed, error) {
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var wg sync.WaitGroup
	begin := time.Now()
	for w := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			var mine []time.Duration
			var err error
			for last := time.Now(); err == nil && last.Sub(begin) < d; {
				err = c.Decide(ctx, rnd.IntN(Keys))
				now := time.Now()
				mine = append(mine, now.Sub(last))
				last = now
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if failed == nil && err != nil {
				failed = fmt.Errorf("shared: %s: %w", c.Name, err)
			}
		})
	}
	wg.Wait()
	all := time.Since(begin)
	if failed != nil {
		return Speed{}, failed
	}
	slices.Sort(took)
	return Speed{float64(len(took)) / all.Seconds(), took[len(took)*99/100]}, nil
}

// Hot returns how long a guard takes to refuse a key that it was told is locked, one after the
// other. The best of 20 turns counts.
func (f *Field) Hot() (time.Duration, error) {
	ctx, request := context.Background(), guard.Request{Addr: netip.AddrFrom4([4]byte{192, 0, 2, 1}), How: clientip.Peer}
	attempt := func() (guard.Permit, error) { return f.guard.AttemptContext(ctx, request, time.Now()) }
	p, err := attempt()
	if err != nil {
		return 0, err
	}
	if _, err := p.SettleContext(ctx, doorward.Failed, time.Now()); err != nil {
		return 0, err
	}
	best := time.Duration(math.MaxInt64)
	for range 20 {
		const n = 50_000
		begin := time.Now()
		for range n {
			if p, err := attempt(); err != nil || p.Allowed {
				return 0, fmt.Errorf("shared: a locked key was allowed: %v, %w", p.Allowed, err)
			}
		}
		best = min(best, time.Since(begin)/n)
	}
	return best, nil
}

// Bytes returns what each of n keys of ours takes on the server.
func (f *Field) Bytes(ctx context.Context, addr string, n int) (float64, error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	store, err := c.Store("bytes", redisstore.Closed)
	if err != nil {
		return 0, err
	}
	p := lockout.Login
	p.Window, p.Capacity = time.Hour, 2*n
	rules, err := guard.Config{Rules: []guard.Rule{{Lockout: &p}}}.Complete()
	if err != nil {
		return 0, err
	}
	if err := f.Flush(ctx); err != nil {
		return 0, err
	}
	before, err := f.used(ctx)
	if err != nil {
		return 0, err
	}
	var failed error
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				charge := []guard.Charge{{Rule: &rules.Rules[0], Key: doorward.KeyFromName(strconv.Itoa(i)), Now: time.Now(), MayRefuse: true}}
				err := store.Reserve(ctx, charge)
				if err == nil {
					err = store.Settle(ctx, charge)
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	after, err := f.used(ctx)
	if failed != nil {
		err = failed
	}
	return float64(after-before) / float64(n), err
}

func (f *Field) used(ctx context.Context) (int, error) {
	info, err := f.client.Do(ctx, f.client.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			return strconv.Atoi(v)
		}
	}
	return 0, fmt.Errorf("shared: INFO has no used_memory")
}
