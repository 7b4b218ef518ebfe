package replay

import (
	"bytes"
	"io"
)

// maxRewound is how much of a stream is kept to be read again.
const maxRewound = 64 << 20

// A twice is a log that can be read again from its beginning: a file, or the first part of
// a stream, which is kept in memory until forget.
type twice struct {
	from   io.Reader
	seeker io.Seeker // nil: a stream
	start  int64
	kept   []byte
	keeps  bool
	most   int           // of a stream
	again  *bytes.Reader // what was kept and is read again; nil: nothing
}

func newTwice(r io.Reader) *twice {
	t := &twice{from: r, keeps: true, most: maxRewound}
	if s, ok := r.(io.Seeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil {
			t.seeker, t.start, t.keeps = s, at, false
		}
	}
	return t
}

func (t *twice) Read(b []byte) (int, error) {
	if t.again != nil {
		if n, err := t.again.Read(b); err == nil {
			return n, nil
		}
		t.again = nil
	}
	n, err := t.from.Read(b)
	if t.keeps {
		t.kept = append(t.kept, b[:n]...)
	}
	return n, err
}

// canRewind reports whether all that was read can be read again, with a little more.
func (t *twice) canRewind() bool { return t.seeker != nil || len(t.kept) < t.most }

// rewind goes back to the beginning.
func (t *twice) rewind() error {
	if t.seeker != nil {
		_, err := t.seeker.Seek(t.start, io.SeekStart)
		return err
	}
	t.again, t.kept, t.keeps = bytes.NewReader(t.kept), nil, false
	return nil
}

// forget keeps nothing any longer: there will be no rewind.
func (t *twice) forget() { t.kept, t.keeps = nil, false }
