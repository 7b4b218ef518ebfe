package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

const stamp = `{"time":"2026-01-02T03:04:05.678901Z","event":`

// full has every field.
func full() Record {
	return Record{
		Time: at, Event: Refused, Of: Settled, Door: "login", Realm: "accounts",
		Client: netip.MustParsePrefix("192.0.2.7/32"), How: clientip.Header,
		Subject: Hash{1, 2, 3, 0xfe}, Rule: "burst", Per: "network", Reason: doorward.Locked, RetryAfter: 59500 * time.Millisecond,
		Overflow: true, Outcome: "failed", StepUp: true, Shadow: []string{"a", "b"},
		Lockout: time.Minute, Until: at.Add(time.Minute), Method: "POST", Path: "/login", Agent: "curl/8",
		Key: "name:0123456789", Network: netip.MustParsePrefix("2001:db8::/32"), Action: "block",
		Actor: "eve", Why: "a call", Error: "no", Version: "v1", Config: "abc", Dropped: 7,
	}
}

func network(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// Every line, byte for byte, and what it is read as again.
func TestLine(t *testing.T) {
	for _, row := range []struct {
		r    Record
		want string
	}{
		{full(), stamp + `"refused","of":"settled","door":"login","realm":"accounts","client":"192.0.2.7","how":"header",` +
			`"subject":"010203fe000000000000000000000000","rule":"burst","per":"network","reason":"locked","retry_after":59.5,"overflow":true,` +
			`"outcome":"failed","step_up":true,"shadow":["a","b"],"lockout":60,"until":"2026-01-02T03:05:05.678901Z",` +
			`"method":"POST","path":"/login","agent":"curl/8","key":"name:0123456789","network":"2001:db8::/32","action":"block",` +
			`"actor":"eve","why":"a call","error":"no","version":"v1","config":"abc","dropped":7}`},
		{Record{Time: at, Event: Stopped}, stamp + `"stopped"}`},
		{Record{Time: at, Event: Reloaded, Error: "a \"b\" \\ \n"}, stamp + `"reloaded","error":"a \"b\" \\ \u000a"}`},
		// Whom an attempt is charged to is always there, of others never.
		{Record{Time: at, Event: Refused}, stamp + `"refused","client":"unknown","how":"unknown"}`},
		{Record{Time: at, Event: Locked}, stamp + `"locked","client":"unknown","how":"unknown"}`},
		{Record{Time: at, Event: Settled, Client: network("2001:db8::/64"), How: clientip.Peer}, stamp + `"settled","client":"2001:db8::/64","how":"peer"}`},
		{Record{Time: at, Event: Settled, Client: network("192.0.2.0/24"), How: clientip.Fallback}, stamp + `"settled","client":"192.0.2.0/24","how":"fallback"}`},
		{Record{Time: at, Event: Settled, Client: network("::1/128"), How: clientip.AllTrusted}, stamp + `"settled","client":"::1","how":"all-trusted"}`},
		// Exact seconds, to the end of what there is.
		{Record{Time: at, Event: Stopped, RetryAfter: 1}, stamp + `"stopped","retry_after":0.000000001}`},
		{Record{Time: at, Event: Stopped, RetryAfter: math.MaxInt64}, stamp + `"stopped","retry_after":9223372036.854775807}`},
		{Record{Time: at, Event: Stopped, RetryAfter: 10*time.Second + 10_000_000}, stamp + `"stopped","retry_after":10.01}`},
		{Record{Time: at, Event: Stopped, Dropped: math.MaxUint64}, stamp + `"stopped","dropped":18446744073709551615}`},
		{Record{Event: Stopped}, `{"time":"0001-01-01T00:00:00.000000Z","event":"stopped"}`},
		// Nothing but printable ASCII.
		{Record{Time: at, Event: Stopped, Why: "é\u2028\x7f\x00\U0001f600<&>"}, stamp + `"stopped","why":"\u00e9\u2028\u007f\u0000\ud83d\ude00<&>"}`},
		{Record{Time: at, Event: Stopped, Door: `","event":"locked","client":"192.0.2.9`}, stamp + `"stopped","door":"\",\"event\":\"locked\",\"client\":\"192.0.2.9"}`},
	} {
		line := row.r.AppendLine([]byte("x"))
		if got := string(line); got != "x"+row.want+"\n" {
			t.Errorf("wrote\n%s, want\n%s", got[1:], row.want)
		}
		got, err := Parse(line[1:])
		if err != nil || !reflect.DeepEqual(got, row.r) {
			t.Errorf("%s\nread as %+v, %v", line, got, err)
		}
		if b, err := json.Marshal(row.r); err != nil || !json.Valid(b) || !json.Valid(line[1:]) {
			t.Errorf("%s: no JSON, %v", b, err)
		}
	}
}

// Every field is in the package comment and in the document, in the order of the line.
func TestDocumented(t *testing.T) {
	r := full()
	dec := json.NewDecoder(bytes.NewReader(r.AppendLine(nil)))
	var names []string
	for dec.Token(); dec.More(); {
		name, _ := dec.Token()
		names = append(names, name.(string))
		var skip any
		if err := dec.Decode(&skip); err != nil {
			t.Fatal(err)
		}
	}
	if n := reflect.TypeFor[Record]().NumField(); len(names) != n {
		t.Errorf("%d fields in a line, %d in a Record", len(names), n)
	}
	for file, find := range map[string]*regexp.Regexp{
		"trace.go":         regexp.MustCompile(`(?m)^//\t([a-z_]+) +\S`),
		"../docs/trace.md": regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+) \\| .* \\| .*\\|$"),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range find.FindAllStringSubmatch(string(text), -1) {
			for name := range strings.SplitSeq(strings.ReplaceAll(m[1], "`", ""), ", ") {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, names) {
			t.Errorf("%s has the fields\n%v, want\n%v", file, got, names)
		}
	}
}

// What a line does not hold becomes the nearest that it does.
func TestNearest(t *testing.T) {
	for _, row := range []struct {
		r    Record
		want string
	}{
		{Record{Time: at.Add(999), Event: Stopped}, stamp + `"stopped"}`},
		{Record{Time: at.In(time.FixedZone("", 3600)), Event: Stopped}, stamp + `"stopped"}`},
		{Record{Time: time.Date(12_000, 1, 1, 0, 0, 0, 0, time.UTC), Event: Stopped}, `{"time":"9999-12-31T23:59:59.999999Z","event":"stopped"}`},
		{Record{Time: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), Event: Stopped}, `{"time":"0000-01-01T00:00:00.000000Z","event":"stopped"}`},
		{Record{Time: at, Event: Stopped, RetryAfter: -1, Lockout: math.MinInt64}, stamp + `"stopped"}`},
		{Record{Time: at, Event: Stopped, Network: network("192.0.2.7/24")}, stamp + `"stopped","network":"192.0.2.0/24"}`},
		{Record{Time: at, Event: Stopped, Why: "a\xffb\xe2\x82"}, stamp + `"stopped","why":"a\ufffdb\ufffd\ufffd"}`},
		{Record{Time: at, Event: Stopped, Method: "0123456789abcdef"}, stamp + `"stopped","method":"0123456789abcdef"}`},
		{Record{Time: at, Event: Stopped, Method: "0123456789abcdefg"}, stamp + `"stopped","method":"0123456789abc..."}`},
		{Record{Time: at, Event: Stopped, Method: "0123456789abéfghi"}, stamp + `"stopped","method":"0123456789ab..."}`},
		{Record{Time: at, Event: Stopped, Shadow: []string{}}, stamp + `"stopped"}`},
	} {
		if got := string(row.r.AppendLine(nil)); got != row.want+"\n" {
			t.Errorf("wrote\n%s, want\n%s", got, row.want)
		}
	}
}

// longest returns a record in which every text is too long, and of bytes that take most.
func longest() Record {
	r := full()
	v := reflect.ValueOf(&r).Elem()
	long := strings.Repeat("\x00", 10*MaxText)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.String {
			v.Field(i).SetString(long)
		}
	}
	r.Shadow = nil
	for range 10 * MaxShadow {
		r.Shadow = append(r.Shadow, long)
	}
	return r
}

// The longest line is as long as MaxLine says, and cut texts stay as they are when they
// are written again.
func TestLongest(t *testing.T) {
	r := longest()
	line := r.AppendLine(nil)
	if len(line) > MaxLine || len(line) < MaxLine/2 {
		t.Errorf("%d bytes, and MaxLine is %d", len(line), MaxLine)
	}
	again, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if b := again.AppendLine(nil); !bytes.Equal(b, line) {
		t.Error("another line when it is written again")
	}
	if len(again.Path) != MaxPath || len(again.Agent) != MaxAgent || len(again.Method) != MaxMethod || len(again.Why) != MaxText || len(again.Shadow) != MaxShadow {
		t.Errorf("lengths %d, %d, %d, %d, %d", len(again.Path), len(again.Agent), len(again.Method), len(again.Why), len(again.Shadow))
	}
}

func TestAllocations(t *testing.T) {
	r, long := full(), longest()
	b := make([]byte, 0, 2*MaxLine)
	if n := testing.AllocsPerRun(100, func() { b = long.AppendLine(r.AppendLine(b[:0])) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseErrors(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{``, "a line must be a JSON object"},
		{`[]`, "a line must be a JSON object"},
		{`{"time":`, "a line must be a JSON object: EOF"},
		{stamp + `"stopped"`, "a line must be a JSON object: EOF"},
		{stamp + `"stopped"} {}`, "a line must be one JSON object, there is more"},
		{stamp + `"stopped","time":"2026-01-02T03:04:05Z"}`, "time must be there once"},
		{stamp + `"stopped","new":1,"new":2}`, "new must be there once"},
		{`{"event":"stopped"}`, "time is missing"},
		{`{"time":"2026-01-02T03:04:05Z"}`, "event is missing"},
		{`{"time":1767323045}`, "time must be a time such as 2026-01-02T03:04:05.678901Z, got 1767323045"},
		{`{"time":"yesterday"}`, `time must be a time such as 2026-01-02T03:04:05.678901Z, got "yesterday"`},
		{stamp + `""}`, `event must be a string that is not empty, got ""`},
		{stamp + `"a","door":null}`, "door must be a string, got null"},
		{stamp + `"a","door":{"a":[1]}}`, `door must be a string, got {"a":[1]}`},
		{stamp + `"a","client":"192.0.2.7/24"}`, `client must be a network such as 192.0.2.7 or 2001:db8::/64, got "192.0.2.7/24"`},
		{stamp + `"a","client":"fe80::1%eth0"}`, `client must be a network such as 192.0.2.7 or 2001:db8::/64, got "fe80::1%eth0"`},
		{stamp + `"a","client":""}`, `client must be a network such as 192.0.2.7 or 2001:db8::/64, got ""`},
		{stamp + `"a","how":"guessed"}`, `how must be unknown, peer, header, all-trusted or fallback, got "guessed"`},
		{stamp + `"a","subject":"0102"}`, `subject must be 32 hexadecimal digits, got "0102"`},
		{stamp + `"a","subject":"` + strings.Repeat("0", 34) + `"}`, `subject must be 32 hexadecimal digits, got "0000000000000000000000000000000000"`},
		{stamp + `"a","reason":"tired"}`, `reason must be locked, busy, spent, ceiling, blocked or unavailable, got "tired"`},
		{stamp + `"a","retry_after":"1"}`, `retry_after must be seconds such as 0.5, got "1"`},
		{stamp + `"a","retry_after":-1}`, `retry_after must be seconds such as 0.5, got -1`},
		{stamp + `"a","retry_after":1e3}`, `retry_after must be seconds such as 0.5, got 1e3`},
		{stamp + `"a","retry_after":1.0000000001}`, `retry_after must be seconds such as 0.5, got 1.0000000001`},
		{stamp + `"a","retry_after":9223372036.854775808}`, `retry_after must be seconds such as 0.5, got 9223372036.854775808`},
		{stamp + `"a","lockout":99999999999}`, `lockout must be seconds such as 0.5, got 99999999999`},
		{stamp + `"a","overflow":"true"}`, `overflow must be true or false, got "true"`},
		{stamp + `"a","shadow":"a"}`, `shadow must be a list of strings, got "a"`},
		{stamp + `"a","shadow":["a",null]}`, `shadow must be a list of strings, got ["a",null]`},
		{stamp + `"a","dropped":-1}`, `dropped must be a whole number, got -1`},
		{stamp + `"a","dropped":1.5}`, `dropped must be a whole number, got 1.5`},
		{stamp + `"a","dropped":"1"}`, `dropped must be a whole number, got "1"`},
		{stamp + `"a","door":7000000000000000000000000000000000000000000000000000000000000000}`, `door must be a string, got 700000000000000000000000000000000000000000000000000000000...`},
	} {
		_, err := Parse([]byte(row.line))
		if err == nil || err.Error() != "trace: "+row.want {
			t.Errorf("%s\ngot  %v\nwant trace: %s", row.line, err, row.want)
		}
	}
	// What is not known is skipped, and names are told apart by letter case.
	for _, line := range []string{
		stamp + `"new","added":{"a":[{"b":null}]},"Door":5,"door":"login"}`,
		stamp + "\"new\",\"door\":\"login\" }  \r\n",
		`{"door":"login","event":"new","time":"2026-01-02T04:04:05.678901+01:00"}`,
	} {
		r, err := Parse([]byte(line))
		if want := (Record{Time: at, Event: "new", Door: "login"}); err != nil || !reflect.DeepEqual(r, want) {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
	}
	r := full()
	if err := r.UnmarshalJSON([]byte("{}")); err == nil || !reflect.DeepEqual(r, full()) {
		t.Errorf("an error changed the record: %v", err)
	}
	if err := json.Unmarshal([]byte(stamp+`"stopped"}`), &r); err != nil || r.Event != Stopped || r.Door != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A bad line is an error with its number, and what comes after it is read.
func TestRecords(t *testing.T) {
	edge := func(n int) string { // a line of n bytes, its end included
		s := stamp + `"stopped","new":"`
		return s + strings.Repeat("x", n-len(s)-3) + "\"}\n"
	}
	in := stamp + "\"started\"}\n\n \r\nno\n" + edge(MaxLine) + edge(MaxLine+1) + edge(3*MaxLine) + stamp + `"refused","door":1}` + "\n" + stamp + `"stopped"}`
	want := []string{"started", "trace: line 4: a line must be a JSON object", "stopped",
		fmt.Sprintf("trace: line 6: must be at most %d bytes", MaxLine), fmt.Sprintf("trace: line 7: must be at most %d bytes", MaxLine),
		"trace: line 8: door must be a string, got 1", "stopped"}
	read := func(in io.Reader) (got []string) {
		for r, err := range Records(in) {
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			got = append(got, string(r.Event))
		}
		return got
	}
	if got := read(strings.NewReader(in)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := read(iotest.OneByteReader(strings.NewReader(in))); !reflect.DeepEqual(got, want) {
		t.Errorf("byte by byte: got  %q\nwant %q", got, want)
	}
	broken := io.MultiReader(strings.NewReader(stamp+"\"started\"}\n"), iotest.ErrReader(fmt.Errorf("gone")))
	if got := read(broken); !reflect.DeepEqual(got, []string{"started", "trace: line 2: gone"}) {
		t.Errorf("got %q", got)
	}
	for range Records(strings.NewReader(in)) {
		break // and nothing is yielded after that
	}
}

// The hash is that of openssl: printf '\x02\x00...' | openssl dgst -sha256 -mac HMAC.
func TestHash(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	alice := HashOf(secret, doorward.KeyFromName("alice"))
	if got := alice.String(); got != "2019a5399b98ebdac9e4ca5189a7a435" {
		t.Errorf("alice: %s", got)
	}
	if alice == HashOf(secret, doorward.KeyFromName("bob")) || alice == HashOf([]byte("other"), doorward.KeyFromName("alice")) {
		t.Error("the hash does not depend on name or secret")
	}
	if h := HashOf(secret, doorward.Key{}); h != (Hash{}) || h.String() != "" {
		t.Errorf("no subject: %v", h)
	}
}

// FuzzLine: whatever a record holds is one line of printable ASCII with its fields once,
// which reads as what was written as far as a line holds it, and stays as it is when it
// is written again.
func FuzzLine(f *testing.F) {
	f.Add("login", "/a\nb", "\",\"event\":\"locked\",\"client\":\"192.0.2.9", "\xff\xfe", int64(1), int64(1700000000), []byte{192, 0, 2, 7}, uint8(24), uint8(3), uint64(0))
	f.Add("", strings.Repeat("é", 150), strings.Repeat("\U0001f600", 60), "\\u0022", int64(math.MaxInt64), int64(-1), make([]byte, 16), uint8(64), uint8(0xff), uint64(1))
	f.Fuzz(func(t *testing.T, a, b, c, d string, wait, when int64, addr []byte, bits, some uint8, n uint64) {
		r := Record{
			Time: time.Unix(when, wait), Event: Event("x" + a), Of: Event(b), Door: c, Realm: d,
			How: clientip.How(some % 5), Reason: doorward.Reason(some % 7), RetryAfter: time.Duration(wait), Lockout: time.Duration(when),
			Overflow: some&8 != 0, StepUp: some&16 != 0, Outcome: a, Method: a, Path: b, Agent: c, Rule: d, Per: a,
			Key: b, Action: c, Actor: d, Why: a, Error: b, Version: c, Config: d, Dropped: n,
		}
		if some&1 != 0 {
			r.Event = Refused
			r.Shadow = []string{a, b, c, d}
			r.Until = time.Unix(wait, 0)
		}
		if ip, ok := netip.AddrFromSlice(addr); ok {
			r.Client, _ = ip.Prefix(int(bits) % (ip.BitLen() + 1))
			r.Network = netip.PrefixFrom(ip, int(bits)%(ip.BitLen()+1))
		}
		if len(addr) > 4 {
			copy(r.Subject[:], addr)
		}
		line := r.AppendLine(nil)
		if len(line) > MaxLine || line[len(line)-1] != '\n' {
			t.Fatalf("%d bytes: %q", len(line), line)
		}
		for _, c := range line[:len(line)-1] {
			if c < ' ' || c > '~' {
				t.Fatalf("the byte %#x in %q", c, line)
			}
		}
		got, err := Parse(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if again := got.AppendLine(nil); !bytes.Equal(again, line) {
			t.Fatalf("%q is %q when it is written again", line, again)
		}
		for _, text := range []struct {
			was, is string
			most    int
		}{{c, got.Door, MaxText}, {a, got.Method, MaxMethod}, {b, got.Path, MaxPath}, {c, got.Agent, MaxAgent}, {d, got.Why, 0}} {
			if text.most > 0 && utf8.ValidString(text.was) && len(text.was) <= text.most && text.is != text.was {
				t.Fatalf("%q is read as %q", text.was, text.is)
			}
		}
		if wait > 0 && got.RetryAfter != r.RetryAfter || got.Dropped != n || got.Client != r.Client || got.Subject != r.Subject {
			t.Fatalf("%+v is read as %+v", r, got)
		}
		for _, name := range []string{"time", "event", "client"} {
			if n := bytes.Count(line, []byte(`,"`+name+`":`)) + bytes.Count(line, []byte(`{"`+name+`":`)); n > 1 {
				t.Fatalf("%d fields %s in %q", n, name, line)
			}
		}
	})
}

// FuzzParse: no line makes Parse panic, and what it reads it reads again from what is
// written of it, but for what a line does not hold.
func FuzzParse(f *testing.F) {
	r := full()
	f.Add(r.AppendLine(nil))
	f.Add([]byte(stamp + `"new","added":{"a":[1]},"client":"unknown","retry_after":0.50}`))
	f.Add([]byte(`{"time":"2026-01-02T03:04:05.6789012345+05:00","event":"\ud800","client":"::ffff:1.2.3.4/100"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := Parse(line)
		if err != nil {
			return
		}
		once := r.AppendLine(nil)
		again, err := Parse(once)
		if err != nil {
			t.Fatalf("%q: %v", once, err)
		}
		if twice := again.AppendLine(nil); !bytes.Equal(once, twice) {
			t.Fatalf("%q, then %q", once, twice)
		}
	})
}
