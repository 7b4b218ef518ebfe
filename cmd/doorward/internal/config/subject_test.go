package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doorward/doorward/cmd/doorward/internal/subject"
)

func TestSubjectErrors(t *testing.T) {
	const w, l = "window: {}", "lockout: {free_failures: 5, window: 1m, first_lockout: 1m, max_lockout: 1h}"
	missing := func(what, example, why string) string {
		return "4:5: doors[0]." + what + ": is missing: must say where requests name the " + what + ", such as {form: " + example + "}: " + why
	}
	for _, row := range []struct{ text, want string }{
		// Where a subject stands.
		{door1("subject: username"), "6:14: doors[0].subject: must be a mapping with form, json, header, query, basic_auth, path, got username"},
		{door1("subject: {}"), "6:14: doors[0].subject: must have exactly one of form, json, header, query, basic_auth and path, got 0"},
		{door1("subject: {form: a, json: b}"), "6:14: doors[0].subject: must have exactly one of form, json, header, query, basic_auth and path, got 2"},
		{door1("subject: {basic_auth: false}"), "6:27: doors[0].subject.basic_auth: must be true, got false"},
		{door1("subject: {from: a}"), "6:15: doors[0].subject.from: unknown key, did you mean form?"},
		{door1("subject: {form: 5}"), "6:21: doors[0].subject.form: must be text, got 5"},
		{door1("subject: {form: \"\"}"), `6:21: doors[0].subject.form: must not be empty, got ""`},
		{door1("subject: {form: a b}"), `6:21: doors[0].subject.form: must be a field name in plain ASCII, got "a b"`},
		{door1("subject: {path: /verify}"), `6:21: doors[0].subject.path: must have a wildcard like {id}, got "/verify"`},
		{door1("subject: {header: Cookie}"), `6:23: doors[0].subject.header: must be a header that is the application's own, got "Cookie"`},
		{door1("challenge: {query: a b}"), `6:24: doors[0].challenge.query: must be a field name in plain ASCII, got "a b"`},
		{door1("subject: {form: a}\nchallenge: {json: b}"), "7:16: doors[0].challenge: must not be in a form when the subject is in JSON, or the other way about: no body is both"},
		{door1("subject: {json: a}\nchallenge: {form: b}"), "7:16: doors[0].challenge: must not be in a form when the subject is in JSON, or the other way about: no body is both"},
		{door1("subject_optional: true"), "6:23: doors[0].subject_optional: must not be true without subject"},
		{door1("subject_optional: false"), ""},
		// Rules that charge what has no name.
		{rule("{per: subject, " + l + "}"), missing("subject", "username", "rules[0] charges subjects")},
		{rule("{per: network, " + l + "}\n  - {per: pair, " + l + "}"), missing("subject", "username", "rules[1] charges pairs")},
		{rule("{per: challenge, " + l + "}\n  - {per: pair, " + w + "}"), missing("subject", "username", "rules[1] charges pairs") + "|" +
			missing("challenge", "challenge_id", "rules[0] charges challenges")},
		{rule("{per: device, " + l + "}"), missing("subject", "username", "rules[0] charges devices") +
			"|7:15: doors[0].rules[0].per: must not be device without devices: {key_files: [FILE]} at the top of the file"},
		{door1("preset: login"), missing("subject", "username", "preset login charges subjects")},
		{door1("preset: one_time_code\nsubject: {form: a}"), missing("challenge", "challenge_id", "preset one_time_code charges challenges")},
		{door1("preset: signup"), ""},
		{door1("preset: login\nsubject: {}"), "7:14: doors[0].subject: must have exactly one of form, json, header, query, basic_auth and path, got 0"},
		{door1("preset: login\nsubject: 1"), "7:14: doors[0].subject: must be a mapping with form, json, header, query, basic_auth, path, got 1"},
		{door1("preset: signup\nrules: [{per: network, " + w + "}]"), "6:13: doors[0].preset: must not be given with rules"},
		{door1("preset: Login"), "6:13: doors[0].preset: must be device_code, device_start, login, one_time_code, pairing, password_reset, pushed_authorization, recovery or signup, got Login"},
		// Policies.
		{rule("{per: network, " + w + ", " + l + "}"), "7:9: doors[0].rules[0]: must have exactly one of lockout, throttle and window, got 2"},
		{rule("{per: network, throttle: {}, " + w + "}"), "7:9: doors[0].rules[0]: must have exactly one of lockout, throttle and window, got 2"},
		{rule("{per: network, throtle: {}}"), "7:24: doors[0].rules[0].throtle: unknown key, did you mean throttle?"},
		{rule("{per: everyone, throttle: {}}"), "7:15: doors[0].rules[0].per: must not be everyone for a throttle: its global is the ceiling for everyone, with per network"},
		{rule("{per: network, throttle: {per_source: 65536}}"), "7:47: doors[0].rules[0].throttle.per_source: must be at most 65535, got 65536"},
		{rule("{per: network, throttle: {global: 0}}"), "7:43: doors[0].rules[0].throttle.global: must be positive (leave it out for the default), got 0"},
		{rule("{per: network, throttle: {window: 1, sources: 99999999999}}"), "7:43: doors[0].rules[0].throttle.window: must be a duration such as 1m or 24h, got 1|" +
			"7:55: doors[0].rules[0].throttle.sources: must be at most 1073741824, got 99999999999"},
		{rule("{per: network, window: {limit: 65536, sliding: true, capacity: 99999999999}}"), "7:40: doors[0].rules[0].window.limit: must be 1 to 65535, got 65536|" +
			"7:72: doors[0].rules[0].window.capacity: must be 1 to 1073741824, got 99999999999"},
		{rule("{per: network, window: {limit: 65536}}"), ""},
		{rule("{per: network, window: {window: 0s}}"), "7:41: doors[0].rules[0].window.window: must be positive (leave it out for the default), got 0s"},
		{rule("{per: network, sliding: true, window: {}}"), "7:24: doors[0].rules[0].sliding: unknown key, it belongs in window"},
		{rule("{per: network, on_success: clear, window: {}}"), "7:36: doors[0].rules[0].on_success: must not be clear unless the policy is a lockout"},
		{rule("{per: network, step_up: true, throttle: {}}"), "7:33: doors[0].rules[0].step_up: must not be true unless per is subject"},
		{rule("{per: network, throttle: {}}\n  - {per: network, " + w + "}\n  - {per: network, " + l + "}"), ""},
	} {
		_, err := Parse(name, []byte(row.text), Overrides{})
		var want []string
		if row.want != "" {
			want = strings.Split(row.want, "|")
		}
		wantErrors(t, row.text, err, want...)
	}
}

func TestSubjectWarnings(t *testing.T) {
	for text, want := range map[string]string{
		door1("subject: {form: a}"):                                                                      `door "login": the subject is read and no rule charges it`,
		door1("subject: {form: a}\nchallenge: {form: b}\npreset: login"):                                 `door "login": the challenge is read and no rule charges it`,
		door1("subject: {form: a}\npreset: login"):                                                       "",
		door1("subject: {form: a}\nchallenge: {form: b}\nsubject_optional: true\npreset: one_time_code"): `door "login": requests that name no subject get a fresh budget with each challenge that they name`,
		strings.NewReplacer("per: pair", "per: subject", "realm: codes", "realm: accounts, subject: {query: q}", "codes: {", "#").Replace(realm): `realm "accounts": IPv4 callers are not limited: no rule that refuses applies to them|realm "accounts": IPv6 callers are not limited: no rule that refuses applies to them`,
	} {
		if got := strings.Join(mustParse(t, text).Warnings(), "|"); got != want {
			t.Errorf("warnings %q, want %q of\n%s", got, want, text)
		}
	}
}

func TestDeviceErrors(t *testing.T) {
	login := door1("subject: {form: a}\npreset: login")
	for _, row := range []struct{ text, want string }{
		{"{key_files: [testdata/new.key]}", ""},
		{"{key_files: [testdata/old.key, testdata/hex.key], ttl: 1d}", ""},
		{"{key_files: [testdata/new.key], cookie: a b}", `10:50: cookie: must be the name of a cookie, got "a b"`},
		{"{key_files: [testdata/new.key], ttl: 1500ms}", "10:47: ttl: must be whole seconds, got 1.5s"},
		{"{key_files: [testdata/new.key], ttl: 0s}", "10:47: ttl: must be positive (leave it out for the default), got 0s"},
		{"{}", "10:10: key_files: is missing: must be files with one key each, newest first"},
		{"{key_files: []}", "10:22: key_files: must be files with one key each, newest first"},
		{"{key_files: testdata/new.key}", "10:22: key_files: must be a list, got testdata/new.key"},
		{"{key_files: [testdata/none.key]}", "10:23: key_files[0]: must be a file that can be read (no such file or directory), got testdata/none.key"},
		{"{key_files: [testdata]}", "10:23: key_files[0]: must be a file that can be read (not a regular file), got testdata"},
		{"{key_files: [/dev/zero]}", "10:23: key_files[0]: must be a file that can be read (not a regular file), got /dev/zero"},
		{"{key_files: [testdata/short.key]}", "10:23: key_files[0]: must hold a key of at least 32 bytes in base64, there are 31, got testdata/short.key"},
		{"{key_files: [testdata/zero.key]}", "10:23: key_files[0]: must hold a random key, not zeros, got testdata/zero.key"},
		{"{key_files: [testdata/two.key]}", "10:23: key_files[0]: must hold one line of base64, as openssl rand -base64 32 prints, got testdata/two.key"},
		{"{key_files: [testdata/text.key]}", "10:23: key_files[0]: must hold one line of base64, as openssl rand -base64 32 prints, got testdata/text.key"},
		{"{key_files: [testdata/long.key]}", "10:23: key_files[0]: must hold one line of base64, as openssl rand -base64 32 prints, got testdata/long.key"},
		{"{key_files: [testdata/empty.key]}", "10:23: key_files[0]: must hold a key of at least 32 bytes in base64, there are 0, got testdata/empty.key"},
		{"{key_files: [testdata/new.key, testdata/old.key, testdata/new.key]}", "10:59: key_files[2]: must hold another key than the files before it"},
	} {
		text := login + "devices: " + row.text + "\n"
		_, err := Parse(name, []byte(text), Overrides{})
		if row.want == "" {
			wantErrors(t, text, err)
			continue
		}
		place, rest, _ := strings.Cut(row.want, " ")
		wantErrors(t, text, err, place+" devices."+rest)
	}
	const used = "9:10: devices: must be used by a rule with per: device, as preset: login has one"
	text := good + "devices: {key_files: [testdata/new.key]}\n"
	_, err := Parse(name, []byte(text), Overrides{})
	wantErrors(t, text, err, used)
}

// Key files are looked for beside the configuration file. Keys do not print.
func TestDeviceKeys(t *testing.T) {
	text := door1("subject: {form: a}\npreset: login") + "devices: {key_files: [new.key, old.key, hex.key]}\n"
	c, err := Parse(filepath.Join("testdata", name), []byte(text), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	d := c.Devices
	if len(d.Keys) != 3 || len(d.Keys[0]) != 32 || len(d.Keys[1]) != 40 || len(d.Keys[2]) != 48 || d.Cookie != "doorward_device" || d.TTL != 90*day {
		t.Errorf("got %d keys of %d, %d and %d bytes, %q, %v", len(d.Keys), len(d.Keys[0]), len(d.Keys[1]), len(d.Keys[2]), d.Cookie, d.TTL)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, *d); strings.Contains(got, "1 2 3") || strings.Contains(got, "0x1, 0x2") || strings.Contains(got, "010203") || strings.Contains(got, `\x01\x02`) {
			t.Errorf("%s prints a key: %s", verb, got)
		}
	}
	if c.Doors[0].Subject != (subject.Source{Form: "a"}) {
		t.Errorf("subject %+v", c.Doors[0].Subject)
	}
}
