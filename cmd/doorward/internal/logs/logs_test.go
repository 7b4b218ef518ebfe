package logs

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMeter: a burst of 100, then one line every 50 ms, to the nanosecond; and no
// dropped line is forgotten or counted twice.
func TestMeter(t *testing.T) {
	t0 := time.Unix(1_700_000_000, 0)
	for _, row := range []struct {
		name      string
		ask       []time.Duration // when lines are asked for, after a burst at 0
		written   int
		reported  []uint64 // with the lines written
		remaining uint64
	}{
		{"one too many", []time.Duration{0}, 0, nil, 1},
		{"a nanosecond early", []time.Duration{50*time.Millisecond - 1}, 0, nil, 1},
		{"in time", []time.Duration{50 * time.Millisecond}, 1, []uint64{0}, 0},
		{"reports", []time.Duration{0, 1, 2, 50 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}, 2, []uint64{3, 1}, 0},
		{"back in time", []time.Duration{-time.Hour, 50 * time.Millisecond}, 1, []uint64{1}, 0},
		{"whole again", []time.Duration{time.Hour}, 1, []uint64{0}, 0},
	} {
		var m Meter
		for range Burst {
			if _, ok := m.Take(t0); !ok {
				t.Fatalf("%s: burst is shorter than %d", row.name, Burst)
			}
		}
		var reported []uint64
		for _, d := range row.ask {
			if n, ok := m.Take(t0.Add(d)); ok {
				reported = append(reported, n)
			}
		}
		if len(reported) != row.written {
			t.Errorf("%s: %d lines written, want %d", row.name, len(reported), row.written)
		}
		for i := range min(len(reported), len(row.reported)) {
			if reported[i] != row.reported[i] {
				t.Errorf("%s: line %d reports %d dropped, want %d", row.name, i, reported[i], row.reported[i])
			}
		}
		if n := m.Drain(); n != row.remaining {
			t.Errorf("%s: %d left to report, want %d", row.name, n, row.remaining)
		}
		if n := m.Drain(); n != 0 {
			t.Errorf("%s: drained twice: %d", row.name, n)
		}
	}
}

// TestMeterSecond: in the long run 20 lines a second, whatever is asked.
func TestMeterSecond(t *testing.T) {
	var m Meter
	t0 := time.Unix(1_700_000_000, 0)
	written, reported := 0, uint64(0)
	for ms := range 60_000 {
		if n, ok := m.Take(t0.Add(time.Duration(ms) * time.Millisecond)); ok {
			written++
			reported += n
		}
	}
	if want := Burst + 60*PerSecond - 1; written != want {
		t.Errorf("%d lines in a minute, want %d", written, want)
	}
	if total := uint64(written) + reported + m.Drain(); total != 60_000 {
		t.Errorf("%d accounted for, want 60000", total)
	}
}

// A meter that was set has other limits, and remembers what it had dropped.
func TestMeterSet(t *testing.T) {
	t0 := time.Unix(1_700_000_000, 0)
	var m Meter
	m.Set(2, 10)
	take := func(after time.Duration, n uint64, ok bool) {
		t.Helper()
		if got, gotOK := m.Take(t0.Add(after)); got != n || gotOK != ok {
			t.Errorf("after %v: %d, %v, want %d, %v", after, got, gotOK, n, ok)
		}
	}
	take(0, 0, true)
	take(0, 0, true)
	take(100*time.Millisecond-1, 0, false)
	take(100*time.Millisecond, 1, true)
	m.Drop(3)
	m.Set(3, 10)
	take(100*time.Millisecond, 3, true)
	take(100*time.Millisecond, 0, false)
	m.Drop(1)
	if n := m.Drain(); n != 2 {
		t.Errorf("%d left to report, want 2", n)
	}
}

// TestKind: every line asked for is written or part of a suppressed count, also
// when many ask at once.
func TestKind(t *testing.T) {
	var buf bytes.Buffer
	var mu sync.Mutex
	k := NewKind(slog.New(slog.NewJSONHandler(&buf, nil)), slog.LevelWarn, "refused")
	t0 := time.Unix(1_700_000_000, 0)
	asked := 0
	path := func(s string) func() []slog.Attr {
		return func() []slog.Attr {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return []slog.Attr{slog.String("path", s)}
		}
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 100 {
				k.Write(t0, path("/a\nb"))
			}
		})
	}
	wg.Wait()
	k.Write(t0.Add(time.Second), path("/x"))
	for range 400 {
		k.Write(t0.Add(time.Second), path("/y"))
	}
	k.Flush()
	k.Flush()
	lines, counted := 0, 0
	for _, line := range strings.Split(strings.TrimSpace(buf.String()), "\n") {
		var l struct {
			Msg        string
			Path       string
			Suppressed int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines++
		counted += l.Suppressed
	}
	// The first hundred, nineteen and one after a second, and the summary.
	if lines != Burst+PerSecond+1 {
		t.Errorf("%d lines, want %d", lines, Burst+PerSecond+1)
	}
	if asked != lines-1 {
		t.Errorf("asked for the attributes of %d lines, want %d", asked, lines-1)
	}
	if got := k.Total(); got != 1401 || k.Name() != "refused" {
		t.Errorf("%q: %d in total, want 1401", k.Name(), got)
	}
	if got := lines - 1 + counted; got != 1401 {
		t.Errorf("%d lines accounted for, want 1401", got)
	}
}

func TestKindDisabled(t *testing.T) {
	var buf bytes.Buffer
	k := NewKind(slog.New(slog.NewTextHandler(&buf, nil)), slog.LevelDebug, "settled")
	for range 2 * Burst {
		k.Write(time.Unix(1, 0), func() []slog.Attr { t.Error("asked for attributes"); return nil })
	}
	k.Flush()
	if buf.Len() > 0 || k.Total() != 2*Burst {
		t.Errorf("a kind that is not enabled wrote %q and counted %d", buf.String(), k.Total())
	}
}

func TestCut(t *testing.T) {
	for _, row := range []struct{ in, want string }{{"", ""}, {"abc", "abc"}, {"abcd", "abc..."}} {
		if got := Cut(row.in, 3); got != row.want {
			t.Errorf("Cut(%q): %q, want %q", row.in, got, row.want)
		}
	}
}
