package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Counted is a handler that counts the lines that could not be written, such as on a full
// disk, and says how many they were with the next one that can. Whoever logs does not
// notice: a request does not fail because its line does.
type Counted struct {
	slog.Handler
	lost *atomic.Uint64
}

// NewCounted returns h, counted.
func NewCounted(h slog.Handler) Counted { return Counted{h, new(atomic.Uint64)} }

// Handle writes a line.
func (c Counted) Handle(ctx context.Context, r slog.Record) error {
	if err := c.Handler.Handle(ctx, r); err != nil {
		c.lost.Add(1)
		return err
	}
	n := c.lost.Swap(0)
	if n == 0 {
		return nil
	}
	note := slog.NewRecord(time.Now(), slog.LevelWarn, "lines could not be written", 0)
	note.AddAttrs(slog.Uint64("lost", n))
	if err := c.Handler.Handle(ctx, note); err != nil {
		c.lost.Add(n)
		return err
	}
	return nil
}

// Lost returns how many lines could not be written since that was last said.
func (c Counted) Lost() uint64 { return c.lost.Load() }

// WithAttrs shares the count.
func (c Counted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Counted{c.Handler.WithAttrs(attrs), c.lost}
}

// WithGroup shares the count.
func (c Counted) WithGroup(name string) slog.Handler {
	return Counted{c.Handler.WithGroup(name), c.lost}
}
