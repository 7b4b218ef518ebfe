// Package audit writes what happens at the doors, and what operators change, to a file of
// JSON lines (package trace).
//
// It promises that no line is lost silently: each event is a line, or is counted in the
// dropped of a later one of its door and kind. That happens when there are more of a
// kind than a Meter lets through, or when the file cannot be written, as on a full disk. Every
// door has meters of its own for refusals, for lockouts, and for outcomes: a flood of the one does
// not hide the other, and what operators do is not metered. Nobody who tells it of an
// event waits for a disk: lines go to a buffer of bounded size, which one goroutine
// writes at once. The files are bounded too: File is renamed to File.1 when it is as
// large as it may get, File.1 to File.2, and so on.
//
// It gives up durability: a line is with the operating system within moments, and is lost
// if the machine dies before that wrote it. A process that is killed loses what is in the
// buffer, which is empty but for moments while the disk keeps up. Only one process
// may write to a file.
package audit

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/logs"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/trace"
)

// Config is what stays while a log is open.
type Config struct {
	File    string
	Mode    fs.FileMode // of a file that it makes; 0 is 0600
	MaxSize int64       // bytes of a file; at least trace.MaxLine
	Keep    int         // older files, at least 1
	Log     *slog.Logger
}

// Settings are what can change while a log is open.
type Settings struct {
	Form Form
	// Attempts adds a line for each attempt that was not refused, when it ends.
	Attempts bool
	// Burst and PerSecond are how many lines of one kind one door may have at once, and in
	// the long run. Both must be positive.
	Burst, PerSecond int
}

// How many bytes may wait for the disk when one more line does: of refusals and outcomes, of
// lockouts, of all that is not metered, and after all events.
const (
	roomCallers = 256 << 10
	roomLocked  = roomCallers + 64<<10
	roomOthers  = roomLocked + 2*trace.MaxLine
	roomLast    = 2 * roomOthers
)

// A Log is open until Close. All its methods are safe for concurrent use, and do nothing on
// a nil Log: what is not configured needs no condition.
type Log struct {
	config   Config
	settings atomic.Pointer[set]

	mu      sync.Mutex // never held while a file is written
	buf     []byte     // whole lines
	closed  bool
	dropped map[trace.Event]uint64 // of operators' lines, for want of room
	written uint64

	wake    chan struct{} // one if buf is not empty
	done    chan struct{}
	running sync.WaitGroup
	file    output
	failing atomic.Bool
}

// set is what Set puts in the place of another. Doors are never taken out: a request that
// began at one may end after a reload.
type set struct {
	Settings
	doors map[string]*door
}

// A door has a meter for each kind of line.
type door struct{ refused, locked, settled logs.Meter }

func (d *door) kinds(f func(e trace.Event, m *logs.Meter)) {
	f(trace.Refused, &d.refused)
	f(trace.Locked, &d.locked)
	f(trace.Settled, &d.settled)
}

// Open opens the file, and says in it that the process has started: started has what else
// is to be said of that. Doors are those that events may name.
func Open(c Config, s Settings, doors []string, started trace.Record) (*Log, error) {
	return newLog(c, s, doors, started, nil)
}

// newLog opens files by open unless that is nil.
func newLog(c Config, s Settings, doors []string, started trace.Record, open func() (file, error)) (*Log, error) {
	if c.Mode == 0 {
		c.Mode = 0o600
	}
	l := &Log{
		config: c, wake: make(chan struct{}, 1), done: make(chan struct{}),
		dropped: map[trace.Event]uint64{},
		file:    output{name: c.File, mode: c.Mode, most: c.MaxSize, keep: c.Keep, open: open},
	}
	if err := l.file.reopen(); err != nil {
		return nil, err
	}
	l.settings.Store(&set{})
	l.Set(s, doors)
	l.running.Go(l.run)
	started.Event = trace.Started
	l.Write(started)
	return l, nil
}

// Set changes what can change. Doors are those that events may name from now on, besides
// those before.
func (l *Log) Set(s Settings, doors []string) {
	if l == nil {
		return
	}
	next := &set{s, maps.Clone(l.settings.Load().doors)}
	if next.doors == nil {
		next.doors = map[string]*door{}
	}
	for _, name := range doors {
		if next.doors[name] == nil {
			next.doors[name] = new(door)
		}
	}
	for _, d := range next.doors {
		d.kinds(func(_ trace.Event, m *logs.Meter) { m.Set(s.Burst, s.PerSecond) })
	}
	l.settings.Store(next)
}

// Tell writes what e becomes, or counts it. It does not wait for the disk.
func (l *Log) Tell(e *proxy.Event) {
	if l == nil {
		return
	}
	s := l.settings.Load()
	d := s.doors[e.Door]
	if d == nil {
		return // no such door was ever configured
	}
	if !e.Verdict.Allowed {
		l.metered(&d.refused, roomCallers, e, s.Form.refused)
		return
	}
	if e.Settlement.Lockout.Rule != "" {
		l.metered(&d.locked, roomLocked, e, s.Form.locked)
	}
	if s.Attempts {
		l.metered(&d.settled, roomCallers, e, s.Form.settled)
	}
}

// metered makes a record only if there may be a line.
func (l *Log) metered(m *logs.Meter, room int, e *proxy.Event, form func(*proxy.Event) trace.Record) {
	dropped, ok := m.Take(e.Time)
	if !ok {
		return
	}
	r := form(e)
	r.Dropped = dropped
	if !l.put(&r, room) {
		m.Drop(dropped + 1)
	}
}

// Write writes what an operator did, or what became of the process. It is never sampled, and
// dropped, and counted, only after the disk has failed for long.
func (l *Log) Write(r trace.Record) {
	if l == nil {
		return
	}
	if !l.put(&r, roomOthers) {
		l.mu.Lock()
		l.dropped[r.Event]++
		l.mu.Unlock()
	}
}

// put appends a line to what waits for the disk, if there is room.
func (l *Log) put(r *trace.Record, room int) bool {
	l.mu.Lock()
	before := len(l.buf)
	l.buf = r.AppendLine(l.buf)
	ok := len(l.buf) <= room && (!l.closed || room == roomLast)
	if ok {
		l.written++
	} else {
		l.buf = l.buf[:before]
	}
	l.mu.Unlock()
	if ok {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return ok
}

// Reopen opens the file anew, as after somebody has renamed it. If that fails, the old one is
// written on.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	l.file.mu.Lock()
	defer l.file.mu.Unlock()
	return l.file.reopen()
}

// tellDropped is how often it is said what was dropped, where no line came since to say so.
const tellDropped = 5 * time.Second

// retryAfter is how long a write that failed waits for the next.
const retryAfter = time.Second

func (l *Log) run() {
	dropped := time.NewTicker(tellDropped)
	defer dropped.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-l.wake:
		case <-retry.C:
		case now := <-dropped.C:
			l.flush(now, roomOthers)
		case <-l.done:
			return
		}
		if l.drain() != nil {
			retry.Reset(retryAfter)
		}
	}
}

// flush writes how many lines were dropped where no line came since to say so.
func (l *Log) flush(now time.Time, room int) {
	for name, d := range l.settings.Load().doors {
		d.kinds(func(e trace.Event, m *logs.Meter) {
			n := m.Drain()
			if n > 0 && !l.put(&trace.Record{Time: now, Event: trace.Dropped, Of: e, Door: name, Dropped: n}, room) {
				m.Drop(n)
			}
		})
	}
	l.mu.Lock()
	dropped := l.dropped
	l.dropped = map[trace.Event]uint64{}
	l.mu.Unlock()
	for e, n := range dropped {
		if !l.put(&trace.Record{Time: now, Event: trace.Dropped, Of: e, Dropped: n}, room) {
			l.mu.Lock()
			l.dropped[e] += n
			l.mu.Unlock()
		}
	}
}

// drain writes what waits. What could not be written waits on, and is said.
func (l *Log) drain() error {
	l.file.mu.Lock()
	defer l.file.mu.Unlock()
	for {
		if !l.file.pending() {
			l.mu.Lock()
			l.buf = l.file.take(l.buf)
			l.mu.Unlock()
			if !l.file.pending() {
				return nil
			}
		}
		err := l.file.write()
		l.complain(err)
		if err != nil {
			return err
		}
	}
}

// complainEvery is how often it is said that the file cannot be written.
const complainEvery = time.Minute

// complain says that a write failed, once in a while, and that it works again.
func (l *Log) complain(err error) {
	f := &l.file
	l.failing.Store(err != nil)
	switch now := time.Now(); {
	case err == nil && !f.failed.IsZero():
		f.failed = time.Time{}
		l.config.Log.Info("audit log written again", "file", f.name)
	case err != nil && (f.failed.IsZero() || now.Sub(f.failed) >= complainEvery):
		f.failed = now
		l.config.Log.Error("audit log not written: lines wait as far as there is room, then they are counted", "error", err)
	}
}

// Close writes all that waits, what was dropped, and that the process has stopped, if that
// was because of an error which. Events after it are not written. An error says how
// many lines are not in the file. A log that is closed stays so.
func (l *Log) Close(cause error) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	close(l.done)
	l.running.Wait()
	now := time.Now()
	l.flush(now, roomLast)
	r := trace.Record{Time: now, Event: trace.Stopped}
	if cause != nil {
		r.Error = cause.Error()
	}
	l.put(&r, roomLast)
	err := l.drain()
	lost := l.file.lines()
	l.mu.Lock()
	lost += count(l.buf)
	l.mu.Unlock()
	if e := l.file.close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("audit: %d lines not written: %w", lost, err)
	}
	return nil
}

// Stats are the lines since the start.
type Stats struct {
	Lines   uint64 // written, or waiting to be
	Failing bool   // the last write failed
}

// Stats returns live figures.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{l.written, l.failing.Load()}
}
