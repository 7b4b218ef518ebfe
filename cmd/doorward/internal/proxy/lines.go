package proxy

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/logs"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

// lines are the kinds of line that requests bring about, each within bounds of its
// own: a flood of refusals does not hide that the application is down.
type lines struct {
	refused  *logs.Kind
	bad      *logs.Kind
	settled  *logs.Kind
	upstream *logs.Kind
	outcome  *logs.Kind
	server   *logs.Kind
	closed   *logs.Kind
	ignored  *logs.Kind
}

func newLines(log *slog.Logger) lines {
	return lines{
		refused:  logs.NewKind(log, slog.LevelInfo, "refused"),
		bad:      logs.NewKind(log, slog.LevelInfo, "bad request"),
		settled:  logs.NewKind(log, slog.LevelDebug, "settled"),
		upstream: logs.NewKind(log, slog.LevelError, "upstream failed"),
		outcome:  logs.NewKind(log, slog.LevelWarn, "outcome unclear"),
		server:   logs.NewKind(log, slog.LevelWarn, "server"),
		closed:   logs.NewKind(log, slog.LevelError, "doors are closed to a local proxy: say how callers are named"),
		ignored:  logs.NewKind(log, slog.LevelWarn, "forwarded addresses are ignored: all callers behind this peer are one"),
	}
}

func (l *lines) all() []*logs.Kind {
	return []*logs.Kind{l.refused, l.bad, l.settled, l.upstream, l.outcome, l.server, l.closed, l.ignored}
}

// flush writes what was suppressed and has not been reported.
func (l *lines) flush() {
	for _, k := range l.all() {
		k.Flush()
	}
}

func (l *lines) refusal(now time.Time, v *visit, r *http.Request, verdict guard.Verdict) {
	l.refused.Write(now, func() []slog.Attr {
		return append([]slog.Attr{
			slog.String("rule", verdict.Rule),
			slog.String("reason", verdict.Reason.String()),
			slog.Int64("retry_after", httpguard.RetryAfter(verdict)),
			client(v), how(v),
		}, requestAttrs(v.door, r)...)
	})
}

func (l *lines) settlement(now time.Time, v *visit, r *http.Request, permit *httpguard.Permit) {
	if w := permit.Warning(); w != "" {
		l.outcome.Write(now, func() []slog.Attr {
			return append([]slog.Attr{slog.String("warning", logs.Cut(w, 300))}, requestAttrs(v.door, r)...)
		})
	}
	l.settled.Write(now, func() []slog.Attr {
		o, _ := permit.Outcome()
		return append([]slog.Attr{slog.String("outcome", o.String()), client(v), how(v)}, requestAttrs(v.door, r)...)
	})
}

func how(v *visit) slog.Attr { return slog.String("how", v.how.String()) }

// client names whom an attempt is charged to, and no one more closely.
func client(v *visit) slog.Attr {
	return slog.String("client", doorward.KeyFromAddr(v.addr).String())
}

// requestAttrs names a request. The query is left out: it may hold secrets.
func requestAttrs(door string, r *http.Request) []slog.Attr {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	attrs := []slog.Attr{slog.String("method", logs.Cut(r.Method, 16)), slog.String("path", logs.Cut(path, 200))}
	if door != "" {
		attrs = append([]slog.Attr{slog.String("door", door)}, attrs...)
	}
	return attrs
}
