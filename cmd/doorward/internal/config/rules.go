package config

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/doorward/doorward/guard"
)

// noStore lets a guard be built to be judged, without the memory that its counts
// would take. It is never asked.
type noStore struct{}

func (noStore) Reserve(context.Context, []guard.Charge) error { return nil }
func (noStore) Settle(context.Context, []guard.Charge) error  { return nil }

// Probe returns a guard that judges c as guard.New does, and takes no memory: nothing can
// be asked of it but its rules.
func Probe(c guard.Config) (*guard.Guard, error) {
	c.Store = noStore{}
	return guard.New(c)
}

// rules returns the rules of a door or a realm and whether all of them are right.
func (s *source) rules(path string, f realmFile) (rules []guard.Rule, complete bool) {
	fromPreset := path + ".preset"
	path += ".rules"
	switch {
	case s.has(fromPreset) && s.has(path):
		s.fail(fromPreset, "must not be given with rules")
		return nil, false
	case s.has(fromPreset):
		return presetRules(f.Preset, s.has("devices")), !s.failed[fromPreset]
	case !s.has(path):
		return DefaultRules(), true
	case s.failed[path]:
		return nil, false
	case len(f.Rules) == 0:
		s.fail(path, "must not be empty (leave it out for the default rules)")
		return nil, false
	case len(f.Rules) > guard.MaxRules:
		s.fail(path, "must be at most %d, got %d", guard.MaxRules, len(f.Rules))
		return nil, false
	}
	names := map[string]string{}
	for i := range f.Rules {
		at := index(path, i)
		if f.Rules[i].Name != "" {
			s.name(at+".name", f.Rules[i].Name, names)
		}
		if s.failed[at] {
			continue
		}
		if r, ok := s.rule(at, &f.Rules[i], rules); ok {
			rules = append(rules, r)
		}
	}
	return rules, !s.failedWithin(path)
}

// rule returns one rule, given the ones before it.
func (s *source) rule(path string, f *ruleFile, before []guard.Rule) (guard.Rule, bool) {
	r := f.Per.Rule
	r.OnSuccess = guard.OnSuccess(f.OnSuccess)
	if !s.failed[path+".name"] {
		r.Name = f.Name
	}
	switch {
	case f.Shadow && f.StepUp:
		s.fail(path+".step_up", "must not be true with shadow")
	case f.Shadow:
		r.Action = guard.Shadow
	case f.StepUp:
		r.Action = guard.StepUp
	}
	if !s.has(path + ".per") {
		s.fail(path+".per", "must be network, network4/BITS, network6/BITS, subject, challenge, pair, device or everyone")
	}
	if !s.policy(path, f, &r) {
		return r, false
	}
	if r.Lockout != nil {
		s.required(path + ".lockout")
		s.lease(path+".lockout", &r, before)
	}
	// One error at a time: what is wrong is reported, repaired, and the rest judged.
	for repaired := map[string]bool{}; ; {
		_, err := guard.Config{Rules: append(before[:len(before):len(before)], r)}.Complete()
		if err == nil {
			return r, true
		}
		field := s.core(path, err, fieldsOf(&r))
		if repaired[field] || !repair(&r, field) {
			return r, false
		}
		repaired[field] = true
	}
}

// required reports what a lockout cannot be without.
func (s *source) required(path string) {
	for _, r := range [...]struct{ key, must string }{
		{"free_failures", fmt.Sprintf("must be 1 to %d", math.MaxUint16)},
		{"window", "must be a duration such as 1m or 24h"},
		{"first_lockout", "must be a duration such as 1m or 24h"},
		{"max_lockout", "must be a duration such as 1m or 24h"},
	} {
		if at := join(path, r.key); !s.has(at) {
			s.fail(at, "%s", r.must)
		}
	}
}

// lease checks what no rule can be blamed for by itself: all rules have one lease, at
// most the shortest window.
func (s *source) lease(path string, r *guard.Rule, before []guard.Rule) {
	lease, window := time.Duration(0), time.Duration(math.MaxInt64)
	for _, b := range before {
		if b.Lockout == nil {
			continue
		}
		lease, window = max(lease, b.Lockout.Lease), min(window, b.Lockout.Window)
	}
	p := r.Lockout
	switch {
	case p.Lease == 0 && 0 < p.Window && p.Window < lease:
		s.fail(path+".window", "must be at least the lease of the rules before it (%s), got %s", ShowDuration(lease), ShowDuration(p.Window))
		repair(r, "Window")
	case p.Lease > window:
		s.fail(path+".lease", "must be at most the shortest window of the rules before it (%s), got %s", ShowDuration(window), ShowDuration(p.Lease))
		repair(r, "Lease")
	}
}

// networks returns the networks of a list of a door that are right.
func (s *source) networks(path, key string, list []network) []netip.Prefix {
	var out []netip.Prefix
	for i, p := range list {
		if s.failed[index(path+"."+key, i)] {
			continue
		}
		c := guard.Config{Rules: DefaultRules()}
		if one := []netip.Prefix{p.Prefix}; key == "exempt" {
			c.Exempt = one
		} else {
			c.Blocked = one
		}
		if _, err := c.Complete(); err != nil {
			s.core(path, err, map[string]string{"Exempt": index(key, i), "Blocked": index(key, i)})
			continue
		}
		out = append(out, p.Prefix)
	}
	return out
}

var (
	corePrefix = regexp.MustCompile(`^(?:(?:guard|lockout|throttle|window|outcome|clientip|door|device|subject): |rule (?:"(?:[^"\\]|\\.)*"|\d+): )`)
	coreField  = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*(?:\.[A-Z][A-Za-z]*)?)(?:\[\d+\])?(?:: | (must .*|".*))$`)
	coreName   = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*(?:\.[A-Z][A-Za-z]*)?\b`)
	coreTime   = regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b`)
	coreGot    = regexp.MustCompile(`, got [^,]*$`)
	corePolicy = regexp.MustCompile(`^(?:lockout|throttle|window)\.`)
)

// coreWords are the values of fields as files have them.
var coreWords = map[string]*strings.Replacer{
	"OnSuccess": strings.NewReplacer("Clear", "clear", "ByKey", "by_key"),
	"Action":    strings.NewReplacer("StepUp", "true", "Subject", "subject"),
	"Per":       strings.NewReplacer("Everyone", "everyone", "Network", "network"),
}

// core reports an error of a core package, which names its own fields, at the key
// below path that fills the field, and returns the field. Fields that are not known
// are reported at path itself.
func (s *source) core(path string, err error, fields map[string]string) (field string) {
	msg := err.Error()
	for cut := ""; cut != msg; {
		cut = msg
		msg = corePrefix.ReplaceAllString(msg, "")
	}
	at := path
	if m := coreField.FindStringSubmatch(msg); m != nil && fields[m[1]] != "" {
		field, at, msg = m[1], path+"."+fields[m[1]], m[2]
	}
	msg = coreName.ReplaceAllStringFunc(msg, func(name string) string {
		key := fields[name]
		switch {
		case key == "" || strings.Contains(key, "["):
			return name
		case s.flags[path+"."+key] != "":
			return s.flags[path+"."+key]
		}
		return corePolicy.ReplaceAllString(key, "")
	})
	if words := coreWords[field]; words != nil {
		msg = words.Replace(msg)
	}
	msg = coreTime.ReplaceAllStringFunc(msg, func(text string) string {
		if d, err := time.ParseDuration(text); err == nil {
			return ShowDuration(d)
		}
		return text
	})
	if !s.has(at) {
		msg = coreGot.ReplaceAllString(msg, "")
	}
	s.fail(at, "%s", msg)
	return field
}

// failedWithin reports whether something at path or inside of it is wrong.
func (s *source) failedWithin(path string) bool {
	for p := range s.failed {
		if p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[") {
			return true
		}
	}
	return false
}
