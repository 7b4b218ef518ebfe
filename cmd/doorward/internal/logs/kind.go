package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Kind writes lines of one message and level within a Meter's budget.
type Kind struct {
	log   *slog.Logger
	level slog.Level
	msg   string
	meter Meter
	total atomic.Uint64
}

// NewKind returns a kind of line that goes to log.
func NewKind(log *slog.Logger, level slog.Level, msg string) *Kind {
	return &Kind{log: log, level: level, msg: msg}
}

// Name returns the message.
func (k *Kind) Name() string { return k.msg }

// Total returns how many lines there were to write, whatever became of them.
func (k *Kind) Total() uint64 { return k.total.Load() }

// Enabled reports whether lines of this kind go anywhere. Where they do not, the Meter
// does not count them.
func (k *Kind) Enabled() bool { return k.log.Enabled(context.Background(), k.level) }

// Write writes a line, or counts it. Only for one that is written it asks for attrs,
// so that a flood costs no formatting.
func (k *Kind) Write(now time.Time, attrs func() []slog.Attr) {
	k.total.Add(1)
	if !k.Enabled() {
		return
	}
	dropped, ok := k.meter.Take(now)
	if !ok {
		return
	}
	line := attrs()
	if dropped > 0 {
		line = append(line, slog.Uint64("suppressed", dropped))
	}
	k.log.LogAttrs(context.Background(), k.level, k.msg, line...)
}

// Flush writes how many lines were not written since that was last said, if any.
func (k *Kind) Flush() {
	if n := k.meter.Drain(); n > 0 {
		k.log.LogAttrs(context.Background(), k.level, k.msg, slog.Uint64("suppressed", n))
	}
}

// Cut returns s, or its first n bytes and an ellipsis. Quoting is the handler's
// work; that a line stays a line's length is ours.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
