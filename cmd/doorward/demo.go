package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/demo"
)

func newDemo() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Try it on a small login application",
		Long: `Demo starts a small login application on this machine, guards its login as serve
does, and prints commands to try. It needs nothing and changes nothing.`,
		Example: "  doorward demo\n  doorward demo --listen 127.0.0.1:9000",
		Args:    exactly(),
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context(), slog.New(slog.DiscardHandler))
			defer stop()
			return demo.Run(ctx, cmd.OutOrStdout(), listen)
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", config.DefaultListen, "`ADDRESS` to listen on")
	return cmd
}
