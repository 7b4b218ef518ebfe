package peer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// Others are the limiters of other projects, and what people write by hand.
var Others = []Peer{
	{"x/time/rate", false, func(c Config) Limiter { return byText(newRate(c)) }},
	{"httprate", false, func(c Config) Limiter { return byText(newHTTPRate(c)) }},
	{"ulule/limiter", false, func(c Config) Limiter { return byText(newUlule(c)) }},
	{"go-limiter", false, newGoLimiter},
	{"throttled", false, func(c Config) Limiter { return byText(newThrottled(c, 0)) }},
	{"map and mutex", false, newMap},
}

// Bounded are those of the others that keep a bound on what they remember.
var Bounded = []Peer{
	{"throttled, LRU", false, func(c Config) Limiter { return byText(newThrottled(c, c.Keys)) }},
	{"map, scan when full", false, newScanMap},
}

// text decides for peers that know callers by strings and read the clock themselves.
type text struct {
	texts
	allow func(key string) bool
}

func byText(allow func(string) bool) Limiter { return &text{allow: allow} }

func (p *text) Load(t Trace)              { p.load(t, "") }
func (p *text) Decide(worker, i int) bool { return p.allow(p.at(i)) }

// newRate is the snippet that most tutorials have: a rate.Limiter for each client.
func newRate(c Config) func(string) bool {
	var clients sync.Map
	every := rate.Every(c.Window / time.Duration(c.Limit))
	return func(key string) bool {
		l, ok := clients.Load(key)
		if !ok {
			l, _ = clients.LoadOrStore(key, rate.NewLimiter(every, c.Limit))
		}
		return l.(*rate.Limiter).Allow()
	}
}

// newHTTPRate leaves the response headers out, which would be most of the cost.
func newHTTPRate(c Config) func(string) bool {
	l := httprate.NewRateLimiter(c.Limit, c.Window, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	r := httptest.NewRequest("POST", "/login", nil)
	w := discard{http.Header{}}
	return func(key string) bool { return !l.OnLimit(w, r, key) }
}

func newUlule(c Config) func(string) bool {
	l := ulule.New(memory.NewStore(), ulule.Rate{Period: c.Window, Limit: int64(c.Limit)})
	ctx := context.Background()
	return func(key string) bool {
		state, _ := l.Get(ctx, key) // never fails in memory
		return !state.Reached
	}
}

// goLimiter sweeps in the background until it is closed.
type goLimiter struct {
	text
	store limiter.Store
}

func newGoLimiter(c Config) Limiter {
	store := must(memorystore.New(&memorystore.Config{Tokens: uint64(c.Limit), Interval: c.Window}))
	ctx := context.Background()
	return &goLimiter{text{allow: func(key string) bool {
		_, _, _, ok, _ := store.Take(ctx, key)
		return ok
	}}, store}
}

func (l *goLimiter) Close() error { return l.store.Close(context.Background()) }

// newThrottled is GCRA with a burst; 0 keys is no bound.
func newThrottled(c Config, keys int) func(string) bool {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(c.Limit, c.Window), MaxBurst: c.Limit - 1}
	l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(keys)), quota))
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}
}

// discard is a ResponseWriter that keeps its headers only.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
