package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/client"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/view"
)

const statusHelp = `Status says whether this is an attack, and shows the doors, the rules, the networks that
are refused most, and what is wrong with the daemon.

It asks twice, a second apart, and counts what happened between. It is an attack if at one
door ten attempts a second or more are refused, and no fewer than are admitted; or ten a
second or more are wrong, and four of five that are admitted; or the table of a rule is so
full that newcomers share one budget. All other figures count since the start.

With --json it asks once, and prints what /v1/status of the admin API says.`

func newStatus() *cobra.Command {
	var o asker
	var over string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Are we under attack?",
		Long:    statusHelp + askerHelp,
		Example: "  doorward status\n  doorward status --over 10s\n  doorward status --json | jq '.doors[].refused'",
		Args:    exactly(),
		GroupID: onCall,
	}
	o.addJSON(cmd, "print JSON")
	cmd.Flags().StringVar(&over, "over", "1s", "count for `TIME`, 100ms to 1h")
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, _ []string) error {
		span, ok := config.ParseDuration(over)
		if !ok || span < 100*time.Millisecond || span > time.Hour {
			return usageError{cmd.CommandPath(), "--over must be 100ms to 1h, got " + over}
		}
		c, err := o.client(cmd)
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupt(cmd)
		defer stop()
		if o.json {
			st, err := c.Status(ctx)
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), st)
		}
		l, err := look(ctx, c, span)
		if err != nil {
			return err
		}
		s, _ := screen(cmd.OutOrStdout())
		return print(cmd, s.Status(l, time.Local))
	})
	return cmd
}

// look asks for the status twice.
func look(ctx context.Context, c *client.Client, apart time.Duration) (l view.Look, err error) {
	if l.Was, err = c.Status(ctx); err != nil {
		return l, err
	}
	if err := wait(ctx, apart); err != nil {
		return l, err
	}
	l.Is, err = c.Status(ctx)
	return l, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
