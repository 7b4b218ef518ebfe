package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/trace"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newGuard(t testing.TB) *guard.Guard {
	policy := &lockout.Policy{FreeFailures: 5, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour}
	g, err := guard.New(guard.Config{Rules: []guard.Rule{
		{Name: "burst", Lockout: policy},
		{Name: "site", V4: -1, V6: 48, Lockout: &lockout.Policy{FreeFailures: 50, Window: time.Minute, FirstLockout: time.Minute, MaxLockout: time.Hour, Decay: true}},
		{Name: "trial", Per: guard.Pair, Action: guard.Shadow, Lockout: policy},
		{Name: "ask", Per: guard.Subject, Action: guard.StepUp, Lockout: policy},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// What each event becomes.
func TestForm(t *testing.T) {
	g := newGuard(t)
	secret := bytes.Repeat([]byte{7}, 32)
	alice := doorward.KeyFromName("alice")
	event := func(change func(*proxy.Event)) *proxy.Event {
		e := &proxy.Event{Time: at, Door: "login", Guard: g, Addr: netip.MustParseAddr("192.0.2.7"), How: clientip.Header, Method: "POST", Path: "/login", Agent: "curl/8"}
		change(e)
		return e
	}
	allowed := func(change func(*proxy.Event)) *proxy.Event {
		return event(func(e *proxy.Event) {
			e.Verdict.Allowed = true
			e.Settlement.Settled = true
			change(e)
		})
	}
	locks := func(rule string, action guard.Action) *proxy.Event {
		return allowed(func(e *proxy.Event) {
			e.Settlement.Lockout = guard.Lockout{Rule: rule, Action: action, For: 90 * time.Second}
		})
	}
	whole := Form{Secret: secret, Request: true}
	const from, request = `,"door":"login","client":"192.0.2.7","how":"header"`, `,"method":"POST","path":"/login","agent":"curl/8"}`
	for _, row := range []struct {
		name string
		f    Form
		e    *proxy.Event
		want []string
	}{
		{"refused", whole, event(func(e *proxy.Event) {
			e.Verdict = guard.Verdict{Rule: "site", Decision: doorward.Decision{Reason: doorward.Locked, RetryAfter: 1500 * time.Millisecond, Overflow: true}}
			e.Subject = alice
		}), []string{`"refused"` + from + `,"subject":"` + trace.HashOf(secret, alice).String() + `","rule":"site","per":"network6/48","reason":"locked","retry_after":1.5,"overflow":true` + request}},
		{"blocked", whole, event(func(e *proxy.Event) { e.Verdict.Reason = doorward.Blocked }), []string{`"refused"` + from + `,"reason":"blocked"` + request}},
		{"failed", whole, allowed(func(*proxy.Event) {}), []string{`"settled"` + from + `,"outcome":"failed"` + request}},
		{"malformed", whole, allowed(func(e *proxy.Event) {
			e.Settlement.Outcome, e.Malformed = doorward.Malformed, "the request names no subject"
		}), []string{`"settled"` + from + `,"outcome":"malformed"` + strings.TrimSuffix(request, "}") + `,"error":"the request names no subject"}`}},
		{"exempt", whole, allowed(func(e *proxy.Event) { e.Verdict.Exempt = true; e.Settlement = guard.Settlement{} }), []string{`"settled"` + from + `,"outcome":"exempt"` + request}},
		{"step up", whole, allowed(func(e *proxy.Event) { e.Verdict.StepUp, e.Verdict.Shadow = true, 1<<2 }), []string{`"settled"` + from + `,"outcome":"failed","step_up":true,"shadow":["trial"]` + request}},
		{"locks", whole, locks("burst", guard.Refuse), []string{
			`"locked"` + from + `,"rule":"burst","per":"network","lockout":90,"until":"2026-01-02T03:05:35.000000Z"` + request,
			`"settled"` + from + `,"outcome":"failed"` + request}},
		{"a shadow locks nobody", whole, locks("trial", guard.Shadow), []string{
			`"locked"` + from + `,"shadow":["trial"],"lockout":90,"until":"2026-01-02T03:05:35.000000Z"` + request,
			`"settled"` + from + `,"outcome":"failed"` + request}},
		{"a step up locks nobody", whole, locks("ask", guard.StepUp), []string{
			`"locked"` + from + `,"rule":"ask","per":"subject","step_up":true,"lockout":90,"until":"2026-01-02T03:05:35.000000Z"` + request,
			`"settled"` + from + `,"outcome":"failed"` + request}},
		{"without the request", Form{Secret: secret, Realms: map[string]string{"login": "accounts"}}, allowed(func(*proxy.Event) {}), []string{
			`"settled","door":"login","realm":"accounts","client":"192.0.2.7","how":"header","outcome":"failed"}`}},
		{"cut", Form{V4: 24, V6: 48}, allowed(func(*proxy.Event) {}), []string{`"settled","door":"login","client":"192.0.2.0/24","how":"header","outcome":"failed"}`}},
		{"cut", Form{V4: 24, V6: 48}, allowed(func(e *proxy.Event) { e.Addr = netip.MustParseAddr("2001:db8:1:2:3::4") }), []string{`"settled","door":"login","client":"2001:db8:1::/48","how":"header","outcome":"failed"}`}},
		{"network", Form{}, allowed(func(e *proxy.Event) { e.Addr = netip.MustParseAddr("2001:db8:1:2:3::4") }), []string{`"settled","door":"login","client":"2001:db8:1:2::/64","how":"header","outcome":"failed"}`}},
		{"nobody", Form{}, allowed(func(e *proxy.Event) { e.Addr, e.How = netip.Addr{}, clientip.Unknown }), []string{`"settled","door":"login","client":"unknown","how":"unknown","outcome":"failed"}`}},
	} {
		var got []string
		for _, r := range row.f.Append(nil, row.e) {
			b, _ := r.MarshalJSON()
			got = append(got, strings.TrimPrefix(string(b), `{"time":"2026-01-02T03:04:05.000000Z","event":`))
		}
		if strings.Join(got, "\n") != strings.Join(row.want, "\n") {
			t.Errorf("%s: got\n%s, want\n%s", row.name, strings.Join(got, "\n"), strings.Join(row.want, "\n"))
		}
	}
}

// What callers sent is a value of the field that it belongs to, and nothing else: in
// no syntax is it another field or line.
func TestInjection(t *testing.T) {
	g := newGuard(t)
	f := Form{Request: true}
	for _, text := range []string{
		`","event":"locked","client":"192.0.2.9`, `\","event":"locked","client":"192.0.2.9`, "\n{\"time\":\"2026-01-02T03:04:05.000000Z\",\"event\":\"locked\"}\n",
		"\r\n", "\u2028", "\x85", "\xc0\x8a", "\x1b[2J", "\x00", `\u000a`, strings.Repeat("\"", 300), strings.Repeat("\\", 199) + "\"", "é\xff",
	} {
		e := &proxy.Event{Time: at, Door: "login", Guard: g, Addr: netip.MustParseAddr("192.0.2.7"), How: clientip.Peer, Method: text, Path: text, Agent: text, Malformed: text}
		e.Verdict.Allowed = true
		for _, r := range f.Append(nil, e) {
			line := r.AppendLine(nil)
			if bytes.Count(line, []byte("\n")) != 1 {
				t.Errorf("%q: lines %q", text, line)
			}
			for _, c := range line[:len(line)-1] {
				if c < ' ' || c > '~' {
					t.Errorf("%q: the byte %#x", text, c)
				}
			}
			got, err := trace.Parse(line)
			if err != nil || got.Event != trace.Settled || got.Client != netip.MustParsePrefix("192.0.2.7/32") || got.Time != at {
				t.Errorf("%q is read as %+v, %v", text, got, err)
			}
			if len(text) < trace.MaxMethod && strings.ToValidUTF8(text, "") == text && (got.Method != text || got.Path != text || got.Agent != text || got.Error != text) {
				t.Errorf("%q is read as %q, %q, %q, %q", text, got.Method, got.Path, got.Agent, got.Error)
			}
		}
	}
}

// A desk is a log in a directory of its own.
type desk struct {
	t    *testing.T
	name string
	said *bytes.Buffer // read when the log is closed
	log  *Log
}

var doors = []string{"login", "reset"}

func open(t *testing.T, change func(*Config, *Settings), disk func() (file, error)) *desk {
	t.Helper()
	d := &desk{t: t, name: filepath.Join(t.TempDir(), "audit.log"), said: new(bytes.Buffer)}
	c := Config{File: d.name, MaxSize: 100 << 20, Keep: 5, Log: slog.New(slog.NewTextHandler(d.said, nil))}
	s := Settings{Attempts: true, Burst: 10, PerSecond: 10}
	if change != nil {
		change(&c, &s)
	}
	l, err := newLog(c, s, doors, trace.Record{Time: at}, disk)
	if err != nil {
		t.Fatal(err)
	}
	d.log = l
	return d
}

func (d *desk) close() error {
	d.t.Helper()
	return d.log.Close(nil)
}

// lines reads files, oldest first.
func (d *desk) lines(names ...string) (all []trace.Record) {
	d.t.Helper()
	if len(names) == 0 {
		names = []string{d.name}
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			d.t.Fatal(err)
		}
		for r, err := range trace.Records(f) {
			if err != nil {
				d.t.Errorf("%s: %v", name, err)
			}
			all = append(all, r)
		}
		f.Close()
	}
	return all
}

// tally counts lines, and those that were dropped, by door and event.
func tally(records []trace.Record) (lines, dropped map[string]uint64) {
	lines, dropped = map[string]uint64{}, map[string]uint64{}
	for _, r := range records {
		e := r.Event
		if e == trace.Dropped {
			e = r.Of
		} else {
			lines[r.Door+" "+string(e)]++
		}
		dropped[r.Door+" "+string(e)] += r.Dropped
	}
	return lines, dropped
}

func refusal(door string) *proxy.Event {
	return &proxy.Event{Time: time.Now(), Door: door, Addr: netip.MustParseAddr("192.0.2.7"), Verdict: guard.Verdict{Rule: "burst", Decision: doorward.Decision{Reason: doorward.Locked}}}
}

func failure(door string, locks bool) *proxy.Event {
	e := &proxy.Event{Time: time.Now(), Door: door, Addr: netip.MustParseAddr("192.0.2.7")}
	e.Verdict.Allowed, e.Settlement.Settled = true, true
	if locks {
		e.Settlement.Lockout = guard.Lockout{Rule: "burst", For: time.Minute}
	}
	return e
}

// Under a flood every event is a line or counted in a later one, per door and kind, within
// ten seconds and to the last; and a flood at one door, or of one kind, hides no other.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, nil)
		var wg sync.WaitGroup
		flood := func(each int) {
			for range 10 {
				wg.Go(func() {
					for range each {
						d.log.Tell(refusal("login"))
					}
				})
			}
			wg.Wait()
		}
		flood(1000)
		for range 10 {
			d.log.Tell(refusal("reset"))
			d.log.Tell(failure("login", true))
		}
		d.log.Write(trace.Record{Time: at, Event: trace.Unlocked, Actor: "eve"})
		time.Sleep(time.Second)
		flood(5) // ten lines, the first of them says how many were not written
		synctest.Wait()
		check := func(want map[string][2]uint64) {
			t.Helper()
			lines, dropped := tally(d.lines())
			for kind, n := range want {
				if lines[kind] != n[0] || dropped[kind] != n[1] {
					t.Errorf("%s: %d lines and %d dropped, want %d and %d", kind, lines[kind], dropped[kind], n[0], n[1])
				}
			}
			if len(lines) != len(want) {
				t.Errorf("lines %v, want those of %v", lines, want)
			}
		}
		all := map[string][2]uint64{
			"login refused": {20, 9990}, "reset refused": {10, 0}, "login locked": {10, 0}, "login settled": {10, 0},
			" started": {1, 0}, " unlocked": {1, 0},
		}
		check(all)
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		all["login refused"] = [2]uint64{20, 9990 + 40}
		check(all)
		flood(2) // ten, and ten that only Close tells of
		if err := d.close(); err != nil {
			t.Error(err)
		}
		all["login refused"] = [2]uint64{30, 9990 + 40 + 10}
		all[" stopped"] = [2]uint64{1, 0}
		check(all)
		records := d.lines()
		if last := records[len(records)-1]; records[0].Event != trace.Started || last.Event != trace.Stopped {
			t.Errorf("begins with %v, ends with %v", records[0], last)
		}
		d.log.Tell(refusal("login")) // too late, and no harm
		if err := d.log.Close(errors.New("again")); err != nil {
			t.Error(err)
		}
		if again := d.lines(); len(again) != len(records) || d.said.Len() > 0 {
			t.Errorf("%d lines after Close, said %s", len(again), d.said)
		}
	})
}

// A disk takes so many bytes, then it is full.
type disk struct {
	mu    sync.Mutex
	b     bytes.Buffer
	space int
	wait  chan bool // a write waits for it to be closed, unless nil
}

func (d *disk) Write(b []byte) (int, error) {
	if d.wait != nil {
		<-d.wait
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(b), d.space)
	d.b.Write(b[:n])
	if d.space -= n; n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *disk) give(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space += n
}

func (d *disk) records(t *testing.T) (all []trace.Record) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for r, err := range trace.Records(bytes.NewReader(d.b.Bytes())) {
		if err != nil {
			t.Error(err)
		}
		all = append(all, r)
	}
	return all
}

func (d *disk) ReadAt([]byte, int64) (int, error) { return 0, errors.New("not read") }
func (d *disk) Close() error                      { return nil }
func (d *disk) Stat() (fs.FileInfo, error)        { return os.Stat(os.DevNull) }

// A full disk takes what it can, byte by byte, and nobody waits for it. When there is
// room again, lines go on where they ended, and what found no place is counted.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &disk{space: 1000}
		d := open(t, func(_ *Config, s *Settings) { s.Burst, s.PerSecond = 1e6, 1e6 }, func() (file, error) { return full, nil })
		told := uint64(0)
		d.log.file.mu.Lock() // what is written first is more than the disk will take
		for i := range 300 {
			for range 100 {
				d.log.Tell(refusal("login"))
				told++
			}
			if i == 0 {
				d.log.file.mu.Unlock()
			}
			full.give(7) // a few bytes now and then
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if !d.log.Stats().Failing {
			t.Error("the disk is full, and nobody knows")
		}
		if n := len(d.log.buf) + len(d.log.file.batch); n > 2*roomCallers {
			t.Errorf("%d bytes wait, want at most %d", n, 2*roomCallers)
		}
		for range 10 { // there is room for these
			d.log.Tell(failure("login", true))
			d.log.Write(trace.Record{Event: trace.Unlocked})
		}
		full.give(100 << 20)
		time.Sleep(2 * time.Second)
		d.log.Tell(refusal("login"))
		told++
		synctest.Wait()
		records := full.records(t)
		lines, dropped := tally(records)
		if got := lines["login refused"] + dropped["login refused"]; got != told || dropped["login refused"] == 0 {
			t.Errorf("%d lines and %d dropped, want %d in all", lines["login refused"], dropped["login refused"], told)
		}
		if lines["login locked"] != 10 || lines[" unlocked"] != 10 {
			t.Errorf("lines %v", lines)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(d.said.String(), "not written"); n != 1 || strings.Count(d.said.String(), "audit log written again") != 1 {
			t.Errorf("said\n%s", d.said)
		}
	})
}

// A disk that stays full: what is not in the file is in the error of Close, however much
// it was.
func TestFullDiskToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &disk{space: 1000}
		d := open(t, func(_ *Config, s *Settings) { s.Burst, s.PerSecond = 1e6, 1e6 }, func() (file, error) { return full, nil })
		const each = 10_150
		tell := func() {
			d.log.Tell(refusal("login"))
			d.log.Write(trace.Record{Event: trace.Unlocked, Why: strings.Repeat("x", 400)})
		}
		for range each - 150 {
			tell()
		}
		for range 150 {
			for range 100 { // until there is no room for a count either
				d.log.put(&trace.Record{Event: trace.Started}, roomOthers)
			}
			tell()
			time.Sleep(time.Second)
		}
		err := d.close()
		written := uint64(bytes.Count(full.b.Bytes(), []byte("\n")))
		var lost uint64
		if err == nil || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
		fmt.Sscanf(err.Error(), "audit: %d lines not written", &lost)
		// Those that wait go on where the file ends, and say how many others there were.
		text := slices.Concat(full.b.Bytes(), d.log.file.batch[d.log.file.off:], d.log.buf)
		var waits []trace.Record
		for r, err := range trace.Records(bytes.NewReader(text)) {
			if err != nil {
				t.Fatal(err)
			}
			waits = append(waits, r)
		}
		lines, dropped := tally(waits)
		if lines["login refused"]+dropped["login refused"] != each || lines[" unlocked"]+dropped[" unlocked"] != each || written+lost != uint64(len(waits)) {
			t.Errorf("written %d, lost %d, lines %v, dropped %v", written, lost, lines, dropped)
		}
		if n := strings.Count(d.said.String(), "not written"); n != 3 {
			t.Errorf("said %d times in 150 s, want 3", n)
		}
	})
}

// A disk that does not answer holds up nobody who tells.
func TestSlowDisk(t *testing.T) {
	slow := &disk{space: 100 << 20, wait: make(chan bool)}
	d := open(t, func(_ *Config, s *Settings) { s.Burst, s.PerSecond = 1e6, 1e6 }, func() (file, error) { return slow, nil })
	const told = 20_000
	for range told {
		d.log.Tell(refusal("login"))
	}
	d.log.Set(Settings{Burst: 1, PerSecond: 1}, nil)
	close(slow.wait)
	if err := d.close(); err != nil {
		t.Error(err)
	}
	lines, dropped := tally(slow.records(t))
	if lines["login refused"]+dropped["login refused"] != told || dropped["login refused"] == 0 {
		t.Errorf("%d lines and %d dropped, want %d in all", lines["login refused"], dropped["login refused"], told)
	}
}

// What one write takes of a batch: whole lines, as far as the file has room.
func TestOutput(t *testing.T) {
	for _, row := range []struct {
		size  int64
		batch string
		want  string
	}{
		{0, "1234\n6789\n", "1234\n6789\n"},
		{0, "1234\n67890\n", "1234\n"},
		{5, "1234\n", "1234\n"},
		{4, "1234\n1234\n", "1234\n"},
		{0, "1234567890\n1\n", "1234567890\n"},
	} {
		d := &disk{space: 100}
		o := output{most: 10, size: row.size, batch: []byte(row.batch), f: d}
		if err := o.write(); err != nil || d.b.String() != row.want || o.size != row.size+int64(len(row.want)) || o.off != len(row.want) {
			t.Errorf("%d, %q: wrote %q, %v, size %d, up to %d", row.size, row.batch, &d.b, err, o.size, o.off)
		}
	}
}

// A line that is longer than a file may be, and that a full disk has cut, goes on where it
// ended.
func TestLongLineFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &disk{space: 1 << 20}, &disk{space: 50}
		disks := []*disk{first, second}
		d := open(t, func(c *Config, _ *Settings) { c.MaxSize = 100 }, func() (file, error) {
			next := disks[0]
			disks = disks[1:]
			return next, nil
		})
		synctest.Wait()
		d.log.Write(trace.Record{Time: at, Event: trace.Unlocked, Why: strings.Repeat("x", 200)})
		synctest.Wait()
		if second.b.Len() != 50 {
			t.Fatalf("%d bytes on the second disk", second.b.Len())
		}
		second.give(1 << 20)
		time.Sleep(2 * retryAfter)
		synctest.Wait()
		if got := second.records(t); len(got) != 1 || len(got[0].Why) != 200 {
			t.Errorf("got %+v", got)
		}
		disks = []*disk{{space: 1 << 20}}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
}

// Files are as large as they may be and no larger, all but the oldest are there, and each line
// is in one of them.
func TestRotation(t *testing.T) {
	const size = 1000
	d := open(t, func(c *Config, _ *Settings) { c.MaxSize, c.Keep = size, 3 }, nil)
	const n = 100
	for i := range n {
		d.log.Write(trace.Record{Time: at, Event: trace.Unlocked, Why: strings.Repeat("x", i%50), Dropped: uint64(i + 1)})
	}
	d.log.Write(trace.Record{Time: at, Event: trace.Unlocked, Why: strings.Repeat("\x00", 400)}) // longer than a file
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	names := []string{d.name + ".3", d.name + ".2", d.name + ".1", d.name}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		// The second newest ends where a line comes that no file has room for, and the
		// newest old one is that line.
		if (info.Size() > size) != (name == d.name+".1") || info.Size() < size/2 && name == d.name+".3" {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	if _, err := os.Stat(d.name + ".4"); err == nil {
		t.Error("a fourth old file")
	}
	records := d.lines(names...)
	if last := records[len(records)-1]; last.Event != trace.Stopped {
		t.Errorf("ends with %v", last.Event)
	}
	for i, r := range records[:len(records)-2] {
		if want := uint64(n - (len(records) - 2) + i + 1); r.Dropped != want {
			t.Fatalf("line %d is number %d, want %d", i, r.Dropped, want)
		}
	}
}

// A file that cannot be renamed is as a full disk, and no older one is lost by trying.
func TestRotationFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config, _ *Settings) { c.MaxSize, c.Keep = 300, 3 }, nil)
		if err := os.MkdirAll(filepath.Join(d.name+".1", "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(d.name+".2", "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.name+".3", []byte("oldest"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			d.log.Write(trace.Record{Time: at, Event: trace.Unlocked})
		}
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		if !d.log.Stats().Failing {
			t.Error("it does not fail")
		}
		if text, _ := os.ReadFile(d.name + ".3"); string(text) != "oldest" {
			t.Errorf("the oldest is now %q", text)
		}
		os.RemoveAll(d.name + ".1")
		os.RemoveAll(d.name + ".2")
		time.Sleep(2 * time.Second)
		if err := d.close(); err != nil {
			t.Error(err)
		}
		lines, _ := tally(d.lines(d.name+".2", d.name+".1", d.name))
		if lines[" unlocked"] != 10 {
			t.Errorf("lines %v", lines)
		}
	})
}

// Whoever renames the file and says so gets a new one; nothing is lost or torn.
func TestReopen(t *testing.T) {
	d := open(t, nil, nil)
	const n = 50
	for i := range n {
		d.log.Write(trace.Record{Time: at, Event: trace.Unlocked})
		if i%10 == 9 {
			if err := os.Rename(d.name, fmt.Sprintf("%s-%d", d.name, i)); err != nil {
				t.Fatal(err)
			}
			if err := d.log.Reopen(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A file that cannot be opened leaves the old one in place.
	old := d.name + "-kept"
	os.Rename(d.name, old)
	os.Mkdir(d.name, 0o700)
	if err := d.log.Reopen(); err == nil {
		t.Error("a directory was opened")
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	lines, _ := tally(d.lines(d.name+"-9", d.name+"-19", d.name+"-29", d.name+"-39", d.name+"-49", old))
	if lines[" unlocked"] != n || lines[" stopped"] != 1 {
		t.Errorf("lines %v", lines)
	}
}

// A line that a full disk has cut is whole in the file that is opened next.
func TestReopenInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &disk{space: 100}, &disk{space: 1 << 20}
		disks := []*disk{first, second}
		d := open(t, nil, func() (file, error) {
			next := disks[0]
			disks = disks[1:]
			return next, nil
		})
		d.log.Write(trace.Record{Time: at, Event: trace.Unlocked})
		d.log.Write(trace.Record{Time: at, Event: trace.Cleared})
		synctest.Wait()
		if first.b.Len() != 100 {
			t.Fatalf("%d bytes on the first disk", first.b.Len())
		}
		if err := d.log.Reopen(); err != nil {
			t.Fatal(err)
		}
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range second.records(t) {
			got = append(got, string(r.Event))
		}
		if strings.Join(got, " ") != "unlocked cleared stopped" {
			t.Errorf("got %v", got)
		}
	})
}

// What a file is when it is opened.
func TestOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	c := Config{File: name, Mode: 0o640, MaxSize: 1 << 20, Keep: 1, Log: slog.New(slog.DiscardHandler)}
	write := func() error {
		l, err := Open(c, Settings{Burst: 1, PerSecond: 1}, nil, trace.Record{Time: at, Version: "v1"})
		if err != nil {
			return err
		}
		return l.Close(errors.New("gone"))
	}
	defer syscall.Umask(syscall.Umask(0o077))
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// One that was cut off keeps its mode, and new lines are lines of their own.
	if err := os.WriteFile(name, []byte(`{"time":"20`), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Chmod(name, 0o604)
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o604 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, _ := os.ReadFile(name)
	want := "{\"time\":\"20\n" + `{"time":"2026-01-02T03:04:05.000000Z","event":"started","version":"v1"}` + "\n"
	rest, ok := strings.CutPrefix(string(text), want)
	if !ok || !strings.HasSuffix(rest, `,"event":"stopped","error":"gone"}`+"\n") || strings.Count(rest, "\n") != 1 {
		t.Errorf("the file is\n%s", text)
	}
	c.File = filepath.Join(filepath.Dir(name), "link")
	if err := os.Symlink(filepath.Join(filepath.Dir(name), "none", "audit.log"), c.File); err != nil {
		t.Fatal(err)
	}
	if err := write(); err == nil {
		t.Error("a link to nowhere was opened")
	}
	c.File = filepath.Dir(name)
	if err := write(); err == nil {
		t.Error("a directory was opened")
	}
}

// What is dropped allocates nothing, and neither does a nil Log.
func TestDroppedAllocations(t *testing.T) {
	d := open(t, func(_ *Config, s *Settings) { s.Burst, s.PerSecond = 1, 1 }, nil)
	e := refusal("login")
	d.log.Tell(e)
	if n := testing.AllocsPerRun(1000, func() { d.log.Tell(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	var none *Log
	none.Tell(e)
	none.Write(trace.Record{})
	none.Set(Settings{}, nil)
	if none.Reopen() != nil || none.Close(nil) != nil || none.Stats() != (Stats{}) {
		t.Error("a nil Log does something")
	}
}

func BenchmarkTell(b *testing.B) {
	l, err := Open(Config{File: filepath.Join(b.TempDir(), "a"), MaxSize: 1 << 20, Keep: 1, Log: slog.New(slog.DiscardHandler)},
		Settings{Burst: 1000, PerSecond: 100}, doors, trace.Record{})
	if err != nil {
		b.Fatal(err)
	}
	e := refusal("login")
	for b.Loop() {
		e.Time = time.Now()
		l.Tell(e)
	}
	l.Close(nil)
}
