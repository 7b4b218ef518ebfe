package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// shop is the log of an invented shop over two days, in the format of nginx: people who log
// in, some of them with typos, an office of forty behind one address, three addresses that
// guess as fast as they are let, and a botnet of which each address comes back now and
// then. A right password is answered with 302, a wrong one with 200.
func shop() string {
	type line struct {
		at   time.Time
		text string
	}
	const browser, bot = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "python-requests/2.31.0"
	var all []line
	r := rand.New(rand.NewPCG(9, 9))
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	add := func(at time.Time, addr, request string, status, size int, agent string) {
		all = append(all, line{at, fmt.Sprintf("%s - - [%s] \"%s HTTP/1.1\" %d %d \"-\" \"%s\"\n", addr, at.Format("02/Jan/2006:15:04:05 -0700"), request, status, size, agent)})
	}
	login := func(at time.Time, addr, agent string, right bool) {
		status := 200
		if right {
			status = 302
		}
		add(at, addr, "POST /login", status, 512, agent)
	}
	between := func(a, b int) time.Duration { return time.Duration(a+r.IntN(b-a+1)) * time.Second }
	for day := range 2 {
		for person := range 260 {
			addr := fmt.Sprintf("198.51.%d.%d", person%40, 1+person/40)
			switch {
			case person < 40:
				addr = "203.0.113.80" // the office
			case person%3 == 0:
				addr = fmt.Sprintf("2001:db8:%x:%x::%x", person, person*7, 1+r.IntN(9))
			}
			at := begin.Add(time.Duration(day)*24*time.Hour + 7*time.Hour + between(0, 12*3600))
			if person < 40 {
				at = begin.Add(time.Duration(day)*24*time.Hour + 8*time.Hour + between(0, 1800)) // all at nine
			}
			add(at, addr, "GET /login", 200, 4096, browser)
			wrong := 0
			switch r.IntN(20) {
			case 0:
				wrong = 3 + r.IntN(4) // caps lock
			case 1, 2, 3:
				wrong = 1
			}
			for range wrong {
				at = at.Add(between(4, 15))
				login(at, addr, browser, false)
			}
			at = at.Add(between(5, 20))
			login(at, addr, browser, true)
			for range r.IntN(12) {
				at = at.Add(between(2, 90))
				add(at, addr, fmt.Sprintf("GET /item/%d?page=%d", r.IntN(900), r.IntN(5)), 200, 20_000, browser)
			}
		}
	}
	for i := range 3 {
		at := begin.Add(time.Duration(5+9*i) * time.Hour)
		for range 1500 {
			at = at.Add(between(1, 4))
			login(at, fmt.Sprintf("192.0.2.%d", 66+i), bot, false)
		}
	}
	for i := range 300 {
		for range 1 + r.IntN(3) {
			login(begin.Add(12*time.Hour+between(0, 30*3600)), fmt.Sprintf("100.%d.%d.%d", 64+i%60, i%251, 7+i/60), bot, false)
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at.Unix(), b.at.Unix()) })
	var b strings.Builder
	for _, l := range all {
		b.WriteString(l.text)
	}
	return b.String()
}

// docs/replay.md shows what replay prints: each command of a console block is run by a
// shell, in a directory with the two logs and the files of the yaml blocks. Its charts are
// those of a page. UPDATE_DOCS=1 writes all of it.
func TestReplayDocument(t *testing.T) {
	file, err := filepath.Abs(filepath.Join(docs, "replay.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	attack, err := os.ReadFile("../internal/replay/testdata/hackers-access.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, data := range map[string][]byte{"shop.log": []byte(shop()), "hackers-access.log.gz": attack} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blocks := regexp.MustCompile("(?s)```(yaml|console)\n(.*?)```\n")
	for _, m := range blocks.FindAllStringSubmatch(string(text), -1) {
		first, _, _ := strings.Cut(m[2], "\n")
		if name, ok := strings.CutPrefix(first, "# "); ok && m[1] == "yaml" {
			if err := os.WriteFile(name, []byte(m[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
		m := blocks.FindStringSubmatch(block)
		if m[1] != "console" {
			return block
		}
		first, _, _ := strings.Cut(m[2], "\n")
		return "```console\n" + first + "\n" + shell(t, strings.TrimPrefix(first, "$ ")) + "```\n"
	})
	document.Whole(t, file, got)

	shell(t, "doorward replay --door 'POST /login' --succeeded 302 --suggest --html page.html shop.log")
	page, err := os.ReadFile("page.html")
	if err != nil {
		t.Fatal(err)
	}
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindSubmatch(page)
	charts := regexp.MustCompile(`<svg viewBox="0 0 (\d+) (\d+)" role="img" aria-label="([^"]*)">(.*?)</svg>`).FindAllSubmatch(page, -1)
	for title, name := range map[string]string{"Attempts over time": "replay-timeline.svg", "Guesses admitted against honest callers refused": "replay-frontier.svg"} {
		i := slices.IndexFunc(charts, func(c [][]byte) bool { return string(c[3]) == title })
		if i < 0 || style == nil {
			t.Fatalf("the page has no chart %q", title)
		}
		c := charts[i]
		document.Whole(t, filepath.Join(filepath.Dir(file), name), fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" font-family=\"system-ui, sans-serif\">\n<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" style=\"fill: var(--back)\"/>\n%s\n</svg>\n",
			c[1], c[2], style[1], bytes.ReplaceAll(c[4], []byte("><"), []byte(">\n<"))))
	}
}

// shell runs a command line in which doorward is the program under test, and returns what
// it printed.
func shell(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// The figures that the text of the document names stand in what is printed in the section.
func TestReplayDocumentFigures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "replay.md"))
	if err != nil {
		t.Fatal(err)
	}
	begin, end, _ := strings.Cut(string(text), "## What is read")
	if end == "" {
		t.Fatal("the document has no section of what is read")
	}
	code := regexp.MustCompile("(?s)```.*?```\n")
	for _, section := range strings.Split(begin, "\n## ")[1:] {
		printed := strings.Join(code.FindAllString(section, -1), "")
		prose := code.ReplaceAllString(section, "")
		for _, n := range regexp.MustCompile(`\b\d[\d,]{2,}\b`).FindAllString(prose, -1) {
			switch n {
			case "200", "302", "300", "2015": // statuses, the botnet, the lockouts that are tried, a year
				continue
			}
			if !strings.Contains(printed, n) {
				t.Errorf("the text says %s, and nothing that is printed does", n)
			}
		}
	}
}

// Every field of the JSON is documented, and the totals that are promised are there.
func TestReplayJSON(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "replay.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("shop.log", []byte(shop()+"unreadable\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("c.yaml", []byte("upstream: http://127.0.0.1:1\ndoors: [{name: login, routes: [POST /login], outcome: {succeeded: {status: 302}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var report map[string]any
	if err := json.Unmarshal([]byte(shell(t, "doorward replay --config c.yaml --compare c.yaml --suggest --json shop.log")), &report); err != nil {
		t.Fatal(err)
	}
	var names func(v any)
	seen := map[string]bool{}
	names = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, v := range v {
				seen[name] = true
				names(v)
			}
		case []any:
			for _, v := range v {
				names(v)
			}
		}
	}
	names(report)
	for name := range seen {
		if !strings.Contains(string(text), "`"+name+"`") && name != "unreadable" {
			t.Errorf("the document says nothing of %s", name)
		}
	}
	for name, want := range map[string]float64{
		"attempts": 5797, "admitted_failed": 795, "refused_failed": 4482, "admitted_succeeded": 499, "refused_succeeded": 21,
		"keys": 524, "keys_locked": 17, "longest_lockout_seconds": 1920, "unreadable": 1,
	} {
		if report[name] != want {
			t.Errorf("%s is %v, want %v", name, report[name], want)
		}
	}
}
