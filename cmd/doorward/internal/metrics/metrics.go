// Package metrics shows what the process counts to Prometheus. It counts nothing itself:
// each scrape reads what the guards, the proxy and the daemon have counted anyway, so a
// decision costs the same whether anybody scrapes or not, and nothing is kept twice.
//
// It promises that callers control no label: doors, guards, rules and copies of the
// application come from the configuration, all other values from lists in the code, and
// each series is there from the first scrape on, at 0. So a flood makes none.
//
// It gives up on exact figures for one moment: those of one scrape are read one after
// another while requests are served. How many keys are live and locked is counted at most
// every 15 seconds, see census.
package metrics

import (
	"context"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/admin"
	"github.com/doorward/doorward/cmd/doorward/internal/tally"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore"
)

// A Snapshot is what a scrape shows. What counts does so since the start.
type Snapshot struct {
	Now      time.Time
	Version  string
	Tally    tally.Snapshot
	Guards   map[string]*guard.Guard
	InFlight map[string]int    // requests by door
	Healthy  map[string]bool   // copies of the application by URL
	Lines    map[string]uint64 // of log by kind, written or not
	Loaded   time.Time         // when the configuration that is in force was read
	State    *State            // nil if nothing outlasts the process
	Audit    *Audit            // nil if there is none
	Store    *Store            // nil if guards count in memory
}

// Store is where the guards count, and what they decided without it, by name.
type Store struct {
	Up     bool
	Downs  uint64
	Calls  redisstore.Calls
	Guards map[string]Alone
}

// Alone is what one guard decided without the store, and what it does while that is away.
type Alone struct {
	redisstore.Alone
	Mode redisstore.Mode
}

// State is the state file. Saved is the zero Time if it was never written.
type State struct {
	Saved time.Time
	Every time.Duration
}

// Audit is the audit log.
type Audit struct {
	Lines   uint64
	Failing bool // the last write failed
}

// Handler serves what read returns, which is asked once for each scrape.
func Handler(read func() Snapshot) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(newCollector(read), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry:            reg,
		EnableOpenMetrics:   true,
		ErrorHandling:       promhttp.ContinueOnError, // rather one series less than none
		MaxRequestsInFlight: 4,
		OfferedCompressions: []promhttp.Compression{promhttp.Identity, promhttp.Gzip},
	})
}

// A metric is one name, and what it means.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

type collector struct {
	read   func() Snapshot
	all    []*prometheus.Desc
	census census

	attempts, exempt, stepUp, found, inFlight              metric
	refusals, lockouts, shadow                             metric
	tracked, capacity, live, locked, fullness, counted     metric
	pending, overCharged, overRefused, reclaimed, poolFull metric
	reloads, reloadOK, reloadTime, healthy, lines          metric
	stateSaved, stateEvery, auditLines, auditOK, build     metric
	decision                                               *prometheus.Desc

	storeUp, storeDowns, calls, callErrors, timeouts metric
	short, full, late, takenBack, underWay           metric
	hot, local, failOpen, unavailable, mode          metric
	callTime                                         *prometheus.Desc
}

func newCollector(read func() Snapshot) *collector {
	c := &collector{read: read, census: census{places: placesAtOnce}}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc("doorward_"+name, help, labels, nil)
		c.all = append(c.all, d)
		return d
	}
	counter := func(name, help string, labels ...string) metric {
		return metric{desc(name+"_total", help, labels...), prometheus.CounterValue}
	}
	gauge := func(name, help string, labels ...string) metric {
		return metric{desc(name, help, labels...), prometheus.GaugeValue}
	}
	c.attempts = counter("attempts", "Attempts that were admitted and have ended, exempt ones not included.", "door", "outcome")
	c.exempt = counter("exempt", "Attempts of exempt networks, which pass uncharged.", "door")
	c.stepUp = counter("step_up", "Attempts of which a stronger proof was asked, among those that were admitted.", "door")
	c.found = counter("client_address", "Attempts by how the caller's address was found.", "door", "how")
	c.inFlight = gauge("in_flight", "Requests that are at the door now.", "door")
	c.decision = desc("decision_seconds", "How long the guard took to decide, waiting for a busy key not included.", "door")
	c.refusals = counter("refusals", "Attempts that were refused. What no rule refused has no rule: blocked networks.", "door", "rule", "per", "reason")
	c.lockouts = counter("lockouts", "Lockouts that a failure started; of several that one failure started, the longest.", "door", "rule", "per", "action")
	c.shadow = counter("shadow_refusals", "Attempts that a shadow rule would have refused.", "door", "rule", "per")

	c.tracked = gauge("keys_tracked", "Keys that have an entry, forgotten ones included that no other key needed the room of.", "guard", "rule")
	c.capacity = gauge("keys_capacity", "Keys that may have an entry.", "guard", "rule")
	c.live = gauge("keys_live", "Keys of which something is remembered, counted at most every 15 seconds.", "guard", "rule")
	c.locked = gauge("keys_locked", "Keys that are locked, or have spent their window, counted with those that are live.", "guard", "rule", "per", "action")
	c.fullness = gauge("keys_live_ratio", "Live keys in parts of the room for them, counted alike; of a rule with a table for each address family, in the fuller one.", "guard", "rule")
	c.counted = gauge("keys_counted_timestamp_seconds", "When counting the live and locked keys began.")
	c.pending = gauge("reservations_pending", "Attempts that are charged and have not ended.", "guard", "rule")
	c.overCharged = counter("overflow_charged", "Attempts that were charged to the entry that all share, since the table was full.", "guard", "rule")
	c.overRefused = counter("overflow_refused", "How often the entry that all share said no.", "guard", "rule")
	c.reclaimed = counter("reclaimed", "Forgotten entries that made room for another key.", "guard", "rule")
	c.poolFull = counter("pool_full", "Attempts that were refused since too many were in flight.", "guard", "rule")

	c.reloads = counter("reloads", "Reloads of the configuration.", "result")
	c.reloadOK = gauge("config_last_reload_successful", "Whether the last reload succeeded; 1 if there was none.")
	c.reloadTime = gauge("config_last_reload_success_timestamp_seconds", "When the configuration was read that is in force.")
	c.healthy = gauge("upstream_healthy", "Whether a copy of the application is healthy.", "upstream")
	c.lines = counter("log_lines", "Lines of log that requests brought about, written or not.", "kind")
	c.stateSaved = gauge("state_saved_timestamp_seconds", "When the state file was last written, 0 if it never was.")
	c.stateEvery = gauge("state_interval_seconds", "How often the state file is to be written.")
	c.auditLines = counter("audit_lines", "Lines of the audit log.")
	c.auditOK = gauge("audit_last_write_successful", "Whether the last write to the audit log succeeded.")
	c.storeUp = gauge("store_up", "Whether the store is asked. If not, doors decide as when_store_is_away says.")
	c.storeDowns = counter("store_downs", "How often the store went away.")
	c.calls = counter("store_calls", "Calls to the store.")
	c.callErrors = counter("store_errors", "Calls that ended with an error, in time.")
	c.timeouts = counter("store_timeouts", "Calls that were not answered in time.")
	c.short = counter("store_short_circuited", "Calls that were not made, since the store is away.")
	c.full = counter("store_full", "Calls that were not made, since too many were under way.")
	c.late = counter("store_late", "Attempts that the store admitted too late.")
	c.takenBack = counter("store_taken_back", "Of these, those that were taken back; the others become failures.")
	c.underWay = gauge("store_calls_under_way", "Calls to the store now, late ones included.")
	c.callTime = desc("store_call_seconds", "How long calls to the store were waited for.")
	c.hot = counter("store_hot_refusals", "Attempts that were refused without the store, which had locked the caller out.", "guard")
	c.local = counter("store_local_decisions", "Attempts that this process decided by its own counts, since the store did not.", "guard")
	c.failOpen = counter("store_fail_open", "Attempts that were let in undecided and uncounted, since the store was away.", "guard")
	c.unavailable = counter("store_unavailable", "Attempts that were refused undecided, since the store did not decide.", "guard")
	c.mode = gauge("store_away_mode", "1, with what decides while the store is away.", "guard", "mode")
	c.build = gauge("build_info", "1, with the version.", "version", "goversion")
	return c
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.all {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.read()
	put := func(m metric, v float64, labels ...string) {
		for i, l := range labels {
			labels[i] = printable(l)
		}
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
	}
	put(c.build, 1, s.Version, runtime.Version())
	for _, d := range s.Tally.Doors {
		c.door(put, d, s.Guards[d.Guard])
		put(c.inFlight, float64(s.InFlight[d.Door]), d.Door)
		ch <- c.took(d)
	}
	c.guards(put, s)
	if s.Store != nil {
		ch <- c.store(put, s.Store)
	}
	put(c.reloads, float64(s.Tally.Reloads.Done), "done")
	put(c.reloads, float64(s.Tally.Reloads.Failed), "failed")
	put(c.reloadOK, truth(s.Tally.Reloads.Err == nil))
	put(c.reloadTime, unix(s.Loaded))
	each(s.Healthy, func(url string, ok bool) { put(c.healthy, truth(ok), url) })
	each(s.Lines, func(kind string, n uint64) {
		kind, _, _ = strings.Cut(kind, ": ") // what follows is advice
		put(c.lines, float64(n), kind)
	})
	if s.State != nil {
		put(c.stateSaved, unix(s.State.Saved))
		put(c.stateEvery, s.State.Every.Seconds())
	}
	if s.Audit != nil {
		put(c.auditLines, float64(s.Audit.Lines))
		put(c.auditOK, truth(!s.Audit.Failing))
	}
}

// A putter puts one figure into the answer.
type putter func(m metric, v float64, labels ...string)

func (c *collector) door(put putter, d tally.Counts, g *guard.Guard) {
	for o, n := range d.Outcomes {
		put(c.attempts, float64(n), d.Door, doorward.Outcome(o).String())
	}
	for how, n := range d.Hows {
		put(c.found, float64(n), d.Door, clientip.How(how).String())
	}
	put(c.exempt, float64(d.Exempt), d.Door)
	put(c.stepUp, float64(d.StepUp), d.Door)
	var rules []guard.Rule
	if g != nil {
		rules = g.Rules()
	}
	for _, n := range d.Rules {
		var rule guard.Rule
		if n.Name != "" {
			i := slices.IndexFunc(rules, func(r guard.Rule) bool { return r.Name == n.Name })
			if i < 0 {
				continue // a reload took it away just now
			}
			rule = rules[i]
		}
		c.rule(put, d.Door, rule, n)
	}
}

// rule shows what one rule can bring about, at 0 before it has.
func (c *collector) rule(put putter, door string, r guard.Rule, n tally.Rule) {
	var reasons []doorward.Reason
	per := r.Charges()
	switch {
	case r.Name == "":
		per, reasons = "", []doorward.Reason{doorward.Blocked, doorward.Unavailable}
	case r.Action == guard.Shadow:
		put(c.shadow, float64(n.Shadow), door, r.Name, per)
	case r.Action == guard.StepUp:
	case r.Lockout != nil:
		reasons = []doorward.Reason{doorward.Busy, doorward.Locked}
	case r.Throttle != nil:
		reasons = []doorward.Reason{doorward.Busy, doorward.Spent, doorward.Ceiling}
	default:
		reasons = []doorward.Reason{doorward.Busy, doorward.Spent}
	}
	for i, m := range n.Refused {
		if reason := doorward.Reason(i); m > 0 || slices.Contains(reasons, reason) {
			put(c.refusals, float64(m), door, r.Name, per, reason.String())
		}
	}
	if r.Lockout != nil {
		put(c.lockouts, float64(n.Lockouts), door, r.Name, per, admin.ActionOf(r))
	}
}

// took has sums where d has counts.
func (c *collector) took(d tally.Counts) prometheus.Metric {
	buckets, n := sums(tally.Buckets[:], d.Decisions[:])
	return prometheus.MustNewConstHistogram(c.decision, n, d.Took.Seconds(), buckets, printable(d.Door))
}

// sums makes the counts between bounds those up to each bound, and of all.
func sums(bounds []time.Duration, counts []uint64) (buckets map[float64]uint64, n uint64) {
	buckets = make(map[float64]uint64, len(bounds))
	for i, bound := range bounds {
		n += counts[i]
		buckets[bound.Seconds()] = n
	}
	return buckets, n + counts[len(bounds)]
}

// store shows what became of calls, and returns how long they took.
func (c *collector) store(put putter, s *Store) prometheus.Metric {
	n := s.Calls
	put(c.storeUp, truth(s.Up))
	put(c.storeDowns, float64(s.Downs))
	put(c.calls, float64(n.Calls))
	put(c.callErrors, float64(n.Errors))
	put(c.timeouts, float64(n.Timeouts))
	put(c.short, float64(n.Short))
	put(c.full, float64(n.Full))
	put(c.late, float64(n.Late))
	put(c.takenBack, float64(n.TakenBack))
	put(c.underWay, float64(n.UnderWay))
	each(s.Guards, func(name string, a Alone) {
		put(c.hot, float64(a.Hot), name)
		put(c.local, float64(a.Local), name)
		put(c.failOpen, float64(a.Open), name)
		put(c.unavailable, float64(a.Unavailable), name)
		put(c.mode, 1, name, a.Mode.String())
	})
	buckets, all := sums(redisstore.Buckets(), n.Took[:])
	return prometheus.MustNewConstHistogram(c.callTime, all, n.Waited.Seconds(), buckets)
}

// storeTime is how long a store has for the figures of all guards.
const storeTime = time.Second

func (c *collector) guards(put putter, snapshot Snapshot) {
	counts, counted := c.census.take(snapshot.Guards, snapshot.Now)
	put(c.counted, unix(counted))
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if snapshot.Store != nil && !snapshot.Store.Up {
		cancel() // it would only be waited for
	}
	each(snapshot.Guards, func(name string, g *guard.Guard) {
		for _, r := range g.Rules() {
			s, err := g.StatsContext(ctx, r.Name)
			if err != nil {
				continue // the store does not say
			}
			if snapshot.Store != nil { // which does not know the rest
				put(c.tracked, float64(s.Tracked), name, r.Name)
				put(c.capacity, float64(room(r)), name, r.Name)
				put(c.overCharged, float64(s.OverflowCharged), name, r.Name)
				put(c.overRefused, float64(s.OverflowRefused), name, r.Name)
				continue
			}
			put(c.tracked, float64(s.Tracked), name, r.Name)
			put(c.capacity, float64(room(r)), name, r.Name)
			put(c.pending, float64(s.Pending), name, r.Name)
			put(c.overCharged, float64(s.OverflowCharged), name, r.Name)
			put(c.overRefused, float64(s.OverflowRefused), name, r.Name)
			put(c.reclaimed, float64(s.Reclaimed), name, r.Name)
			put(c.poolFull, float64(s.PoolFull), name, r.Name)
			if n, ok := counts[ruleName{name, r.Name}]; ok {
				put(c.live, float64(n.live[0]+n.live[1]), name, r.Name)
				put(c.fullness, n.ratio(r), name, r.Name)
				put(c.locked, float64(n.locked), name, r.Name, r.Charges(), admin.ActionOf(r))
			}
		}
	})
}

// each calls f in the order of the names, so that of two that read alike the same one is
// left out each time.
func each[V any](m map[string]V, f func(string, V)) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		f(name, m[name])
	}
}

// printable is s as a label can have it. Names of a configuration always can.
func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
