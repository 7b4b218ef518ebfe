package audit

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"
)

// An output is a file of lines that is replaced by a new one when it is large. A line is
// whole in one file, except that a disk which filled up in the middle of a line, and a
// file that was then opened anew, leave a beginning behind in the old one.
type output struct {
	mu   sync.Mutex
	name string
	mode fs.FileMode
	most int64
	keep int
	open func() (file, error) // in tests

	f      file
	size   int64
	batch  []byte    // whole lines
	off    int       // of batch, up to which it is written
	failed time.Time // when that was last said, zero if the last write worked
}

// A file is as much of os.File as is used.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

func (o *output) pending() bool { return o.off < len(o.batch) }

// take takes the lines of buf, and returns memory for more of them.
func (o *output) take(buf []byte) []byte {
	old := o.batch
	o.batch, o.off = buf, 0
	return old[:0]
}

// lines returns how many are not written, or not to their end.
func (o *output) lines() int { return count(o.batch[min(o.off, len(o.batch)):]) }

func count(b []byte) int { return bytes.Count(b, []byte{'\n'}) }

// write writes some of what is pending: as many lines as the file may still hold. It makes
// room for one first if need be.
func (o *output) write() error {
	rest := o.batch[o.off:]
	n := len(rest)
	if space := o.most - o.size; int64(n) > space {
		n = bytes.LastIndexByte(rest[:max(0, space)], '\n') + 1
	}
	if n == 0 && o.size > 0 && o.begun() == 0 {
		return o.rotate()
	}
	if n == 0 { // a line that was begun, or longer than a file may be
		n = bytes.IndexByte(rest, '\n') + 1
	}
	n, err := o.f.Write(rest[:n])
	o.off += n
	o.size += int64(n)
	return err
}

// begun returns how many bytes of the next line are in the file.
func (o *output) begun() int {
	return o.off - (bytes.LastIndexByte(o.batch[:o.off], '\n') + 1)
}

// rotate puts a new file in the place of one that is full. The oldest is lost only if all
// places are taken: an attempt that fails can be made again and again.
func (o *output) rotate() error {
	name := func(i int) string { return o.name + "." + strconv.Itoa(i) }
	free := 1
	for free < o.keep {
		if _, err := os.Lstat(name(free)); err != nil {
			break
		}
		free++
	}
	for i := free - 1; i >= 1; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil {
			return err
		}
	}
	if err := os.Rename(o.name, name(1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return o.reopen()
}

// openAt opens what is at the name, and makes it if there is nothing. Only then it gets the
// mode: that of a file which somebody else made is theirs to choose.
func (o *output) openAt() (file, error) {
	if o.open != nil {
		return o.open()
	}
	const flags = os.O_RDWR | os.O_APPEND
	for try := 0; ; try++ {
		f, err := os.OpenFile(o.name, flags, 0)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		f, err = os.OpenFile(o.name, flags|os.O_CREATE|os.O_EXCL, o.mode)
		if err == nil {
			return f, f.Chmod(o.mode) // whatever the umask
		}
		if !errors.Is(err, fs.ErrExist) || try > 0 { // a link to nowhere is and is not
			return nil, err
		}
	}
}

// reopen opens the file anew. If that fails, the old one stays open.
func (o *output) reopen() error {
	f, err := o.openAt()
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	size := info.Size()
	// A process that was killed, or a disk that was full, may have left half a line.
	if last := [1]byte{}; size > 0 {
		if _, err := f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			n, err := f.Write([]byte{'\n'})
			if size += int64(n); err != nil {
				f.Close()
				return err
			}
		}
	}
	if o.f != nil {
		o.f.Close()
	}
	o.off -= o.begun() // the whole line goes to the new file
	o.f, o.size = f, size
	return nil
}

func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.f.Close()
}
