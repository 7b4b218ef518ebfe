package seal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/doorward/doorward/internal/seal"
)

var key, other = bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)

const (
	header = 68
	chunk  = 32 << 10
	tag    = 16
)

func sealed(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := seal.NewWriter(&b, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if n, err := w.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// opened reads n bytes, 1,000 at a time, and the end.
func opened(r io.Reader, key []byte, n int) (out []byte, err error) {
	s, err := seal.NewReader(r, key)
	for err == nil && len(out) < n {
		var b []byte
		if b, err = s.Next(min(1000, n-len(out))); err == nil {
			out = append(out, b...)
		}
	}
	if err == nil {
		err = s.Close()
	}
	return out, err
}

func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 / 3)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 999, chunk - 1, chunk, chunk + 1, 2 * chunk, 3*chunk + 5} {
		want := text(n)
		stream := sealed(t, want[:n/3], want[n/3:])
		chunks := max(1, (n+chunk-1)/chunk)
		if len(stream) != header+n+chunks*(4+tag) {
			t.Errorf("%d bytes take %d", n, len(stream))
		}
		rest := bytes.NewReader(append(stream, "more"...))
		if got, err := opened(rest, key, n); err != nil || !bytes.Equal(got, want) || rest.Len() != 4 {
			t.Errorf("%d bytes: got %d, %v, %d left of what follows", n, len(got), err, rest.Len())
		}
		if _, err := opened(bytes.NewReader(stream), key, n+1); !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("a byte too many of %d: %v", n, err)
		}
		if n > 0 {
			if _, err := opened(bytes.NewReader(stream), key, n-1); !errors.Is(err, seal.ErrDamaged) {
				t.Errorf("a byte left of %d: %v", n, err)
			}
		}
	}
}

func TestNothingInClear(t *testing.T) {
	secret := []byte("192.0.2.7 alice")
	a, b := sealed(t, secret), sealed(t, secret)
	if bytes.Contains(a, secret[:4]) || bytes.Equal(a[16:], b[16:]) {
		t.Error("a stream shows what is in it, or that it is the same as another")
	}
}

// Every stream that is cut off or has one bit changed is told from a good one, and why.
func TestDamage(t *testing.T) {
	want := text(chunk + 100)
	stream := sealed(t, want)
	for n := range stream {
		if n > 200 && n%997 != 0 && n < len(stream)-200 {
			continue
		}
		if _, err := opened(bytes.NewReader(stream[:n]), key, len(want)); !errors.Is(err, seal.ErrTruncated) {
			t.Fatalf("cut off after %d: %v", n, err)
		}
		bad := bytes.Clone(stream)
		bad[n] ^= 1 << (n % 8)
		expect := []error{seal.ErrDamaged}
		switch {
		case n < 14:
			expect = []error{seal.ErrForeign}
		case n < 16:
			expect = []error{seal.ErrVersion}
		case n >= header && n < header+4 || n >= header+4+chunk+tag && n < header+8+chunk+tag:
			expect = append(expect, seal.ErrTruncated) // a length
		}
		_, err := opened(bytes.NewReader(bad), key, len(want))
		is := false
		for _, e := range expect {
			is = is || errors.Is(err, e)
		}
		if !is {
			t.Fatalf("bit of byte %d changed: %v, want %v", n, err, expect)
		}
	}
	if _, err := opened(bytes.NewReader(stream), other, len(want)); !errors.Is(err, seal.ErrKey) {
		t.Errorf("another key: %v", err)
	}
}

// Chunks keep their places: none can be left out, come twice, or be another stream's, nor
// can a stream end early.
func TestChunks(t *testing.T) {
	want := text(3 * chunk)
	a, b := sealed(t, want), sealed(t, want)
	const size = 4 + chunk + tag
	part := func(s []byte, i int) []byte { return s[header+i*size : header+(i+1)*size] }
	early := bytes.Clone(part(a, 0))
	binary.BigEndian.PutUint32(early, binary.BigEndian.Uint32(early)|1<<31)
	for name, parts := range map[string][][]byte{
		"left out": {a[:header], part(a, 0), part(a, 2)},
		"swapped":  {a[:header], part(a, 1), part(a, 0), part(a, 2)},
		"twice":    {a[:header], part(a, 0), part(a, 0), part(a, 1), part(a, 2)},
		"foreign":  {a[:header], part(a, 0), part(b, 1), part(a, 2)},
		"header":   {b[:header], part(a, 0), part(a, 1), part(a, 2)},
	} {
		if got, err := opened(bytes.NewReader(bytes.Join(parts, nil)), key, len(want)); !errors.Is(err, seal.ErrDamaged) || !bytes.Equal(got, want[:len(got)]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := opened(bytes.NewReader(append(a[:header:header], early...)), key, chunk); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a chunk that says it is the last: %v", err)
	}
}

type failing struct{ after int }

var errDisk = errors.New("disk full")

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func (f *failing) Read([]byte) (int, error) { return 0, errDisk }

func TestErrorsBelow(t *testing.T) {
	for _, after := range []int{0, header, header + chunk + 20} {
		w, err := seal.NewWriter(&failing{after}, key)
		if err == nil {
			w.Write(text(3 * chunk))
			err = w.Close()
		}
		if !errors.Is(err, errDisk) {
			t.Errorf("after %d: %v", after, err)
		}
	}
	for _, n := range []int{0, 5, header, header + 9} {
		r := io.MultiReader(bytes.NewReader(sealed(t, text(100))[:n]), &failing{})
		if _, err := opened(r, key, 100); !errors.Is(err, errDisk) {
			t.Errorf("after %d: %v", n, err)
		}
	}
	if _, err := seal.NewWriter(io.Discard, key[1:]); err == nil {
		t.Error("a short key seals")
	}
	if _, err := seal.NewReader(bytes.NewReader(sealed(t)), key[1:]); err == nil || errors.Is(err, seal.ErrKey) {
		t.Errorf("a short key opens: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	for _, n := range []int{0, 1, 100, chunk + 1} {
		f.Add(sealed(f, text(n)))
	}
	f.Add([]byte("doorward state"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		s, err := seal.NewReader(bytes.NewReader(stream), key)
		for n := 1; err == nil; n = n%chunk*2 + 1 {
			_, err = s.Next(min(n, chunk))
		}
		for _, e := range []error{seal.ErrForeign, seal.ErrVersion, seal.ErrKey, seal.ErrDamaged, seal.ErrTruncated} {
			if errors.Is(err, e) {
				return
			}
		}
		t.Errorf("%v", err)
	})
}
