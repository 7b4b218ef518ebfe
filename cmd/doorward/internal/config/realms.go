package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore"
)

// ruled is a guard as a door or a realm describes it.
type ruled struct {
	config guard.Config
	guard  *guard.Guard // keeps nothing; nil if the rules are wrong
	preset preset       // where the rules come from, if not from the file
	realm  string       // whose they are, if not the door's
	away   redisstore.Mode
}

// ruled judges the rules at path and the networks beside them.
func (s *source) ruled(path string, f realmFile) ruled {
	r := ruled{preset: f.Preset, away: s.away(path, f.Away)}
	rules, complete := s.rules(path, f)
	r.config = guard.Config{
		Rules:   rules,
		Exempt:  s.networks(path, "exempt", f.Exempt),
		Blocked: s.networks(path, "blocked", f.Blocked),
	}
	if !complete {
		return r
	}
	g, err := Probe(r.config)
	if err != nil {
		s.core(path, err, nil)
		return r
	}
	r.guard = g
	if s.has(path + ".rules") {
		for i, rule := range rules {
			if at := index(path+".rules", i) + ".per"; rule.Per == guard.Device && !s.has("devices") {
				s.fail(at, "must not be device without devices: {key_files: [FILE]} at the top of the file")
			}
		}
	}
	return r
}

// realms judges the rules of all realms.
func (s *source) realms(f map[string]realmFile) map[string]ruled {
	all := map[string]ruled{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		r := s.ruled("realms."+name, f[name])
		r.realm = name
		all[name] = r
	}
	return all
}

// keeper returns the rules of a door: its own, or those of its realm.
func (s *source) keeper(path string, f *doorFile, realms map[string]ruled) ruled {
	if _, taken := realms[f.Name]; taken && f.Realm == "" { // device tokens of one guard would be the other's
		s.fail(path+".name", "must not be the name of a realm that the door is not in, got %q", f.Name)
	}
	if !s.has(path + ".realm") {
		return s.ruled(path, f.ruled())
	}
	for _, key := range []string{"preset", "rules", "exempt", "blocked", awayKey} {
		if s.has(path + "." + key) {
			s.fail(path+"."+key, "must not be given with realm: the realm has its own")
		}
	}
	r, known := realms[f.Realm]
	if !known && !s.failed[path+".realm"] && !s.failed["realms"] && !s.failed["realms."+clip(f.Realm)] {
		names := slices.Sorted(maps.Keys(realms))
		hint := ""
		if best := Closest(f.Realm, names); best != "" {
			hint = ", did you mean " + best + "?"
		}
		if len(names) == 0 {
			s.fail(path+".realm", "must be a name under realms, which is missing, got %s", clip(f.Realm))
		} else {
			s.fail(path+".realm", "must be a name under realms (%s), got %s%s", strings.Join(names, ", "), clip(f.Realm), hint)
		}
	}
	return r
}

// unused reports realms that no door is in.
func (s *source) unused(realms map[string]ruled, doors []doorFile) {
	used := map[string]bool{}
	for i, d := range doors {
		used[d.Realm] = true
		if at := index("doors", i); s.failed[at] || s.failed[at+".realm"] {
			return
		}
	}
	for name := range realms {
		if !used[name] && !s.failed["doors"] {
			s.fail("realms."+name, "must be the realm of a door, such as realm: %s", name)
		}
	}
}

// needs reports rules that charge what the door does not say how to name.
func (s *source) needs(path string, f *doorFile, r ruled) {
	if r.guard == nil {
		return
	}
	for _, n := range []struct {
		key, example string
		given        bool
		charges      func(guard.Rule) bool
	}{
		{"subject", "username", f.Subject != nil, chargesSubject},
		{"challenge", "challenge_id", f.Challenge != nil, func(r guard.Rule) bool { return r.Per == guard.Challenge }},
	} {
		i := slices.IndexFunc(r.config.Rules, n.charges)
		if n.given || i < 0 {
			continue
		}
		example := "{form: " + n.example + "}"
		if s.locate(path+"."+n.key).Flag != "" {
			example = "form:" + n.example
		}
		s.fail(path+"."+n.key, "must say where requests name the %s, such as %s: %s charges %ss",
			n.key, example, cmp.Or(r.whose(), fmt.Sprintf("rules[%d]", i)), r.config.Rules[i].Per)
	}
}

// whose names where rules come from, "" if that is the door itself.
func (r ruled) whose() string {
	switch {
	case r.realm != "":
		return "realm " + r.realm
	case r.preset != "":
		return "preset " + string(r.preset)
	}
	return ""
}

// chargesSubject reports whether r applies only to requests that name a subject.
func chargesSubject(r guard.Rule) bool {
	return r.Per == guard.Subject || r.Per == guard.Pair || r.Per == guard.Device
}

// presetRules returns the rules of a preset. Those for known devices are left out where
// nothing makes devices known.
func presetRules(p preset, devices bool) []guard.Rule {
	rules := slices.Clone(guard.Presets()[string(p)].Rules)
	if !devices {
		rules = slices.DeleteFunc(rules, func(r guard.Rule) bool { return r.Per == guard.Device })
	}
	return rules
}
