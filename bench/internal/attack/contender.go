package attack

import (
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/bench/internal/peer"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// Limit is the policy: so many failures, or requests, per client and window; Site is
// what a whole /48 or /24 may make where a limiter can say it.
const (
	Limit = 5
	Site  = 40
)

// Setup is where a limiter stands.
type Setup struct {
	Window   time.Duration
	Capacity int  // clients told apart, where that can be said
	Proxied  bool // requests come through the proxy, which adds to X-Forwarded-For
}

// proxy is the address of the one trusted proxy.
const proxy = "10.0.0.1"

// An instance is a limiter in front of an application.
type instance struct {
	wrap      func(http.Handler) http.Handler
	succeeded func(*http.Request) // the application says that the attempt was right
	void      func(*http.Request) // or that it was never judged
	close     func()
}

// A Contender is one kind of limiter.
type Contender struct {
	Name string
	Ours bool
	// Headers says that it is there for the rows about forwarded headers only.
	Headers bool
	make    func(Setup) instance
}

// Contenders are all limiters, ours first.
var Contenders = []Contender{
	{Name: "lockout", Ours: true, make: func(s Setup) instance {
		site, own := peer.Lockout(peer.Config{Limit: Site, Window: s.Window, Keys: s.Capacity}), peer.Lockout(peer.Config{Limit: Limit, Window: s.Window, Keys: s.Capacity})
		site.Decay = true
		return ours(s, guard.Rule{Lockout: &site}, guard.Rule{Lockout: &own})
	}},
	{Name: "throttle", Ours: true, make: func(s Setup) instance {
		own := throttle.Policy{PerSource: Limit, Global: math.MaxInt32, Window: s.Window, Sources: s.Capacity}
		site := own
		site.PerSource = Site
		return ours(s, guard.Rule{Throttle: &site}, guard.Rule{Throttle: &own})
	}},
	{Name: "window", Ours: true, make: func(s Setup) instance { return windows(s, false) }},
	{Name: "window, sliding", Ours: true, make: func(s Setup) instance { return windows(s, true) }},
	{Name: "x/time/rate", make: newRate},
	{Name: "httprate", make: newHTTPRate},
	{Name: "httprate, KeyByRealIP", Headers: true, make: func(s Setup) instance {
		return instance{wrap: httprate.LimitBy(Limit, s.Window, httprate.KeyByRealIP)} //lint:ignore SA1019 deprecated for what this shows
	}},
	{Name: "ulule/limiter", make: newUlule},
	{Name: "go-limiter", make: newGoLimiter},
	{Name: "throttled, LRU", make: newThrottled},
	{Name: "map and mutex", make: newMap},
	{Name: "map, scan when full", make: newScanMap},
	{Name: "map, failures", make: newFailures},
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ours is httpguard with a rule for sites and one for clients.
func ours(s Setup, site, own guard.Rule) instance {
	site.V4, site.V6 = 24, 48
	o := httpguard.Options{Guard: must(guard.New(guard.Config{Rules: []guard.Rule{site, own}}))}
	if s.Proxied {
		o.Clients = must(clientip.New(clientip.Config{
			Header: "X-Forwarded-For", Trusted: []netip.Prefix{netip.MustParsePrefix(proxy + "/32")},
		}))
	}
	return instance{
		wrap:      must(httpguard.New(o)).Handler,
		succeeded: func(r *http.Request) { httpguard.FromRequest(r).Succeeded() },
		void:      func(r *http.Request) { httpguard.FromRequest(r).Settle(doorward.Void) },
	}
}

func windows(s Setup, sliding bool) instance {
	own := window.Policy{Limit: Limit, Window: s.Window, Sliding: sliding, Capacity: s.Capacity}
	site := own
	site.Limit = Site
	return ours(s, guard.Rule{Window: &site}, guard.Rule{Window: &own})
}

// host is the caller as snippets have it.
func host(r *http.Request) string {
	h, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return h
}

// forwarded is the caller as snippets for applications behind a proxy have it.
func forwarded(r *http.Request) string {
	if v := r.Header.Get("X-Forwarded-For"); v != "" {
		first, _, _ := strings.Cut(v, ",")
		return strings.TrimSpace(first)
	}
	return host(r)
}

func key(s Setup) func(*http.Request) string {
	if s.Proxied {
		return forwarded
	}
	return host
}

// refuse puts allow in front of a handler.
func refuse(allow func(*http.Request) bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !allow(r) {
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// newRate knows callers by the peer of the connection, behind a proxy as well: there is
// no middleware that would read a header.
func newRate(s Setup) instance {
	var clients sync.Map
	return instance{wrap: refuse(func(r *http.Request) bool {
		l, _ := clients.LoadOrStore(host(r), rate.NewLimiter(rate.Every(s.Window/Limit), Limit))
		return l.(*rate.Limiter).Allow()
	})}
}

// newHTTPRate finds the caller as its documentation now says: with chi's middleware.
func newHTTPRate(s Setup) instance {
	find := middleware.ClientIPFromRemoteAddr
	if s.Proxied {
		find = middleware.ClientIPFromXFF(proxy + "/32")
	}
	limit := httprate.LimitBy(Limit, s.Window, func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(middleware.GetClientIP(r.Context())), nil
	})
	return instance{wrap: func(next http.Handler) http.Handler { return find(limit(next)) }}
}

// newUlule has no cleaner: it would keep virtual time running. Nothing that is counted
// depends on it.
func newUlule(s Setup) instance {
	store := memory.NewStoreWithOptions(ulule.StoreOptions{Prefix: ulule.DefaultPrefix})
	l := ulule.New(store, ulule.Rate{Period: s.Window, Limit: Limit}, ulule.WithTrustForwardHeader(s.Proxied))
	return instance{wrap: stdlib.NewMiddleware(l).Handler}
}

// newGoLimiter gives a token back for an attempt that was never judged.
func newGoLimiter(s Setup) instance {
	store := must(memorystore.New(&memorystore.Config{Tokens: Limit, Interval: s.Window}))
	find := httplimit.IPKeyFunc()
	if s.Proxied {
		find = httplimit.IPKeyFunc("X-Forwarded-For")
	}
	ctx := context.Background()
	return instance{
		wrap: must(httplimit.NewMiddleware(store, find)).Handle,
		void: func(r *http.Request) {
			if k, err := find(r); err == nil {
				store.Burst(ctx, k, 1)
			}
		},
		close: func() { store.Close(ctx) },
	}
}

func newThrottled(s Setup) instance {
	store := must(memstore.NewCtx(s.Capacity))
	l := must(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(Limit, s.Window), MaxBurst: Limit - 1,
	}))
	vary := &throttled.VaryBy{RemoteAddr: true}
	if s.Proxied {
		vary = &throttled.VaryBy{Headers: []string{"X-Forwarded-For"}}
	}
	h := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: vary}
	return instance{wrap: h.RateLimit}
}

func newMap(s Setup) instance { return byHand(s, peer.NewMap(Limit, s.Window, 0)) }

func newScanMap(s Setup) instance { return byHand(s, peer.NewMap(Limit, s.Window, s.Capacity)) }

// byHand counts requests as they come, and takes back those never judged.
func byHand(s Setup, m *peer.Map) instance {
	find := key(s)
	return instance{
		wrap: refuse(func(r *http.Request) bool { return m.Allow(find(r), time.Now()) }),
		void: func(r *http.Request) { m.TakeBack(find(r)) },
	}
}

// newFailures is the other thing people write by hand: failures are counted when the
// answer is 401, and forgotten when it is 200.
func newFailures(s Setup) instance {
	type client struct {
		failures int
		end      time.Time
	}
	var mu sync.Mutex
	clients := map[string]client{}
	find := key(s)
	return instance{wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			c := clients[find(r)]
			mu.Unlock()
			if c.failures >= Limit && time.Now().Before(c.end) {
				http.Error(w, "too many failures", http.StatusTooManyRequests)
				return
			}
			seen := &statusWriter{ResponseWriter: w}
			next.ServeHTTP(seen, r)
			mu.Lock()
			defer mu.Unlock()
			switch c, now := clients[find(r)], time.Now(); seen.status {
			case http.StatusOK:
				delete(clients, find(r))
			case http.StatusUnauthorized:
				if !now.Before(c.end) {
					c = client{end: now.Add(s.Window)}
				}
				c.failures++
				clients[find(r)] = c
			}
		})
	}}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
