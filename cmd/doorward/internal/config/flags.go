package config

import (
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/doorward/doorward/outcome"
)

// Flags is a configuration without a file: one door, whose routes are one realm.
type Flags struct {
	Overrides
	Upstream       string
	Doors          []string
	Succeeded      string
	Failed         string
	Subject        string
	Challenge      string
	Preset         string
	BasicAuth      bool
	IgnoreCase     bool
	Exempt, Block  []string
	TrustedProxies []string
	ClientHeader   string
	Hops           int
}

// DoorName is the name of the door that flags describe.
const DoorName = "default"

// Config is Parse for flags: what they say is written into the same description of a
// file, and judged by the same code.
func (fl Flags) Config() (Config, error) {
	s := newSource("flags")
	s.flags = map[string]string{
		"upstream": "--upstream", "doors": "--door", "doors[0]": "--door", "doors[0].routes": "--door",
		"doors[0].outcome": "--succeeded", "doors[0].outcome.succeeded": "--succeeded", "doors[0].outcome.failed": "--failed",
		"doors[0].subject": "--subject", "doors[0].challenge": "--challenge", "doors[0].preset": "--preset",
		"doors[0].exempt": "--exempt", "doors[0].blocked": "--block",
		"clients": "--client-header", "clients.trusted_proxies": "--trusted-proxy", "clients.header": "--client-header", "clients.hops": "--hops",
	}
	d := doorFile{Name: DoorName, IgnoreCase: fl.IgnoreCase}
	s.given["doors[0].name"] = true
	if fl.BasicAuth {
		d.When = "basic_auth"
	}
	f := file{}
	s.flag("upstream", "--upstream", fl.Upstream, f.Upstream.set)
	for i, route := range fl.Doors {
		s.item("doors[0].routes", i, "--door", route)
		d.Routes = append(d.Routes, route)
	}
	s.outcomeFlags(fl, &d.Outcome)
	d.Subject = s.sourceFlag("doors[0].subject", fl.Subject)
	d.Challenge = s.sourceFlag("doors[0].challenge", fl.Challenge)
	s.flag("doors[0].preset", "--preset", fl.Preset, d.Preset.set)
	d.Exempt = s.networkFlags("doors[0].exempt", "--exempt", fl.Exempt)
	d.Blocked = s.networkFlags("doors[0].blocked", "--block", fl.Block)
	if len(fl.TrustedProxies) > 0 || fl.ClientHeader != "" || fl.Hops != 0 {
		f.Clients = &clientsFile{Header: fl.ClientHeader, Hops: fl.Hops}
		s.given["clients"], s.given["clients.trusted_proxies"] = true, len(fl.TrustedProxies) > 0
		s.given["clients.header"], s.given["clients.hops"] = fl.ClientHeader != "", fl.Hops != 0
		f.Clients.TrustedProxies = s.networkFlags("clients.trusted_proxies", "--trusted-proxy", fl.TrustedProxies)
	}
	f.Doors = []doorFile{d}
	fl.apply(s, &f)
	c := s.check(&f)
	if err := s.result(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (s *source) outcomeFlags(fl Flags, o *outcomeFile) {
	if fl.Succeeded != "" {
		for _, key := range []string{"", ".status", ".set_cookie", ".location"} {
			s.given["doors[0].outcome.succeeded"+key] = true
		}
		c, header, err := outcome.ParseSucceeded(fl.Succeeded)
		if err != nil {
			s.core("doors[0].outcome", err, map[string]string{"Succeeded": "succeeded", "Succeeded.SetCookie": "succeeded", "Succeeded.Status": "succeeded", "Succeeded.Location": "succeeded"})
		}
		o.Header = header
		o.Succeeded = conditionsFile{Status: statuses{c.Status}, SetCookie: c.SetCookie, Location: c.Location}
	}
	s.flag("doors[0].outcome.failed", "--failed", fl.Failed, o.Failed.Status.add)
}

// sourceFlag reads what says where requests name something: form:username, json:user.email,
// header:X-User, query:user, path:/verify/{id} or basic_auth.
func (s *source) sourceFlag(path, value string) *sourceFile {
	if value == "" {
		return nil
	}
	s.given[path] = true
	f := &sourceFile{}
	kind, name, named := strings.Cut(value, ":")
	to := map[string]*string{"form": &f.Form, "json": &f.JSON, "header": &f.Header, "query": &f.Query, "path": &f.Path}[kind]
	switch {
	case kind == "basic_auth" && !named:
		f.BasicAuth = true
	case to != nil && name != "":
		*to = name
	default:
		s.fail(path, "must be form:NAME, json:PATH, header:NAME, query:NAME, path:PATTERN or basic_auth, got %q", cut(value))
	}
	s.given[path+"."+kind] = true
	return f
}

// flag reads a flag that is one value.
func (s *source) flag(path, name, value string, set func(scalar) error) {
	if value == "" {
		return
	}
	s.flags[path], s.given[path] = name, true
	if err := set(scalar{text: value, tag: "!!str"}); err != nil {
		s.fail(path, "%v, got %q", err, value)
	}
}

// item notes where the i-th value of a repeated flag goes.
func (s *source) item(path string, i int, name, value string) {
	s.given[path] = true
	s.given[index(path, i)] = true
	s.flags[index(path, i)] = name + " " + strconv.Quote(value)
}

func (s *source) networkFlags(path, name string, values []string) []network {
	s.flags[path] = name
	var out []network
	for i, v := range values {
		s.item(path, i, name, v)
		var n network
		if err := n.set(scalar{text: v, tag: "!!str"}); err != nil {
			s.fail(index(path, i), "%v", err)
		}
		out = append(out, n)
	}
	return out
}

// readAll reads a little more than a file may hold, so that Parse says so.
func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxSize+1)) }

// unwrapPath cuts operation and path off an error of package os.
func unwrapPath(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
