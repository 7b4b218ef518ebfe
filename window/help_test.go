package window_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/window"
)

// start is when every history begins: second 0.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var (
	loopback4 = doorward.KeyFromAddr(netip.MustParseAddr("127.0.0.1"))
	loopback6 = doorward.KeyFromAddr(netip.MustParseAddr("::1"))
)

// address is the key of the i-th address of 10.0.0.0/8.
func address(i int) doorward.Key {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|uint32(i))
	return doorward.KeyFromAddr(netip.AddrFrom4(b))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// seconds reads exact seconds, as in "31.999999999".
func seconds(s string) time.Duration { return must(time.ParseDuration(s + "s")) }

// sec is the instant so many seconds after start.
func sec(s string) time.Time { return start.Add(seconds(s)) }

// policyOf reads "limit=3 window=60 sliding capacity=4 inflight=8", times in seconds.
func policyOf(s string) (p window.Policy) {
	for _, word := range strings.Fields(s) {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "limit":
			p.Limit = must(strconv.Atoi(value))
		case "window":
			p.Window = seconds(value)
		case "capacity":
			p.Capacity = must(strconv.Atoi(value))
		case "inflight":
			p.InFlight = must(strconv.Atoi(value))
		case "sliding":
			p.Sliding = true
		default:
			panic("no such word: " + word)
		}
	}
	return p
}

// A history is a policy and what happens under it, a line each:
//
//	TIME KEY allow [N]            -> ANSWER
//	TIME KEY check                -> ANSWER
//	TIME KEY reserve TICKET       -> ANSWER
//	TIME KEY settle TICKET OUTCOME
//	TIME KEY unlock
//	TIME -   clear
//	TIME -   reload POLICY
//	TIME -   tracked              -> N
//
// An ANSWER is "allowed REMAINING", "spent RETRY-AFTER" or "busy RETRY-AFTER", then
// "overflow" if it is that entry's.
type history struct{ name, policy, lines string }

func (h history) play(t *testing.T) {
	l := must(window.New(policyOf(h.policy)))
	tickets := map[string]doorward.Ticket{"none": {}, "forged": {A: 1, B: 1 << 32}}
	for _, line := range strings.Split(strings.TrimSpace(h.lines), "\n") {
		event, want, _ := strings.Cut(strings.TrimSpace(line), "->")
		if got := perform(l, tickets, strings.Fields(event)); got != strings.TrimSpace(want) {
			t.Errorf("%s\n\tgot %s", strings.TrimSpace(line), got)
		}
	}
}

func perform(l *window.Limiter, tickets map[string]doorward.Ticket, event []string) string {
	at, k, arg := sec(event[0]), keyOf(event[1]), event[3:]
	switch event[2] {
	case "allow":
		if len(arg) == 1 {
			return answer(l.AllowN(k, must(strconv.Atoi(arg[0])), at))
		}
		return answer(l.Allow(k, at))
	case "check":
		return answer(l.Check(k, at))
	case "reserve":
		d, ticket := l.Reserve(k, at)
		tickets[arg[0]] = ticket
		return answer(d)
	case "settle":
		var o doorward.Outcome
		if err := o.UnmarshalText([]byte(arg[1])); err != nil {
			panic(err)
		}
		ticket, ok := tickets[arg[0]]
		if !ok {
			panic("no such ticket: " + arg[0])
		}
		if c := l.Settle(k, ticket, o, at); c != (doorward.Cleared{}) {
			return fmt.Sprintf("cleared %+v", c)
		}
	case "unlock":
		l.Unlock(k)
	case "clear":
		l.Clear()
	case "reload":
		if err := l.Reload(policyOf(strings.Join(arg, " "))); err != nil {
			return err.Error()
		}
	case "tracked":
		return strconv.Itoa(l.Tracked())
	default:
		panic("no such event: " + event[2])
	}
	return ""
}

func keyOf(s string) doorward.Key {
	if a, err := netip.ParseAddr(s); err == nil {
		return doorward.KeyFromAddr(a)
	}
	return doorward.KeyFromName(s)
}

func answer(d doorward.Decision) string {
	s := fmt.Sprint("allowed ", d.Remaining)
	if !d.Allowed {
		s = fmt.Sprint(d.Reason, " ", plain(d.RetryAfter))
		if d.Remaining != 0 {
			s += fmt.Sprint(" remaining ", d.Remaining)
		}
	}
	if d.Overflow {
		s += " overflow"
	}
	return s
}

// plain writes seconds as the histories do.
func plain(d time.Duration) string {
	s := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
