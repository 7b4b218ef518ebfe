// Package lines reads the lines of a log, compressed or not, in memory that does not
// depend on how long the log or a line of it is.
//
// It promises every line up to MaxLine bytes as it is, and says of longer ones that they
// are too long. gzip, also of several parts, zstd and bzip2 are known by their first
// bytes, whatever the name. It gives up on what of a damaged file comes after the
// damage.
package lines

import (
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// MaxLine is how many bytes a line may have, its end not counted.
	MaxLine = 1 << 20
	// Sample is how many bytes Sample returns at most.
	Sample = 64 << 10

	// maxWindow is how far back a zstd file may refer: what zstd --long makes and more
	// than zstd -d takes without being told to.
	maxWindow = 128 << 20
)

// A Reader reads lines. It is not safe for concurrent use.
type Reader struct {
	from       io.Reader
	close      func()
	buf        []byte
	start, end int
	skipping   bool // the rest of a line that is too long
	err        error
}

// ErrXZ is returned for a file that xz has compressed.
var ErrXZ = errors.New("is compressed with xz, which is not read here: pass it on by xz -dc FILE | ... -")

// New returns a reader of what r has.
func New(r io.Reader) (*Reader, error) {
	head := make([]byte, 6)
	n, err := io.ReadFull(r, head)
	head = head[:n]
	l := &Reader{from: io.MultiReader(bytes.NewReader(head), r), close: func() {}}
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		l.from = io.MultiReader(bytes.NewReader(head), broken{err})
	}
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(l.from)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		l.from = z
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")), len(head) > 3 && head[0]>>4 == 5 && bytes.Equal(head[1:4], []byte("\x2a\x4d\x18")):
		z, err := zstd.NewReader(l.from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		l.from, l.close = z, z.Close
	case bytes.HasPrefix(head, []byte("BZh")):
		l.from = bzip2.NewReader(l.from)
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return nil, ErrXZ
	}
	l.buf = make([]byte, Sample)
	l.fill()
	if bytes.HasPrefix(l.buf[:l.end], []byte("\ufeff")) {
		l.start = len("\ufeff")
	}
	return l, nil
}

// broken is a reader that has failed.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// Close gives back what reading took. It does not close the reader that New was given.
func (l *Reader) Close() { l.close() }

// Sample returns the first bytes, before the first call of Next: at most Sample of them,
// and fewer only if there are no more.
func (l *Reader) Sample() []byte {
	for l.err == nil && l.end < len(l.buf) {
		l.fill()
	}
	return l.buf[l.start:l.end]
}

// Next returns a line without its end, LF or CRLF, valid until the next call. A line that
// is too long is cut off, and tooLong. The last one need not have an end: it is not whole
// then. After the last line the error is io.EOF, or whatever kept it from being read.
func (l *Reader) Next() (line []byte, whole, tooLong bool, err error) {
	searched := 0
	for {
		if i := bytes.IndexByte(l.buf[l.start+searched:l.end], '\n'); i >= 0 {
			line = l.buf[l.start : l.start+searched+i]
			l.start += searched + i + 1
			if l.skipping {
				l.skipping, searched = false, 0
				continue
			}
			if len(line) > 0 && line[len(line)-1] == '\r' {
				line = line[:len(line)-1]
			}
			if len(line) > MaxLine {
				return line[:MaxLine], false, true, nil
			}
			return line, true, false, nil
		}
		if l.skipping {
			l.start = l.end
		}
		searched = l.end - l.start
		switch {
		case l.err == nil && searched > MaxLine+1: // the end may be CRLF
			line = l.buf[l.start : l.start+MaxLine]
			l.start, l.skipping = l.end, true
			return line, false, true, nil
		case l.err == nil:
			l.fill()
		case searched > MaxLine:
			line = l.buf[l.start : l.start+MaxLine]
			l.start = l.end
			return line, false, true, nil
		case searched > 0:
			line = l.buf[l.start:l.end]
			l.start = l.end
			return line, false, false, nil
		default:
			return nil, false, false, l.err
		}
	}
}

// fill reads more behind what is there.
func (l *Reader) fill() {
	if l.end == len(l.buf) {
		if l.start > 0 {
			l.end = copy(l.buf, l.buf[l.start:l.end])
			l.start = 0
		}
		if l.end > len(l.buf)/2 { // a long line
			l.buf = append(l.buf, make([]byte, len(l.buf))...)
		}
	}
	for range 100 {
		n, err := l.from.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}
