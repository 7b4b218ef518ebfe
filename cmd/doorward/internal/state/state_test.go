package state

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/internal/seal"
	"github.com/doorward/doorward/lockout"
)

var (
	key = bytes.Repeat([]byte{7}, 32)
	now = time.Unix(1_700_000_000, 0)
)

func newGuard(t *testing.T, name string, capacity int) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Config{Rules: []guard.Rule{{Name: name, Lockout: &lockout.Policy{
		FreeFailures: 3, Window: time.Hour, FirstLockout: time.Minute, MaxLockout: time.Minute, Capacity: capacity, InFlight: 10,
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func fail(g *guard.Guard, addr string, times int) {
	for range times {
		p := g.Attempt(guard.Request{Addr: netip.MustParseAddr(addr)}, now)
		p.Settle(doorward.Failed, now)
	}
}

func locked(g *guard.Guard, addr string, now time.Time) bool {
	return !g.Check(guard.Request{Addr: netip.MustParseAddr(addr)}, now).Allowed
}

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Each guard gets back what is its own, and guards that are not in both are named.
func TestSaveLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	a, b, c := newGuard(t, "r", 100), newGuard(t, "r", 100), newGuard(t, "r", 0)
	fail(a, "192.0.2.1", 3)
	fail(b, "192.0.2.2", 3)
	for i := range 200 { // some chunks
		fail(c, netip.AddrFrom4([4]byte{10, byte(i), 0, 1}).String(), 1)
	}
	if n, err := f.Load(map[string]*guard.Guard{"a": a}, now); err != nil || !reflect.DeepEqual(n, Loaded{}) || !locked(a, "192.0.2.1", now) {
		t.Errorf("no file: %+v, %v", n, err)
	}
	if err := f.Save(map[string]*guard.Guard{"a": a, "b": b, "c": c}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file is left")
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	a, b = newGuard(t, "r", 100), newGuard(t, "other", 100)
	n, err := f.Load(map[string]*guard.Guard{"a": a, "b": b, "d": c}, now.Add(59*time.Second))
	n.Saved = n.Saved.UTC()
	if want := (Loaded{Saved: now.UTC(), Keys: 1, Dropped: []string{"b/r", "c"}, New: []string{"b/other", "d"}}); err != nil || !reflect.DeepEqual(n, want) {
		t.Errorf("got %+v, %v, want %+v", n, err, want)
	}
	for _, after := range []time.Duration{59 * time.Second, time.Minute - 1, time.Minute} {
		if locked(a, "192.0.2.1", now.Add(after)) != (after < time.Minute) || locked(a, "192.0.2.2", now.Add(after)) || locked(b, "192.0.2.2", now.Add(after)) {
			t.Errorf("after %v others are locked than should be", after)
		}
	}
}

// Every byte counts: changed or cut off anywhere, the file is refused.
func TestEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	guards := map[string]*guard.Guard{"a": newGuard(t, "r", 10), "b": newGuard(t, "r", 10)}
	fail(guards["a"], "192.0.2.1", 3)
	if err := f.Save(guards, now); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(text []byte) error {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.Load(map[string]*guard.Guard{"a": newGuard(t, "r", 10), "b": newGuard(t, "r", 10)}, now)
		return err
	}
	if err := try(whole); err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		if err := try(whole[:i]); !errors.Is(err, seal.ErrTruncated) {
			t.Errorf("cut after %d bytes: %v", i, err)
		}
		b := bytes.Clone(whole)
		b[i] ^= 0x10
		if err := try(b); err == nil || !strings.Contains(err.Error(), "start afresh") {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

// More keys than there is room for are an error that names the rule.
func TestRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	g := newGuard(t, "r", 10)
	for i := range 5 {
		fail(g, netip.AddrFrom4([4]byte{10, byte(i), 0, 1}).String(), 1)
	}
	if err := f.Save(map[string]*guard.Guard{"a": g}, now); err != nil {
		t.Fatal(err)
	}
	_, err := f.Load(map[string]*guard.Guard{"a": newGuard(t, "r", 2)}, now)
	if !errors.Is(err, guard.ErrRoom) || !strings.Contains(err.Error(), `guard "a"`) || !strings.Contains(err.Error(), `rule "r"`) || !strings.Contains(err.Error(), "capacity and in_flight that it had") {
		t.Errorf("got %v", err)
	}
}

// What is no file is not read, nor written through.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := open(t, filepath.Join(dir, "state"))
	if err := os.Symlink(victim, filepath.Join(dir, "state.new")); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(map[string]*guard.Guard{"a": newGuard(t, "r", 1)}, now); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(victim); string(text) != "x" {
		t.Error("a link was followed")
	}
	if _, err := Open(filepath.Join(dir, "state"), key); err == nil || !strings.HasSuffix(err.Error(), "is in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	sub := open(t, filepath.Join(dir, "sub"))
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Load(nil, now); err == nil || !strings.HasSuffix(err.Error(), "is not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if err := sub.Save(nil, now); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Lstat(filepath.Join(dir, "sub.new")); err == nil {
		t.Error("a file is left after an error")
	}
}
