package main

import (
	"github.com/spf13/cobra"
)

const reloadHelp = `Reload makes the daemon read its configuration file again, as SIGHUP does. If anything in it
is wrong, the old configuration stays, every error is printed, and the exit code is 1.

Counts and lockouts are kept for rules with the same name.`

func newReload() *cobra.Command {
	var o asker
	var b changeFlags
	cmd := &cobra.Command{
		Use:     "reload --reason TEXT",
		Short:   "Read the configuration again",
		Long:    reloadHelp + askerHelp,
		Example: "  doorward check doorward.yaml && doorward reload --reason 'six free failures, as agreed'",
		Args:    exactly(),
		GroupID: onCall,
	}
	b.addTo(cmd)
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, _ []string) error {
		by, err := b.complete(cmd)
		if err != nil {
			return err
		}
		c, err := o.client(cmd)
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupt(cmd)
		defer stop()
		if err := c.Reload(ctx, by); err != nil {
			return err
		}
		return print(cmd, "Reloaded.\n")
	})
	return cmd
}
