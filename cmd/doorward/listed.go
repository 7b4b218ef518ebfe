package main

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/admin"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/networks"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/trace"
)

// Networks are those that are listed for a time.
func (d controller) Networks(now time.Time) []api.Network {
	d.mu.Lock()
	l, _ := d.listed.At(now)
	d.mu.Unlock()
	all := []api.Network{}
	for _, n := range l.All() {
		all = append(all, listedAs(n))
	}
	return all
}

func listedAs(n networks.Network) api.Network {
	return api.Network{
		ID: n.ID(), Network: n.Prefix.String(), Action: n.Action(), Guard: n.Guard, Until: n.Until.Round(0).UTC(),
		By: api.By{Actor: n.Actor, Reason: n.Reason},
	}
}

// List exempts or blocks a network for a time.
func (d controller) List(in api.List, now time.Time) (api.Network, error) {
	length := time.Duration(in.For * float64(time.Second))
	n := networks.Network{
		Prefix: netip.MustParsePrefix(in.Network), Block: in.Action == "block", Guard: in.Guard,
		Until: now.Add(length), For: length, Actor: in.Actor, Reason: in.Reason,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !n.Block {
		if p, whose := d.blocks(n); p.IsValid() {
			return api.Network{}, admin.Errorf(http.StatusConflict, "%v of guard %s is blocked, and that counts more than being exempt", p, whose)
		}
	}
	old := d.listed
	next, err := old.With(n)
	if err != nil {
		return api.Network{}, admin.Errorf(http.StatusConflict, "%s", strings.TrimPrefix(err.Error(), "networks: "))
	}
	if err := d.relist(next); err != nil {
		return api.Network{}, admin.Errorf(http.StatusUnprocessableEntity, "%s", strings.TrimPrefix(err.Error(), "guard: "))
	}
	d.Record(d.whose(n, trace.Record{Time: now, Event: trace.Listed, Until: n.Until, Actor: n.Actor, Why: n.Reason}))
	return listedAs(n), nil
}

// blocks returns a blocked network that n is in or has in it, and whose it is.
func (d *daemon) blocks(n networks.Network) (netip.Prefix, string) {
	for _, door := range d.config.Doors {
		name := door.GuardName()
		if n.Guard != "" && n.Guard != name {
			continue
		}
		_, blocked := d.listed.Of(name)
		for _, p := range slices.Concat(door.Guard.Blocked, blocked) {
			same := slices.ContainsFunc(d.listed.All(), func(o networks.Network) bool {
				return o.Block && o.Prefix == p && o.Prefix == n.Prefix && o.Guard == n.Guard
			})
			if p.Overlaps(n.Prefix) && !same { // that one is taken off by this
				return p, name
			}
		}
	}
	return netip.Prefix{}, ""
}

// whose fills in what a record says of a listed network.
func (d *daemon) whose(n networks.Network, r trace.Record) trace.Record {
	r.Network, r.Action = n.Prefix, n.Action()
	if i := slices.IndexFunc(d.config.Doors, func(o config.Door) bool { return o.GuardName() == n.Guard }); i >= 0 && d.config.Doors[i].Realm != "" {
		r.Realm = n.Guard
	} else {
		r.Door = n.Guard
	}
	return r
}

// Unlist ends that before its time.
func (d controller) Unlist(id string, by api.By, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next, n, ok := d.listed.Without(id)
	if !ok {
		return admin.Errorf(http.StatusNotFound, "no such network is listed: it may have ended")
	}
	if err := d.relist(next); err != nil {
		return err
	}
	d.Record(d.whose(n, trace.Record{Time: now, Event: trace.Unlisted, Actor: by.Actor, Why: by.Reason}))
	return nil
}

// relist makes next the networks that hold for a time, with d.mu held. An error changes
// nothing.
func (d *daemon) relist(next networks.List) error {
	old := d.listed
	d.listed = next
	pc, guards, err := d.reassemble(d.config)
	if err == nil {
		err = d.proxy.Reload(pc)
	}
	if err != nil {
		d.listed = old
		return err
	}
	d.guards = guards
	d.keepListed()
	select {
	case d.relisted <- struct{}{}:
	default:
	}
	return nil
}

// withListed is the configuration of a guard with the networks that are listed for a time.
func (d *daemon) withListed(name string, c guard.Config) guard.Config {
	exempt, blocked := d.listed.Of(name)
	c.Exempt = slices.Concat(c.Exempt, exempt)
	c.Blocked = slices.Concat(c.Blocked, blocked)
	return c
}

// beside of the state file the networks are kept.
const besideNetworks = "networks"

// keepListed writes the networks, if anything outlasts the process.
func (d *daemon) keepListed() {
	if d.state == nil {
		return
	}
	b, err := d.listed.MarshalBinary()
	if err == nil {
		err = d.state.SaveBeside(besideNetworks, b)
	}
	if err != nil {
		d.log.Error("networks for a time not written: a restart would forget what changed", "error", err)
	}
}

// loadListed takes the networks that an earlier process left.
func (d *daemon) loadListed(now time.Time) error {
	b, err := d.state.LoadBeside(besideNetworks)
	if b == nil || err != nil {
		return err
	}
	if d.listed, err = networks.Parse(b, now); err != nil {
		return err
	}
	if n := len(d.listed.All()); n > 0 {
		d.log.Info("networks for a time loaded", "networks", n)
	}
	return nil
}

// expire ends what is over, and returns how long until the next is.
func (d *daemon) expire(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	next, ended := d.listed.At(now)
	if len(ended) > 0 {
		if err := d.relist(next); err != nil {
			d.log.Error("networks whose time is over stay: the next change takes them off", "error", err)
			return time.Minute
		}
		for _, n := range ended {
			controller{d}.Record(d.whose(n, trace.Record{Time: now, Event: trace.Unlisted, Actor: "doorward", Why: "its time is over"}))
		}
	}
	if len(next.All()) == 0 {
		return networks.Longest
	}
	return next.All()[0].Until.Sub(now)
}

// expireUntil ends networks when their time is over, until done is closed.
func (d *daemon) expireUntil(done <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-d.relisted:
		case <-done:
			return
		}
		timer.Reset(d.expire(time.Now()))
	}
}
