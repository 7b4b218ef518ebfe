package httpguard_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/lockout"
)

func TestNewErrors(t *testing.T) {
	g := newGuard(t, perNetwork(5))
	per := func(p guard.Per) *guard.Guard {
		return newGuard(t, guard.Config{Rules: []guard.Rule{{Lockout: free(5)}, {Name: "a", Per: p, Lockout: free(5)}}})
	}
	devices, name := signer(t, 'a'), account
	for _, tt := range []struct {
		want string
		o    httpguard.Options
	}{
		{"httpguard: Guard must be set", httpguard.Options{}},
		{"httpguard: BodyTimeout must not be negative, got -1s", httpguard.Options{Guard: g, BodyTimeout: -time.Second}},
		{`httpguard: DeviceCookie must be the name of a cookie, got "a b"`, httpguard.Options{Guard: g, DeviceCookie: "a b"}},
		{`httpguard: Subject must be set: rule "a" charges it`, httpguard.Options{Guard: per(guard.Subject), Challenge: name}},
		{`httpguard: Subject must be set: rule "a" charges it`, httpguard.Options{Guard: per(guard.Pair), Challenge: name}},
		{`httpguard: Challenge must be set: rule "a" charges it`, httpguard.Options{Guard: per(guard.Challenge), Subject: name}},
		{"httpguard: Devices must not be set: no rule charges a device", httpguard.Options{Guard: per(guard.Pair), Subject: name, Devices: devices}},
		{"httpguard: Subject must be set: a device is known for one", httpguard.Options{Guard: per(guard.Device), Devices: devices}},
		{"", httpguard.Options{Guard: g, MaxBody: -1, MaxWaiting: -1}},
		{"", httpguard.Options{Guard: g, Subject: name, Challenge: name}},
		{"", httpguard.Options{Guard: per(guard.Subject), Subject: name}},
		{"", httpguard.Options{Guard: per(guard.Pair), Subject: name}},
		{"", httpguard.Options{Guard: per(guard.Challenge), Challenge: name}},
		{"", httpguard.Options{Guard: per(guard.Device), Subject: name, Devices: devices, DeviceCookie: "__Host-device"}},
		{"", httpguard.Options{Guard: per(guard.Everyone)}},
	} {
		gate, err := httpguard.New(tt.o)
		if got := fmt.Sprint(err); got != tt.want && err != nil || (err == nil) != (tt.want == "") || (gate == nil) != (err != nil) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// TestZeroGate: it lets nobody through.
func TestZeroGate(t *testing.T) {
	var gate httpguard.Gate
	for _, body := range []string{"", "x"} {
		if w := do(gate.Handler(right), from("192.0.2.7", "POST", body)); w.Code != 503 {
			t.Errorf("%d", w.Code)
		}
	}
	if p := gate.Check(from("192.0.2.7", "POST", "")); p.Verdict().Reason != doorward.Unavailable || p.Settle(doorward.Void) {
		t.Errorf("%+v", p.Verdict())
	}
	defer func() {
		if recover() == nil {
			t.Error("Handler takes nil")
		}
	}()
	gate.Handler(nil)
}

// TestCheck decides, charges and settles; the body and the answer are the caller's.
func TestCheck(t *testing.T) {
	g, calls := newGuard(t, perNetwork(2)), record()
	gate := newGate(t, httpguard.Options{Guard: g, Settled: calls.callback})
	r := from("192.0.2.7", "POST", "")
	r.Body = io.NopCloser(iotest.ErrReader(fmt.Errorf("read")))
	p := gate.Check(r)
	if !p.Verdict().Allowed || p.Verdict().Remaining != 1 || p.Addr() != addr("192.0.2.7") || p.How() != clientip.Peer {
		t.Fatalf("%+v %v %v", p.Verdict(), p.Addr(), p.How())
	}
	if _, settled := p.Outcome(); settled || httpguard.FromRequest(r) != nil {
		t.Error("settled, or attached to the request")
	}
	if !p.Settle(doorward.Void) || p.Settle(doorward.Failed) {
		t.Error("not settled by the first call alone")
	}
	if got := calls.next(t); got.outcome != doorward.Void || got.request != r || got.permit != p {
		t.Errorf("%+v", got)
	}
	for range 2 {
		p := gate.Check(r)
		if !p.Settle(doorward.Failed) {
			t.Error("not settled")
		}
	}
	if p := gate.Check(r); p.Verdict().Reason != doorward.Locked || p.Settle(doorward.Succeeded) {
		t.Errorf("%+v", p.Verdict())
	}
}

// TestSettledRequest: the request that Settled gets has the permit.
func TestSettledRequest(t *testing.T) {
	for _, body := range []string{"x", strings.Repeat("x", 1<<17)} {
		calls := record()
		gate := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(2)), Settled: calls.callback})
		do(gate.Handler(wrong), from("192.0.2.7", "POST", body))
		if got := calls.next(t); got.permit == nil || httpguard.FromRequest(got.request) != got.permit {
			t.Errorf("%+v", got)
		}
	}
}

// TestRetryAfterInTime is P11: a client that waits exactly as told gets through.
func TestRetryAfterInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := lockout.Policy{FreeFailures: 1, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Minute}
		h := newGate(t, httpguard.Options{Guard: newGuard(t, guard.Config{Rules: []guard.Rule{{Lockout: &p}}})}).Handler(wrong)
		start := time.Now()
		for _, tt := range []struct {
			at         time.Duration
			status     int
			retryAfter string
		}{
			{0, 401, ""},
			{0, 429, "60"},
			{1, 429, "60"},
			{58_700 * time.Millisecond, 429, "2"},
			{59 * time.Second, 429, "1"},
			{59_999 * time.Millisecond, 429, "1"},
			{60*time.Second - 1, 429, "1"},
			{60 * time.Second, 401, ""},
		} {
			time.Sleep(tt.at - time.Since(start)) // virtual
			w := do(h, from("192.0.2.40", "POST", "x"))
			if w.Code != tt.status || w.Header().Get("Retry-After") != tt.retryAfter {
				t.Errorf("at %v: %d, Retry-After %q, want %d, %q", tt.at, w.Code, w.Header().Get("Retry-After"), tt.status, tt.retryAfter)
			}
		}
	})
}

// TestParallelWrong: a thousand wrong logins at once are five.
func TestParallelWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reached, refused atomic.Int64
		h := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5))}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reached.Add(1)
			time.Sleep(10 * time.Millisecond) // virtual: a password hash
			w.WriteHeader(401)
		}))
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if do(h, from("192.0.2.7", "POST", "x")).Code == 429 {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if reached.Load() != 5 || refused.Load() != 995 {
			t.Errorf("%d reached the handler, %d were refused", reached.Load(), refused.Load())
		}
	})
}

// TestParallelWrongOverTheNetwork is the same with real connections and time.
func TestParallelWrongOverTheNetwork(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		var reached atomic.Int64
		s := serve(t, newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5))}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reached.Add(1)
			w.WriteHeader(401)
		})), http2)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 20 {
					res, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("x"))
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			})
		}
		wg.Wait()
		if reached.Load() != 5 {
			t.Errorf("%d reached the handler", reached.Load())
		}
	})
}

// TestParallelRight: a thousand right logins from one address lock nobody out, and all
// who may wait are served one after the other.
func TestParallelRight(t *testing.T) {
	for _, tt := range []struct {
		max  int
		work time.Duration
		less int // served at least
	}{
		{0, time.Millisecond, 256},    // a quarter of 1,024 may wait
		{4000, time.Microsecond, 333}, // all may: the guard takes 5 at once, every 15 ms
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t, perNetwork(5))
			h := newGate(t, httpguard.Options{Guard: g, MaxWaiting: tt.max}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(tt.work) // virtual
				right(w, r)
			}))
			var served atomic.Int64
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					switch w := do(h, from("192.0.2.7", "POST", "x")); {
					case w.Code == 200:
						served.Add(1)
					case w.Code != 429 || w.Header().Get("Retry-After") != "1":
						t.Errorf("%d, Retry-After %s", w.Code, w.Header().Get("Retry-After"))
					}
				})
			}
			wg.Wait()
			t.Logf("MaxWaiting %d: %d of 1,000 served", tt.max, served.Load())
			if n := int(served.Load()); n < tt.less {
				t.Errorf("%d served, want %d at least", n, tt.less)
			}
			if n := remaining(g, "192.0.2.7"); n != 5 {
				t.Errorf("%d attempts left, want all 5", n)
			}
		})
	}
}

func TestRateLimitHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := guard.Config{
			Rules: []guard.Rule{
				{Name: "burst", Lockout: free(2)},
				{Name: "day", Lockout: &lockout.Policy{FreeFailures: 20, Window: 24 * time.Hour, FirstLockout: time.Minute, MaxLockout: time.Hour}},
				{Per: guard.Everyone, Lockout: free(1000)},
				{Per: guard.Subject, Lockout: free(50)},
				{Name: "dry", Action: guard.Shadow, Lockout: free(1)},
				{V4: -1, V6: 48, Lockout: free(50)},
			},
			Exempt: prefixes("192.0.2.8/32"), Blocked: prefixes("192.0.2.9/32"),
		}
		const policy = `"burst";q=2;w=60, "day";q=20;w=86400`
		on := newGate(t, httpguard.Options{Guard: newGuard(t, c), RateLimitHeaders: true, MaxBody: 4, Subject: account, OptionalSubject: true})
		off := newGate(t, httpguard.Options{Guard: newGuard(t, c), Subject: account, OptionalSubject: true})
		for _, tt := range []struct {
			caller, body  string
			handler       http.Handler
			status        int
			policy, limit string
		}{
			{"192.0.2.7", "x", right, 200, policy, `"burst";r=2, "day";r=20`},
			{"192.0.2.7", "x", wrong, 401, policy, `"burst";r=1, "day";r=19`},
			{"192.0.2.7", "too large", wrong, 413, policy, `"burst";r=0;t=60, "day";r=18`},
			{"192.0.2.7", "x", right, 429, policy, `"burst";r=0;t=60, "day";r=18`},
			{"192.0.2.8", "x", right, 200, "", ""},
			{"192.0.2.9", "x", right, 403, "", ""},
		} {
			w := do(on.Handler(tt.handler), from(tt.caller, "POST", tt.body))
			p, l := strings.Join(w.Header().Values("RateLimit-Policy"), "|"), strings.Join(w.Header().Values("RateLimit"), "|")
			if w.Code != tt.status || p != tt.policy || l != tt.limit {
				t.Errorf("%s %q: %d\n%s\n%s\nwant %d\n%s\n%s", tt.caller, tt.body, w.Code, p, l, tt.status, tt.policy, tt.limit)
			}
			w = do(off.Handler(tt.handler), from(tt.caller, "POST", tt.body))
			if h := fmt.Sprint(w.Header()); strings.Contains(strings.ToLower(h), "ratelimit") {
				t.Errorf("off: %s", h)
			}
		}
		time.Sleep(58_700 * time.Millisecond) // virtual
		w := do(on.Handler(right), from("192.0.2.7", "POST", "x"))
		if got, want := w.Header().Get("RateLimit"), `"burst";r=0;t=2, "day";r=18`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		// The application's own fields stay.
		own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("RateLimit", `"own";r=1`) })
		w = do(on.Handler(own), from("192.0.2.70", "POST", "x"))
		if got, want := strings.Join(w.Header().Values("RateLimit"), ", "), `"own";r=1, "burst";r=1, "day";r=19`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		// Nothing applies, nothing is shown: a list is never empty.
		v4 := newGate(t, httpguard.Options{Guard: newGuard(t, guard.Config{Rules: []guard.Rule{{V4: 32, V6: -1, Lockout: free(5)}}}), RateLimitHeaders: true})
		if w := do(v4.Handler(right), from("2001:db8::1", "POST", "x")); w.Header().Get("RateLimit-Policy") != "" || w.Header()["Ratelimit"] != nil {
			t.Errorf("%v", w.Header())
		}
	})
}

func TestClients(t *testing.T) {
	trusting, err := clientip.New(clientip.Config{Header: "x-forwarded-for", Trusted: prefixes("192.0.2.0/24"), TrustUnix: true})
	if err != nil {
		t.Fatal(err)
	}
	unix := &net.UnixAddr{Name: "/run/x", Net: "unix"}
	for _, tt := range []struct {
		name    string
		clients *clientip.Resolver
		peer    string
		local   net.Addr
		want    string
		how     clientip.How
	}{
		{"the peer", nil, "192.0.2.7:1", nil, "192.0.2.7", clientip.Peer},
		{"the header", trusting, "192.0.2.7:1", nil, "198.51.100.1", clientip.Header},
		{"a stranger's header", trusting, "203.0.113.1:1", nil, "203.0.113.1", clientip.Peer},
		{"a unix socket", nil, "@", unix, "invalid IP", clientip.Unknown},
		{"a unix socket by an address", nil, "192.0.2.7:1", unix, "invalid IP", clientip.Unknown},
		{"a trusted unix socket", trusting, "203.0.113.1:1", unix, "198.51.100.1", clientip.Header},
		{"a TCP socket", nil, "192.0.2.7:1", &net.TCPAddr{}, "192.0.2.7", clientip.Peer},
	} {
		r := from("192.0.2.7", "POST", "")
		r.RemoteAddr = tt.peer
		r.Header.Set("X-Forwarded-For", "10.0.0.1, 198.51.100.1")
		if tt.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.local))
		}
		p := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(5)), Clients: tt.clients}).Check(r)
		if p.Addr().String() != tt.want || p.How() != tt.how {
			t.Errorf("%s: %v, %v, want %s, %v", tt.name, p.Addr(), p.How(), tt.want, tt.how)
		}
	}
}

func TestRefusedCost(t *testing.T) {
	h := newGate(t, httpguard.Options{Guard: newGuard(t, perNetwork(1))}).Handler(wrong)
	do(h, from("192.0.2.7", "POST", "x"))
	r, w := from("192.0.2.7", "POST", "x"), httptest.NewRecorder()
	w.Body = nil
	// The permit, and the values of the headers.
	if n := testing.AllocsPerRun(100, func() { clear(w.Header()); h.ServeHTTP(w, r) }); n > 8 {
		t.Errorf("%v allocations", n)
	}
}
