package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const completionHelp = `Completion prints a script with which a shell completes commands, flags, and the names of
doors and rules, which it asks the daemon for.

  bash   doorward completion bash > /etc/bash_completion.d/doorward
  zsh    doorward completion zsh > "${fpath[1]}/_doorward"
  fish   doorward completion fish > ~/.config/fish/completions/doorward.fish`

var shells = []string{"bash", "zsh", "fish"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:                   "completion (bash | zsh | fish)",
		Short:                 "Print a script that completes commands in a shell",
		Long:                  completionHelp,
		Example:               "  source <(doorward completion bash)",
		Args:                  exactly("SHELL"),
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: running(func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(shells, args[0]) {
				return usageError{cmd.CommandPath(), fmt.Sprintf("SHELL must be one of %s, got %q", strings.Join(shells, ", "), args[0])}
			}
			out := cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			}
			return cmd.Root().GenFishCompletion(out, true)
		}),
	}
}
