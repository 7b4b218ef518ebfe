package config

import (
	"strings"
	"testing"

	"github.com/doorward/doorward/guard"
)

// realm is a file with two realms, one door in each and one in none.
const realm = `upstream: http://a
realms:
  accounts:
    rules: [{per: pair, window: {limit: 5}}]
  codes: {preset: pairing}
doors:
  - {name: login, routes: [/login], realm: accounts, subject: {form: user}, outcome: {header: true}}
  - {name: code, routes: [/code], realm: codes, outcome: {header: true}}
  - {name: other, routes: [/other], outcome: {header: true}}
`

func TestRealmErrors(t *testing.T) {
	change := strings.NewReplacer
	const overlap = "two doors must not keep one route, except in one realm"
	for _, row := range []struct {
		change *strings.Replacer
		want   string
	}{
		{change(), ""},
		// One realm keeps a route twice, two do not.
		{change("[/code]", "[/login/x, /login]", "realm: codes", "realm: accounts, subject: {query: q}", "codes: {", "#"), ""},
		{change("[/code]", "[/login]"), `8:27: doors[1].routes[0]: "/login" overlaps with "/login" of door "login": ` + overlap},
		{change("[/other]", "[/login]"), `9:28: doors[2].routes[0]: "/login" overlaps with "/login" of door "login": ` + overlap},
		// A realm has its rules, and the door has none.
		{change("realm: accounts,", "realm: acounts,"), "7:44: doors[0].realm: must be a name under realms (accounts, codes), got acounts, did you mean accounts?"},
		{change("realm: accounts, subject: {form: user},", ""), "4:5: realms.accounts: must be the realm of a door, such as realm: accounts"},
		{change("realms:\n", "", "  accounts:\n", "", "    rules: [{per: pair, window: {limit: 5}}]\n", "", "  codes: {preset: pairing}\n", "", "realm: codes, ", ""),
			"3:44: doors[0].realm: must be a name under realms, which is missing, got accounts"},
		{change("realm: codes", "realm: codes, rules: [], exempt: [], preset: login, blocked: [1]"), "8:56: doors[1].rules: must not be given with realm: the realm has its own|" +
			"8:68: doors[1].exempt: must not be given with realm: the realm has its own|" +
			"8:80: doors[1].preset: must not be given with realm: the realm has its own|" +
			"8:96: doors[1].blocked: must not be given with realm: the realm has its own|" +
			"8:97: doors[1].blocked[0]: must be a network such as 192.0.2.0/24 or 2001:db8::/32, got 1"},
		{change("realm: codes", "realm: 5"), "8:42: doors[1].realm: must be text, got 5"},
		{change("codes: {preset: pairing}", "codes: {}"), ""}, // the default rules
		{change("preset: pairing", "preset: pairng"), "5:19: realms.codes.preset: must be device_code, device_start, login, one_time_code, pairing, password_reset, pushed_authorization, recovery or signup, got pairng"},
		{change("preset: pairing", "preset: pairing, rules: [{per: network, window: {}}]"), "5:19: realms.codes.preset: must not be given with rules"},
		{change("preset: pairing", "rules: []"), "5:18: realms.codes.rules: must not be empty (leave it out for the default rules)"},
		{change("preset: pairing", "exempt: [0.0.0.0/0]"), "5:20: realms.codes.exempt[0]: must not be 0.0.0.0/0: it exempts everyone"},
		{change("preset: pairing", "present: pairing"), "5:11: realms.codes.present: unknown key, did you mean preset?"},
		{change("codes: {preset: pairing}", "codes:"), "5:9: realms.codes: must be a mapping with preset, rules, exempt, blocked, when_store_is_away, got nothing"},
		{change("codes: {preset", "a.b: {preset"), `5:3: realms.a.b: must be named with 1 to 64 letters, digits or any of "_/-"|` +
			"8:42: doors[1].realm: must be a name under realms (accounts), got codes"},
		{change("  codes: {preset: pairing}", "  codes: {}\n  codes: {}"), "6:3: realms.codes: must be there once, line 5 has it too"},
		{change("{per: pair, window: {limit: 5}}", "{per: pair, window: {limit: x}}, {}"), "4:41: realms.accounts.rules[0].window.limit: must be a whole number, got x|" +
			"4:46: realms.accounts.rules[1].per: is missing: must be network, network4/BITS, network6/BITS, subject, challenge, pair, device or everyone|" +
			"4:46: realms.accounts.rules[1]: must have exactly one of lockout, throttle and window, got 0"},
		// Tokens and logs name guards by the realm or the door.
		{change("name: other", "name: codes"), `9:12: doors[2].name: must not be the name of a realm that the door is not in, got "codes"`},
		{change("name: login", "name: codes"), ""},
		{change("name: code,", "name: codes,"), ""},
		// Every door of a realm names what its rules charge.
		{change("subject: {form: user}, ", ""), "7:5: doors[0].subject: is missing: must say where requests name the subject, such as {form: username}: realm accounts charges pairs"},
		{change("realm: codes", "realm: accounts", "codes: {", "#"), "8:5: doors[1].subject: is missing: must say where requests name the subject, such as {form: username}: realm accounts charges pairs"},
	} {
		text := row.change.Replace(realm)
		_, err := Parse(name, []byte(text), Overrides{})
		var want []string
		if row.want != "" {
			want = strings.Split(row.want, "|")
		}
		wantErrors(t, text, err, want...)
	}
	for text, want := range map[string]string{
		top("realms: [a]"):           "2:9: realms: must be a mapping from names, got a list",
		top("realms: {}"):            "",
		top("realms:"):               "2:8: realms: must be a mapping from names, got nothing",
		top("realms: {<<: {a: {}}}"): "2:10: realms.<<: must not merge another mapping: write its keys out",
	} {
		_, err := Parse(name, []byte(text), Overrides{})
		if want == "" {
			wantErrors(t, text, err)
		} else {
			wantErrors(t, text, err, want)
		}
	}
}

// Rules of a realm stand once and count once.
func TestRealmRules(t *testing.T) {
	c := mustParse(t, strings.NewReplacer("realm: codes", "realm: accounts, subject: {query: q}", "codes: {", "#").Replace(realm))
	if n := c.Rules(); n != 1+7 {
		t.Errorf("%d rules, want 1 of the realm and 7 of the third door", n)
	}
	for i, want := range []string{"accounts", "accounts", "other"} {
		if got := c.Doors[i].GuardName(); got != want {
			t.Errorf("guard of door %d is called %q, want %q", i, got, want)
		}
	}
}

// Presets are those of package guard. Known devices have rules where devices are known.
func TestPresets(t *testing.T) {
	const devices = "devices: {key_files: [testdata/new.key]}\n"
	for preset, want := range guard.Presets() {
		door := door1("subject: {form: user}\nchallenge: {form: code}\npreset: " + preset)
		with := len(want.Rules)
		without := 0
		for _, r := range want.Rules {
			if r.Per != guard.Device {
				without++
			}
		}
		if n := mustParse(t, door).Rules(); n != without {
			t.Errorf("%s: %d rules, want %d", preset, n, without)
		}
		if with > without {
			if n := mustParse(t, door+devices).Rules(); n != with {
				t.Errorf("%s with devices: %d rules, want %d", preset, n, with)
			}
		}
	}
}
