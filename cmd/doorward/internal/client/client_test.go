package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
)

// double answers on a socket as told.
func double(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answer}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "unix:" + path
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func open(t *testing.T, c Config) *Client {
	t.Helper()
	cl, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// What is wrong is said with what to do about it, and whether a daemon was asked at all.
func TestErrors(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, row := range []struct {
		name, admin, want string
		gone              bool
	}{
		{"no socket", "unix:" + dir + "/none.sock", "nothing listens at unix:" + dir + "/none.sock: is doorward serving, and with admin on?", true},
		{"stale", "unix:" + stale, "nothing listens at unix:" + stale + ": is doorward serving, and with admin on?", true},
		{"no port", "http://127.0.0.1:1", "nothing listens at http://127.0.0.1:1: is doorward serving, and with admin on?", true},
		{"problem", double(t, says(400, `{"error":"limit must be 1 to 1000"}`)), "limit must be 1 to 1000", false},
		{"problems", double(t, says(422, `{"error":"2 errors","errors":["a:1:2: x","a:3:4: y"]}`)), "a:1:2: x\na:3:4: y", false},
		{"no entry", double(t, says(401, `{"error":"this wants a token"}`)), "wants a token (--token-file) or a certificate (--cert-file): this wants a token", true},
		{"no entry at all", double(t, says(403, `{"error":"a page of another site"}`)), "does not let this in: a page of another site", true},
		{"another version", double(t, says(404, "404 page not found\n")), "does not answer /v1/status as this doorward would (status 404): it is another version of it, or another program", true},
		{"another program", double(t, says(200, "<html>")), "does not answer /v1/status as this doorward would (status 200)", true},
		{"redirect", double(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}), "(status 302)", true},
	} {
		_, err := open(t, Config{Admin: row.admin}).Status(ctx)
		gone := Unreachable{}
		if err == nil || !strings.Contains(err.Error(), row.want) || errors.As(err, &gone) != row.gone {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
	c := open(t, Config{Admin: double(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })})
	c.Wait = 10 * time.Millisecond
	if _, err := c.Status(ctx); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Status(cancelled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Somebody else's socket: it says whose, and what to do.
func TestPermission(t *testing.T) {
	if at := os.Getenv("DOORWARD_TEST_PERMISSION"); at != "" { // as nobody
		_, err := open(t, Config{Admin: at}).Status(t.Context())
		fmt.Println(err)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become nobody")
	}
	at := double(t, says(200, "{}"))
	path := strings.TrimPrefix(at, "unix:")
	os.Chmod(path, 0o600)
	world := t.TempDir()
	for _, dir := range []string{filepath.Dir(path), world} {
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		os.Chmod(dir, 0o755)
	}
	self := filepath.Join(world, "self") // out of a directory that nobody may enter
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(self, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		dir  os.FileMode
		want string
	}{
		{0o755, "no permission to use " + at + ", which belongs to root (mode 0600): run this as the user that doorward serves as, or with sudo\n"},
		{0o700, "no permission to use " + at + ": run this as the user that doorward serves as, or with sudo\n"},
	} {
		os.Chmod(filepath.Dir(path), row.dir)
		cmd := exec.Command(self, "-test.run", "^TestPermission$")
		cmd.Env = append(os.Environ(), "DOORWARD_TEST_PERMISSION="+at)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), row.want) {
			t.Errorf("%v: %s\nwant %s", err, out, row.want)
		}
	}
}

// Places by default: the first that somebody listens on; what forbids one matters more
// than that another is not there.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOORWARD_ADMIN", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if _, err := os.Stat("/run/doorward/admin.sock"); err == nil {
		t.Skip("a daemon runs here")
	}
	want := "nothing listens at unix:/run/doorward/admin.sock or unix:" + dir + "/doorward/admin.sock: is doorward serving, and with admin on?"
	if _, err := open(t, Config{}).Status(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	at := double(t, says(200, `{"version":"v7"}`))
	os.Mkdir(dir+"/doorward", 0o700)
	if err := os.Symlink(strings.TrimPrefix(at, "unix:"), dir+"/doorward/admin.sock"); err != nil {
		t.Fatal(err)
	}
	if st, err := open(t, Config{}).Status(t.Context()); err != nil || st.Version != "v7" {
		t.Error(st, err)
	}
	t.Setenv("DOORWARD_ADMIN", at)
	if st, err := open(t, Config{}).Status(t.Context()); err != nil || st.Version != "v7" {
		t.Error(st, err)
	}
	t.Setenv("DOORWARD_ADMIN", "off")
	if _, err := New(Config{}); err == nil || err.Error() != "DOORWARD_ADMIN is off: name the daemon with --admin" {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	token, empty, spaced := write("token", "\n  secret\nother\n"), write("empty", " \n"), write("spaced", "two words\n")
	for _, row := range []struct {
		c    Config
		want string
	}{
		{Config{Admin: "unix:admin.sock"}, `--admin must be unix:/PATH with a path from the root, or a URL, got "unix:admin.sock"`},
		{Config{Admin: "127.0.0.1:9180"}, `--admin must be unix:/PATH or a URL such as http://127.0.0.1:9180, got "127.0.0.1:9180"`},
		{Config{Admin: "ftp://127.0.0.1"}, "--admin must be"},
		{Config{Admin: "http://"}, "--admin must be"},
		{Config{Admin: "http://127.0.0.1/v1"}, "--admin must be"},
		{Config{Admin: "http://u:p@127.0.0.1/"}, "--admin must be"},
		{Config{Admin: "unix:/s", TokenFile: token}, "--token-file goes with a URL, not with unix:/s"},
		{Config{Admin: "http://127.0.0.1:1", CAFile: token}, "--ca-file goes with a URL of https"},
		{Config{Admin: "https://127.0.0.1:1", CAFile: token}, "has no certificate in PEM"},
		{Config{Admin: "https://127.0.0.1:1", CertFile: token}, "--cert-file and --key-file go together"},
		{Config{Admin: "https://127.0.0.1:1", CertFile: token, KeyFile: token}, "--cert-file: "},
		{Config{Admin: "https://127.0.0.1:1", TokenFile: empty}, "must have a token in its first line"},
		{Config{Admin: "https://127.0.0.1:1", TokenFile: spaced}, "must have a token in its first line"},
		{Config{Admin: "https://127.0.0.1:1", TokenFile: dir + "/none"}, "--token-file: open " + dir + "/none: no such file"},
		{Config{Admin: "http://192.0.2.1:1", TokenFile: token}, "--token-file must not be used with http://192.0.2.1:1: the token would pass in clear"},
		{Config{Admin: "http://admin.example:1", TokenFile: token}, "in clear"},
		{Config{Admin: "http://127.0.0.1:1", TokenFile: token}, ""},
		{Config{Admin: "http://localhost:1/", TokenFile: token}, ""},
		{Config{Admin: "http://[::1]:1", TokenFile: token}, ""},
		{Config{Admin: "https://192.0.2.1", TokenFile: token}, ""},
	} {
		_, err := New(row.c)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%+v: %v, want %q", row.c, err, row.want)
		}
	}
	if cl := open(t, Config{Admin: "https://192.0.2.1", TokenFile: token}); cl.token != "secret" {
		t.Errorf("token %q", cl.token)
	}
}

// By TLS: the daemon's certificate is checked, and a token and a certificate are shown.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	pool := x509.NewCertPool()
	cert := authority(t, dir)
	pool.AddCert(cert.Leaf)
	var got *http.Request
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r; says(200, "{}")(w, r) }))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	ca, key, token := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "token")
	os.WriteFile(token, []byte("secret\n"), 0o600)
	if _, err := open(t, Config{Admin: s.URL}).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "name the authority with --ca-file") {
		t.Error(err)
	}
	if _, err := open(t, Config{Admin: strings.Replace(s.URL, "127.0.0.1", "localhost", 1), CAFile: ca}).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "its certificate is for another name") {
		t.Error(err)
	}
	if _, err := open(t, Config{Admin: s.URL, CAFile: ca, TokenFile: token}).Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got.Header.Get("Authorization") != "Bearer secret" || got.ProtoMajor != 2 || len(got.TLS.PeerCertificates) != 0 {
		t.Errorf("%v %s", got.Header, got.Proto)
	}
	if _, err := open(t, Config{Admin: s.URL, CAFile: ca, CertFile: ca, KeyFile: key}).Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got.TLS.PeerCertificates) != 1 || got.Header.Get("Authorization") != "" {
		t.Errorf("%v", got.TLS)
	}
}

// authority writes cert.pem and key.pem: one certificate that is everything.
func authority(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{netip.MustParseAddr("127.0.0.1").AsSlice()}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Pages follow each other until the last one, empty ones too, or until enough is seen.
func TestKeys(t *testing.T) {
	pages := map[string]api.Page{
		"":  {Keys: []api.Key{{Key: "a"}, {Key: "b"}}, Next: "1"},
		"1": {Next: "2"},
		"2": {Keys: []api.Key{{Key: "c"}}},
	}
	asked := 0
	c := open(t, Config{Admin: double(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if q := r.URL.Query(); q.Get("state") != "locked" || r.URL.Path != "/v1/keys" {
			t.Errorf("asked %s", r.URL)
		}
		json.NewEncoder(w).Encode(pages[r.URL.Query().Get("cursor")])
	})})
	query := url.Values{"state": {"locked"}}
	for _, row := range []struct {
		most, asked int
		want        string
	}{{0, 3, "abc"}, {1, 1, "a"}, {2, 1, "ab"}, {3, 3, "abc"}} {
		asked = 0
		got := ""
		if err := c.Keys(t.Context(), query, func(k api.Key) bool { got += k.Key; return len(got) != row.most }); err != nil || got != row.want || asked != row.asked {
			t.Errorf("%d: %q after %d pages, %v", row.most, got, asked, err)
		}
	}
	if len(query) != 1 {
		t.Errorf("the caller's query is now %v", query)
	}
}

// Changes are asked for as the API has them.
func TestChanges(t *testing.T) {
	var got string
	c := open(t, Config{Admin: double(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Content-Type") + " " + string(body)
		if r.Method == "DELETE" || r.URL.Path == api.ClearPath {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		says(200, "{}")(w, r)
	})})
	by, ctx := api.By{Actor: "ann", Reason: "r"}, t.Context()
	for _, row := range []struct {
		do   func() error
		want string
	}{
		{func() error { _, err := c.Why(ctx, api.Who{Address: "192.0.2.7", Subject: "a b"}); return err }, "GET /v1/why?address=192.0.2.7&subject=a+b  "},
		{func() error {
			_, err := c.Unlock(ctx, api.Unlock{Who: api.Who{Key: "k"}, Guard: "g", Rule: "u", By: by})
			return err
		}, `POST /v1/unlock application/json {"key":"k","guard":"g","rule":"u","actor":"ann","reason":"r"}`},
		{func() error { return c.Clear(ctx, api.Clear{Guard: "g", By: by}) }, `POST /v1/clear application/json {"guard":"g","actor":"ann","reason":"r"}`},
		{func() error {
			_, err := c.List(ctx, api.List{Network: "n", Action: "block", For: 1.5, By: by})
			return err
		}, `POST /v1/networks application/json {"network":"n","action":"block","for":1.5,"actor":"ann","reason":"r"}`},
		{func() error { return c.Unlist(ctx, "a/b?", by) }, `DELETE /v1/networks/a%2Fb%3F application/json {"actor":"ann","reason":"r"}`},
		{func() error { return c.Reload(ctx, by) }, `POST /v1/reload application/json {"actor":"ann","reason":"r"}`},
		{func() error { _, err := c.Networks(ctx); return err }, "GET /v1/networks  "},
	} {
		if err := row.do(); err != nil || got != row.want {
			t.Errorf("%v, got\n%s\nwant\n%s", err, got, row.want)
		}
	}
}

// A stream ends when the daemon ends it, breaks, or says nothing for too long; empty lines
// keep it alive and are not shown.
func TestEvents(t *testing.T) {
	end := make(chan string)
	at := double(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("door") == "none" {
			says(404, `{"error":"no such door"}`)(w, r)
			return
		}
		flush := http.NewResponseController(w)
		io.WriteString(w, "one\n\ntwo\n\nhalf of a li")
		flush.Flush()
		if <-end == "break" {
			panic(http.ErrAbortHandler)
		}
	})
	c := open(t, Config{Admin: at})
	for _, row := range []struct {
		how, want string
		quiet     time.Duration
	}{{"end", "", time.Minute}, {"break", "the connection to " + at + " broke", time.Minute}, {"", "the daemon at " + at + " has said nothing for 50ms", 50 * time.Millisecond}} {
		lines := make(chan string, 10)
		failed := make(chan error, 1)
		go func() {
			begun, err := c.Events(t.Context(), nil, row.quiet, func(l []byte) error { lines <- string(l); return nil })
			if !begun {
				t.Errorf("%s: there was no stream", row.how)
			}
			failed <- err
		}()
		if a, b := <-lines, <-lines; a != "one" || b != "two" {
			t.Errorf("lines %q, %q", a, b)
		}
		if row.how != "" {
			end <- row.how
		}
		err := <-failed
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.how, err, row.want)
		}
		if len(lines) > 0 { // nobody can parse it
			t.Errorf("%s: a line that was cut off: %q", row.how, <-lines)
		}
	}
	close(end)
	if begun, err := c.Events(t.Context(), url.Values{"door": {"none"}}, time.Minute, nil); begun || err == nil || err.Error() != "no such door" {
		t.Error(begun, err)
	}
	full := errors.New("disk full")
	if begun, err := c.Events(t.Context(), nil, time.Minute, func([]byte) error { return full }); !begun || err != full {
		t.Error(begun, err)
	}
}
