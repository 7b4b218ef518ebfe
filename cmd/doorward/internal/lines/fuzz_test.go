package lines

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
)

// Whatever the bytes, and wherever reads end, plain text is cut at its line ends, and what
// only looks compressed is an error.
func FuzzLines(f *testing.F) {
	gz, zst := compressed(f, "a line\nand another\r\n", "a third")
	for _, seed := range [][]byte{nil, []byte("a\nb\r\n\nc"), []byte("\ufeffa\n"), gz, zst, gz[:20], zst[:20], []byte("BZh91AY&SY"), []byte("\xfd7zXZ\x00")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := all(t, bytes.NewReader(data))
		again, err2 := all(t, iotest.OneByteReader(bytes.NewReader(data)))
		if strings.Join(got, "\n") != strings.Join(again, "\n") || (err == nil) != (err2 == nil) {
			t.Fatalf("read otherwise byte by byte: %q, %v and %q, %v", got, err, again, err2)
		}
		for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "BZh", "\xfd7zXZ\x00"} {
			if bytes.HasPrefix(data, []byte(magic)) {
				return
			}
		}
		if len(data) > 3 && data[0]>>4 == 5 && string(data[1:4]) == "\x2a\x4d\x18" || len(data) > MaxLine {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		n := bytes.Count(data, []byte("\n"))
		if rest := bytes.TrimPrefix(data, []byte("\ufeff")); len(rest) > 0 && rest[len(rest)-1] != '\n' {
			n++
		}
		if len(got) != n {
			t.Fatalf("%d lines of %q, want %d", len(got), data, n)
		}
	})
}
