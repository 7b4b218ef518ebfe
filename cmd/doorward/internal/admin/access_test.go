package admin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/listen"
)

const (
	token = "5fd924625f6ab16a19cc9807c7c506ae1813490e4ba675f843d5a10e0baacdb8"
	other = "5fd924625f6ab16a19cc9807c7c506ae1813490e4ba675f843d5a10e0baacdb9"
)

var withToken = Access{Tokens: [][sha256.Size]byte{sha256.Sum256([]byte("another token that is as good as it")), sha256.Sum256([]byte(token))}, Hosts: []string{"admin.example.com"}}

// tcp serves s on an address of this machine.
func (s *stand) tcp(t *testing.T, a Access, addr string, p Port) (hostport string) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p.Listener = ln
	s.serve(t, a, p)
	return ln.Addr().String()
}

// An ask is one request, and what it says of itself.
type ask struct {
	method, target, host string
	header               map[string]string
	body                 string
}

func (a ask) send(t *testing.T, base string, next http.RoundTripper) (int, http.Header) {
	t.Helper()
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	r, err := http.NewRequest(a.method, base+a.target, body)
	if err != nil {
		t.Fatal(err)
	}
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range a.header {
		r.Header.Set(k, v)
	}
	if a.host != "" {
		r.Host = a.host
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	res, err := contract.Transport(t, next).RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode, res.Header
}

// everything is a request to each endpoint, and whether it changes something.
var everything = []struct {
	ask
	open, changes bool
	ok            int
}{
	{ask{method: "GET", target: api.StatusPath}, true, false, 200},
	{ask{method: "HEAD", target: api.StatusPath}, true, false, 200},
	{ask{method: "GET", target: api.MetricsPath}, true, false, 200},
	{ask{method: "GET", target: api.OpenAPIPath}, true, false, 200},
	{ask{method: "GET", target: api.KeysPath}, false, false, 200},
	{ask{method: "GET", target: api.WhyPath + "?address=192.0.2.7"}, false, false, 200},
	{ask{method: "GET", target: api.EventsPath}, false, false, 200},
	{ask{method: "GET", target: api.NetworksPath}, false, false, 200},
	{ask{method: "POST", target: api.NetworksPath, body: `{"network":"192.0.2.7","action":"block","for":60,` + by + `}`}, false, true, 200},
	{ask{method: "DELETE", target: api.NetworksPath + "/0123456789abcdef", body: `{` + by + `}`}, false, true, 204},
	{ask{method: "POST", target: api.UnlockPath, body: `{"address":"192.0.2.7",` + by + `}`}, false, true, 200},
	{ask{method: "POST", target: api.ClearPath, body: `{"guard":"login",` + by + `}`}, false, true, 204},
	{ask{method: "POST", target: api.ReloadPath, body: `{` + by + `}`}, false, true, 204},
	{ask{method: "GET", target: "/v1/nothing"}, false, false, 404},
	{ask{method: "POST", target: api.StatusPath, body: "{}"}, false, false, 405},
}

// Who has a way in may do everything, and who has none changes nothing and sees figures at
// most.
func TestWaysIn(t *testing.T) {
	ca, stranger := newAuthority(t, "ours"), newAuthority(t, "theirs")
	shown := ca.sign(t, "admin.example.com", x509.ExtKeyUsageServerAuth)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	port := Port{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &shown, nil }, ClientCAs: pool}
	client := func(cert *tls.Certificate, http2 bool) *http.Transport {
		c := &tls.Config{RootCAs: pool, ServerName: "admin.example.com"}
		if cert != nil {
			// Shown whatever the server says that it takes.
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		}
		return &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: http2, DisableKeepAlives: !http2}
	}
	ours := ca.sign(t, "ann", x509.ExtKeyUsageClientAuth)
	theirs := stranger.sign(t, "eve", x509.ExtKeyUsageClientAuth)
	bearer := func(s string) map[string]string { return map[string]string{"Authorization": "Bearer " + s} }

	const everywhere, nowhere, figures = "everywhere", "nowhere", "figures"
	for _, row := range []struct {
		name   string
		access Access
		addr   string
		tls    *http.Transport // nil is plain
		header map[string]string
		want   string
		status int // of what is not let in
	}{
		{"loopback", Access{}, "127.0.0.1:0", nil, nil, figures, 401},
		{"loopback of IPv6", Access{}, "[::1]:0", nil, nil, figures, 401},
		{"a token", withToken, "127.0.0.1:0", nil, bearer(token), everywhere, 0},
		{"a token in another case", withToken, "127.0.0.1:0", nil, map[string]string{"Authorization": "bEARER " + token}, everywhere, 0},
		{"no token where there is one", withToken, "127.0.0.1:0", nil, nil, figures, 401},
		{"a wrong token", withToken, "127.0.0.1:0", nil, bearer(other), nowhere, 401},
		{"a token where there is none", Access{}, "127.0.0.1:0", nil, bearer(token), nowhere, 401},
		{"half a token", withToken, "127.0.0.1:0", nil, bearer(token[:32]), nowhere, 401},
		{"the hash of a token", withToken, "127.0.0.1:0", nil, bearer(fmt.Sprintf("%x", sha256.Sum256([]byte(token)))), nowhere, 401},
		{"no token at all", withToken, "127.0.0.1:0", nil, bearer(""), nowhere, 401},
		{"a token as a password", withToken, "127.0.0.1:0", nil, map[string]string{"Authorization": "Basic " + token}, nowhere, 401},
		{"a certificate", Access{}, "127.0.0.1:0", client(&ours, false), nil, everywhere, 0},
		{"a certificate, HTTP/2", Access{}, "127.0.0.1:0", client(&ours, true), nil, everywhere, 0},
		{"a token over TLS, HTTP/2", withToken, "127.0.0.1:0", client(nil, true), bearer(token), everywhere, 0},
		{"no certificate", Access{}, "127.0.0.1:0", client(nil, false), nil, figures, 401},
		{"no certificate, HTTP/2", Access{}, "127.0.0.1:0", client(nil, true), nil, figures, 401},
		{"a wrong token, HTTP/2", withToken, "127.0.0.1:0", client(nil, true), bearer(other), nowhere, 401},
		{"from beyond this machine", withToken, outside(t) + ":0", nil, nil, nowhere, 401},
		{"from beyond this machine, a token", withToken, outside(t) + ":0", nil, bearer(token), everywhere, 0},
	} {
		if strings.HasPrefix(row.addr, "none") {
			t.Logf("%s: this machine has no address but its own", row.name)
			continue
		}
		s := newStand(t)
		p, scheme, base := Port{}, "http://", ""
		var next http.RoundTripper = &http.Transport{DisableKeepAlives: true}
		if row.tls != nil {
			p, scheme, next = port, "https://", row.tls
			defer row.tls.CloseIdleConnections()
		}
		for i, e := range everything {
			if i%5 == 0 { // one that has heard five wrong tokens hears no more
				base = scheme + s.tcp(t, row.access, row.addr, p)
			}
			s.fail(0, "192.0.2.7", "alice", 3)
			e.header = row.header
			before := s.changes()
			status, _ := e.send(t, base, next)
			allowed := row.want == everywhere || row.want == figures && e.open
			want := row.status
			if allowed {
				want = e.ok
			}
			if status != want {
				t.Errorf("%s: %s %s: %d, want %d", row.name, e.method, e.target, status, want)
			}
			if changed := s.changes() > before; changed != (allowed && e.changes) {
				t.Errorf("%s: %s %s: changed is %v", row.name, e.method, e.target, changed)
			}
		}
	}
	// A certificate of somebody else does not even come to ask.
	s := newStand(t)
	base := "https://" + s.tcp(t, Access{}, "127.0.0.1:0", port)
	for _, http2 := range []bool{false, true} {
		r, _ := http.NewRequest("GET", base+api.StatusPath, nil)
		if res, err := client(&theirs, http2).RoundTrip(r); err == nil {
			t.Errorf("a certificate of another authority: %d", res.StatusCode)
		}
	}
}

// What operators wrote about a network is for those who may change it, not for everybody on
// the machine.
func TestReasonsAreNotFigures(t *testing.T) {
	s := newStand(t)
	path := filepath.Join(t.TempDir(), "s")
	ln, err := listen.Unix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, withToken, Port{Listener: ln})
	socket := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer socket.CloseIdleConnections()
	tcp := "http://" + s.tcp(t, withToken, "127.0.0.1:0", Port{})
	for _, row := range []struct {
		name, base, token string
		next              http.RoundTripper
		want              bool
	}{
		{"loopback", tcp, "", http.DefaultTransport, false},
		{"a token", tcp, "Bearer " + token, http.DefaultTransport, true},
		{"the socket", "http://localhost", "", socket, true},
	} {
		r, _ := http.NewRequest("GET", row.base+api.StatusPath, nil)
		if row.token != "" {
			r.Header.Set("Authorization", row.token)
		}
		res, err := contract.Transport(t, row.next).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), "192.0.2.0/24") {
			t.Fatalf("%s: %d %s, %v", row.name, res.StatusCode, body, err)
		}
		if said := strings.Contains(string(body), "alice called") || strings.Contains(string(body), `"ann"`); said != row.want {
			t.Errorf("%s: %s, want it said: %v", row.name, body, row.want)
		}
	}
}

// outside returns an address of this machine that is not loopback, "none" if there is none.
func outside(t *testing.T) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return "none"
}

// Pages of other sites get nothing done, and nothing to see by a name that leads here.
func TestBrowsers(t *testing.T) {
	bearer := "Bearer " + token
	list := everything[8].ask
	for _, row := range []struct {
		name   string
		host   string
		header map[string]string
		change bool
		want   int
	}{
		{"no browser", "", nil, true, 200},
		{"a page of ours", "", map[string]string{"Sec-Fetch-Site": "same-origin"}, true, 200},
		{"a page of another site", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, true, 403},
		{"a page of a neighbour", "", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "https://evil.example"}, true, 403},
		{"an old browser", "", map[string]string{"Origin": "https://evil.example"}, true, 403},
		{"a page of nowhere", "", map[string]string{"Origin": "null"}, true, 403},
		{"a form", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Content-Type": "application/x-www-form-urlencoded"}, true, 403},
		{"a form of an old browser", "", map[string]string{"Content-Type": "text/plain"}, true, 415},
		{"a question of another site", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, false, 200}, // which it cannot read
		{"a name that leads here", "evil.example", nil, false, 421},
		{"a name that leads here, with a port", "evil.example:9180", nil, true, 421},
		{"a name that begins like an address", "127.0.0.1.evil.example", nil, false, 421},
		{"a name of localhost", "localhost.evil.example", nil, false, 421},
		{"no name", " ", nil, false, 421},
		{"localhost", "localhost:9180", nil, true, 200},
		{"an address", "192.0.2.1", nil, true, 200},
		{"an address of IPv6", "[2001:db8::1]:80", nil, true, 200},
		{"a name that was configured", "ADMIN.example.com:9180", nil, true, 200},
		{"beside a name that was configured", "x.admin.example.com", nil, true, 421},
	} {
		s := newStand(t)
		base := "http://" + s.tcp(t, withToken, "127.0.0.1:0", Port{})
		a := ask{method: "GET", target: api.StatusPath}
		if row.change {
			a = list
		}
		a.host, a.header = row.host, map[string]string{"Authorization": bearer}
		for k, v := range row.header {
			a.header[k] = v
		}
		if row.host == " " {
			continue // net/http writes one
		}
		status, h := a.send(t, base, http.DefaultTransport)
		if status != row.want {
			t.Errorf("%s: %d, want %d", row.name, status, row.want)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s", row.name, name)
			}
		}
		if changed := s.changes() > 0; changed != (row.change && row.want == 200) {
			t.Errorf("%s: changed is %v", row.name, changed)
		}
	}
	// HTTP/1.0 need not have a Host.
	s := newStand(t)
	conn, err := net.Dial("tcp", s.tcp(t, withToken, "127.0.0.1:0", Port{}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", api.StatusPath)
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 421 ") {
		t.Errorf("no host: %s, %v", answer, err)
	}
}

// Wrong tokens are attempts like any: after five the right one has to wait, and the socket
// has not.
func TestGuessing(t *testing.T) {
	s := newStand(t)
	base := "http://" + s.tcp(t, withToken, "127.0.0.1:0", Port{})
	a := ask{method: "GET", target: api.KeysPath, header: map[string]string{"Authorization": "Bearer " + token}}
	for range 20 { // right ones cost nothing
		if status, _ := a.send(t, base, http.DefaultTransport); status != 200 {
			t.Fatalf("right: %d", status)
		}
	}
	a.header["Authorization"] = "Bearer " + other
	for i := range 5 {
		if status, _ := a.send(t, base, http.DefaultTransport); status != 401 {
			t.Errorf("guess %d: %d, want 401", i+1, status)
		}
	}
	a.header["Authorization"] = "Bearer " + token
	status, h := a.send(t, base, http.DefaultTransport)
	if wait := h.Get("Retry-After"); status != 429 || wait != "60" {
		t.Errorf("after five guesses: %d, %s, want 429 and 60", status, wait)
	}
	delete(a.header, "Authorization")
	a.target = api.StatusPath
	if status, _ := a.send(t, base, http.DefaultTransport); status != 200 {
		t.Errorf("figures: %d, want 200", status)
	}
	if status, _ := s.served(t).ask("GET", api.KeysPath, ""); status != 200 {
		t.Errorf("the socket: %d, want 200", status)
	}
}

// Another user of this machine cannot open the socket.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "doorward-admin-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		mode fs.FileMode
		want string
	}{{0o600, "000"}, {0o666, "200"}} { // the other one is what makes this a test
		path := filepath.Join(dir, fmt.Sprintf("%o.sock", row.mode))
		ln, err := listen.Unix(path, row.mode)
		if err != nil {
			t.Fatal(err)
		}
		newStand(t).serve(t, Access{}, Port{Listener: ln})
		for uid, want := range map[uint32]string{0: "200", 65534: row.want} {
			cmd := exec.Command(curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "10", "--unix-socket", path, "http://localhost"+api.KeysPath)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			out, err := cmd.Output()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if string(out) != want {
				t.Errorf("mode %o, user %d: %s, want %s", row.mode, uid, out, want)
			}
		}
	}
}

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return authority{c, key}
}

func (a authority) sign(t *testing.T, name string, use x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
