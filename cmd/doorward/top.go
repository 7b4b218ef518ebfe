package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/client"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/view"
)

const topHelp = `Top shows what happens at the doors now, on a screen that is drawn anew every second,
until q or ctrl-c. What does not fit is left out, and counted.

If the output is not a terminal, it prints a line each time instead. A daemon that goes
away is waited for.`

func newTop() *cobra.Command {
	var o asker
	var every string
	var once bool
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Watch the doors live",
		Long:    topHelp + askerHelp,
		Example: "  doorward top\n  doorward top --every 5s >> doors.txt\n  doorward top --once",
		Args:    exactly(),
		GroupID: onCall,
	}
	cmd.Flags().StringVar(&every, "every", "1s", "draw every `TIME`, 100ms to 1h")
	cmd.Flags().BoolVar(&once, "once", false, "print one screen and end")
	o.addTo(cmd)
	cmd.RunE = running(func(cmd *cobra.Command, _ []string) error {
		pause, ok := config.ParseDuration(every)
		if !ok || pause < 100*time.Millisecond || pause > time.Hour {
			return usageError{cmd.CommandPath(), "--every must be 100ms to 1h, got " + every}
		}
		c, err := o.client(cmd)
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupt(cmd)
		defer stop()
		out := cmd.OutOrStdout()
		s, terminal := screen(out)
		if once {
			l, err := look(ctx, c, pause)
			if err != nil {
				return err
			}
			s.Height = 0
			return print(cmd, s.Top(l, time.Local)+"\n")
		}
		w := &watch{client: c, every: pause}
		if w.is, err = c.Status(ctx); err != nil { // before the screen is taken
			return err
		}
		if !terminal {
			return w.lines(ctx, out, cmd.ErrOrStderr())
		}
		return w.live(ctx, out.(*os.File))
	})
	return cmd
}

// A watch looks again and again.
type watch struct {
	client *client.Client
	every  time.Duration
	view.Look
	is   api.Status
	lost error
}

// again makes the last look the one before. While nobody answers, the last one stays.
func (w *watch) again(ctx context.Context) {
	st, err := w.client.Status(ctx)
	if w.lost = err; err == nil {
		w.Look, w.is = view.Look{Was: w.is, Is: st}, st
	}
}

// lines prints a line for each look.
func (w *watch) lines(ctx context.Context, out, errs io.Writer) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if w.again(ctx); ctx.Err() != nil {
			return nil
		}
		if w.lost != nil {
			if !said {
				fmt.Fprintf(errs, "doorward: %v\n", w.lost)
			}
			said = true
			continue
		}
		said = false
		if _, err := fmt.Fprintln(out, view.Round(w.Look, time.Local)); err != nil {
			return err
		}
	}
}

// What a terminal is told. The alternate screen leaves what was on it before as it was.
const (
	enter    = "\x1b[?1049h\x1b[?25l"
	leave    = "\x1b[?25h\x1b[?1049l"
	home     = "\x1b[H"
	restLine = "\x1b[K"
	restAll  = "\x1b[J"
)

// live draws a screen for each look, and whenever the terminal changes its size.
func (w *watch) live(ctx context.Context, out *os.File) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		old, err := term.MakeRaw(in)
		if err != nil {
			return err
		}
		defer term.Restore(in, old)
		go func() { // ends with the process
			defer stop()
			untilKey(os.Stdin)
		}()
	}
	if _, err := io.WriteString(out, enter); err != nil {
		return err
	}
	defer func() {
		if _, e := io.WriteString(out, leave); err == nil {
			err = e
		}
	}()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	w.Look = view.Look{Was: w.is, Is: w.is}
	for {
		s, _ := screen(out)
		if err := w.draw(out, s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case <-tick.C:
			if w.again(ctx); ctx.Err() != nil {
				return nil
			}
		}
	}
}

// untilKey returns when q or ctrl-c was pressed, or nothing can be any more.
func untilKey(in io.Reader) {
	b := make([]byte, 16)
	for {
		n, err := in.Read(b)
		if err != nil || strings.ContainsAny(string(b[:n]), "qQ\x03") {
			return
		}
	}
}

// draw writes one screen at once, so that nothing flickers.
func (w *watch) draw(out io.Writer, s view.Screen) error {
	var b strings.Builder
	b.WriteString(home)
	if w.lost != nil {
		s.Height = max(s.Height-1, 1)
		b.WriteString(s.Lost(w.lost.Error()) + restLine + "\r\n")
	}
	b.WriteString(strings.ReplaceAll(s.Top(w.Look, time.Local), "\n", restLine+"\r\n"))
	b.WriteString(restLine + restAll)
	_, err := io.WriteString(out, b.String())
	return err
}
