package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
	"github.com/doorward/doorward/guard"
)

const docs = "../../../docs"

// docs/explain.md shows what explain prints: each command of a console block is run, in a
// directory that has the files of the yaml blocks before it. UPDATE_DOCS=1 writes what it
// printed into the document.
func TestExplainDocument(t *testing.T) {
	file, err := filepath.Abs(filepath.Join(docs, "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	blocks := regexp.MustCompile("(?s)```(yaml|console)\n(.*?)```\n")
	var all strings.Builder
	got := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
		m := blocks.FindStringSubmatch(block)
		first, _, _ := strings.Cut(m[2], "\n")
		if name, ok := strings.CutPrefix(first, "# "); ok && m[1] == "yaml" {
			if err := os.WriteFile(name, []byte(m[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			return block
		}
		all.WriteString(first + "\n")
		return "```console\n" + first + "\n" + explained(t, strings.TrimPrefix(first, "$ doorward ")) + "```\n"
	})
	for name := range guard.Presets() {
		if !regexp.MustCompile(`(?m)--preset ` + name + `( |$)`).MatchString(all.String()) {
			t.Errorf("preset %s is not explained", name)
		}
	}
	document.Whole(t, file, got)
}

// explained returns what a command prints.
func explained(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.Command(binary, strings.Fields(args)...).CombinedOutput()
	if err != nil {
		t.Fatalf("doorward %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// What SECURITY.md says of a stolen device is what explain says.
func TestSecurityFigures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "..", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`of its own: (\d+) failures, then waits; with the preset for logins\s+at most (\d+) guesses at its owner's account in a day, (\d+) a day for good`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("SECURITY.md says nothing of a stolen device")
	}
	line := `(?m)^  a stolen device +` + m[1] + ` +` + m[2] + ` +` + m[3] + ` +device$`
	if out := explained(t, "explain --preset login --span 1d"); !regexp.MustCompile(line).MatchString(out) {
		t.Errorf("SECURITY.md says %q, explain\n%s", m[0], out)
	}
}

// The figures that the text of the document names stand in what explain prints below it.
func TestExplainDocumentFigures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	figures := regexp.MustCompile(`\d[\d,]{2,}`)
	for _, section := range regexp.MustCompile(`(?m)^##+ `).Split(string(text), -1) {
		prose, printed, found := strings.Cut(section, "```console\n")
		prose, _, _ = strings.Cut(prose, "```yaml\n")
		for _, n := range figures.FindAllString(prose, -1) {
			if found && !strings.Contains(printed, n) {
				t.Errorf("the text says %s, explain does not:\n%s", n, prose)
			}
		}
	}
}
