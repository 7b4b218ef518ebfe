package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

const exemptHelp = `Exempt lets a network pass at the doors for a time: nothing of it is counted or refused.
For good, it belongs into the configuration. Only an address that is the peer's, or that a
trusted proxy wrote into the header, is exempt.`

const blockHelp = `Block refuses a network at the doors for a time. For good, it belongs into the
configuration. Requests elsewhere pass.`

func newExempt() *cobra.Command {
	return newNetworks("exempt", "Let a network pass for a time", exemptHelp, "  doorward exempt 192.0.2.0/24 --for 1h --reason 'penetration test, ticket 4711'\n")
}

func newBlock() *cobra.Command {
	return newNetworks("block", "Refuse a network for a time", blockHelp, "  doorward block 2001:db8::/48 --for 12h --reason 'guesses since midnight'\n")
}

func newNetworks(action, short, help, example string) *cobra.Command {
	var o asker
	var b changeFlags
	var door, span, remove string
	var list bool
	cmd := &cobra.Command{
		Use:                   action + " (NETWORK --for TIME --reason TEXT | --list | --remove ID --reason TEXT)",
		Short:                 short,
		Long:                  help + askerHelp,
		Example:               example + "  doorward " + action + " --list\n  doorward " + action + " --remove ID --reason 'it is over'",
		Args:                  atMost(1),
		GroupID:               onCall,
		DisableFlagsInUseLine: true,
	}
	f := cmd.Flags()
	f.StringVar(&span, "for", "", "for how long: `TIME` such as 30m, 1h or 7d, at most 366d")
	b.addTo(cmd)
	doorFlag(cmd, &o, &door, "only at the door (or realm) `NAME`, else at all")
	f.BoolVar(&list, "list", false, "print what there is")
	f.StringVar(&remove, "remove", "", "end what has this `ID` before its time")
	o.addJSON(cmd, "print JSON")
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, args []string) error {
		wrong := func(format string, args ...any) error {
			return usageError{cmd.CommandPath(), fmt.Sprintf(format, args...)}
		}
		what := 0
		for _, given := range []bool{len(args) > 0, list, remove != ""} {
			if given {
				what++
			}
		}
		switch {
		case what == 0:
			return wrong("NETWORK, --list or --remove is missing")
		case what > 1:
			return wrong("NETWORK, --list and --remove cannot be used together")
		}
		c, err := o.client(cmd)
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupt(cmd)
		defer stop()
		s, _ := screen(cmd.OutOrStdout())
		show := func(n []api.Network) error { return print(cmd, s.Networks(n, time.Now(), time.Local)) }
		if list {
			all, err := c.Networks(ctx)
			if err != nil {
				return err
			}
			all.Networks = slices.DeleteFunc(all.Networks, func(n api.Network) bool { return n.Action != action })
			if o.json {
				return printJSON(cmd.OutOrStdout(), all)
			}
			if len(all.Networks) == 0 {
				return print(cmd, fmt.Sprintf("No network is %s for a time.\n", passive[action]))
			}
			return show(all.Networks)
		}
		by, err := b.complete(cmd)
		if err != nil {
			return err
		}
		if remove != "" {
			if err := c.Unlist(ctx, remove, by); err != nil {
				return err
			}
			return print(cmd, fmt.Sprintf("%s is over.\n", plain.Clean(remove)))
		}
		if !isNetwork(args[0]) {
			return wrong("NETWORK must be an address or a network such as 192.0.2.0/24, got %q", args[0])
		}
		d, ok := config.ParseDuration(span)
		switch {
		case span == "":
			return wrong("--for is missing: say for how long, such as 1h")
		case !ok || d < time.Second || d > 366*24*time.Hour:
			return wrong("--for must be 1s to 366d, got %q", span)
		}
		guard := ""
		if door != "" {
			st, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if guard, err = find(st, door, ""); err != nil {
				return err
			}
		}
		n, err := c.List(ctx, api.List{Network: args[0], Action: action, Guard: guard, For: d.Seconds(), By: by})
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(cmd.OutOrStdout(), n)
		}
		return show([]api.Network{n})
	})
	return cmd
}

var passive = map[string]string{"exempt": "exempt", "block": "blocked"}

// isNetwork reports whether s is an address or a network, without a zone.
func isNetwork(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}
