package admin

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/trace"
)

// What one question for keys may take.
const (
	defaultKeys = 100
	maxKeys     = 1_000
	maxPlaces   = 1 << 16 // that are looked at, a page of guard.MaxPage at a time
	pageTime    = time.Second
)

var states = map[string]doorward.Show{"": doorward.ShowAll, "all": doorward.ShowAll, "locked": doorward.ShowLocked, "pending": doorward.ShowPending}

// keys lists entries: guard after guard, rule after rule.
func (s *Server) keys(r *http.Request) (any, error) {
	q, err := query(r, "guard rule state limit cursor", "")
	if err != nil {
		return nil, err
	}
	show, ok := states[first(q["state"])]
	if !ok {
		return nil, bad("state must be all, locked or pending, got %s", cut(first(q["state"])))
	}
	limit := defaultKeys
	if text := first(q["limit"]); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxKeys {
			return nil, bad("limit must be 1 to %d, got %s", maxKeys, cut(text))
		}
	}
	seats, err := s.seats(first(q["guard"]), first(q["rule"]))
	if err != nil {
		return nil, err
	}
	at, cursor, err := resume(seats, first(q["cursor"]))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTime)
	defer cancel()
	page := api.Page{Keys: []api.Key{}}
	var entries []doorward.Entry
	now := time.Now()
	for places := maxPlaces; at < len(seats); {
		if len(page.Keys) == limit || places <= 0 || time.Since(now) > pageTime {
			page.Next = seats[at].mark(cursor)
			break
		}
		n := min(guard.MaxPage, limit-len(page.Keys))
		if entries, cursor, err = seats[at].guard.AppendEntriesContext(ctx, entries[:0], seats[at].rule.Name, show, cursor, n, now); err != nil {
			return nil, unanswered(err)
		}
		places -= n
		for _, e := range entries {
			page.Keys = append(page.Keys, seats[at].key(e))
		}
		if cursor == 0 {
			at++
		}
	}
	return page, nil
}

// A seat is one rule of one guard.
type seat struct {
	guard Guard
	rule  guard.Rule
}

// seats returns the rules of a name, in the guard of a name; "" is any.
func (s *Server) seats(guardName, ruleName string) (all []seat, err error) {
	var guards, rules []string
	found := false
	for _, g := range s.daemon.Guards() {
		guards = append(guards, g.Name)
		if guardName != "" && guardName != g.Name {
			continue
		}
		found = true
		for _, r := range g.Rules() {
			rules = append(rules, r.Name)
			if ruleName == "" || ruleName == r.Name {
				all = append(all, seat{g, r})
			}
		}
	}
	switch {
	case !found && guardName != "":
		return nil, Errorf(http.StatusNotFound, "no guard is named %s, there are: %s", cut(guardName), strings.Join(guards, ", "))
	case len(all) == 0 && ruleName != "":
		slices.Sort(rules)
		return nil, Errorf(http.StatusNotFound, "no rule is named %s, there are: %s", cut(ruleName), strings.Join(slices.Compact(rules), ", "))
	}
	return all, nil
}

// mark writes a place in a walk: in which rule, and where there.
func (t seat) mark(c guard.Cursor) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %s %x", t.guard.Name, t.rule.Name, uint64(c)))
}

func resume(seats []seat, mark string) (at int, c guard.Cursor, err error) {
	if mark == "" {
		return 0, 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(mark)
	parts := strings.Split(string(text), " ")
	if err != nil || len(parts) != 3 {
		return 0, 0, bad("cursor must be the next of a page, got %s", cut(mark))
	}
	n, err := strconv.ParseUint(parts[2], 16, 64)
	if err != nil {
		return 0, 0, bad("cursor must be the next of a page, got %s", cut(mark))
	}
	at = slices.IndexFunc(seats, func(t seat) bool { return t.guard.Name == parts[0] && t.rule.Name == parts[1] })
	if at < 0 {
		return 0, 0, bad("cursor is in a rule that this does not ask for, or that is no more: begin anew")
	}
	return at, guard.Cursor(n), nil
}

// key is an entry as the API has it.
func (t seat) key(e doorward.Entry) api.Key {
	k := api.Key{Guard: t.guard.Name, Rule: t.rule.Name, Key: e.Key.String(), Overflow: e.Overflow, Count: e.Count, Pending: e.Pending}
	switch {
	case e.Overflow:
		k.Key = "overflow"
	case e.Name != "":
		k.Key = stored + e.Name
	}
	k.LockedUntil, k.ForgottenAt = stamp(e.LockedUntil), stamp(e.ForgottenAt)
	return k
}

// stored begins what is shown of a key that a store has a name for.
const stored = "store:"

// stamp is a time for an answer, nil for none.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Round(0).UTC()
	return &t
}

// Seconds is a duration for an answer.
func Seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// Subject is the key of a subject by its name, as the doors make it.
func Subject(name string) doorward.Key { return doorward.KeyFromName(subject.Canonical(name)) }

// A person is a Who that was understood.
type person struct {
	api.Who
	network netip.Prefix // of the address or key; the zero Prefix is none
	subject doorward.Key
	word    string     // of a key that is no network: as Key.String has it
	name    string     // of a key in a store
	hash    trace.Hash // of a subject, as events have it
}

// maxSubject is how long a name may be that is asked for, in bytes: doors take longer ones
// for one.
const maxSubject = 4 << 10

func understand(who api.Who) (p person, err error) {
	p.Who = who
	switch {
	case who == (api.Who{}):
		return p, bad("address, subject or key must say who is meant")
	case who.Key != "" && (who.Address != "" || who.Subject != ""):
		return p, bad("key must not be given with address or subject")
	case len(who.Subject) > maxSubject:
		return p, bad("subject must be at most %d bytes, got %d", maxSubject, len(who.Subject))
	}
	if who.Address != "" {
		if p.network, err = parseNetwork(who.Address); err != nil {
			return p, bad("address must be an address or a network such as 192.0.2.7 or 2001:db8::/48, got %s", cut(who.Address))
		}
	}
	if who.Subject != "" {
		if p.subject = Subject(who.Subject); p.subject == (doorward.Key{}) {
			return p, bad("subject must name somebody: of this nothing is left")
		}
	}
	if who.Key == "" {
		return p, nil
	}
	if n, err := parseNetwork(who.Key); err == nil {
		p.network, p.Key = n, doorward.KeyFromPrefix(n.Addr(), bits(n, 32), bits(n, 64)).String()
		return p, nil
	}
	if name, ok := strings.CutPrefix(who.Key, stored); ok {
		if _, err := hex.DecodeString(name); err == nil && name != "" {
			p.name = name
			return p, nil
		}
	}
	if b, err := hex.DecodeString(who.Key); err == nil && copy(p.hash[:], b) == len(p.hash) && len(b) == len(p.hash) {
		return p, nil
	}
	p.hash = trace.Hash{}
	for _, form := range []string{"name:", "pair:"} {
		if rest, ok := strings.CutPrefix(who.Key, form); ok && len(rest) == 10 {
			p.word = who.Key
		}
	}
	if who.Key == "everyone" || who.Key == "unknown" {
		p.word = who.Key
	}
	if p.word == "" {
		return p, bad("key must be as keys and events have it, got %s", cut(who.Key))
	}
	return p, nil
}

// parseNetwork reads an address or a network.
func parseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.WithZone("")
		return embedded(netip.PrefixFrom(addr, addr.BitLen())), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, err
	}
	return embedded(p).Masked(), nil
}

// embedded returns the IPv4 network inside of p, mapped or by NAT64, or p if there is none:
// guards count and list such addresses as IPv4.
func embedded(p netip.Prefix) netip.Prefix {
	inside := p.Addr().Unmap()
	if n := doorward.KeyFromAddr(p.Addr()).Prefix().Addr(); n.Is4() {
		inside = n
	}
	if p.Addr().Is6() && inside.Is4() && p.Bits() >= 96 {
		return netip.PrefixFrom(inside, p.Bits()-96)
	}
	return p
}

// bits is the width of n as far as a key can have it.
func bits(n netip.Prefix, most int) int { return max(1, min(n.Bits(), most)) }

// one reports whether the network is of one caller, not of several.
func (p person) one() bool {
	return p.network.IsValid() && (p.network.Addr().Is4() && p.network.Bits() == 32 || p.network.Addr().Is6() && p.network.Bits() >= 64)
}

// request is what p would ask of a guard.
func (p person) request() guard.Request {
	return guard.Request{Addr: p.network.Addr(), How: clientip.Peer, Subject: p.subject}
}

// caller is the key of the network of one caller, Unknown if it is none.
func (p person) caller() doorward.Key {
	if !p.one() {
		return doorward.Key{}
	}
	return doorward.KeyFromAddr(p.network.Addr())
}

// A found is what a rule says of a person.
type found struct {
	seat
	guard.Finding
}

// find returns what each rule says of p. Rules on networks narrower than p's are left out,
// and all on networks if p has none.
func (s *Server) find(ctx context.Context, g Guard, p person, now time.Time) (all []found, err error) {
	if p.word != "" || p.hash != (trace.Hash{}) {
		return s.search(g, p, now)
	}
	var findings []guard.Finding
	if p.name != "" {
		findings, err = g.LookupNamed(ctx, p.name, now)
	} else {
		findings, err = g.LookupContext(ctx, p.request(), now)
	}
	if err != nil {
		return nil, unanswered(err)
	}
	for _, f := range findings {
		switch {
		case p.name != "":
		case p.Key != "" && f.Key.String() != p.Key:
			continue
		case f.Per == guard.Network:
			// A network that begins with no address of a caller, such as 0.0.0.0/1, is not
			// that of all who have none.
			if n := f.Key.Prefix(); !p.network.IsValid() || n.Bits() > p.network.Bits() || !n.IsValid() && !p.network.IsSingleIP() {
				continue
			}
		case f.Per == guard.Pair:
			if !p.one() {
				continue
			}
		}
		all = append(all, found{seatOf(g, f.Rule), f})
	}
	return all, nil
}

func seatOf(g Guard, rule string) seat {
	rules := g.Rules()
	return seat{g, rules[slices.IndexFunc(rules, func(r guard.Rule) bool { return r.Name == rule })]}
}

// search looks at every entry for one that is called so: what is known of it does not say
// where it is.
func (s *Server) search(g Guard, p person, now time.Time) (all []found, err error) {
	var entries []doorward.Entry
	for _, r := range g.Rules() {
		if p.hash != (trace.Hash{}) && r.Per != guard.Subject {
			continue
		}
		for c, more := guard.Cursor(0), true; more; more = c != 0 {
			if entries, c, err = g.AppendEntries(entries[:0], r.Name, doorward.ShowAll, c, guard.MaxPage, now); err != nil {
				return nil, err
			}
			for _, e := range entries {
				if e.Overflow || p.word != "" && e.Key.String() != p.word || p.word == "" && s.daemon.Hash(e.Key) != p.hash {
					continue
				}
				f := guard.Finding{Rule: r.Name, Per: r.Per, Action: r.Action, Entry: e, Tracked: true}
				f.Decision.Allowed = e.LockedUntil.IsZero()
				if !f.Decision.Allowed {
					f.Decision.Reason, f.Decision.RetryAfter = doorward.Locked, e.LockedUntil.Sub(now)
				}
				all = append(all, found{seat{g, r}, f})
			}
		}
	}
	return all, nil
}

// why says what is known of a caller or a subject.
func (s *Server) why(r *http.Request) (any, error) {
	q, err := query(r, "address subject key", "")
	if err != nil {
		return nil, err
	}
	p, err := understand(api.Who{Address: first(q["address"]), Subject: first(q["subject"]), Key: first(q["key"])})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTime)
	defer cancel()
	now := time.Now()
	w := api.Why{Who: p.Who, Guards: []api.Found{}, Recent: []any{}}
	w.Who.Subject = "" // names go in, and do not come out
	if h := s.daemon.Hash(p.subject); p.subject != (doorward.Key{}) {
		w.Hash = h.String()
	}
	for _, g := range s.daemon.Guards() {
		f, err := s.verdict(ctx, g, p, now)
		if err != nil {
			return nil, err
		}
		if p.Key == "" || len(f.Rules) > 0 || p.network.IsValid() {
			w.Guards = append(w.Guards, f)
		}
	}
	for _, e := range s.daemon.Recent(p.caller(), p.subject) {
		w.Recent = append(w.Recent, e)
	}
	return w, nil
}

// verdict is what one guard says of p.
func (s *Server) verdict(ctx context.Context, g Guard, p person, now time.Time) (f api.Found, err error) {
	f = api.Found{Guard: g.Name, Doors: g.Doors, Rules: []api.Finding{}, Allowed: true}
	all, err := s.find(ctx, g, p, now)
	if err != nil {
		return f, err
	}
	for _, x := range all {
		d := x.Decision
		f.Rules = append(f.Rules, api.Finding{
			Key: x.key(x.Entry), Per: x.rule.Charges(), Action: ActionOf(x.rule), Policy: PolicyOf(x.rule), Tracked: x.Tracked,
			Allowed: d.Allowed, Reason: d.Reason.String(), Wait: Seconds(d.RetryAfter), Left: d.Remaining,
		})
		if wait := Seconds(d.RetryAfter); !d.Allowed && x.Action == guard.Refuse && (f.Allowed || wait > f.Wait) {
			f.Allowed, f.Rule, f.Reason, f.Wait = false, x.Rule, d.Reason.String(), wait
		}
	}
	if !p.network.IsValid() {
		return f, nil
	}
	v := g.Check(p.request(), now)
	switch {
	case v.Reason == doorward.Blocked:
		f.Blocked, f.Allowed, f.Rule, f.Reason, f.Wait = true, false, "", v.Reason.String(), 0
	case v.Exempt:
		f.Exempt, f.Allowed, f.Rule, f.Reason, f.Wait = true, true, "", "", 0
	}
	return f, nil
}

// unlock forgets what was counted about somebody.
func (s *Server) unlock(r *http.Request) (any, error) {
	var in api.Unlock
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if err := checkBy(in.By); err != nil {
		return nil, err
	}
	p, err := understand(in.Who)
	if err != nil {
		return nil, err
	}
	seats, err := s.seats(in.Guard, in.Rule)
	if err != nil {
		return nil, err
	}
	ctx, cancel := changing(r)
	defer cancel()
	now := time.Now()
	done := api.Unlocked{Keys: []api.Key{}}
	for i, t := range seats {
		if i > 0 && seats[i-1].guard.Name == t.guard.Name {
			continue
		}
		all, err := s.find(ctx, t.guard, p, now)
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			if in.Rule != "" && f.Rule != in.Rule || !f.Tracked || in.Rule == "" && !p.owns(f) {
				continue
			}
			if p.name != "" {
				err = t.guard.UnlockNamed(ctx, f.Rule, p.name)
			} else {
				err = t.guard.UnlockContext(ctx, f.Rule, f.Entry.Key)
			}
			if err != nil {
				return nil, unanswered(err)
			}
			k := f.key(f.Entry)
			done.Keys = append(done.Keys, k)
			s.daemon.Record(f.guard.record(trace.Record{
				Time: now, Event: trace.Unlocked, Rule: f.Rule, Key: k.Key, Actor: in.Actor, Why: in.Reason,
			}))
		}
	}
	return done, nil
}

// storeTime is how long a store has for all that one request asks of it.
const storeTime = 10 * time.Second

// changing returns a context for a change, which goes on if who asked for it hangs up.
func changing(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), storeTime)
}

// unanswered makes an answer of a store's error: memory has none.
func unanswered(err error) error {
	if errors.Is(err, guard.ErrStore) {
		return err
	}
	return Errorf(http.StatusServiceUnavailable, "the store did not answer, and all of this may not be done: %v", err)
}

// owns reports whether to unlock p is to unlock what f found: a key that p does not share
// with many, or one that keeps p out. What all callers have together is not p's.
func (p person) owns(f found) bool {
	switch {
	case f.Per == guard.Everyone:
		return p.word != "" || p.name != ""
	case f.Per != guard.Network:
		return true
	}
	n := f.Entry.Key.Prefix()
	return !n.IsValid() || n.Bits() >= min(p.network.Bits(), width(n)) || !f.Decision.Allowed
}

// width is that of one caller's network.
func width(n netip.Prefix) int {
	if n.Addr().Is4() {
		return 32
	}
	return 64
}

// record fills in whose a change is.
func (g Guard) record(r trace.Record) trace.Record {
	if g.Realm {
		r.Realm = g.Name
	} else {
		r.Door = g.Name
	}
	return r
}

// clear forgets all that a guard counted, or a rule of it.
func (s *Server) clear(r *http.Request) (any, error) {
	var in api.Clear
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if err := checkBy(in.By); err != nil {
		return nil, err
	}
	if in.Guard == "" {
		return nil, bad("guard must say whose counts are forgotten")
	}
	seats, err := s.seats(in.Guard, in.Rule)
	if err != nil {
		return nil, err
	}
	g := seats[0].guard
	ctx, cancel := changing(r)
	defer cancel()
	if err := g.ClearContext(ctx, in.Rule); err != nil {
		return nil, unanswered(err)
	}
	s.daemon.Record(g.record(trace.Record{Time: time.Now(), Event: trace.Cleared, Rule: in.Rule, Actor: in.Actor, Why: in.Reason}))
	return nil, nil
}
