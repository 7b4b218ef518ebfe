package peer

import (
	"math"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// Ours are this project's limiters.
var Ours = []Peer{
	{"lockout", true, func(c Config) Limiter { return &ours{decide: newLockout(c).attempt} }},
	{"lockout, settled", true, func(c Config) Limiter { return &ours{decide: newLockout(c).reserve} }},
	{"throttle, settled", true, newThrottle},
	{"window", true, func(c Config) Limiter { return newWindow(c, false) }},
	{"window, sliding", true, func(c Config) Limiter { return newWindow(c, true) }},
	{"guard, three rules", true, newGuard},
}

// A clock is the time, and for tests ahead of it.
type clock struct{ ahead time.Duration }

func (c *clock) Shift(d time.Duration) { c.ahead += d }
func (c *clock) now() time.Time        { return time.Now().Add(c.ahead) }

// ours reads the clock once for each decision, as an edge does.
type ours struct {
	clock
	keys   []doorward.Key
	decide func(k doorward.Key, now time.Time) bool
}

func (o *ours) Load(t Trace)              { o.keys = keys(t) }
func (o *ours) Decide(worker, i int) bool { return o.decide(o.keys[i], o.now()) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Lockout returns the policy of c as a lockout.
func Lockout(c Config) lockout.Policy {
	return lockout.Policy{
		FreeFailures: c.Limit, Window: c.Window, FirstLockout: c.Window, MaxLockout: 60 * c.Window,
		Capacity: c.Keys, InFlight: c.InFlight,
	}
}

type lockoutLimiter struct{ *lockout.Limiter }

func newLockout(c Config) lockoutLimiter { return lockoutLimiter{must(lockout.New(Lockout(c)))} }

func (l lockoutLimiter) attempt(k doorward.Key, now time.Time) bool {
	return l.Attempt(k, now).Allowed
}

func (l lockoutLimiter) reserve(k doorward.Key, now time.Time) bool {
	d, t := l.Reserve(k, now)
	if d.Allowed {
		l.Settle(k, t, doorward.Failed, now)
	}
	return d.Allowed
}

func newThrottle(c Config) Limiter {
	l := throttle.New(throttle.Policy{PerSource: c.Limit, Global: math.MaxInt32, Window: c.Window, Sources: c.Keys, InFlight: c.InFlight})
	return &ours{decide: func(k doorward.Key, now time.Time) bool {
		d, t := l.Reserve(k, now)
		if d.Allowed {
			l.Settle(k, t, doorward.Failed, now)
		}
		return d.Allowed
	}}
}

func newWindow(c Config, sliding bool) Limiter {
	l := must(window.New(window.Policy{Limit: c.Limit, Window: c.Window, Sliding: sliding, Capacity: c.Keys, InFlight: c.InFlight}))
	return &ours{decide: func(k doorward.Key, now time.Time) bool { return l.Allow(k, now).Allowed }}
}

// threeRules charges the network, the /24 around it and the subject.
type threeRules struct {
	clock
	guard    *guard.Guard
	trace    Trace
	subjects []doorward.Key
}

func newGuard(c Config) Limiter {
	network, subject, wide := Lockout(c), Lockout(c), Lockout(c)
	wide.FreeFailures, wide.Decay = min(math.MaxUint16, 8*c.Limit), true
	return &threeRules{guard: must(guard.New(guard.Config{Rules: []guard.Rule{
		{V4: 24, V6: 48, Lockout: &wide},
		{Lockout: &network},
		{Per: guard.Subject, Lockout: &subject},
	}}))}
}

func (g *threeRules) Load(t Trace) {
	g.trace, g.subjects = t, make([]doorward.Key, len(t))
	var name [16]byte
	for i, id := range t {
		g.subjects[i] = doorward.KeyFromName(string(Addr(id).AppendTo(name[:0])))
	}
}

func (g *threeRules) Decide(worker, i int) bool {
	now := g.now()
	p := g.guard.Attempt(guard.Request{Addr: Addr(g.trace[i]), Subject: g.subjects[i]}, now)
	return p.Settle(doorward.Failed, now).Settled
}
