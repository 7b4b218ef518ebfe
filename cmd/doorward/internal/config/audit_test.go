package config

import (
	"reflect"
	"strings"
	"testing"
)

// What is not said has a value, and what is said wrong has a place.
func TestAudit(t *testing.T) {
	if mustParse(t, good).Audit != nil {
		t.Error("there is a log that nobody asked for")
	}
	c := mustParse(t, good+"audit: {file: testdata/audit.log}\n")
	if want := (Audit{File: "testdata/audit.log", Mode: 0o600, V4: 32, V6: 64, Request: true, Burst: 1000, PerSecond: 100, MaxSize: 100 << 20, Keep: 5}); !reflect.DeepEqual(*c.Audit, want) {
		t.Errorf("got  %+v\nwant %+v", *c.Audit, want)
	}
	if c := mustParse(t, good+"audit: {file: testdata/audit.log, key_file: testdata/new.key, request: true}\n"); len(c.Audit.Key) != 1 || !c.Audit.Request {
		t.Errorf("got %+v", c.Audit)
	}
	for _, row := range []struct{ text, rest string }{
		{"{attempts: true}", "8: audit.file: is missing: must be the file that lines are written to, such as audit.log"},
		{"{file: none/a}", "15: audit.file: must be in a directory that exists, got none/a"},
		{"{file: testdata}", "15: audit.file: must be a regular file, got testdata"},
		{"{file: /dev/null}", "15: audit.file: must be a regular file, got /dev/null"},
		{"{file: testdata/new.key, key_file: testdata/new.key}", "43: audit.key_file: must be another file than audit.file, got testdata/new.key"},
		{"{file: testdata/a, key_file: testdata/short.key}", "37: audit.key_file: must hold a key of at least 32 bytes in base64, there are 31, got testdata/short.key"},
		{"{file: testdata/a, mode: 0600}", `33: audit.mode: must be the mode of a file in quotes such as "0660", got 0600`},
		{"{file: testdata/a, attempts: 1}", "37: audit.attempts: must be true or false, got 1"},
		{"{file: testdata/a, request: maybe}", "36: audit.request: must be true or false, got maybe"},
		{"{file: testdata/a, redact: 24}", "35: audit.redact: must be a mapping with ipv4, ipv6, got 24"},
		{"{file: testdata/a, redact: {ipv4: 33}}", "42: audit.redact.ipv4: must be 1 to 32, got 33"},
		{"{file: testdata/a, redact: {ipv6: 65}}", "42: audit.redact.ipv6: must be 1 to 64, got 65"},
		{"{file: testdata/a, redact: {ipv4: 0}}", "42: audit.redact.ipv4: must be positive (leave it out for the default), got 0"},
		{"{file: testdata/a, burst: 100001}", "34: audit.burst: must be 1 to 100000, got 100001"},
		{"{file: testdata/a, per_second: 10001}", "39: audit.per_second: must be 1 to 10000, got 10001"},
		{"{file: testdata/a, max_size: 1048575}", "37: audit.max_size: must be 1MiB to 1024GiB, got 1048575 bytes"},
		{"{file: testdata/a, keep: 101}", "33: audit.keep: must be 1 to 100, got 101"},
		{"{file: testdata/a, persecond: 1}", "27: audit.persecond: unknown key, did you mean per_second?"},
		{"{file: testdata/a}\nstate: {file: ./testdata/a, key_file: testdata/new.key}", "15: audit.file: must be another file than state.file, got testdata/a"},
	} {
		text := good + "audit: " + row.text + "\n"
		_, err := Parse(name, []byte(text), Overrides{})
		if err == nil || !strings.Contains(err.Error(), ":"+row.rest) {
			t.Errorf("%s: %v, want %s", row.text, err, row.rest)
		}
	}
}
