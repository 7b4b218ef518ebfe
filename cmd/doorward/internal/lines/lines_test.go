package lines

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// all returns the lines of r: each with "$" behind it if it was whole and "..." if it was
// too long, of which the length stands here.
func all(t *testing.T, r io.Reader) (got []string, err error) {
	t.Helper()
	l, err := New(r)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for {
		line, whole, tooLong, err := l.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return got, err
		}
		text := string(line)
		if tooLong {
			if len(text) != MaxLine {
				t.Errorf("a line that is too long has %d bytes, want %d", len(text), MaxLine)
			}
			text = text[:1] + "..."
		}
		if len(text) > 20 {
			text = text[:1] + "x many"
		}
		if whole {
			text += "$"
		}
		got = append(got, text)
	}
}

func compressed(t testing.TB, parts ...string) (gz, zst []byte) {
	t.Helper()
	var g, z bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&g)
		io.WriteString(w, p)
		w.Close()
		e, err := zstd.NewWriter(&z)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(e, p)
		e.Close()
	}
	return g.Bytes(), z.Bytes()
}

func TestLines(t *testing.T) {
	most := strings.Repeat("m", MaxLine)
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"a line", "a\n", "a$"},
		{"without an end", "a\nb", "a$|b"},
		{"CRLF, and CR elsewhere", "a\r\nb\rc\n\r\nd\r", "a$|b\rc$|$|d\r"},
		{"empty ones", "\n\na\n\n", "$|$|a$|$"},
		{"a byte order mark", "\ufeffa\n\ufeffb\n", "a$|\ufeffb$"},
		{"as long as may be", most + "\nb\n", "mx many$|b$"},
		{"as long as may be, with CRLF", most + "\r\nb\n", "mx many$|b$"},
		{"as long as may be, without an end", most, "mx many"},
		{"a byte longer", "l" + most + "\nb\n", "l...|b$"},
		{"a byte longer, without an end", "l" + most, "l..."},
		{"much longer", "a\nl" + strings.Repeat(most, 5) + "\nb\n", "a$|l...|b$"},
		{"much longer, without an end", "a\nl" + strings.Repeat(most, 5), "a$|l..."},
	} {
		gz, zst := compressed(t, test.text)
		gzs, zsts := gz, zst
		if n := len(test.text) / 3; n > 0 {
			gzs, zsts = compressed(t, test.text[:n], test.text[n:])
		}
		for kind, data := range map[string][]byte{"plain": []byte(test.text), "gz": gz, "zst": zst, "gz of two parts": gzs, "zst of two": zsts} {
			for how, r := range map[string]io.Reader{
				"at once": bytes.NewReader(data), "with the end": iotest.DataErrReader(bytes.NewReader(data)), "half by half": iotest.HalfReader(bytes.NewReader(data)),
			} {
				got, err := all(t, r)
				if err != nil || strings.Join(got, "|") != test.want {
					t.Errorf("%s, %s, %s: %q, %v, want %q", test.name, kind, how, got, err, test.want)
				}
			}
		}
	}
}

// Where a read ends makes no difference.
func TestReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		var text, want strings.Builder
		for range 300 {
			line := strings.Repeat("a", r.IntN(3*r.IntN(300)+1))
			text.WriteString(line + "\n")
			want.WriteString(line + "\n")
		}
		l, err := New(&ragged{strings.NewReader(text.String()), r})
		if err != nil {
			t.Fatal(err)
		}
		if n := r.IntN(3); n > 0 {
			if got, most := len(l.Sample()), min(Sample, text.Len()); got != most {
				t.Fatalf("Sample has %d bytes, want %d", got, most)
			}
		}
		var got strings.Builder
		for {
			line, _, _, err := l.Next()
			if err != nil {
				break
			}
			got.Write(line)
			got.WriteByte('\n')
		}
		if got.String() != want.String() {
			t.Fatal("lines differ")
		}
	}
}

type ragged struct {
	io.Reader
	r *rand.Rand
}

func (r *ragged) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(len(b), r.r.IntN(5000))]) }

// What comes before the damage is read, and then the error comes.
func TestDamage(t *testing.T) {
	text := strings.Repeat("a line of a log\n", 50_000)
	gz, zst := compressed(t, text)
	for kind, data := range map[string][]byte{"gz": gz[:len(gz)-9], "zst": zst[:len(zst)-9]} {
		got, err := all(t, bytes.NewReader(data))
		if err == nil || len(got) < 10_000 {
			t.Errorf("%s: %d lines, error %v", kind, len(got), err)
		}
	}
	broken := errors.New("broken")
	got, err := all(t, io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	if err != broken || strings.Join(got, "|") != "a$|b" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := New(strings.NewReader("\xfd7zXZ\x00 and more")); err != ErrXZ {
		t.Errorf("xz: %v", err)
	}
	if _, err := New(strings.NewReader("\x1f\x8bnothing of the kind")); err == nil {
		t.Error("no error for what is no gzip")
	}
}
