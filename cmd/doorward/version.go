package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  doorward version",
		Args:    exactly(),
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), version())
			return nil
		}),
	}
}

// version says in one line what was built, and with what.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return describe(info)
}

// describe is version for a build that may have left no information.
func describe(info *debug.BuildInfo) string {
	v, revision, modified := release(info), "", ""
	if info != nil {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = " " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = "+modified"
			}
		}
	}
	if v != "(devel)" { // the version says it
		revision, modified = "", ""
	}
	return fmt.Sprintf("doorward %s%s%s %s %s/%s", v, revision, modified, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// release is the version alone.
func release(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
