package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
	"github.com/doorward/doorward/cmd/doorward/internal/reader"
	"github.com/doorward/doorward/cmd/doorward/internal/replay"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// replayHelp has the names of the formats in it, so it is made.
func replayHelp() string {
	return `Replay takes the attempts of a log through the rules, and says what they would have
done: which attempts would have been refused, who would have been locked out, which
honest callers would have paid, and whether rules on addresses can stop the guessers
at all. The guards are those of serve. Nothing is sent anywhere.

A LOG is a file, compressed or not (gzip, zstd, bzip2), or - for standard input.
Several are put in the order of time, whatever their order here.

Which requests are attempts, and which of them were wrong, comes from --config, or from
    --door ROUTE          as in serve; with --config: the door of the file that has it
    --succeeded FORMS     what right guesses are answered with, as in serve
    --failed STATUSES     failures even if they look like successes, or any: every
                          request at a door was a wrong guess
Logs of services such as sshd say it themselves, and need no door.

Formats, told apart by the first lines, are:
` + formatNames() + `

The rules are those of the file, or the default ones, or --preset, or one --lockout per
network: FREE/WINDOW/FIRST/MAX, failures that are free, how long they are remembered,
and the first and the longest lockout.

Exit codes: 0 a report was written, whatever it says; 1 the configuration is wrong or
something could not be read or written, in which case the report is of what could; 2 the
command line makes no sense.`
}

// formatNames lists the formats in lines.
func formatNames() string {
	var b strings.Builder
	plain.Wrap(&b, "    ", strings.Join(reader.Names(), ", "))
	return strings.TrimSuffix(b.String(), "\n")
}

type replayFlags struct {
	file, rules           string
	doors                 []string
	preset, lockout       string
	succeeded, failed     string
	ignoreCase, basicAuth bool
	format, pattern, zone string
	year                  int
	reorder               string
	compare               []string
	suggest, json         bool
	html                  string
}

func newReplay() *cobra.Command {
	var fl replayFlags
	cmd := &cobra.Command{
		Use:   "replay [--config FILE] [flags] LOG ...",
		Short: "Say what rules would have done with the attempts of a log",
		Long:  replayHelp(),
		Example: `  doorward replay --config doorward.yaml access.log access.log.*.gz
  doorward replay --door 'POST /login' --succeeded 302 --lockout 5/1m/1m/1h access.log
  doorward replay --door 'POST /login' --failed any --suggest --html replay.html access.log
  doorward replay --config doorward.yaml --compare stricter.yaml access.log
  journalctl -u ssh -o json | doorward replay --preset login -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{"doorward replay", "LOG is missing"}
			}
			return nil
		},
	}
	cmd.DisableFlagsInUseLine = true
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&fl.file, "config", "", "take doors and rules from `FILE`")
	f.StringArrayVar(&fl.doors, "door", nil, "attempts are requests at `ROUTE`, or at the file's door of that name (repeatable)")
	f.StringVar(&fl.rules, "rules", "", "judge by the rules of the file's door or realm `NAME`")
	f.StringVar(&fl.succeeded, "succeeded", "", "what a right guess is answered with: `FORMS` as in serve")
	f.StringVar(&fl.failed, "failed", "", "`STATUSES` that are failures, or any")
	f.StringVar(&fl.preset, "preset", "", "take the rules of the preset `NAME`")
	f.StringVar(&fl.lockout, "lockout", "", "one `LOCKOUT` per network, as above, such as 5/1m/1m/1h")
	f.BoolVar(&fl.ignoreCase, "ignore-case", false, "the application ignores letter case in paths, as Express does")
	f.BoolVar(&fl.basicAuth, "basic-auth", false, "count only requests for which the log names a user")
	f.StringArrayVar(&fl.compare, "compare", nil, "put the rules of another `FILE` beside (repeatable)")
	f.BoolVar(&fl.suggest, "suggest", false, "try 200 lockouts per network, and print those that no other beats")
	f.StringVar(&fl.format, "format", "auto", "`FORMAT` of the logs: auto, or one of the above")
	f.StringVar(&fl.pattern, "pattern", "", "`PATTERN` of a line, for --format pattern")
	f.StringVar(&fl.zone, "zone", "", "`ZONE` of times without one, such as Europe/Berlin (default UTC)")
	f.IntVar(&fl.year, "year", 0, "`YEAR` of the first time without one")
	f.StringVar(&fl.reorder, "reorder", "10m", "put lines in order that come up to `TIME` later than later ones")
	f.BoolVar(&fl.json, "json", false, "print JSON")
	f.StringVar(&fl.html, "html", "", "write a page with charts to `FILE` as well")
	cmd.RunE = running(func(cmd *cobra.Command, args []string) error { return fl.run(cmd, args) })
	return cmd
}

// misuse is an error about the command line of replay.
func misuse(format string, args ...any) error {
	return usageError{"doorward replay", fmt.Sprintf(format, args...)}
}

func (fl *replayFlags) run(cmd *cobra.Command, args []string) error {
	o, err := fl.options()
	if err != nil {
		return err
	}
	policies, err := fl.policies()
	if err != nil {
		return err
	}
	logs, bar, err := openLogs(args, cmd.InOrStdin(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	o.Progress = bar.lines
	defer func() {
		for _, l := range logs {
			if c, ok := l.Reader.(io.Closer); ok {
				c.Close()
			}
		}
	}()
	r, err := replay.New(o, policies...)
	if err != nil {
		return err
	}
	return fl.replay(cmd, r, logs, bar)
}

func (fl *replayFlags) options() (o replay.Options, err error) {
	o = replay.Options{Format: fl.format, Pattern: fl.pattern, Year: fl.year, Alone: true, Suggest: fl.suggest}
	if fl.format != "auto" && !slices.Contains(reader.Names(), fl.format) {
		hint := ""
		if best := config.Closest(fl.format, reader.Names()); best != "" {
			hint = ", did you mean " + best + "?"
		}
		return o, misuse("--format must be auto or one of %s, got %q%s", strings.Join(reader.Names(), ", "), fl.format, hint)
	}
	if (fl.pattern != "") != (fl.format == "pattern") {
		return o, misuse("--pattern goes with --format pattern")
	}
	if fl.year != 0 && (fl.year < 1970 || fl.year > 2200) {
		return o, misuse("--year must be 1970 to 2200, got %d", fl.year)
	}
	if fl.zone != "" {
		if o.Zone, err = time.LoadLocation(fl.zone); err != nil || fl.zone == "Local" {
			return o, misuse("--zone must be a name such as Europe/Berlin, got %q", fl.zone)
		}
	}
	var ok bool
	if o.Reorder, ok = config.ParseDuration(fl.reorder); !ok || o.Reorder < 0 {
		return o, misuse("--reorder must be a duration such as 0s, 90s or 10m, got %q", fl.reorder)
	}
	return o, nil
}

// policies returns what the attempts are to be judged by: the first is the main one.
func (fl *replayFlags) policies() (all []replay.Policy, err error) {
	switch {
	case len(fl.compare) >= replay.MaxPolicies:
		return nil, misuse("--compare can be given %d times, got %d", replay.MaxPolicies-1, len(fl.compare))
	case fl.preset != "" && fl.lockout != "":
		return nil, misuse("--lockout cannot be used with --preset")
	case fl.file == "" && fl.rules != "" && len(fl.compare) == 0:
		return nil, misuse("--rules needs --config: it names a door or a realm of the file")
	}
	for _, f := range []struct{ name, value string }{{"preset", fl.preset}, {"lockout", fl.lockout}} {
		if fl.file != "" && f.value != "" {
			return nil, misuse("--%s cannot be used with --config: the file says it", f.name)
		}
	}
	var first replay.Policy
	if fl.file != "" {
		first, err = fl.fromFile(fl.file)
	} else {
		first, err = fl.fromFlags()
	}
	if err != nil {
		return nil, err
	}
	all = append(all, first)
	for _, name := range fl.compare {
		p, err := fl.fromFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// fromFlags is a policy without a file.
func (fl *replayFlags) fromFlags() (p replay.Policy, err error) {
	p = replay.Policy{Name: "the default rules"}
	g := guard.Config{Rules: config.DefaultRules()}
	switch {
	case fl.preset != "":
		preset, err := presetOf("doorward replay", fl.preset)
		if err != nil {
			return p, err
		}
		p.Name, g = "preset "+fl.preset, preset
	case fl.lockout != "":
		if g, err = replay.ParseLockout(fl.lockout); err != nil {
			return p, misuse("--lockout %v", err)
		}
		p.Name = "lockout " + fl.lockout
	}
	p.Guards = []replay.Guard{{Name: config.DoorName, Config: g}}
	if len(fl.doors) == 0 {
		return p, nil
	}
	d := replay.Door{Name: config.DoorName, Door: door.Config{Routes: fl.doors, IgnoreCase: fl.ignoreCase, BasicAuth: fl.basicAuth}}
	if err := fl.outcome(&d); err != nil {
		return p, err
	}
	if _, err := door.New(d.Door); err != nil {
		return p, misuse("--door: %s", strings.TrimPrefix(err.Error(), "door: "))
	}
	p.Doors = []replay.Door{d}
	return p, nil
}

// outcome changes what answers mean as the flags say.
func (fl *replayFlags) outcome(d *replay.Door) error {
	if fl.failed == "any" {
		if fl.succeeded != "" {
			return misuse("--failed any cannot be used with --succeeded: every request at the door was a wrong guess")
		}
		d.AllFailed = true
		return nil
	}
	if fl.succeeded != "" {
		c, header, err := outcome.ParseSucceeded(fl.succeeded)
		if err != nil {
			return misuse("--succeeded: %s", strings.TrimPrefix(err.Error(), "outcome: "))
		}
		d.Outcome.Succeeded, d.Outcome.Header = c, header
	}
	if fl.failed != "" {
		s, err := outcome.ParseStatuses(fl.failed)
		if err != nil {
			return misuse("--failed must be any or statuses such as 401 or 4xx, got %q", fl.failed)
		}
		d.Outcome.Failed = outcome.Conditions{Status: s}
	}
	_, err := outcome.New(d.Outcome)
	switch {
	case errors.Is(err, outcome.ErrNoSuccess):
		return misuse("--succeeded must say what right guesses were answered with, such as 302, or --failed any that there was none")
	case err != nil:
		return misuse("--succeeded, --failed: %s", strings.TrimPrefix(err.Error(), "outcome: "))
	}
	return nil
}

// fromFile is the policy of a file, or of those of its doors that --door names. A route
// that no door of the file has is judged by the rules that --rules names, or the only
// ones.
func (fl *replayFlags) fromFile(name string) (p replay.Policy, err error) {
	c, err := config.Load(name, config.Overrides{})
	if err != nil {
		return p, err
	}
	p = replay.Policy{Name: name, Named: true, Messages: -1}
	places := map[string]int{}
	for _, d := range c.Doors {
		if _, known := places[d.GuardName()]; !known {
			places[d.GuardName()] = len(p.Guards)
			p.Guards = append(p.Guards, replay.Guard{Name: d.GuardName(), Config: d.Guard})
		}
	}
	add := func(d config.Door, routes []string) error {
		at := replay.Door{Name: d.Name, Door: d.Door, Outcome: d.Outcome, Subject: d.Subject, Challenge: d.Challenge, Guard: places[d.GuardName()]}
		if routes != nil {
			at.Door.Routes = routes
		}
		at.Door.IgnoreCase = at.Door.IgnoreCase || fl.ignoreCase
		at.Door.BasicAuth = at.Door.BasicAuth || fl.basicAuth
		if err := fl.outcome(&at); err != nil {
			return err
		}
		if _, err := door.New(at.Door); err != nil {
			return misuse("--door: %s", strings.TrimPrefix(err.Error(), "door: "))
		}
		p.Doors = append(p.Doors, at)
		return nil
	}
	home, err := fl.home(name, c)
	if err != nil {
		return p, err
	}
	routes := map[string][]string{}
	for _, wanted := range fl.doors {
		var at []config.Door
		for _, d := range c.Doors {
			if wanted == d.Name || wanted == d.Realm {
				at = append(at, d)
			}
		}
		for _, d := range at {
			routes[d.Name] = append(routes[d.Name], d.Door.Routes...)
		}
		if len(at) > 0 {
			continue
		}
		i := slices.IndexFunc(c.Doors, func(d config.Door) bool {
			return (fl.rules == "" || d.Name == fl.rules || d.Realm == fl.rules) && slices.ContainsFunc(d.Door.Routes, func(r string) bool { return sameRoute(r, wanted) })
		})
		switch {
		case i >= 0:
			routes[c.Doors[i].Name] = append(routes[c.Doors[i].Name], wanted)
		case !strings.Contains(wanted, "/"):
			return p, misuse("%s has no door or realm %q, and a route has a slash", name, wanted)
		case home == nil:
			return p, misuse("%s has no door with the route %q: name the door whose rules it takes with --rules", name, wanted)
		default:
			routes[home.Name] = append(routes[home.Name], wanted)
		}
	}
	for _, d := range c.Doors {
		of, named := routes[d.Name]
		switch {
		case len(fl.doors) > 0 && !named:
			continue
		case len(fl.doors) == 0 && fl.rules != "" && d.Name != fl.rules && d.Realm != fl.rules:
			continue
		}
		if err := add(d, of); err != nil {
			return p, err
		}
	}
	// Guards that no door is left of would have nothing to do.
	p.Guards, p.Messages = keepUsed(p.Guards, p.Doors), -1
	if len(p.Guards) == 1 {
		p.Messages = 0
	}
	return p, nil
}

// keepUsed drops guards that no door has, and renumbers.
func keepUsed(guards []replay.Guard, doors []replay.Door) (kept []replay.Guard) {
	to := map[int]int{}
	for i := range doors {
		was := doors[i].Guard
		at, known := to[was]
		if !known {
			at = len(kept)
			to[was] = at
			kept = append(kept, guards[was])
		}
		doors[i].Guard = at
	}
	return kept
}

// home is the door that routes are at which the file does not have: nil if there may be
// several.
func (fl *replayFlags) home(name string, c config.Config) (*config.Door, error) {
	if fl.rules == "" {
		if len(c.Doors) == 1 {
			return &c.Doors[0], nil
		}
		return nil, nil
	}
	var names []string
	for i, d := range c.Doors {
		if d.Name == fl.rules || d.Realm == fl.rules {
			return &c.Doors[i], nil
		}
		names = append(names, d.Name, d.GuardName())
	}
	msg := fmt.Sprintf("%s has no door or realm %q", name, fl.rules)
	if best := config.Closest(fl.rules, names); best != "" {
		msg += ", did you mean " + best + "?"
	}
	return nil, misuse("--rules: %s", msg)
}

// sameRoute compares routes as they are written, whatever blanks are between method and
// path.
func sameRoute(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}

// openLogs opens the logs and returns a bar that shows how far they are read.
func openLogs(args []string, stdin io.Reader, stderr io.Writer) (logs []replay.Log, bar *progress, err error) {
	bar = &progress{out: onTerminal(stderr), begun: time.Now()}
	var faults []error
	std := false
	for _, name := range args {
		if name == "-" {
			if std {
				return nil, nil, misuse("- can be given once")
			}
			std, bar.total = true, -1
			logs = append(logs, replay.Log{Name: "standard input", Reader: &counted{Reader: stdin, bar: bar}, ModTime: time.Now()})
			continue
		}
		f, err := os.Open(name)
		if err == nil {
			var info os.FileInfo
			if info, err = f.Stat(); err == nil && info.IsDir() {
				err = errors.New("is a directory")
			}
			if err == nil {
				logs = append(logs, replay.Log{Name: name, Reader: &counted{Reader: f, bar: bar}, ModTime: info.ModTime()})
				if bar.total >= 0 {
					bar.total += info.Size()
				}
				continue
			}
		}
		faults = append(faults, fmt.Errorf("%s: cannot be read: %w", name, bare(err)))
	}
	if len(faults) > 0 {
		for _, l := range logs {
			l.Reader.(io.Closer).Close()
		}
		return nil, nil, errors.Join(faults...)
	}
	return logs, bar, nil
}

func bare(err error) error {
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// replay reads the logs and writes the report.
func (fl *replayFlags) replay(cmd *cobra.Command, r *replay.Replay, logs []replay.Log, bar *progress) error {
	fault := r.Run(logs...)
	bar.clear()
	switch {
	case errors.Is(fault, replay.ErrDoors):
		return misuse("%s, with --door ROUTE or --config FILE", fault)
	case errors.Is(fault, replay.ErrGuard):
		return misuse("%s, with --rules NAME", fault)
	}
	report := r.Report()
	if fault != nil && report.Lines == 0 {
		return fault
	}
	if fl.suggest {
		s, err := r.Suggest(replay.Grid(), bar.tried)
		bar.clear()
		fault = errors.Join(fault, err)
		report.Suggested = s
	}
	var err error
	if fl.json {
		err = writeJSON(cmd.OutOrStdout(), report)
	} else {
		err = report.WriteText(cmd.OutOrStdout())
	}
	if fl.html != "" {
		// After the report: it took a while, and is not to be lost with the page.
		var page bytes.Buffer
		fault = errors.Join(fault, report.WriteHTML(&page))
		if err := os.WriteFile(fl.html, page.Bytes(), 0o644); err != nil {
			fault = errors.Join(fault, fmt.Errorf("%s: cannot be written: %w", fl.html, bare(err)))
		}
	}
	return errors.Join(err, fault)
}
