package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/trace"
)

// A walk from page to page has each key once, whatever a page holds.
func TestKeys(t *testing.T) {
	s := newStand(t)
	c := s.served(t)
	want := map[string]bool{}
	for i := range 700 {
		addr := fmt.Sprintf("10.%d.%d.1", i/250, i%250)
		n := 1 + i%2*4 // every other one is locked
		s.fail(1, addr, "", n)
		if n == 5 {
			want[addr] = true
		}
	}
	s.fail(1, "2001:db8::1", "", 5)
	want["2001:db8::/64"] = true
	for _, limit := range []int{0, 1, 7, 100, 1000} {
		seen, pages, cursor := map[string]bool{}, 0, ""
		for {
			q := url.Values{"state": {"locked"}, "guard": {"codes"}, "cursor": {cursor}}
			if limit > 0 {
				q.Set("limit", fmt.Sprint(limit))
			}
			var p api.Page
			c.get(api.KeysPath+"?"+q.Encode(), &p)
			if most := cmpOr(limit, defaultKeys); len(p.Keys) > most {
				t.Fatalf("limit %d: %d keys on a page", most, len(p.Keys))
			}
			for _, k := range p.Keys {
				if seen[k.Key] || !want[k.Key] || k.Guard != "codes" || k.Rule != "network" || k.Count != 5 || k.LockedUntil == nil || k.ForgottenAt == nil {
					t.Fatalf("limit %d: %+v", limit, k)
				}
				seen[k.Key] = true
			}
			if pages++; p.Next == "" {
				break
			}
			cursor = p.Next
		}
		if len(seen) != len(want) {
			t.Errorf("limit %d: %d keys on %d pages, want %d", limit, len(seen), pages, len(want))
		}
	}
	// Of all rules of all guards, and of rules of one name in all of them.
	s.fail(0, "192.0.2.7", "alice", 1)
	for _, row := range []struct {
		query string
		want  string
	}{
		{"?guard=login", "all everyone, wide 192.0.2.0/24, network 192.0.2.7, subject name:, pair pair:"},
		{"?guard=login&state=locked", ""},
		{"?guard=login&state=pending", ""},
		{"?guard=login&rule=wide&state=all", "wide 192.0.2.0/24"},
	} {
		var p api.Page
		c.get(api.KeysPath+row.query, &p)
		var got []string
		for _, k := range p.Keys {
			name, _, found := strings.Cut(k.Key, ":")
			if found {
				name += ":"
			}
			got = append(got, k.Rule+" "+name)
		}
		if strings.Join(got, ", ") != row.want || p.Next != "" {
			t.Errorf("%s: %q and then %q, want %q", row.query, strings.Join(got, ", "), p.Next, row.want)
		}
	}
	for _, row := range []struct {
		query  string
		status int
		want   string
	}{
		{"?state=open", 400, "state must be"},
		{"?limit=0", 400, "limit must be 1 to 1000"},
		{"?limit=1001", 400, "limit must be 1 to 1000"},
		{"?limit=many", 400, "limit must be 1 to 1000"},
		{"?guard=nobody", 404, "no guard is named nobody, there are: login, codes"},
		{"?rule=nothing", 404, "no rule is named nothing, there are: all, network, pair, subject, wide"},
		{"?guard=codes&rule=pair", 404, "no rule is named pair, there are: network"},
		{"?cursor=x", 400, "cursor must be"},
		{"?cursor=" + seat{Guard{Name: "gone"}, guard.Rule{Name: "network"}}.mark(1), 400, "begin anew"},
		{"?colour=red", 400, "colour is no parameter"},
		{"?state=all&state=all", 400, "state must be there once"},
	} {
		if status, body := c.ask("GET", api.KeysPath+row.query, ""); status != row.status || !strings.Contains(body, row.want) {
			t.Errorf("%s: %d %s, want %d and %q", row.query, status, body, row.status, row.want)
		}
	}
}

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

// One question looks at so many places and no more: a page is empty then, and not the last.
func TestKeysAreBounded(t *testing.T) {
	s := newStand(t)
	r := rule("network", guard.Network, 0, 0, 2)
	r.Lockout.Capacity = 200_000
	g, err := guard.New(guard.Config{Rules: []guard.Rule{r}})
	if err != nil {
		t.Fatal(err)
	}
	s.guards = []Guard{{"big", false, []string{"big"}, g}}
	for i := range 100_000 {
		s.fail(0, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "", 1)
	}
	c := s.served(t)
	var p api.Page
	c.get(api.KeysPath+"?state=locked", &p)
	if len(p.Keys) != 0 || p.Next == "" {
		t.Fatalf("%d keys and then %q", len(p.Keys), p.Next)
	}
	c.get(api.KeysPath+"?state=locked&cursor="+p.Next, &p)
	if len(p.Keys) != 0 || p.Next != "" {
		t.Errorf("%d keys and then %q", len(p.Keys), p.Next)
	}
}

// show writes what a guard says in one line.
func show(f api.Found) string {
	var rules []string
	for _, r := range f.Rules {
		word := "ok"
		if !r.Allowed {
			word = r.Reason
		}
		name, _, _ := strings.Cut(r.Key.Key, ":")
		if strings.Contains(r.Key.Key, "::") {
			name = r.Key.Key
		}
		rules = append(rules, fmt.Sprintf("%s %s %d %s", r.Rule, name, r.Count, word))
	}
	verdict := "allowed"
	switch {
	case f.Blocked:
		verdict = "blocked"
	case f.Exempt:
		verdict = "exempt"
	case !f.Allowed:
		verdict = f.Rule + " " + f.Reason
	}
	return verdict + ": " + strings.Join(rules, ", ")
}

func TestWhy(t *testing.T) {
	s := newStand(t)
	c := s.served(t)
	s.fail(0, "192.0.2.7", "Alice", 3)
	s.fail(0, "192.0.2.8", "bob", 1)
	s.fail(1, "2001:db8::1", "", 5)
	alice := s.Hash(Subject("alice")).String()
	var pair string
	for _, f := range mustFind(t, s.guards[0], guard.Request{Addr: s.addr("192.0.2.7"), Subject: Subject("alice")}) {
		if f.Per == guard.Pair {
			pair = f.Entry.Key.String()
		}
	}
	for _, row := range []struct {
		query string
		login string // "-" if there is no word of that guard
		codes string
	}{
		{"address=192.0.2.7", "allowed: all everyone 4 ok, wide 192.0.2.0/24 4 ok, network 192.0.2.7 3 ok", "allowed: network 192.0.2.7 0 ok"},
		{"address=::ffff:192.0.2.7", "allowed: all everyone 4 ok, wide 192.0.2.0/24 4 ok, network 192.0.2.7 3 ok", "allowed: network 192.0.2.7 0 ok"},
		{"subject=ALICE%20", "allowed: all everyone 4 ok, subject name 3 ok", "allowed: "},
		{"address=192.0.2.7&subject=alice", "pair locked: all everyone 4 ok, wide 192.0.2.0/24 4 ok, network 192.0.2.7 3 ok, subject name 3 ok, pair pair 3 locked", "allowed: network 192.0.2.7 0 ok"},
		{"address=192.0.2.0/24", "allowed: all everyone 4 ok, wide 192.0.2.0/24 4 ok", "allowed: "},
		{"address=192.0.2.0/23", "allowed: all everyone 4 ok", "allowed: "},
		{"address=2001:db8::ffff", "allowed: all everyone 4 ok, network 2001:db8::/64 0 ok", "network locked: network 2001:db8::/64 5 locked"},
		{"address=203.0.113.9", "blocked: all everyone 4 ok, wide 203.0.113.0/24 0 ok, network 203.0.113.9 0 ok", "blocked: network 203.0.113.9 0 ok"},
		{"address=198.51.100.1", "exempt: all everyone 4 ok, wide 198.51.100.0/24 0 ok, network 198.51.100.1 0 ok", "exempt: network 198.51.100.1 0 ok"},
		{"key=2001:db8::/64", "allowed: network 2001:db8::/64 0 ok", "network locked: network 2001:db8::/64 5 locked"},
		{"key=192.0.2.0/24", "allowed: wide 192.0.2.0/24 4 ok", "allowed: "},
		{"key=" + alice, "allowed: subject name 3 ok", "-"},
		{"key=" + Subject("alice").String(), "allowed: subject name 3 ok", "-"},
		{"key=" + pair, "pair locked: pair pair 3 locked", "-"},
		{"key=everyone", "allowed: all everyone 4 ok", "-"},
		{"key=name:0000000000", "-", "-"},
	} {
		var w api.Why
		c.get(api.WhyPath+"?"+row.query, &w)
		got := map[string]string{"login": "-", "codes": "-"}
		for _, f := range w.Guards {
			got[f.Guard] = show(f)
		}
		if got["login"] != row.login || got["codes"] != row.codes {
			t.Errorf("%s:\n login %s\n codes %s\nwant\n login %s\n codes %s", row.query, got["login"], got["codes"], row.login, row.codes)
		}
		if wants := strings.Contains(row.query, "subject"); (w.Hash == alice) != wants || w.Hash != "" && !wants {
			t.Errorf("%s: hash %s", row.query, w.Hash)
		}
		if w.Who.Subject != "" {
			t.Errorf("%s: the name came out again", row.query)
		}
	}
	var w api.Why
	c.get(api.WhyPath+"?address=2001:db8::1", &w)
	if f := w.Guards[1]; f.Wait <= 58 || f.Wait > 60 || f.Rules[0].Wait != f.Wait || f.Rules[0].Policy != "lockout 5 in 1h, then 1m to 1h" || f.Rules[0].Per != "network" || f.Rules[0].Action != "refuse" {
		t.Errorf("%+v", f)
	}
	if len(w.Recent) != 1 || !strings.Contains(fmt.Sprint(w.Recent[0]), "2001:db8::/64") {
		t.Errorf("%v", w.Recent)
	}
	for _, row := range []struct{ query, want string }{
		{"", "must say who is meant"},
		{"?address=nobody", "address must be"},
		{"?address=192.0.2.7&key=everyone", "key must not be given with"},
		{"?key=alice", "key must be as"},
		{"?subject=%20%20", "nothing is left"},
		{"?subject=" + strings.Repeat("x", maxSubject+1), "at most 4096 bytes"},
	} {
		if status, body := c.ask("GET", api.WhyPath+row.query, ""); status != 400 || !strings.Contains(body, row.want) || strings.Contains(body, "xxx") {
			t.Errorf("%s: %d %s, want %q", row.query, status, body, row.want)
		}
	}
}

func mustFind(t *testing.T, g Guard, r guard.Request) []guard.Finding {
	t.Helper()
	all, err := g.Lookup(r, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const by = `"actor":"ann","reason":"a call"`

// To unlock somebody forgets what keeps him out, and not what others have in common.
func TestUnlock(t *testing.T) {
	alice := Subject("alice").String()
	for _, row := range []struct {
		name string
		fail func(s *stand)
		who  string
		want string // that was there
		left string // in guard login
	}{
		{"an address", nil, `"address":"192.0.2.7"`, "login/network", "all, wide, subject, pair"},
		{"an address that a wide network keeps out", func(s *stand) {
			for i := range 20 {
				s.fail(0, fmt.Sprintf("192.0.2.%d", 100+i), "", 1)
			}
		}, `"address":"192.0.2.7"`, "login/wide, login/network", "all, subject, pair"},
		{"everyone is shut out", func(s *stand) {
			for i := range 500 {
				s.fail(0, fmt.Sprintf("10.0.%d.%d", i>>8, i&255), "", 1)
			}
		}, `"address":"192.0.2.7"`, "login/network", "all, wide, subject, pair"},
		{"a rule that is named", nil, `"address":"192.0.2.7","rule":"all"`, "login/all", "wide, network, subject, pair"},
		{"a wide network by name", nil, `"address":"192.0.2.0/24"`, "login/wide", "all, network, subject, pair"},
		{"a subject", nil, `"subject":"ALICE"`, "login/subject", "all, wide, network, pair"},
		{"both", nil, `"address":"192.0.2.7","subject":"alice"`, "login/network, login/subject, login/pair", "all, wide"},
		{"a key", nil, `"key":"` + alice + `"`, "login/subject", "all, wide, network, pair"},
		{"a key that is a network", nil, `"key":"192.0.2.0/24"`, "login/wide", "all, network, subject, pair"},
		{"another guard", nil, `"address":"192.0.2.7","guard":"codes"`, "", "all, wide, network, subject, pair"},
		{"a network that begins with no address", func(s *stand) { s.fail(0, "0.0.0.0", "", 3) }, `"address":"0.0.0.0/1"`, "", "all, wide, network, subject, pair"},
		{"a stranger", nil, `"address":"192.0.9.9"`, "", "all, wide, network, subject, pair"},
	} {
		s := newStand(t)
		c := s.served(t)
		s.fail(0, "192.0.2.7", "alice", 3)
		if row.fail != nil {
			row.fail(s)
		}
		var done api.Unlocked
		c.post(api.UnlockPath, "{"+row.who+","+by+"}", &done)
		var got, left []string
		for _, k := range done.Keys {
			got = append(got, k.Guard+"/"+k.Rule)
			if k.Count < 3 {
				t.Errorf("%s: %+v was not what was there", row.name, k)
			}
		}
		for _, f := range mustFind(t, s.guards[0], guard.Request{Addr: s.addr("192.0.2.7"), Subject: Subject("alice")}) {
			if f.Tracked {
				left = append(left, f.Rule)
			}
		}
		if g, l := strings.Join(got, ", "), strings.Join(left, ", "); g != row.want || l != row.left {
			t.Errorf("%s: unlocked %q, left %q, want %q and %q", row.name, g, l, row.want, row.left)
		}
		if len(s.recorded) != len(done.Keys) {
			t.Errorf("%s: %d keys and %d records", row.name, len(done.Keys), len(s.recorded))
		}
		for i, r := range s.recorded {
			if r.Event != trace.Unlocked || r.Door != "login" || r.Realm != "" || r.Actor != "ann" || r.Why != "a call" || r.Key != done.Keys[i].Key || r.Rule != done.Keys[i].Rule {
				t.Errorf("%s: record %+v", row.name, r)
			}
		}
	}
}

func TestClear(t *testing.T) {
	s := newStand(t)
	c := s.served(t)
	for _, row := range []struct{ body, left string }{
		{`{"guard":"login","rule":"pair",` + by + `}`, "all, wide, network, subject"},
		{`{"guard":"codes",` + by + `}`, "all, wide, network, subject"},
		{`{"guard":"login",` + by + `}`, ""},
	} {
		if row.left != "" {
			s.fail(0, "192.0.2.7", "alice", 1)
		}
		if status, body := c.ask("POST", api.ClearPath, row.body); status != 204 || body != "" {
			t.Errorf("%s: %d %s", row.body, status, body)
		}
		var left []string
		for _, f := range mustFind(t, s.guards[0], guard.Request{Addr: s.addr("192.0.2.7"), Subject: Subject("alice")}) {
			if f.Tracked && (row.left == "" || f.Rule != "pair" || strings.Contains(row.body, "pair")) {
				left = append(left, f.Rule)
			}
		}
		if got := strings.Join(left, ", "); got != row.left {
			t.Errorf("%s: left %q, want %q", row.body, got, row.left)
		}
	}
	want := []trace.Record{{Event: trace.Cleared, Door: "login", Rule: "pair"}, {Event: trace.Cleared, Realm: "codes"}, {Event: trace.Cleared, Door: "login"}}
	for i := range s.recorded {
		s.recorded[i].Time = time.Time{}
		want[i].Actor, want[i].Why = "ann", "a call"
	}
	if !slices.EqualFunc(s.recorded, want, func(a, b trace.Record) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("%+v", s.recorded)
	}
}

// A store has the counts of all nodes: what it has is not to be had here.
func TestStore(t *testing.T) {
	s := newStand(t)
	g, err := guard.New(guard.Config{Rules: []guard.Rule{rule("network", guard.Network, 0, 0, 5)}, Store: store{}})
	if err != nil {
		t.Fatal(err)
	}
	s.guards = []Guard{{"login", false, []string{"login"}, g}}
	c := s.served(t)
	for _, row := range []struct{ method, target, body string }{
		{"GET", api.KeysPath, ""}, {"GET", api.WhyPath + "?address=192.0.2.7", ""}, {"GET", api.WhyPath + "?key=everyone", ""},
		{"POST", api.UnlockPath, `{"address":"192.0.2.7",` + by + `}`}, {"POST", api.ClearPath, `{"guard":"login",` + by + `}`},
	} {
		if status, body := c.ask(row.method, row.target, row.body); status != 501 || !strings.Contains(body, "in a store") {
			t.Errorf("%s: %d %s", row.target, status, body)
		}
	}
	if s.changes() != 0 {
		t.Error("it says that something changed")
	}
}

// A store that shows what it has answers as memory does; one that fails is not this process's fault,
// and nothing is said to be changed.
func TestOperatedStore(t *testing.T) {
	s := newStand(t)
	o := &operated{}
	g, err := guard.New(guard.Config{Rules: []guard.Rule{rule("network", guard.Network, 0, 0, 5)}, Store: o})
	if err != nil {
		t.Fatal(err)
	}
	s.guards = []Guard{{"login", false, []string{"login"}, g}}
	c := s.served(t)
	requests := []struct{ method, target, body, want string }{
		{"GET", api.WhyPath + "?address=192.0.2.7", "", `"count":3`},
		{"POST", api.UnlockPath, `{"address":"192.0.2.7",` + by + `}`, `"key":"192.0.2.7"`},
		{"POST", api.ClearPath, `{"guard":"login",` + by + `}`, ""},
	}
	for _, row := range requests {
		if status, body := c.ask(row.method, row.target, row.body); status/100 != 2 || !strings.Contains(body, row.want) {
			t.Errorf("%s: %d %s", row.target, status, body)
		}
	}
	if s.changes() != 2 || o.unlocked != 1 || o.cleared != 1 {
		t.Errorf("%d changes, %d unlocked, %d cleared", s.changes(), o.unlocked, o.cleared)
	}
	o.err = errors.New("connection refused")
	for _, row := range requests {
		if status, body := c.ask(row.method, row.target, row.body); status != 503 || !strings.Contains(body, "the store did not answer") || !strings.Contains(body, "refused") {
			t.Errorf("%s: %d %s", row.target, status, body)
		}
	}
	if s.changes() != 2 {
		t.Error("it says that something changed")
	}
}

// A store that lists what it has does so by its own names, which come back to it.
func TestListedStore(t *testing.T) {
	s := newStand(t)
	l := &listed{locked: map[string]bool{}}
	for i := range 300 {
		l.locked[fmt.Sprintf("%04x", i)] = i%3 == 0
	}
	g, err := guard.New(guard.Config{Rules: []guard.Rule{rule("all", guard.Everyone, 0, 0, 5), rule("network", guard.Network, 0, 0, 5)}, Store: l})
	if err != nil {
		t.Fatal(err)
	}
	s.guards = append(s.guards, Guard{"stored", false, []string{"stored"}, g})
	c := s.served(t)
	for _, limit := range []string{"1", "7", "1000"} {
		seen := map[string]bool{}
		for cursor, more := "", true; more; more = cursor != "" {
			var p api.Page
			c.get(api.KeysPath+"?state=locked&limit="+limit+"&guard=stored&cursor="+cursor, &p)
			for _, k := range p.Keys {
				if seen[k.Key+k.Rule] || k.Guard != "stored" || !l.locked[strings.TrimPrefix(k.Key, "store:")] {
					t.Errorf("%+v", k)
				}
				seen[k.Key+k.Rule] = true
			}
			cursor = p.Next
		}
		if len(seen) != 200 {
			t.Errorf("limit %s: %d keys, want 100 in each of two rules", limit, len(seen))
		}
	}
	var w api.Why
	c.get(api.WhyPath+"?key=store:0003", &w)
	if len(w.Guards) != 1 || len(w.Guards[0].Rules) != 2 || w.Guards[0].Rules[0].Key.Key != "store:0003" || w.Guards[0].Allowed {
		t.Errorf("why: %+v", w)
	}
	body := func(key string) string { return `{"key":"` + key + `",` + by + `}` }
	for _, row := range []struct {
		body   string
		status int
		want   string
	}{
		{body("store:0003"), 200, `"key":"store:0003"`},
		{body("store:0003"), 200, `{"keys":[]}`},
		{body("store:ffff"), 200, `{"keys":[]}`},
		{body("store:"), 400, "key must be as"},
		{body("store:xyz"), 400, "key must be as"},
		{`{"guard":"stored","key":"name:0000000000",` + by + `}`, 501, "in a store"},
	} {
		if status, body := c.ask("POST", api.UnlockPath, row.body); status != row.status || !strings.Contains(body, row.want) {
			t.Errorf("%s: %d %s", row.body, status, body)
		}
	}
	if len(l.unlocked) != 2 || l.unlocked[0] != "all 0003" || l.unlocked[1] != "network 0003" || s.changes() != 2 || s.recorded[0].Key != "store:0003" {
		t.Errorf("unlocked %q, records %+v", l.unlocked, s.recorded)
	}
	l.err = errors.New("connection refused")
	for _, target := range []string{api.KeysPath, api.WhyPath + "?key=store:0006"} {
		if status, body := c.ask("GET", target, ""); status != 503 || !strings.Contains(body, "the store did not answer") {
			t.Errorf("%s: %d %s", target, status, body)
		}
	}
}

// A listed store has the same keys in all rules.
type listed struct {
	operated
	locked   map[string]bool
	unlocked []string
}

func (l *listed) AppendEntries(ctx context.Context, dst []doorward.Entry, _ *guard.Rule, c guard.Cursor, places int, now time.Time) ([]doorward.Entry, guard.Cursor, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return dst, 0, errors.New("it may take for ever")
	}
	names := slices.Sorted(maps.Keys(l.locked))
	for ; places > 0 && int(c) < len(names); places, c = places-1, c+1 {
		e := doorward.Entry{Name: names[c], Count: 5}
		if l.locked[e.Name] {
			e.LockedUntil = now.Add(time.Minute)
		}
		dst = append(dst, e)
	}
	if int(c) >= len(names) {
		c = 0
	}
	return dst, c, l.err
}

func (l *listed) LookNamed(_ context.Context, r *guard.Rule, name string, now time.Time) (doorward.Entry, bool, doorward.Decision, error) {
	_, known := l.locked[name]
	known = known && !slices.Contains(l.unlocked, r.Name+" "+name)
	return doorward.Entry{Name: name}, known, doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Minute}, l.err
}

func (l *listed) UnlockNamed(_ context.Context, r *guard.Rule, name string) error {
	l.unlocked = append(l.unlocked, r.Name+" "+name)
	return l.err
}

func (l *listed) Name(*guard.Rule, doorward.Key) string { return "" }

type operated struct {
	store
	err               error
	unlocked, cleared int
}

func (o *operated) Stats(context.Context, *guard.Rule) (doorward.Stats, error) {
	return doorward.Stats{}, o.err
}

func (o *operated) Look(_ context.Context, _ *guard.Rule, k doorward.Key, _ time.Time) (doorward.Entry, bool, doorward.Decision, error) {
	return doorward.Entry{Key: k, Count: 3}, true, doorward.Decision{Allowed: true, Remaining: 2}, o.err
}

func (o *operated) Unlock(ctx context.Context, _ *guard.Rule, _ doorward.Key) error {
	if _, bounded := ctx.Deadline(); o.err == nil && bounded {
		o.unlocked++
	}
	return o.err
}

func (o *operated) Clear(ctx context.Context, _ *guard.Rule) error {
	if _, bounded := ctx.Deadline(); o.err == nil && bounded {
		o.cleared++
	}
	return o.err
}

type store struct{}

func (store) Reserve(context.Context, []guard.Charge) error { return errors.New("down") }
func (store) Settle(context.Context, []guard.Charge) error  { return errors.New("down") }

// Policies in words.
func TestPolicyOf(t *testing.T) {
	for name, c := range guard.Presets() {
		whole, err := c.Complete()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range whole.Rules {
			if words := PolicyOf(r); words == "" || strings.Contains(words, "%!") {
				t.Errorf("%s: %q", name, words)
			}
		}
	}
	if Seconds(-1) != 0 || Seconds(1500*time.Millisecond) != 1.5 || doorward.Locked.String() != "locked" {
		t.Error("seconds")
	}
}
