// Package seal writes a stream that only the holder of a key can read or make: what
// package guard keeps its state in. It promises that a Reader returns what a Writer was
// given, to the last byte and no further, or an error that says what is wrong; and that
// nothing is returned before it was authenticated. Reading takes the memory of one chunk,
// whatever the stream says.
//
// It hides what is written, not how much. An older stream under the same key is as good
// as a new one: whoever can put a file back in its place can bring back the past.
//
// A stream is a header of 68 bytes, then chunks. The header is 14 bytes of magic, a
// version (2 bytes), 32 random bytes, 16 that tell whether a key is the right one, and the
// CRC-32 of all that, numbers big-endian. A chunk is its length (4 bytes, the top bit set
// in the last) and AES-256-GCM of at most 32 KiB, with the header as additional data. The
// nonce is the number of the chunk and whether it is the last, so no chunk can be left
// out, moved, or cut off. Keys are HKDF-SHA-256 of the secret and the random bytes.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// MinKey is how many bytes a key must have at least. They must be random.
const MinKey = 32

// What may be wrong with a stream.
var (
	ErrForeign   = errors.New("is not a state of doorward")
	ErrVersion   = errors.New("has a version that this program cannot read")
	ErrKey       = errors.New("was written with another key")
	ErrDamaged   = errors.New("is damaged")
	ErrTruncated = errors.New("is cut off")
)

const (
	magic     = "doorward state"
	version   = 1
	saltLen   = 32
	checkLen  = 16
	headerLen = len(magic) + 2 + saltLen + checkLen + 4
	tagLen    = 16
	chunk     = 32 << 10
	last      = 1 << 31 // in a length
)

// A sealer is what both ends share.
type sealer struct {
	header [headerLen]byte
	aead   cipher.AEAD
	nonce  [12]byte // eleven bytes of number, and whether it is the last
	n      uint64
}

// keys derives the cipher and the bytes that tell the right key.
func (s *sealer) keys(key, salt []byte) (check []byte, err error) {
	if len(key) < MinKey {
		return nil, fmt.Errorf("key must have at least %d bytes, got %d", MinKey, len(key))
	}
	out, err := hkdf.Key(sha256.New, key, salt, magic, 32+checkLen)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(out[:32])
	if err != nil {
		return nil, err
	}
	s.aead, err = cipher.NewGCM(block)
	return out[32:], err
}

// next returns the nonce of the next chunk.
func (s *sealer) next(isLast bool) []byte {
	binary.BigEndian.PutUint64(s.nonce[3:], s.n)
	s.nonce[11] = 0
	if s.n++; isLast {
		s.nonce[11] = 1
	}
	return s.nonce[:]
}

// A Writer seals what it is given. Close it, or there is no stream.
type Writer struct {
	sealer
	w   io.Writer
	buf []byte // not sealed yet
	out []byte
	err error
}

// NewWriter writes the header.
func NewWriter(w io.Writer, key []byte) (*Writer, error) {
	s := &Writer{w: w, buf: make([]byte, 0, chunk), out: make([]byte, 0, 4+chunk+tagLen)}
	var salt [saltLen]byte
	rand.Read(salt[:]) // never fails
	check, err := s.keys(key, salt[:])
	if err != nil {
		return nil, err
	}
	h := append(s.header[:0], magic...)
	h = binary.BigEndian.AppendUint16(h, version)
	h = append(append(h, salt[:]...), check...)
	binary.BigEndian.AppendUint32(h, crc32.ChecksumIEEE(h))
	_, err = w.Write(s.header[:])
	return s, err
}

// Write adds p to the stream. An error stays.
func (s *Writer) Write(p []byte) (n int, err error) {
	for n = len(p); len(p) > 0 && s.err == nil; {
		if len(s.buf) == chunk {
			s.flush(false)
		}
		k := min(len(p), chunk-len(s.buf))
		s.buf, p = append(s.buf, p[:k]...), p[k:]
	}
	if s.err != nil {
		return 0, s.err
	}
	return n, nil
}

// Close ends the stream. It does not close the writer below.
func (s *Writer) Close() error {
	if s.err == nil {
		s.flush(true)
	}
	return s.err
}

func (s *Writer) flush(isLast bool) {
	n := uint32(len(s.buf) + tagLen)
	if isLast {
		n |= last
	}
	s.out = binary.BigEndian.AppendUint32(s.out[:0], n)
	s.out = s.aead.Seal(s.out, s.next(isLast), s.buf, s.header[:])
	_, s.err = s.w.Write(s.out)
	s.buf = s.buf[:0]
}

// A Reader opens what a Writer sealed.
type Reader struct {
	sealer
	r    io.Reader
	buf  []byte // opened, not returned yet
	in   []byte
	out  []byte // what Next returns
	done bool   // the last chunk was opened
	err  error
}

// NewReader reads the header. It takes from r exactly the bytes of one stream.
func NewReader(r io.Reader, key []byte) (*Reader, error) {
	s := &Reader{r: r}
	n, err := io.ReadFull(r, s.header[:])
	h := s.header[:n]
	short := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch m := min(n, len(magic)); {
	case err != nil && !short:
		return nil, err
	case !bytes.Equal(h[:m], []byte(magic)[:m]):
		return nil, ErrForeign
	case n >= len(magic)+2 && binary.BigEndian.Uint16(h[len(magic):]) != version:
		return nil, fmt.Errorf("%w: %d, not %d", ErrVersion, binary.BigEndian.Uint16(h[len(magic):]), version)
	case short:
		return nil, ErrTruncated
	}
	body := h[:headerLen-4]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(h[headerLen-4:]) {
		return nil, ErrDamaged
	}
	salt := body[len(magic)+2:]
	check, err := s.keys(key, salt[:saltLen])
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(check, salt[saltLen:]) == 0 {
		return nil, ErrKey
	}
	s.in, s.out = make([]byte, chunk+tagLen), make([]byte, chunk)
	return s, nil
}

// Next returns the next n bytes, at most 32 KiB, until the next call. An error stays.
func (s *Reader) Next(n int) ([]byte, error) {
	if n > len(s.out) {
		s.err = ErrDamaged
	}
	out := s.out[:0]
	for s.err == nil && len(out) < n {
		if len(s.buf) == 0 {
			s.open()
			continue
		}
		k := min(n-len(out), len(s.buf))
		out, s.buf = append(out, s.buf[:k]...), s.buf[k:]
	}
	return out, s.err
}

// Close reads the end of the stream. More than was asked for is damage.
func (s *Reader) Close() error {
	if s.err == nil && len(s.buf) == 0 && !s.done {
		s.open()
	}
	if s.err == nil && (len(s.buf) > 0 || !s.done) {
		s.err = ErrDamaged
	}
	return s.err
}

// open reads the next chunk.
func (s *Reader) open() {
	if s.done {
		s.err = ErrDamaged // what is inside ends too early
		return
	}
	var length [4]byte
	if !s.fill(length[:]) {
		return
	}
	n := binary.BigEndian.Uint32(length[:])
	s.done = n&last != 0
	if n &^= last; n < tagLen || n > chunk+tagLen || n == tagLen && !s.done {
		s.err = ErrDamaged
		return
	}
	if s.fill(s.in[:n]) {
		if s.buf, s.err = s.aead.Open(s.in[:0], s.next(s.done), s.in[:n], s.header[:]); s.err != nil {
			s.err = ErrDamaged
		}
	}
}

func (s *Reader) fill(b []byte) bool {
	_, err := io.ReadFull(s.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrTruncated
	}
	s.err = err
	return err == nil
}
