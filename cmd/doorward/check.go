package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/explain"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file",
		Long: `Check reads a configuration file as serve does, and serves nothing. All errors are
printed, with line, column and path, and the exit code is 1. What is allowed but
probably not meant is a warning, and the exit code is 0: doorward explain says more.`,
		Example: "  doorward check doorward.yaml",
		Args:    exactly("FILE"),
		RunE: running(func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(args[0], config.Overrides{})
			if err != nil {
				return err
			}
			doors, err := guards(c, "")
			if err != nil {
				return err
			}
			warnings, err := explain.Warnings(doors)
			if err != nil {
				return err
			}
			for _, w := range warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", args[0], w)
			}
			n, rules := count(c)
			fmt.Fprintf(cmd.OutOrStdout(), "%s: ok: %s, %s\n", args[0], plain.Plural(n, "door"), plain.Plural(rules, "rule"))
			return nil
		}),
	}
}

func count(c config.Config) (doors, rules int) { return len(c.Doors), c.Rules() }
