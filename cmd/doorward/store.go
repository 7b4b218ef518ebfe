package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/doctor"
	"github.com/doorward/doorward/redisstore"
)

// shared is where nodes count together. Its zero value is nowhere: each guard counts in memory.
type shared struct {
	client    *redisstore.Client
	addresses []string
	stores    map[string]*redisstore.Store // by guard; of the daemon's mu
}

// openStore connects, if counts are in a store. A server that is not there yet is no error: doors
// do what they do while it is away.
func (d *daemon) openStore(c *config.Store) (closeStore func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	if d.shared.client, err = redisstore.Dial(c.Options()); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	d.shared.addresses, d.shared.stores = c.Redis.Addresses, map[string]*redisstore.Store{}
	return d.shared.client.Close, nil
}

// of returns the store of a guard, another one if there was none.
func (s *shared) of(guard string, m redisstore.Mode) (*redisstore.Store, error) {
	if known := s.stores[guard]; known != nil {
		return known, nil
	}
	made, err := s.client.Store(guard, m)
	if err == nil {
		s.stores[guard] = made
	}
	return made, err
}

// settle makes the modes those of c, and lets go what is of no guard any more.
func (s *shared) settle(c config.Config) error {
	modes := map[string]redisstore.Mode{}
	for _, door := range c.Doors {
		modes[door.GuardName()] = door.Away
	}
	for name, store := range s.stores {
		m, used := modes[name]
		if !used {
			store.Close()
			delete(s.stores, name)
			continue
		}
		if err := store.SetMode(m); err != nil {
			return err
		}
	}
	return nil
}

// healthEvery is how often it is looked whether the store is there.
const healthEvery = 200 * time.Millisecond

// watchStore says when the store goes and comes, and once in a while that it answers with errors.
func (d *daemon) watchStore(done <-chan struct{}) {
	client := d.shared.client
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	var said health
	for {
		said.tell(d, client.Health(), time.Now())
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// health is what was said last.
type health struct {
	known, up  bool
	since      time.Time
	fault      time.Time // the last answer that was an error
	complained time.Time
}

func (was *health) tell(d *daemon, h redisstore.Health, now time.Time) {
	switch {
	case was.known && h.Up == was.up:
	case h.Up && was.known:
		d.log.Info("the store is back", "away", now.Sub(was.since).Round(time.Millisecond).String())
	case h.Up:
		d.log.Info("counting in the store", "address", strings.Join(d.shared.addresses, ", "))
	default:
		d.log.Warn("the store is away: doors go on as when_store_is_away says", "error", h.Err)
	}
	if !was.known || h.Up != was.up {
		was.since = now
	}
	was.known, was.up = true, h.Up
	if h.FaultAt.After(was.fault) && now.Sub(was.complained) >= complainEvery {
		d.log.Error("the store answers with errors", "error", h.Fault)
		was.complained = now
	}
	was.fault = h.FaultAt
}

// findClocks says which clocks of the store's servers differ.
func (d *daemon) findClocks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tryUpstream)
	defer cancel()
	if clocks, err := d.shared.client.Clocks(ctx); err == nil {
		for _, f := range doctor.Clocks(clocks) {
			d.tellFinding(f)
		}
	}
}

// storeStatus is what is known of the store, nil if there is none.
func (d *daemon) storeStatus() *api.Store {
	if d.shared.client == nil {
		return nil
	}
	h, n := d.shared.client.Health(), d.shared.client.Calls()
	s := &api.Store{
		Addresses: d.shared.addresses, Up: h.Up, Since: stamp(h.Since), Downs: h.Downs,
		Calls: n.Calls, Errors: n.Errors, Timeouts: n.Timeouts, Short: n.Short + n.Full,
	}
	if h.Err != nil {
		s.Error, s.ErrorAt = h.Err.Error(), stamp(h.ErrAt)
	}
	if h.Fault != nil {
		s.Fault, s.FaultAt = h.Fault.Error(), stamp(h.FaultAt)
	}
	return s
}

// aloneOf is what a guard decided without its store.
func aloneOf(s *redisstore.Store) *api.Alone {
	if s == nil {
		return nil
	}
	n := s.Alone()
	return &api.Alone{Mode: s.Mode().String(), Hot: n.Hot, Local: n.Local, FailOpen: n.Open, Unavailable: n.Unavailable}
}
