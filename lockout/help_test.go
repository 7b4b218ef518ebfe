package lockout_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
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

// policyOf reads "free=3 window=60 first=10 max=35", times in seconds, and the words
// capacity=, inflight=, lease=, decay and takeback.
func policyOf(s string) (p lockout.Policy) {
	for _, word := range strings.Fields(s) {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "free":
			p.FreeFailures = must(strconv.Atoi(value))
		case "window":
			p.Window = seconds(value)
		case "first":
			p.FirstLockout = seconds(value)
		case "max":
			p.MaxLockout = seconds(value)
		case "lease":
			p.Lease = seconds(value)
		case "capacity":
			p.Capacity = must(strconv.Atoi(value))
		case "inflight":
			p.InFlight = must(strconv.Atoi(value))
		case "decay":
			p.Decay = true
		case "takeback":
			p.OnSuccess = lockout.TakeBack
		default:
			panic("no such word: " + word)
		}
	}
	return p
}

// A history is a policy and what happens under it, a line each:
//
//	TIME KEY attempt              -> ANSWER
//	TIME KEY check                -> ANSWER
//	TIME KEY reserve TICKET       -> ANSWER
//	TIME KEY settle TICKET OUTCOME [-> cleared N since TIME]
//	TIME KEY succeeded
//	TIME KEY giveback N since TIME
//	TIME KEY unlock
//	TIME -   clear
//	TIME -   tracked N
//
// An ANSWER is "allowed REMAINING", "locked RETRY-AFTER" or "busy RETRY-AFTER", then
// "overflow" if it is that entry's.
type history struct{ name, policy, lines string }

func (h history) play(t *testing.T) {
	l := must(lockout.New(policyOf(h.policy)))
	tickets := map[string]doorward.Ticket{"none": {}, "forged": {A: 1, B: 1 << 32}}
	for _, line := range strings.Split(strings.TrimSpace(h.lines), "\n") {
		event, want, _ := strings.Cut(strings.TrimSpace(line), "->")
		if got := perform(l, tickets, strings.Fields(event)); got != strings.TrimSpace(want) {
			t.Errorf("%s\n\tgot %s", strings.TrimSpace(line), got)
		}
	}
}

func perform(l *lockout.Limiter, tickets map[string]doorward.Ticket, event []string) string {
	at, k, arg := sec(event[0]), keyOf(event[1]), event[3:]
	switch event[2] {
	case "attempt":
		return answer(l.Attempt(k, at))
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
			return fmt.Sprintf("cleared %d since %s", c.N, plain(c.First.Sub(start)))
		}
	case "succeeded":
		l.Succeeded(k, at)
	case "giveback":
		l.GiveBack(k, doorward.Cleared{N: must(strconv.Atoi(arg[0])), First: sec(arg[2])}, at)
	case "unlock":
		l.Unlock(k)
	case "clear":
		l.Clear()
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
