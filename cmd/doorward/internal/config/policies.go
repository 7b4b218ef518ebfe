package config

import (
	"math"
	"time"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// fieldsOf tells where in a rule the fields of guard.Rule and of its policy stand.
func fieldsOf(r *guard.Rule) map[string]string {
	fields := map[string]string{"Per": "per", "V4": "per", "V6": "per", "Action": "step_up", "OnSuccess": "on_success"}
	policy, keys := "window", map[string]string{"Limit": "limit", "Window": "window", "Capacity": "capacity", "InFlight": "in_flight"}
	switch {
	case r.Lockout != nil:
		policy, keys = "lockout", map[string]string{
			"FreeFailures": "free_failures", "Window": "window", "FirstLockout": "first_lockout", "MaxLockout": "max_lockout",
			"Lease": "lease", "Capacity": "capacity", "InFlight": "in_flight",
		}
	case r.Throttle != nil:
		policy, keys = "throttle", map[string]string{
			"PerSource": "per_source", "Global": "global", "Window": "window", "Sources": "sources", "InFlight": "in_flight",
		}
	}
	for field, key := range keys {
		fields[field] = policy + "." + key
	}
	return fields
}

// policy gives r the one policy that f has, and reports whether it has one.
func (s *source) policy(path string, f *ruleFile, r *guard.Rule) bool {
	given := 0
	if f.Lockout != nil {
		given++
		r.Lockout = f.Lockout.policy()
	}
	if f.Throttle != nil {
		given++
		r.Throttle = f.Throttle.policy()
	}
	if f.Window != nil {
		given++
		r.Window = f.Window.policy()
	}
	if given != 1 && !s.failed[path+".lockout"] && !s.failed[path+".throttle"] && !s.failed[path+".window"] {
		s.fail(path, "must have exactly one of lockout, throttle and window, got %d", given)
	}
	return given == 1
}

func (f *lockoutFile) policy() *lockout.Policy {
	return &lockout.Policy{
		FreeFailures: f.FreeFailures,
		Window:       time.Duration(f.Window),
		FirstLockout: time.Duration(f.FirstLockout),
		MaxLockout:   time.Duration(f.MaxLockout),
		Decay:        f.Decay,
		Lease:        time.Duration(f.Lease),
		Capacity:     int(f.Capacity),
		InFlight:     int(f.InFlight),
	}
}

func (f *throttleFile) policy() *throttle.Policy {
	return &throttle.Policy{
		PerSource: int(f.PerSource),
		Global:    int(f.Global),
		Window:    time.Duration(f.Window),
		Sources:   int(f.Sources),
		InFlight:  int(f.InFlight),
	}
}

func (f *windowFile) policy() *window.Policy {
	return &window.Policy{
		Limit:    int(f.Limit),
		Window:   time.Duration(f.Window),
		Sliding:  f.Sliding,
		Capacity: int(f.Capacity),
		InFlight: int(f.InFlight),
	}
}

// repair puts a value in a field that is right, whatever the others are.
func repair(r *guard.Rule, field string) bool {
	switch {
	case field == "Action":
		r.Action = guard.Refuse
		return true
	case field == "OnSuccess":
		r.OnSuccess = guard.ByKey
		return true
	case r.Lockout != nil:
		return repairLockout(r.Lockout, field)
	case r.Throttle != nil:
		return repairThrottle(r.Throttle, field)
	case r.Window != nil:
		return repairWindow(r.Window, field)
	}
	return false
}

func repairLockout(p *lockout.Policy, field string) bool {
	switch field {
	case "FreeFailures":
		p.FreeFailures = 1
	case "Window":
		p.Window = math.MaxInt64
	case "FirstLockout":
		p.FirstLockout = 1
	case "MaxLockout":
		p.MaxLockout = math.MaxInt64
	case "Lease":
		p.Lease = 0
	case "Capacity":
		p.Capacity = 0
	case "InFlight":
		p.InFlight = 0
	default:
		return false
	}
	return true
}

func repairThrottle(p *throttle.Policy, field string) bool {
	switch field {
	case "PerSource":
		p.PerSource = 0
	case "Sources":
		p.Sources = 0
	case "InFlight":
		p.InFlight = 0
	default:
		return false
	}
	return true
}

func repairWindow(p *window.Policy, field string) bool {
	switch field {
	case "Limit":
		p.Limit = 0
	case "Capacity":
		p.Capacity = 0
	case "InFlight":
		p.InFlight = 0
	default:
		return false
	}
	return true
}
