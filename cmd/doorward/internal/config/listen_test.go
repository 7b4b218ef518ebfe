package config

import (
	"strings"
	"testing"
)

// TestListenFlag: a flag replaces an address of a file, and nothing that says more.
func TestListenFlag(t *testing.T) {
	const refused = "--listen: must be left out with a file that says more of listeners than one address"
	for _, row := range []struct{ listen, want string }{
		{"", ""},
		{"listen: 127.0.0.1:1", ""},
		{"listen: unix:/run/x", ""},
		{"listen: [127.0.0.1:1]", refused},
		{"listen: {address: unix:/run/x, proxy_protocol: required}", refused},
		{"listen: {address: ':443', tls: {cert_file: testdata/first.pem, key_file: testdata/first.key}}", refused},
	} {
		c, err := Parse(name, []byte(top(row.listen)), Overrides{Listen: "127.0.0.1:2"})
		if row.want != "" {
			wantErrors(t, row.listen, err, row.want)
			continue
		}
		if err != nil || len(c.Listen) != 1 || c.Listen[0].String() != "127.0.0.1:2" {
			t.Errorf("%q: %v, %v", row.listen, c.Listen, err)
		}
	}
}

// TestUnixAddress: a path starts at the file that names it, at the working directory
// if a flag does.
func TestUnixAddress(t *testing.T) {
	const file = "/etc/doorward/" + name
	for _, row := range []struct{ listen, flag, want string }{
		{"unix:s", "", "unix:/etc/doorward/s"},
		{"unix:/run/s", "", "unix:/run/s"},
		{"{address: unix:../s}", "", "unix:/etc/s"},
		{"127.0.0.1:1", "unix:s", "unix:s"},
	} {
		c, err := Parse(file, []byte(top("listen: "+row.listen)), Overrides{Listen: row.flag})
		if err != nil {
			t.Fatal(err)
		}
		if l := c.Listen[0]; l.String() != row.want || strings.HasPrefix(row.want, "unix:") != (l.Mode == defaultMode) {
			t.Errorf("%s: %+v, want %s", row.listen, l, row.want)
		}
	}
}
