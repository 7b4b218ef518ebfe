package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/doorward/doorward/internal/seal"
)

// MaxBeside is how long a part may be that is kept beside the counts, in bytes.
const MaxBeside = 32 << 20

// beside is where a part is, and what it is sealed with.
func (f *File) beside(name string) (path string, key []byte, err error) {
	key, err = f.derive("beside " + name)
	return f.path + "." + name, key, err
}

// SaveBeside keeps b under a name in a file of its own, path.name, sealed as the state is: a
// little that changes at other times than the counts.
func (f *File) SaveBeside(name string, b []byte) error {
	if len(b) > MaxBeside {
		return fmt.Errorf("state: %s must be at most %d bytes, got %d", name, MaxBeside, len(b))
	}
	path, key, err := f.beside(name)
	if err != nil {
		return err
	}
	return f.replace(path, func(w io.Writer) error {
		out, err := seal.NewWriter(w, key)
		if err != nil {
			return err
		}
		out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) // an error stays
		out.Write(b)
		return out.Close()
	})
}

// LoadBeside returns what SaveBeside kept, nil if it never did. An error says what to do.
func (f *File) LoadBeside(name string) ([]byte, error) {
	path, key, err := f.beside(name)
	if err != nil {
		return nil, err
	}
	in, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b, err := readBeside(bufio.NewReader(in), key)
	if err != nil {
		return nil, fmt.Errorf("%s %w: remove the file to start without what is in it", path, err)
	}
	return b, nil
}

func readBeside(r *bufio.Reader, key []byte) ([]byte, error) {
	in, err := seal.NewReader(r, key)
	if err != nil {
		return nil, err
	}
	head, err := in.Next(4)
	if err != nil {
		return nil, err
	}
	left := int(binary.BigEndian.Uint32(head))
	if left > MaxBeside {
		return nil, seal.ErrDamaged
	}
	var b []byte
	for left > 0 {
		piece, err := in.Next(min(left, maxPiece))
		if err != nil {
			return nil, err
		}
		b, left = append(b, piece...), left-len(piece)
	}
	if err := in.Close(); err != nil {
		return nil, err
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return nil, seal.ErrDamaged
	}
	return b, nil
}
