package budget_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

func policy(free int, length, first, longest time.Duration, decay bool) *lockout.Policy {
	return &lockout.Policy{FreeFailures: free, Window: length, FirstLockout: first, MaxLockout: longest, Decay: decay}
}

// Each configuration has exactly these weaknesses, and the fix of each removes it.
func TestWeaknesses(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	login := slices.DeleteFunc(copied(guard.Login).Rules, func(r guard.Rule) bool { return r.Name == "step-up" || r.Name == "device" })
	// but returns the login rules without some, and with others.
	but := func(without string, more ...guard.Rule) guard.Config {
		c := copied(rules(login...))
		c.Rules = slices.DeleteFunc(c.Rules, func(r guard.Rule) bool { return slices.Contains(strings.Fields(without), r.Name) })
		c.Rules = append(c.Rules, more...)
		return c
	}
	rule := func(name string) guard.Rule {
		i := slices.IndexFunc(login, func(r guard.Rule) bool { return r.Name == name })
		return login[i]
	}
	loose := copied(guard.Pairing)
	loose.Rules[2].Lockout.FreeFailures = 16
	for _, row := range []struct {
		name     string
		c        guard.Config
		subjects bool
		want     []string
	}{
		{"good", but(""), true, nil},
		{"good without accounts", guard.Pairing, false, nil},
		{"loose sites", loose, false, []string{
			`rule "ceiling": a ceiling of 60 for everyone, and no rule holds an IPv4 /24 to a quarter of it; add a rule of at most 15 with per: network4/24`,
		}},
		{"issue 4", rules(slices.Delete(defaultRules().Rules, 1, 2)...), false, []string{
			`rule "site24-day": one address gets 402 guesses at one account on the first day, and 200 guesses a day in the long run; add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}`,
			`rule "site48-day": one address gets 402 guesses at one account on the first day, and 200 guesses a day in the long run; add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}`,
			`1,000 addresses get 402,000 guesses a day at one account, 1,000 times what one gets; say where requests name the account (subject:) and add a rule with per: subject, or a ceiling for everyone if there is but one secret`,
			`rule "site48-day": one IPv6 /64 alone can use up its 200 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
			`rule "site24-day": one IPv4 address alone can use up its 200 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"issue 4 alone", rules(guard.Rule{Name: "burst", Lockout: &lockout.Login}), false, []string{
			`rule "burst": a patient caller stays below the lockout: 5,760 guesses a day; add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}`,
			`an IPv4 /24 holds 256 addresses and gets 1,474,816 attempts a day; add a rule with per: network4/24 and four times what one address has`,
			`an IPv6 /48 holds 65,536 subscribers (/64) and gets 377,552,896 attempts a day; add a rule with per: network6/48 and four times what one /64 has`,
			`1,000 addresses get 5,761,000 guesses a day at one account, 1,000 times what one gets; say where requests name the account (subject:) and add a rule with per: subject, or a ceiling for everyone if there is but one secret`,
		}},
		{"short lockouts", rules(guard.Rule{Name: "short", Per: guard.Subject, Lockout: policy(5, day, minute, minute, false)}), true, []string{
			`rule "short": a patient caller waits out one lockout of 1m after the other: 1,440 guesses a day; raise max_lockout, or add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}`,
			`rule "short": one IPv4 address or one IPv6 /64 alone can use up its 5 failures and keep out the owner of that account; add decay: true, so that one failure in each window does not keep it locked, and free_failures above what a narrower rule admits`,
		}},
		{"a big burst", rules(guard.Rule{Name: "week", Per: guard.Pair, Lockout: policy(700, 70*day, 40*day, 40*day, true)}, rule("subject")), true, []string{
			`rule "subject": one IPv4 address or one IPv6 /64 alone can use up its 36 failures and keep out the owner of that account; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"a big burst alone", rules(guard.Rule{Name: "week", Per: guard.Pair, Lockout: policy(700, 70*day, 40*day, 40*day, true)}), true, []string{
			`rule "week": one address gets 709 guesses at one account on the first day, and 10 guesses a day in the long run; add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}`,
			`1,000 addresses get 709,000 guesses a day at one account, 1,000 times what one gets; add a rule with per: subject`,
		}},
		{"throttle", rules(guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 5, Global: 4000, Window: minute}}), false, []string{
			`rule "ceiling": a patient caller comes back in each window: 7,200 guesses a day; add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}`,
			`an IPv4 /24 holds 256 addresses and gets 1,844,224 attempts a day; add a rule with per: network4/24 and four times what one address has`,
			`rule "ceiling": one IPv6 /48 alone can use up its 4,000 failures and keep out everyone; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
			`rule "ceiling": a ceiling of 4,000 for everyone, and no rule holds an IPv4 /24 or an IPv6 /48 to a quarter of it; add a rule of at most 1,000 with per: network4/24, and one with per: network6/48`,
		}},
		{"no /24", but("site24"), true, []string{
			`an IPv4 /24 holds 256 addresses and gets 34,560 attempts a day; add a rule with per: network4/24 and four times what one address has`,
		}},
		{"no /48", but("site48"), true, []string{
			`rule "site32": one IPv6 /48 alone can use up its 450 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"no /32", but("site32"), true, []string{
			`an IPv6 /32 holds 65,536 sites (/48) and gets 2,228,258 attempts a day; add a rule with per: network6/32 and twice what one /48 has`,
		}},
		{"no /48 and /32", but("site48 site32"), true, []string{
			`an IPv6 /48 holds 65,536 subscribers (/64) and gets 2,228,258 attempts a day; add a rule with per: network6/48 and four times what one /64 has`,
		}},
		{"no account", but("subject"), true, []string{
			`1,000 addresses get 34,000 guesses a day at one account, 1,000 times what one gets; add a rule with per: subject`,
		}},
		{"no account, not named", but("subject"), false, []string{
			`1,000 addresses get 34,000 guesses a day at one account, 1,000 times what one gets; say where requests name the account (subject:) and add a rule with per: subject, or a ceiling for everyone if there is but one secret`,
		}},
		{"step-up", but("subject", guard.Login.Rules[5]), true, []string{
			`1,000 addresses get 34,000 guesses a day at one account, 1,000 times what one gets (rule "step-up" asks for a stronger proof and refuses none); add a rule with per: subject`,
		}},
		{"washed", but("network", guard.Rule{Name: "network", OnSuccess: guard.Clear, Lockout: rule("network").Lockout}), true, []string{
			`rule "network": whoever has an account of their own clears all guesses at others by logging in: no bound; remove on_success: clear, which is for doors that keep one secret`,
		}},
		{"clearing where there is one secret", but("network", guard.Rule{Name: "network", OnSuccess: guard.Clear, Lockout: rule("network").Lockout}), false, nil},
		{"low network", but("network", guard.Rule{Name: "network", Lockout: policy(5, day, minute, hour, true)}), true, []string{
			`rule "network": one account alone can use up its 5 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"network of one family", but("network", guard.Rule{Name: "four", V4: 32, V6: -1, Lockout: policy(5, day, minute, hour, true)}, guard.Rule{Name: "six", V4: -1, V6: 64, Lockout: rule("network").Lockout}), true, []string{
			`rule "four": one account alone can use up its 5 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"low site", but("site24", guard.Rule{Name: "site24", V4: 24, V6: -1, Lockout: policy(30, day, minute, hour, true)}), true, []string{
			`rule "site24": one IPv4 address alone can use up its 30 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"low provider", but("site32", guard.Rule{Name: "site32", V4: -1, V6: 32, Lockout: policy(190, day, minute, hour, true)}), true, []string{
			`rule "site32": one IPv6 /48 alone can use up its 190 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"trickle", but("site24", guard.Rule{Name: "site24", V4: 24, V6: -1, Lockout: policy(200, day, minute, hour, false)}), true, []string{
			`rule "site24": one IPv4 address alone can use up its 200 failures and keep out everyone who shares it; add decay: true, so that one failure in each window does not keep it locked, and free_failures above what a narrower rule admits`,
		}},
		{"low account", but("subject", guard.Rule{Name: "subject", Per: guard.Subject, Window: &window.Policy{Limit: 30, Window: day, Sliding: true}}), true, []string{
			`rule "subject": one IPv4 address or one IPv6 /64 alone can use up its 30 requests and keep out the owner of that account; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
		{"low everyone", but("", guard.Rule{Per: guard.Everyone, Lockout: policy(190, day, minute, hour, true)}), true, []string{
			`rule "everyone": one IPv4 /24 or one IPv6 /48 alone can use up its 190 failures and keep out everyone; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
			`rule "everyone": a ceiling of 190 for everyone, and no rule holds an IPv4 /24 or an IPv6 /48 to a quarter of it; add a rule of at most 47 with per: network4/24, and one with per: network6/48`,
		}},
		{"low ceiling", rules(slices.Concat(guard.Recovery.Rules[3:4], []guard.Rule{{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 2, Global: 3, Window: day}}})...), false, []string{
			`rule "ceiling": one IPv4 address or one IPv6 /64 alone can use up its 3 failures and keep out everyone; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
			`rule "ceiling": a ceiling of 3 for everyone, and no rule holds an IPv4 /24 or an IPv6 /48 to a quarter of it; add a rule of at most 1 with per: network4/24, and one with per: network6/48`,
		}},
		{"ceiling alone", rules(guard.Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: 20, Global: 100, Window: hour}}), false, []string{
			`rule "ceiling": a patient caller comes back in each window: 480 guesses a day; add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}`,
			`rule "ceiling": one IPv4 /24 or one IPv6 /48 alone can use up its 100 failures and keep out everyone; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
			`rule "ceiling": a ceiling of 100 for everyone, and no rule holds an IPv4 /24 or an IPv6 /48 to a quarter of it; add a rule of at most 25 with per: network4/24, and one with per: network6/48`,
		}},
		{"edges", but("", guard.Rule{Name: "mails", Per: guard.Subject, Window: &window.Policy{Limit: 100, Window: 90 * minute}}), true, []string{
			`rule "mails": a fixed window: 199 requests within 1h30m, across its edge; add sliding: true`,
		}},
		{"no edge with one", but("", guard.Rule{Per: guard.Pair, Window: &window.Policy{Limit: 1, Window: 2 * day}}), true, nil},
		{"trials", but("", guard.Rule{Action: guard.Shadow, Window: &window.Policy{Limit: 100, Window: hour}}), true, nil},
		{"nothing refuses", rules(guard.Rule{Action: guard.Shadow, Window: &window.Policy{Limit: 100, Window: hour}}), true, nil},
		{"one family", rules(guard.Rule{V4: 24, V6: -1, Lockout: policy(36, day, minute, hour, true)}), true, []string{
			`1,000 addresses get 76,000 guesses a day at one account, 1,000 times what one gets; add a rule with per: subject`,
			`rule "network4/24": one IPv4 address alone can use up its 36 failures and keep out everyone who shares it; raise it, or lower what rules on narrower keys admit (a pair is narrower than its network and its subject)`,
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, w := range door(t, row.c).Weaknesses(row.subjects) {
				got = append(got, w.String())
				c := copied(row.c)
				mend(t, &c, w)
				for _, left := range door(t, c).Weaknesses(row.subjects) {
					if left.Rule == w.Rule && left.Text == w.Text {
						t.Errorf("the fix does not remove %v", left)
					}
				}
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(row.want, "\n"))
			}
		})
	}
}

// mend does to a configuration what the fix of a weakness says.
func mend(t *testing.T, c *guard.Config, w budget.Weakness) {
	t.Helper()
	twenty := guard.Rule{Lockout: policy(20, day, 30*time.Second, 15*time.Minute, true)}
	add := func(r ...guard.Rule) { c.Rules = append(c.Rules, r...) }
	var r *guard.Rule
	if i := slices.IndexFunc(door(t, *c).Rules(), func(r guard.Rule) bool { return r.Name == w.Rule }); i >= 0 {
		r = &c.Rules[i]
	}
	site := func(v4, v6, limit int) guard.Rule {
		return guard.Rule{V4: v4, V6: v6, Lockout: policy(limit, day, time.Minute, time.Hour, true)}
	}
	switch fix := w.Fix; {
	case fix == "add 20 / 24 h: {per: network, lockout: {free_failures: 20, window: 24h, first_lockout: 30s, max_lockout: 15m, decay: true}}":
		add(twenty)
	case strings.HasPrefix(fix, "raise max_lockout, or add 20 / 24 h: "):
		r.Lockout.MaxLockout = time.Hour
	case fix == "add a rule with per: network4/24 and four times what one address has":
		add(site(24, -1, 4*36))
	case fix == "add a rule with per: network6/48 and four times what one /64 has":
		add(site(-1, 48, 4*36))
	case fix == "add a rule with per: network6/32 and twice what one /48 has":
		add(site(-1, 32, 2*200))
	case fix == "add a rule with per: subject", strings.HasPrefix(fix, "say where requests name the account (subject:) and add a rule with per: subject, or"):
		add(guard.Rule{Per: guard.Subject, Lockout: policy(36, day, time.Minute, time.Hour, true)})
	case strings.HasPrefix(fix, "remove on_success: clear, "):
		r.OnSuccess = guard.ByKey
	case strings.HasPrefix(fix, "add decay: true, so"):
		r.Lockout.Decay, r.Lockout.FreeFailures = true, max(r.Lockout.FreeFailures, 200)
		add(twenty)
	case strings.HasPrefix(fix, "raise it, or lower what "):
		switch {
		case r.Lockout != nil:
			r.Lockout.FreeFailures *= 20
		case r.Throttle != nil:
			r.Throttle.Global *= 20
		default:
			r.Window.Limit *= 20
		}
		add(twenty, site(24, -1, 36), site(-1, 48, 36), site(-1, 32, 60))
	case strings.HasPrefix(fix, "add a rule of at most "):
		limit := 0
		if _, err := fmt.Sscanf(strings.ReplaceAll(fix, ",", ""), "add a rule of at most %d with per: network", &limit); err != nil {
			t.Fatal(err)
		}
		add(site(24, -1, limit), site(-1, 48, limit))
	case fix == "add sliding: true":
		r.Window.Sliding = true
	default:
		t.Fatalf("no such fix: %s", fix)
	}
}

// The presets have none, and the default rules the one that their door may name no account.
func TestGoodDoors(t *testing.T) {
	for name, c := range guard.Presets() {
		for _, subjects := range []bool{true, false} {
			for _, w := range door(t, c).Weaknesses(subjects) {
				t.Errorf("%s: %v", name, w)
			}
		}
	}
	named := defaultRules()
	named.Rules = append(named.Rules, guard.Rule{Per: guard.Subject, Lockout: policy(200, day, time.Minute, time.Hour, true)})
	for _, w := range door(t, named).Weaknesses(true) {
		t.Errorf("default rules and an account: %v", w)
	}
	bare := door(t, defaultRules()).Weaknesses(true)
	if len(bare) != 1 || bare[0].Text != "1,000 addresses get 119,000 guesses a day at one account, 1,000 times what one gets" {
		t.Errorf("default rules: %v", bare)
	}
}

// A weakness is one line.
func TestWeaknessString(t *testing.T) {
	for want, w := range map[string]budget.Weakness{
		`rule "a": some get in; change b`: {Rule: "a", Text: "some get in", Fix: "change b"},
		"some get in; change b":           {Text: "some get in", Fix: "change b"},
	} {
		if got := w.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// copied returns c with policies of its own.
func copied(c guard.Config) guard.Config {
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		r := &c.Rules[i]
		switch {
		case r.Lockout != nil:
			p := *r.Lockout
			r.Lockout = &p
		case r.Throttle != nil:
			p := *r.Throttle
			r.Throttle = &p
		default:
			p := *r.Window
			r.Window = &p
		}
	}
	return c
}
