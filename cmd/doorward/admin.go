package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/admin"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/certs"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/heavy"
	"github.com/doorward/doorward/cmd/doorward/internal/hub"
	"github.com/doorward/doorward/cmd/doorward/internal/listen"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/cmd/doorward/internal/recent"
	"github.com/doorward/doorward/cmd/doorward/internal/tally"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/trace"
)

// watched is what a daemon knows of what happens, beside what its guards count.
type watched struct {
	tally  *tally.Tally
	heavy  *heavy.Sketch
	recent *recent.Events
	hub    *hub.Hub
}

func newWatched(now time.Time) *watched {
	return &watched{tally: tally.New(), heavy: heavy.New(now), recent: recent.New(), hub: new(hub.Hub)}
}

// tell hears what became of each attempt. It is on the way of every request, and must not
// wait for anything.
func (d *daemon) tell(e *proxy.Event) {
	d.audit.Tell(e)
	if f, found := d.watch.Tell(e); found {
		d.tellFinding(f)
	}
	d.tally.Count(e)
	d.recent.Add(e)
	if !e.Verdict.Allowed {
		d.heavy.Refused(doorward.KeyFromAddr(e.Addr), e.Time)
	}
	if !d.hub.Watched() {
		return
	}
	form := d.forms.Load()
	client := doorward.KeyFromAddr(e.Addr).Prefix()
	for _, kind := range happened(e) {
		d.hub.Tell(&hub.Event{Event: kind, Door: e.Door, Realm: form.Realms[e.Door], Client: client, Record: func() trace.Record {
			all := form.Append(nil, e)
			return bounded(all[slices.IndexFunc(all, func(r trace.Record) bool { return r.Event == kind })])
		}})
	}
}

var (
	refusedOnly  = []trace.Event{trace.Refused}
	settledOnly  = []trace.Event{trace.Settled}
	lockedBefore = []trace.Event{trace.Locked, trace.Settled}
)

// happened are the records that form.Append makes of e.
func happened(e *proxy.Event) []trace.Event {
	switch {
	case !e.Verdict.Allowed:
		return refusedOnly
	case e.Settlement.Lockout.Rule != "":
		return lockedBefore
	}
	return settledOnly
}

// bounded is r with as much of what a caller sent as a line has: it may wait long to be read,
// and would keep all of the request.
func bounded(r trace.Record) trace.Record {
	cut := func(s *string, most int) { *s = strings.Clone((*s)[:min(len(*s), most+1)]) } // one more says that it is cut
	cut(&r.Method, trace.MaxMethod)
	cut(&r.Path, trace.MaxPath)
	cut(&r.Agent, trace.MaxAgent)
	return r
}

// counted says which doors are counted, and how their events are told, from now on. Call it
// before the first request at a new door.
func (d *daemon) counted(c config.Config, guards map[string]*guard.Guard) {
	var doors []tally.Door
	for _, door := range c.Doors {
		t := tally.Door{Name: door.Name, Guard: door.GuardName()}
		for _, r := range guards[t.Guard].Rules() {
			t.Rules = append(t.Rules, r.Name)
		}
		doors = append(doors, t)
	}
	d.tally.Configure(doors)
	form := d.form(c)
	d.forms.Store(&form)
}

// A controller is a daemon as the admin API sees it.
type controller struct{ *daemon }

// Guards are those in force.
func (d controller) Guards() (all []admin.Guard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := map[string]int{}
	for _, door := range d.config.Doors {
		name := door.GuardName()
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name] = i
			all = append(all, admin.Guard{Name: name, Realm: door.Realm != "", Guard: d.guards[name]})
		}
		all[i].Doors = append(all[i].Doors, door.Name)
	}
	return all
}

// Hash stands for a subject.
func (d controller) Hash(subject doorward.Key) trace.Hash { return trace.HashOf(d.secret, subject) }

// Recent are the last events about somebody.
func (d controller) Recent(caller, subject doorward.Key) (all []trace.Record) {
	for _, e := range d.recent.Of(caller, subject) {
		all = d.forms.Load().Append(all, &e)
	}
	return all
}

// Watch begins a stream of events.
func (d controller) Watch(f hub.Filter) (*hub.Stream, error) { return d.hub.Watch(f) }

// Record writes down what an operator, or the daemon itself, changed.
func (d *daemon) record(r trace.Record) {
	d.audit.Write(r)
	d.hub.Tell(&hub.Event{Event: r.Event, Door: r.Door, Realm: r.Realm, Client: r.Network, Record: func() trace.Record { return r }})
}

// Record writes down a change, in the log as well.
func (d controller) Record(r trace.Record) {
	d.daemon.record(r)
	line := []any{}
	for _, f := range []struct{ key, value string }{
		{"door", r.Door}, {"realm", r.Realm}, {"rule", r.Rule}, {"key", r.Key}, {"action", r.Action},
		{"network", networkOf(r)}, {"actor", r.Actor}, {"why", r.Why},
	} {
		if f.value != "" {
			line = append(line, f.key, f.value)
		}
	}
	if !r.Until.IsZero() {
		line = append(line, "until", r.Until)
	}
	d.log.Info(string(r.Event), line...)
}

func networkOf(r trace.Record) string {
	if !r.Network.IsValid() {
		return ""
	}
	return r.Network.String()
}

// Status is the daemon with its figures.
func (d controller) Status(now time.Time) api.Status {
	s := api.Status{
		Version: version(), Now: now.UTC(), Started: d.started.UTC(), Config: d.file, Listen: d.listen,
		Upstream: []api.Copy{}, Doors: []api.Door{}, Guards: []api.Guard{}, Networks: d.Networks(now),
		Heaviest: []api.Heavy{}, Warnings: []string{},
	}
	d.proxy.Upstreams(func(u *url.URL, healthy bool) {
		s.Upstream = append(s.Upstream, api.Copy{URL: u.String(), Healthy: healthy})
	})
	for _, n := range d.heavy.Top(heaviest, now) {
		s.Heaviest = append(s.Heaviest, api.Heavy{Client: n.Key.String(), Refused: n.Refused, Error: n.Error})
	}
	counts := d.tally.Snapshot()
	s.Reloads = api.Reloads{Done: counts.Reloads.Done, Failed: counts.Reloads.Failed, Last: stamp(counts.Reloads.Last)}
	if err := counts.Reloads.Err; err != nil {
		s.Reloads.Error = err.Error()
	}
	s.Store = d.storeStatus()
	d.mu.Lock()
	c, checked := d.config, d.checked
	stores := maps.Clone(d.shared.stores)
	if d.keep != nil {
		s.State = &api.State{File: d.keep.File, Saved: stamp(d.saved)}
		if d.saveErr != nil {
			s.State.Error = d.saveErr.Error()
		}
	}
	d.mu.Unlock()
	s.Warnings = append(s.Warnings, c.Warnings()...)
	for _, f := range slices.Concat(checked, d.watch.Found()) {
		s.Warnings = append(s.Warnings, f.String())
	}
	inFlight := map[string]int{}
	d.proxy.InFlight(func(door string, n int) { inFlight[door] = n })
	for _, n := range counts.Doors {
		s.Doors = append(s.Doors, doorOf(c, n, inFlight[n.Door]))
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	for _, g := range d.Guards() {
		if s.Store != nil && !s.Store.Up {
			cancel() // it would only be waited for
		}
		a := guardOf(ctx, g, counts)
		a.Alone = aloneOf(stores[g.Name])
		s.Guards = append(s.Guards, a)
	}
	return s
}

// storeTime is how long a store has for the figures of all guards.
const storeTime = time.Second

// heaviest is how many networks status names.
const heaviest = 10

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Round(0).UTC()
	return &t
}

func doorOf(c config.Config, n tally.Counts, inFlight int) api.Door {
	d := api.Door{
		Name: n.Door, Guard: n.Guard, Routes: []string{}, Outcomes: map[string]uint64{}, Exempt: n.Exempt,
		Refused: map[string]uint64{}, InFlight: inFlight,
	}
	if i := slices.IndexFunc(c.Doors, func(d config.Door) bool { return d.Name == n.Door }); i >= 0 {
		d.Routes = c.Doors[i].Door.Routes
	}
	for o, m := range n.Outcomes {
		d.Outcomes[doorward.Outcome(o).String()] = m
	}
	for _, r := range n.Rules {
		d.Lockouts += r.Lockouts
		for reason, m := range r.Refused {
			if reason > 0 {
				d.Refused[doorward.Reason(reason).String()] += m
			}
		}
	}
	return d
}

func guardOf(ctx context.Context, g admin.Guard, counts tally.Snapshot) api.Guard {
	a := api.Guard{Name: g.Name, Doors: g.Doors, Rules: []api.Rule{}}
	for _, r := range g.Rules() {
		keys, tables := r.Room()
		rule := api.Rule{Name: r.Name, Per: r.Charges(), Action: admin.ActionOf(r), Policy: admin.PolicyOf(r), Capacity: keys * tables}
		for _, n := range counts.Doors {
			i := slices.IndexFunc(n.Rules, func(o tally.Rule) bool { return o.Name == r.Name })
			if n.Guard == g.Name && i >= 0 {
				rule.Refused += n.Rules[i].Total()
				rule.Lockouts += n.Rules[i].Lockouts
			}
		}
		if s, err := g.StatsContext(ctx, r.Name); err == nil { // else the store does not say
			rule.Tracked, rule.Pending, rule.Reclaimed, rule.PoolFull = s.Tracked, s.Pending, s.Reclaimed, s.PoolFull
			rule.OverflowCharged, rule.OverflowRefused = s.OverflowCharged, s.OverflowRefused
		}
		a.Rules = append(a.Rules, rule)
	}
	return a
}

// Reload reads the configuration again.
func (d controller) Reload(by api.By) error {
	if d.again == nil {
		return admin.Errorf(http.StatusConflict, "this runs on flags: there is no file to read again")
	}
	err := d.reload(by)
	var list config.Errors
	var keys needRestart
	switch {
	case err == nil:
		return nil
	case errors.As(err, &keys):
		e := admin.Errorf(http.StatusConflict, "not reloaded: %v", keys)
		for _, key := range keys {
			e.Errors = append(e.Errors, key+" needs a restart")
		}
		return e
	}
	e := admin.Errorf(http.StatusUnprocessableEntity, "not reloaded: the old configuration stays")
	if errors.As(err, &list) {
		for _, one := range list {
			e.Errors = append(e.Errors, one.Error())
		}
	} else {
		e.Errors = []string{err.Error()}
	}
	return e
}

// openAdmin opens where the admin API is, nothing if there is no such place. Tell says what
// came of it.
func openAdmin(ctx context.Context, c *config.Admin, log *slog.Logger) (ports []admin.Port, tell func(), err error) {
	if c == nil {
		return nil, func() {}, nil
	}
	if c.Default {
		ports, tell = openDefault(c, log)
		return ports, tell, nil
	}
	defer func() {
		if err != nil {
			for _, p := range ports {
				p.Close()
			}
		}
	}()
	var store *certs.Store
	if c.TLS != nil {
		if store, err = certs.Load(c.TLS); err != nil {
			return nil, nil, err
		}
		go store.Watch(ctx.Done(), certsEvery, func(c certs.Change) { tellChange(log, c) })
	}
	for _, l := range c.Listen {
		var p admin.Port
		if l.Network == "unix" {
			p.Listener, err = listen.Unix(l.Address, l.Mode)
		} else {
			p.Listener, err = net.Listen(l.Network, l.Address)
		}
		if err != nil {
			return ports, nil, fmt.Errorf("admin: %w", err)
		}
		if l.Network != "unix" && store != nil {
			p.Certificate = store.Get
			if len(c.ClientCAs) > 0 {
				p.ClientCAs = x509.NewCertPool()
			}
			for _, ca := range c.ClientCAs {
				p.ClientCAs.AddCert(ca)
			}
		}
		ports = append(ports, p)
	}
	return ports, func() { log.Info("admin API", "listen", addresses(ports)) }, nil
}

// openDefault opens the first socket that it can. It is nobody's wish, so that it cannot
// is no reason not to serve.
func openDefault(c *config.Admin, log *slog.Logger) (ports []admin.Port, tell func()) {
	const how = "set admin.listen, or " + config.AdminEnv
	var errs []error
	for _, l := range c.Listen {
		// 0755 as systemd's RuntimeDirectory: the socket has the mode that matters.
		if err := os.Mkdir(filepath.Dir(l.Address), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
			continue
		}
		ln, err := listen.Unix(l.Address, l.Mode)
		if err == nil {
			ports = []admin.Port{{Listener: ln}}
			return ports, func() { log.Info("admin API", "listen", addresses(ports)) }
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, func() { log.Warn("no admin API: another process has its socket, "+how, "socket", l.Address) }
		}
		errs = append(errs, err)
	}
	return nil, func() { log.Info("no admin API: no place for its socket, "+how, "error", errors.Join(errs...)) }
}

// serveAdmin serves the admin API until stop is called.
func (d *daemon) serveAdmin(ports []admin.Port, metrics http.Handler) (stop func(), err error) {
	if len(ports) == 0 {
		return func() {}, nil
	}
	if d.admin, err = admin.New(controller{d}, accessOf(d.config.Admin), metrics, d.log); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.admin.Serve(ctx, ports...); err != nil {
			d.log.Error("admin API ended", "error", err)
		}
	}()
	return func() { cancel(); <-ended }, nil
}

func accessOf(c *config.Admin) admin.Access {
	if c == nil {
		return admin.Access{}
	}
	return admin.Access{Tokens: c.Tokens, Hosts: c.Hosts}
}
