package manual

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// No text is more than text, wherever it stands.
func TestPage(t *testing.T) {
	c := &cobra.Command{
		Use: "prog THING", Short: "Do things", Run: func(*cobra.Command, []string) {},
		Long:    ".TH evil\n'so \\fBevil\\fR - `a` ^~\n\nList:\n- one\n- two\n    indented \\n\nand on",
		Example: "  prog -x 'y'\n  .br",
	}
	c.Flags().StringP("file", "f", "a-b", "read `FILE`")
	c.Flags().Bool("hidden", false, "not told")
	c.Flags().Lookup("hidden").Hidden = true
	var b strings.Builder
	Page(&b, c, `v1.0 "q"`)
	want := `.TH PROG 1 "" "v1.0 \(dqq\(dq" "Doorward"
.SH NAME
prog \- do things
.SH SYNOPSIS
.nf
prog THING [flags]
.fi
.SH DESCRIPTION
\&.TH evil
\(aqso \efBevil\efR \- \(gaa\(ga \(ha\(ti
.PP
List:
.nf
\- one
\- two
    indented \en
.fi
and on
.SH OPTIONS
.TP
\fB\-f, \-\-file FILE\fR
read FILE (default a\-b)
.SH EXAMPLES
.nf
  prog \-x \(aqy\(aq
  .br
.fi
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}
