package config

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// show writes where the admin API is.
func show(a *Admin) string {
	if a == nil {
		return "off"
	}
	var all []string
	for _, l := range a.Listen {
		all = append(all, l.String())
	}
	if a.Default {
		all = append(all, "by default")
	}
	return strings.Join(all, " ")
}

func TestAdmin(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"off", "off"},
		{"{listen: [off]}", "off"},
		{"{listen: off}", "off"},
		{`"off"`, "off"},
		{"false", "off"},
		{"unix:/run/a.sock", "unix:/run/a.sock"},
		{"unix:a.sock", "unix:a.sock"},
		{"127.0.0.1:9180", "127.0.0.1:9180"},
		{`"[::1]:9180"`, "[::1]:9180"},
		{"localhost:9180", "localhost:9180"},
		{"127.1.2.3:0", "127.1.2.3:0"},
		{`{listen: [unix:/a, unix:/b, "[::ffff:127.0.0.1]:1"]}`, "unix:/a unix:/b [::ffff:127.0.0.1]:1"},
		{"{listen: 127.0.0.1:9180, token_files: [testdata/tokens]}", "127.0.0.1:9180"},
		{`{listen: ":9180", token_files: [testdata/tokens], tls: {cert_file: testdata/first.pem, key_file: testdata/first.key}}`, ":9180"},
		{`{listen: ":9180", tls: {cert_file: testdata/first.pem, key_file: testdata/first.key, client_ca_file: testdata/second.pem}}`, ":9180"},
	} {
		a := mustParse(t, good+"admin: "+row.text+"\n").Admin
		if got := show(a); got != row.want {
			t.Errorf("%s: %s, want %s", row.text, got, row.want)
		}
		if a == nil {
			continue
		}
		for _, l := range a.Listen {
			if (l.Network == "unix") != (l.Mode == 0o600) || (l.Network == "unix") != strings.HasPrefix(row.want, "unix") && len(a.Listen) == 1 {
				t.Errorf("%s: %+v", row.text, l)
			}
		}
	}
	one, again := mustParse(t, full), mustParse(t, full)
	if !reflect.DeepEqual(one.Admin, again.Admin) {
		t.Error("read twice it is not the same: every reload would need a restart")
	}
	if s := fmt.Sprint(one.Admin.Tokens); s != "2 tokens" {
		t.Errorf("tokens show as %s", s)
	}
}

func TestAdminErrors(t *testing.T) {
	const tls = "tls: {cert_file: testdata/first.pem, key_file: testdata/first.key}"
	for _, row := range []struct{ text, want string }{
		// Beyond this machine nobody without a secret, and no secret in clear.
		{":9180", "8: admin: must be a loopback address such as 127.0.0.1:9180 without token_files or tls.client_ca_file: anybody who reaches :9180 could unlock and exempt"},
		{"192.0.2.1:9180", "admin: must be a loopback address"},
		{"0.0.0.0:9180", "admin: must be a loopback address"},
		{"admin.example.com:9180", "admin: must be a loopback address"},
		{"localhost.example.com:9180", "admin: must be a loopback address"},
		{"{listen: [127.0.0.1:1, ':9180'], " + tls + "}", "31: admin.listen[1]: must be a loopback address such as 127.0.0.1:9180 without token_files or tls.client_ca_file"},
		{"{listen: ':9180', token_files: [testdata/tokens]}", "17: admin.listen: must be a loopback address such as 127.0.0.1:9180 without tls: tokens would pass in clear"},
		// What would do nothing.
		{"{listen: unix:/a, token_files: [testdata/tokens]}", "admin.token_files: must be left out unless admin.listen has an address and a port"},
		{"{listen: unix:/a, " + tls + "}", "admin.tls: must be left out unless"},
		{"{listen: unix:/a, hosts: [a]}", "admin.hosts: must be left out unless"},
		{"{listen: [off, unix:/a]}", "18: admin.listen[0]: must not be off beside something else"},
		{"{listen: off, hosts: [a]}", "17: admin.listen: must not be off beside something else"},
		{"{}", "8: admin.listen: is missing: must say where"},
		{"{listen: []}", "must say where"},
		{"[unix:/a]", "admin: must be a mapping with listen, token_files, tls, hosts, got a list"},
		// What is no value.
		{"on", "8: admin: must be off, an address and a port such as 127.0.0.1:9180, or unix:/PATH, got on"},
		{"9180", "8: admin: must be off, an address"},
		{"unix:@abstract", "8: admin: must be off, an address"},
		{"unix:/" + strings.Repeat("x", 107), "8: admin: must be a path of at most 107 bytes, got 108"},
		{"{listen: 127.0.0.1:1, hosts: ['a:80']}", "admin.hosts[0]: must be a host name without a port such as admin.example.com, got a:80"},
		{"{listen: 127.0.0.1:1, hosts: ['*']}", "admin.hosts[0]: must be a host name"},
		{"{listen: 127.0.0.1:1, token_files: [testdata/none]}", "admin.token_files[0]: must be a file that can be read (no such file or directory), got testdata/none"},
		{"{listen: 127.0.0.1:1, token_files: [testdata]}", "admin.token_files[0]: must be a file that can be read (not a regular file), got testdata"},
		{"{listen: 127.0.0.1:1, token_files: [testdata/short.token]}", "admin.token_files[0]: must hold tokens of 32 to 512 bytes, one a line, line 1 has 5, got testdata/short.token"},
		{"{listen: 127.0.0.1:1, token_files: [testdata/empty.token]}", "admin.token_files[0]: must hold a token, as openssl rand -hex 32 prints"},
		{"{listen: 127.0.0.1:1, tls: {key_file: testdata/first.key}}", "admin.tls.cert_file: is missing"},
		{"{listen: 127.0.0.1:1, tls: {cert_file: testdata/first.pem, key_file: testdata/first.key, client_ca_file: testdata/first.key}}", "admin.tls.client_ca_file: must hold certificates of authorities and nothing else, got testdata/first.key"},
		{"{listen: 127.0.0.1:1, tls: {cert_file: testdata/first.pem, key_file: testdata/first.key, client_ca_file: testdata/tokens}}", "admin.tls.client_ca_file: must hold certificates in PEM"},
		{"{listen: 127.0.0.1:1, mode: '0666'}", "admin.mode: unknown key"},
	} {
		if _, err := Parse(name, []byte(good+"admin: "+row.text+"\n"), Overrides{}); err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", row.text, err, row.want)
		}
	}
}

// The proxy does not open the admin API for everybody.
func TestAdminIsNoUpstream(t *testing.T) {
	const doors = "doors: [{name: login, routes: [POST /login], outcome: {succeeded: {status: 302}}}]\n"
	t.Setenv(AdminEnv, "")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	for _, row := range []struct{ text, want string }{
		{"upstream: unix:/run/a.sock\nadmin: unix:/run/a.sock\n", "1:11: upstream: must not be the admin API"},
		{"upstream: unix:/run//x/../a.sock\nadmin: {listen: [127.0.0.1:1, unix:/run/a.sock]}\n", "upstream: must not be the admin API"},
		{"upstream: http://127.0.0.1:9180\nadmin: 127.0.0.1:9180\n", "upstream: must not be the admin API"},
		{"upstreams: [http://127.0.0.1:3000, unix:/run/a.sock]\nadmin: unix:/run/a.sock\n", "upstreams[1]: must not be the admin API"},
		{"upstream: unix:/run/doorward/admin.sock\n", "upstream: must not be the admin API"},
		{"upstream: unix:/run/user/7/doorward/admin.sock\n", "upstream: must not be the admin API"},
		{"upstream: unix:/run/doorward/admin.sock\nadmin: off\n", ""},
		{"upstream: unix:/run/b.sock\nadmin: unix:/run/a.sock\n", ""},
		{"upstream: http://127.0.0.1:9181\nadmin: 127.0.0.1:9180\n", ""},
	} {
		_, err := Parse(name, []byte(row.text+doors), Overrides{})
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.text, err, row.want)
		}
	}
}

func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	least, most := "0"+strings.Repeat("1", 31), "0"+strings.Repeat("1", 511)
	for _, row := range []struct {
		text, want string
		n          int
	}{
		{least, "", 1},
		{most, "", 1},
		{"\r\n " + least + "\t\r\n\n" + most, "", 2},
		{least[1:], "line 1 has 31", 0},
		{"\n" + most + "1", "line 2 has 513", 0},
		{least + " " + least, "without spaces, line 1", 0},
		{least + "é", "line 1 has other bytes", 0},
		{strings.Repeat("x", 40), "random tokens, line 1 is one byte many times", 0},
		{"", "must hold a token", 0},
		{strings.Repeat(least+"\n", 5000), "must be shorter, at most 51400 bytes", 0},
	} {
		if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := readTokens(file)
		if len(tokens) != row.n || (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.50q: %v, %v, want %d and %q", row.text, tokens, err, row.n, row.want)
		}
		if row.n > 0 && tokens[0] != sha256.Sum256([]byte(strings.Fields(row.text)[0])) {
			t.Errorf("%.50q: another token", row.text)
		}
		if err != nil && strings.Contains(err.Error(), "111") {
			t.Errorf("%v shows a token", err)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Repeat(least+"\n", 101)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(name, []byte(good+"admin: {listen: 127.0.0.1:1, token_files: ["+file+"]}\n"), Overrides{}); err == nil || !strings.Contains(err.Error(), "at most 100 tokens, got 101") {
		t.Errorf("error %v", err)
	}
}

// Where the API is if the file does not say.
func TestAdminByDefault(t *testing.T) {
	for _, row := range []struct{ env, xdg, want string }{
		{"", "", "unix:/run/doorward/admin.sock by default"},
		{"", "/run/user/7", "unix:/run/doorward/admin.sock unix:/run/user/7/doorward/admin.sock by default"},
		{"", "relative", "unix:/run/doorward/admin.sock by default"},
		{"off", "/run/user/7", "off"},
		{"unix:/tmp/a.sock", "/run/user/7", "unix:/tmp/a.sock"},
		{"http://127.0.0.1:9180", "", "127.0.0.1:9180"},
		{"http://[::1]:9180/", "", "[::1]:9180"},
		{"http://localhost:9180", "", "localhost:9180"},
		{"http://192.0.2.1:9180", "", "error"},
		{"https://127.0.0.1:9180", "", "error"},
		{"http://127.0.0.1", "", "error"},
		{"http://127.0.0.1:9180/a", "", "error"},
		{"unix:relative", "", "error"},
		{"on", "", "error"},
	} {
		t.Setenv(AdminEnv, row.env)
		t.Setenv("XDG_RUNTIME_DIR", row.xdg)
		c, err := Parse(name, []byte(good), Overrides{})
		if row.want == "error" {
			if err == nil || !strings.HasPrefix(err.Error(), "DOORWARD_ADMIN="+row.env+": must be off, unix:/PATH or a URL") {
				t.Errorf("%s: error %v", row.env, err)
			}
			continue
		}
		if got := show(c.Admin); got != row.want || err != nil {
			t.Errorf("%s and %s: %s, %v, want %s", row.env, row.xdg, got, err, row.want)
		}
		if got := mustParse(t, good+"admin: unix:/there\n").Admin; show(got) != "unix:/there" {
			t.Errorf("%s: the file does not say where it is: %s", row.env, show(got))
		}
	}
}

// A secret that everybody may write is nobody's.
func TestSecretsOfEverybody(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	for _, row := range []struct {
		mode fs.FileMode
		want string
	}{{0o600, ""}, {0o664, ""}, {0o602, "must not be writable by everybody"}, {0o666, "must not be writable by everybody"}} {
		if err := os.WriteFile(name, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, row.mode); err != nil {
			t.Fatal(err)
		}
		_, err := readRegular(name, 1000)
		if got := fmt.Sprint(err); (err != nil) != (row.want != "") || !strings.Contains(got, row.want) {
			t.Errorf("%v: %v, want %q", row.mode, err, row.want)
		}
	}
}
