package main

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/view"
)

const lockedHelp = `Locked lists the keys that are locked out now: networks, and hashes of names and of
pairs of both, with what was counted and until when. Those that are locked longest
come first. Names are not stored, and so not listed: doorward why NAME finds one.
A store that nodes share does not know networks either, and keys begin with store:.

With --json it prints a line of JSON for each key, as /v1/keys of the admin API has
them, in no order, as they come.`

func newLocked() *cobra.Command {
	var o asker
	var door, rule string
	var limit int
	cmd := &cobra.Command{
		Use:     "locked",
		Short:   "Who is locked out?",
		Long:    lockedHelp + askerHelp,
		Example: "  doorward locked\n  doorward locked --door login --rule burst --limit 0\n  doorward locked --json | jq -r .key",
		Args:    exactly(),
		GroupID: onCall,
	}
	doorFlag(cmd, &o, &door, "only at the door (or realm) `NAME`")
	ruleFlag(cmd, &o, &rule, "only by the rule `NAME`")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most `NUMBER` of keys, 0 is all")
	o.addJSON(cmd, "print a line of JSON for each key, without --limit all")
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return usageError{cmd.CommandPath(), "--limit must not be negative"}
		}
		c, err := o.client(cmd)
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupt(cmd)
		defer stop()
		st, err := c.Status(ctx)
		if err != nil {
			return err
		}
		guard, err := find(st, door, rule)
		if err != nil {
			return err
		}
		query := url.Values{"state": {"locked"}, "limit": {"1000"}}
		for name, value := range map[string]string{"guard": guard, "rule": rule} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if o.json {
			if !cmd.Flags().Changed("limit") {
				limit = 0
			}
			n := 0
			var failed error
			err := c.Keys(ctx, query, func(k api.Key) bool {
				failed = printLine(cmd.OutOrStdout(), k)
				n++
				return failed == nil && n != limit
			})
			if err == nil {
				err = failed
			}
			return err
		}
		longest := view.Longest{Most: limit}
		if err := c.Keys(ctx, query, func(k api.Key) bool { longest.Add(k); return true }); err != nil {
			return err
		}
		s, _ := screen(cmd.OutOrStdout())
		return print(cmd, s.Locked(longest, st, time.Local))
	})
	return cmd
}
