package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// Bounds of what is kept in memory for each request.
const (
	minHeaderBytes = 1 << 10
	maxHeaderBytes = 16 << 20
	maxBodyBytes   = 64 << 20
)

// check turns a file into a Config. What is wrong is reported to s, the rest is
// judged all the same.
func (s *source) check(f *file) Config {
	c := Config{
		Listen:            s.listen(f.Listen),
		Upstreams:         s.upstreams(f),
		Health:            s.health(f.Health),
		Reuse:             s.reuse(&f.Reuse),
		Clients:           s.clients(f.Clients),
		ClientsConfigured: f.Clients != nil,
		Log:               Log{JSON: f.Log.Format == "json", Level: slog.LevelInfo},
		Timeouts:          f.Timeouts.config(),
		Limits: Limits{
			HeaderBytes: int(s.size("limits.header_bytes", f.Limits.HeaderBytes, DefaultHeaderBytes, minHeaderBytes, maxHeaderBytes)),
			BodyBytes:   s.size("limits.body_bytes", f.Limits.BodyBytes, DefaultBodyBytes, 1, maxBodyBytes),
			Connections: s.atMost("limits.connections", f.Limits.Connections, DefaultConnections),
			PerNetwork:  s.atMost("limits.connections_per_network", f.Limits.PerNetwork, DefaultPerNetwork),
			InFlight:    s.atMost("limits.in_flight", f.Limits.InFlight, DefaultInFlight),
		},
	}
	if f.Log.Level != "" {
		_ = c.Log.Level.UnmarshalText([]byte(f.Log.Level)) // the words are slog's own
	}
	if len(f.Doors) == 0 {
		s.fail("doors", "must have at least one door")
	}
	c.Devices = s.devices(f.Devices)
	c.State = s.state(f.State)
	c.Store = s.store(f.Store)
	c.Audit = s.audit(f.Audit, c.State)
	c.Admin = s.admin(f.Admin)
	s.adminApart(c)
	realms := s.realms(f.Realms)
	taken := map[string]string{}
	var guards []*guard.Guard
	var routes [][]route
	for i := range f.Doors {
		path := index("doors", i)
		s.name(path+".name", f.Doors[i].Name, taken)
		d, r := s.door(path, &f.Doors[i], c.Limits)
		rules := s.keeper(path, &f.Doors[i], realms)
		d.Guard, d.Away = rules.config, rules.away
		s.needs(path, &f.Doors[i], rules)
		c.Doors, routes, guards = append(c.Doors, d), append(routes, r), append(guards, rules.guard)
	}
	s.unused(realms, f.Doors)
	s.devicesUsed(guards)
	s.overlaps(routes, c.Doors)
	s.response(&c, guards)
	return c
}

// door turns one door, less its rules, into its configuration and its routes one by
// one.
func (s *source) door(path string, f *doorFile, limits Limits) (d Door, routes []route) {
	d = Door{
		Name:            f.Name,
		Realm:           f.Realm,
		Door:            door.Config{IgnoreCase: f.IgnoreCase, BasicAuth: f.When != ""},
		Subject:         s.subject(path+".subject", f.Subject),
		SubjectOptional: f.SubjectOptional,
		Challenge:       s.subject(path+".challenge", f.Challenge),
		Outcome:         s.outcome(path+".outcome", &f.Outcome),
		MaxBody:         s.size(path+".max_body", f.MaxBody, limits.BodyBytes, 1, maxBodyBytes),
		MaxInFlight:     s.atMost(path+".max_in_flight", f.MaxInFlight, limits.InFlight),
	}
	s.oneBody(path, d)
	if f.SubjectOptional && f.Subject == nil {
		s.fail(path+".subject_optional", "must not be true without subject")
	}
	if len(f.Routes) == 0 {
		s.fail(path+".routes", `must have at least one route such as "POST /login"`)
	}
	for i, r := range f.Routes {
		at := index(path+".routes", i)
		if s.failed[at] {
			continue
		}
		one, err := door.New(door.Config{Routes: []string{r}, IgnoreCase: f.IgnoreCase})
		if err != nil {
			msg := strings.TrimPrefix(err.Error(), "door: Routes[0] ")
			if s.locate(at).Flag != "" { // which shows the route already
				msg = strings.TrimPrefix(msg, fmt.Sprintf("%q: ", r))
			}
			s.fail(at, "%s", msg)
			continue
		}
		routes = append(routes, route{path: at, pattern: r, door: one})
		d.Door.Routes = append(d.Door.Routes, r)
	}
	return d, routes
}

// A route is one route of a door by itself.
type route struct {
	path, pattern string
	door          *door.Door
}

// overlaps reports routes that two doors keep with rules of their own: each of them
// would count the same attempt.
func (s *source) overlaps(routes [][]route, doors []Door) {
	for b := range routes {
	routes:
		for _, r := range routes[b] {
			for a := range b {
				if doors[a].Realm != "" && doors[a].Realm == doors[b].Realm {
					continue
				}
				for _, other := range routes[a] {
					if door.Overlaps(other.door, r.door) {
						s.fail(r.path, "%q overlaps with %q of door %q: two doors must not keep one route, except in one realm", r.pattern, other.pattern, doors[a].Name)
						continue routes
					}
				}
			}
		}
	}
}

// response checks the time that the upstream has against the leases.
func (s *source) response(c *Config, guards []*guard.Guard) {
	const path = "timeouts.upstream_response"
	lease, name := time.Minute, ""
	for i, g := range guards {
		if g == nil {
			return
		}
		if l := g.Lease(); name == "" || l < lease {
			lease, name = l, c.Doors[i].Name
		}
	}
	if c.Timeouts.Response == 0 && !s.failed[path] {
		c.Timeouts.Response = min(DefaultResponse, lease/6*5)
	}
	if r := c.Timeouts.Response; r <= 0 || r >= lease {
		s.fail(path, "must be shorter than the lease of door %q (%s), got %s", name, ShowDuration(lease), ShowDuration(r))
	}
}

func (f *timeoutsFile) config() Timeouts {
	or := func(d interval, otherwise time.Duration) time.Duration {
		if d != 0 {
			return time.Duration(d)
		}
		return otherwise
	}
	return Timeouts{
		ReadHeader: or(f.ReadHeader, DefaultReadHeader),
		Body:       or(f.Body, DefaultBody),
		Response:   or(f.Response, 0),
		Write:      or(f.Write, DefaultWrite),
		Idle:       or(f.Idle, DefaultIdle),
		Shutdown:   or(f.Shutdown, DefaultShutdown),
	}
}

func (s *source) size(path string, n size, otherwise, least, most int64) int64 {
	switch {
	case n == 0:
		return otherwise
	case int64(n) < least || int64(n) > most:
		s.fail(path, "must be %s to %s, got %s", showSize(least), showSize(most), showSize(int64(n)))
	}
	return int64(n)
}

// maxCount bounds what is counted: more is a mistake, and would not be a limit.
const maxCount = 1_000_000

func (s *source) atMost(path string, n positive, otherwise int) int {
	return s.within(path, n, otherwise, maxCount)
}

func (s *source) within(path string, n positive, otherwise, most int) int {
	switch {
	case n == 0:
		return otherwise
	case int(n) > most:
		s.fail(path, "must be 1 to %d, got %d", most, n)
	}
	return int(n)
}

var clientsFields = map[string]string{"Header": "header", "Trusted": "trusted_proxies", "Hops": "hops", "TrustUnix": "trust_unix"}

func (s *source) clients(f *clientsFile) clientip.Config {
	if f == nil {
		return clientip.Config{}
	}
	c := clientip.Config{Header: f.Header, Hops: f.Hops, TrustUnix: f.TrustUnix}
	for i, p := range f.TrustedProxies {
		at := index("clients.trusted_proxies", i)
		if s.failed[at] {
			continue
		}
		one := clientip.Config{Header: DefaultHeader, Trusted: append(c.Trusted[:0:0], p.Prefix)}
		if _, err := clientip.New(one); err != nil {
			s.core("clients", err, map[string]string{"Trusted": index("trusted_proxies", i)})
			continue
		}
		c.Trusted = append(c.Trusted, p.Prefix)
	}
	if c.Header == "" && (len(c.Trusted) > 0 || c.Hops != 0 || c.TrustUnix) {
		c.Header = DefaultHeader
	}
	if _, err := clientip.New(c); err != nil && !s.failedWithin("clients") {
		s.core("clients", err, clientsFields)
	}
	return c
}

var outcomeFields = map[string]string{
	"Failed": "failed", "Failed.Status": "failed.status", "Failed.SetCookie": "failed.set_cookie", "Failed.Location": "failed.location",
	"Succeeded": "succeeded", "Succeeded.Status": "succeeded.status", "Succeeded.SetCookie": "succeeded.set_cookie", "Succeeded.Location": "succeeded.location",
	"Void": "void.status",
}

func (s *source) outcome(path string, f *outcomeFile) outcome.Rules {
	r := outcome.Rules{Failed: f.Failed.config(), Succeeded: f.Succeeded.config(), Void: f.Void.Status.Statuses, Header: f.Header}
	// Each part by itself, then all of them together, so that none hides another.
	parts := []outcome.Rules{{Failed: r.Failed, Header: true}, {Succeeded: r.Succeeded, Header: true}, {Void: r.Void, Header: true}, r}
	for _, part := range parts {
		_, err := outcome.New(part)
		switch {
		case errors.Is(err, outcome.ErrNoSuccess):
			if s.failedWithin(path + ".succeeded") {
				break
			}
			before := len(s.errs)
			s.fail(path+".succeeded", "must say what a right guess looks like; there is no default, since most applications answer 200 or 302 to wrong ones too")
			for i := before; i < len(s.errs); i++ {
				s.errs[i].noSuccess = true
			}
		case err != nil:
			s.core(path, err, outcomeFields)
		}
	}
	return r
}

func (f *conditionsFile) config() outcome.Conditions {
	return outcome.Conditions{Status: f.Status.Statuses, SetCookie: f.SetCookie, Location: f.Location}
}

// name checks the name of a door or a rule, which goes to logs and metrics.
func (s *source) name(path, name string, taken map[string]string) {
	if s.failed[path] {
		return
	}
	switch valid := isName(name); {
	case !valid && !s.has(path):
		s.fail(path, `must be 1 to 64 letters, digits or any of "._/-"`)
	case !valid:
		s.fail(path, `must be 1 to 64 letters, digits or any of "._/-", got %q`, cut(name))
	case taken[name] != "":
		s.fail(path, "must be unique, %s has it too", taken[name])
	default:
		taken[name] = parent(path)
	}
}

func isName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '/', c == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func index(path string, i int) string { return fmt.Sprintf("%s[%s]", path, strconv.Itoa(i)) }
