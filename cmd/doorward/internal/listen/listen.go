// Package listen opens the sockets that are listened on.
//
// It promises that a unix socket is never open to others than its mode says, not for
// an instant, and that one is replaced only if nobody listens on it: two processes that
// start at once do not take it from each other. It gives up on abstract unix sockets,
// which have no mode.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// Unix listens on a socket at path, with a mode. It changes the umask of the process
// for a moment: call it before others make files.
func Unix(path string, mode fs.FileMode) (net.Listener, error) {
	unlock, err := lock(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("listen unix %s: %w", path, err)
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen unix %s: %w", path, err)
	}
	// A mode that is set after the socket is there comes too late.
	old := syscall.Umask(int(^mode & fs.ModePerm))
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}

// removeStale removes a socket that is left over from a process that has ended.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
		return syscall.EADDRINUSE
	case errors.Is(err, syscall.ECONNREFUSED): // said at once, and only if nobody listens
		return os.Remove(path)
	}
	return err
}

// lock keeps other processes from looking at a socket while this one does. It is a file that
// only the user of the process can open: a directory anybody may lock who can read it, and
// so keep us from starting.
func lock(path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isAt(f, path) {
			return func() { os.Remove(path); f.Close() }, nil
		}
		f.Close()
		switch {
		case err != nil && err != syscall.EWOULDBLOCK && err != syscall.EINTR:
			return nil, fmt.Errorf("%s cannot be locked: %w", path, err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s is locked by another process", path)
		}
		time.Sleep(10 * time.Millisecond) // or whoever had it has removed it
	}
}

// isAt reports whether f is what has its name now.
func isAt(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	at, err := os.Lstat(path)
	return err == nil && os.SameFile(is, at)
}

// Files returns how many files the process may have open. The Go runtime has raised
// that to what the system allows when the process started.
func Files() (int, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, err
	}
	return int(min(r.Cur, 1<<30)), nil
}
