package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each command has a manual page that a program nobody here wrote reads without complaint,
// and that says what --help says, word for word.
func TestManual(t *testing.T) {
	mandoc := need(t, "mandoc")
	dir := t.TempDir()
	if out, err := exec.Command(binary, "man", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := exec.Command(binary, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^  ([a-z]+)  +[A-Z]`).FindAllSubmatch(root, -1)
	if len(pages) != len(commands) || len(pages) < 15 { // help has none, and all of them have one
		t.Errorf("%d pages, %d commands", len(pages), len(commands))
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".1")
		if out, err := exec.Command(mandoc, "-T", "lint", "-W", "error", page).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		out, err := exec.Command(mandoc, "-T", "ascii", "-O", "width=500", page).Output()
		if err != nil {
			t.Fatal(err)
		}
		text := flowed(overstruck.ReplaceAllString(string(out), ""))
		help, err := exec.Command(binary, append(strings.Split(name, "-")[1:], "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		long, rest, _ := strings.Cut(string(help), "\nUsage:\n")
		if !strings.Contains(text, flowed(long)) {
			t.Errorf("%s: the page\n%s\ndoes not say\n%s", name, text, flowed(long))
		}
		for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+(?: [A-Z]+)?) +(\S.*)$`).FindAllStringSubmatch(rest, -1) {
			if what := m[1] + " " + flowed(m[2]); m[1] != "--help" && m[1] != "--version" && !strings.Contains(text, strings.ReplaceAll(what, `"`, "")) {
				t.Errorf("%s: the page\n%s\ndoes not say\n%s", name, text, what)
			}
		}
		if _, examples, ok := strings.Cut(rest, "Examples:\n"); ok {
			examples, _, _ = strings.Cut(examples, "\n\n")
			if !strings.Contains(text, flowed(examples)) {
				t.Errorf("%s: the page\n%s\ndoes not say\n%s", name, text, flowed(examples))
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "doorward-unlock.1")); err != nil {
		t.Error(err)
	}
}

// overstruck is how bold and underlined letters are printed.
var overstruck = regexp.MustCompile(`.\x08`)

func flowed(s string) string { return strings.Join(strings.Fields(s), " ") }
