package script

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// told is what the functions are told of a rule.
type told struct {
	kind, flags                  byte
	capacity, inFlight           uint32
	lease, memory, a, b, c, d, e float64
}

func read(t *testing.T, b []byte) (x told) {
	t.Helper()
	if len(b) != 66 {
		t.Fatalf("%d bytes, want 66", len(b))
	}
	f := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[10+8*i:])) }
	return told{b[0], b[1], binary.LittleEndian.Uint32(b[2:]), binary.LittleEndian.Uint32(b[6:]), f(0), f(1), f(2), f(3), f(4), f(5), f(6)}
}

// What a policy says comes to the server in microseconds, rounded up, and with an end.
func TestAppendRule(t *testing.T) {
	const years = math.MaxInt64
	for _, x := range []struct {
		name       string
		rule       guard.Rule
		partitions int
		want       told
	}{
		{"login", guard.Rule{Lockout: &lockout.Policy{FreeFailures: 5, Window: time.Minute, FirstLockout: time.Second, MaxLockout: time.Hour, Capacity: 100}}, 64,
			told{1, 0, 2, 65_536, 60e6, 3660e6, 5, 1e6, 3600e6, 60e6, math.MaxInt32}},
		{"nanoseconds", guard.Rule{Lockout: &lockout.Policy{FreeFailures: 2, Window: 1001, FirstLockout: 1, MaxLockout: 1000, Lease: 999, OnSuccess: lockout.TakeBack, Capacity: 64, InFlight: 1}}, 64,
			told{1, takeBack, 1, 1, 1, 3, 2, 1, 1, 2, math.MaxInt32}},
		{"decay", guard.Rule{Lockout: &lockout.Policy{FreeFailures: 7, Window: time.Second, FirstLockout: 3 * time.Second, MaxLockout: 20 * time.Second, Decay: true, Capacity: 1}}, 1,
			told{1, decay, 1, 65_536, 1e6, 20e6 + 10*142_858, 7, 3e6, 20e6, 142_858, 10}},
		{"for ever", guard.Rule{Lockout: &lockout.Policy{FreeFailures: 65_535, Window: years, FirstLockout: years, MaxLockout: years, Decay: true}}, 1,
			told{1, decay, 65_536, 65_536, 60e6, 2 * longest, 65_535, longest, longest, 140_739_635_872, 65_535}},
		{"throttle", guard.Rule{Throttle: &throttle.Policy{Window: 1}}, 1,
			told{2, 0, 4096, 65_536, 60e6, 1, 5, 100, 1, 0, 0}},
		{"fixed", guard.Rule{Window: &window.Policy{Limit: 3, Window: 1500}}, 64,
			told{3, 0, 1024, 65_536, 60e6, 2, 3, 2, 0, 2, 0}},
		{"sliding", guard.Rule{Window: &window.Policy{Limit: 3, Window: 9 * time.Microsecond, Sliding: true}}, 64,
			told{3, 0, 1024, 65_536, 60e6, 18, 3, 2, 8, 9, 0}},
	} {
		c, err := guard.Config{Rules: []guard.Rule{x.rule}}.Complete()
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		r := c.Rules[0]
		if r.Lockout != nil {
			r.Lockout.OnSuccess = x.rule.Lockout.OnSuccess
		}
		if got := read(t, AppendRule(nil, &r, x.partitions)); got != x.want {
			t.Errorf("%s:\n got %+v\nwant %+v", x.name, got, x.want)
		}
	}
}

// Libraries that differ do not meet, and the server's asks nobody else for the time.
func TestNew(t *testing.T) {
	server, test := New(ServerClock), New("local function clock(args) return 0 end")
	if server.Reserve == test.Reserve || server.Text == test.Text {
		t.Error("two libraries have one name")
	}
	if !strings.HasPrefix(server.Text, "#!lua name="+strings.TrimSuffix(server.Reserve, "_reserve")+"\n") || strings.Contains(server.Text, "@") {
		t.Errorf("not filled in:\n%.200s", server.Text)
	}
	if !strings.Contains(server.Text, "local function clock()\n  local t = call('TIME')") {
		t.Error("the server is not asked what time it is")
	}
}
