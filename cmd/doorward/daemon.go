package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/admin"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/audit"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/doctor"
	"github.com/doorward/doorward/cmd/doorward/internal/listen"
	"github.com/doorward/doorward/cmd/doorward/internal/networks"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/cmd/doorward/internal/state"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore"
	"github.com/doorward/doorward/trace"
)

// A daemon is what serve runs: a proxy, its guards, and what may change them.
type daemon struct {
	log   *slog.Logger
	level *slog.LevelVar
	proxy *proxy.Proxy

	file   string                        // of the configuration, "" if it is flags
	again  func() (config.Config, error) // reads it once more, nil if it is flags
	listen []string

	mu       sync.Mutex // of what follows, and of changes: one at a time
	config   config.Config
	guards   map[string]*guard.Guard
	loaded   time.Time     // when config was read
	listed   networks.List // exempt or blocked for a time
	relisted chan struct{} // one if that changed

	watch   doctor.Watch
	started time.Time
	checked []doctor.Finding // at the start, and again in a reload

	state      *state.File   // nil if nothing outlasts the process
	keep       *config.State // no reload changes it
	saved      time.Time     // when the state was last written
	saveErr    error         // of the last write
	complained time.Time     // when that was last said

	shared shared // where guards count, if not in memory

	audit  *audit.Log // nil if nothing is written down
	secret []byte     // that hashes of subjects are made with

	*watched
	forms atomic.Pointer[audit.Form]
	admin *admin.Server // nil if there is no admin API
}

// newDaemon returns a daemon that has built nothing yet.
func newDaemon(c config.Config) *daemon {
	now := time.Now()
	return &daemon{config: c, level: new(slog.LevelVar), loaded: now, relisted: make(chan struct{}, 1), started: now, watched: newWatched(now)}
}

// build makes the guards, and all else that the proxy needs.
func (d *daemon) build(c config.Config) (pc proxy.Config, err error) {
	if pc, d.guards, err = d.reassemble(c); err == nil {
		d.counted(c, d.guards)
	}
	return pc, err
}

// reassemble makes guards that go on from those there are, with the networks that are listed
// for a time.
func (d *daemon) reassemble(c config.Config) (pc proxy.Config, guards map[string]*guard.Guard, err error) {
	modes := map[string]redisstore.Mode{}
	for _, door := range c.Doors {
		modes[door.GuardName()] = door.Away
	}
	pc, guards, err = assembleWith(c, d.log, func(name string, c guard.Config) (*guard.Guard, error) {
		c = d.withListed(name, c)
		if d.shared.client != nil {
			store, err := d.shared.of(name, modes[name])
			if err != nil {
				return nil, err
			}
			c.Store = store
		}
		if old := d.guards[name]; old != nil {
			return old.Reload(c)
		}
		return guard.New(c)
	})
	pc.Tell = d.tell
	pc.Suspect = func(s proxy.Suspicion) { d.watch.Suspect(s, time.Now()) } // the proxy has logged it
	return pc, guards, err
}

func (d *daemon) tellFinding(f doctor.Finding) {
	d.log.Warn(f.Text, "check", f.Check, "fix", f.Fix)
}

// diagnose looks at what can be known without a request.
func (d *daemon) diagnose() {
	d.checked = doctor.Rules(d.config)
	if files, err := listen.Files(); err == nil {
		d.checked = append(d.checked, doctor.Connections(d.config, files)...)
	}
	for _, f := range d.checked {
		d.tellFinding(f)
	}
}

// findUpstream says which copies of the application cannot be reached.
func (d *daemon) findUpstream(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tryUpstream)
	defer cancel()
	d.proxy.TryUpstreams(ctx, func(u *url.URL, err error) {
		if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			d.tellFinding(doctor.Unreachable(u, err))
		}
	})
}

// tryUpstream is how long all copies of the application have to take a connection, when
// somebody wants to know whether they do.
const tryUpstream = 5 * time.Second

// clockEvery is how often it is looked whether the clock was set.
const clockEvery = time.Second

// tellDoors says what is guarded, and what may be wrong with that.
func (d *daemon) tellDoors() {
	for _, door := range d.config.Doors {
		var names []string
		for _, r := range d.guards[door.GuardName()].Rules() {
			names = append(names, r.Name)
		}
		line := []any{"door", door.Name, "routes", strings.Join(door.Door.Routes, ", "), "rules", strings.Join(names, ", ")}
		if door.Realm != "" {
			line = append(line, "realm", door.Realm)
		}
		d.log.Info("guarding", line...)
	}
	for _, w := range d.config.Warnings() {
		d.log.Warn(w)
	}
}

// beside does what is to be done while requests are served: it reloads, or opens the audit
// log anew, when a signal comes, ends what is listed for a time, and writes the state. Stop
// returns when all have ended.
func (d *daemon) beside(reloads, reopens <-chan os.Signal) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-reloads:
				_ = d.reload(api.By{Actor: "SIGHUP"}) // which has said it
			case <-reopens:
				d.reopen()
			case <-done:
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { d.findUpstream(ctx) })
	running.Go(func() {
		tick := time.NewTicker(clockEvery)
		defer tick.Stop()
		for {
			now := time.Now()
			if f, found := d.watch.Clock(time.Duration(now.UnixNano()), now.Sub(d.started), now); found {
				d.tellFinding(f)
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	running.Go(func() { d.expireUntil(done) })
	if d.shared.client != nil {
		running.Go(func() { d.watchStore(done) })
		running.Go(func() { d.findClocks(ctx) })
	}
	if d.state != nil {
		running.Go(func() {
			tick := time.NewTicker(d.keep.Every)
			defer tick.Stop()
			for {
				select {
				case now := <-tick.C:
					before := d.saveErr // which only this goroutine changes
					d.tellSaved(before, d.save(), now)
				case <-done:
					return
				}
			}
		})
	}
	return func() {
		close(done)
		cancel()
		running.Wait()
	}
}

// chooseSecret takes the key of the operator's. Without one hashes mean nothing to another
// process.
func (d *daemon) chooseSecret(c config.Config) {
	if c.Audit != nil && len(c.Audit.Key) > 0 {
		d.secret = c.Audit.Key[0]
		return
	}
	d.secret = make([]byte, 32)
	rand.Read(d.secret)
}

// openAudit opens the audit log, if there is to be one.
func (d *daemon) openAudit(c config.Config) (err error) {
	if c.Audit == nil {
		return nil
	}
	d.audit, err = audit.Open(audit.Config{
		File: c.Audit.File, Mode: c.Audit.Mode, MaxSize: c.Audit.MaxSize, Keep: c.Audit.Keep, Log: d.log,
	}, d.auditSettings(c), doorNames(c), trace.Record{Time: time.Now(), Version: version(), Config: c.Digest})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// auditSettings is what of the audit log a reload can change.
func (d *daemon) auditSettings(c config.Config) audit.Settings {
	a := c.Audit
	if a == nil {
		return audit.Settings{}
	}
	return audit.Settings{Form: d.form(c), Attempts: a.Attempts, Burst: a.Burst, PerSecond: a.PerSecond}
}

// form says how events are told, to whomever: as the audit log has them.
func (d *daemon) form(c config.Config) audit.Form {
	f := audit.Form{Secret: d.secret, Request: true, Realms: map[string]string{}}
	if c.Audit != nil {
		f.V4, f.V6, f.Request = c.Audit.V4, c.Audit.V6, c.Audit.Request
	}
	for _, door := range c.Doors {
		if name := door.GuardName(); name != door.Name {
			f.Realms[door.Name] = name
		}
	}
	return f
}

func doorNames(c config.Config) (names []string) {
	for _, d := range c.Doors {
		names = append(names, d.Name)
	}
	return names
}

// reopen opens the audit log anew: what rotates logs has renamed it.
func (d *daemon) reopen() {
	if err := d.audit.Reopen(); err != nil {
		d.log.Error("audit log not opened anew: the old file is written on", "error", err)
		return
	}
	d.log.Info("audit log opened anew")
}

// openState takes the state file, if there is to be one, and what is kept beside it.
func (d *daemon) openState(c *config.State) (closeState func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	if d.state, err = state.Open(c.File, c.Key[0]); err != nil {
		return nil, err
	}
	d.keep = c
	if err := d.loadListed(time.Now()); err != nil {
		d.state.Close()
		return nil, err
	}
	return func() { d.state.Close() }, nil
}

// loadState lets the guards remember what is in the state file.
func (d *daemon) loadState() error {
	if d.state == nil {
		return nil
	}
	c := d.keep
	n, err := d.state.Load(d.guards, time.Now())
	if err != nil {
		return err
	}
	d.saved = n.Saved
	if n.Saved.IsZero() {
		d.log.Info("no state yet: nothing was counted before", "file", c.File)
		return nil
	}
	line := []any{"file", c.File, "saved", n.Saved, "keys", n.Keys, "in_flight", n.Pending}
	if len(n.Dropped) > 0 {
		line = append(line, "forgotten", strings.Join(n.Dropped, ", "))
	}
	if len(n.New) > 0 {
		line = append(line, "begin_anew", strings.Join(n.New, ", "))
	}
	d.log.Info("state loaded", line...)
	if n.SetBack > 0 {
		d.log.Warn("the clock was set back since the state was written: no time has passed for lockouts", "by", n.SetBack.String())
	}
	return nil
}

// save writes what the guards remember. Changes do not wait for the disk: what one brings
// meanwhile is for the next write.
func (d *daemon) save() error {
	d.mu.Lock()
	guards := d.guards
	d.mu.Unlock()
	now := time.Now()
	err := d.state.Save(guards, now)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.saveErr = err; err == nil {
		d.saved = now
	}
	return err
}

// saveLast writes the state when no request is left.
func (d *daemon) saveLast() error {
	if d.state == nil {
		return nil
	}
	if err := d.save(); err != nil {
		return fmt.Errorf("state: not written, the next start knows what the last write left: %w", err)
	}
	d.log.Info("state written", "file", d.keep.File)
	return nil
}

// complainEvery is how often it is said that the state cannot be written.
const complainEvery = time.Minute

// tellSaved says that a write failed, once in a while, and that it works again.
func (d *daemon) tellSaved(before, err error, now time.Time) {
	switch {
	case err == nil && before != nil:
		d.log.Info("state written again", "file", d.keep.File)
	case err != nil && (before == nil || now.Sub(d.complained) >= complainEvery):
		d.log.Error("state not written: a restart would forget what was counted since", "error", err)
		d.complained = now
	}
}
