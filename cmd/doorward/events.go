package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/client"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/cmd/doorward/internal/view"
	"github.com/doorward/doorward/trace"
)

const eventsHelp = `Events prints what happens at the doors from now on: a line for each attempt that is refused
or that ends, for each lockout, and for each change. It goes on until ctrl-c, or until the
daemon ends; with --follow it waits for a daemon that goes away.

A reader that is too slow misses lines, and is told how many: requests do not wait for it.
What happened before is in the audit log.

With --json it prints the lines as the audit log has them: the format is package trace.`

func newEvents() *cobra.Command {
	var o asker
	var follow bool
	var limit int
	var door, from string
	var kinds []string
	cmd := &cobra.Command{
		Use:     "events",
		Short:   "Print what happens at the doors",
		Long:    eventsHelp + askerHelp,
		Example: "  doorward events --follow\n  doorward events --door login --event locked,unlocked --json\n  doorward events --client 192.0.2.0/24 --limit 10",
		Args:    exactly(),
		GroupID: onCall,
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "wait for a daemon that goes away")
	f.IntVar(&limit, "limit", 0, "end after `NUMBER` of lines, 0 is never")
	doorFlag(cmd, &o, &door, "only those at the door (or realm) `NAME`")
	f.StringVar(&from, "client", "", "only those of an `ADDRESS` or network")
	f.StringSliceVar(&kinds, "event", nil, "only those of a `KIND`, or several: refused, settled, locked, ...")
	o.addJSON(cmd, "print lines of JSON")
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
		query := url.Values{"event": kinds}
		for name, value := range map[string]string{"door": door, "client": from} {
			if value != "" {
				query.Set(name, value)
			}
		}
		left := limit
		p := printer{out: cmd.OutOrStdout(), json: o.json}
		read := func() (bool, error) {
			return c.Events(ctx, query, quietFor, func(line []byte) error {
				if err := p.line(line); err != nil {
					return err
				}
				if left--; left == 0 {
					return errEnough
				}
				return nil
			})
		}
		err = again(ctx, cmd.ErrOrStderr(), follow, read)
		if err == errEnough || ctx.Err() != nil {
			return nil
		}
		return err
	})
	return cmd
}

var errEnough = errors.New("that is enough")

const (
	// quietFor is how long a stream may be silent: three times as long as between the empty
	// lines that a daemon sends.
	quietFor = 30 * time.Second
	// retryEvery is how long it waits for a daemon before it looks again.
	retryEvery = time.Second
)

// again reads until there is an error. If it is to follow, a daemon that goes away is waited
// for, but one that was not there is not.
func again(ctx context.Context, errs io.Writer, follow bool, read func() (bool, error)) error {
	ever, lost := false, false
	for {
		begun, err := read()
		ever = ever || begun
		gone := client.Unreachable{}
		if !follow || !ever || ctx.Err() != nil || err != nil && !errors.As(err, &gone) {
			return err
		}
		if begun || !lost {
			why := "the daemon ended the stream"
			if err != nil {
				why = plain.Clean(err.Error())
			}
			fmt.Fprintf(errs, "doorward: %s; waiting for it\n", why)
		}
		lost = true
		if err := wait(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// A printer prints events.
type printer struct {
	out  io.Writer
	json bool
}

func (p printer) line(line []byte) error {
	text := plain.CleanJSON(string(line))
	if !p.json {
		if r, err := trace.Parse(line); err == nil {
			text = view.Event(r, time.Now(), time.Local)
		} else {
			text = plain.Clean(string(line)) // of a newer daemon
		}
	}
	_, err := io.WriteString(p.out, text+"\n")
	return err
}
