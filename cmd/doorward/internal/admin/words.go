package admin

import (
	"fmt"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/guard"
)

// ActionOf is the word for what r does.
func ActionOf(r guard.Rule) string {
	switch r.Action {
	case guard.StepUp:
		return "step_up"
	case guard.Shadow:
		return "shadow"
	}
	return "refuse"
}

// PolicyOf is the policy of r in words.
func PolicyOf(r guard.Rule) string {
	show := config.ShowDuration
	switch {
	case r.Lockout != nil:
		p := r.Lockout
		s := fmt.Sprintf("lockout %d in %s, then %s", p.FreeFailures, show(p.Window), show(p.FirstLockout))
		if p.MaxLockout > p.FirstLockout {
			s += " to " + show(p.MaxLockout)
		}
		if p.Decay {
			s += ", decaying"
		}
		return s
	case r.Throttle != nil:
		return fmt.Sprintf("throttle %d, %d for everyone, in %s", r.Throttle.PerSource, r.Throttle.Global, show(r.Throttle.Window))
	}
	kind := "window"
	if r.Window.Sliding {
		kind = "sliding window"
	}
	return fmt.Sprintf("%s %d in %s", kind, r.Window.Limit, show(r.Window.Window))
}
