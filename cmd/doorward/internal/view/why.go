package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/trace"
)

// Refused reports whether an attempt would be refused now: by a guard, or, as far as the
// last events tell, one of a pair.
func Refused(w api.Why, now time.Time) bool {
	return len(Elsewhere(w, now)) > 0 || slices.ContainsFunc(w.Guards, func(f api.Found) bool { return !f.Allowed && !f.Exempt })
}

// Why answers the support call: what would become of an attempt now, and what was counted
// to make it so.
func (s Screen) Why(w api.Why, now time.Time, zone *time.Location) string {
	var b strings.Builder
	who := name(w.Who)
	for _, f := range w.Guards {
		colour, text := s.found(f, who, now, zone)
		s.say(&b, colour, text)
	}
	if len(w.Guards) == 0 {
		b.WriteString("No rule counts " + who + ".\n")
	}
	recent := records(w.Recent)
	for _, e := range Elsewhere(w, now) {
		s.say(&b, red, e.text(who, now, zone))
	}
	s.say(&b, "", where(recent))
	if w.Hash != "" {
		s.say(&b, "", "In events the subject is "+plain.Clean(w.Hash)+".")
	}
	rows := [][]string{{"rule", "key", "counted", "pending", "left", "locked for", "now", "policy"}}
	for _, f := range w.Guards {
		for _, r := range f.Rules {
			rows = append(rows, finding(f, r, now))
		}
	}
	if len(rows) > 1 {
		b.WriteString("\n" + s.paint(bold, "What the rules counted") + "\n")
		for _, line := range (section{rows: rows, words: 2}).lines() {
			b.WriteString(s.cut(line) + "\n")
		}
	}
	if len(recent) > 0 {
		b.WriteString("\n" + s.paint(bold, "Last events") + "\n")
		for _, r := range recent {
			b.WriteString(s.cut("  "+Event(r, now, zone)) + "\n")
		}
	}
	return b.String()
}

// Still says what refuses all the same, nothing if nothing does.
func (s Screen) Still(w api.Why, now time.Time, zone *time.Location) string {
	var b strings.Builder
	who := name(w.Who)
	for _, f := range w.Guards {
		if !f.Allowed && !f.Exempt {
			colour, text := s.found(f, who, now, zone)
			s.say(&b, colour, "Still: "+text)
		}
	}
	for _, e := range Elsewhere(w, now) {
		s.say(&b, red, "Still: "+e.text(who, now, zone))
	}
	return b.String()
}

func name(w api.Who) string {
	var parts []string
	for _, p := range []string{w.Address, w.Subject, w.Key} {
		if p != "" {
			parts = append(parts, plain.Clean(p))
		}
	}
	return strings.Join(parts, " as ")
}

// found says in a sentence what one guard would do.
func (s Screen) found(f api.Found, who string, now time.Time, zone *time.Location) (colour, text string) {
	at := "door " + plain.Clean(f.Guard)
	if len(f.Doors) > 1 || len(f.Doors) == 1 && f.Doors[0] != f.Guard {
		at = fmt.Sprintf("realm %s (%s)", plain.Clean(f.Guard), plain.Clean(strings.Join(f.Doors, ", ")))
	}
	switch {
	case f.Exempt:
		return green, fmt.Sprintf("%s is exempt at %s: nothing is counted or refused.", who, at)
	case f.Blocked:
		return red, fmt.Sprintf("%s is blocked at %s.", who, at)
	case f.Allowed:
		text = fmt.Sprintf("%s is not locked out at %s: an attempt would be admitted now.", who, at)
		if least := least(f.Rules); least != nil {
			text = strings.TrimSuffix(text, ".") + fmt.Sprintf(", and %s before rule %s refuses.", more(least.Left), plain.Clean(least.Rule))
		}
		return green, text
	}
	wait := time.Duration(f.Wait * float64(time.Second))
	until := ""
	if wait > 0 {
		until = fmt.Sprintf(" for another %s, until %s", plain.Left(wait), clock(now.Add(wait), now, zone))
	}
	text = fmt.Sprintf("%s is refused at %s%s: %s.", who, at, until, because(f))
	return red, text
}

// A Pair is an address at a subject that was refused of late, by a rule that counts both
// together. To ask about one of them does not show it.
type Pair struct {
	Address string // "" if it is the one that was asked about
	Subject string // its hash, likewise
	Door    string
	Rule    string
	Until   time.Time
}

// Elsewhere returns the pairs of whom was asked about that are still refused, as far as the
// last events tell: they may have been unlocked since.
func Elsewhere(w api.Why, now time.Time) (all []Pair) {
	if (w.Who.Address == "") == (w.Who.Subject == "") {
		return nil
	}
	for _, r := range records(w.Recent) {
		until := r.Until
		if r.Event == trace.Refused && r.Reason == doorward.Locked {
			until = r.Time.Add(r.RetryAfter)
		}
		if !until.After(now) || r.Subject == (trace.Hash{}) || !r.Client.IsValid() || asked(w, r) {
			continue
		}
		p := Pair{Door: r.Door, Rule: r.Rule, Until: until}
		if w.Who.Address == "" {
			p.Address = network(r.Client)
		} else {
			p.Subject = r.Subject.String()
		}
		if i := slices.IndexFunc(all, func(o Pair) bool { o.Until = p.Until; return o == p }); i >= 0 {
			all[i].Until = until
			continue
		}
		all = append(all, p)
	}
	return all
}

// asked reports whether the answer has the rule of an event.
func asked(w api.Why, r trace.Record) bool {
	return slices.ContainsFunc(w.Guards, func(f api.Found) bool {
		return slices.Contains(f.Doors, r.Door) && slices.ContainsFunc(f.Rules, func(x api.Finding) bool { return x.Rule == r.Rule })
	})
}

func (p Pair) text(who string, now time.Time, zone *time.Location) string {
	end := fmt.Sprintf("for another %s, until %s, unless it was unlocked", plain.Left(p.Until.Sub(now)), clock(p.Until, now, zone))
	if p.Address != "" {
		return fmt.Sprintf("%s from %s is refused at door %s by rule %s %s: ask with --address %s.", who, p.Address, plain.Clean(p.Door), plain.Clean(p.Rule), end, p.Address)
	}
	return fmt.Sprintf("%s at the subject %s is refused at door %s by rule %s %s: ask with --subject and its name.", who, p.Subject, plain.Clean(p.Door), plain.Clean(p.Rule), end)
}

func more(n int) string {
	if n == 0 {
		return "none more"
	}
	return fmt.Sprintf("%s more", plain.Count(n))
}

// least is the rule that leaves the fewest attempts, nil if none tells.
func least(rules []api.Finding) (r *api.Finding) {
	for i, f := range rules {
		if f.Tracked && f.Allowed && f.Action == "refuse" && (r == nil || f.Left < r.Left) {
			r = &rules[i]
		}
	}
	return r
}

// because says in words why a guard refuses.
func because(f api.Found) string {
	rule, counted := plain.Clean(f.Rule), ""
	key := ""
	if i := slices.IndexFunc(f.Rules, func(r api.Finding) bool { return r.Rule == f.Rule }); i >= 0 {
		r := f.Rules[i]
		counted = plain.Count(r.Count)
		if key = " for " + plain.Clean(r.Key.Key); r.Overflow {
			key = " for all newcomers together, its table being full"
		}
	}
	switch f.Reason {
	case "locked":
		return fmt.Sprintf("rule %s counted %s%s", rule, failures(counted), key)
	case "spent", "ceiling":
		return fmt.Sprintf("rule %s counted %s%s, which is all there are", rule, counted, key)
	case "busy":
		return fmt.Sprintf("attempts in flight use up what rule %s leaves%s", rule, key)
	case "blocked":
		return "its network is blocked"
	}
	return fmt.Sprintf("rule %s says %s", rule, plain.Clean(f.Reason))
}

func failures(n string) string {
	if n == "1" {
		return "1 failure"
	}
	return n + " failures"
}

func finding(f api.Found, r api.Finding, now time.Time) []string {
	locked, says := "-", "admits"
	if r.LockedUntil != nil && r.LockedUntil.After(now) {
		locked = plain.Left(r.LockedUntil.Sub(now))
	}
	if !r.Allowed {
		says = plain.Clean(r.Reason)
		if r.Action != "refuse" {
			says += " (" + plain.Clean(r.Action) + ")"
		}
	}
	key := r.Key.Key
	if r.Overflow {
		key = "overflow"
	}
	return []string{plain.Clean(f.Guard + "/" + r.Rule), plain.Clean(key), plain.Count(r.Count), plain.Count(r.Pending), plain.Count(r.Left),
		locked, says, policy(r.Per, r.Policy, "")}
}

// records reads events. What is none is skipped: a newer daemon may have more to say.
func records(lines []any) (all []trace.Record) {
	for _, l := range lines {
		text, err := json.Marshal(l)
		if err != nil {
			continue
		}
		if r, err := trace.Parse(text); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// origins say where an address was taken from.
var origins = map[clientip.How]string{
	clientip.Peer:       "it is the peer of the connection",
	clientip.Header:     "a trusted proxy wrote it into the header",
	clientip.AllTrusted: "every address in the header is one of a trusted proxy, so this is a proxy or a machine behind it, not a caller from outside",
	clientip.Fallback:   "a trusted proxy sent no header, so this is the proxy's own, and all its callers are one",
	clientip.Unknown:    "there was none that could be trusted, so all such callers are one",
}

// where says how the address was found in the last events.
func where(recent []trace.Record) string {
	var hows []clientip.How
	for _, r := range slices.Backward(recent) {
		if (r.Event == trace.Refused || r.Event == trace.Settled || r.Event == trace.Locked) && !slices.Contains(hows, r.How) {
			hows = append(hows, r.How)
		}
	}
	switch len(hows) {
	case 0:
		return "No attempt of it is remembered, so where the address was taken from is not known."
	case 1:
		return "Where the address was taken from: " + origins[hows[0]] + "."
	}
	var texts []string
	for _, h := range hows {
		texts = append(texts, origins[h])
	}
	return "Where the address was taken from, the last first: " + strings.Join(texts, "; ") + "."
}

// Event is one line for one event.
func Event(r trace.Record, now time.Time, zone *time.Location) string {
	var b strings.Builder
	add := func(format string, args ...any) {
		for i, a := range args {
			if text, ok := a.(string); ok {
				args[i] = plain.Clean(text)
			}
		}
		fmt.Fprintf(&b, format, args...)
	}
	add("%s  %-8s", clock(r.Time, now, zone), string(r.Event))
	if r.Of != "" {
		add(" %s", string(r.Of))
	}
	if r.Door != "" {
		add(" %s", r.Door)
	}
	if r.Realm != "" {
		add(" (%s)", r.Realm)
	}
	if r.Event == trace.Refused || r.Event == trace.Settled || r.Event == trace.Locked {
		client := "unknown"
		if r.Client.IsValid() {
			client = network(r.Client)
		}
		add("  %s", client)
	}
	if r.Subject != (trace.Hash{}) {
		add(" subject %s", r.Subject.String())
	}
	for _, p := range []struct{ before, text string }{
		{"  ", r.Outcome}, {"  ", r.Reason.String()}, {" by ", r.Rule}, {"  ", r.Key}, {"  ", r.Action},
	} {
		if p.text != "" {
			add("%s%s", p.before, p.text)
		}
	}
	if r.Network.IsValid() {
		add(" %s", network(r.Network))
	}
	if r.Overflow {
		add(" (overflow)")
	}
	if r.RetryAfter > 0 {
		add(" for %s", plain.Left(r.RetryAfter))
	}
	if r.Lockout > 0 {
		add(" for %s", plain.Left(r.Lockout))
	}
	if !r.Until.IsZero() {
		add(" until %s", clock(r.Until, now, zone))
	}
	if r.StepUp {
		add(" (step-up)")
	}
	if len(r.Shadow) > 0 {
		add("  shadow: %s", strings.Join(r.Shadow, ", "))
	}
	if r.Method != "" || r.Path != "" {
		add("  %s %s", r.Method, r.Path)
	}
	for _, p := range []struct{ before, text string }{{"  by ", r.Actor}, {": ", r.Why}, {"  error: ", r.Error}, {"  ", r.Version}} {
		if p.text != "" {
			add("%s%s", p.before, p.text)
		}
	}
	if r.Dropped > 0 {
		add("  (%s)", plain.Plural(int(r.Dropped), "line")+" before this one left out")
	}
	return strings.TrimRight(b.String(), " ")
}
