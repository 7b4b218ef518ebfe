package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/document"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/cmd/doorward/internal/tally"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
	"github.com/doorward/doorward/redisstore"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// rules are one of each kind of policy, and each action.
func rules() []guard.Rule {
	lock := func(free int) *lockout.Policy {
		return &lockout.Policy{FreeFailures: free, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Hour, Capacity: 4}
	}
	return []guard.Rule{
		{Name: "net", V4: 32, V6: 64, Lockout: lock(2)},
		{Name: "mail", Per: guard.Subject, Window: &window.Policy{Limit: 3, Capacity: 8}},
		{Name: "dry", Per: guard.Subject, Action: guard.Shadow, Lockout: lock(1)},
		{Name: "proof", Per: guard.Subject, Action: guard.StepUp, Lockout: lock(1)},
		{Name: "ceiling", V4: 32, V6: 64, Throttle: &throttle.Policy{PerSource: 50, Global: 60, Sources: 16}},
	}
}

func newGuard(t testing.TB, rules ...guard.Rule) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Config{Rules: rules, Blocked: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A desk is one door whose attempts are told to a tally.
type desk struct {
	guard *guard.Guard
	tally *tally.Tally
}

func newDesk(t testing.TB, rules ...guard.Rule) *desk {
	t.Helper()
	d := &desk{newGuard(t, rules...), tally.New()}
	var names []string
	for _, r := range d.guard.Rules() {
		names = append(names, r.Name)
	}
	d.tally.Configure([]tally.Door{{Name: "login", Guard: "staff", Rules: names}})
	return d
}

func (d *desk) attempt(addr, subject string, o doorward.Outcome) {
	r := guard.Request{Addr: netip.MustParseAddr(addr), How: clientip.Peer, Subject: doorward.KeyFromName(subject)}
	p := d.guard.Attempt(r, start)
	e := proxy.Event{Door: "login", How: r.How, Verdict: p.Verdict, Took: 3 * time.Microsecond}
	if p.Allowed {
		e.Settlement = p.Settle(o, start)
	}
	d.tally.Count(&e)
}

func (d *desk) snapshot() Snapshot {
	return Snapshot{
		Now:      start,
		Version:  "v1.2.3",
		Tally:    d.tally.Snapshot(),
		Guards:   map[string]*guard.Guard{"staff": d.guard},
		InFlight: map[string]int{"login": 7},
		Healthy:  map[string]bool{"http://127.0.0.1:3000": true, "http://127.0.0.1:3001": false},
		Lines:    map[string]uint64{"door is full": 9, "doors are closed: say how": 4},
		Loaded:   start,
		State:    &State{Saved: start.Add(time.Second), Every: 10 * time.Second},
		Audit:    &Audit{Lines: 11, Failing: true},
	}
}

// Each figure of a scrape, by hand.
func TestScrape(t *testing.T) {
	d := newDesk(t, rules()...)
	d.attempt("192.0.2.1", "alice", doorward.Failed)
	d.attempt("192.0.2.1", "bob", doorward.Succeeded)
	d.attempt("192.0.2.1", "alice", doorward.Failed)      // locks net; dry and proof would refuse
	d.attempt("192.0.2.1", "alice", doorward.Failed)      // refused by net
	d.attempt("203.0.113.9", "alice", doorward.Failed)    // blocked
	d.attempt("2001:db8::1", "alice", doorward.Malformed) // dry and proof as before
	d.attempt("2001:db8::1", "alice", doorward.Failed)    // locks net
	d.attempt("2001:db8:1::1", "alice", doorward.Failed)  // refused by mail, which has had three
	d.attempt("2001:db8:1::1", "carol", doorward.Failed)  //
	d.tally.Count(&proxy.Event{Door: "login", How: clientip.Peer, Verdict: guard.Verdict{Decision: doorward.Decision{Reason: doorward.Blocked}}, Took: time.Second})
	d.tally.Reloaded(start, nil)
	d.tally.Reloaded(start, errors.New("not valid"))
	got := scrape(t, collectorOnly(d.snapshot), "")
	document.Whole(t, "testdata/scrape.txt", strings.ReplaceAll(got, runtime.Version(), "GO"))
}

// collectorOnly leaves out what is not ours.
func collectorOnly(read func() Snapshot) http.Handler {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newCollector(read))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// scrape returns one answer.
func scrape(t testing.TB, h http.Handler, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// series are the names with labels of all figures in text.
func series(text string) (all []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	slices.Sort(all)
	return all
}

func TestNames(t *testing.T) {
	d := newDesk(t, rules()...)
	problems, err := testutil.CollectAndLint(newCollector(d.snapshot))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	text := scrape(t, Handler(d.snapshot), "application/openmetrics-text; version=1.0.0")
	for _, want := range []string{"# TYPE doorward_attempts counter\n", "\ngo_goroutines ", "\nprocess_open_fds ", "\n# EOF\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in a scrape as OpenMetrics", want)
		}
	}
}

// What is not there is left out: no state file, no audit log, a guard whose counts are in a
// Store or that a reload took away.
func TestScrapeLess(t *testing.T) {
	d := newDesk(t, rules()...)
	s := d.snapshot()
	s.State, s.Audit = nil, nil
	remote, err := guard.New(guard.Config{Rules: rules()[:1], Store: store{}})
	if err != nil {
		t.Fatal(err)
	}
	s.Guards = map[string]*guard.Guard{"remote": remote}
	text := scrape(t, collectorOnly(func() Snapshot { return s }), "")
	for _, absent := range []string{"doorward_state", "doorward_audit", "doorward_keys_tracked", "doorward_keys_live", `rule="net"`} {
		if strings.Contains(text, absent) {
			t.Errorf("%s in\n%s", absent, text)
		}
	}
	if !strings.Contains(text, `doorward_attempts_total{door="login",outcome="failed"} 0`) {
		t.Errorf("no attempts in\n%s", text)
	}
}

type store struct{ guard.Store }

// What a store does is shown, and of its guards what it knows of them.
func TestScrapeStore(t *testing.T) {
	s := newDesk(t, rules()...).snapshot()
	g, err := guard.New(guard.Config{Rules: rules()[:1], Store: operated{}})
	if err != nil {
		t.Fatal(err)
	}
	s.Guards = map[string]*guard.Guard{"login": g}
	n := redisstore.Calls{Calls: 10, Errors: 2, Timeouts: 1, Short: 7, Full: 6, Late: 5, TakenBack: 4, UnderWay: 3, Waited: 1500 * time.Millisecond}
	n.Took[0], n.Took[3], n.Took[len(n.Took)-1] = 4, 5, 1
	s.Store = &Store{Up: true, Downs: 8, Calls: n, Guards: map[string]Alone{
		"login": {redisstore.Alone{Hot: 11, Local: 12, Settled: 13, Open: 14, Unavailable: 15}, redisstore.Closed},
	}}
	text := scrape(t, collectorOnly(func() Snapshot { return s }), "")
	for _, want := range []string{
		"store_up 1", "store_downs_total 8", "store_calls_total 10", "store_errors_total 2", "store_timeouts_total 1",
		"store_short_circuited_total 7", "store_full_total 6", "store_late_total 5", "store_taken_back_total 4", "store_calls_under_way 3",
		`store_call_seconds_bucket{le="0.0001"} 4`, `store_call_seconds_bucket{le="0.0005"} 4`, `store_call_seconds_bucket{le="0.001"} 9`,
		`store_call_seconds_bucket{le="1"} 9`, `store_call_seconds_bucket{le="+Inf"} 10`, "store_call_seconds_sum 1.5", "store_call_seconds_count 10",
		`store_hot_refusals_total{guard="login"} 11`, `store_local_decisions_total{guard="login"} 12`, `store_fail_open_total{guard="login"} 14`,
		`store_unavailable_total{guard="login"} 15`, `store_away_mode{guard="login",mode="closed"} 1`,
		`keys_tracked{guard="login",rule="net"} 42`, `overflow_charged_total{guard="login",rule="net"} 2`, `overflow_refused_total{guard="login",rule="net"} 1`,
	} {
		if !strings.Contains(text, "\ndoorward_"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, absent := range []string{"doorward_reservations_pending", "doorward_reclaimed", "doorward_pool_full", "doorward_keys_live{"} {
		if strings.Contains(text, absent) {
			t.Errorf("%s, which the store does not know, in\n%s", absent, text)
		}
	}
	s.Store.Up = false // then it is not asked
	text = scrape(t, collectorOnly(func() Snapshot { return s }), "")
	if strings.Contains(text, "doorward_keys_tracked") || !strings.Contains(text, "\ndoorward_store_up 0\n") {
		t.Errorf("away:\n%s", text)
	}
}

type operated struct {
	store
	guard.Operator
}

func (operated) Stats(ctx context.Context, _ *guard.Rule) (doorward.Stats, error) {
	return doorward.Stats{Tracked: 42, OverflowCharged: 2, OverflowRefused: 1}, ctx.Err()
}

// Odd names are escaped. Of two that come out alike one is left out, and the rest is there.
func TestOddNames(t *testing.T) {
	s := newDesk(t, rules()...).snapshot()
	counts := s.Tally.Doors[0]
	s.Tally.Doors = nil
	for _, name := range []string{"a\"b\n\\c{}", "bad\xff", "bad\xfe", "é"} {
		counts.Door = name
		s.Tally.Doors = append(s.Tally.Doors, counts)
	}
	text := scrape(t, Handler(func() Snapshot { return s }), "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range families["doorward_exempt_total"].Metric {
		got = append(got, m.GetLabel()[0].GetValue())
	}
	if want := []string{"a\"b\n\\c{}", "bad\uFFFD", "é"}; !slices.Equal(got, want) {
		t.Errorf("doors %q, want %q", got, want)
	}
	if families["doorward_build_info"] == nil || families["go_goroutines"] == nil {
		t.Error("a name that is there twice hides the rest")
	}
}

// Nothing that callers send makes a series.
func TestFlood(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer app.Close()
	d := newDesk(t, rules()...)
	c := proxyConfig(t, app.URL, d)
	p, err := proxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(func() Snapshot {
		s := d.snapshot()
		s.Lines = map[string]uint64{}
		p.Lines(func(kind string, n uint64) { s.Lines[kind] = n })
		return s
	})
	scrape(t, h, "") // process metrics of the first scrape
	before := series(scrape(t, h, ""))
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func() string { return strconv.FormatUint(rnd.Uint64(), 36) }
	for range 2_000 {
		path, method := "/"+word(), word()
		if rnd.IntN(4) > 0 {
			path, method = "/login", "POST"
		}
		r := httptest.NewRequest(method, path+"?"+word(), strings.NewReader("user="+word()))
		r.Host = word() + ".example"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("User-Agent", word())
		r.Header.Set(word(), word())
		r.Header.Set("X-Forwarded-For", netip.AddrFrom4([4]byte{byte(rnd.Uint32()), byte(rnd.Uint32()), 2, 1}).String()+strings.Repeat(word(), rnd.IntN(2)))
		p.ServeHTTP(httptest.NewRecorder(), r)
	}
	n := d.tally.Snapshot().Doors[0]
	if n.Outcomes[doorward.Failed] == 0 || n.Rules[1].Total() == 0 || n.Hows[clientip.Unknown] == 0 || n.Hows[clientip.Header] == 0 {
		t.Fatalf("no flood: %+v", n)
	}
	if after := series(scrape(t, h, "")); !slices.Equal(before, after) {
		for _, s := range after {
			if !slices.Contains(before, s) {
				t.Errorf("new: %s", s)
			}
		}
		t.Errorf("%d series before, %d after", len(before), len(after))
	}
}

func proxyConfig(t *testing.T, app string, d *desk) proxy.Config {
	t.Helper()
	u, err := url.Parse(app)
	if err != nil {
		t.Fatal(err)
	}
	c := proxy.Config{Upstream: u, ClientsConfigured: true, Tell: d.tally.Count, Log: slog.New(slog.DiscardHandler)}
	if c.Clients, err = clientip.New(clientip.Config{Header: "X-Forwarded-For", Hops: 1}); err != nil {
		t.Fatal(err)
	}
	login := proxy.Door{Name: "login", Guard: d.guard}
	if login.Match, err = door.New(door.Config{Routes: []string{"POST /login"}}); err != nil {
		t.Fatal(err)
	}
	if login.Outcome, err = outcome.New(outcome.Rules{Succeeded: outcome.Conditions{Status: outcome.Statuses{{First: 302, Last: 302}}}}); err != nil {
		t.Fatal(err)
	}
	if login.Subject, err = subject.New(subject.Source{Form: "user"}); err != nil {
		t.Fatal(err)
	}
	c.Doors = []proxy.Door{login}
	return c
}

// full is a desk of twelve rules, each with 100,000 locked keys.
func full(b *testing.B) *desk {
	const month = 30 * 24 * time.Hour // the scrapes below take the time with them
	var twelve []guard.Rule
	for i := range 12 {
		twelve = append(twelve, guard.Rule{Name: "rule-" + strconv.Itoa(i), V4: 32, V6: -1, Lockout: &lockout.Policy{
			FreeFailures: 1, Window: month, FirstLockout: month, MaxLockout: month, Capacity: 100_000,
		}})
	}
	d := newDesk(b, twelve...)
	for i := range 100_000 {
		d.attempt(tenth(i).String(), "", doorward.Failed)
	}
	return d
}

func tenth(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// What a scrape costs, without counting keys and with as many as one scrape counts.
func BenchmarkScrape(b *testing.B) {
	d := full(b)
	for _, count := range []bool{false, true} {
		b.Run(fmt.Sprintf("count=%v", count), func(b *testing.B) {
			s := d.snapshot()
			h := Handler(func() Snapshot {
				if count {
					s.Now = s.Now.Add(countEvery)
				}
				return s
			})
			scrape(b, h, "")
			for b.Loop() {
				scrape(b, h, "")
			}
		})
	}
}

// What a refusal costs while nobody scrapes, and while somebody does all the time, with
// keys counted in each scrape.
func BenchmarkDecision(b *testing.B) {
	d := full(b)
	for _, scraped := range []bool{false, true} {
		b.Run(fmt.Sprintf("scraped=%v", scraped), func(b *testing.B) {
			done := make(chan bool)
			var scraper sync.WaitGroup
			if scraped {
				s := d.snapshot()
				h := Handler(func() Snapshot { s.Now = s.Now.Add(countEvery); return s })
				scraper.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
						}
					}
				})
			}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				r := guard.Request{Addr: tenth(i % 100_000), How: clientip.Peer}
				began := time.Now()
				d.guard.Attempt(r, start)
				took = append(took, time.Since(began))
			}
			close(done)
			scraper.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "median-ns")
			b.ReportMetric(float64(took[len(took)*999/1000]), "99.9%-ns")
		})
	}
}
