package doorward_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/doorward/doorward"
)

// D1: what nobody filled in lets nobody through, and nobody off.
func TestZeroValues(t *testing.T) {
	if (doorward.Decision{}).Allowed {
		t.Error("the zero Decision allows")
	}
	if doorward.Outcome(0) != doorward.Failed {
		t.Error("the zero Outcome is not Failed")
	}
	if (doorward.Key{}) != doorward.KeyFromAddr(netip.Addr{}) {
		t.Error("the zero Key is not Unknown")
	}
}

// D5: the words of logs, metrics and JSON.
func TestWords(t *testing.T) {
	words[doorward.Reason](t, "", "locked", "busy", "spent", "ceiling", "blocked", "unavailable")
	words[doorward.Outcome](t, "failed", "succeeded", "malformed", "void")
	for _, row := range []struct {
		got  fmt.Stringer
		want string
	}{
		{doorward.Locked, "locked"}, {doorward.Busy, "busy"}, {doorward.Spent, "spent"}, {doorward.Ceiling, "ceiling"},
		{doorward.Blocked, "blocked"}, {doorward.Unavailable, "unavailable"}, {doorward.Reason(99), "Reason(99)"},
		{doorward.Failed, "failed"}, {doorward.Succeeded, "succeeded"}, {doorward.Malformed, "malformed"},
		{doorward.Void, "void"}, {doorward.Outcome(99), "Outcome(99)"},
	} {
		if row.got.String() != row.want {
			t.Errorf("%#v is %q, want %q", row.got, row.got, row.want)
		}
	}
}

// words checks that the values 0, 1, ... of T and no others go to these JSON words and
// back.
func words[T ~uint8](t *testing.T, want ...string) {
	t.Helper()
	for i, w := range want {
		b, err := json.Marshal(T(i))
		if err != nil || string(b) != `"`+w+`"` {
			t.Errorf("%T %d is %s, %v, want %q", T(0), i, b, err, w)
		}
		var back T
		if err := json.Unmarshal(b, &back); err != nil || back != T(i) {
			t.Errorf("%s is %T %d, %v, want %d", b, back, back, err, i)
		}
	}
	if b, err := json.Marshal(T(len(want))); err == nil {
		t.Errorf("%T %d has the word %s", T(0), len(want), b)
	}
	v := T(1)
	if err := json.Unmarshal([]byte(`"Locked"`), &v); err == nil || v != 1 {
		t.Errorf("a word in capitals is %T %d", v, v)
	}
}

func ExampleKeyFromAddr() {
	for _, s := range []string{"192.0.2.7", "::ffff:192.0.2.7", "2001:db8:1:2::a", "2001:db8:1:2::b", "127.8.9.10", "0.0.0.0"} {
		fmt.Println(s, "counts as", doorward.KeyFromAddr(netip.MustParseAddr(s)))
	}
	// Output:
	// 192.0.2.7 counts as 192.0.2.7
	// ::ffff:192.0.2.7 counts as 192.0.2.7
	// 2001:db8:1:2::a counts as 2001:db8:1:2::/64
	// 2001:db8:1:2::b counts as 2001:db8:1:2::/64
	// 127.8.9.10 counts as 127.0.0.1
	// 0.0.0.0 counts as unknown
}

func ExampleKeyFromPrefix() {
	a := netip.MustParseAddr("192.0.2.7")
	fmt.Println(doorward.KeyFromPrefix(a, 24, 48))
	// Output: 192.0.2.0/24
}
