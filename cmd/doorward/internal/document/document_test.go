package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const before = "a\n<!-- x -->\n| h |\n|---|\n| old |\n<!-- end of x -->\nb\n"

// failed runs Table as a test that takes part in no run.
type quiet struct {
	testing.TB
	errors int
}

func (q *quiet) Helper()               {}
func (q *quiet) Failed() bool          { return q.errors > 0 }
func (q *quiet) Error(...any)          { q.errors++ }
func (q *quiet) Errorf(string, ...any) { q.errors++ }

func TestTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.md")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		update, name, cell string
		errors             int
		want               string
	}{
		{"", "x", "old", 0, "old"},
		{"", "x", "new", 1, "old"},
		{"", "y", "old", 1, "old"},
		{"1", "x", "new", 0, "new"},
		{"", "x", "new", 0, "new"},
	} {
		t.Setenv("UPDATE_DOCS", row.update)
		q := &quiet{}
		Table(q, file, row.name, [][]string{{row.cell}})
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Replace(before, "old", row.want, 1); q.errors != row.errors || string(text) != want {
			t.Errorf("%+v: %d errors, document %q", row, q.errors, text)
		}
	}
	for _, text := range []string{"", "<!-- x -->\n", "<!-- x -->\n| h |\n<!-- end of x -->\n"} {
		if _, ok := replace(text, "x", ""); ok {
			t.Errorf("%q has no table", text)
		}
	}
}
