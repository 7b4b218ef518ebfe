package guard_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

func policy(edit ...func(*lockout.Policy)) *lockout.Policy {
	p := lockout.Login
	p.Capacity, p.InFlight = 64, 64
	for _, e := range edit {
		e(&p)
	}
	return &p
}

func rules(rs ...guard.Rule) guard.Config { return guard.Config{Rules: rs} }

func TestConfigErrors(t *testing.T) {
	lease := func(d time.Duration) func(*lockout.Policy) { return func(p *lockout.Policy) { p.Lease = d } }
	prefix := netip.MustParsePrefix
	for _, row := range []struct {
		name   string
		config guard.Config
		want   string
	}{
		{"no rules", guard.Config{}, "guard: Rules must not be empty"},
		{"17 rules", rules(make([]guard.Rule, 17)...), "guard: Rules must be at most 16, got 17"},
		{"no policy", rules(guard.Rule{}), "guard: rule 0: exactly one of Lockout, Throttle and Window must be set, got 0"},
		{"policy", rules(guard.Rule{Name: "a", Lockout: &lockout.Policy{}}), `guard: rule "a": lockout: FreeFailures must be 1 to 65535, got 0`},
		{"per", rules(guard.Rule{Per: 99, Lockout: policy()}), "guard: rule 0: Per must be Network to Everyone, got 99"},
		{"two policies", rules(guard.Rule{Lockout: policy(), Window: &window.Policy{}}), "guard: rule 0: exactly one of Lockout, Throttle and Window must be set, got 2"},
		{"throttle for everyone", rules(guard.Rule{Per: guard.Everyone, Throttle: &throttle.Policy{}}), "guard: rule 0: Per must not be Everyone for a throttle"},
		{"window", rules(guard.Rule{Name: "a", Window: &window.Policy{Limit: -1}}), `guard: rule "a": window: Limit must be`},
		{"clear of a window", rules(guard.Rule{OnSuccess: guard.Clear, Window: &window.Policy{}}), "OnSuccess must not be Clear unless the policy is a lockout"},
		{"action", rules(guard.Rule{Action: 9, Lockout: policy()}), "guard: rule 0: Action must be Refuse, StepUp or Shadow, got 9"},
		{"step up", rules(guard.Rule{Action: guard.StepUp, Lockout: policy()}), "guard: rule 0: Action must not be StepUp unless Per is Subject"},
		{"on success", rules(guard.Rule{OnSuccess: 9, Lockout: policy()}), "guard: rule 0: OnSuccess must be ByKey or Clear, got 9"},
		{"width of everyone", rules(guard.Rule{Per: guard.Everyone, V4: 24, Lockout: policy()}), "guard: rule 0: V4 and V6 must be 0 unless Per is Network, got 24 and 0"},
		{"v4", rules(guard.Rule{V4: 33, Lockout: policy()}), "guard: rule 0: V4 must be 1 to 32, or -1, got 33"},
		{"v6", rules(guard.Rule{V6: 65, Lockout: policy()}), "guard: rule 0: V6 must be 1 to 64, or -1, got 65"},
		{"no family", rules(guard.Rule{V4: -1, V6: -1, Lockout: policy()}), "guard: rule 0: V4 and V6 must not both be -1"},
		{"clear for everyone", rules(guard.Rule{Per: guard.Everyone, OnSuccess: guard.Clear, Lockout: policy()}), "guard: rule 0: OnSuccess must not be Clear for a key that many share"},
		{"clear for a subject", rules(guard.Rule{Per: guard.Subject, OnSuccess: guard.Clear, Lockout: policy()}), "OnSuccess must not be Clear"},
		{"clear for a /48", rules(guard.Rule{V4: -1, V6: 48, OnSuccess: guard.Clear, Lockout: policy()}), "OnSuccess must not be Clear"},
		{"name", rules(guard.Rule{Name: "a b", Lockout: policy()}), `guard: rule name must be 1 to 64 letters, digits or any of "._/-", got "a b"`},
		{"long name", rules(guard.Rule{Name: strings.Repeat("a", 65), Lockout: policy()}), `guard: rule name must be 1 to 64`},
		{"name twice", rules(guard.Rule{Name: "a", Lockout: policy()}, guard.Rule{Name: "a", Lockout: policy()}), `guard: rule name "a" must be unique`},
		{"leases", rules(guard.Rule{Name: "a", Lockout: policy(lease(time.Second))}, guard.Rule{Name: "b", Lockout: policy(lease(2 * time.Second))}),
			`guard: rule "b": Lease must be the same in all rules, got 1s and 2s`},
		{"lease beyond a window", rules(guard.Rule{Name: "a", Lockout: policy(lease(time.Minute))}, guard.Rule{Name: "b", Lockout: policy(func(p *lockout.Policy) { p.Window = time.Second })}),
			`guard: rule "b": lockout: Lease must be positive and at most Window (1s), got 1m0s`},
		{"exempt all", guard.Config{Rules: []guard.Rule{{Lockout: policy()}}, Exempt: []netip.Prefix{prefix("::/0")}}, "guard: Exempt[0] must not be ::/0: it exempts everyone"},
		{"exempt mapped all", guard.Config{Rules: []guard.Rule{{Lockout: policy()}}, Exempt: []netip.Prefix{prefix("::ffff:0:0/96")}}, "guard: Exempt[0] must not be 0.0.0.0/0"},
		{"host bits", guard.Config{Rules: []guard.Rule{{Lockout: policy()}}, Blocked: []netip.Prefix{prefix("10.0.0.1/8")}}, "guard: Blocked[0] must have no bits beyond its width, got 10.0.0.1/8: write 10.0.0.0/8"},
		{"zero prefix", guard.Config{Rules: []guard.Rule{{Lockout: policy()}}, Blocked: []netip.Prefix{{}}}, "guard: Blocked[0] must be a valid prefix"},
		{"half mapped", guard.Config{Rules: []guard.Rule{{Lockout: policy()}}, Blocked: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("::ffff:0:0"), 90).Masked()}}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := guard.New(row.config)
			switch {
			case row.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case row.want != "" && (err == nil || !strings.HasPrefix(err.Error(), row.want) && !strings.Contains(err.Error(), row.want)):
				t.Errorf("error %v, want %q", err, row.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	g, err := guard.New(rules(
		guard.Rule{Lockout: policy()},
		guard.Rule{Lockout: policy()},
		guard.Rule{V4: -1, V6: 48, Lockout: policy()},
		guard.Rule{V4: 24, V6: -1, Lockout: policy()},
		guard.Rule{V4: 24, V6: 48, Lockout: policy()},
		guard.Rule{Per: guard.Everyone, Lockout: policy()},
		guard.Rule{Name: "network-2", Lockout: policy()},
	))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"network", "network-3", "network6/48", "network4/24", "network4/24-6/48", "everyone", "network-2"}
	for i, r := range g.Rules() {
		if r.Name != want[i] {
			t.Errorf("rule %d is named %q, want %q", i, r.Name, want[i])
		}
	}
}

// The caller may do with its Config what it likes afterwards.
func TestConfigIsCopied(t *testing.T) {
	p := policy()
	c := rules(guard.Rule{Name: "a", Lockout: p})
	g, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p.FreeFailures, c.Rules[0].Name = 77, "b"
	if r := g.Rules()[0]; r.Name != "a" || r.Lockout.FreeFailures != 5 {
		t.Errorf("rule is now %q with %d free failures", r.Name, r.Lockout.FreeFailures)
	}
}

func TestLease(t *testing.T) {
	short := func(p *lockout.Policy) { p.Window = 20 * time.Second }
	g, err := guard.New(rules(guard.Rule{Lockout: policy()}, guard.Rule{Lockout: policy(short)}))
	if err != nil {
		t.Fatal(err)
	}
	if g.Lease() != 20*time.Second {
		t.Errorf("lease %v, want the shortest window, 20s", g.Lease())
	}
}

func TestParsePer(t *testing.T) {
	for _, row := range []struct {
		in   string
		want guard.Rule
		err  string
	}{
		{"network", guard.Rule{}, ""},
		{"everyone", guard.Rule{Per: guard.Everyone}, ""},
		{"pair", guard.Rule{Per: guard.Pair}, ""},
		{"network4/24", guard.Rule{V4: 24, V6: -1}, ""},
		{"network6/48", guard.Rule{V4: -1, V6: 48}, ""},
		{"network6/65", guard.Rule{}, `guard: Per network6 must have 1 to 64 bits, got "65"`},
		{"network4/0", guard.Rule{}, `guard: Per network4 must have 1 to 32 bits, got "0"`},
		{"network4/+8", guard.Rule{}, `guard: Per network4 must have 1 to 32 bits, got "+8"`},
		{"address", guard.Rule{}, `guard: Per must be network, network4/BITS, network6/BITS, subject, challenge, pair or everyone, got "address"`},
	} {
		got, err := guard.ParsePer(row.in)
		if got != row.want || (err == nil) != (row.err == "") || err != nil && err.Error() != row.err {
			t.Errorf("ParsePer(%q) = %+v, %v; want %+v, %q", row.in, got, err, row.want, row.err)
		}
		if err != nil {
			continue
		}
		got.Window = &window.Policy{}
		c, err := guard.Config{Rules: []guard.Rule{got}}.Complete()
		if err != nil || c.Rules[0].Charges() != row.in {
			t.Errorf("%q charges %q, %v", row.in, c.Rules[0].Charges(), err)
		}
	}
}

func TestFamilies(t *testing.T) {
	for _, row := range []struct {
		name   string
		rule   guard.Rule
		v4, v6 bool
	}{
		{"both", guard.Rule{}, true, true},
		{"everyone", guard.Rule{Per: guard.Everyone}, true, true},
		{"only IPv6", guard.Rule{V4: -1, V6: 48}, false, true},
		{"only IPv4", guard.Rule{V4: 24, V6: -1}, true, false},
		{"shadow", guard.Rule{Action: guard.Shadow}, false, false},
	} {
		row.rule.Lockout = policy()
		g, err := guard.New(rules(row.rule))
		if err != nil {
			t.Fatal(err)
		}
		if v4, v6 := g.Families(); v4 != row.v4 || v6 != row.v6 {
			t.Errorf("%s: limits IPv4 %t, IPv6 %t; want %t, %t", row.name, v4, v6, row.v4, row.v6)
		}
	}
}

// Room is that of one table, and of how many there are.
func TestRoom(t *testing.T) {
	lock := &lockout.Policy{FreeFailures: 1, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Minute, Capacity: 7}
	for _, tt := range []struct {
		rule         guard.Rule
		keys, tables int
	}{
		{guard.Rule{Lockout: lock}, 7, 2},
		{guard.Rule{V6: -1, Lockout: lock}, 7, 1},
		{guard.Rule{V4: -1, V6: 48, Lockout: lock}, 7, 1},
		{guard.Rule{Per: guard.Subject, Lockout: lock}, 7, 1},
		{guard.Rule{Window: &window.Policy{}}, window.DefaultCapacity, 2},
		{guard.Rule{Throttle: &throttle.Policy{Sources: 9}}, 9, 1},
	} {
		g, err := guard.New(rules(tt.rule))
		if err != nil {
			t.Fatal(err)
		}
		if keys, tables := g.Rules()[0].Room(); keys != tt.keys || tables != tt.tables {
			t.Errorf("%+v: %d keys, %d tables, want %d, %d", tt.rule, keys, tables, tt.keys, tt.tables)
		}
	}
}
