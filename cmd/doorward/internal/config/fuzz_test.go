package config

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// Nothing panics, every error says where, and whatever is accepted builds.
func FuzzConfig(f *testing.F) {
	f.Add(full)
	f.Add(good)
	f.Add(lock("window: 5"))
	f.Add("a: &a [*a]")
	f.Add("? {a: b}\n: c\n")
	f.Add("doors: [{rules: [{lockout: {}}, 1, {per: network}], routes: [5]}, 1]\nclients: {trusted_proxies: [1, {}]}")
	f.Add(realm)
	f.Add(door1("subject: {form: a, json: b}\nchallenge: {path: /}\npreset: login\nrules: [{window: {}, throttle: {}}]"))
	f.Add("%YAML 1.1\n---\n!!map {<<: {a: b}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(name, []byte(text), Overrides{})
		if err != nil {
			checkErrors(t, text, err)
			return
		}
		build(t, c)
	})
}

func checkErrors(t *testing.T, text string, err error) {
	var list Errors
	if !errors.As(err, &list) || len(list) == 0 {
		t.Fatalf("error of type %T: %v", err, err)
	}
	lines := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029") + 2
	for i, e := range list {
		switch {
		case e.File != name || e.Flag != "" || e.Msg == "":
			t.Errorf("error %+v does not say what or where", e)
		case e.Line < 0 || e.Line > lines || (e.Line == 0) != (e.Col == 0):
			t.Errorf("error %v is at %d:%d of %d lines", e, e.Line, e.Col, lines)
		case i > 0 && e.Line < list[i-1].Line:
			t.Errorf("error %v comes after %v", e, list[i-1])
		case strings.ContainsAny(e.Error(), "\n\r\x1b"):
			t.Errorf("error %q is not one line", e.Error())
		}
	}
}

// build does what serve does with a Config, without the memory that it asks for.
func build(t *testing.T, c Config) {
	if len(c.Listen) == 0 || len(c.Upstreams) == 0 || len(c.Doors) == 0 {
		t.Fatalf("accepted without what is needed: %+v", c)
	}
	if _, err := clientip.New(c.Clients); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Doors {
		m, err := door.New(d.Door)
		if err != nil {
			t.Fatal(err)
		}
		m.Match(door.Request{Method: http.MethodPost, Host: "a", Target: "/login"})
		d.Guard.Rules = slices.Clone(d.Guard.Rules)
		for i := range d.Guard.Rules {
			small(&d.Guard.Rules[i])
		}
		g, err := guard.New(d.Guard)
		if err != nil {
			t.Fatal(err)
		}
		if c.Timeouts.Response <= 0 || c.Timeouts.Response >= g.Lease() {
			t.Fatalf("the upstream has %v, the lease is %v", c.Timeouts.Response, g.Lease())
		}
		if _, err := outcome.New(d.Outcome); err != nil {
			t.Fatal(err)
		}
		for _, from := range []subject.Source{d.Subject, d.Challenge} {
			if from == (subject.Source{}) {
				continue
			}
			if _, err := subject.New(from); err != nil {
				t.Fatal(err)
			}
		}
		if HasDevices(g.Rules()) {
			if _, err := device.New(device.Config{Guard: d.GuardName(), Keys: c.Devices.Keys, TTL: c.Devices.TTL}); err != nil {
				t.Fatal(err)
			}
		}
		if d.Name == "" || d.MaxBody <= 0 {
			t.Fatalf("door %+v", d)
		}
	}
	c.Warnings()
}

// small makes the tables of a rule small.
func small(r *guard.Rule) {
	few := func(n int) int { return min(n, 10) | 1 }
	switch {
	case r.Lockout != nil:
		p := *r.Lockout
		p.Capacity, p.InFlight = few(p.Capacity), few(p.InFlight)
		r.Lockout = &p
	case r.Throttle != nil:
		p := *r.Throttle
		p.Sources, p.InFlight = few(p.Sources), few(p.InFlight)
		r.Throttle = &p
	default:
		p := *r.Window
		p.Capacity, p.InFlight = few(p.Capacity), few(p.InFlight)
		r.Window = &p
	}
}
