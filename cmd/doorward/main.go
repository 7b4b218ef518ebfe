// Command doorward stands in front of an application and limits attempts at its
// login, and at other doors that must open to strangers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/doorward/doorward/cmd/doorward/internal/client"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// Exit codes.
const (
	exitFailed = 1 // the configuration is wrong, or something failed
	exitUsage  = 2 // the command line makes no sense
	exitNo     = 3 // the answer is no: would be refused, nothing to unlock
	exitNobody = 4 // no daemon could be asked
)

const rootHelp = `Doorward stands in front of an application and limits attempts at its doors: login,
one-time codes, password reset. It counts failures per network, answers the last
free one with a lockout that doubles with each further failure, and passes every
other request on untouched.

Exit codes: 0 all is well, 1 the configuration is wrong or something failed,
2 the command line makes no sense, 3 the answer is no (why: an attempt would be
refused; unlock: nothing was counted), 4 no daemon could be asked.`

// Groups of commands.
const (
	setUp  = "setup"
	onCall = "oncall"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		os.Exit(report(err))
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "doorward",
		Short:             "Limit attempts at login and other doors",
		Long:              rootHelp,
		Example:           "  doorward demo\n  doorward serve --upstream http://127.0.0.1:3000 --door 'POST /login' --succeeded 302",
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddGroup(&cobra.Group{ID: setUp, Title: "To guard an application:"}, &cobra.Group{ID: onCall, Title: "To ask a daemon that serves, and to change things there:"})
	root.AddCommand(newServe(), newCheck(), newExplain(), newReplay(), newDoctor(), newDemo())
	for _, c := range root.Commands() {
		c.GroupID = setUp
	}
	root.AddCommand(newStatus(), newTop(), newLocked(), newWhy(), newUnlock(), newExempt(), newBlock(), newClear(), newEvents(), newReload())
	root.AddCommand(newCompletion(), newMan(), newVersion())
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}

// A failure is an error that is not about the command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// running makes what a command does a failure if it fails.
func running(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if usage := (usageError{}); err == nil || errors.As(err, &usage) {
			return err
		}
		return failure{err}
	}
}

// A usageError is about the command line of one command.
type usageError struct {
	command string
	msg     string
}

func (e usageError) Error() string { return e.msg }

// report prints err and returns the exit code.
func report(err error) int {
	if no := (answer{}); errors.As(err, &no) {
		return exitNo // it was printed
	}
	if f := (failure{}); errors.As(err, &f) {
		msg := f.Error()
		if gone := (client.Unreachable{}); errors.As(err, &gone) {
			fmt.Fprintln(os.Stderr, "doorward: "+plain.Clean(msg))
			return exitNobody
		}
		if p := (client.Problem{}); errors.As(err, &p) {
			fmt.Fprintln(os.Stderr, "doorward: "+cleanLines(msg))
			return exitFailed
		}
		if errors.Is(err, context.Canceled) {
			msg = "interrupted"
		}
		if list := (config.Errors)(nil); !errors.As(err, &list) || list[0].Flag != "" {
			msg = "doorward: " + msg
		}
		fmt.Fprintln(os.Stderr, msg)
		return exitFailed
	}
	command := "doorward"
	if u := (usageError{}); errors.As(err, &u) {
		command = u.command
	}
	fmt.Fprintf(os.Stderr, "%s: %s\nSee '%s --help'.\n", command, oneLine(err.Error()), command)
	return exitUsage
}

// cleanLines is plain.Clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = plain.Clean(l)
	}
	return strings.Join(lines, "\n")
}

// oneLine puts what cobra suggests for an unknown command on the line of the error.
func oneLine(msg string) string {
	msg, list, found := strings.Cut(strings.TrimSpace(msg), "\n\nDid you mean this?\n")
	if found {
		msg += ", did you mean " + strings.Join(strings.Fields(list), " or ") + "?"
	}
	return msg
}

// flagError says which flag an unknown one may have been meant to be, and what a value
// must be.
func flagError(cmd *cobra.Command, err error) error {
	msg := err.Error()
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if best := config.Closest(unknown.GetSpecifiedName(), names); best != "" {
			msg += ", did you mean --" + best + "?"
		}
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		must := map[string]string{"int": "a whole number", "float64": "a number", "bool": "true or false"}[invalid.GetFlag().Value.Type()]
		msg = fmt.Sprintf("--%s must be %s, got %q", invalid.GetFlag().Name, must, invalid.GetValue())
	}
	return usageError{cmd.CommandPath(), msg}
}

// exactly is cobra.ExactArgs with a message that names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError{cmd.CommandPath(), names[len(args)] + " is missing"}
		case len(args) > len(names):
			return usageError{cmd.CommandPath(), fmt.Sprintf("unexpected argument %q", args[len(names)])}
		}
		return nil
	}
}
