package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docs/serving.md shows files that are right, and the defaults that hold.
func TestServingDocument(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/serving.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"first.pem": "cert.pem", "first.key": "key.pem"} {
		b, err := os.ReadFile("testdata/" + from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 3 {
		t.Errorf("%d files, want 3", len(blocks))
	}
	for _, b := range blocks {
		if _, err := Parse(filepath.Join(dir, name), []byte(top(b[1])), Overrides{}); err != nil {
			t.Errorf("%v\n%s", err, b[1])
		}
	}
	c := mustParse(t, good)
	for key, want := range map[string]string{
		"limits.connections":             strconv.Itoa(c.Limits.Connections),
		"limits.connections_per_network": strconv.Itoa(c.Limits.PerNetwork),
		"limits.in_flight":               strconv.Itoa(c.Limits.InFlight),
		"limits.header_bytes":            showSize(int64(c.Limits.HeaderBytes)),
		"limits.body_bytes":              showSize(c.Limits.BodyBytes),
		"timeouts.read_header":           ShowDuration(c.Timeouts.ReadHeader),
		"timeouts.body":                  ShowDuration(c.Timeouts.Body),
		"timeouts.upstream_response":     ShowDuration(c.Timeouts.Response),
		"timeouts.write":                 ShowDuration(c.Timeouts.Write),
		"timeouts.idle":                  ShowDuration(c.Timeouts.Idle),
		"timeouts.shutdown":              ShowDuration(c.Timeouts.Shutdown),
	} {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(key) + "`[^|]*\\| ([^|]*) \\|").FindStringSubmatch(string(text))
		if row == nil || strings.TrimSpace(row[1]) != want {
			t.Errorf("%s: the document has %q, the default is %s", key, row, want)
		}
	}
}
