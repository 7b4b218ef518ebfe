package budget

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doorward/doorward/guard"
)

// A Weakness is something about a door that is allowed and probably not meant.
type Weakness struct {
	// Rule is the rule it is about, empty if it is about one that is missing.
	Rule string `json:"rule,omitempty"`
	// Text says what an attacker gets, or who can be kept out.
	Text string `json:"text"`
	// Fix names the line to change or to add, in the words of configuration files.
	Fix string `json:"fix"`
}

func (w Weakness) String() string {
	if w.Rule == "" {
		return w.Text + "; " + w.Fix
	}
	return fmt.Sprintf("rule %q: %s; %s", w.Rule, w.Text, w.Fix)
}

const day = 24 * time.Hour

const (
	// many is how many guesses a day are too many from one network at one subject: more
	// than one in seven minutes, day and night. NIST SP 800-63B (5.2.2) allows an account
	// 100 failures in a row in all.
	many = 200
	// crowded is how many times more than one network a wider one may be admitted.
	crowded = 1000
	// bots is how many addresses an attacker is taken to have.
	bots = 1000
	// horizon is how long a caller is taken to have patience.
	horizon = 30 * day
)

// Weaknesses returns the weak spots of a door, the worst first. subjects says whether
// its requests name one.
func (d *Door) Weaknesses(subjects bool) []Weakness {
	return slices.Concat(d.patient(), d.crowds(subjects), d.washed(subjects), d.Reach(), d.ceilings(), d.edges())
}

// guesses reports whether r limits guesses, and not requests whether right or wrong.
func (r *rule) guesses() bool { return r.Window == nil }

// patient finds callers that never meet a long wait.
func (d *Door) patient() (found []Weakness) {
	for _, c := range []Caller{Address, Subscriber} {
		limit := d.Most(c, OneSubject, day)
		i := slices.IndexFunc(d.rules, func(r rule) bool { return r.Name == limit.Rule })
		if i < 0 || limit.Most <= many || !d.rules[i].guesses() {
			continue
		}
		r := &d.rules[i]
		rate, _ := d.Rate(c, OneSubject)
		w := Weakness{Rule: r.Name, Fix: "add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}"}
		guesses := count(int64(rate.In(day))) + " guesses a day"
		switch {
		case rate.In(day) <= many:
			w.Text = fmt.Sprintf("one address gets %s guesses at one account on the first day, and %s in the long run", count(limit.Most), guesses)
		case r.Throttle != nil:
			w.Text = "a patient caller comes back in each window: " + guesses
		case rate == Rate{1, r.Lockout.MaxLockout}:
			w.Text = fmt.Sprintf("a patient caller waits out one lockout of %s after the other: %s", span(r.Lockout.MaxLockout), guesses)
			w.Fix = fmt.Sprintf("raise max_lockout, or %s", w.Fix)
		default:
			w.Text = "a patient caller stays below the lockout: " + guesses
		}
		if !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	return found
}

// crowds finds callers that get more by having more networks.
func (d *Door) crowds(subjects bool) (found []Weakness) {
	guessed := slices.ContainsFunc(d.rules, func(r rule) bool { return r.guesses() })
	for _, w := range []struct {
		narrow, wide Caller
		holds, fix   string
	}{
		{Address, Network24, "an IPv4 /24 holds 256 addresses", "network4/24 and four times what one address has"},
		{Subscriber, Site, "an IPv6 /48 holds 65,536 subscribers (/64)", "network6/48 and four times what one /64 has"},
		{Site, Provider, "an IPv6 /32 holds 65,536 sites (/48)", "network6/32 and twice what one /48 has"},
	} {
		one, all := d.Most(w.narrow, EverySubject, day), d.Most(w.wide, EverySubject, day)
		if one.Rule == "" {
			continue // families that no rule applies to are another warning
		}
		if all.Most >= mul(min(crowded, w.wide.keys(w.narrow.Bits)), one.Most) {
			found = append(found, Weakness{
				Text: fmt.Sprintf("%s and gets %s attempts a day", w.holds, count(all.Most)),
				Fix:  "add a rule with per: " + w.fix,
			})
		}
	}
	if !guessed {
		return found
	}
	limit := d.Most(Botnet(bots), OneSubject, day)
	one := d.Most(Address, OneSubject, day)
	if limit.Rule == "" || limit.Most < mul(bots, one.Most) {
		return found
	}
	w := Weakness{
		Text: fmt.Sprintf("%s addresses get %s guesses a day at one account, %[1]s times what one gets", count(bots), count(limit.Most)),
		Fix:  "add a rule with per: subject",
	}
	if !subjects {
		w.Fix = "say where requests name the account (subject:) and add a rule with per: subject, or a ceiling for everyone if there is but one secret"
	}
	for _, r := range d.config.Rules {
		if r.Action == guard.StepUp {
			w.Text += fmt.Sprintf(" (rule %q asks for a stronger proof and refuses none)", r.Name)
		}
	}
	return append(found, w)
}

// washed finds rules that anybody with an account clears.
func (d *Door) washed(subjects bool) (found []Weakness) {
	for i := range d.rules {
		if r := &d.rules[i]; subjects && r.Per == guard.Network && r.OnSuccess == guard.Clear {
			found = append(found, Weakness{r.Name,
				"whoever has an account of their own clears all guesses at others by logging in: no bound",
				"remove on_success: clear, which is for doors that keep one secret"})
		}
	}
	return found
}

// families are callers of one family each, the smallest first.
var families = [][]struct {
	name string
	Caller
}{
	{{"one IPv4 address", Address}, {"one IPv4 /24", Network24}},
	{{"one IPv6 /64", Subscriber}, {"one IPv6 /48", Site}, {"one IPv6 /32", Provider}},
}

// Reach returns the weak spots that are keys of many which one of them alone uses up.
func (d *Door) Reach() (found []Weakness) {
	pairs := slices.ContainsFunc(d.rules, func(r rule) bool { return r.Per == guard.Pair })
	for i := range d.rules {
		r := &d.rules[i]
		whose := "everyone who shares it"
		switch {
		case r.Per == guard.Subject:
			whose = "the owner of that account"
		case r.ceiling() || r.Per == guard.Everyone:
			whose = "everyone"
		}
		var who []string // of each family the smallest that does
		for _, family := range families {
			for n, c := range family {
				name, t, width := c.name, EverySubject, r.width(c.Caller)
				switch {
				case r.ceiling() || r.Per == guard.Everyone:
				case r.Per == guard.Network && width > 0 && width < c.Bits:
				case r.Per == guard.Network && width == c.Bits && n == 0 && pairs:
					name, t = "one account", OneSubject
				case r.Per == guard.Subject && n == 0:
					t = OneSubject
				default:
					continue // it has that key to itself
				}
				if d.closers(i, c.Caller, t, horizon) != 1 {
					continue
				}
				if !slices.Contains(who, name) {
					who = append(who, name)
				}
				break
			}
		}
		if len(who) == 0 {
			continue
		}
		what := "failures"
		if !r.guesses() {
			what = "requests"
		}
		w := Weakness{Rule: r.Name, Text: fmt.Sprintf("%s alone can use up its %s %s and keep out %s", strings.Join(who, " or "), count(r.limit()), what, whose)}
		switch {
		case r.Lockout != nil && !r.Lockout.Decay:
			w.Fix = "add decay: true, so that one failure in each window does not keep it locked, and free_failures above what a narrower rule admits"
		default:
			w.Fix = "raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)"
		}
		found = append(found, w)
	}
	return found
}

// ceiling reports whether r limits everyone together.
func (r *rule) ceiling() bool { return r.Throttle != nil }

// ceilings finds ceilings for everyone that a few wider networks use up.
func (d *Door) ceilings() (found []Weakness) {
	for i := range d.rules {
		r := &d.rules[i]
		if !r.ceiling() && r.Per != guard.Everyone {
			continue
		}
		var free, missing []string
		for _, family := range []struct {
			name, per string
			width     func(guard.Rule) int
			most      int
		}{
			{"an IPv4 /24", "network4/24", func(r guard.Rule) int { return r.V4 }, 24},
			{"an IPv6 /48", "network6/48", func(r guard.Rule) int { return r.V6 }, 48},
		} {
			if !slices.ContainsFunc(d.rules, func(o rule) bool {
				w := family.width(o.Rule)
				return o.Per == guard.Network && w > 0 && w <= family.most && o.limit() <= max(1, r.limit()/4)
			}) {
				free, missing = append(free, family.name), append(missing, family.per)
			}
		}
		if missing != nil {
			found = append(found, Weakness{r.Name,
				fmt.Sprintf("a ceiling of %s for everyone, and no rule holds %s to a quarter of it", count(r.limit()), strings.Join(free, " or ")),
				fmt.Sprintf("add a rule of at most %s with per: %s", count(max(1, r.limit()/4)), strings.Join(missing, ", and one with per: "))})
		}
	}
	return found
}

// edges finds fixed windows.
func (d *Door) edges() (found []Weakness) {
	for i := range d.rules {
		if c, ok := d.rules[i].key.curve.(fixed); ok && d.rules[i].Window != nil && c.limit > 1 {
			found = append(found, Weakness{d.rules[i].Name,
				fmt.Sprintf("a fixed window: %s requests within %s, across its edge", count(d.rules[i].key.Most(duration(c.window))), span(duration(c.window))),
				"add sliding: true"})
		}
	}
	return found
}

// count writes a number with commas.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span writes a length of time as configuration files have it: 90m as 1h30m, 30 days as
// 30d.
func span(d time.Duration) string {
	var b strings.Builder
	if days := d / day; days > 0 {
		fmt.Fprintf(&b, "%dd", days)
		if d %= day; d == 0 {
			return b.String()
		}
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	b.WriteString(s)
	return b.String()
}
