package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/explain"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/guard"
)

const explainHelp = `Explain says in numbers what the doors of a configuration file admit, or, without one,
the default rules or a preset:

- how many guesses a caller gets at most, at one account and in all: one address, wider
  networks, and a botnet of --networks addresses, each by its best strategy;
- how likely it is to guess a secret in that time, and how long until 1 %;
- when honest people have to wait, and how many strangers it takes to make them wait;
- weak spots, with the line to change. doorward check prints the same warnings.

The figures are computed from the rules, and those up to 3,000 are played against them as
well: x-y means that play reached x, and that no rule admits more than y. Right guesses
and exempt networks are not counted, and without state a restart forgets what was.`

// explainFlags are the flags of explain.
type explainFlags struct {
	door, preset string
	networks     int
	digits       int
	bits         float64
	live         int
	spans        []string
	json         bool
	compare      bool
}

func newExplain() *cobra.Command {
	var fl explainFlags
	cmd := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Say in numbers what the doors admit",
		Long:  explainHelp,
		Example: `  doorward explain doorward.yaml
  doorward explain doorward.yaml --door login --digits 6
  doorward explain --preset recovery --bits 34.6 --networks 10000
  doorward explain --compare`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{"doorward explain", fmt.Sprintf("unexpected argument %q", args[1])}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&fl.door, "door", "", "explain only the door (or realm) `NAME` of the file")
	f.StringVar(&fl.preset, "preset", "", "explain the preset `NAME` instead of a file")
	f.IntVar(&fl.networks, "networks", 1000, "the botnet has `NUMBER` IPv4 addresses, 1 to a billion")
	f.IntVar(&fl.digits, "digits", 6, "the secret is `NUMBER` decimal digits")
	f.Float64Var(&fl.bits, "bits", 0, "the secret has `BITS` bits instead, such as 34.6")
	f.IntVar(&fl.live, "live", 1, "`NUMBER` of secrets that are right at the same time")
	f.StringSliceVar(&fl.spans, "span", []string{"1h", "1d", "30d"}, "give figures for spans of `TIME`, joined by commas")
	f.BoolVar(&fl.json, "json", false, "print JSON")
	f.BoolVar(&fl.compare, "compare", false, "add what other software admits with the settings it comes with")
	cmd.RunE = running(func(cmd *cobra.Command, args []string) error {
		o, err := fl.options(cmd)
		if err != nil {
			return err
		}
		doors, err := fl.doors(args)
		if err != nil {
			return err
		}
		report, err := explain.Doors(doors, o)
		if err != nil {
			return err
		}
		if fl.json {
			return writeJSON(cmd.OutOrStdout(), report)
		}
		return report.WriteText(cmd.OutOrStdout())
	})
	return cmd
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Limits of flags: of the figures beyond them nothing is left.
const (
	maxNetworks = 1_000_000_000
	maxDigits   = 300
	maxBits     = 1000
	maxLive     = 100_000
)

func (fl explainFlags) options(cmd *cobra.Command) (explain.Options, error) {
	wrong := func(format string, args ...any) (explain.Options, error) {
		return explain.Options{}, usageError{cmd.CommandPath(), fmt.Sprintf(format, args...)}
	}
	set := cmd.Flags().Changed
	o := explain.Options{Networks: fl.networks, Compare: fl.compare, Chances: set("digits") || set("bits") || set("live")}
	o.Secret = explain.Secret{Name: plain.Plural(fl.digits, "decimal digit"), Of: math.Pow10(fl.digits), Live: fl.live}
	if set("bits") {
		o.Secret.Name, o.Secret.Of = strconv.FormatFloat(fl.bits, 'g', -1, 64)+" bits", math.Exp2(fl.bits)
	}
	switch {
	case fl.networks < 1 || fl.networks > maxNetworks:
		return wrong("--networks must be 1 to %d, got %d", maxNetworks, fl.networks)
	case set("bits") && set("digits"):
		return wrong("--bits cannot be used with --digits")
	case fl.digits < 1 || fl.digits > maxDigits:
		return wrong("--digits must be 1 to %d, got %d", maxDigits, fl.digits)
	case set("bits") && !(fl.bits >= 1 && fl.bits <= maxBits):
		return wrong("--bits must be 1 to %d, got %v", maxBits, fl.bits)
	case fl.live < 1 || fl.live > maxLive || float64(fl.live) > o.Secret.Of:
		return wrong("--live must be 1 to %d and no more than there are secrets, got %d", maxLive, fl.live)
	}
	for _, text := range fl.spans {
		span, ok := config.ParseDuration(text)
		if !ok || span <= 0 {
			return wrong("--span must be a duration such as 90s, 1h or 30d, got %q", text)
		}
		o.Spans = append(o.Spans, span)
	}
	if len(o.Spans) == 0 {
		return wrong("--span must have a duration")
	}
	slices.Sort(o.Spans)
	o.Spans = slices.Compact(o.Spans)
	return o, nil
}

// doors returns what is to be explained.
func (fl explainFlags) doors(args []string) ([]explain.Door, error) {
	const command = "doorward explain"
	switch {
	case fl.preset != "" && len(args) > 0:
		return nil, usageError{command, "--preset cannot be used with a file: the file says it"}
	case fl.door != "" && len(args) == 0:
		return nil, usageError{command, "--door needs a file that has the door"}
	case fl.preset != "":
		preset, err := presetOf(command, fl.preset)
		if err != nil {
			return nil, err
		}
		return []explain.Door{{Name: fmt.Sprintf("preset %q", fl.preset), Subjects: charges(preset, guard.Subject), Guard: preset}}, nil
	case len(args) == 0:
		return []explain.Door{{Name: "default rules", Guard: guard.Config{Rules: config.DefaultRules()}}}, nil
	}
	c, err := config.Load(args[0], config.Overrides{})
	if err != nil {
		return nil, err
	}
	return guards(c, fl.door)
}

// presetOf returns the preset that a flag of a command names.
func presetOf(command, name string) (guard.Config, error) {
	preset, ok := guard.Presets()[name]
	if ok {
		return preset, nil
	}
	names := slices.Sorted(maps.Keys(guard.Presets()))
	if best := config.Closest(name, names); best != "" {
		return preset, usageError{command, fmt.Sprintf("--preset %q is unknown, did you mean %s?", name, best)}
	}
	return preset, usageError{command, fmt.Sprintf("--preset must be one of %s, got %q", strings.Join(names, ", "), name)}
}

func charges(c guard.Config, per guard.Per) bool {
	return slices.ContainsFunc(c.Rules, func(r guard.Rule) bool { return r.Per == per })
}

// guards returns what stands before the doors of c, or before the door or the realm of a
// name only.
func guards(c config.Config, only string) (all []explain.Door, err error) {
	var names []string
	for _, d := range c.Doors {
		names = append(names, d.Name, d.GuardName())
		if only != "" && only != d.Name && only != d.GuardName() {
			continue
		}
		name := fmt.Sprintf("door %q", d.GuardName())
		if d.Realm != "" {
			name = fmt.Sprintf("realm %q", d.Realm)
		}
		i := slices.IndexFunc(all, func(e explain.Door) bool { return e.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, explain.Door{Name: name, Guard: d.Guard})
		}
		all[i].Subjects = all[i].Subjects || d.Subject != subject.Source{}
		for _, w := range c.Warnings() {
			ours := strings.HasPrefix(w, name+": ") || strings.HasPrefix(w, fmt.Sprintf("door %q: ", d.Name))
			if ours && !slices.Contains(all[i].Warnings, w) {
				all[i].Warnings = append(all[i].Warnings, w)
			}
		}
		all[i].Doors = append(all[i].Doors, d.Name+": "+strings.Join(d.Door.Routes, ", "))
	}
	if len(all) == 0 {
		msg := fmt.Sprintf("the file has no door or realm %q", only)
		if best := config.Closest(only, names); best != "" {
			msg += ", did you mean " + best + "?"
		}
		return nil, usageError{"doorward explain", msg}
	}
	return all, nil
}
