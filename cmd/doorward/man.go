package main

import (
	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/manual"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write manual pages",
		Long:    "Man writes a manual page for each command into a directory. They say what --help says.",
		Example: "  doorward man /usr/local/share/man/man1",
		Args:    exactly("DIR"),
		Hidden:  true, // for who packages it
		RunE: running(func(cmd *cobra.Command, args []string) error {
			return manual.Write(cmd.Root(), args[0], version())
		}),
	}
}
