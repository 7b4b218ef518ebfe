package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/doorward/doorward/cmd/doorward/internal/conns"
)

// testCertificate is for any name.
var testCertificate = sync.OnceValue(func() *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"app.example"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

func secure(p *Port, _ *Proxy) {
	p.TLS = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return testCertificate(), nil }
}

// declared makes a port one behind proxies on this machine.
func declared(p *Port, _ *Proxy) {
	p.Preamble = &conns.Preamble{Trusted: netip.Addr.IsLoopback, Timeout: patience}
}

func both(p *Port, proxy *Proxy) { secure(p, proxy); declared(p, proxy) }

// servePort is serve for a port with more to it than a listener.
func servePort(t testing.TB, upstream string, change func(*Port, *Proxy), options ...option) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, addr: ln.Addr().String(), log: newRecord(), guard: lockoutGuard(t, 5), peers: &peers{Listener: ln}}
	c := baseConfig(t, upstream, s.guard, s.log)
	for _, o := range options {
		o(&c)
	}
	s.guard = c.Doors[0].Guard
	if s.proxy, err = New(c); err != nil {
		t.Fatal(err)
	}
	port := Port{Listener: s.peers}
	change(&port, s.proxy)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.proxy.ServePorts(ctx, port) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-served:
			return err
		case <-time.After(patience):
			t.Error("ServePorts did not end")
			return nil
		}
	})
	t.Cleanup(func() { s.stop() })
	return s
}

// secured makes a connection one of TLS.
func (s *site) secured(conn net.Conn, protocols ...string) *tls.Conn {
	s.t.Helper()
	c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: "app.example", NextProtos: protocols})
	if err := c.Handshake(); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// browser returns a client that speaks HTTP/2.
func browser(t testing.TB) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols), ExpectContinueTimeout: patience}
	tr.Protocols.SetHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// frames is a client of HTTP/2 that sends what it likes.
type frames struct {
	*http2.Framer
	t    testing.TB
	conn net.Conn
	enc  *hpack.Encoder
	buf  bytes.Buffer
	next uint32
	max  uint32 // streams that the server allows
}

func (s *site) frames() *frames {
	s.t.Helper()
	conn := s.secured(s.dial(), "h2")
	f := &frames{Framer: http2.NewFramer(conn, conn), t: s.t, conn: conn, next: 1}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.enc = hpack.NewEncoder(&f.buf)
	f.AllowIllegalWrites = true
	io.WriteString(conn, http2.ClientPreface)
	f.WriteSettings()
	for f.max == 0 {
		fr, err := f.ReadFrame()
		if err != nil {
			s.t.Fatal(err)
		}
		if set, ok := fr.(*http2.SettingsFrame); ok && !set.IsAck() {
			f.max, _ = set.Value(http2.SettingMaxConcurrentStreams)
			f.WriteSettingsAck()
		}
	}
	return f
}

// block packs "name: value" lines.
func (f *frames) block(lines ...string) []byte {
	f.buf.Reset()
	for _, l := range lines {
		name, value, _ := strings.Cut(l[1:], ": ") // pseudo headers start with a colon
		f.enc.WriteField(hpack.HeaderField{Name: l[:1] + name, Value: value})
	}
	return bytes.Clone(f.buf.Bytes())
}

// send begins a stream with a header, which may be all of it.
func (f *frames) send(end bool, lines ...string) (id uint32) {
	f.t.Helper()
	id = f.next
	f.next += 2
	block := f.block(lines...)
	first := block[:min(len(block), 16000)]
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(first) == len(block)}); err != nil {
		f.t.Fatal(err)
	}
	for rest := block[len(first):]; len(rest) > 0; {
		n := min(len(rest), 16000)
		f.WriteContinuation(id, n == len(rest), rest[:n])
		rest = rest[n:]
	}
	return id
}

// result is the status of a stream's answer and its body, or why there is none.
func (f *frames) result(id uint32) (status, body string) {
	f.t.Helper()
	for {
		fr, err := f.ReadFrame()
		if err != nil {
			return "closed", body
		}
		switch fr := fr.(type) {
		case *http2.MetaHeadersFrame:
			if fr.StreamID == id {
				if s := fr.PseudoValue("status"); s != "" {
					status = s
				}
			}
		case *http2.DataFrame:
			if fr.StreamID == id {
				body += string(fr.Data())
			}
		case *http2.RSTStreamFrame:
			if fr.StreamID == id && status == "" {
				return fr.ErrCode.String(), body
			}
		case *http2.GoAwayFrame:
			if fr.ErrCode != http2.ErrCodeNo {
				return "goaway " + fr.ErrCode.String(), body
			}
		case *http2.PingFrame:
			if !fr.IsAck() {
				f.WritePing(true, fr.Data)
			}
		}
		if h := fr.Header(); h.StreamID == id && (h.Type == http2.FrameHeaders || h.Type == http2.FrameData) && h.Flags.Has(http2.FlagDataEndStream) {
			return status, body
		}
	}
}

// lines is a request of HTTP/2 with more to its header.
func lines2(method, path string, more ...string) []string {
	return append([]string{":method: " + method, ":scheme: https", ":authority: app.example", ":path: " + path}, more...)
}

// mirror is an application that says what it got.
func mirror(t testing.TB) string {
	return handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s host=%s xfh=%s proto=%s te=%q len=%d body=%q err=%v", r.Method, r.RequestURI, r.Host,
			r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Forwarded-Proto"), r.Header["Te"], r.ContentLength, body, err)
	}))
}

// TestHTTP2Said: over HTTP/2 a request is passed on as it was judged, and what says two
// things, where HTTP/1 can say but one, is not.
func TestHTTP2Said(t *testing.T) {
	s := servePort(t, mirror(t), secure)
	f := s.frames()
	if f.max != 100 {
		t.Errorf("%d streams, want 100", f.max)
	}
	const as = "GET %s host=app.example xfh=app.example proto=https"
	for _, row := range []struct {
		name   string
		lines  []string
		status string
		body   string
	}{
		{"plain", lines2("GET", "/a"), "200", fmt.Sprintf(as, "/a")},
		{"bytes of the target", lines2("GET", "//a/./%2e;x//?a=%2f&b"), "200", fmt.Sprintf(as, "//a/./%2e;x//?a=%2f&b")},
		{"te", lines2("GET", "/a", "te: trailers"), "200", `te=["trailers"]`},
		{"Host as well", lines2("GET", "/a", "host: APP.example"), "200", fmt.Sprintf(as, "/a")},
		{"Host alone", []string{":method: GET", ":scheme: https", ":path: /a", "host: app.example"}, "200", fmt.Sprintf(as, "/a")},
		{"another Host", lines2("GET", "/a", "host: other.example"), "400", ""},
		{"two Hosts", lines2("GET", "/a", "host: app.example", "host: app.example"), "400", ""},
		{"scheme http", []string{":method: GET", ":scheme: http", ":authority: app.example", ":path: /a"}, "200", fmt.Sprintf(as, "/a")},
		{"absolute path", lines2("GET", "https://other.example/a"), "400", ""},
		{"star", lines2("OPTIONS", "*"), "200", ""},
		{"star for GET", lines2("GET", "*"), "400", ""},
		{"no slash", lines2("GET", "a"), "PROTOCOL_ERROR", ""},
		{"version behind the path", lines2("POST", "/login HTTP/1.1"), "400", ""},
		{"space in the query", lines2("GET", "/a?x HTTP/1.1 302 Found"), "400", ""},
		{"no path", []string{":method: GET", ":scheme: https", ":authority: app.example"}, "PROTOCOL_ERROR", ""},
		{"bad host", []string{":method: GET", ":scheme: https", ":authority: a/b", ":path: /a"}, "400", ""},
		{"user in host", []string{":method: GET", ":scheme: https", ":authority: a@b", ":path: /a"}, "PROTOCOL_ERROR", ""},
		{"CONNECT", []string{":method: CONNECT", ":authority: app.example:443"}, "400", ""},
		{"extended CONNECT", lines2("CONNECT", "/a", ":protocol: websocket"), "PROTOCOL_ERROR", ""},
		{"Connection", lines2("GET", "/a", "connection: close"), "400", ""},
		{"Transfer-Encoding", lines2("POST", "/a", "transfer-encoding: chunked"), "400", ""},
		{"Upgrade", lines2("GET", "/a", "upgrade: h2c"), "400", ""},
		{"two paths", lines2("GET", "/a", ":path: /b"), "PROTOCOL_ERROR", ""},
		{"late pseudo", lines2("GET", "/a", "x: y", ":path: /b"), "PROTOCOL_ERROR", ""},
		{"capitals", lines2("GET", "/a", "X-Y: z"), "PROTOCOL_ERROR", ""},
		{"line in value", lines2("GET", "/a", "x: y\r\nz: z"), "PROTOCOL_ERROR", ""},
		{"large", lines2("GET", "/a", "x: "+strings.Repeat("y", 30<<10)), "200", fmt.Sprintf(as, "/a")},
		{"too large", lines2("GET", "/a", strings.Split(strings.Repeat("x: "+strings.Repeat("y", 1<<10)+"|", 34)+"z: z", "|")...), "431", ""},
		{"too large at once", lines2("GET", "/a", "x: "+strings.Repeat("y", 34<<10)), "goaway COMPRESSION_ERROR", ""},
	} {
		status, body := f.result(f.send(true, row.lines...))
		if status != row.status || !strings.Contains(body, row.body) {
			t.Errorf("%s: %s %q, want %s %q", row.name, status, body, row.status, row.body)
		}
		if status == "closed" || strings.HasPrefix(status, "goaway") {
			f = s.frames()
		}
	}
	// What a body declares is what it is.
	for _, row := range []struct{ length, data, status, body string }{
		{"3", "a=b", "200", `len=3 body="a=b"`},
		{"2", "a=b", "PROTOCOL_ERROR", ""},
		{"x", "a=b", "PROTOCOL_ERROR", ""},
	} {
		id := f.send(false, lines2("POST", "/a", "content-length: "+row.length)...)
		f.WriteData(id, true, []byte(row.data))
		if status, body := f.result(id); status != row.status && row.status == "200" || !strings.Contains(body, row.body) {
			t.Errorf("length %s: %s %q, want %s %q", row.length, status, body, row.status, row.body)
		}
	}
}

// TestHTTP2Door: a door counts over HTTP/2, however its path is spelled, and all streams
// of a connection are one caller.
func TestHTTP2Door(t *testing.T) {
	a := listen(t, reads(wrong))
	s := servePort(t, a.addr, secure)
	f := s.frames()
	for i, path := range []string{"/login", "//login", "/%6cogin", "/x/../login", "/login?a=b"} {
		id := f.send(false, lines2("POST", path)...)
		f.WriteData(id, true, []byte("user=a&pass=b"))
		if status, body := f.result(id); status != "200" || body != "wrong" {
			t.Errorf("guess %d: %s %q", i+1, status, body)
		}
	}
	var ids []uint32
	for range 50 {
		ids = append(ids, f.send(true, lines2("POST", "/login")...))
	}
	for _, id := range ids[len(ids)-1:] {
		if status, _ := f.result(id); status != "429" {
			t.Errorf("locked: %s", status)
		}
	}
	if n := a.conns.Load(); n != 5 {
		t.Errorf("%d guesses reached the application, want 5", n)
	}
}

// TestHTTP2Streams: 1xx, event streams, trailers, Expect and bodies in both directions
// pass over HTTP/2 as they do over HTTP/1.
func TestHTTP2Streams(t *testing.T) {
	addr := handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		switch r.URL.Path {
		case "/hints":
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(103)
			w.Header().Set("Trailer", "X-Sum")
			io.WriteString(w, "body")
			w.Header().Set("X-Sum", "7")
			w.Header().Set("Doorward-Outcome", "succeeded")
		case "/events":
			rc.EnableFullDuplex()
			w.Header().Set("Content-Type", "text/event-stream")
			rc.Flush()
			io.Copy(flusher{w, rc}, r.Body)
		case "/upload":
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		case "/download":
			z := zeros(64 << 20)
			io.Copy(w, &z)
		}
	}))
	s := servePort(t, addr, secure)
	client := browser(t)
	url := "https://" + s.addr
	res, err := client.Get(url + "/hints")
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(res.Body); string(body) != "body" || res.ProtoMajor != 2 || res.Trailer.Get("X-Sum") != "7" || res.Trailer.Get("Doorward-Outcome") != "" {
		t.Errorf("%s %q, trailer %v", res.Proto, body, res.Trailer)
	}
	f := s.frames()
	id := f.send(true, lines2("GET", "/hints")...)
	var statuses []string
	for len(statuses) < 2 {
		fr, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := fr.(*http2.MetaHeadersFrame); ok && h.StreamID == id {
			statuses = append(statuses, h.PseudoValue("status"))
		}
	}
	if got := strings.Join(statuses, " "); got != "103 200" {
		t.Errorf("statuses %s, want 103 200", got)
	}

	in, out := io.Pipe()
	req, _ := http.NewRequest("POST", url+"/events", in)
	go io.WriteString(out, "a")
	if res, err = client.Do(req); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	for i := range 100 {
		if _, err := io.ReadFull(res.Body, b); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		io.WriteString(out, "b")
	}
	out.Close()
	res.Body.Close()

	for _, expect := range []string{"", "100-continue"} {
		z := zeros(64 << 20)
		req, _ = http.NewRequest("POST", url+"/upload", &z)
		if expect != "" {
			req.Header.Set("Expect", expect)
		}
		if res, err = client.Do(req); err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(res.Body); string(body) != fmt.Sprint(64<<20) {
			t.Errorf("upload, Expect %q: %q", expect, body)
		}
	}
	if res, err = client.Get(url + "/download"); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, res.Body); n != 64<<20 || err != nil {
		t.Errorf("download: %d, %v", n, err)
	}
}

// TestTLS: what TLS is spoken, HTTP/1 over it with what only that has: WebSockets,
// pipelining and HTTP/1.0. A plain request gets a plain answer.
func TestTLS(t *testing.T) {
	a := echoApp(t)
	s := servePort(t, a.addr, secure)
	for _, row := range []struct {
		min, max uint16
		ok       bool
	}{{tls.VersionTLS10, tls.VersionTLS11, false}, {tls.VersionTLS12, tls.VersionTLS12, true}, {tls.VersionTLS13, tls.VersionTLS13, true}} {
		c := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true, MinVersion: row.min, MaxVersion: row.max})
		if err := c.Handshake(); (err == nil) != row.ok {
			t.Errorf("up to %s: %v", tls.VersionName(row.max), err)
		}
	}
	conn := s.secured(s.dial(), "http/1.1")
	r := bufio.NewReader(conn)
	io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 3))
	for i := range 3 {
		if res, body := s.answer(r, "GET"); res.StatusCode != 200 || body != "wrong" {
			t.Errorf("pipelined %d: %d %q", i, res.StatusCode, body)
		}
	}
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%v, %v", res, err)
	}
	for range 10 {
		io.WriteString(conn, "ping\n")
		if l, err := r.ReadString('\n'); l != "ping\n" {
			t.Fatalf("%q, %v", l, err)
		}
	}
	old := s.secured(s.dial())
	io.WriteString(old, "GET / HTTP/1.0\r\n\r\n")
	if b, err := io.ReadAll(old); err != nil || !strings.HasPrefix(string(b), "HTTP/1.0 200") || !strings.HasSuffix(string(b), "wrong") {
		t.Errorf("HTTP/1.0: %q, %v", b, err)
	}
	if res, _ := s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); res.StatusCode != 400 {
		t.Errorf("plain request: %d, want 400", res.StatusCode)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("a WebSocket over TLS outlived ServePorts")
	}
}

// TestUnencryptedHTTP2: there is none; its preface is a bad request.
func TestUnencryptedHTTP2(t *testing.T) {
	s := serve(t, mirror(t))
	conn := s.dial()
	io.WriteString(conn, http2.ClientPreface)
	if b, _ := io.ReadAll(conn); !strings.HasPrefix(string(b), "HTTP/1.1 4") && !strings.HasPrefix(string(b), "HTTP/1.1 505") {
		t.Errorf("%q, want a refusal", b)
	}
}

// TestPreamblePort: the declared address is charged, before TLS or plain, and is the peer
// whose header is believed or not.
func TestPreamblePort(t *testing.T) {
	for name, change := range map[string]func(*Port, *Proxy){"plain": declared, "TLS": both} {
		a := listen(t, reads(wrong))
		s := servePort(t, a.addr, change, trusting(t, "X-Forwarded-For", "10.0.0.0/8"))
		try := func(preamble string, lines ...string) int {
			t.Helper()
			conn := s.dial()
			io.WriteString(conn, preamble)
			if change := name == "TLS"; change {
				conn = s.secured(conn)
			}
			io.WriteString(conn, request("POST", "/login", "a=b", lines...))
			res, _ := s.answer(bufio.NewReader(conn), "POST")
			return res.StatusCode
		}
		for range 5 {
			if status := try("PROXY TCP4 198.51.100.22 203.0.113.7 35646 80\r\n", "X-Forwarded-For: 9.9.9.9"); status != 200 {
				t.Errorf("%s: status %d", name, status)
			}
		}
		if status := try("PROXY TCP4 198.51.100.22 203.0.113.7 35646 80\r\n"); status != 429 {
			t.Errorf("%s: locked: %d", name, status)
		}
		// A trusted proxy that came through the first one.
		if status := try("PROXY TCP4 10.1.1.1 203.0.113.7 35646 80\r\n", "X-Forwarded-For: 198.51.100.22"); status != 429 {
			t.Errorf("%s: behind both: %d", name, status)
		}
		if status := try("PROXY UNKNOWN\r\n"); status != 200 || s.remaining("127.0.0.1") != 4 {
			t.Errorf("%s: its own: %d, %d remain", name, status, s.remaining("127.0.0.1"))
		}
		if n := s.remaining("9.9.9.9"); n != 5 {
			t.Errorf("%s: a caller's header was believed: %d remain", name, n)
		}
	}
	// Where none is expected, a preamble is a bad request.
	s := serve(t, mirror(t))
	for _, text := range []string{"PROXY TCP4 198.51.100.22 203.0.113.7 35646 80\r\n" + request("GET", "/", ""), "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00" + request("GET", "/", "")} {
		if res, _ := s.raw(text); res.StatusCode != 400 {
			t.Errorf("%.20q: %d, want 400", text, res.StatusCode)
		}
	}
	// Who may not declare is told in the log.
	u := servePort(t, mirror(t), declared)
	u.from("192.0.2.1")
	if b, _ := io.ReadAll(u.dial()); len(b) > 0 {
		t.Errorf("%q, want a closed connection", b)
	}
	if l := u.log.wait(t, "connection refused", 1)[0]; l["client"] != "192.0.2.1" || !strings.Contains(l["why"].(string), "not trusted") {
		t.Errorf("line %v", l)
	}
}

// TestConnectionLimits: both limits hold, say so, and hinder nobody else.
func TestConnectionLimits(t *testing.T) {
	s := serve(t, mirror(t), trusting(t, "X-Forwarded-For", "10.0.0.0/8"), func(c *Config) {
		c.Limits.Connections, c.Limits.PerNetwork = 8, 2
		c.Proxies = netip.MustParsePrefix("10.0.0.0/8").Contains
	})
	const closed = 0
	get := func() (int, net.Conn) {
		conn := s.dial()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return closed, conn // the connections of peers cannot be half closed, for an answer
		}
		return res.StatusCode, conn
	}
	var open []net.Conn
	for i, row := range []struct {
		peer   string
		status int
	}{
		{"2001:db8:1:2::1", 200}, {"2001:db8:1:2::2", 200}, {"2001:db8:1:2::3", closed}, {"2001:db8:1:3::3", 200},
		{"10.0.0.1", 200}, {"10.0.0.1", 200}, {"10.0.0.1", 200}, {"127.0.0.1", 200}, {"127.0.0.1", 200}, {"127.0.0.1", closed},
	} {
		s.from(row.peer)
		status, conn := get()
		if status != row.status {
			t.Errorf("%d, from %s: %d, want %d", i, row.peer, status, row.status)
		}
		if status == 200 {
			open = append(open, conn)
		}
	}
	lines := s.log.wait(t, "connection refused", 2)
	if lines[0]["why"] != "connections_per_network" || lines[0]["client"] != "2001:db8:1:2::/64" || lines[1]["why"] != "connections" {
		t.Errorf("lines %v", lines)
	}
	open[0].Close()
	s.from("2001:db8:1:2::3")
	until(t, "room", func() bool { status, _ := get(); return status == 200 })
}

// until polls with a deadline.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited for %s", what)
		case <-tick.C:
		}
	}
}

// TestSlowClients: who sends a byte a second is ended in time, is counted, and costs no
// attempt.
func TestSlowClients(t *testing.T) {
	const limit = 2500 * time.Millisecond
	a := listen(t, reads(right))
	short := func(c *Config) { c.Timeouts.ReadHeader, c.Timeouts.Body = limit, limit }
	plain, tlsSite, behind := serve(t, a.addr, short), servePort(t, a.addr, secure, short), servePort(t, a.addr, func(p *Port, _ *Proxy) {
		declared(p, nil)
		p.Preamble.Timeout = limit
	})
	// drip sends text byte by byte until the connection is closed, and returns when.
	drip := func(conn net.Conn, text string) time.Duration {
		begun := time.Now()
		ended := make(chan bool)
		go func() { io.Copy(io.Discard, conn); close(ended) }()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for i := 0; ; i++ {
			io.WriteString(conn, text[i%len(text):][:1])
			select {
			case <-ended:
				return time.Since(begun)
			case <-tick.C:
			}
		}
	}
	const head = "POST /login HTTP/1.1\r\nHost: x\r\n"
	var wg sync.WaitGroup
	check := func(name string, most time.Duration, do func() time.Duration) {
		wg.Go(func() {
			if took := do(); took < limit-100*time.Millisecond || took > most+4*time.Second {
				t.Errorf("%s: ended after %v, want %v to %v", name, took, limit, most)
			}
		})
	}
	check("header", limit, func() time.Duration { return drip(plain.dial(), "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 100)) })
	// Of a later request the first four bytes are waited for as long as for none.
	check("second header", limit+4*time.Second, func() time.Duration {
		conn := plain.dial()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if res, _ := plain.answer(bufio.NewReader(conn), "GET"); res.StatusCode != 302 {
			t.Errorf("status %d", res.StatusCode)
		}
		return drip(conn, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 100))
	})
	check("body", limit, func() time.Duration {
		conn := plain.dial()
		io.WriteString(conn, head+"Content-Length: 1000\r\n\r\n")
		return drip(conn, "x")
	})
	check("chunks", limit, func() time.Duration {
		conn := plain.dial()
		io.WriteString(conn, head+"Transfer-Encoding: chunked\r\n\r\n")
		return drip(conn, "1\r\nx\r\n")
	})
	check("preamble", limit, func() time.Duration { return drip(behind.dial(), "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c") })
	check("handshake", limit, func() time.Duration { return drip(tlsSite.dial(), "\x16\x03\x01\x01\x00"+strings.Repeat("\x01", 1000)) })
	check("header over TLS", limit, func() time.Duration {
		return drip(tlsSite.secured(tlsSite.dial()), "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 100))
	})
	check("header over HTTP/2", 2*limit, func() time.Duration {
		f := tlsSite.frames()
		begun := time.Now()
		ended := make(chan bool)
		go func() { io.Copy(io.Discard, f.conn); close(ended) }()
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block(lines2("GET", "/")...)})
		for {
			select {
			case <-ended:
				return time.Since(begun)
			case <-time.After(time.Second):
				f.WriteContinuation(1, false, f.block("x: y"))
			}
		}
	})
	check("body over HTTP/2", limit, func() time.Duration {
		f := tlsSite.frames()
		begun := time.Now()
		id := f.send(false, lines2("POST", "/login")...)
		answered := make(chan string)
		go func() { status, _ := f.result(id); answered <- status }()
		for {
			select {
			case status := <-answered:
				if status != "408" {
					t.Errorf("body over HTTP/2: status %s, want 408", status)
				}
				return time.Since(begun)
			case <-time.After(time.Second):
				f.WriteData(id, false, []byte("x"))
			}
		}
	})
	wg.Wait()
	count := func(s *site, msg, key, value string) (n int) {
		for _, l := range s.log.of(msg) {
			if strings.Contains(fmt.Sprint(l[key]), value) {
				n++
			}
		}
		return n
	}
	for _, row := range []struct {
		s               *site
		msg, key, value string
		want            int
	}{
		{plain, "client too slow", "what", "header", 2},
		{plain, "client too slow", "what", "body", 2},
		{plain, "client too slow", "door", "login", 2},
		{tlsSite, "client too slow", "what", "header", 2}, // the handshake is one
		{tlsSite, "client too slow", "what", "body", 1},
		{tlsSite, "server", "error", "handshake", 1},
		{tlsSite, "server", "error", "PING", 1},
		{behind, "connection refused", "why", "proxy_protocol", 1},
	} {
		if got := count(row.s, row.msg, row.key, row.value); got != row.want {
			t.Errorf("%d lines %q with %s of %q, want %d", got, row.msg, row.key, row.value, row.want)
		}
	}
	for _, s := range []*site{plain, tlsSite} {
		if n := s.remaining("127.0.0.1"); n != 5 {
			t.Errorf("%d attempts remain, want 5", n)
		}
	}
}

// TestQuiet: connections that only wait are no slow clients: neither before a request
// nor between two, over HTTP/2 no longer than Idle either.
func TestQuiet(t *testing.T) {
	a := listen(t, reads(right))
	short := func(c *Config) { c.Timeouts.ReadHeader, c.Timeouts.Idle = time.Second, time.Second }
	plain, tlsSite := serve(t, a.addr, short), servePort(t, a.addr, secure, short)
	var wg sync.WaitGroup
	wg.Go(func() { io.ReadAll(plain.dial()) })
	wg.Go(func() { io.ReadAll(tlsSite.secured(tlsSite.dial())) })
	wg.Go(func() {
		conn := tlsSite.secured(tlsSite.dial())
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		io.ReadAll(conn)
	})
	wg.Go(func() {
		f := tlsSite.frames()
		if status, _ := f.result(f.send(true, lines2("GET", "/")...)); status != "302" {
			t.Errorf("status %s", status)
		}
		if status, _ := f.result(99); status != "closed" {
			t.Errorf("idle: %s", status)
		}
	})
	wg.Wait()
	for _, s := range []*site{plain, tlsSite} {
		if lines := append(s.log.of("client too slow"), s.log.of("server")...); len(lines) > 0 {
			t.Errorf("lines %v", lines)
		}
	}
}

// TestServeEndsWithPort: a port that fails ends all, with its error.
func TestServeEndsWithPort(t *testing.T) {
	p, err := New(baseConfig(t, "127.0.0.1:1", lockoutGuard(t, 5), newRecord()))
	if err != nil {
		t.Fatal(err)
	}
	good := &silent{closed: make(chan bool)}
	bad := &silent{closed: make(chan bool)}
	bad.Close()
	if err := p.ServePorts(t.Context(), Port{Listener: good}, Port{Listener: bad}); err == nil || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("error %v", err)
	}
	select {
	case <-good.closed:
	case <-time.After(patience):
		t.Error("the other port is open")
	}
}
