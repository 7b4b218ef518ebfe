package config

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

func TestFlagsAreYAML(t *testing.T) {
	for _, row := range []struct {
		name  string
		flags Flags
		yaml  string
	}{
		{"least", Flags{Upstream: "http://127.0.0.1:3000", Doors: []string{"POST /login"}, Succeeded: "302"}, `
upstream: http://127.0.0.1:3000
doors:
  - name: default
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
`},
		{"all", Flags{
			Overrides: Overrides{Listen: ":0", LogFormat: "json", LogLevel: "error"}, Upstream: "https://app/",
			Doors: []string{"POST /login", "POST /api/token"}, Succeeded: "200, 3xx,cookie:session,location:/home,header", Failed: "401,403-404",
			BasicAuth: true, IgnoreCase: true, Exempt: []string{"192.0.2.0/24"}, Block: []string{"::/0", "198.51.100.0/24"},
			TrustedProxies: []string{"10.0.0.0/8", "2001:db8::/32"}, ClientHeader: "forwarded",
		}, `
listen: ":0"
upstream: https://app
clients: {header: forwarded, trusted_proxies: [10.0.0.0/8, "2001:db8::/32"]}
doors:
  - name: default
    routes: [POST /login, POST /api/token]
    ignore_case: true
    when: basic_auth
    outcome:
      failed: {status: [401, 403-404]}
      succeeded: {status: [200, 3xx], set_cookie: session, location: /home}
      header: true
    exempt: [192.0.2.0/24]
    blocked: ["::/0", 198.51.100.0/24]
log: {format: json, level: error}
`},
		{"default header", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", TrustedProxies: []string{"10.0.0.0/8"}}, `
upstream: http://a
clients: {trusted_proxies: [10.0.0.0/8]}
doors: [{name: default, routes: [/], outcome: {header: true}}]
`},
		{"hops", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", Hops: 2}, `
upstream: http://a
clients: {hops: 2}
doors: [{name: default, routes: [/], outcome: {header: true}}]
`},
		{"preset", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", Preset: "signup"}, `
upstream: http://a
doors: [{name: default, routes: [/], preset: signup, outcome: {header: true}}]
`},
		{"form", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", Preset: "one_time_code", Subject: "form:user[name]", Challenge: "query:id"}, `
upstream: http://a
doors: [{name: default, routes: [/], preset: one_time_code, subject: {form: "user[name]"}, challenge: {query: id}, outcome: {header: true}}]
`},
		{"json", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", Preset: "login", Subject: "json:user.email"}, `
upstream: http://a
doors: [{name: default, routes: [/], preset: login, subject: {json: user.email}, outcome: {header: true}}]
`},
		{"path", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", Preset: "login", Subject: "path:/verify/{id}"}, `
upstream: http://a
doors: [{name: default, routes: [/], preset: login, subject: {path: "/verify/{id}"}, outcome: {header: true}}]
`},
		{"header", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", Preset: "login", Subject: "header:X-User"}, `
upstream: http://a
doors: [{name: default, routes: [/], preset: login, subject: {header: X-User}, outcome: {header: true}}]
`},
		{"basic", Flags{Upstream: "http://a", Doors: []string{"/"}, Succeeded: "header", BasicAuth: true, Preset: "login", Subject: "basic_auth"}, `
upstream: http://a
doors: [{name: default, routes: [/], when: basic_auth, preset: login, subject: {basic_auth: true}, outcome: {header: true}}]
`},
	} {
		c, err := row.flags.Config()
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if want := mustParse(t, row.yaml); !reflect.DeepEqual(c, want) {
			t.Errorf("%s:\nflags %+v\nyaml  %+v", row.name, c, want)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	right := Flags{Upstream: "http://a", Doors: []string{"POST /login"}, Succeeded: "302"}
	with := func(change func(*Flags)) Flags {
		f := right
		change(&f)
		return f
	}
	for _, row := range []struct {
		flags Flags
		want  []string
	}{
		{right, nil},
		{with(func(f *Flags) { f.Upstream = "a" }), []string{`--upstream: must be a URL such as http://127.0.0.1:3000, got "a"`}},
		{with(func(f *Flags) { f.Doors = []string{"/a", "POST b"} }), []string{`--door "POST b": path must start with "/"`}},
		{with(func(f *Flags) { f.Succeeded = "" }), []string{"--succeeded: is missing: " + noSuccess}},
		{with(func(f *Flags) { f.Succeeded = "ok" }), []string{`--succeeded: must be of statuses, cookie:NAME, location:PREFIX and header, got "ok"`}},
		{with(func(f *Flags) { f.Succeeded = "cookie:" }), []string{`--succeeded: must have a value after "cookie:"`}},
		{with(func(f *Flags) { f.Succeeded = "cookie:a=b" }), []string{`--succeeded: must be a cookie name, got "a=b"`}},
		{with(func(f *Flags) { f.Succeeded = "100" }), []string{"--succeeded: must be of final statuses, 200 to 599, got 100-100"}},
		{with(func(f *Flags) { f.Failed = "3xx" }), []string{"--succeeded: must have a status that neither --failed nor void.status lists, got 302"}},
		{with(func(f *Flags) { f.Failed = "never" }), []string{`--failed: must be statuses from 200 to 599 such as 302, 2xx or 200-299, got "never"`}},
		{with(func(f *Flags) { f.Listen = "8080" }), []string{`--listen: must be an address and a port such as 127.0.0.1:8080, or unix:/PATH, got "8080"`}},
		{with(func(f *Flags) { f.LogFormat, f.LogLevel = "xml", "loud" }), []string{`--log-format: must be text or json, got "xml"`, `--log-level: must be debug, info, warn or error, got "loud"`}},
		{with(func(f *Flags) { f.TrustedProxies = []string{"10.0.0.1", "0.0.0.0/0"} }), []string{
			`--trusted-proxy "10.0.0.1": must be a network, for one address 10.0.0.1/32`, `--trusted-proxy "0.0.0.0/0": must not be 0.0.0.0/0: it trusts everyone`}},
		{with(func(f *Flags) { f.ClientHeader = "X-Real-IP" }), []string{"--client-header: --trusted-proxy, --hops or trust_unix must be set with --client-header X-Real-Ip: anyone can send it"}},
		{with(func(f *Flags) { f.Preset = "logn" }), []string{`--preset: must be device_code, device_start, login, one_time_code, pairing, password_reset, pushed_authorization, recovery or signup, got "logn"`}},
		{with(func(f *Flags) { f.Preset = "login" }), []string{"--subject: is missing: must say where requests name the subject, such as form:username: preset login charges subjects"}},
		{with(func(f *Flags) { f.Preset, f.Subject = "one_time_code", "form:a" }), []string{"--challenge: is missing: must say where requests name the challenge, such as form:challenge_id: preset one_time_code charges challenges"}},
		{with(func(f *Flags) { f.Subject = "username" }), []string{`--subject: must be form:NAME, json:PATH, header:NAME, query:NAME, path:PATTERN or basic_auth, got "username"`}},
		{with(func(f *Flags) { f.Subject = "form:" }), []string{`--subject: must be form:NAME, json:PATH, header:NAME, query:NAME, path:PATTERN or basic_auth, got "form:"`}},
		{with(func(f *Flags) { f.Subject = "basic_auth:x" }), []string{`--subject: must be form:NAME, json:PATH, header:NAME, query:NAME, path:PATTERN or basic_auth, got "basic_auth:x"`}},
		{with(func(f *Flags) { f.Subject, f.Challenge = "path:/a", "form:a b" }), []string{`--subject: must have a wildcard like {id}, got "/a"`, `--challenge: must be a field name in plain ASCII, got "a b"`}},
		{with(func(f *Flags) { f.Hops = 33 }), []string{"--hops: must be 1 to 32, got 33"}},
		{with(func(f *Flags) { f.Hops = -1 }), []string{"--hops: must be 1 to 32, got -1"}},
		{with(func(f *Flags) { f.Hops, f.TrustedProxies = 2, []string{"10.0.0.0/8"} }), []string{"--hops: must be 0 with --trusted-proxy, got 2"}},
		{with(func(f *Flags) { f.Exempt, f.Block = []string{"::/0"}, []string{"x"} }), []string{
			`--block "x": must be a network such as 192.0.2.0/24 or 2001:db8::/32`, `--exempt "::/0": must not be ::/0: it exempts everyone`}},
	} {
		_, err := row.flags.Config()
		var list Errors
		if err != nil && !errors.As(err, &list) {
			t.Errorf("error of type %T: %v", err, err)
		}
		var got []string
		for _, e := range list {
			got = append(got, e.Error())
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("errors\n\t%q\nwant\n\t%q\nof %+v", got, row.want, row.flags)
		}
	}
}
