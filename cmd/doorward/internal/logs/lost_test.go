package logs

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"
)

// disk is full for the next so many writes.
type disk struct {
	bytes.Buffer
	full int
}

func (d *disk) Write(b []byte) (int, error) {
	if d.full > 0 {
		d.full--
		return 0, syscall.ENOSPC
	}
	return d.Buffer.Write(b)
}

// TestCounted: lines that a full disk did not take are counted, and reported once there
// is space; none is counted twice or forgotten.
func TestCounted(t *testing.T) {
	var d disk
	h := NewCounted(slog.NewTextHandler(&d, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	log := slog.New(h)
	for _, row := range []struct {
		full int // of the writes from here on
		want string
		lost uint64
	}{
		{0, "level=INFO msg=a\n", 0},
		{1, "", 1},
		{1, "", 2},
		{0, "level=INFO msg=a\nlevel=WARN msg=\"lines could not be written\" lost=2\n", 0},
		{0, "level=INFO msg=a\n", 0},
		{1, "", 1},
	} {
		d.Reset()
		d.full = row.full
		log.Info("a")
		if d.String() != row.want || h.Lost() != row.lost {
			t.Errorf("%+v: wrote %q, lost %d", row, &d, h.Lost())
		}
	}
	log.With("k", "v").WithGroup("g").Info("b") // the count is one for all
	if got := d.String(); !strings.Contains(got, "lost=1") || h.Lost() != 0 {
		t.Errorf("wrote %q, lost %d", got, h.Lost())
	}
}
