// Package replay says what rules would have done with the attempts of a log.
//
// It promises that guards decide as they do in production, by the same code, at the times
// of the log: an attempt and its outcome happen at the same instant. Which requests are
// attempts is judged as the proxy judges it, what answers mean as the gate does. A log of
// any length is read once, in memory that does not grow with it; what is bounded says
// so when it meets its bound.
//
// It gives up on what no log has: bodies, cookies, the time between an attempt and its
// answer, and what people would have done instead of the attempt that was refused.
//
// It reads no clock.
package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/reader"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// MaxPolicies is how many policies can be compared.
const MaxPolicies = 4

// Bounds of what is told apart.
const (
	MaxCallers  = 1 << 20 // networks
	MaxSubjects = 1 << 18
	MaxNames    = 1 << 14 // user agents, and targets, each
	// MaxHeld is how many attempts of one log are held to put them in order.
	MaxHeld = 1 << 18
)

// A Policy is what attempts are judged by.
type Policy struct {
	Name   string
	Doors  []Door
	Guards []Guard
	// Named says that the names of Doors are those that a log may tell (reader.Record.Door):
	// then an attempt at a door that is not here is none.
	Named bool
	// Messages is the place in Guards of what attempts are charged to of which a service
	// tells in its own words, so that they are at no door. -1: nothing.
	Messages int
}

// A Door is a set of routes, what its answers mean, and what guards it.
type Door struct {
	Name string
	Door door.Config
	// Outcome is not asked if AllFailed is set: then every request is a wrong guess.
	Outcome   outcome.Rules
	AllFailed bool
	// Subject and Challenge are read from the target if they stand there. Else the
	// subject is what the log names, and there is no challenge.
	Subject, Challenge subject.Source
	Guard              int // place in Guards
}

// A Guard is the rules of a door or of several.
type Guard struct {
	Name   string
	Config guard.Config
}

// Options say how logs are read.
type Options struct {
	Format  string         // as reader.Names has it; "" or "auto": by the first lines
	Zone    *time.Location // as reader.Options
	Year    int
	Pattern string
	Reorder time.Duration // how much later than a later line one may come, to be put in order
	// Alone lets each rule of the first policy judge by itself as well.
	Alone bool
	// Suggest keeps the attempts at the first policy's doors, for Suggest.
	Suggest bool
	// Progress is called now and then with how many lines were read. Nil: it is not.
	Progress func(lines int64)
}

// ErrDoors is returned for a log of requests if there are no doors.
var ErrDoors = errors.New("the log is of requests: say which of them are attempts")

// ErrGuard is returned for a log of a service's messages if it is not said what guards
// them.
var ErrGuard = errors.New("the log is not of requests: say which rules its attempts are to be judged by")

// judge is a policy made ready.
type judge struct {
	Policy
	guards   []*guard.Guard
	doors    []*door.Door
	outcomes []*outcome.Classifier
	names    []names
	methods  map[string]bool // that routes name; nil: a route has any method
}

// names reads what the target of a request names.
type names struct{ subject, challenge *subject.Extractor }

func newJudge(p Policy) (*judge, error) {
	j := &judge{Policy: p, methods: map[string]bool{}}
	for _, g := range p.Guards {
		built, err := guard.New(small(g.Config))
		if err != nil {
			return nil, err
		}
		j.guards = append(j.guards, built)
	}
	for _, d := range p.Doors {
		match, err := door.New(d.Door)
		if err != nil {
			return nil, err
		}
		j.doors = append(j.doors, match)
		var c *outcome.Classifier
		if !d.AllFailed {
			if c, err = outcome.New(d.Outcome); err != nil {
				return nil, err
			}
		}
		j.outcomes = append(j.outcomes, c)
		n := names{}
		if n.subject, err = inTarget(d.Subject); err == nil {
			n.challenge, err = inTarget(d.Challenge)
		}
		if err != nil {
			return nil, err
		}
		j.names = append(j.names, n)
		for _, route := range d.Door.Routes {
			method, _, named := strings.Cut(route, " ")
			if !named {
				j.methods = nil
			}
			if j.methods != nil {
				j.methods[strings.ToUpper(method)] = true
				if strings.EqualFold(method, "GET") {
					j.methods["HEAD"] = true
				}
			}
		}
	}
	if p.Messages >= len(p.Guards) {
		return nil, fmt.Errorf("replay: Messages must be the place of a guard, got %d of %d", p.Messages, len(p.Guards))
	}
	return j, nil
}

// inTarget returns what reads s from a target, nil if it is not there.
func inTarget(s subject.Source) (*subject.Extractor, error) {
	if s.Query == "" && s.Path == "" {
		return nil, nil
	}
	return subject.New(s)
}

// small returns c with little room for attempts in flight: here one is, at most.
func small(c guard.Config) guard.Config {
	const inFlight = 4
	rules := make([]guard.Rule, len(c.Rules))
	for i, r := range c.Rules {
		switch {
		case r.Lockout != nil:
			p := *r.Lockout
			p.InFlight = inFlight
			r.Lockout = &p
		case r.Throttle != nil:
			p := *r.Throttle
			p.InFlight = inFlight
			r.Throttle = &p
		case r.Window != nil:
			p := *r.Window
			p.InFlight = inFlight
			r.Window = &p
		}
		rules[i] = r
	}
	c.Rules = rules
	return c
}

// mayKnock reports whether a request may be at a door by its method, its own or one
// that its target names.
func (j *judge) mayKnock(rec *reader.Record) bool {
	if j.methods == nil {
		return len(j.doors) > 0
	}
	if j.methods[string(rec.Method)] { // looks up without making a string
		return true
	}
	for _, b := range rec.Method {
		if 'a' <= b && b <= 'z' {
			return true
		}
	}
	// As proxy.Logged finds methods in a target: where one has this name, or may have it
	// once it is decoded.
	const name = "method"
	for i, b := range rec.Target {
		switch {
		case b == '%':
			return true
		case b|0x20 == name[0] && i+len(name) <= len(rec.Target) && bytes.EqualFold(rec.Target[i:i+len(name)], []byte(name)):
			return true
		}
	}
	return false
}
