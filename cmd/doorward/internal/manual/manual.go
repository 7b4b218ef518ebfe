// Package manual writes manual pages from the commands themselves: what a page says is
// what --help says.
//
// It knows as much of man(7) as that needs: headings, paragraphs, and lines that stay as
// they are. The text of a command is not read as anything but text.
package manual

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// section is that of commands.
const section = "1"

// Write makes a page for root and each command below it that is not hidden, in dir.
// Files are called after the commands: doorward-serve.1.
func Write(root *cobra.Command, dir, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			pages = append(pages, c)
		}
	}
	for _, c := range pages {
		var b strings.Builder
		Page(&b, c, version)
		if err := os.WriteFile(filepath.Join(dir, name(c)+"."+section), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// Page writes one page.
func Page(w io.Writer, c *cobra.Command, version string) {
	p := page{w}
	fmt.Fprintf(w, ".TH %s %s \"\" \"%s\" \"Doorward\"\n", strings.ToUpper(name(c)), section, escape(version))
	p.head("NAME")
	p.line(name(c) + ` \- ` + escape(lower(c.Short)))
	p.head("SYNOPSIS")
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " [command]"
	}
	p.verbatim(usage)
	p.head("DESCRIPTION")
	p.prose(cmp.Or(c.Long, c.Short+"."))
	if c.HasAvailableSubCommands() {
		p.head("COMMANDS")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				p.item(name(sub)+"("+section+")", sub.Short)
			}
		}
	}
	if c.HasAvailableLocalFlags() {
		p.head("OPTIONS")
		c.LocalFlags().VisitAll(p.flag)
	}
	if c.HasExample() {
		p.head("EXAMPLES")
		p.verbatim(c.Example)
	}
	if c.HasParent() {
		p.head("SEE ALSO")
		p.line(escape(name(c.Root())) + "(" + section + ")")
	}
}

type page struct{ w io.Writer }

func (p page) line(text string) { fmt.Fprintln(p.w, text) }
func (p page) head(text string) { p.line(".SH " + text) }

// prose writes paragraphs. Lines that are indented, and lists, stay as they are.
func (p page) prose(text string) {
	for i, para := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.line(".PP")
		}
		lines := strings.Split(para, "\n")
		for n := 0; n < len(lines); {
			end := n
			for end < len(lines) && asIs(lines[end]) == asIs(lines[n]) {
				end++
			}
			if asIs(lines[n]) {
				p.verbatim(strings.Join(lines[n:end], "\n"))
			} else {
				for _, l := range lines[n:end] {
					p.line(escape(l))
				}
			}
			n = end
		}
	}
}

func asIs(line string) bool { return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "- ") }

func (p page) verbatim(text string) {
	p.line(".nf")
	for l := range strings.Lines(text) {
		p.line(escape(strings.TrimSuffix(l, "\n")))
	}
	p.line(".fi")
}

func (p page) item(term, text string) {
	p.line(".TP")
	p.line(`\fB` + escape(term) + `\fR`)
	p.line(escape(text))
}

func (p page) flag(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	value, usage := pflag.UnquoteUsage(f)
	term := "--" + f.Name
	if f.Shorthand != "" {
		term = "-" + f.Shorthand + ", " + term
	}
	if value != "" {
		term += " " + value
	}
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
		usage += " (default " + f.DefValue + ")"
	}
	p.item(term, usage)
}

// escape makes text nothing but text: no request at the start of a line, no escape, and a
// hyphen that can be copied.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

// lower makes a sentence the rest of one, as the NAME of a page is.
func lower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
