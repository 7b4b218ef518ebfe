package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/doorward/doorward/internal/seal"
)

// What is kept beside the state is sealed, and whatever else is there is an error.
func TestBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	key := bytes.Repeat([]byte{7}, 32)
	f, err := Open(path, key)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := f.LoadBeside("networks"); b != nil || err != nil {
		t.Errorf("before the first: %q, %v", b, err)
	}
	for _, n := range []int{0, 1, maxPiece, 3*maxPiece + 1} {
		want := bytes.Repeat([]byte("ab"), n)[:n]
		if err := f.SaveBeside("networks", want); err != nil {
			t.Fatal(err)
		}
		if b, err := f.LoadBeside("networks"); !bytes.Equal(b, want) || err != nil {
			t.Errorf("%d bytes: got %d, %v", n, len(b), err)
		}
	}
	if err := f.SaveBeside("networks", make([]byte, MaxBeside+1)); err == nil {
		t.Error("longer than it may be: no error")
	}
	text, err := os.ReadFile(path + ".networks")
	if err != nil || bytes.Contains(text, []byte("abab")) {
		t.Errorf("readable: %v", err)
	}
	put := func(b []byte) {
		if err := os.WriteFile(path+".networks", b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 { // of everything around the content
		for _, at := range []int{i, len(text) - 1 - i} {
			bad := bytes.Clone(text)
			bad[at] ^= 1
			put(bad)
			if b, err := f.LoadBeside("networks"); err == nil {
				t.Fatalf("byte %d changed: got %d bytes", at, len(b))
			}
		}
	}
	put(append(bytes.Clone(text), 0))
	if _, err := f.LoadBeside("networks"); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("longer: %v", err)
	}
	put(text[:len(text)/2])
	if _, err := f.LoadBeside("networks"); err == nil {
		t.Error("cut off: no error")
	}
	// What is beside is sealed for its name.
	if err := os.WriteFile(path+".other", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.LoadBeside("other"); !errors.Is(err, seal.ErrKey) {
		t.Errorf("of another name: %v", err)
	}
}
