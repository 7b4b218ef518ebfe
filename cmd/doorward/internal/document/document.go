// Package document lets tests write what they found into a document: all of it, or a
// table between two comments that name it. A document that says otherwise fails the test; with
// UPDATE_DOCS=1 in the environment it is written. So the document says what is, and a
// change of behaviour shows in its diff.
//
// Tests of different packages may own tables of one document.
package document

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// Table holds that the table called name in file consists of rows: cells of markdown,
// without a head, which belongs to the text around it.
func Table(t testing.TB, file, name string, rows [][]string) {
	t.Helper()
	if t.Failed() {
		return // it would say what is wrong
	}
	var b strings.Builder
	for _, cells := range rows {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	if err := exclusively(file, func(f *os.File) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		changed, ok := replace(string(text), name, b.String())
		switch {
		case !ok:
			t.Errorf("%s has no lines <!-- %s --> and <!-- end of %s -->", file, name, name)
		case changed == string(text):
		case os.Getenv("UPDATE_DOCS") == "":
			t.Errorf("%s: the table %q should be as follows; UPDATE_DOCS=1 writes it\n%s", file, name, b.String())
		default:
			return os.WriteFile(file, []byte(changed), 0o644)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// Whole holds that file is text. The caller may have made text from the file.
func Whole(t testing.TB, file, text string) {
	t.Helper()
	if t.Failed() {
		return // it would say what is wrong
	}
	was, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	if string(was) == text {
		return
	}
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	old, now := strings.Split(string(was), "\n"), strings.Split(text, "\n")
	i := 0
	for i < min(len(old), len(now))-1 && old[i] == now[i] {
		i++
	}
	t.Errorf("%s:%d is\n%s\nand should be\n%s\nUPDATE_DOCS=1 writes it", file, i+1, old[i], now[i])
}

// replace puts table in the place called name. The head of the table stays: the first
// two lines.
func replace(text, name, table string) (string, bool) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		return text, false
	}
	old, after, ok := strings.Cut(rest, end)
	if !ok {
		return text, false
	}
	head := strings.SplitAfterN(old, "\n", 3)
	if len(head) < 3 {
		return text, false
	}
	return before + begin + head[0] + head[1] + table + end + after, true
}

// exclusively keeps the tests of other packages out of the file.
func exclusively(file string, do func(*os.File) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return do(f)
}
