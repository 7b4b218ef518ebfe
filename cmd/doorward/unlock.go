package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/client"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

const unlockHelp = `Unlock forgets what was counted about an address, a subject, or both together, in every
rule or in one: the next attempt begins anew. It prints what was there before.

It also says what refuses them still: an address at a subject is counted by itself in some
rules, and unlocked with --address and --subject together.

A wider network is unlocked with an address if it keeps the address out. What all callers
have together is not forgotten unless --rule names its rule.

Exit code 3: nothing was counted, so nothing was forgotten.`

func newUnlock() *cobra.Command {
	var o asker
	var w whom
	var b changeFlags
	var door, rule string
	cmd := &cobra.Command{
		Use:     "unlock [ADDRESS|SUBJECT] --reason TEXT",
		Short:   "Let this customer in: forget what was counted",
		Long:    unlockHelp + askerHelp,
		Example: "  doorward unlock 192.0.2.7 --reason 'ticket 4711'\n  doorward unlock alice@example.com --door login --reason 'called, knows her order number'",
		Args:    atMost(1),
		GroupID: onCall,
	}
	b.addTo(cmd)
	w.addTo(cmd)
	doorFlag(cmd, &o, &door, "only at the door (or realm) `NAME`")
	ruleFlag(cmd, &o, &rule, "only in the rule `NAME`")
	o.addJSON(cmd, "print JSON")
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, args []string) error {
		who, err := w.who(cmd, args)
		if err != nil {
			return err
		}
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
		st, err := c.Status(ctx)
		if err != nil {
			return err
		}
		guard, err := find(st, door, rule)
		if err != nil {
			return err
		}
		done, err := c.Unlock(ctx, api.Unlock{Who: who, Guard: guard, Rule: rule, By: by})
		if err != nil {
			return err
		}
		switch s, _ := screen(cmd.OutOrStdout()); {
		case o.json:
			err = printJSON(cmd.OutOrStdout(), done)
		case len(done.Keys) == 0:
			err = print(cmd, "Nothing was counted, so nothing is forgotten.\n")
		default:
			err = print(cmd, "Forgotten: "+plain.Plural(len(done.Keys), "key")+".\n"+s.Keys(done.Keys, st, time.Local))
		}
		if err == nil && !o.json {
			err = stillRefused(ctx, cmd, c, who)
		}
		if err == nil && len(done.Keys) == 0 {
			err = answer{}
		}
		return err
	})
	return cmd
}

// stillRefused says what keeps them out all the same, or would have to be unlocked as well.
func stillRefused(ctx context.Context, cmd *cobra.Command, c *client.Client, who api.Who) error {
	why, err := c.Why(ctx, who)
	if err != nil {
		return err
	}
	s, _ := screen(cmd.OutOrStdout())
	return print(cmd, s.Still(with(why, who), time.Now(), time.Local))
}

const clearHelp = `Clear forgets everything that was counted at a door: who was locked out is not any more,
and attackers begin anew as well. On a terminal it asks first.

Doors of one realm share what they count: it is cleared for all of them.`

func newClear() *cobra.Command {
	var o asker
	var b changeFlags
	var rule string
	var yes bool
	cmd := &cobra.Command{
		Use:     "clear DOOR --reason TEXT",
		Short:   "Forget everything that was counted at a door",
		Long:    clearHelp + askerHelp,
		Example: "  doorward clear login --reason 'the load test is over'\n  doorward clear login --rule burst --reason 'too strict' --yes",
		Args:    exactly("DOOR"),
		GroupID: onCall,
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.names(liveDoors), cobra.ShellCompDirectiveNoFileComp
	}
	b.addTo(cmd)
	ruleFlag(cmd, &o, &rule, "only by the rule `NAME`")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, args []string) error {
		by, err := b.complete(cmd)
		if err != nil {
			return err
		}
		asks := term.IsTerminal(int(os.Stdin.Fd()))
		if !yes && !asks {
			return usageError{cmd.CommandPath(), "--yes is missing: there is no terminal to ask on"}
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
		g, err := guardAt(st, args[0])
		if err != nil {
			return err
		}
		if _, err := find(st, args[0], rule); err != nil {
			return err
		}
		what, tracked := describeClear(g, rule)
		if !yes {
			fmt.Fprintf(cmd.ErrOrStderr(), "Forget %s, which track %s? [y/N] ", what, plain.Plural(tracked, "key"))
			line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
			if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
				return fmt.Errorf("nothing is forgotten")
			}
		}
		if err := c.Clear(ctx, api.Clear{Guard: g.Name, Rule: rule, By: by}); err != nil {
			return err
		}
		return print(cmd, fmt.Sprintf("Forgotten: %s, %s.\n", what, plain.Plural(tracked, "key")))
	})
	return cmd
}

// describeClear says what would be cleared, and how many keys that has.
func describeClear(g api.Guard, rule string) (what string, tracked int) {
	for _, r := range g.Rules {
		if rule == "" || r.Name == rule {
			tracked += r.Tracked
		}
	}
	what = "all counts"
	if rule != "" {
		what = "the counts of rule " + rule
	}
	what += " at door " + strings.Join(g.Doors, " and door ")
	return plain.Clean(what), tracked
}
