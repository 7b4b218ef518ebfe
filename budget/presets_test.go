package budget_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/budget"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
)

func door(t testing.TB, c guard.Config) *budget.Door {
	t.Helper()
	d, err := budget.NewDoor(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// commas writes 1234567 as 1,234,567.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// figures are a bound in the words of the comments.
func figures(most func(time.Duration) int64) string {
	return fmt.Sprintf("%s at once, %s in an hour, %s in a day, %s in 30 days",
		commas(most(1)), commas(most(time.Hour)), commas(most(day)), commas(most(30*day)))
}

// A line of a comment says what one of these callers gets; all get the same.
type line struct {
	who     string
	callers []budget.Caller
	target  budget.Target
}

var (
	anywhere = budget.Caller{Networks: math.MaxInt32, Bits: 32}
	single   = []budget.Caller{budget.Address, budget.Subscriber}
	sites    = []budget.Caller{budget.Network24, budget.Site}
)

// lines returns what the comment of a preset speaks of: what its rules distinguish.
func lines(d *budget.Door) (all []line) {
	per := map[guard.Per]bool{}
	for _, r := range d.Rules() {
		if r.Action == guard.Refuse {
			per[r.Per] = true
		}
	}
	if per[guard.Challenge] {
		all = append(all, line{"one code", []budget.Caller{anywhere}, budget.OneChallenge})
	}
	if per[guard.Pair] {
		all = append(all, line{"one address at one account", single, budget.OneSubject})
	}
	if per[guard.Subject] {
		all = append(all, line{"one account, from anywhere", []budget.Caller{anywhere}, budget.OneSubject})
	}
	if per[guard.Device] {
		known := anywhere
		known.Networks, known.Device = 1000, true
		all = append(all, line{"one known device", []budget.Caller{known}, budget.OneSubject})
	}
	name := "one address"
	if per[guard.Pair] {
		name = "one address in all"
	}
	all = append(all,
		line{name, single, budget.EverySubject},
		line{"one IPv4 /24 or IPv6 /48", sites, budget.EverySubject},
		line{"one IPv6 /32", []budget.Caller{budget.Provider}, budget.EverySubject})
	if d.Most(anywhere, budget.EverySubject, day).Rule == "ceiling" {
		all = append(all, line{"everyone", []budget.Caller{anywhere}, budget.EverySubject})
	}
	return all
}

// bound returns the text that the comment of a preset ends with.
func bound(t *testing.T, d *budget.Door) string {
	var b strings.Builder
	b.WriteString("Bound:\n")
	for _, l := range lines(d) {
		said := ""
		for _, c := range l.callers {
			is := figures(func(span time.Duration) int64 { return d.Most(c, l.target, span).Most })
			if said != "" && is != said {
				t.Errorf("%s: %s, or %s", l.who, said, is)
			}
			said = is
		}
		fmt.Fprintf(&b, "  - %s: %s\n", l.who, said)
	}
	return b.String()
}

// comments returns the comments of the variables in a file.
func comments(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, decl := range f.Decls {
		if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				all[v.Names[0].Name] = v.Doc.Text()
			}
		}
	}
	return all
}

// G13: the comment of every preset ends with its bound.
func TestPresetComments(t *testing.T) {
	said := comments(t, "../guard/presets.go")
	for file, c := range guard.Presets() {
		name := ""
		for word := range strings.SplitSeq(file, "_") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		want := bound(t, door(t, c))
		if !strings.HasSuffix("\n"+said[name], "\n\n"+want) {
			t.Errorf("%s must end with a paragraph\n%sbut is\n%s", name, comment("\t// ", want), comment("\t// ", said[name]))
		}
	}
}

// The same for policies.
func TestPolicyComments(t *testing.T) {
	said := comments(t, "../lockout/policy.go")
	for name, p := range map[string]lockout.Policy{"Login": lockout.Login, "Enroll": lockout.Enroll, "PasskeyLogin": lockout.PasskeyLogin} {
		want := "Bound of one key: " + figures(lockoutBound(p).Most) + ".\n"
		if _, is, _ := strings.Cut(said[name], "\n\n"); strings.Join(strings.Fields(is), " ")+"\n" != want {
			t.Errorf("%s must end with a paragraph\n%sbut is\n%s", name, comment("\t// ", want), comment("\t// ", said[name]))
		}
	}
}

// The files to copy say what their presets admit in a day.
func TestPresetFiles(t *testing.T) {
	entries, err := os.ReadDir("../docs/presets")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile("../docs/presets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		read[e.Name()] = string(b)
	}
	presets := guard.Presets()
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		file, header := name+".yaml", "# At most in a day:\n"
		if name == "device_start" {
			file, header = "device_code.yaml", "# At most in a day, of grants started:\n"
		}
		d := door(t, presets[name])
		want := header
		for _, l := range lines(d) {
			want += fmt.Sprintf("#   %s: %s\n", l.who, commas(d.Most(l.callers[0], l.target, day).Most))
		}
		if !strings.Contains(read[file], "\n#\n"+want) {
			t.Errorf("docs/presets/%s must say\n#\n%s", file, want)
		}
	}
}

func comment(prefix, text string) string {
	var b strings.Builder
	for s := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(prefix+s, " \n") + "\n")
	}
	return b.String()
}
