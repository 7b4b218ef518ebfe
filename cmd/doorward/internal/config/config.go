// Package config reads what the binary is to do from a file or from flags into one
// Config. It promises that nothing is guessed: an unknown key, a wrong type, an
// impossible value, a duplicate or an alias is an error that names file, line, column
// and path, all of them are reported at once, and whatever is accepted builds.
//
// The file is YAML, since people write it by hand; only as much of YAML is accepted
// as has one reading.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	upstreams "github.com/doorward/doorward/cmd/doorward/internal/upstream"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
	"github.com/doorward/doorward/redisstore"
)

// Config is all that serve needs to know, defaults filled in. Its parts are the
// configurations of the packages that they are for.
type Config struct {
	// Digest is what tells two files apart, "" if there is none: the first 16 digits of
	// its SHA-256.
	Digest string
	Listen []Listener
	// Upstreams are the copies of the application, at least one.
	Upstreams []*url.URL
	Health    *upstreams.Health // nil if nothing checks them
	Reuse     upstreams.Reuse
	Clients   clientip.Config
	// ClientsConfigured says that something was said about Clients, even if it is
	// that there are no proxies.
	ClientsConfigured bool
	Doors             []Door
	Devices           *Devices // nil if there are none
	State             *State   // nil if nothing outlasts the process
	Store             *Store   // nil if each process counts for itself
	Audit             *Audit   // nil if nothing is written down
	Admin             *Admin   // nil if there is no admin API
	Log               Log
	Timeouts          Timeouts
	Limits            Limits
}

// Door is a set of routes, the rules that guard them, and how answers are read.
type Door struct {
	Name string
	// Realm is what doors that share one guard have in common, "" if the door has a
	// guard of its own. The Guard of all of them is the same.
	Realm string
	Door  door.Config
	// Subject and Challenge say where requests name them. The zero Source: nowhere.
	Subject, Challenge subject.Source
	// SubjectOptional lets requests pass that name no subject, past the rules that
	// charge it.
	SubjectOptional bool
	Guard           guard.Config
	Away            redisstore.Mode // what decides while the Store is away
	Outcome         outcome.Rules
	MaxBody         int64
	MaxInFlight     int
}

// GuardName is the name of the door's guard: the realm's, else the door's. No two
// guards have one name.
func (d Door) GuardName() string {
	if d.Realm != "" {
		return d.Realm
	}
	return d.Name
}

// Rules returns how many rules there are: those of a realm count once.
func (c Config) Rules() int {
	n := 0
	counted := map[string]bool{}
	for _, d := range c.Doors {
		if !counted[d.GuardName()] {
			n += len(d.Guard.Rules)
		}
		counted[d.GuardName()] = true
	}
	return n
}

// Log says how log lines are written.
type Log struct {
	JSON  bool
	Level slog.Level
}

// Timeouts are how long each stage of a request may take.
type Timeouts struct {
	// ReadHeader and Body are for the client: until the header is there, and until
	// the body of a request to a door is.
	ReadHeader, Body time.Duration
	// Response is until the upstream's header is there. It is shorter than the
	// lease of every guard: later the attempt has become a failure.
	Response time.Duration
	// Write is how long a client may take nothing of an answer at a door.
	Write time.Duration
	// Idle is how long a connection may wait for the next request.
	Idle time.Duration
	// Shutdown is how long requests may take to end after a signal.
	Shutdown time.Duration
}

// Limits are how large requests may be, and how much may be there at one time.
type Limits struct {
	HeaderBytes int
	BodyBytes   int64 // for doors that say nothing else
	Connections int   // in all
	PerNetwork  int   // connections of one network
	InFlight    int   // requests, for doors that say nothing else
}

// What holds when nothing is said.
const (
	DefaultListen      = "127.0.0.1:8080"
	DefaultHeader      = "X-Forwarded-For"
	DefaultReadHeader  = 10 * time.Second
	DefaultBody        = 10 * time.Second
	DefaultResponse    = 50 * time.Second // less if a lease is short
	DefaultWrite       = 30 * time.Second
	DefaultIdle        = time.Minute
	DefaultShutdown    = 30 * time.Second
	DefaultHeaderBytes = 32 << 10
	DefaultBodyBytes   = 64 << 10
	DefaultConnections = 10_000
	DefaultPerNetwork  = 256
	DefaultInFlight    = 1_000
	DefaultStateEvery  = 10 * time.Second

	DefaultAuditMode      = 0o600
	DefaultAuditBurst     = 1_000
	DefaultAuditPerSecond = 100
	DefaultAuditSize      = 100 << 20
	DefaultAuditKeep      = 5
)

// DefaultRules are those of a door that names none. One address has five tries in a
// burst and twenty before it waits again and again, at most 119 in a day; a site that
// owns many addresses has a few times that. What many share decays, so that a trickle of
// typos never shuts it for good.
func DefaultRules() []guard.Rule {
	const minute, hour = time.Minute, time.Hour
	rule := func(name string, v4, v6, free int, window, first, most time.Duration, decay bool) guard.Rule {
		return guard.Rule{Name: name, V4: v4, V6: v6, Lockout: &lockout.Policy{
			FreeFailures: free, Window: window, FirstLockout: first, MaxLockout: most, Decay: decay,
		}}
	}
	return []guard.Rule{
		rule("burst", 0, 0, 5, minute, minute, hour, false),
		rule("day", 0, 0, 20, 24*hour, 30*time.Second, 15*minute, true),
		rule("site32-day", -1, 32, 450, 24*hour, minute, 15*minute, true),
		rule("site48-burst", -1, 48, 40, minute, minute, hour, true),
		rule("site48-day", -1, 48, 200, 24*hour, minute, 15*minute, true),
		rule("site24-burst", 24, -1, 40, minute, minute, hour, true),
		rule("site24-day", 24, -1, 200, 24*hour, minute, 15*minute, true),
	}
}

// Overrides are the flags that may be given together with a file.
type Overrides struct{ Listen, LogFormat, LogLevel string }

// Load reads a file.
func Load(name string, over Overrides) (Config, error) {
	f, err := os.Open(name)
	if err != nil {
		return Config{}, fmt.Errorf("%s: cannot be read: %w", name, unwrapPath(err))
	}
	defer f.Close()
	data, err := readAll(f)
	if err != nil {
		return Config{}, fmt.Errorf("%s: cannot be read: %w", name, unwrapPath(err))
	}
	c, err := Parse(name, data, over)
	if err != nil {
		return c, err
	}
	sum := sha256.Sum256(data)
	c.Digest = hex.EncodeToString(sum[:8])
	return c, nil
}

// Parse reads the content of a file. All errors are of type Errors.
func Parse(name string, data []byte, over Overrides) (Config, error) {
	s := newSource(name)
	var f file
	s.decode(data, &f)
	if s.failed[""] { // nothing can be said about the rest
		return Config{}, s.result()
	}
	over.apply(s, &f)
	c := s.check(&f)
	if err := s.result(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (o Overrides) apply(s *source, f *file) {
	o.applyListen(s, f)
	s.flag("log.format", "--log-format", o.LogFormat, f.Log.Format.set)
	s.flag("log.level", "--log-level", o.LogLevel, f.Log.Level.set)
}

// applyListen takes the place of an address. Of more than that in a file, such as TLS, a
// flag must not make less.
func (o Overrides) applyListen(s *source, f *file) {
	if o.Listen == "" {
		return
	}
	for p := range s.places {
		if strings.HasPrefix(p, "listen.") || strings.HasPrefix(p, "listen[") {
			s.flags["listen"], s.given["listen"] = "--listen", true
			s.fail("listen", "must be left out with a file that says more of listeners than one address")
			return
		}
	}
	var a address
	s.flag("listen", "--listen", o.Listen, a.set)
	f.Listen = listenFile{{Address: a}}
}

// Warnings tells what is allowed and probably not meant.
func (c Config) Warnings() []string {
	var all []string
	warned := map[string]bool{}
	for _, d := range c.Doors {
		g, err := Probe(d.Guard)
		if err != nil {
			continue
		}
		if d.SubjectOptional && d.Challenge != (subject.Source{}) {
			all = append(all, fmt.Sprintf("door %q: requests that name no subject get a fresh budget with each challenge that they name", d.Name))
		}
		if unread := unread(d, g); unread != "" {
			all = append(all, fmt.Sprintf("door %q: %s is read and no rule charges it", d.Name, unread))
		}
		if warned[d.GuardName()] {
			continue
		}
		warned[d.GuardName()] = true
		whose := "door"
		if d.Realm != "" {
			whose = "realm"
		}
		v4, v6 := g.Families()
		for _, family := range []struct {
			limited bool
			name    string
		}{{v4, "IPv4"}, {v6, "IPv6"}} {
			if !family.limited {
				all = append(all, fmt.Sprintf("%s %q: %s callers are not limited: no rule that refuses applies to them", whose, d.GuardName(), family.name))
			}
		}
	}
	return all
}

// unread names what d reads from requests though no rule of g charges it.
func unread(d Door, g *guard.Guard) string {
	subjects, challenges := false, false
	for _, r := range g.Rules() {
		subjects = subjects || chargesSubject(r)
		challenges = challenges || r.Per == guard.Challenge
	}
	switch {
	case d.Subject != subject.Source{} && !subjects:
		return "the subject"
	case d.Challenge != subject.Source{} && !challenges:
		return "the challenge"
	}
	return ""
}
