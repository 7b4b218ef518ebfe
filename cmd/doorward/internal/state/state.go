// Package state keeps what the guards of a process remember in one file. It promises that
// the file is at any moment what one whole write left, whenever the process or the machine
// dies; that it says nothing to who has not the key; and that what is not as it was
// written is an error, never a guess.
//
// It gives up on what happened since the last write. It does not stop who can put an older
// file in its place.
//
// The file is one sealed stream (internal/seal). In it, for each guard: the length of its
// name (1 byte), the name, and what guard.Save wrote, in pieces that begin with their length
// (4 bytes, big-endian), up to a piece of length 0. A name of length 0 is the end. Each
// guard has a key of its own, so none can be taken for another.
package state

import (
	"bufio"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/internal/seal"
)

// maxPiece is how long a piece of a guard's state is at most.
const maxPiece = 16 << 10

// A File is a state file that no other process uses. It is safe for concurrent use.
type File struct {
	path string
	key  []byte
	lock *os.File

	mu sync.Mutex // held while writing
}

// Open takes the file at path, which need not exist, until Close. What says so to other
// processes is a lock on a file beside it, path.lock, which stays.
func Open(path string, key []byte) (*File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another process", path)
		}
		return nil, &fs.PathError{Op: "lock", Path: path + ".lock", Err: err}
	}
	return &File{path: path, key: key, lock: lock}, nil
}

// Close lets other processes take the file.
func (f *File) Close() error { return f.lock.Close() }

// derive returns the key for one purpose.
func (f *File) derive(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, f.key, nil, "doorward state file: "+purpose, seal.MinKey)
}

func (f *File) guardKey(name string) ([]byte, error) { return f.derive("guard " + name) }

// Save writes what guards remember, by name. Until all of it is on the disk the file is the
// old one, and after an error as well.
func (f *File) Save(guards map[string]*guard.Guard, now time.Time) error {
	return f.replace(f.path, func(w io.Writer) error { return f.write(w, guards, now) })
}

// replace puts another file in the place of the one at path.
func (f *File) replace(path string, write func(io.Writer) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := path + ".new"
	// What a process that died has left, or whoever was here: it is not written through.
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = write(out)
	if err == nil {
		err = out.Sync()
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename outlast the machine.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func (f *File) write(w io.Writer, guards map[string]*guard.Guard, now time.Time) error {
	key, err := f.derive("all")
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	out, err := seal.NewWriter(buffered, key)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(guards)) {
		if len(name) == 0 || len(name) > 255 {
			return fmt.Errorf("state: the name of a guard must have 1 to 255 bytes, got %d", len(name))
		}
		key, err := f.guardKey(name)
		if err != nil {
			return err
		}
		out.Write(append([]byte{byte(len(name))}, name...)) // an error stays
		if err := guards[name].Save(pieces{out}, key, now); err != nil {
			return fmt.Errorf("guard %q: %w", name, err)
		}
		out.Write(make([]byte, 4))
	}
	out.Write([]byte{0})
	if err := out.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// pieces writes what it is given with its length.
type pieces struct{ w io.Writer }

func (p pieces) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		piece := b[:min(len(b), maxPiece)]
		p.w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(piece)))) // an error stays
		_, err = p.w.Write(piece)
		n, b = n+len(piece), b[len(piece):]
	}
	return n, err
}

// Loaded says what Load did.
type Loaded struct {
	Saved   time.Time     // when the state was written, the zero Time if there is none
	SetBack time.Duration // by how much the clock was set back since, at least
	Keys    int           // that are remembered
	Pending int           // attempts that were in flight
	// Dropped are the guards and the rules, as GUARD/RULE, that the file has and that are
	// no more, or charge another key. New are those that it does not have.
	Dropped, New []string
}

// Load makes guards remember what the file holds. Call it before they are used. No file is
// no error. With an error some guards may remember, and some not: do not use them. It says
// what to do.
func (f *File) Load(guards map[string]*guard.Guard, now time.Time) (Loaded, error) {
	in, err := openFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Loaded{}, nil
	}
	if err != nil {
		return Loaded{}, err
	}
	defer in.Close()
	n, err := f.read(bufio.NewReaderSize(in, 64<<10), guards, now)
	if err != nil {
		return n, fmt.Errorf("%s %w: %s", f.path, err, remedy(err))
	}
	return n, nil
}

func openFile(path string) (*os.File, error) {
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // nobody need be writing to a pipe
	if err != nil {
		return nil, err
	}
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		in.Close()
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return in, nil
}

// remedy is what an operator can do about an error.
func remedy(err error) string {
	const afresh = "remove the file to start afresh, with all counts and lockouts forgotten"
	switch {
	case errors.Is(err, seal.ErrKey):
		return "give it the key that it was written with, or " + afresh
	case errors.Is(err, seal.ErrVersion):
		return "start the version that wrote it, or " + afresh
	case errors.Is(err, guard.ErrRoom):
		return "give the rule the capacity and in_flight that it had, or " + afresh
	}
	return afresh
}

func (f *File) read(r *bufio.Reader, guards map[string]*guard.Guard, now time.Time) (n Loaded, err error) {
	key, err := f.derive("all")
	if err != nil {
		return n, err
	}
	in, err := seal.NewReader(r, key)
	if err != nil {
		return n, err
	}
	seen := map[string]bool{}
	for {
		b, err := in.Next(1)
		if err != nil {
			return n, err
		}
		if b[0] == 0 {
			break
		}
		if b, err = in.Next(int(b[0])); err != nil {
			return n, err
		}
		name := string(b)
		if seen[name] {
			return n, seal.ErrDamaged
		}
		seen[name] = true
		part := &parts{in: in}
		if g := guards[name]; g == nil {
			n.Dropped = append(n.Dropped, name)
		} else if err = f.load(&n, part, name, g, now); err != nil {
			return n, err
		}
		if err := part.end(); err != nil {
			return n, err
		}
	}
	if err := in.Close(); err != nil {
		return n, err
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return n, seal.ErrDamaged
	}
	for _, name := range slices.Sorted(maps.Keys(guards)) {
		if !seen[name] {
			n.New = append(n.New, name)
		}
	}
	return n, nil
}

// load lets one guard remember.
func (f *File) load(n *Loaded, r *parts, name string, g *guard.Guard, now time.Time) error {
	key, err := f.guardKey(name)
	if err != nil {
		return err
	}
	one, err := g.Load(r, key, now)
	if err != nil {
		if r.err != nil { // of the stream around it, which knows better
			err = r.err
		}
		return fmt.Errorf("cannot be used for guard %q (%w)", name, err)
	}
	if r.rest > 0 {
		return seal.ErrDamaged
	}
	n.Saved, n.SetBack = one.Saved, max(n.SetBack, one.SetBack)
	n.Keys += one.Entries
	n.Pending += one.Pending
	for _, rule := range one.Skipped {
		n.Dropped = append(n.Dropped, name+"/"+rule)
	}
	for _, rule := range one.Fresh {
		n.New = append(n.New, name+"/"+rule)
	}
	return nil
}

// parts reads what pieces wrote.
type parts struct {
	in   *seal.Reader
	rest int // of this piece
	done bool
	err  error
}

func (p *parts) Read(b []byte) (int, error) {
	if p.rest == 0 && !p.done && p.err == nil {
		p.next()
	}
	switch {
	case p.err != nil:
		return 0, p.err
	case p.done:
		return 0, io.EOF
	}
	got, err := p.in.Next(min(len(b), p.rest))
	if err != nil {
		p.err = err
		return 0, err
	}
	p.rest -= len(got)
	return copy(b, got), nil
}

// next begins a piece.
func (p *parts) next() {
	b, err := p.in.Next(4)
	if err != nil {
		p.err = err
		return
	}
	n := binary.BigEndian.Uint32(b)
	if n > maxPiece {
		p.err = seal.ErrDamaged
		return
	}
	p.rest, p.done = int(n), n == 0
}

// end reads past what is left.
func (p *parts) end() error {
	_, err := io.Copy(io.Discard, struct{ io.Reader }{p})
	return err
}
