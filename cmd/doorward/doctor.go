package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/doctor"
	"github.com/doorward/doorward/cmd/doorward/internal/listen"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/cmd/doorward/internal/upstream"
	"github.com/doorward/doorward/redisstore"
)

const doctorHelp = `Doctor looks for what keeps doorward from doing its job: an application or a store that
cannot be reached, too few files, rules that lock out the wrong callers. It reads the file
as serve does and serves nothing. What serve has found since it started, such as a
proxy in front that nobody has named, doorward status shows and its log says.

The exit code is 0 if nothing was found, and 1 if something was or the file is wrong.`

func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "doctor FILE",
		Short:   "Find what is set up wrong",
		Long:    doctorHelp,
		Example: "  doorward doctor doorward.yaml",
		Args:    exactly("FILE"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON")
	cmd.RunE = running(func(cmd *cobra.Command, args []string) error {
		c, err := config.Load(args[0], config.Overrides{})
		if err != nil {
			return err
		}
		found, err := examine(cmd.Context(), c)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if asJSON {
			e := json.NewEncoder(out)
			e.SetIndent("", "  ")
			if err := e.Encode(append([]doctor.Finding{}, found...)); err != nil {
				return err
			}
		} else {
			for _, f := range found {
				fmt.Fprintf(out, "%s: %s\n  %s\n", f.Check, f.Text, f.Fix)
			}
		}
		if len(found) > 0 {
			return fmt.Errorf("%s found", plain.Plural(len(found), "problem"))
		}
		if !asJSON {
			fmt.Fprintf(out, "%s: nothing found\n", args[0])
		}
		return nil
	})
	return cmd
}

// examine finds what can be found without serving.
func examine(ctx context.Context, c config.Config) (found []doctor.Finding, err error) {
	pool, err := upstream.New(upstream.Config{URLs: c.Upstreams, DialTimeout: tryUpstream})
	if err != nil {
		return nil, err
	}
	defer pool.CloseIdle()
	ctx, cancel := context.WithTimeout(ctx, tryUpstream)
	defer cancel()
	pool.Try(ctx, func(u *url.URL, err error) {
		if err != nil {
			found = append(found, doctor.Unreachable(u, err))
		}
	})
	found = append(found, examineStore(ctx, c.Store)...)
	files, err := listen.Files()
	if err != nil {
		return found, err
	}
	found = append(found, doctor.Connections(c, files)...)
	return append(found, doctor.Rules(c)...), nil
}

// examineStore looks for the server that nodes count on.
func examineStore(ctx context.Context, c *config.Store) []doctor.Finding {
	if c == nil {
		return nil
	}
	client, err := redisstore.Dial(c.Options())
	if err != nil {
		return []doctor.Finding{doctor.Away(err)}
	}
	defer client.Close()
	clocks, err := client.Clocks(ctx)
	if err != nil {
		return []doctor.Finding{doctor.Away(err)}
	}
	return doctor.Clocks(clocks)
}
