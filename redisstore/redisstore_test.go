package redisstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/redisstore/internal/server"
)

var ctx = context.Background()

var _ guard.Lister = (*Store)(nil)

func options(addr ...string) Options {
	// A busy machine may need more than the usual deadline, which is not what is tested here.
	return Options{Addresses: addr, Secret: []byte("a secret of tests"), Deadline: MaxDeadline}
}

func TestOptions(t *testing.T) {
	for _, x := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Addresses = nil }, "Addresses must not be empty"},
		{func(o *Options) { o.Secret = o.Secret[:15] }, "Secret must have at least 16 bytes, got 15"},
		{func(o *Options) { o.Prefix = "a{b" }, `Prefix must not have { or }, got "a{b"`},
		{func(o *Options) { o.Partitions = -1 }, "Partitions must be 1 to 4096, got -1"},
		{func(o *Options) { o.Partitions = 4097 }, "Partitions must be 1 to 4096, got 4097"},
		{func(o *Options) { o.Deadline = -1 }, "Deadline must be positive and at most 1s, got -1ns"},
		{func(o *Options) { o.Deadline = time.Second + 1 }, "Deadline must be positive and at most 1s, got 1.000000001s"},
		{func(o *Options) { o.DB = -1 }, "DB must not be negative, got -1"},
		{func(o *Options) { o.SentinelUsername = "s" }, "MasterName must be set where SentinelUsername or SentinelPasswordFile is"},
		{func(o *Options) { o.PasswordFile = filepath.Join(t.TempDir(), "none") }, "no such file"},
	} {
		o := options("127.0.0.1:1")
		x.change(&o)
		if c, err := Dial(o); err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, want redisstore: %s", err, x.want)
			if err == nil {
				c.Close()
			}
		}
	}
}

// A server that drops what is live is refused, unless it is taken by name.
func TestEviction(t *testing.T) {
	for _, x := range []struct {
		policy, memory, want string
	}{
		{"noeviction", "100mb", ""},
		{"noeviction", "0", ""},
		{"allkeys-lru", "0", ""},
		{"allkeys-lru", "100mb", "has maxmemory-policy allkeys-lru and drops lockouts"},
		{"volatile-ttl", "100mb", "has maxmemory-policy volatile-ttl and drops lockouts"},
	} {
		addr := server.Start(t, "--maxmemory", x.memory, "--maxmemory-policy", x.policy)
		c, err := Dial(options(addr))
		if err == nil {
			c.Close()
		}
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s with %s: %v, want %q", x.policy, x.memory, err, x.want)
		}
		o := options(addr)
		o.InsecureAllowEviction = true
		if c, err = Dial(o); err != nil {
			t.Errorf("%s with %s, allowed: %v", x.policy, x.memory, err)
		} else {
			c.Close()
		}
	}
}

// An ACL user with a password from a file may do what a Store does with no more than it needs; a
// user who may not ask about memory is told so.
func TestACL(t *testing.T) {
	addr := server.Start(t)
	admin := server.Client(t, addr)
	server.Do(t, admin, "ACL", "SETUSER", "doorward", "on", ">open sesame", "~doorward:*", "&doorward:*", "+@hash", "+@scripting", "+@sortedset", "+@string", "+@keyspace", "+@connection", "+@pubsub", "+time", "+info", "-@dangerous", "+info", "+fcall", "+function|load", "+cluster|slots")
	server.Do(t, admin, "ACL", "SETUSER", "blind", "on", ">open sesame", "~doorward:*", "+@all", "-info")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(addr)
	o.Username, o.PasswordFile = "doorward", file
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admits(t, c, "login", 3)
	o.Username = "blind"
	if c, err := Dial(o); err == nil || !strings.Contains(err.Error(), "does not say what it does when its memory is full") {
		t.Errorf("a user who may not ask: %v", err)
		if err == nil {
			c.Close()
		}
	}
	o.Username = "nobody"
	if c, err := Dial(o); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("a user who is none: %v", err)
		if err == nil {
			c.Close()
		}
	}
}

// admits fails unless a door of the name admits exactly n wrong attempts.
func admits(t *testing.T, c *Client, name string, n int) {
	t.Helper()
	s, err := c.Store(name, Closed)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{
		Rules: []guard.Rule{{Lockout: &lockout.Policy{FreeFailures: n, Window: time.Hour, FirstLockout: time.Hour, MaxLockout: time.Hour}}},
		Store: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n + 2 {
		p, err := g.AttemptContext(ctx, guard.Request{Addr: netip.MustParseAddr("192.0.2.1"), How: clientip.Peer}, time.Now())
		if err != nil || p.Allowed != (i < n) {
			t.Fatalf("attempt %d: %+v, %v", i, p.Verdict, err)
		}
		if _, err := p.SettleContext(ctx, doorward.Failed, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that is not there yet is no error, and is found when it comes.
func TestDialWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	c, err := Dial(options(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Store("login", Closed)
	if err != nil {
		t.Fatal(err)
	}
	charges := []guard.Charge{{Rule: &guard.Rule{Name: "network", Lockout: &lockout.Login}}}
	if err := s.Reserve(ctx, charges); err == nil || c.Err() == nil || c.Health().Up || c.Health().Err == nil {
		t.Fatalf("without a server: %v, Err %v, %+v", err, c.Err(), c.Health())
	}
	_, port, _ := net.SplitHostPort(addr)
	server.StartAt(t, port)
	server.Await(t, "the server to be found", func() bool { return c.Err() == nil && c.Health().Up })
	admits(t, c, "login", 2)
}

// The server is found by the name that a Sentinel knows it by.
func TestSentinel(t *testing.T) {
	o := options(server.Sentinel(t, "counts", server.Start(t)))
	o.MasterName = "counts"
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	admits(t, c, "login", 3)
}

func TestCluster(t *testing.T) {
	c, err := Dial(options(server.Cluster(t, 3)[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"login", "code", "recovery"} { // on other servers each
		admits(t, c, name, 3)
	}
}

// With TLS a server is who its certificate says, or is not spoken to.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	certFile, keyFile := write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", private)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secured := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(secured)
	server.Start(t, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile, "--tls-auth-clients", "no")
	o := options(secured)
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	o.TLS = &tls.Config{RootCAs: roots}
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	admits(t, c, "login", 3)
	o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	c, err = Dial(o)
	if err == nil {
		defer c.Close()
		err = c.Err()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with a certificate that nobody vouches for: %v", err)
	}
}

func TestStoreNames(t *testing.T) {
	c, err := Dial(options("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Store("login", FailOpen+1); err == nil || err.Error() != "redisstore: front: Mode must be Local, Closed or FailOpen, got 3" {
		t.Error(err)
	}
	for name, ok := range map[string]bool{"login": true, "a.b_c/D-9": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "": false, "a b": false, "a{b}": false, "a:b": false} {
		if _, err := c.Store(name, Local); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", name, err, ok)
		}
	}
}
