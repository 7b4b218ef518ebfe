package reader

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
)

// story writes records as a table of tests can hold them: seconds since the first
// line, address, name, outcome, and how many.
func story(got []Record, start time.Time) []string {
	var s []string
	for _, r := range got {
		line := fmt.Sprintf("%d %s %s %s", int(r.Time.Sub(start).Seconds()), r.Addr, r.Subject, r.Outcome)
		if r.Repeat != 1 {
			line += fmt.Sprintf(" x%d", r.Repeat)
		}
		s = append(s, line)
	}
	return s
}

// sshdLog writes lines of seconds, host, program and message as a system log.
func sshdLog(rows ...string) string {
	var b strings.Builder
	for _, row := range rows {
		var second int
		rest := row
		if _, err := fmt.Sscanf(row, "%d", &second); err == nil {
			_, rest, _ = strings.Cut(row, " ")
		}
		fmt.Fprintf(&b, "%s %s\n", sshdStart.Add(time.Duration(second)*time.Second).Format(time.Stamp), rest)
	}
	return b.String()
}

var sshdStart = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// sshdStories are logs and what is in them. Without a survey they say the same.
var sshdStories = []struct {
	name string
	log  []string
	want []string
}{
	{"a failure for each Failed line, whatever the method", []string{
		"0 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2",
		"1 a sshd[1]: Failed none for invalid user bob from 192.0.2.1 port 4 ssh2",
		"2 a sshd[1]: Failed keyboard-interactive/pam for illegal user x y from 2001:db8::1 port 4 ssh2",
		"3 a sshd[1]: Failed publickey for eve from ::ffff:192.0.2.2 port 4 ssh2: RSA SHA256:abc",
		"4 a sshd-session[1]: Failed password for invalid user  from 192.0.2.1 port 4 ssh2",
		"5 a sshd[1]: Failed to open session",
		"6 a sshd[1]: error: Failed none for root from 192.0.2.1 port 4 ssh2 [preauth]",
		"7 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh1",
	}, []string{
		"0 192.0.2.1 root failed", "1 192.0.2.1 bob failed", "2 2001:db8::1 x y failed", "3 192.0.2.2 eve failed", "4 192.0.2.1  failed",
		"6 192.0.2.1 root failed", "7 192.0.2.1 root failed",
	}},
	{"repeated messages count as often, at their time", []string{
		"0 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2",
		"9 a sshd[1]: message repeated 5 times: [ Failed password for root from 192.0.2.1 port 4 ssh2]",
		"9 a sshd[1]: message repeated 2 times: [ Accepted password for root from 192.0.2.1 port 4 ssh2]",
		"9 a sshd[1]: message repeated 2 times: [ Connection closed by 192.0.2.9 port 4 [preauth]]",
		"9 a sshd[1]: message repeated 0 times: [ Failed password for root from 192.0.2.1 port 4 ssh2]",
	}, []string{"0 192.0.2.1 root failed", "9 192.0.2.1 root failed x5", "9 192.0.2.1 root succeeded x2"}},
	{"successes", []string{
		"0 a sshd[1]: Accepted publickey for ann from 192.0.2.1 port 4 ssh2: ED25519 SHA256:abc",
		"1 a sshd[2]: Accepted password for ann from 192.0.2.1 port 5 ssh2",
	}, []string{"0 192.0.2.1 ann succeeded", "1 192.0.2.1 ann succeeded"}},
	{"with Failed lines nothing else is a failure", []string{
		"0 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"0 a sshd[1]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.1",
		"2 a sshd[1]: Failed password for invalid user bob from 192.0.2.1 port 4 ssh2",
		"3 a sshd[1]: Connection closed by invalid user bob 192.0.2.1 port 4 [preauth]",
		"3 a sshd[1]: PAM 2 more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.1",
		"4 a sshd(pam_unix)[7]: authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.1  user=root",
	}, []string{"2 192.0.2.1 bob failed"}},
	{"sshd(pam_unix) of old, without Failed lines", []string{
		"0 a sshd(pam_unix)[7]: check pass; user unknown",
		"0 a sshd(pam_unix)[7]: authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.1 ",
		"1 a sshd(pam_unix)[8]: authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.2  user=root",
		"2 a sshd(pam_unix)[8]: 2 more authentication failures; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.2  user=root",
		"3 a sshd(pam_unix)[9]: authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=host.example.com  user=root",
		"4 a sshd[9]: Connection closed by 192.0.2.2 port 4 [preauth]",
	}, []string{"0 192.0.2.1  failed", "1 192.0.2.2 root failed"}},
	{"a Failed line anywhere ends sshd(pam_unix), on every host", []string{
		"0 a sshd(pam_unix)[7]: authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.1",
		"1 b sshd[1]: Failed password for root from 192.0.2.9 port 4 ssh2",
	}, []string{"1 192.0.2.9 root failed"}},
	{"one for each process, at its first line", []string{
		"0 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"0 a sshd[1]: input_userauth_request: invalid user bob [preauth]",
		"2 a sshd[1]: Connection closed by invalid user bob 192.0.2.1 port 4 [preauth]",
		"3 a sshd[2]: Connection reset by 192.0.2.1 port 5 [preauth]",
		"4 a sshd[3]: Disconnected from authenticating user root 192.0.2.1 port 6 [preauth]",
		"5 a sshd[4]: Received disconnect from 192.0.2.1: 11: Bye Bye [preauth]",
		"6 a sshd[4]: Disconnected from 192.0.2.1 port 7 [preauth]",
		"6 a sshd[5]: Unable to negotiate with 192.0.2.1 port 8: no matching cipher found. Their offer: x [preauth]",
		"7 a sshd[6]: error: maximum authentication attempts exceeded for invalid user bob from 192.0.2.1 port 9 ssh2 [preauth]",
		"7 a sshd[6]: Disconnecting invalid user bob 192.0.2.1 port 9: Too many authentication failures [preauth]",
		"8 a sshd[7]: fatal: Timeout before authentication for 192.0.2.1 port 10",
		"9 a sshd[8]: Connection closed by 192.0.2.1",
		"9 a sshd[9]: Received disconnect from 192.0.2.1 port 10:11: disconnected by user",
		"9 a sshd[10]: Postponed publickey for ann from 192.0.2.1 port 11 ssh2 [preauth]",
		"9 a sshd[11]: Disconnecting: Too many authentication failures for root [preauth]",
	}, []string{
		"0 192.0.2.1 bob failed", "3 192.0.2.1  failed", "4 192.0.2.1 root failed", "5 192.0.2.1  failed",
		"6 192.0.2.1  failed", "7 192.0.2.1 bob failed", "9 192.0.2.1  failed",
	}},
	{"who is named before the address, and a reason behind it", []string{
		"0 a sshd[1]: Disconnecting authenticating user root 192.0.2.1 port 4: Change of username or service not allowed: (root,ssh-connection) -> (x,ssh-connection) [preauth]",
		"1 a sshd[2]: Disconnecting 192.0.2.2 port 4: Too many authentication failures [preauth]",
		"2 a sshd[3]: ssh_dispatch_run_fatal: Connection from invalid user bob 2001:db8::1 port 4: message authentication code incorrect [preauth]",
		"3 a sshd[4]: Unable to negotiate with authenticating user x y 192.0.2.3 port 4: no matching host key type found. Their offer: 198.51.100.6 [preauth]",
		"4 a sshd[5]: Disconnecting invalid user x 198.51.100.6 port 1: y 192.0.2.1 port 4: Change of username or service not allowed: (a,b) -> (c,d) [preauth]",
		"5 a sshd[6]: Disconnecting authenticating user root 192.0.2.1 port 4: Change of username or service not allowed: (root,b) -> (x 198.51.100.6 port 1:,d) [preauth]",
		"6 a sshd[7]: Disconnecting user ann 192.0.2.1 port 4: bye",
		"7 a sshd[8]: Received disconnect from UNKNOWN port 65535:11: 198.51.100.6 port 1: x [preauth]",
		"7 a sshd[9]: Unable to negotiate with UNKNOWN port 65535: no matching cipher found. Their offer: 198.51.100.6 port 1: [preauth]",
	}, []string{"0 192.0.2.1 root failed", "1 192.0.2.2  failed", "2 2001:db8::1 bob failed", "3 192.0.2.3 x y failed"}},
	{"a key that fails says nothing of passwords, and is one with its process", []string{
		"0 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"1 a sshd[1]: Connection closed by invalid user bob 192.0.2.1 port 4 [preauth]",
		"2 a sshd[2]: Invalid user bob from 192.0.2.1 port 5",
		"3 a sshd[2]: Failed publickey for invalid user bob from 192.0.2.1 port 5 ssh2: RSA SHA256:abc",
		"4 a sshd[2]: Failed publickey for invalid user bob from 192.0.2.1 port 5 ssh2: RSA SHA256:def",
		"5 a sshd[2]: Connection closed by invalid user bob 192.0.2.1 port 5 [preauth]",
		"5 a sshd[2]: Failed publickey for invalid user eve from 192.0.2.1 port 5 ssh2: RSA SHA256:abc",
		"5 a sshd[2]: Failed none for invalid user eve from 192.0.2.2 port 5 ssh2",
		"6 a sshd[3]: Failed publickey for ann from 192.0.2.1 port 6 ssh2: RSA SHA256:abc",
		"7 a sshd[3]: Accepted publickey for ann from 192.0.2.1 port 6 ssh2: RSA SHA256:def",
		"8 a sshd[4]: Invalid user eve from 192.0.2.2 port 7",
		"9 a sshd[4]: Failed hostbased for invalid user eve from 192.0.2.3 port 7 ssh2",
	}, []string{
		"0 192.0.2.1 bob failed", "2 192.0.2.1 bob failed", "4 192.0.2.1 bob failed", "5 192.0.2.1 eve failed", "5 192.0.2.2 eve failed",
		"6 192.0.2.1 ann failed", "7 192.0.2.1 ann succeeded",
		"8 192.0.2.2 eve failed", "9 192.0.2.3 eve failed",
	}},
	{"with a failed password keys count for themselves", []string{
		"0 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"1 a sshd[1]: Failed publickey for invalid user bob from 192.0.2.1 port 4 ssh2: RSA SHA256:abc",
		"2 a sshd[2]: Failed password for root from 192.0.2.2 port 5 ssh2",
	}, []string{"1 192.0.2.1 bob failed", "2 192.0.2.2 root failed"}},
	{"a new one after 600 seconds of silence, not before", []string{
		"0 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"600 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"900 a sshd[1]: pam_unix(sshd:auth): check pass; user unknown",
		"1500 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"2101 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
	}, []string{"0 192.0.2.1 bob failed", "2101 192.0.2.1 bob failed"}},
	{"a process of another host, or of another caller, is another", []string{
		"0 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"1 b sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"2 a sshd[1]: Invalid user bob from 192.0.2.2 port 4",
	}, []string{"0 192.0.2.1 bob failed", "1 192.0.2.1 bob failed", "2 192.0.2.2 bob failed"}},
	{"each host is judged by what it logs", []string{
		"0 a sshd[1]: Invalid user bob from 192.0.2.1 port 4",
		"1 b sshd[1]: Invalid user bob from 192.0.2.2 port 4",
		"2 b sshd[1]: Failed password for invalid user bob from 192.0.2.2 port 4 ssh2",
		"3 c sshd[1]: Accepted password for ann from 192.0.2.3 port 4 ssh2",
	}, []string{"0 192.0.2.1 bob failed", "2 192.0.2.2 bob failed", "3 192.0.2.3 ann succeeded"}},
	{"a session that ends is no failure", []string{
		"0 a sshd[1]: Accepted publickey for ann from 192.0.2.1 port 4 ssh2: RSA SHA256:abc",
		"8 a sshd[2]: Received disconnect from 192.0.2.1 port 4:11: disconnected by user",
		"8 a sshd[2]: Disconnected from user ann 192.0.2.1 port 4",
		"9 a sshd[3]: Disconnected from 192.0.2.1 port 4",
		"9 a sshd[1]: Connection closed by 192.0.2.1 port 4",
		"9 a sshd[4]: Disconnected from 192.0.2.1 port 5",
	}, []string{"0 192.0.2.1 ann succeeded", "9 192.0.2.1  failed"}},
	{"a session that began before the log is none either", []string{
		"8 a sshd[2]: Disconnected from user ann 192.0.2.1 port 4",
	}, nil},
	{"what is repeated of a process is one", []string{
		"0 a sshd[1]: message repeated 3 times: [ Connection closed by 192.0.2.1 port 4 [preauth]]",
	}, []string{"0 192.0.2.1  failed"}},
	{"a name that looks like the end of the line, before a key", []string{
		"0 a sshd[1]: Failed publickey for invalid user x from 198.51.100.6 port 2 ssh2 y from 192.0.2.1 port 4 ssh2: RSA SHA256:abc",
		"1 a sshd[1]: Failed publickey for invalid user x from 198.51.100.6 port 2 ssh2: RSA SHA256:z from 192.0.2.1 port 4 ssh2: RSA SHA256:abc",
		"1 a sshd[1]: Failed publickey for invalid user x from 198.51.100.6 port 2 ssh2: RSA-CERT SHA256:z ID y (serial 1) from 192.0.2.1 port 4 ssh2: RSA SHA256:abc",
		"2 a sshd[1]: Failed hostbased for x from 192.0.2.1 port 4 ssh2: client user \"x from 198.51.100.6 port 2 ssh2\", client host \"y\"",
	}, []string{"0 192.0.2.1 x from 198.51.100.6 port 2 ssh2 y failed", "1 192.0.2.1 x from 198.51.100.6 port 2 ssh2: RSA SHA256:z failed",
		"1 192.0.2.1 x from 198.51.100.6 port 2 ssh2: RSA-CERT SHA256:z ID y (serial 1) failed", "2 192.0.2.1 x failed"}},
	{"names and nothing in the place of an address", []string{
		"0 a sshd[1]: Failed password for root from host.example.com port 4 ssh2",
		"0 a sshd[1]: Failed password for root from UNKNOWN port 65535 ssh2",
		"0 a sshd[1]: Connection closed by UNKNOWN port 65535 [preauth]",
	}, nil},
}

func TestSSHD(t *testing.T) {
	for _, row := range sshdStories {
		log := sshdLog(row.log...)
		got, _ := read(t, "sshd", log, Options{ModTime: asOf})
		if s := story(got, sshdStart); !slices.Equal(s, row.want) {
			t.Errorf("%s:\n got %q\nwant %q", row.name, s, row.want)
		}
		r, err := New("sshd", Options{ModTime: asOf})
		if err != nil {
			t.Fatal(err)
		}
		got, _ = lines(r, log)
		if s := story(got, sshdStart); !slices.Equal(s, row.want) {
			t.Errorf("%s, as a stream:\n got %q\nwant %q", row.name, s, row.want)
		}
	}
}

// TestSSHDForms: one event in every form that system logs have.
func TestSSHDForms(t *testing.T) {
	const text = "Failed password for root from 192.0.2.1 port 4 ssh2"
	for _, head := range []string{
		"Mar  4 05:00:00 a sshd[1]: ",
		"Mar 04 05:00:00 a sshd[1]: ",
		"Mar 4 05:00:00 a sshd[1]: ",
		"Mar 04 05:00:00.250000 a sshd[1]: ",
		"Mar  4 05:00:00 a /usr/sbin/sshd[1]: ",
		"Mar  4 05:00:00 sshd[1]: ",
		"Mar  4 05:00:00 a sshd: ",
		"<38>Mar  4 05:00:00 a sshd[1]: ",
		"2026-03-04T05:00:00+00:00 a sshd[1]: ",
		"2026-03-04T06:00:00.000000+01:00 a sshd-session[1]: ",
		"2026-03-04T05:00:00Z a sshd[1]: ",
		"2026-03-04T06:00:00+0100 a sshd[1]: ",
		"<38>1 2026-03-04T05:00:00.000Z a sshd 1 - - ",
		`<38>1 2026-03-04T05:00:00Z a sshd 1 - [meta x="]\"" y="z"][b] `,
		`2026-03-04T05:00:00Z stdout F Mar  4 05:00:00 a sshd[1]: `,
	} {
		got, skips := read(t, "sshd", head+text, Options{ModTime: asOf})
		if s := story(got, sshdStart); !slices.Equal(s, []string{"0 192.0.2.1 root failed"}) {
			t.Errorf("%q: got %q, %v", head, s, skips)
		}
	}
	for _, line := range []string{
		`{"__REALTIME_TIMESTAMP":"1772600400000000","_HOSTNAME":"a","SYSLOG_IDENTIFIER":"sshd","_PID":"1","MESSAGE":"` + text + `"}`,
		`{"__REALTIME_TIMESTAMP":"1772600400000000","_HOSTNAME":"a","SYSLOG_IDENTIFIER":"sshd","_PID":"1","MESSAGE":[` + strings.Trim(fmt.Sprintln(strings.ReplaceAll(strings.Trim(fmt.Sprint([]byte(text)), "[]"), " ", ",")), "\n") + `]}`,
	} {
		got, skips := read(t, "sshd", line, Options{ModTime: asOf})
		if s := story(got, sshdStart); !slices.Equal(s, []string{"0 192.0.2.1 root failed"}) {
			t.Errorf("%q: got %q, %v", line, s, skips)
		}
	}
}

// TestSSHDSkips: what becomes of lines that are no attempt.
func TestSSHDSkips(t *testing.T) {
	for _, row := range []struct {
		line string
		want Skip
	}{
		{"", NotAttempt},
		{"Mar  4 05:00:00 a cron[1]: Failed password for root from 192.0.2.1 port 4 ssh2", NotAttempt},
		{"Mar  4 05:00:00 a last message repeated 2 times", NotAttempt},
		{"Mar  4 05:00:00 a sshd[1]: Server listening on 0.0.0.0 port 22.", NotAttempt},
		{"Mar  4 05:00:00 a sshd[1]: Failed password for root from 192.0.2.1 po", CutOff},
		{"Mar  4 05:00:00 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ss", CutOff},
		{"Mar  4 05:00:00 a sshd[1]: message repeated 5 times", CutOff},
		{"Mar  4 05:0", CutOff},
		{"0:00 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2", NoTime},
		{"Mar 32 05:00:00 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2", NoTime},
		{"Feb 30 05:00:00 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2", NoTime},
		{"Mar  4 25:00:00 a sshd[1]: Failed password for root from 192.0.2.1 port 4 ssh2", NoTime},
		{"Mar  4 05:00:00 a sshd[1]: Failed password for root from host port 4 ssh2", NoAddress},
		{`{"__REALTIME_TIMESTAMP":"1772600400000000","MESSAGE":"Fai`, CutOff},
		{`{"MESSAGE":"Failed"}`, NoTime},
		{strings.Repeat("x", MaxLine+1), TooLong},
	} {
		got, skips := read(t, "sshd", row.line, Options{ModTime: asOf})
		want := map[Skip]int{row.want: 1}
		if row.line == "" {
			want = map[Skip]int{}
		}
		if len(got) > 0 || !maps.Equal(skips, want) {
			t.Errorf("%.100q: got %d records, %v, want %q", row.line, len(got), skips, row.want)
		}
	}
}

// TestHeld: without a survey, what waits has a bound. Past it there is no better line, until
// one comes. The order stays that of the log.
func TestHeld(t *testing.T) {
	const n = maxWaiting + 2
	for _, row := range []struct{ name, candidate string }{
		{"of a host", "Mar  4 05:00:00 a sshd[%d]: Invalid user u%[1]d from 192.0.2.1 port 4\n"},
		{"of the log", "Mar  4 05:00:00 a sshd(pam_unix)[%d]: authentication failure; logname= rhost=192.0.2.1 user=u%[1]d\n"},
	} {
		var log strings.Builder
		for i := range n {
			fmt.Fprintf(&log, row.candidate, i)
		}
		log.WriteString("Mar  4 05:00:01 a sshd[1]: Failed password for root from 192.0.2.9 port 4 ssh2\n")
		fmt.Fprintf(&log, row.candidate, n)
		r, err := New("sshd", Options{ModTime: asOf})
		if err != nil {
			t.Fatal(err)
		}
		got, skips := lines(r, log.String())
		if len(got) != n+1 || skips[NotAttempt] != 1 {
			t.Fatalf("%s: %d records, skips %v, want %d and 1 that is no attempt", row.name, len(got), skips, n+1)
		}
		for i := range n {
			if want := fmt.Sprintf("u%d", i); string(got[i].Subject) != want {
				t.Fatalf("%s: record %d is of %s, want %s", row.name, i, got[i].Subject, want)
			}
		}
		got, _ = read(t, "sshd", log.String(), Options{ModTime: asOf})
		if s := story(got, sshdStart); !slices.Equal(s, []string{"1 192.0.2.9 root failed"}) {
			t.Errorf("%s, surveyed: got %d records, want the one that failed", row.name, len(s))
		}
	}
}

// TestHeldQueue: while one host's line waits at the head, all that follow it do, and
// leave in order.
func TestHeldQueue(t *testing.T) {
	var h held
	var got []int
	emit := func(rec *Record) { got = append(got, rec.Repeat) }
	n := 0
	put := func(c condition, host string) {
		n++
		h.put(&Record{Repeat: n}, c, []byte(host), emit)
	}
	put(ifHost, "a")
	for range maxWaiting - 1 {
		put(ifHost, "b")
	}
	if len(got) != 0 {
		t.Fatalf("%d records were emitted, want none", len(got))
	}
	put(always, "c") // one too many: a has no better line, and b's waits on
	if !slices.Equal(got, []int{1}) {
		t.Fatalf("emitted %d records, want the first", len(got))
	}
	h.saw([]byte("b"))
	put(ifHost, "a")
	put(ifHost, "b")
	if want := []int{1, maxWaiting + 1, maxWaiting + 2}; !slices.Equal(got, want) {
		t.Errorf("emitted %v, want %v", got, want)
	}
	if len(h.queue) != 0 {
		t.Errorf("%d records wait, want none", len(h.queue))
	}
	h, got = held{}, nil
	for i := range 300_000 {
		if i%1000 == 0 {
			put(ifHost, fmt.Sprint(i))
		} else {
			put(always, "c")
		}
	}
	h.close(emit)
	if len(got) != 300_000 || !slices.IsSorted(got) {
		t.Errorf("emitted %d records, in order: %t, want 300000", len(got), slices.IsSorted(got))
	}
	if cap(h.queue) > 4*maxWaiting {
		t.Errorf("room for %d records, want at most %d", cap(h.queue), 4*maxWaiting)
	}
}

// TestHeldHosts: hosts that are known have a bound. Past it they are one: with better
// lines, if any has some.
func TestHeldHosts(t *testing.T) {
	var h held
	for i := range maxHosts + 10 {
		h.better = true
		h.saw([]byte(fmt.Sprint(i)))
	}
	if len(h.hosts) != maxHosts {
		t.Errorf("%d hosts are known, want %d", len(h.hosts), maxHosts)
	}
	if met, known := h.known(ifHost, []byte("other")); met || !known {
		t.Errorf("another host: got %t, %t, want false, true", met, known)
	}
}

// TestPids: processes and callers that are remembered have a bound.
func TestPids(t *testing.T) {
	var p pids
	var q peers
	addr := parseNode([]byte("192.0.2.1"))
	for i := range 3 * maxPids {
		m := message{time: sshdStart, pid: []byte(fmt.Sprint(i))}
		if !p.first(m, addr) {
			t.Fatalf("process %d was counted", i)
		}
		q.add(addr, []byte(fmt.Sprint(i%65536)))
	}
	if n := len(p.now) + len(p.before); n > 2*maxPids {
		t.Errorf("%d processes, want at most %d", n, 2*maxPids)
	}
	if n := len(q.now) + len(q.before); n > 2*maxPids {
		t.Errorf("%d peers, want at most %d", n, 2*maxPids)
	}
	if p.first(message{time: sshdStart, pid: []byte(fmt.Sprint(3*maxPids - 1))}, addr) {
		t.Error("the last process is forgotten")
	}
}

func TestOutcomesOfSSHD(t *testing.T) {
	got, _ := read(t, "sshd", sshdLog("0 a sshd[1]: Accepted password for ann from 192.0.2.1 port 4 ssh2"), Options{ModTime: asOf})
	if len(got) != 1 || got[0].HTTP || got[0].Service != "sshd" || got[0].Outcome != doorward.Succeeded || got[0].Repeat != 1 {
		t.Errorf("got %+v", got)
	}
}
