// Package doctor finds what keeps doorward from doing its job, before it serves and while
// it does: callers that cannot be told apart, rules that lock out the wrong ones, an
// application that is not there.
//
// It promises few false alarms rather than to find everything: a clean start has none. What
// a rule admits is for package explain to say.
package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/guard"
)

// The names of what is looked for.
const (
	Forwarded  = "forwarded"   // addresses are forwarded, and not read
	Loopback   = "loopback"    // callers on this machine that may be all callers
	OneAddress = "one-address" // all callers are one
	Window     = "window"      // a window shorter than the lockout
	Reach      = "reach"       // one caller can lock out many
	Files      = "files"       // too few files may be open
	Clock      = "clock"       // the clock was set
	Upstream   = "upstream"    // the application cannot be reached
	Store      = "store"       // nodes cannot count together, or not well
)

// Checks are all names, in the order that a report has them.
var Checks = [...]string{Upstream, Store, Files, Window, Reach, Forwarded, Loopback, OneAddress, Clock}

// A Finding is one thing that is wrong, or may be.
type Finding struct {
	Check string    `json:"check"`
	Text  string    `json:"text"`
	Fix   string    `json:"fix"`
	At    time.Time `json:"at,omitzero"` // when it was last seen, for what is found while serving
}

func (f Finding) String() string { return f.Text + "; " + f.Fix }

// Rules looks at the rules of c. It takes some 10 ms for each door.
func Rules(c config.Config) (found []Finding) {
	seen := map[string]bool{}
	for _, d := range c.Doors {
		if seen[d.GuardName()] {
			continue
		}
		seen[d.GuardName()] = true
		whose := fmt.Sprintf("door %q", d.Name)
		if d.Realm != "" {
			whose = fmt.Sprintf("realm %q", d.Realm)
		}
		complete, err := d.Guard.Complete()
		if err != nil {
			continue // config says so
		}
		for _, r := range complete.Rules {
			if f, ok := short(r); ok {
				f.Text = fmt.Sprintf("%s: rule %q: %s", whose, r.Name, f.Text)
				found = append(found, f)
			}
		}
		b, err := budget.NewDoor(d.Guard)
		if err != nil {
			continue
		}
		for _, w := range b.Reach() {
			found = append(found, Finding{Check: Reach, Text: fmt.Sprintf("%s: rule %q: %s", whose, w.Rule, w.Text), Fix: w.Fix})
		}
	}
	return found
}

// short finds a window that is over before the first lockout would be. With decay it is
// how long it takes to forget one failure of several, and that is meant to be short.
func short(r guard.Rule) (f Finding, found bool) {
	p := r.Lockout
	if p == nil || p.Decay || p.Window >= p.FirstLockout {
		return f, false
	}
	return Finding{
		Check: Window,
		Text: fmt.Sprintf("the window (%v) is shorter than the first lockout (%v): failures are forgotten %[1]v after a lockout, so whoever waits that much longer begins anew, and lockouts hardly ever grow",
			p.Window, p.FirstLockout),
		Fix: fmt.Sprintf("set window to at least %v", p.FirstLockout),
	}, true
}

// Connections looks at how many files may be open: half of them are for clients.
func Connections(c config.Config, files int) (found []Finding) {
	if c.Limits.Connections <= files/2 {
		return nil
	}
	return []Finding{{
		Check: Files,
		Text:  fmt.Sprintf("only %d files may be open, so %d connections are taken instead of %d (limits.connections)", files, max(1, files/2), c.Limits.Connections),
		Fix:   fmt.Sprintf("allow %d (ulimit -n, LimitNOFILE= of systemd), or lower limits.connections", 2*c.Limits.Connections),
	}}
}

// Unreachable is what is found if the copy of the application at u cannot be connected to.
func Unreachable(u *url.URL, err error) Finding {
	return Finding{
		Check: Upstream,
		Text:  fmt.Sprintf("the application at %s cannot be reached: %v", u.Redacted(), err),
		Fix:   "start it, or correct upstream",
	}
}

// Away is what is found if the store cannot be used.
func Away(err error) Finding {
	return Finding{
		Check: Store,
		Text:  fmt.Sprintf("the store cannot be used: %v", err),
		Fix:   "start it, or correct store",
	}
}

// How far clocks may be apart: those of a cluster's servers, by which one attempt is dated, and
// ours, by which times are shown.
const (
	clusterClocks = 100 * time.Millisecond
	shownClocks   = time.Second
)

// Clocks looks at by how much the clocks of the store's servers are ahead of ours.
func Clocks(ahead map[string]time.Duration) (found []Finding) {
	const fix = "synchronize the clocks of all servers and nodes"
	names := slices.SortedFunc(maps.Keys(ahead), func(a, b string) int { return cmp.Compare(ahead[a], ahead[b]) })
	if len(names) == 0 {
		return nil
	}
	least, most := names[0], names[len(names)-1]
	if d := ahead[most] - ahead[least]; d > clusterClocks {
		found = append(found, Finding{
			Check: Store,
			Text:  fmt.Sprintf("the clocks of %s and %s are %v apart: from more than %v on, a success may give back to a network what it does not count", least, most, d.Round(time.Millisecond), clusterClocks),
			Fix:   fix,
		})
	}
	for _, name := range []string{least, most} {
		if d := ahead[name]; d > shownClocks || d < -shownClocks {
			found = append(found, Finding{
				Check: Store,
				Text:  fmt.Sprintf("the clock of %s differs from this machine's by %v: lockouts follow it, and times in logs do not", name, d.Round(time.Millisecond)),
				Fix:   fix,
			})
			break
		}
	}
	return found
}
