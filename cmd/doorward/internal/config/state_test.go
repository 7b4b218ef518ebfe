package config

import (
	"strings"
	"testing"
)

// The key is read as those of devices are, and never shown.
func TestState(t *testing.T) {
	c := mustParse(t, good+"state: {file: testdata/none.state, key_file: testdata/new.key}\n")
	if c.State == nil || c.State.File != "testdata/none.state" || len(c.State.Key) != 1 || c.State.Every != DefaultStateEvery {
		t.Errorf("got %+v", c.State)
	}
	if mustParse(t, good).State != nil {
		t.Error("there is a state that nobody asked for")
	}
	for _, row := range []struct{ text, rest string }{
		{"{key_file: testdata/new.key}", "8: state.file: is missing: must be the file that counts are kept in, such as doorward.state"},
		{"{file: testdata/a}", "8: state.key_file: is missing: must be a file with one key, as openssl rand -base64 32 prints"},
		{"{file: none/a, key_file: testdata/new.key}", "15: state.file: must be in a directory that exists, got none/a"},
		{"{file: testdata, key_file: testdata/new.key}", "15: state.file: must be a regular file, got testdata"},
		{"{file: testdata/new.key, key_file: testdata/new.key}", "43: state.key_file: must be another file than state.file, got testdata/new.key"},
		{"{file: testdata/a, key_file: testdata/short.key}", "37: state.key_file: must hold a key of at least 32 bytes in base64, there are 31, got testdata/short.key"},
		{"{file: testdata/a, key_file: testdata/none.key}", "37: state.key_file: must be a file that can be read (no such file or directory), got testdata/none.key"},
		{"{file: testdata/a, key_file: testdata/new.key, every: 99ms}", "62: state.every: must be 100ms to 1h, got 99ms"},
		{"{file: testdata/a, key_file: testdata/new.key, every: 1h1s}", "62: state.every: must be 100ms to 1h, got 1h0m1s"},
		{"{file: testdata/a, key_file: testdata/new.key, every: 0s}", "62: state.every: must be positive (leave it out for the default)"},
		{"{file: testdata/a, key_file: testdata/new.key, evry: 1s}", "55: state.evry: unknown key, did you mean every?"},
	} {
		text := good + "state: " + row.text + "\n"
		_, err := Parse(name, []byte(text), Overrides{})
		if err == nil || !strings.Contains(err.Error(), row.rest) {
			t.Errorf("%s: %v, want %s", row.text, err, row.rest)
		}
	}
}
