package main

import (
	"net/url"
	"runtime/debug"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/metrics"
)

// snapshot is what a scrape shows.
func (d *daemon) snapshot() metrics.Snapshot {
	info, _ := debug.ReadBuildInfo()
	s := metrics.Snapshot{
		Now: time.Now(), Version: release(info), Tally: d.tally.Snapshot(),
		InFlight: map[string]int{}, Healthy: map[string]bool{}, Lines: map[string]uint64{},
	}
	d.mu.Lock()
	s.Guards, s.Loaded = d.guards, d.loaded // a reload makes another map
	if d.keep != nil {
		s.State = &metrics.State{Saved: d.saved, Every: d.keep.Every}
	}
	if client := d.shared.client; client != nil {
		h := client.Health()
		s.Store = &metrics.Store{Up: h.Up, Downs: h.Downs, Calls: client.Calls(), Guards: map[string]metrics.Alone{}}
		for name, store := range d.shared.stores {
			s.Store.Guards[name] = metrics.Alone{Alone: store.Alone(), Mode: store.Mode()}
		}
	}
	d.mu.Unlock()
	if d.audit != nil {
		a := d.audit.Stats()
		s.Audit = &metrics.Audit{Lines: a.Lines, Failing: a.Failing}
	}
	d.proxy.InFlight(func(door string, n int) { s.InFlight[door] = n })
	d.proxy.Upstreams(func(u *url.URL, healthy bool) { s.Healthy[u.String()] = healthy })
	d.proxy.Lines(func(kind string, n uint64) { s.Lines[kind] = n })
	return s
}
