package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/logs"
	"github.com/doorward/doorward/cmd/doorward/internal/metrics"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
)

const serveHelp = `Serve passes requests on to an application and guards its doors. What to do comes
from a file, or from flags:

--door names a route to guard, as net/http.ServeMux patterns do: a method, maybe a
host, and a path. All doors given by flags share one budget.

--succeeded says what the application answers when a guess was right. There is no
default, since most applications answer 200 or 302 to wrong guesses too:
    302,303          one of these statuses; 2xx for all of a kind
    cookie:NAME      a cookie that is set when the guess was right
    location:PREFIX  a redirect that only a right guess gets
    header           the application says it: Doorward-Outcome: succeeded
What is named together must hold together: 302,cookie:session. Try it with a wrong
guess, logged out and logged in: what that can be answered with is no success.

Per network, five failures lock for a minute, doubling up to an hour, and twenty in a
day for 30 seconds up to 15 minutes; wider networks have more. --preset takes other
rules: login, one_time_code, pairing, password_reset, recovery, signup,
pushed_authorization, device_code or device_start. A file can say all this otherwise.

--subject says where a request names the account that is guessed at, for presets that
count accounts as well as networks; --challenge likewise the code or session:
    form:NAME        a field of a form
    json:PATH        a member of a JSON body, such as user.email
    header:NAME      a header
    query:NAME       a parameter of the query
    path:PATTERN     a segment of the path, such as /verify/{id}
    basic_auth       the user of Basic credentials
What names it twice, in two ways or not at all is refused.

Behind another proxy, name it with --trusted-proxy: else all callers are one.

SIGTERM and SIGINT stop: no new requests, those that run may end. A second one ends
the process at once, with exit code 1. SIGHUP reads the file again: if anything in it
is wrong, the old configuration stays, and the log says what. SIGUSR1 opens the audit
log anew, if there is one.`

const serveExample = `  doorward serve --upstream http://127.0.0.1:3000 --door 'POST /login' --succeeded 302
  doorward serve --upstream http://127.0.0.1:3000 --door 'POST /login' --door 'POST /reset' --succeeded cookie:session
  doorward serve --upstream http://127.0.0.1:3000 --door 'POST /login' --succeeded 302 --preset login --subject form:username
  doorward serve --upstream http://127.0.0.1:3000 --door / --basic-auth --succeeded 200-599 --failed 401
  doorward serve --config doorward.yaml`

func newServe() *cobra.Command {
	var fl config.Flags
	var file string
	cmd := &cobra.Command{
		Use:     "serve (--config FILE | --upstream URL --door ROUTE --succeeded FORMS)",
		Short:   "Guard the doors of an application",
		Long:    serveHelp,
		Example: serveExample,
		Args:    exactly(),
	}
	cmd.DisableFlagsInUseLine = true
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&file, "config", "", "read everything from `FILE`")
	f.StringVar(&fl.Upstream, "upstream", "", "the application: a `URL` with scheme, host and port")
	f.StringArrayVar(&fl.Doors, "door", nil, "guard `ROUTE`, such as 'POST /login' (repeatable)")
	f.StringVar(&fl.Succeeded, "succeeded", "", "what a right guess is answered with: `FORMS` as above")
	f.StringVar(&fl.Failed, "failed", "", "`STATUSES` that are failures even if they look like successes")
	f.StringVar(&fl.Preset, "preset", "", "take the rules of the preset `NAME`")
	f.StringVar(&fl.Subject, "subject", "", "`WHERE` a request names its account, as above")
	f.StringVar(&fl.Challenge, "challenge", "", "`WHERE` a request names its code or session, as above")
	f.BoolVar(&fl.BasicAuth, "basic-auth", false, "count only requests with Basic credentials")
	f.BoolVar(&fl.IgnoreCase, "ignore-case", false, "the application ignores letter case in paths, as Express does")
	f.StringArrayVar(&fl.Exempt, "exempt", nil, "a `NETWORK` that is never limited (repeatable)")
	f.StringArrayVar(&fl.Block, "block", nil, "a `NETWORK` that is refused at doors (repeatable)")
	f.StringArrayVar(&fl.TrustedProxies, "trusted-proxy", nil, "a `NETWORK` of proxies in front of this one (repeatable)")
	f.StringVar(&fl.ClientHeader, "client-header", "", "the `HEADER` these proxies write (default X-Forwarded-For)")
	f.IntVar(&fl.Hops, "hops", 0, "`NUMBER` of proxies that every request passes, instead of --trusted-proxy")
	f.StringVar(&fl.Listen, "listen", "", "`ADDRESS` to listen on, or unix:/PATH (default "+config.DefaultListen+")")
	f.StringVar(&fl.LogFormat, "log-format", "", "`FORMAT` of log lines: text or json (default text)")
	f.StringVar(&fl.LogLevel, "log-level", "", "least `LEVEL` of log lines: debug, info, warn or error (default info)")
	cmd.RunE = running(func(cmd *cobra.Command, _ []string) error {
		c, err := load(cmd, file, fl)
		if err != nil {
			return err
		}
		var again func() (config.Config, error)
		if cmd.Flags().Changed("config") {
			again = func() (config.Config, error) { return config.Load(file, fl.Overrides) }
		}
		d := newDaemon(c)
		if d.again = again; again != nil {
			if d.file, err = filepath.Abs(file); err != nil {
				return err
			}
		}
		return d.serve(cmd.Context(), cmd.ErrOrStderr())
	})
	return cmd
}

// withConfig are the flags that go with --config.
var withConfig = map[string]bool{"config": true, "listen": true, "log-format": true, "log-level": true, "help": true}

// load reads the file, or the flags if there is none.
func load(cmd *cobra.Command, file string, fl config.Flags) (c config.Config, err error) {
	if cmd.Flags().Changed("config") {
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if err == nil && !withConfig[f.Name] {
				err = usageError{cmd.CommandPath(), "--" + f.Name + " cannot be used with --config: the file says it"}
			}
		})
		if err != nil {
			return c, err
		}
		return config.Load(file, fl.Overrides)
	}
	var missing []string
	if fl.Upstream == "" {
		missing = append(missing, "--upstream")
	}
	if len(fl.Doors) == 0 {
		missing = append(missing, "--door")
	}
	switch {
	case len(missing) == 2:
		return c, usageError{cmd.CommandPath(), "--config, or --upstream and --door, must be given"}
	case len(missing) == 1:
		return c, usageError{cmd.CommandPath(), missing[0] + " is missing"}
	}
	return fl.Config()
}

// serve runs until a signal comes.
func (d *daemon) serve(ctx context.Context, stderr io.Writer) (err error) {
	c := d.config
	d.level.Set(c.Log.Level)
	d.log = newLog(c.Log, d.level, stderr)
	boundByFiles(&c)
	ctx, stop := untilSignal(ctx, d.log)
	defer stop()
	var reloads chan os.Signal
	if d.again != nil {
		reloads = make(chan os.Signal, 1)
		signal.Notify(reloads, syscall.SIGHUP)
		defer signal.Stop(reloads)
	}
	closeState, err := d.openState(c.State)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	defer closeState()
	closeStore, err := d.openStore(c.Store)
	if err != nil {
		return err
	}
	defer closeStore()
	d.chooseSecret(c)
	pc, err := d.build(c)
	if err != nil {
		return err
	}
	if err := d.loadState(); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := d.openAudit(c); err != nil {
		return err
	}
	defer func() { d.audit.Close(err) }()
	var reopens chan os.Signal
	if d.audit != nil {
		reopens = make(chan os.Signal, 1)
		signal.Notify(reopens, syscall.SIGUSR1)
		defer signal.Stop(reopens)
	}
	p, err := proxy.New(pc)
	if err != nil {
		return err
	}
	d.proxy = p
	stdlog.SetFlags(0)
	stdlog.SetOutput(p.LogWriter()) // net/http has a line or two for the standard log
	ports, err := open(ctx, c, p, d.log)
	if err != nil {
		return err
	}
	adminPorts, tellAdmin, err := openAdmin(ctx, c.Admin, d.log)
	if err != nil {
		for _, port := range ports {
			port.Close()
		}
		return err
	}
	for _, port := range ports {
		d.listen = append(d.listen, addresses([]proxy.Port{port}))
	}
	doors, rules := count(c)
	d.log.Info("serving", "listen", addresses(ports), "upstream", upstreamNames(c.Upstreams), "doors", doors, "rules", rules)
	d.tellDoors()
	tellAdmin()
	d.diagnose()
	stopAdmin, err := d.serveAdmin(adminPorts, metrics.Handler(d.snapshot))
	if err != nil {
		return err
	}
	stopBeside := d.beside(reloads, reopens)
	err = p.ServePorts(ctx, ports...)
	stopAdmin()
	stopBeside()
	if e := d.saveLast(); err == nil {
		err = e
	}
	if e := d.audit.Close(err); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	d.log.Info("stopped")
	return nil
}

func upstreamNames(list []*url.URL) string {
	var names []string
	for _, u := range list {
		names = append(names, u.String())
	}
	return strings.Join(names, ", ")
}

func newLog(c config.Log, level slog.Leveler, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if c.JSON {
		return slog.New(logs.NewCounted(slog.NewJSONHandler(w, options)))
	}
	return slog.New(logs.NewCounted(slog.NewTextHandler(w, options)))
}

// untilSignal returns a context that ends with the first SIGTERM or SIGINT. The second
// ends the process. Stop takes the signals' meaning back.
func untilSignal(ctx context.Context, log *slog.Logger) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		select {
		case s := <-signals:
			log.Info("stopping, once more to end at once", "signal", s.String())
			cancel()
		case <-ctx.Done():
			return
		}
		s := <-signals
		log.Warn("ended at once", "signal", s.String())
		os.Exit(exitFailed)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}
