package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/view"
)

const whyHelp = `Why says what would become of an attempt now, by an address, at an account, or by an
address at an account: which rule refuses, what it counted, when that ends, and
where the address was taken from. It counts nothing.

What looks like an address or a network is one; --subject takes it for a name. Names
are compared as serve compares them unless the file says otherwise.

Some rules count an address at a subject by itself. Who asks about one of them is told of
the other if the last events have it: those of about the last minutes.

Exit code 3: an attempt would be refused now.`

func newWhy() *cobra.Command {
	var o asker
	var w whom
	cmd := &cobra.Command{
		Use:     "why [ADDRESS|SUBJECT]",
		Short:   "Was it us? Why somebody is refused, or is not",
		Long:    whyHelp + askerHelp,
		Example: "  doorward why 192.0.2.7\n  doorward why alice@example.com\n  doorward why --address 192.0.2.7 --subject alice@example.com",
		Args:    atMost(1),
		GroupID: onCall,
	}
	w.addTo(cmd)
	o.addJSON(cmd, "print JSON")
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, args []string) error {
		who, err := w.who(cmd, args)
		if err != nil {
			return err
		}
		c, err := o.client(cmd)
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupt(cmd)
		defer stop()
		why, err := c.Why(ctx, who)
		if err != nil {
			return err
		}
		no := view.Refused(with(why, who), time.Now())
		if o.json {
			err = printJSON(cmd.OutOrStdout(), why)
		} else {
			s, _ := screen(cmd.OutOrStdout())
			err = print(cmd, s.Why(with(why, who), time.Now(), time.Local))
		}
		if err == nil && no {
			err = answer{}
		}
		return err
	})
	return cmd
}

// with puts whom was asked about into an answer: names go in, and do not come out.
func with(w api.Why, who api.Who) api.Why {
	w.Who = who
	return w
}
