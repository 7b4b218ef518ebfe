package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/doorward/doorward/cmd/doorward/internal/lines"
	"github.com/doorward/doorward/cmd/doorward/internal/reader"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
)

var begin = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A try is one line of a log. A right one is answered with 302, a wrong one with 200, and
// one that was never judged with 503.
type try struct {
	second int
	addr   string
	status int
}

func (t try) String() string {
	return fmt.Sprintf("%s - - [%s] \"POST /login HTTP/1.1\" %d 12 \"-\" \"agent\"\n", t.addr, begin.Add(time.Duration(t.second)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), t.status)
}

func text(tries ...try) string {
	var b strings.Builder
	for _, t := range tries {
		b.WriteString(t.String())
	}
	return b.String()
}

func logs(texts ...string) (all []Log) {
	for i, t := range texts {
		all = append(all, Log{Name: fmt.Sprintf("log%d", i), Reader: strings.NewReader(t), ModTime: begin})
	}
	return all
}

// at is a policy of rules before POST /login.
func at(rules ...guard.Rule) Policy {
	return Policy{
		Name:   "test",
		Guards: []Guard{{Name: "login", Config: guard.Config{Rules: rules}}},
		Doors: []Door{{
			Name: "login", Door: door.Config{Routes: []string{"POST /login"}},
			Outcome: outcome.Rules{Succeeded: outcome.Conditions{Status: outcome.Statuses{{First: 302, Last: 302}}}, Void: outcome.Statuses{{First: 503, Last: 503}}},
		}},
	}
}

func network(p lockout.Policy) guard.Rule { return guard.Rule{Per: guard.Network, Lockout: &p} }

var (
	usual  = lockout.Policy{FreeFailures: 5, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour}
	strict = lockout.Policy{FreeFailures: 2, Window: 10 * time.Minute, FirstLockout: 30 * time.Second, MaxLockout: 2 * time.Minute}
)

func replayed(t *testing.T, o Options, p Policy, texts ...string) *Report {
	t.Helper()
	r, err := New(o, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(logs(texts...)...); err != nil {
		t.Fatal(err)
	}
	return r.Report()
}

// A model is one lockout on addresses, by rules L1 to L8 with TakeBack, over all attempts
// in memory.
func model(p lockout.Policy, tries []try) Totals {
	type state struct {
		count        int
		last, until  int
		locked, succ bool
		refused      bool
	}
	tries = slices.Clone(tries)
	slices.SortStableFunc(tries, func(a, b try) int { return cmp.Compare(a.second, b.second) })
	states := map[netip.Prefix]*state{}
	var out Totals
	for _, try := range tries {
		a := netip.MustParseAddr(try.addr)
		bits := 32
		if a.Is6() {
			bits = 64
		}
		key, _ := a.Prefix(bits)
		s := states[key]
		if s == nil {
			s = &state{}
			states[key] = s
			out.Keys++
		}
		out.Attempts++
		now := try.second
		admitted := now >= s.until
		if !admitted {
			s.refused = true
		}
		switch {
		case try.status == 302 && admitted:
			out.AdmittedSucceeded++
			s.succ = true
		case try.status == 302:
			out.RefusedSucceeded++
			s.succ = true
		case try.status == 503 && admitted:
			out.AdmittedVoid++
		case try.status == 503:
			out.RefusedVoid++
		case !admitted:
			out.RefusedFailed++
		default:
			out.AdmittedFailed++
			if now >= max(s.last, s.until)+int(p.Window.Seconds()) {
				s.count = 0
			}
			s.count++
			s.last = now
			if over := s.count - p.FreeFailures; over >= 0 {
				length := p.FirstLockout
				for range over {
					length = min(2*length, p.MaxLockout)
				}
				s.until, s.locked = now+int(length.Seconds()), true
				out.Lockouts++
				out.Longest = max(out.Longest, length.Seconds())
			}
		}
	}
	for _, s := range states {
		out.KeysLocked += one(s.locked)
		out.KeysRefused += one(s.refused)
		out.Honest += one(s.succ)
		out.HonestRefused += one(s.succ && s.refused)
	}
	return out
}

// busy returns attempts of a few addresses, in the order of time.
func busy(r *rand.Rand, n int) (all []try) {
	second := 0
	for range n {
		second += r.IntN(1 + r.IntN(40))
		addr := fmt.Sprintf("192.0.2.%d", r.IntN(4))
		if r.IntN(3) == 0 {
			addr = fmt.Sprintf("2001:db8:0:%x::%x", r.IntN(2), r.IntN(1000))
		}
		all = append(all, try{second, addr, []int{200, 200, 200, 401, 200, 200, 302, 503}[r.IntN(8)]})
	}
	return all
}

// Whatever the log, the totals are those of the model: in order, a little out of order,
// compressed, in several files in any order.
func TestTotals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	locked := int64(0)
	for round := range 150 {
		p := usual
		if round%2 == 1 {
			p = strict
		}
		tries := busy(r, 20+r.IntN(400))
		want := model(p, tries)
		locked += want.KeysLocked
		texts := []string{text(tries...)}
		o := Options{Reorder: 10 * time.Minute}
		how := "in order"
		switch round % 5 {
		case 1:
			how = "out of order" // equal times stay in order
			late := slices.Clone(tries)
			slices.SortStableFunc(late, func(a, b try) int { return cmp.Compare(a.second/97, b.second/97) })
			for i := range late {
				j := i + r.IntN(min(5, len(late)-i))
				if d := late[j].second - late[i].second; d > 0 && d < 300 && !between(late[i:j+1]) {
					late[i], late[j] = late[j], late[i]
				}
			}
			texts = []string{text(late...)}
		case 2:
			how = "rotated, the newest first"
			cut := len(tries) / 2
			for cut > 0 && tries[cut].second == tries[cut-1].second {
				cut-- // of equal times the first file's come first
			}
			texts = []string{text(tries[cut:]...), text(tries[:cut]...)}
		case 3:
			how = "of two servers"
			parts := [2][]try{}
			for _, try := range tries {
				parts[try.second%2] = append(parts[try.second%2], try)
			}
			texts = []string{text(parts[0]...), text(parts[1]...)}
		case 4:
			how = "compressed"
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			io.WriteString(w, texts[0])
			w.Close()
			texts[0] = b.String()
		}
		got := replayed(t, o, at(network(p)), texts...)
		if got.Totals != want || got.Unreadable != 0 || got.Late != 0 || !got.KeysExact {
			t.Fatalf("round %d, %s:\ngot  %+v, %d unreadable, %d late\nwant %+v\n%s", round, how, got.Totals, got.Unreadable, got.Late, want, texts[0])
		}
		var steps Step
		for _, s := range got.Timeline.Steps {
			steps = steps.plus(s)
		}
		if steps != (Step{want.AdmittedFailed, want.RefusedFailed, want.AdmittedSucceeded, want.RefusedSucceeded}) {
			t.Fatalf("round %d: the timeline has %+v, the totals %+v", round, steps, want)
		}
	}
	if locked < 100 {
		t.Errorf("%d lockouts in all rounds: the test says little", locked)
	}
}

// between reports whether two of these have the same time.
func between(tries []try) bool {
	seen := map[int]bool{}
	for _, t := range tries {
		if seen[t.second] {
			return true
		}
		seen[t.second] = true
	}
	return false
}

func hackers(t testing.TB) Log {
	t.Helper()
	data, err := os.ReadFile("testdata/hackers-access.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	return Log{Name: "hackers-access.log.gz", Reader: bytes.NewReader(data), ModTime: begin}
}

// Of the attack of 2015 no lockout on addresses refuses anything, and the report says why.
func TestHackers(t *testing.T) {
	for _, test := range []struct {
		route            string
		attempts, keys   int64
		wider, once      int64
		most, left, gaps int64
	}{
		{"POST /login_form", 501, 348, 265, 274, 21, 3, 153},
		{"POST /join_form", 578, 417, 311, 339, 21, 3, 161},
	} {
		p := at(network(usual))
		p.Doors[0].Door.Routes, p.Doors[0].AllFailed = []string{test.route}, true
		r, err := New(Options{Reorder: time.Minute}, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(hackers(t)); err != nil {
			t.Fatal(err)
		}
		got := r.Report()
		want := Totals{Attempts: test.attempts, AdmittedFailed: test.attempts, Keys: test.keys}
		if got.Totals != want || got.Lines != 3456 || got.Unreadable != 0 {
			t.Errorf("%s: %+v in %d lines, %d unreadable, want %+v", test.route, got.Totals, got.Lines, got.Unreadable, want)
		}
		g := got.Guessers
		if g.Wider != test.wider || g.Once != test.once || g.Most != test.most || *g.LeastLeft != test.left || g.Gaps != test.gaps || g.GapsMinute != 1 {
			t.Errorf("%s: guessers %+v", test.route, g)
		}
		v := got.Verdict
		if !v.Helpless || v.Floor != test.keys || v.FloorWider != test.wider {
			t.Errorf("%s: verdict %+v", test.route, v)
		}
		words := strings.Join(v.Words, " ")
		for _, want := range []string{fmt.Sprint(test.keys, " callers"), "none of these callers came back fast enough", "No rule on addresses can stop this", fmt.Sprintf("%d of %d guesses would still get through", test.keys, test.attempts)} {
			if !strings.Contains(words, want) {
				t.Errorf("%s: the words do not say %q: %s", test.route, want, words)
			}
		}
	}
}

// Whether rules on addresses can help is told by half of the guesses.
func TestHelpless(t *testing.T) {
	for _, test := range []struct {
		callers, each int
		want          bool
	}{{10, 2, true}, {9, 2, false}, {10, 3, false}, {30, 1, true}, {1, 500, false}} {
		var tries []try
		for i := range test.callers * test.each {
			tries = append(tries, try{i * 100, fmt.Sprintf("192.0.2.%d", i%test.callers), 200})
		}
		got := replayed(t, Options{}, at(network(usual)), text(tries...)).Verdict
		if got.Helpless != test.want || got.Floor != int64(test.callers) || got.FloorWider != 1 {
			t.Errorf("%d callers, %d guesses each: %+v, want %t", test.callers, test.each, got, test.want)
		}
	}
}

// Doors count apart, so a caller has one try at each, unless they share their rules.
func TestHelplessAtDoors(t *testing.T) {
	var log strings.Builder
	for i := range 12 {
		for n, path := range []string{"/login", "/join"} {
			if i/2 == 5 && n == 1 {
				continue // the last caller is at one of them
			}
			log.WriteString(strings.Replace(text(try{300*i + n, fmt.Sprintf("192.0.2.%d", i/2), 200}), "/login", path, 1))
		}
	}
	one, two := at(network(usual)), at(network(usual))
	one.Doors[0].Door.Routes = []string{"POST /login", "POST /join"}
	two.Guards = append(two.Guards, Guard{"join", two.Guards[0].Config})
	two.Doors = append(two.Doors, two.Doors[0])
	two.Doors[1].Door.Routes, two.Doors[1].Guard = []string{"POST /join"}, 1
	for _, test := range []struct {
		policy       Policy
		floor, wider int64
		want         bool
	}{{one, 6, 1, false}, {two, 11, 2, true}} {
		got := replayed(t, Options{}, test.policy, log.String()).Verdict
		said := strings.Contains(strings.Join(got.Words, " "), "one try for ever at each door, which count apart, 11 of 22 guesses")
		if got.Floor != test.floor || got.FloorWider != test.wider || got.Helpless != test.want || said != test.want {
			t.Errorf("%d guards: %+v, want %d, %d, %t", len(test.policy.Guards), got, test.floor, test.wider, test.want)
		}
	}
}

// Requests are at doors as they are at the proxy's, whatever is looked at first.
func TestDoors(t *testing.T) {
	p := at(network(usual))
	p.Doors[0].AllFailed = true
	for request, want := range map[string]int64{
		"POST /login": 1, "POST //login/": 1, "POST /log%69n": 1, "post /login": 1, "POST http://example.org/login?x": 1,
		"GET /login": 0, "GET /login?_method=post": 1, "GET /login?_METHOD=POST": 1, "GET /login?_%6dethod=post": 1, "GET /login?_method=put": 0,
		"GET /?method=post": 0, "POST /": 0, "POST /loginx": 0,
	} {
		line := strings.Replace(text(try{1, "192.0.2.1", 200}), "POST /login", request, 1)
		if got := replayed(t, Options{Format: "combined"}, p, line); got.Attempts != want || got.Unreadable != 0 || got.NotAttempt != 1-want {
			t.Errorf("%s: %d attempts, %d others, want %d", request, got.Attempts, got.NotAttempt, want)
		}
	}
	bad := strings.Replace(text(try{1, "192.0.2.1", 200}), "POST /login", "POST /login%00", 1)
	if got := replayed(t, Options{Format: "combined"}, p, bad); got.Attempts != 0 || got.Bad != 1 || len(got.Notes) == 0 {
		t.Errorf("what is answered with 400: %+v", got)
	}
	p.Doors[0].Door.Routes = []string{"/login"}
	if got := replayed(t, Options{Format: "combined"}, p, text(try{1, "192.0.2.1", 200})); got.Attempts != 1 {
		t.Errorf("a route of any method: %d attempts", got.Attempts)
	}
}

// Later than the window allows for is late, and is judged at the latest time.
func TestLate(t *testing.T) {
	tries := []try{{0, "192.0.2.1", 200}, {1, "192.0.2.1", 200}, {100, "192.0.2.9", 200}, {2, "192.0.2.1", 200}, {200, "192.0.2.9", 200}}
	for _, test := range []struct {
		reorder time.Duration
		late    int64
		refused int64
	}{{98 * time.Second, 0, 1}, {97 * time.Second, 0, 1}, {0, 1, 0}} {
		got := replayed(t, Options{Reorder: test.reorder}, at(network(strict)), text(tries...))
		if got.Late != test.late || got.RefusedFailed != test.refused {
			t.Errorf("reorder %v: %d late, %d refused, want %d, %d", test.reorder, got.Late, got.RefusedFailed, test.late, test.refused)
		}
	}
}

// What is late may be earlier than all.
func TestLateFirst(t *testing.T) {
	got := replayed(t, Options{}, at(network(usual)), text(try{100, "192.0.2.1", 200}, try{0, "192.0.2.1", 200}, try{50, "192.0.2.1", 200}))
	at := begin.Add(100 * time.Second)
	if got.Late != 2 || !got.First.Equal(at) || !got.Last.Equal(at) || len(got.Timeline.Steps) != 1 || got.Timeline.Steps[0].AdmittedFailed != 3 {
		t.Errorf("%d late, %v to %v, %+v", got.Late, got.First, got.Last, got.Timeline)
	}
}

// Of equal times, those of the log that was named first come first.
func TestEqualTimes(t *testing.T) {
	wrong := text(try{0, "192.0.2.1", 200}, try{5, "192.0.2.1", 200})
	right := text(try{5, "192.0.2.1", 302})
	if got := replayed(t, Options{}, at(network(strict)), right, wrong); got.AdmittedSucceeded != 1 {
		t.Errorf("the right one first: %+v", got.Totals)
	}
	if got := replayed(t, Options{}, at(network(strict)), wrong, right); got.RefusedSucceeded != 1 {
		t.Errorf("the wrong ones first: %+v", got.Totals)
	}
}

func TestTimeline(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var line timeline
		when := begin.Add(time.Duration(r.Int64N(1e18)) - 5e17).UnixNano()
		most := 1 + r.Int64N(1<<(10+r.IntN(45)))
		var times []int64
		for range 1 + r.IntN(300) {
			line.add(when, 0, true)
			times = append(times, when)
			when += r.Int64N(most)
		}
		got := line.report()
		want := make([]Step, len(got.Steps))
		for _, at := range times {
			want[int(time.Unix(0, at).Sub(got.From)/time.Second)/int(got.Seconds)].AdmittedFailed++
		}
		if !slices.Equal(got.Steps, want) || len(want) > maxSteps || got.From.Unix()%got.Seconds != 0 {
			t.Fatalf("%d steps of %d s from %v", len(want), got.Seconds, got.From)
		}
	}
}

func TestGaps(t *testing.T) {
	g := &gaps{}
	for i, d := range []time.Duration{time.Minute, 10 * time.Second, 3 * time.Hour, 1500 * time.Millisecond, 50 * time.Hour} {
		g.add(d)
		if want := []time.Duration{60 * time.Second, 10 * time.Second, time.Minute, 10 * time.Second, time.Minute}[i]; g.median() != want {
			t.Errorf("after %d: median %v, want %v", i+1, g.median(), want)
		}
	}
	if g.least != 1500*time.Millisecond || g.within(time.Minute) != 2 || g.within(time.Hour) != 3 || g.within(60*time.Hour) != 5 {
		t.Errorf("least %v, within a minute %d, an hour %d, 60 hours %d", g.least, g.within(time.Minute), g.within(time.Hour), g.within(60*time.Hour))
	}
}

func TestRules(t *testing.T) {
	wide := lockout.Policy{FreeFailures: 6, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Minute, Decay: true}
	pair := strict
	rules := []guard.Rule{
		{Name: "one", Per: guard.Network, Lockout: &strict},
		{Name: "site", Per: guard.Network, V4: 24, V6: -1, Lockout: &wide},
		{Name: "dry", Per: guard.Network, Action: guard.Shadow, Lockout: &lockout.Policy{FreeFailures: 1, Window: time.Hour, FirstLockout: time.Hour, MaxLockout: time.Hour}},
		{Name: "pair", Per: guard.Pair, Lockout: &pair},
	}
	var tries []try
	for i := range 4 { // three of each four are admitted by "one", and twelve in all locks the /24
		for a := range 3 {
			tries = append(tries, try{10*i + a, fmt.Sprintf("192.0.2.%d", a), 200})
		}
	}
	tries = append(tries, try{45, "192.0.2.77", 302})
	got := replayed(t, Options{Alone: true}, at(rules...), text(tries...))
	want := Totals{
		Attempts: 13, AdmittedFailed: 6, RefusedFailed: 6, RefusedSucceeded: 1, Keys: 4, KeysLocked: 4, KeysRefused: 4,
		Honest: 1, HonestRefused: 1, Lockouts: 4, Longest: 60,
	}
	if got.Totals != want {
		t.Errorf("got  %+v\nwant %+v", got.Totals, want)
	}
	for i, want := range []struct {
		name, per, action, limit string
		refused, lockouts        int64
		longest                  float64
		exercised                bool
		failed, succeeded        int64
	}{
		{"one", "network", "refuse", "lockout 2 / 10m / 30s / 2m", 0, 3, 30, true, 6, 0},
		{"site", "network4/24", "refuse", "lockout 6 / 1h / 1m / 1m, decays", 7, 1, 60, true, 6, 1},
		{"dry", "network", "shadow", "lockout 1 / 1h / 1h / 1h", 0, 0, 0, true, 9, 0},
		{"pair", "pair", "refuse", "lockout 2 / 10m / 30s / 2m", 0, 0, 0, false, 0, 0},
	} {
		r := got.Rules[i]
		if r.Name != want.name || r.Per != want.per || r.Action != want.action || r.Limit != want.limit || r.Refused != want.refused ||
			r.Lockouts != want.lockouts || r.Longest != want.longest || r.Exercised != want.exercised || *r.AloneFailed != want.failed || *r.AloneSucceeded != want.succeeded {
			t.Errorf("%+v, alone %d and %d, want %+v", r, *r.AloneFailed, *r.AloneSucceeded, want)
		}
	}
	if h := got.HonestList; len(h) != 1 || h[0] != (HonestCaller{"192.0.2.77", 0, 1, 0, 0, begin.Add(45 * time.Second)}) {
		t.Errorf("honest callers refused: %+v", h)
	}
	if n := got.Wider; len(n) != 1 || n[0] != (Network{"192.0.2.0/24", 4, 6, 6, 1, true}) {
		t.Errorf("wider networks: %+v", n)
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "had nothing to decide: pair.") {
		t.Errorf("notes: %q", got.Notes)
	}
}

// A log that names accounts is judged by rules on accounts, canonical as in production.
func TestSubjects(t *testing.T) {
	p := at(guard.Rule{Per: guard.Subject, Lockout: &lockout.Policy{FreeFailures: 2, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Minute, Decay: true}})
	p.Doors, p.Messages = nil, 0
	var b strings.Builder
	for i, name := range []string{"root", "ROOT", "root", "alice", "root"} {
		fmt.Fprintf(&b, "2026-03-02T00:00:%02d+00:00 host sshd[%d]: Failed password for %s from 192.0.2.%d port 22 ssh2\n", 10+i, 100+i, name, i)
	}
	got := replayed(t, Options{Format: "sshd"}, p, b.String())
	if got.AdmittedFailed != 3 || got.RefusedFailed != 2 || got.KeysLocked != 3 || got.Longest != 60 {
		t.Errorf("%+v", got.Totals)
	}
	b.WriteString("2026-03-02T00:00:30+00:00 host sshd[9]: message repeated 3 times: [ Failed password for bob from 192.0.2.9 port 22 ssh2]\n")
	replay, err := New(Options{Format: "sshd", Suggest: true}, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := replay.Run(logs(b.String())...); err != nil {
		t.Fatal(err)
	}
	if s, err := replay.Suggest(Grid()[:1], nil); err != nil || s.Attempts != 8 || replay.Report().Attempts != 8 {
		t.Errorf("with one that is repeated: %+v, %v", s, err)
	}
	if g := got.Guessers; g.Accounts != 2 || g.MostAtOne != 4 {
		t.Errorf("%d accounts, %d at one, want 2 and 4", g.Accounts, g.MostAtOne)
	}
}

func TestCompared(t *testing.T) {
	p, q := at(network(usual)), at(network(strict))
	q.Name, q.Doors[0].Door.Routes = "other", []string{"POST /login", "POST /more"}
	tries := busy(rand.New(rand.NewPCG(5, 6)), 300)
	more := strings.Replace(text(try{100_000, "192.0.2.200", 200}), "/login", "/more", 1)
	r, err := New(Options{}, p, q)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(logs(text(tries...) + more)...); err != nil {
		t.Fatal(err)
	}
	got := r.Report()
	if want := model(usual, tries); got.Totals != want || len(got.Compared) != 1 {
		t.Errorf("got  %+v\nwant %+v", got.Totals, want)
	}
	if want := model(strict, append(tries, try{100_000, "192.0.2.200", 200})); got.Compared[0].Totals != want || got.Compared[0].Policy != "other" {
		t.Errorf("got  %+v\nwant %+v", got.Compared[0].Totals, want)
	}
}

// Every policy of the grid does what the model says, and the frontier is what is left
// when each is held against each.
func TestSuggest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	tries := busy(r, 700)
	for i := range 60 { // people with a few typos
		second := r.IntN(9000)
		for range r.IntN(6) {
			tries = append(tries, try{second, fmt.Sprintf("198.51.100.%d", i), 200})
			second += 5 + r.IntN(200)
		}
		tries = append(tries, try{second, fmt.Sprintf("198.51.100.%d", i), 302})
	}
	for i := range 40 { // and guessers who are right never
		second := r.IntN(9000)
		for range 1 + r.IntN(9) {
			tries = append(tries, try{second, fmt.Sprintf("203.0.113.%d", i), 200})
			second += r.IntN(20)
		}
	}
	slices.SortStableFunc(tries, func(a, b try) int { return cmp.Compare(a.second, b.second) })
	replay, err := New(Options{Suggest: true}, at(network(usual)))
	if err != nil {
		t.Fatal(err)
	}
	if err := replay.Run(logs(text(tries...))...); err != nil {
		t.Fatal(err)
	}
	grid := Grid()
	got, err := replay.Suggest(grid, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(grid) != 200 || got.Tried != 200 || len(got.All) != 200 || got.Attempts != int64(len(tries)) {
		t.Fatalf("%d policies, %d tried, %d attempts", len(grid), got.Tried, got.Attempts)
	}
	for i, p := range grid {
		m := model(p, tries)
		want := Suggestion{
			FreeFailures: p.FreeFailures, Window: p.Window.Seconds(), First: p.FirstLockout.Seconds(), Max: p.MaxLockout.Seconds(),
			AdmittedFailed: m.AdmittedFailed, RefusedFailed: m.RefusedFailed, AdmittedSucceeded: m.AdmittedSucceeded, RefusedSucceeded: m.RefusedSucceeded,
			HonestRefused: m.HonestRefused, KeysRefused: m.KeysRefused,
		}
		if got.All[i] != want {
			t.Errorf("%+v:\ngot  %+v\nwant %+v", p, got.All[i], want)
		}
	}
	// Brute force: who is beaten by nobody, the mildest of equals.
	var want []Suggestion
	for i, s := range got.All {
		beaten := false
		for j, o := range got.All {
			no := o.AdmittedFailed > s.AdmittedFailed || o.HonestRefused > s.HonestRefused
			equal := o.AdmittedFailed == s.AdmittedFailed && o.HonestRefused == s.HonestRefused
			beaten = beaten || !no && (!equal || j < i)
		}
		if !beaten {
			want = append(want, s)
		}
	}
	slices.SortFunc(want, func(a, b Suggestion) int { return cmp.Compare(a.AdmittedFailed, b.AdmittedFailed) })
	if !slices.Equal(got.Frontier, want) || len(want) < 4 {
		t.Errorf("frontier\ngot  %+v\nwant %+v", got.Frontier, want)
	}
}

func TestParseLockout(t *testing.T) {
	for _, s := range Grid() {
		want := Suggestion{FreeFailures: s.FreeFailures, Window: s.Window.Seconds(), First: s.FirstLockout.Seconds(), Max: s.MaxLockout.Seconds()}
		flag, _ := want.Policy()
		c, err := ParseLockout(flag)
		if err != nil || *c.Rules[0].Lockout != s {
			t.Errorf("%s: %+v, %v, want %+v", flag, c, err, s)
		}
	}
	for _, s := range []string{"", "5", "5/1m/1m", "5/1m/1m/1h/1h", "x/1m/1m/1h", "0/1m/1m/1h", "5/0s/1m/1h", "5/1m/2h/1h", "5/1m/1m/soon"} {
		if _, err := ParseLockout(s); err == nil {
			t.Errorf("no error for %q", s)
		}
	}
}

func TestUnreadable(t *testing.T) {
	lines := text(try{1, "192.0.2.1", 200}) + "not a line of a log\n" + strings.Repeat("x", 2<<20) + "\n" + text(try{2, "192.0.2.1", 200})
	for range 9 {
		lines += "\x1b[31mred\x1b[0m \"quoted\" \\\n"
	}
	got := replayed(t, Options{Format: "combined"}, at(network(usual)), lines)
	if got.Lines != 13 || got.Attempts != 2 || got.Unreadable != 11 || got.Kinds["too long"] != 1 {
		t.Errorf("%d lines, %d attempts, %d unreadable, %v", got.Lines, got.Attempts, got.Unreadable, got.Kinds)
	}
	var b strings.Builder
	if err := got.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\r\t") || !strings.Contains(b.String(), `log0:5: \x1b[31mred\x1b[0m "quoted" \`+"\n") {
		t.Errorf("what was unreadable is shown as\n%s", &b)
	}
	for line := range strings.Lines(b.String()) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 220 {
			t.Errorf("a line of %d bytes: %s", n, line)
		}
	}
}

func TestErrors(t *testing.T) {
	p := at(network(usual))
	p.Doors = nil
	r, err := New(Options{}, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(logs(text(try{1, "192.0.2.1", 200}))...); !errors.Is(err, ErrDoors) || !strings.HasPrefix(err.Error(), "log0: ") {
		t.Errorf("requests without doors: %v", err)
	}
	p = at(network(usual))
	p.Messages = -1
	if r, err = New(Options{}, p); err != nil {
		t.Fatal(err)
	}
	message := "2026-03-02T00:00:10+00:00 host sshd[1]: Failed password for root from 192.0.2.1 port 22 ssh2\n"
	if err := r.Run(logs(message)...); !errors.Is(err, ErrGuard) {
		t.Errorf("messages without a guard: %v", err)
	}
	if r, err = New(Options{}, at(network(usual))); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(logs("neither this\nnor that\n", text(try{1, "192.0.2.1", 200}), "")...); err == nil || r.Report().Attempts != 1 {
		t.Errorf("a log of no format: %v, and %d attempts of the others", err, r.Report().Attempts)
	}
	if _, err := New(Options{}, at()); err == nil || !strings.HasPrefix(err.Error(), "test: ") {
		t.Errorf("no rules: %v", err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no policies: no error")
	}
	if r, err = New(Options{}, at(network(usual))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Suggest(Grid(), nil); err != ErrKept {
		t.Errorf("nothing kept: %v", err)
	}
}

// A stream is read twice as a file is, as far as it can be kept.
func TestTwice(t *testing.T) {
	// The year is that of the last line's: the first is a year earlier.
	lines := "Dec 31 23:59:59 host sshd[1]: Failed password for root from 192.0.2.1 port 22 ssh2\n" +
		"Mar  1 00:00:01 host sshd[2]: Failed password for root from 192.0.2.1 port 22 ssh2\n"
	for how, r := range map[string]io.Reader{"file": strings.NewReader(lines), "stream": io.MultiReader(strings.NewReader(lines))} {
		p := at(network(usual))
		replay, err := New(Options{}, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := replay.Run(Log{"log", r, begin}); err != nil {
			t.Fatal(err)
		}
		got := replay.Report()
		if got.Attempts != 2 || got.Lines != 2 || got.First.Year() != 2025 || got.Last.Year() != 2026 {
			t.Errorf("%s: %d attempts in %d lines, %v to %v", how, got.Attempts, got.Lines, got.First, got.Last)
		}
	}
}

// What a host logs in one file says what its lines in another mean; what another host logs
// does not.
func TestSeveralFiles(t *testing.T) {
	left := "Mar  1 00:00:01 host sshd[1]: Invalid user bob from 192.0.2.1 port 22\n"
	failed := "Mar  2 00:00:01 host sshd[2]: Failed password for root from 192.0.2.2 port 22 ssh2\n"
	mail := "Mar  2 00:00:01 host dovecot: imap-login: Disconnected (auth failed, 1 attempts in 6 secs): user=<bob>, method=PLAIN, rip=192.0.2.3, lip=198.51.100.1\n"
	for _, test := range []struct {
		logs []string
		want int64
	}{{[]string{left, mail}, 2}, {[]string{left}, 1}, {[]string{left, failed}, 1}, {[]string{failed, left}, 1}, {[]string{left, strings.ReplaceAll(failed, "host", "other")}, 2}} {
		if got := replayed(t, Options{}, at(network(usual)), test.logs...); got.Attempts != test.want {
			t.Errorf("%q: %d attempts, want %d", test.logs, got.Attempts, test.want)
		}
	}
}

// What can be read again is what was read, and a stream that is longer than what is kept
// is not surveyed, but read.
func TestStream(t *testing.T) {
	var want strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&want, "Mar  1 00:00:01 host sshd(pam_unix)[%d]: authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.%d \n", i, i%250)
	}
	for _, most := range []int{1, 100_000, 10 << 20} {
		s := &source{from: newTwice(io.MultiReader(strings.NewReader(want.String())))}
		s.from.most = most
		var err error
		if s.lines, err = lines.New(s.from); err != nil {
			t.Fatal(err)
		}
		if s.reader, err = reader.New("sshd", reader.Options{ModTime: begin}); err != nil {
			t.Fatal(err)
		}
		whole, err := s.survey()
		if err != nil || whole != (most > want.Len()) {
			t.Errorf("at most %d bytes: whole %t, %v", most, whole, err)
		}
		s.from.forget()
		var got strings.Builder
		for {
			line, _, _, err := s.lines.Next()
			if err != nil {
				break
			}
			got.Write(append(line, '\n'))
		}
		if got.String() != want.String() {
			t.Errorf("at most %d bytes: %d bytes come again of %d", most, got.Len(), want.Len())
		}
	}
}
