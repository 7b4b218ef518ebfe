package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/client"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/cmd/doorward/internal/view"
)

// askerHelp ends the help of every command that asks a daemon.
const askerHelp = `

The daemon is found at DOORWARD_ADMIN, or else at /run/doorward/admin.sock or
$XDG_RUNTIME_DIR/doorward/admin.sock, or where --admin says.`

// An asker asks a running daemon. Its fields are flags.
type asker struct {
	at   client.Config
	json bool
}

// addTo gives a command the flags that say where the daemon is.
func (o *asker) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.at.Admin, "admin", "", "ask the daemon at unix:/PATH or a `URL`")
	f.StringVar(&o.at.TokenFile, "token-file", "", "open it with the token in the first line of `FILE`")
	f.StringVar(&o.at.CAFile, "ca-file", "", "trust the authorities in `FILE`, not those of the system")
	f.StringVar(&o.at.CertFile, "cert-file", "", "show the certificate in `FILE`")
	f.StringVar(&o.at.KeyFile, "key-file", "", "whose key is in `FILE`")
}

func (o *asker) addJSON(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&o.json, "json", false, what)
}

// client returns what asks the daemon. Which flag is wrong is about the command line.
func (o *asker) client(cmd *cobra.Command) (*client.Client, error) {
	c, err := client.New(o.at)
	if err != nil && strings.HasPrefix(err.Error(), "--") && errors.Unwrap(err) == nil {
		return nil, usageError{cmd.CommandPath(), err.Error()}
	}
	return c, err
}

// An answer is an error that is none: what was asked has the answer no.
type answer struct{}

func (answer) Error() string { return "no" }

// untilInterrupt is a context that ends with SIGINT or SIGTERM.
func untilInterrupt(cmd *cobra.Command) (context.Context, func()) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// screen is where a command prints: a terminal with colours, or anything else.
func screen(w io.Writer) (s view.Screen, terminal bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s, false
	}
	s.Width, s.Height, _ = term.GetSize(int(f.Fd()))
	s.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s, true
}

// printJSON prints what the API said, indented.
func printJSON(w io.Writer, v any) error {
	var b strings.Builder
	if err := writeJSON(&b, v); err != nil {
		return err
	}
	_, err := io.WriteString(w, plain.CleanJSON(b.String()))
	return err
}

// printLine prints JSON on a line.
func printLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, plain.CleanJSON(string(text))+"\n")
	return err
}

// print prints text for people.
func print(cmd *cobra.Command, text string) error {
	_, err := io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// changeFlags are who changes something, and why. Its fields are flags.
type changeFlags api.By

func (b *changeFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.Reason, "reason", "", "why: `TEXT` for the audit log")
	f.StringVar(&b.Actor, "actor", "", "who: a `NAME` for the audit log (default the user who runs this, also through sudo)")
}

func (b *changeFlags) complete(cmd *cobra.Command) (api.By, error) {
	if strings.TrimSpace(b.Reason) == "" {
		return api.By{}, usageError{cmd.CommandPath(), "--reason is missing: it is written to the audit log"}
	}
	return api.By{Actor: cmp.Or(b.Actor, whoRuns()), Reason: b.Reason}, nil
}

// whoRuns is the person behind sudo, or the user of the process.
func whoRuns() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// whom is whom a command is about: an argument, or flags that leave no doubt.
type whom struct{ address, subject, key string }

func (w *whom) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.address, "address", "", "an `ADDRESS` or network; with --subject also both together")
	f.StringVar(&w.subject, "subject", "", "a `NAME` of a subject, even if it looks like an address")
	f.StringVar(&w.key, "key", "", "a `KEY` as doorward locked prints it")
}

// shortKey is how a key of a name or a pair is printed, or what a store calls one.
var shortKey = regexp.MustCompile(`^((name|pair):[0-9A-V]{10}|store:([0-9a-f]{6}|[0-9a-f]{36}))$`)

func (w whom) who(cmd *cobra.Command, args []string) (api.Who, error) {
	who := api.Who{Address: w.address, Subject: w.subject, Key: w.key}
	if len(args) > 0 {
		arg := args[0]
		_, notPrefix := netip.ParsePrefix(arg)
		_, notAddr := netip.ParseAddr(arg)
		to, flag := &who.Subject, "--subject"
		switch {
		case notPrefix == nil || notAddr == nil:
			to, flag = &who.Address, "--address"
		case shortKey.MatchString(arg):
			to, flag = &who.Key, "--key"
		}
		if *to != "" {
			return who, usageError{cmd.CommandPath(), fmt.Sprintf("%q and %s cannot be used together", arg, flag)}
		}
		*to = arg
	}
	switch {
	case who == api.Who{}:
		return who, usageError{cmd.CommandPath(), "ADDRESS or SUBJECT is missing"}
	case who.Key != "" && (who.Address != "" || who.Subject != ""):
		return who, usageError{cmd.CommandPath(), "--key goes alone"}
	}
	return who, nil
}

// atMost is a check of arguments that may be left out.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError{cmd.CommandPath(), fmt.Sprintf("unexpected argument %q", args[n])}
		}
		return nil
	}
}

// doorFlag adds --door, which takes a door or a realm; --guard is the same.
func doorFlag(cmd *cobra.Command, o *asker, door *string, usage string) {
	cmd.Flags().StringVar(door, "door", "", usage)
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "guard" {
			name = "door"
		}
		return pflag.NormalizedName(name)
	})
	complete(cmd, "door", o, liveDoors)
}

func ruleFlag(cmd *cobra.Command, o *asker, rule *string, usage string) {
	cmd.Flags().StringVar(rule, "rule", "", usage)
	complete(cmd, "rule", o, liveRules)
}

func liveDoors(st api.Status) (names []string) {
	for _, d := range st.Doors {
		names = append(names, d.Name, d.Guard)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func liveRules(st api.Status) (names []string) {
	for _, g := range st.Guards {
		for _, r := range g.Rules {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// guardAt returns the guard of a door or realm, "" for none.
func guardAt(st api.Status, door string) (api.Guard, error) {
	name := door
	if i := slices.IndexFunc(st.Doors, func(d api.Door) bool { return d.Name == door }); i >= 0 {
		name = st.Doors[i].Guard
	}
	if i := slices.IndexFunc(st.Guards, func(g api.Guard) bool { return g.Name == name }); i >= 0 {
		return st.Guards[i], nil
	}
	return api.Guard{}, unknown("door or realm", door, liveDoors(st))
}

func unknown(what, name string, names []string) error {
	msg := fmt.Sprintf("the daemon has no %s %q", what, name)
	if best := config.Closest(name, names); best != "" {
		return errors.New(msg + ", did you mean " + best + "?")
	}
	return errors.New(msg + ": it has " + plain.Clean(strings.Join(names, ", ")))
}

// find resolves --door and --rule to names that the API knows.
func find(st api.Status, door, rule string) (guard string, err error) {
	in := st.Guards
	if door != "" {
		g, err := guardAt(st, door)
		if err != nil {
			return "", err
		}
		guard, in = g.Name, []api.Guard{g}
	}
	if names := liveRules(api.Status{Guards: in}); rule != "" && !slices.Contains(names, rule) {
		return "", unknown("rule", rule, names)
	}
	return guard, nil
}

// completing is how long a shell waits for names.
const completing = 500 * time.Millisecond

// complete lets a shell complete a flag with names that the daemon has now.
func complete(cmd *cobra.Command, flag string, o *asker, names func(api.Status) []string) {
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return o.names(names), cobra.ShellCompDirectiveNoFileComp
	})
}

// names asks the daemon, if there is one that answers at once.
func (o *asker) names(names func(api.Status) []string) []string {
	c, err := client.New(o.at)
	if err != nil {
		return nil
	}
	c.Wait = completing
	st, err := c.Status(context.Background())
	if err != nil {
		return nil
	}
	return names(st)
}
