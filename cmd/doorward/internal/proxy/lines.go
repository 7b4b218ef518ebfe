package proxy

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
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
	local    *logs.Kind
	unlet    *logs.Kind
	slow     *logs.Kind
	full     *logs.Kind
	health   *logs.Kind

	hidden *hidden
}

// hidden are the doors whose paths name subjects; "" is no door. None is taken out: a
// request that began with a door as it was may still be there.
type hidden struct{ doors sync.Map }

func (h *hidden) has(door string) bool {
	_, ok := h.doors.Load(door)
	return ok
}

// hide keeps paths out of the log that name subjects at one of doors.
func (l *lines) hide(doors []Door) {
	for _, d := range doors {
		if d.PathNames {
			l.hidden.doors.Store(d.Name, true)
			l.hidden.doors.Store("", true)
		}
	}
}

func newLines(log *slog.Logger) lines {
	return lines{
		hidden:   new(hidden),
		refused:  logs.NewKind(log, slog.LevelInfo, "refused"),
		bad:      logs.NewKind(log, slog.LevelInfo, "bad request"),
		settled:  logs.NewKind(log, slog.LevelDebug, "settled"),
		upstream: logs.NewKind(log, slog.LevelError, "upstream failed"),
		outcome:  logs.NewKind(log, slog.LevelWarn, "outcome unclear"),
		server:   logs.NewKind(log, slog.LevelWarn, "server"),
		health:   logs.NewKind(log, slog.LevelWarn, "upstream health"),
		closed:   logs.NewKind(log, slog.LevelError, "doors are closed to a local proxy: say how callers are named"),
		local:    logs.NewKind(log, slog.LevelWarn, "a caller on this machine is locked out: if it is a proxy, so are all callers behind it"),
		unlet:    logs.NewKind(log, slog.LevelWarn, "connection refused"),
		slow:     logs.NewKind(log, slog.LevelInfo, "client too slow"),
		full:     logs.NewKind(log, slog.LevelWarn, "door is full"),
		ignored:  logs.NewKind(log, slog.LevelWarn, "forwarded addresses are ignored: all callers behind this peer are one"),
	}
}

func (l *lines) all() []*logs.Kind {
	return []*logs.Kind{l.refused, l.bad, l.settled, l.upstream, l.outcome, l.server, l.closed, l.ignored, l.local, l.unlet, l.slow, l.full, l.health}
}

// Lines calls f with each kind of line that requests bring about and how many there were,
// written or not.
func (p *Proxy) Lines(f func(kind string, n uint64)) {
	for _, k := range p.lines.all() {
		f(k.Name(), k.Total())
	}
}

// flush writes what was suppressed and has not been reported.
func (l *lines) flush() {
	for _, k := range l.all() {
		k.Flush()
	}
}

// changed says that a copy of the application was found healthy, or not.
func (l *lines) changed(u *url.URL, healthy bool, why string) {
	l.health.Write(time.Now(), func() []slog.Attr {
		attrs := []slog.Attr{slog.String("upstream", u.String()), slog.Bool("healthy", healthy)}
		if why != "" {
			attrs = append(attrs, slog.String("why", logs.Cut(why, 300)))
		}
		return attrs
	})
}

func (l *lines) refusal(now time.Time, v *visit, r *http.Request, verdict guard.Verdict) {
	l.refused.Write(now, func() []slog.Attr {
		return append([]slog.Attr{
			slog.String("rule", verdict.Rule),
			slog.String("reason", verdict.Reason.String()),
			slog.Int64("retry_after", httpguard.RetryAfter(verdict)),
			client(v), how(v),
		}, l.request(v.door, r)...)
	})
}

func (l *lines) settlement(now time.Time, v *visit, r *http.Request, permit *httpguard.Permit) {
	o, _ := permit.Outcome()
	if err := permit.Err(); err != nil && o == doorward.Malformed {
		l.refused.Write(now, func() []slog.Attr {
			return append([]slog.Attr{
				slog.String("reason", doorward.Malformed.String()), slog.String("why", reason(err)), client(v), how(v),
			}, l.request(v.door, r)...)
		})
	}
	if w := permit.Warning(); w != "" {
		l.outcome.Write(now, func() []slog.Attr {
			return append([]slog.Attr{slog.String("warning", logs.Cut(w, 300))}, l.request(v.door, r)...)
		})
	}
	l.settled.Write(now, func() []slog.Attr {
		return append([]slog.Attr{slog.String("outcome", o.String()), client(v), how(v)}, l.request(v.door, r)...)
	})
}

func how(v *visit) slog.Attr { return slog.String("how", v.how.String()) }

// client names whom an attempt is charged to, and no one more closely.
func client(v *visit) slog.Attr {
	return slog.String("client", doorward.KeyFromAddr(v.addr).String())
}

// request names a request. The query is left out: it may hold secrets. So is a path
// that may name a subject.
func (l *lines) request(door string, r *http.Request) (attrs []slog.Attr) {
	if door != "" {
		attrs = append(attrs, slog.String("door", door))
	}
	attrs = append(attrs, slog.String("method", logs.Cut(r.Method, 16)))
	if path := l.path(door, r); path != "" {
		attrs = append(attrs, slog.String("path", logs.Cut(path, 200)))
	}
	return attrs
}

// path is that of r, "" if it may name a subject.
func (l *lines) path(door string, r *http.Request) string {
	if l.hidden.has(door) {
		return ""
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return path
}
