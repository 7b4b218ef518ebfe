package reader

import (
	"bytes"
	"encoding/csv"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// A hubLog is the log of a test of CrowdSec's hub.
type hubLog struct {
	format, test string
	records      int            // that we find
	skips        map[Skip]int   // lines without one
	missing      map[int]string // events that we do not find, and why
	extra        string         // why we find more than is published
}

const (
	errorLog    = "a line of the error log: the format is the access log"
	forwarded   = "Envoy's text form has only X-Forwarded-For, which callers write"
	noAttempt   = "nobody tried to log in"
	runtime     = "states only when the container runtime wrote the line"
	unaddressed = "has no address, so no rule on addresses can be tried"
	unstated    = "the hub states no events of this log"
)

var hub = []hubLog{
	{format: "combined", test: "actual-budget-whitelist", records: 9},
	{format: "combined", test: "apache2-logs", records: 7, skips: map[Skip]int{Unreadable: 2}, extra: unstated},
	{format: "combined", test: "bunkerweb-logs", records: 5},
	{format: "combined", test: "calibre-web-whitelist", records: 16},
	{format: "combined", test: "cri-logs", records: 3, missing: map[int]string{0: runtime, 1: runtime, 2: runtime}, extra: runtime},
	{format: "combined", test: "docker-logs", records: 3, extra: unstated},
	{format: "combined", test: "http-bf-wordpress-bf", records: 9, skips: map[Skip]int{NotAttempt: 1}, extra: unstated},
	{format: "combined", test: "ipv6-postoverflow", records: 2, extra: unstated},
	{format: "combined", test: "jellyfin-whitelist", records: 5},
	{format: "combined", test: "jellyseerr-whitelist", records: 5},
	{format: "combined", test: "nextcloud-whitelist", records: 18, skips: map[Skip]int{NotAttempt: 1}},
	{format: "combined", test: "nginx-http-generic-bf", records: 6, skips: map[Skip]int{Unreadable: 16}, extra: unstated},
	{format: "combined", test: "nginx_http-logs", records: 8, skips: map[Skip]int{Unreadable: 1}, missing: map[int]string{8: errorLog}},
	{format: "combined", test: "overseerr-whitelist", records: 5},
	{format: "combined", test: "rocketchat-whitelist", records: 3},
	{format: "traefik", test: "traefik_clf", records: 7, skips: map[Skip]int{NotAttempt: 2}},
	{format: "traefik", test: "traefik_json", records: 6, skips: map[Skip]int{Unreadable: 1}},
	{format: "caddy", test: "caddy-basic-auth-bf", records: 6, extra: unstated},
	{format: "caddy", test: "caddy-logs", records: 10, skips: map[Skip]int{NotAttempt: 2}},
	{format: "haproxy", test: "haproxy-logs", records: 2, skips: map[Skip]int{NotAttempt: 3}},
	{format: "haproxy", test: "haproxy-nextcloud-whitelist", records: 1, missing: map[int]string{1: "the one line, stated twice"}},
	{format: "envoy", test: "envoy-logs", records: 6, skips: map[Skip]int{NoAddress: 4}, missing: map[int]string{3: forwarded, 4: forwarded, 8: forwarded, 9: forwarded}},
	{format: "alb", test: "aws-alb-logs", records: 14},
	{format: "sshd", test: "opnsense-sshd", records: 10},
	{format: "sshd", test: "ssh-bf", records: 2, skips: map[Skip]int{NotAttempt: 5}, extra: unstated},
	{format: "sshd", test: "ssh-slow-bf", records: 1, skips: map[Skip]int{NotAttempt: 21}, extra: unstated},
	{format: "sshd", test: "ssh-time-based-bf", records: 15, extra: unstated},
	{format: "sshd", test: "ssh-timeout", records: 1, skips: map[Skip]int{NotAttempt: 7}, extra: unstated},
	{format: "sshd", test: "sshd-bad-keyexchange-bf", records: 3, skips: map[Skip]int{NotAttempt: 16}, extra: unstated},
	{format: "sshd", test: "sshd-invalid-bf", records: 6},
	{format: "sshd", test: "sshd-logs", records: 12, skips: map[Skip]int{NotAttempt: 12}, extra: unstated},
	{format: "sshd", test: "sshd-logs-fp", skips: map[Skip]int{NotAttempt: 6}},
	{format: "sshd", test: "sshd-refused-conn", skips: map[Skip]int{NotAttempt: 1}},
	{format: "sshd", test: "sshd-success-logs", records: 4},
	{format: "sshd", test: "sshd_banner_exchange", skips: map[Skip]int{NotAttempt: 13}},
	{format: "sshd", test: "syslog-logs", records: 1, skips: map[Skip]int{NotAttempt: 3}, extra: unstated},
	{format: "sshd", test: "whitelists", records: 4},
	{format: "dovecot", test: "dovecot-logs", records: 12, skips: map[Skip]int{NotAttempt: 3}, extra: unstated},
	{format: "dovecot", test: "dovecot-slow-bf", records: 4},
	{format: "dovecot", test: "dovecot-slow-bf-no-overlap", records: 4},
	{format: "dovecot", test: "dovecot-slow-bf-user-enum", records: 4},
	{format: "dovecot", test: "dovecot-time-based-bf", records: 4},
	{format: "dovecot", test: "dovecot-time-based-bf-user-enum", records: 4},
	{format: "postfix", test: "postfix-logs", records: 1, skips: map[Skip]int{NotAttempt: 6},
		missing: map[int]string{1: noAttempt, 2: noAttempt, 3: noAttempt, 4: noAttempt, 5: noAttempt, 6: noAttempt}},
	{format: "postfix", test: "postfix-sasl-bf", records: 3, extra: unstated},
	{format: "vaultwarden", test: "vaultwarden-bf", records: 28, extra: unstated},
	{format: "vaultwarden", test: "vaultwarden-logs", records: 32},
	{format: "nextcloud", test: "nextcloud-bf", records: 6, skips: map[Skip]int{NotAttempt: 13}, extra: unstated},
	{format: "nextcloud", test: "nextcloud-logs", records: 3, skips: map[Skip]int{NotAttempt: 2},
		missing: map[int]string{1: "says again that a login failed", 2: noAttempt}},
	{format: "homeassistant", test: "home-assistant", records: 14},
	{format: "keycloak", test: "keycloak-bf", records: 10, extra: unstated},
	{format: "keycloak", test: "keycloak-logs", records: 7},
	{format: "keycloak", test: "keycloak-slow-bf", records: 12, extra: unstated},
	{format: "authelia", test: "authelia-logs", records: 30},
	{format: "authentik", test: "authentik-bf", records: 24, skips: map[Skip]int{NotAttempt: 1}, extra: unstated},
	{format: "authentik", test: "authentik-logs", records: 3, extra: "a success, which the hub does not look for"},
	{format: "grafana", test: "grafana-bf", records: 36, skips: map[Skip]int{NotAttempt: 1}, extra: unstated},
	{format: "grafana", test: "grafana-logs", records: 7, skips: map[Skip]int{NoAddress: 2}, missing: map[int]string{2: unaddressed, 5: unaddressed}},
	{format: "gitea", test: "gitea-bf", records: 60, extra: unstated},
	{format: "gitea", test: "gitea-logs", records: 7},
}

// asOf is after the last line of every log.
var asOf = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// read reads a log as replay does: a survey first, where it is of use.
func read(t testing.TB, format, log string, o Options) (got []Record, skips map[Skip]int) {
	t.Helper()
	r, err := New(format, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Surveys() {
		for line := range strings.Lines(log) {
			r.Survey([]byte(strings.TrimSuffix(line, "\n")))
		}
	}
	return lines(r, log)
}

// lines reads a log without a survey. All lines are in one buffer, one after the other.
func lines(r *Reader, log string) (got []Record, skips map[Skip]int) {
	skips = map[Skip]int{}
	keep := func(rec *Record) { got = append(got, clone(rec)) }
	var buffer []byte
	for line := range strings.Lines(log) {
		before := len(got)
		buffer = append(buffer[:0], strings.TrimSuffix(line, "\n")...)
		skip := r.Line(buffer, keep)
		if skip != Read || len(got) == before {
			skips[skip]++
		}
	}
	r.Close(keep)
	return got, skips
}

func clone(rec *Record) Record {
	c := *rec
	for _, p := range []*[]byte{&c.Subject, &c.Method, &c.Host, &c.Target, &c.UserAgent, &c.Location} {
		*p = bytes.Clone(*p)
	}
	return c
}

// TestHub holds the readers against what CrowdSec's hub publishes: every event of every
// claimed format is found, at its time and address, but for those with a reason; and
// nothing else is, without one.
func TestHub(t *testing.T) {
	events := map[string][][]string{}
	for _, row := range table(t, "testdata/crowdsec/events.tsv") {
		events[row[0]] = append(events[row[0]], row[1:])
	}
	sums := map[string]*sum{}
	for _, h := range hub {
		s := sums[h.format]
		if s == nil {
			s = &sum{missing: map[string]int{}}
			sums[h.format] = s
		}
		s.logs++
		s.records += h.records
		s.events += len(events[h.test])
		for _, why := range h.missing {
			s.missing[why]++
		}
		t.Run(h.test, func(t *testing.T) {
			log, err := os.ReadFile(filepath.Join("testdata/crowdsec", h.test+".log"))
			if err != nil {
				t.Fatal(err)
			}
			got, skips := read(t, h.format, string(log), Options{ModTime: asOf})
			if len(got) != h.records {
				t.Errorf("%d records, want %d", len(got), h.records)
			}
			if !maps.Equal(skips, h.skips) && len(skips)+len(h.skips) > 0 {
				t.Errorf("skips are %v, want %v", skips, h.skips)
			}
			for i, e := range events[h.test] {
				at := slices.IndexFunc(got, func(r Record) bool { return isEvent(t, r, e) })
				switch why, excused := h.missing[i]; {
				case excused && why == "":
					t.Errorf("event %d is missing without a reason", i)
				case excused:
				case at < 0:
					t.Errorf("event %d is not found: %q", i, e)
				default:
					got = slices.Delete(got, at, at+1)
				}
			}
			for i, why := range h.missing {
				if i >= len(events[h.test]) {
					t.Errorf("there is no event %d that could be missing because it %s", i, why)
				}
			}
			if (len(got) > 0) != (h.extra != "") {
				t.Errorf("%d records are not published; the reason is %q", len(got), h.extra)
			}
		})
	}
	for test := range events {
		if !slices.ContainsFunc(hub, func(h hubLog) bool { return h.test == test }) {
			t.Errorf("the events of %s are not looked for", test)
		}
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s := sums[name]
		found, words := s.events, []string{}
		for _, why := range slices.Sorted(maps.Keys(s.missing)) {
			found -= s.missing[why]
			words = append(words, strconv.Itoa(s.missing[why])+": "+why)
		}
		rows = append(rows, []string{"`" + name + "`", strconv.Itoa(s.logs), strconv.Itoa(s.records), strconv.Itoa(s.events), strconv.Itoa(found), strings.Join(words, "; ")})
	}
	document.Table(t, formatsDoc, "hub", rows)
}

// A sum is of the logs of one format.
type sum struct {
	logs, records, events int
	missing               map[string]int // by their reason
}

const formatsDoc = "../../../../docs/formats.md"

// isEvent reports whether a record is a published event: index, time, address, type. Some
// of the hub's parsers cut fractions of seconds off.
func isEvent(t *testing.T, r Record, event []string) bool {
	if s := event[1]; s != "" {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Time.Equal(at) && !(at.Nanosecond() == 0 && r.Time.Truncate(time.Second).Equal(at)) {
			return false
		}
	}
	return event[2] == "" || r.Addr == netip.MustParseAddr(event[2])
}

// table reads a file of values with tabs between them.
func table(t testing.TB, name string) [][]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := csv.NewReader(f)
	c.Comma, c.Comment = '\t', '#'
	rows, err := c.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestHubDetect: each log is known for what it is. Where lines of another format are in
// it, its own are more.
func TestHubDetect(t *testing.T) {
	const quiet = "Mar  4 05:00:00 a cron[1]: x\nMar  4 05:00:00 a sshd[1]: Server listening on 0.0.0.0 port 22.\n"
	if name, ok := Detect([]byte(quiet)); name != "sshd" || !ok {
		t.Errorf("a log without attempts is detected as %q, %t, want sshd", name, ok)
	}
	if name, ok := Detect([]byte("Mar  4 05:00:00 a cron[1]: x\n")); ok {
		t.Errorf("a log of cron is detected as %q", name)
	}
	for _, h := range hub {
		log, err := os.ReadFile(filepath.Join("testdata/crowdsec", h.test+".log"))
		if err != nil {
			t.Fatal(err)
		}
		name, ok := Detect(log)
		if want := h.records > 0 || h.format == "sshd"; ok != want || ok && name != h.format {
			t.Errorf("%s: is detected as %s, %s, want %s, %s", h.test, name, strconv.FormatBool(ok), h.format, strconv.FormatBool(want))
		}
	}
}
