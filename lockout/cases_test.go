package lockout_test

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

// The public cases whose policy is a lockout, each from a bug report or an advisory
// about some other program.
func TestCases(t *testing.T) {
	file := string(must(os.ReadFile("testdata/CASES.md")))
	var names []string
	for _, part := range strings.Split(file, "\n### ")[1:] {
		c := parseCase(part)
		if c.policy == "" {
			continue
		}
		names = append(names, c.name[:3])
		t.Run(c.name, c.play)
	}
	if got := strings.Join(names, " "); got != "P01 P02 P03 P04 P05 P06 P11 P13 P15" {
		t.Errorf("lockout cases found: %s", got)
	}
}

// A publicCase has lines "t address outcome -> admit | refuse <retry_after>".
type publicCase struct {
	name, policy string
	lines        []string
}

var caseForm = regexp.MustCompile("(?s)^([^\n]*)\n.*?\npolicy: lockout ([^\n]*)\n```\n(.*?)\n```")

func parseCase(part string) (c publicCase) {
	if m := caseForm.FindStringSubmatch(part); m != nil {
		c = publicCase{name: m[1], policy: m[2], lines: strings.Split(m[3], "\n")}
	}
	return c
}

// play makes the attempts through Attempt and tells it of success, as an application
// would.
func (c publicCase) play(t *testing.T) {
	l := must(lockout.New(policyOf(c.policy)))
	for _, line := range c.lines {
		event, want, _ := strings.Cut(line, " -> ")
		word := strings.Fields(event)
		at, k := sec(word[0]), doorward.KeyFromAddr(netip.MustParseAddr(word[1]))
		d := l.Attempt(k, at)
		if d.Allowed && word[2] == "success" {
			l.Succeeded(k, at)
		}
		got := "admit"
		if !d.Allowed {
			got = fmt.Sprint("refuse ", plain(d.RetryAfter))
		}
		if got != want {
			t.Errorf("%s\n\tgot %s", line, got)
		}
	}
}
