package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// printer is a log handler that tells a person what happens.
type printer struct {
	mu      sync.Mutex
	out     io.Writer
	refused int
}

func (p *printer) Enabled(context.Context, slog.Level) bool { return true }
func (p *printer) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p *printer) WithGroup(string) slog.Handler            { return p }

func (p *printer) Handle(_ context.Context, r slog.Record) error {
	values := map[string]string{}
	suppressed := 0
	var rest strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value.String()
		if n, ok := a.Value.Any().(uint64); ok && a.Key == "suppressed" {
			suppressed = int(n)
		} else {
			fmt.Fprintf(&rest, " %s=%q", a.Key, a.Value)
		}
		return true
	})
	what := ""
	switch {
	case values["door"] == "" && suppressed > 0:
	case r.Message == "refused":
		what = fmt.Sprintf("refused    %s: rule %s, %s, try again in %s s", values["client"], values["rule"], values["reason"], values["retry_after"])
	case r.Message == "settled":
		what = fmt.Sprintf("%-9s  %s", values["outcome"], values["client"])
	default:
		what = r.Message + rest.String()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Message == "refused" {
		p.refused += suppressed
		if what != "" {
			p.refused++
		}
	}
	at := r.Time.Format("15:04:05")
	if suppressed > 0 {
		fmt.Fprintf(p.out, "  %s  and %d more %q\n", at, suppressed, r.Message)
	}
	if what != "" {
		fmt.Fprintf(p.out, "  %s  %s\n", at, what)
	}
	return nil
}

func (p *printer) print(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	io.WriteString(p.out, s)
}

func (p *printer) refusals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}
