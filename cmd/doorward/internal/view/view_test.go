package view

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/trace"
)

var now = time.Date(2026, 3, 1, 3, 0, 2, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// calm is a daemon with two doors that nobody knocks at.
func calm() api.Status {
	return api.Status{
		Version: "doorward v1.2.3", Now: now, Started: now.Add(-76 * time.Hour), Config: "/etc/doorward.yaml", Listen: []string{"127.0.0.1:8080"},
		Upstream: []api.Copy{{URL: "http://127.0.0.1:3000", Healthy: true}},
		Doors: []api.Door{
			{Name: "login", Guard: "login", Outcomes: map[string]uint64{"succeeded": 900, "failed": 100}, Refused: map[string]uint64{}, InFlight: 2},
			{Name: "reset", Guard: "mail", Outcomes: map[string]uint64{}, Refused: map[string]uint64{}},
		},
		Guards: []api.Guard{
			{Name: "login", Doors: []string{"login"}, Rules: []api.Rule{
				{Name: "burst", Per: "network", Action: "refuse", Policy: "lockout 5 in 1m, then 1m to 1h", Tracked: 1234, Capacity: 65536, Pending: 2},
				{Name: "day", Per: "network4/24", Action: "shadow", Policy: "lockout 20 in 1d, then 30s to 15m", Tracked: 12, Capacity: 65536},
			}},
			{Name: "mail", Doors: []string{"reset"}, Rules: []api.Rule{{Name: "all", Per: "everyone", Action: "refuse", Policy: "window 100 in 1h", Capacity: 1}}},
		},
	}
}

// after returns a look of a second, in which change happened.
func after(change func(*api.Status)) Look {
	l := Look{Was: calm(), Is: calm()}
	l.Was.Now = now.Add(-time.Second)
	if change != nil {
		change(&l.Is)
	}
	return l
}

func refuse(n uint64) func(*api.Status) {
	return func(s *api.Status) { s.Doors[0].Refused = map[string]uint64{"locked": n - n/10, "busy": n / 10} }
}

func and(all ...func(*api.Status)) func(*api.Status) {
	return func(s *api.Status) {
		for _, f := range all {
			f(s)
		}
	}
}

func fail(n uint64) func(*api.Status) {
	return func(s *api.Status) { s.Doors[0].Outcomes["failed"] += n }
}

func succeed(n uint64) func(*api.Status) {
	return func(s *api.Status) { s.Doors[0].Outcomes["succeeded"] += n }
}

func heavy(list ...api.Heavy) func(*api.Status) {
	return func(s *api.Status) { s.Heaviest = list }
}

func TestJudge(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*api.Status)
		level  Level
		want   string
	}{
		{"nothing", nil, Quiet, "Quiet: nothing is refused."},
		{"honest", succeed(5000), Quiet, "Quiet: nothing is refused."},
		{"typos", and(succeed(100), fail(24)), Quiet, "Quiet: nothing is refused."},
		{"one", refuse(1), Refusing, "Some refusals: 1 a second at door login."},
		{"nine", refuse(9), Refusing, "Some refusals: 9 a second at door login."},
		{"ten", refuse(10), Attack, "Under attack: 10 refusals a second at door login."},
		{"as many as pass", and(refuse(50), succeed(50)), Attack, "Under attack: 50 refusals a second at door login."},
		{"fewer than pass", and(refuse(50), succeed(51)), Refusing, "Some refusals: 50 a second at door login."},
		{"one network", and(refuse(1234), heavy(api.Heavy{Client: "192.0.2.0/24", Refused: 617}, api.Heavy{Client: "192.0.2.9", Refused: 300})), Attack,
			"Under attack: 1,234 refusals a second at door login, most from 192.0.2.0/24."},
		{"many networks", and(refuse(1234), heavy(api.Heavy{Client: "192.0.2.0/24", Refused: 616})), Attack,
			"Under attack: 1,234 refusals a second at door login, from many networks."},
		{"guesses below", fail(10), Attack, "Under attack: 10 wrong guesses a second get through at door login, from networks below their limits."},
		{"few guesses", fail(9), Quiet, "Quiet: nothing is refused."},
		{"mostly guesses", and(fail(40), succeed(10)), Attack, "Under attack: 40 wrong guesses a second get through at door login, from networks below their limits."},
		{"not mostly", and(fail(40), succeed(11)), Quiet, "Quiet: nothing is refused."},
		{"full", func(s *api.Status) { s.Guards[0].Rules[1].OverflowCharged = 1 }, Attack,
			"Under attack: the table of rule login/day is full, and newcomers share one budget."},
		{"full as well", and(refuse(1), func(s *api.Status) { s.Guards[0].Rules[1].OverflowRefused = 1 }), Attack,
			"Some refusals: 1 a second at door login. The table of rule login/day is full, and newcomers share one budget."},
		{"no doors", func(s *api.Status) { s.Doors = nil }, Quiet, "No doors are guarded."},
		{"escapes", func(s *api.Status) { s.Doors[0].Name = "\x1b[2J"; refuse(1)(s) }, Refusing, `Some refusals: 1 a second at door \x1b[2J.`},
	} {
		level, text := after(row.change).Judge()
		if level != row.level || text != row.want {
			t.Errorf("%s: %d %q, want %d %q", row.name, level, text, row.level, row.want)
		}
	}
}

// A store that is away is said with what decides meanwhile.
func TestStatusStore(t *testing.T) {
	alone := func(s *api.Status) {
		s.Guards[0].Alone, s.Guards[1].Alone = &api.Alone{Mode: "local"}, &api.Alone{Mode: "open"}
	}
	for _, row := range []struct {
		store api.Store
		want  string
	}{
		{api.Store{Addresses: []string{"a:1", "b:1"}, Up: true}, "store     a:1, b:1\n"},
		{api.Store{Addresses: []string{"a:1"}, Error: "refused\x1b", Since: ptr(now.Add(-time.Minute))},
			"store     a:1, away for 1m: refused\\x1b; until then local: login; open: mail\n"},
		{api.Store{Addresses: []string{"a:1"}, Error: "refused"}, "store     a:1, away: refused; until then local: login; open: mail\n"},
	} {
		l := after(and(alone, func(s *api.Status) { s.Store = &row.store }))
		if text := (Screen{}).Status(l, time.UTC); !strings.Contains(text, "\n"+row.want) {
			t.Errorf("no %q in\n%s", row.want, text)
		}
	}
	if text := (Screen{}).Status(after(nil), time.UTC); strings.Contains(text, "store") {
		t.Errorf("a store that is none:\n%s", text)
	}
}

// What counts from another start, or runs backwards, was nothing before.
func TestRates(t *testing.T) {
	l := after(refuse(30))
	l.Was.Doors[0].Refused = map[string]uint64{"locked": 20}
	if f := l.flows()[0]; f.refused != 10 || f.allRefused != 30 {
		t.Errorf("%+v", f)
	}
	l.Was.Now = now.Add(-4 * time.Second)
	if f := l.flows()[0]; f.refused != 2.5 {
		t.Errorf("%+v", f)
	}
	l.Was.Started = now.Add(-100 * time.Hour)
	if f := l.flows()[0]; f.refused != 7.5 {
		t.Errorf("restarted: %+v", f)
	}
	l = after(refuse(30))
	l.Was.Doors[0].Refused = map[string]uint64{"locked": 31}
	if f := l.flows()[0]; f.refused != 30 {
		t.Errorf("backwards: %+v", f)
	}
	l.Was.Now = l.Is.Now
	if f := l.flows()[0]; f.refused != 30000 {
		t.Errorf("at once: %+v", f)
	}
	if got := after(and(refuse(199), succeed(1))).Basis(); got != "In the last 1 s: 200 attempts a second, 199 refused (> 99 %), 0 wrong, 0 lockouts." {
		t.Error(got)
	}
	if got := after(nil).Basis(); got != "In the last 1 s: 0 attempts a second, 0 refused, 0 wrong, 0 lockouts." {
		t.Error(got)
	}
}

func TestStatus(t *testing.T) {
	l := after(and(refuse(1234), heavy(api.Heavy{Client: "192.0.2.0/24", Refused: 1100, Error: 12}, api.Heavy{Client: "2001:db8::/64", Refused: 3}), func(s *api.Status) {
		s.Reloads = api.Reloads{Done: 2, Failed: 1, Last: ptr(now.Add(-26 * time.Hour)), Error: "doorward.yaml:2:1: not YAML"}
		s.State = &api.State{File: "/var/lib/doorward.state", Saved: ptr(now.Add(-7 * time.Second))}
		s.Upstream = append(s.Upstream, api.Copy{URL: "http://127.0.0.1:3001"})
		s.Warnings = []string{"every caller has the address 10.0.0.1\x1b[2J"}
		s.Networks = []api.Network{{ID: "n1", Network: "198.51.100.0/24", Action: "exempt", Until: now.Add(time.Hour), By: api.By{Actor: "ann", Reason: "test"}}}
		s.Doors[0].Lockouts = 6
		s.Guards[0].Rules[0].Refused, s.Guards[0].Rules[0].Lockouts = 1234, 6
	}))
	const want = `Under attack: 1,234 refusals a second at door login, most from 192.0.2.0/24.
In the last 1 s: 1,234 attempts a second, 1,234 refused (100 %), 0 wrong, 6 lockouts.

daemon    doorward v1.2.3, up 3d4h, configuration /etc/doorward.yaml
listens   127.0.0.1:8080
upstream  http://127.0.0.1:3000, http://127.0.0.1:3001 (unhealthy)
reloads   last at 2026-02-28 01:00:02, 2 done, 1 failed; the last one failed and the old
          configuration stays: doorward.yaml:2:1: not YAML
state     /var/lib/doorward.state, written 7s ago
warning   every caller has the address 10.0.0.1\x1b[2J

Doors
  door   attempts/s  refused/s  share  attempts  refused  lockouts  in flight
  login       1,234      1,234  100 %     2,234    1,234         6          2
  reset           0          0      -         0        0         0          0

Rules
  rule         refused  lockouts  tracked      of  pending  overflow  policy
  login/burst    1,234         6    1,234  65,536        2         0  network: lockout 5 in 1m, then 1m to 1h
  login/day          0         0       12  65,536        0         0  network4/24: lockout 20 in 1d, then 30s to 15m (shadow)
  mail/all           0         0        0       1        0         0  everyone: window 100 in 1h

Networks refused most of late
  network            refused
  192.0.2.0/24   1,088-1,100
  2001:db8::/64            3

Exempt or blocked for a time
  id          network    what  door  for     until  actor  reason
  n1  198.51.100.0/24  exempt   all   1h  04:00:02  ann    test
`
	if got := (Screen{}).Status(l, time.UTC); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	painted := Screen{Colour: true, Width: 60}.Status(l, time.UTC)
	if !strings.HasPrefix(painted, "\x1b[31;1mUnder attack: 1,234 refusals a second at door login, most\x1b[0m\n\x1b[31;1mfrom 192.0.2.0/24.\x1b[0m\n") {
		t.Errorf("got\n%q", painted)
	}
	if plain := strip(painted); !strings.Contains(plain, "\n  login/burst    1,234         6    1,234  65,536        2 …\n") {
		t.Errorf("got\n%s", plain)
	}
}

// strip removes colours.
func strip(s string) string {
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		if !found {
			return s
		}
		_, after, _ := strings.Cut(rest, "m")
		s = before + after
	}
}

// A screen fits into every terminal, whatever there is to show, and a bigger one shows more.
func TestTopFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		l := after(and(refuse(r.Uint64N(100)), func(s *api.Status) {
			for i := range r.IntN(40) {
				s.Doors = append(s.Doors, api.Door{Name: fmt.Sprintf("door%d%s", i, strings.Repeat("x", r.IntN(60))), Guard: "mail"})
			}
			for i := range r.IntN(40) {
				s.Guards[1].Rules = append(s.Guards[1].Rules, api.Rule{Name: fmt.Sprint("r", i)})
			}
			for i := range r.IntN(40) {
				s.Heaviest = append(s.Heaviest, api.Heavy{Client: fmt.Sprint("192.0.2.", i), Refused: 9})
			}
		}))
		s := Screen{Width: 1 + r.IntN(120), Height: 1 + r.IntN(60), Colour: r.IntN(2) == 0}
		lines := strings.Split(s.Top(l, time.UTC), "\n")
		if len(lines) > s.Height {
			t.Fatalf("%d lines of %d", len(lines), s.Height)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(strip(line)); n > s.Width {
				t.Fatalf("%d columns of %d: %q", n, s.Width, line)
			}
		}
	}
}

func TestTop(t *testing.T) {
	l := after(and(refuse(20), heavy(api.Heavy{Client: "192.0.2.7", Refused: 20}), func(s *api.Status) {
		for i := range 30 {
			s.Doors = append(s.Doors, api.Door{Name: fmt.Sprint("door", i), Guard: "mail"})
		}
	}))
	const want = `03:00:02  doorward v1.2.3, up 3d4h
Under attack: 20 refusals a second at door login, most from 192.0.2.7.
In the last 1 s: 20 attempts a second, 20 refused (100 %), 0 wrong, 0 lockouts.

Doors
  door    attempts/s  refused/s  share  wrong/s  lockouts/s  in flight
  login           20         20  100 %        0           0          2
  reset            0          0      -        0           0          0
  door0            0          0      -        0           0          0
  door1            0          0      -        0           0          0
  door2            0          0      -        0           0          0
  ... 27 more

Rules
  rule         refused  lockouts  tracked      of  pending  overflow
  login/burst        0         0    1,234  65,536        2         0
  login/day          0         0       12  65,536        0         0
  mail/all           0         0        0       1        0         0

Networks refused most of late
  network    refused
  192.0.2.7       20`
	got := Screen{Width: 80, Height: 22}.Top(l, time.UTC)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// The least that is shown of each: its heads, a row, and how many more. What refuses comes first.
	l = after(and(fail(1), func(s *api.Status) {
		s.Doors[1].Refused = map[string]uint64{"spent": 2}
		s.Guards[1].Rules[0].Refused = 2
		s.Guards[1].Rules = append(s.Guards[1].Rules, s.Guards[0].Rules...)
		s.Doors = append(s.Doors, s.Doors...)
	}, heavy(make([]api.Heavy, 9)...)))
	const least = `03:00:02  doorward v1.2.3, up 3d4h
Some refusals: 2 a second at door reset.
In the last 1 s: 6 attempts a second, 4 refused (67 %), 2 wrong, 0 lockouts.

Doors
  door   attempts/s  refused/s  share  wrong/s  lockouts/s  in flight
  reset           2          2  100 %        0           0          0
  ... 3 more

Rules
  rule         refused  lockouts  tracked      of  pending  overflow
  mail/all           2         0        0       1        0         0
  ... 4 more

Networks refused most of late
  network  refused
                 0
  ... 8 more`
	lines := strings.Split(least, "\n")
	for height := 1; height <= len(lines); height++ { // the rest of it is cut off
		if got, want := (Screen{Width: 80, Height: height}).Top(l, time.UTC), strings.Join(lines[:height], "\n"); got != want {
			t.Errorf("%d: got\n%s\nwant\n%s", height, got, want)
		}
	}
	l = after(and(refuse(20), heavy(api.Heavy{Client: "192.0.2.7", Refused: 20})))
	if got := Round(l, time.UTC); got != "03:00:02  Under attack: 20 refusals a second at door login, most from 192.0.2.7. In the last 1 s: 20 attempts a second, 20 refused (100 %), 0 wrong, 0 lockouts." {
		t.Error(got)
	}
}

func finding1(rule, key string, n int, locked time.Duration) api.Finding {
	f := api.Finding{Key: api.Key{Guard: "login", Rule: rule, Key: key, Count: n}, Per: "network", Action: "refuse", Policy: "lockout 5 in 1m, then 1m to 1h", Tracked: n > 0, Allowed: true, Left: 5 - n}
	if locked > 0 {
		f.LockedUntil, f.Allowed, f.Reason, f.Wait, f.Left = ptr(now.Add(locked)), false, "locked", locked.Seconds(), 0
	}
	return f
}

func TestWhy(t *testing.T) {
	locked := finding1("burst", "192.0.2.7", 5, 59*time.Second)
	event := func(text string) any { return trace.Record(must(trace.Parse([]byte(text)))) }
	for _, row := range []struct {
		name, want string
		why        api.Why
		refused    bool
	}{
		{"locked", `192.0.2.7 is refused at door login for another 59s, until 03:01:01: rule burst counted 5 failures
for 192.0.2.7.
192.0.2.7 is not locked out at realm mail (reset, signup): an attempt would be admitted now, and 4
more before rule burst refuses.
Where the address was taken from, the last first: it is the peer of the connection; a trusted proxy
wrote it into the header.

What the rules counted
  rule               key  counted  pending  left  locked for  now     policy
  login/burst  192.0.2.7        5        0     0         59s  locked  network: lockout 5 in 1m, then 1m to 1h
  mail/burst   192.0.2.7        1        0     4           -  admits  network: lockout 5 in 1m, then 1m to 1h

Last events
  03:00:00  settled  login  192.0.2.7  failed  POST /login
  03:00:01  locked   login  192.0.2.7 by burst for 1m until 03:01:01
  03:00:02  refused  login  192.0.2.7 subject 000102030405060708090a0b0c0d0e0f  locked by burst for 59s  POST /login
`, api.Why{Who: api.Who{Address: "192.0.2.7"}, Guards: []api.Found{
			{Guard: "login", Doors: []string{"login"}, Rule: "burst", Reason: "locked", Wait: 59, Rules: []api.Finding{locked}},
			{Guard: "mail", Doors: []string{"reset", "signup"}, Allowed: true, Rules: []api.Finding{finding1("burst", "192.0.2.7", 1, 0)}},
		}, Recent: []any{
			event(`{"time":"2026-03-01T03:00:00.000000Z","event":"settled","door":"login","client":"192.0.2.7","how":"header","outcome":"failed","method":"POST","path":"/login"}`),
			event(`{"time":"2026-03-01T03:00:01.000000Z","event":"locked","door":"login","client":"192.0.2.7","how":"header","rule":"burst","lockout":60,"until":"2026-03-01T03:01:01.000000Z"}`),
			event(`{"time":"2026-03-01T03:00:02.000000Z","event":"refused","door":"login","client":"192.0.2.7","how":"peer","subject":"000102030405060708090a0b0c0d0e0f","rule":"burst","reason":"locked","retry_after":58.5,"method":"POST","path":"/login"}`),
		}}, true},
		{"nobody", `alice is not locked out at door login: an attempt would be admitted now.
No attempt of it is remembered, so where the address was taken from is not known.
In events the subject is 000102030405060708090a0b0c0d0e0f.
`, api.Why{Who: api.Who{Subject: "alice"}, Hash: "000102030405060708090a0b0c0d0e0f", Guards: []api.Found{{Guard: "login", Doors: []string{"login"}, Allowed: true}}}, false},
		{"exempt and blocked", `192.0.2.7 as \x1b]0;evil\a is exempt at door login: nothing is counted or refused.
192.0.2.7 as \x1b]0;evil\a is blocked at door mail.
No attempt of it is remembered, so where the address was taken from is not known.
`, api.Why{Who: api.Who{Address: "192.0.2.7", Subject: "\x1b]0;evil\a"}, Guards: []api.Found{
			{Guard: "login", Doors: []string{"login"}, Allowed: true, Exempt: true}, {Guard: "mail", Doors: []string{"mail"}, Blocked: true, Reason: "blocked"},
		}}, true},
		{"key", "No rule counts name:0123456789.\nNo attempt of it is remembered, so where the address was taken from is not known.\n", api.Why{Who: api.Who{Key: "name:0123456789"}}, false},
	} {
		if got := (Screen{}).Why(row.why, now, time.UTC); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.name, got, row.want)
		}
		if got := Refused(row.why, now); got != row.refused {
			t.Errorf("%s: refused %v", row.name, got)
		}
	}
}

// Who asks about one half of a pair is told of the other, as long as it is refused.
func TestElsewhere(t *testing.T) {
	line := func(event, client, rule string, left int) any {
		r := trace.Record{Time: now.Add(-time.Second), Event: trace.Event(event), Door: "login", Client: must(trace.Parse([]byte(fmt.Sprintf(`{"time":"2026-03-01T03:00:00.000000Z","event":"locked","client":%q}`, client)))).Client, Subject: trace.Hash{15: 7}, Rule: rule}
		switch r.Event {
		case trace.Locked:
			r.Until = now.Add(time.Duration(left) * time.Second)
		case trace.Refused:
			r.Reason, r.RetryAfter = doorward.Locked, time.Duration(left+1)*time.Second
		}
		return r
	}
	w := api.Why{Who: api.Who{Subject: "alice"}, Guards: []api.Found{{Guard: "login", Doors: []string{"login"}, Allowed: true, Rules: []api.Finding{{Key: api.Key{Rule: "subject"}}}}}}
	for _, row := range []struct {
		name   string
		recent []any
		want   string
	}{
		{"nothing", nil, ""},
		{"over", []any{line("locked", "192.0.2.7", "pair", 0), line("refused", "192.0.2.7", "pair", 0)}, ""},
		{"asked", []any{line("locked", "192.0.2.7", "subject", 9)}, ""},
		{"ended", []any{line("settled", "192.0.2.7", "pair", 9)}, ""},
		{"locked", []any{line("locked", "192.0.2.7", "pair", 59)}, "Still: alice from 192.0.2.7 is refused at door login by rule pair for another 59s, until 03:01:01, unless it was unlocked: ask with --address 192.0.2.7."},
		{"once each", []any{line("locked", "192.0.2.7", "pair", 59), line("refused", "192.0.2.7", "pair", 1), line("refused", "2001:db8::/64", "pair", 1)},
			"Still: alice from 192.0.2.7 is refused at door login by rule pair for another 1s, until 03:00:03, unless it was unlocked: ask with --address 192.0.2.7. " +
				"Still: alice from 2001:db8::/64 is refused at door login by rule pair for another 1s, until 03:00:03, unless it was unlocked: ask with --address 2001:db8::/64."},
	} {
		w.Recent = row.recent
		if got := unwrap((Screen{}).Still(w, now, time.UTC)); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.name, got, row.want)
		}
		if got := Refused(w, now); got != (row.want != "") {
			t.Errorf("%s: refused %v", row.name, got)
		}
	}
	w.Who = api.Who{Address: "192.0.2.7"}
	w.Recent = []any{line("locked", "192.0.2.7", "pair", 59)}
	const want = "Still: 192.0.2.7 at the subject 00000000000000000000000000000007 is refused at door login by rule pair for another 59s, until 03:01:01, unless it was unlocked: ask with --subject and its name."
	if got := unwrap((Screen{}).Still(w, now, time.UTC)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	w.Who.Subject = "alice" // both: the answer has it all
	if got := unwrap((Screen{}).Still(w, now, time.UTC)); got != "" {
		t.Errorf("got\n%s", got)
	}
	w.Guards[0].Allowed, w.Guards[0].Reason, w.Guards[0].Rule = false, "busy", "subject"
	if got := unwrap((Screen{}).Still(w, now, time.UTC)); !strings.HasPrefix(got, "Still: 192.0.2.7 as alice is refused at door login: attempts in flight") {
		t.Errorf("got\n%s", got)
	}
}

func unwrap(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestBecause(t *testing.T) {
	for _, row := range []struct {
		reason   string
		overflow bool
		n        int
		want     string
	}{
		{"locked", false, 1, "rule burst counted 1 failure for 192.0.2.7"},
		{"locked", true, 5, "rule burst counted 5 failures for all newcomers together, its table being full"},
		{"spent", false, 20, "rule burst counted 20 for 192.0.2.7, which is all there are"},
		{"busy", false, 4, "attempts in flight use up what rule burst leaves for 192.0.2.7"},
		{"unavailable", false, 0, "rule burst says unavailable"},
	} {
		f := api.Finding{Key: api.Key{Rule: "burst", Key: "192.0.2.7", Count: row.n, Overflow: row.overflow}}
		if got := because(api.Found{Rule: "burst", Reason: row.reason, Rules: []api.Finding{f}}); got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}

func must(r trace.Record, err error) trace.Record {
	if err != nil {
		panic(err)
	}
	return r
}

// The keys that are locked longest, of any number, in any order.
func TestLongest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, most := range []int{0, 1, 2, 10, 99, 100, 101} {
		l := Longest{Most: most}
		for _, i := range r.Perm(100) {
			l.Add(api.Key{Guard: "login", Rule: "burst", Key: fmt.Sprint("192.0.2.", i), Count: 5, LockedUntil: ptr(now.Add(time.Duration(i+1) * time.Second))})
		}
		lines := strings.Split(strings.TrimSuffix(Screen{}.Locked(l, calm(), time.UTC), "\n"), "\n")
		want, n := "100 keys locked, the "+fmt.Sprint(most)+" that are longest", most
		if most == 0 || most >= 100 {
			want, n = "100 keys locked", 100
		}
		if lines[0] != want || len(lines) != n+2 {
			t.Fatalf("%d: %q and %d lines", most, lines[0], len(lines))
		}
		for i, line := range lines[2:] {
			if f := strings.Fields(line); f[0] != fmt.Sprint("192.0.2.", 99-i) {
				t.Fatalf("%d: line %d is %q", most, i, line)
			}
		}
	}
	if got := (Screen{}).Locked(Longest{}, calm(), time.UTC); got != "Nobody is locked out.\n" {
		t.Error(got)
	}
	l := Longest{Most: 1}
	l.Add(api.Key{Guard: "login", Rule: "burst", Key: "2001:db8::/64", Count: 6, Pending: 1, LockedUntil: ptr(now.Add(125 * time.Second))})
	const want = `1 key locked
  key            counted  pending  locked for     until  rule
  2001:db8::/64        6        1        2m5s  03:02:07  login/burst (network: lockout 5 in 1m, then 1m to 1h)
`
	if got := (Screen{}).Locked(l, calm(), time.UTC); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// No text of anybody moves the cursor.
func TestNoControl(t *testing.T) {
	const evil = "\x1b]0;pwned\a\u009b2J\u202e\x00"
	s := calm()
	s.Version, s.Config, s.Listen, s.Warnings = evil, evil, []string{evil}, []string{evil}
	s.Upstream = []api.Copy{{URL: evil}}
	s.State = &api.State{File: evil, Error: evil}
	s.Reloads = api.Reloads{Last: &now, Error: evil}
	s.Doors[0].Name, s.Doors[0].Guard = evil, evil
	s.Guards[0].Name, s.Guards[0].Rules[0] = evil, api.Rule{Name: evil, Per: evil, Action: evil, Policy: evil, OverflowCharged: 9}
	s.Heaviest = []api.Heavy{{Client: evil, Refused: 9}}
	s.Networks = []api.Network{{ID: evil, Network: evil, Action: evil, Guard: evil, By: api.By{Actor: evil, Reason: evil}}}
	l := Look{Was: calm(), Is: s}
	refuse(10)(&l.Is)
	key := api.Key{Guard: evil, Rule: evil, Key: evil}
	longest := Longest{}
	longest.Add(key)
	r := trace.Record{Event: evil, Of: evil, Door: evil, Realm: evil, Rule: evil, Outcome: evil, Method: evil, Path: evil, Agent: evil,
		Key: evil, Action: evil, Actor: evil, Why: evil, Error: evil, Version: evil, Config: evil, Shadow: []string{evil}, Dropped: 3}
	w := api.Why{Who: api.Who{Address: evil, Subject: evil, Key: evil}, Hash: evil, Recent: []any{r},
		Guards: []api.Found{{Guard: evil, Doors: []string{evil}, Rule: evil, Reason: evil, Rules: []api.Finding{{Key: key, Per: evil, Action: evil, Policy: evil, Reason: evil}}}}}
	for name, text := range map[string]string{
		"status": Screen{}.Status(l, time.UTC), "top": Screen{}.Top(l, time.UTC), "round": Round(l, time.UTC), "lost": Screen{}.Lost(evil),
		"locked": Screen{}.Locked(longest, s, time.UTC), "keys": Screen{}.Keys([]api.Key{key}, s, time.UTC),
		"networks": Screen{}.Networks(s.Networks, now, time.UTC), "why": Screen{}.Why(w, now, time.UTC), "event": Event(r, now, time.UTC),
	} {
		if !strings.Contains(text, `\x1b]0;pwned\a\u009b2J\u202e\x00`) {
			t.Errorf("%s does not show it: %q", name, text)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
