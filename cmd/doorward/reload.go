package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/trace"
)

// reload puts the configuration as it now is in the place of the old one, whole or not at
// all. Either is in the audit log, with who wanted it and why.
func (d *daemon) reload(by api.By) error {
	c, err := d.again()
	r := trace.Record{Time: time.Now(), Event: trace.Reloaded, Actor: by.Actor, Why: by.Reason, Config: c.Digest}
	if err == nil {
		err = d.apply(c, r)
	}
	if err != nil {
		d.tally.Reloaded(r.Time, err)
		r.Error = err.Error()
		d.record(r)
		d.tellNotReloaded(err)
	}
	return err
}

func (d *daemon) tellNotReloaded(err error) {
	const msg = "not reloaded: the old configuration stays"
	var list config.Errors
	var keys needRestart
	switch {
	case errors.As(err, &list):
		for _, e := range list {
			d.log.Error(msg, "error", e.Error())
		}
	case errors.As(err, &keys):
		for _, key := range keys {
			d.log.Error(msg, "key", key, "error", key+" needs a restart")
		}
	default:
		d.log.Error(msg, "error", err)
	}
}

// apply makes c what is served. All that can be wrong is found on a copy that counts
// nothing, before the first guard changes. When it is done, r says so in the audit log.
func (d *daemon) apply(c config.Config, r trace.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if keys := fixed(d.config, c); len(keys) > 0 {
		return keys
	}
	dry, _, err := assembleWith(c, d.log, func(name string, c guard.Config) (*guard.Guard, error) {
		c = d.withListed(name, c)
		if old := d.guards[name]; old != nil {
			if err := old.CheckReload(c); err != nil {
				return nil, err
			}
		}
		return config.Probe(c)
	})
	if err != nil {
		return err
	}
	if err := d.proxy.Check(dry); err != nil {
		return err
	}

	pc, guards, err := d.reassemble(c)
	if err != nil {
		return err
	}
	d.counted(c, guards)
	if err := d.proxy.Reload(pc); err != nil {
		return err
	}
	if err := d.shared.settle(c); err != nil {
		return err
	}
	anew, forgotten := changed(d.guards, guards), changed(guards, d.guards)
	d.config, d.guards, d.loaded = c, guards, time.Now()
	if d.admin != nil {
		d.admin.SetAccess(accessOf(c.Admin))
	}
	d.level.Set(c.Log.Level)
	d.audit.Set(d.auditSettings(c), doorNames(c))
	d.tally.Reloaded(r.Time, nil)
	d.record(r)
	doors, rules := count(c)
	line := []any{"doors", doors, "rules", rules}
	if len(anew) > 0 {
		line = append(line, "begin_anew", strings.Join(anew, ", "))
	}
	if len(forgotten) > 0 {
		line = append(line, "forgotten", strings.Join(forgotten, ", "))
	}
	d.log.Info("reloaded", line...)
	d.tellDoors()
	d.watch.Forget()
	d.diagnose()
	return nil
}

// changed names the guards and rules that are in b and that none in a is, or goes on as.
func changed(a, b map[string]*guard.Guard) (names []string) {
	for name, g := range b {
		if a[name] == nil {
			names = append(names, name)
			continue
		}
		for _, r := range g.Rules() {
			if predecessor(a[name].Rules(), r) == nil {
				names = append(names, name+"/"+r.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// predecessor returns the rule whose counts r goes on with, as guard.Reload has it.
func predecessor(rules []guard.Rule, r guard.Rule) *guard.Rule {
	i := slices.IndexFunc(rules, func(o guard.Rule) bool {
		return o.Name == r.Name && o.Per == r.Per && o.V4 == r.V4 && o.V6 == r.V6 && kind(o) == kind(r)
	})
	if i < 0 {
		return nil
	}
	return &rules[i]
}

func kind(r guard.Rule) string {
	switch {
	case r.Lockout != nil:
		return "lockout"
	case r.Throttle != nil:
		return "throttle"
	}
	return "window"
}

// needRestart are keys of a file that cannot change while a process serves.
type needRestart []string

func (n needRestart) Error() string { return strings.Join(n, ", ") + ": needs a restart" }

// fixed returns the keys in which c differs from old and must not.
func fixed(old, c config.Config) (keys needRestart) {
	was, is := old.Timeouts, c.Timeouts
	upstream := "upstream"
	if len(old.Upstreams) > 1 || len(c.Upstreams) > 1 {
		upstream = "upstreams"
	}
	for _, k := range []struct {
		key     string
		was, is any
	}{
		{"listen", old.Listen, c.Listen},
		{upstream, old.Upstreams, c.Upstreams},
		{"health", old.Health, c.Health},
		{"reuse", old.Reuse, c.Reuse},
		{"state", old.State, c.State},
		{"store", old.Store, c.Store},
		{"admin", placeOf(old.Admin), placeOf(c.Admin)},
		{"log.format", old.Log.JSON, c.Log.JSON},
		{"timeouts.read_header", was.ReadHeader, is.ReadHeader},
		{"timeouts.write", was.Write, is.Write},
		{"timeouts.idle", was.Idle, is.Idle},
		{"timeouts.shutdown", was.Shutdown, is.Shutdown},
		// Up to here it is also how long connecting may take, which was said to the pool.
		{"timeouts.upstream_response", proxy.DialTime(was.Response, len(old.Upstreams)), proxy.DialTime(is.Response, len(c.Upstreams))},
		{"limits.header_bytes", old.Limits.HeaderBytes, c.Limits.HeaderBytes},
		{"limits.connections", old.Limits.Connections, c.Limits.Connections},
		{"limits.connections_per_network", old.Limits.PerNetwork, c.Limits.PerNetwork},
	} {
		if !reflect.DeepEqual(k.was, k.is) {
			keys = append(keys, k.key)
		}
	}
	keys = append(keys, fixedAudit(old.Audit, c.Audit)...)
	guards := map[string]guard.Config{}
	for _, d := range old.Doors {
		guards[d.GuardName()] = d.Guard
	}
	seen := map[string]bool{}
	for i, d := range c.Doors {
		name := d.GuardName()
		if before, ok := guards[name]; ok && !seen[name] {
			path := fmt.Sprintf("doors[%d]", i)
			if d.Realm != "" {
				path = "realms." + d.Realm
			}
			keys = append(keys, fixedRules(path, before, d.Guard)...)
		}
		seen[name] = true
	}
	return keys
}

// fixedAudit returns what of the audit log must not change.
func fixedAudit(old, c *config.Audit) (keys []string) {
	if old == nil || c == nil {
		if old != c {
			keys = append(keys, "audit")
		}
		return keys
	}
	for _, k := range []struct {
		key     string
		was, is any
	}{
		{"audit.file", old.File, c.File},
		{"audit.mode", old.Mode, c.Mode},
		{"audit.key_file", old.Key, c.Key},
		{"audit.max_size", old.MaxSize, c.MaxSize},
		{"audit.keep", old.Keep, c.Keep},
	} {
		if !reflect.DeepEqual(k.was, k.is) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// fixedRules returns what of the rules at path, whose counts go on, must not change.
func fixedRules(path string, old, c guard.Config) (keys []string) {
	old, err := old.Complete()
	if err != nil {
		return nil
	}
	if c, err = c.Complete(); err != nil {
		return nil
	}
	for i, r := range c.Rules {
		was := predecessor(old.Rules, r)
		if was == nil {
			continue
		}
		for _, k := range sizes(r) {
			if j := slices.IndexFunc(sizes(*was), func(o size) bool { return o.key == k.key }); sizes(*was)[j].value != k.value {
				keys = append(keys, fmt.Sprintf("%s.rules[%d].%s.%s", path, i, kind(r), k.key))
			}
		}
	}
	return keys
}

// placeOf is what of the admin API cannot change: where it is, and what TLS it speaks.
func placeOf(c *config.Admin) any {
	if c == nil {
		return nil
	}
	place := *c
	place.Tokens, place.Hosts = nil, nil
	return place
}

// A size is what a limiter has its memory, or its order, by.
type size struct {
	key   string
	value int64
}

func sizes(r guard.Rule) []size {
	switch {
	case r.Lockout != nil:
		return []size{{"capacity", int64(r.Lockout.Capacity)}, {"in_flight", int64(r.Lockout.InFlight)}, {"lease", int64(r.Lockout.Lease / time.Nanosecond)}}
	case r.Throttle != nil:
		return []size{{"sources", int64(r.Throttle.Sources)}, {"in_flight", int64(r.Throttle.InFlight)}}
	}
	return []size{{"capacity", int64(r.Window.Capacity)}, {"in_flight", int64(r.Window.InFlight)}}
}
