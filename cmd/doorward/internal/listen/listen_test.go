package listen

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestMode: a socket has its mode from the first instant, whatever the umask is.
func TestMode(t *testing.T) {
	for _, mask := range []int{0, 0o077} {
		for _, mode := range []fs.FileMode{0o600, 0o660, 0o666} {
			old := syscall.Umask(mask)
			path := filepath.Join(t.TempDir(), "s")
			ln, err := Unix(path, mode)
			restored := syscall.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != mode {
				t.Errorf("umask %o: mode %v, %v, want %v", mask, info.Mode(), err, mode)
			}
			if restored != mask {
				t.Errorf("umask is %o, was %o", restored, mask)
			}
			ln.Close()
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("left over: %v", err)
			}
		}
	}
}

// stale leaves a socket that nobody listens on.
func stale(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
}

// TestStale: what a dead process left is replaced; what a living one has, and what is
// no socket, stays.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	stale(t, path)
	ln, err := Unix(path, 0o660)
	if err != nil {
		t.Fatalf("stale: %v", err)
	}
	if _, err := Unix(path, 0o660); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("in use: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first listener has lost its socket: %v", err)
	} else {
		conn.Close()
	}
	ln.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, dir} {
		if _, err := Unix(path, 0o660); err == nil || !strings.Contains(err.Error(), "no socket") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, _ := os.ReadFile(file); string(b) != "x" {
		t.Error("a file is gone")
	}
	if _, err := Unix(filepath.Join(dir, "none", "s"), 0o660); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestRace: of several that find a stale socket at once, one gets it and keeps it.
func TestRace(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "s")
		stale(t, path)
		var mu sync.Mutex
		var won []net.Listener
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				ln, err := Unix(path, 0o666)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, ln)
				} else if !errors.Is(err, syscall.EADDRINUSE) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d listen, want 1", len(won))
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		won[0].Close()
	}
}

// TestLockedDirectory: who can read the directory can lock it, and keeps nobody from listening.
func TestLockedDirectory(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ln, err := Unix(filepath.Join(dir, "s"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("beside the socket: %v, %v", left, err)
	}
	ln.Close()
	// A link is not followed to a file of somebody else's choice.
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "s.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := Unix(filepath.Join(dir, "s"), 0o600); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link: %v", err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made through a link: %v", err)
	}
}

func TestFiles(t *testing.T) {
	if n, err := Files(); err != nil || n < 1 {
		t.Errorf("%d, %v", n, err)
	}
}
