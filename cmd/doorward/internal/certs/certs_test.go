package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// write writes a self-signed certificate for names and its key.
func write(t *testing.T, f Files, serial int64, key crypto.Signer, names ...string) {
	t.Helper()
	if key == nil {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key = k
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, f.Cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, f.Key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func pair(dir, name string) Files {
	return Files{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+".key")}
}

// serial has a client ask for a name and returns which certificate it got.
func serial(t *testing.T, s *Store, name string, change func(*tls.Config)) int64 {
	t.Helper()
	here, there := net.Pipe()
	server := tls.Server(there, &tls.Config{GetCertificate: s.Get})
	go server.Handshake()
	c := &tls.Config{InsecureSkipVerify: true, ServerName: name}
	if change != nil {
		change(c)
	}
	client := tls.Client(here, c)
	defer here.Close()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return client.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestNames: who asks for a name gets its certificate, by real handshakes.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	files := []Files{pair(dir, "1"), pair(dir, "2"), pair(dir, "3"), pair(dir, "4")}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, files[0], 1, nil, "first.example")
	write(t, files[1], 2, nil, "second.example", "*.wild.example")
	write(t, files[2], 3, nil, "A.wild.example")
	write(t, files[3], 4, rsaKey, "second.example")
	s, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		want int64
	}{
		{"first.example", 1},
		{"second.example", 2},
		{"SECOND.example", 2},
		{"b.wild.example", 2},
		{"a.wild.example", 3},
		{"b.a.wild.example", 1},
		{"wild.example", 1},
		{"other.example", 1},
		{"", 1},
		{"192.0.2.1", 1},
	} {
		if got := serial(t, s, row.name, nil); got != row.want {
			t.Errorf("%q: certificate %d, want %d", row.name, got, row.want)
		}
	}
	// A client that knows no elliptic keys gets the certificate with an RSA key.
	old := func(c *tls.Config) {
		c.MaxVersion = tls.VersionTLS12
		c.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	}
	if got := serial(t, s, "second.example", old); got != 4 {
		t.Errorf("an old client got certificate %d, want 4", got)
	}
}

// TestReload: a new pair is served, a broken one is not and is told once; renames,
// links and files of the same length and time are noticed as well.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	f, other := pair(dir, "a"), pair(dir, "b")
	write(t, f, 1, nil, "a.example")
	write(t, other, 9, nil, "b.example")
	s, err := Load([]Files{other, f})
	if err != nil {
		t.Fatal(err)
	}
	want := func(step string, number int64, changes int, broken bool) {
		t.Helper()
		got := s.Reload()
		if len(got) != changes || changes > 0 && (got[0].Err != nil) != broken {
			t.Errorf("%s: changes %v", step, got)
		}
		if n := serial(t, s, "a.example", nil); n != number {
			t.Errorf("%s: certificate %d, want %d", step, n, number)
		}
		if n := serial(t, s, "b.example", nil); n != 9 {
			t.Errorf("%s: the other certificate is %d", step, n)
		}
	}
	want("nothing new", 1, 0, false)
	write(t, f, 2, nil, "a.example")
	want("new", 2, 1, false)
	want("nothing new again", 2, 0, false)

	info, err := os.Stat(f.Cert)
	if err != nil {
		t.Fatal(err)
	}
	key, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	for { // signatures differ in length
		write(t, f, 3, key.PrivateKey.(crypto.Signer), "a.example")
		if now, _ := os.Stat(f.Cert); now.Size() == info.Size() {
			break
		}
	}
	os.Chtimes(f.Cert, info.ModTime(), info.ModTime())
	want("same length and time", 3, 1, false)

	next := pair(dir, "next")
	write(t, next, 4, nil, "a.example")
	os.Remove(f.Cert)
	os.Symlink(next.Cert, f.Cert)
	want("half of a pair, once", 3, 0, false)
	want("half of a pair, twice", 3, 1, true)
	want("half of a pair, said", 3, 0, false)
	os.Rename(next.Key, f.Key)
	want("whole, behind a link", 4, 1, false)

	put(t, f.Key, "no key")
	want("broken, once", 4, 0, false)
	put(t, f.Key, "another")
	want("broken otherwise, once", 4, 0, false)
	want("broken otherwise, twice", 4, 1, true)
	want("broken, said", 4, 0, false)
	os.Remove(f.Key)
	want("gone, once", 4, 0, false)
	want("gone, twice", 4, 1, true)
	write(t, f, 5, nil, "a.example")
	want("mended", 5, 1, false)
	os.Remove(f.Key)
	want("gone again, once", 5, 0, false)
	want("gone again, twice", 5, 1, true)
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	a, b := pair(dir, "a"), pair(dir, "b")
	write(t, a, 1, nil, "a.example")
	write(t, b, 2, nil, "b.example")
	put(t, filepath.Join(dir, "huge"), strings.Repeat("x", maxFile+1))
	for _, row := range []struct {
		files Files
		want  string
	}{
		{Files{a.Cert, b.Key}, "private key does not match public key"},
		{Files{a.Key, a.Key}, "failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"},
		{Files{dir, a.Key}, "not a regular file"},
		{Files{filepath.Join(dir, "none"), a.Key}, "no such file or directory"},
		{Files{filepath.Join(dir, "huge"), a.Key}, "more than 1048576 bytes"},
	} {
		_, err := Load([]Files{a, row.files})
		if err == nil || !strings.HasSuffix(err.Error(), row.want) {
			t.Errorf("%v: %v, want %s", row.files, err, row.want)
		} else if strings.Contains(Reason(err).Error(), dir+"/a") {
			t.Errorf("the reason names a file: %v", Reason(err))
		}
	}
	if _, err := Load([]Files{{Cert: filepath.Join(dir, "none")}}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Load(nil); err == nil {
		t.Error("nothing loads")
	}
}

// TestWatch: changes are found within an interval, until it is done.
func TestWatch(t *testing.T) {
	f := pair(t.TempDir(), "a")
	write(t, f, 1, nil, "a.example")
	s, err := Load([]Files{f})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		done, ended := make(chan struct{}), make(chan struct{})
		var told []Change
		go func() {
			s.Watch(done, time.Second, func(c Change) { told = append(told, c) })
			close(ended)
		}()
		put(t, f.Key, "x")
		time.Sleep(10 * time.Second)
		close(done)
		<-ended
		if len(told) != 1 || told[0].Err == nil || s.Leaf().SerialNumber.Int64() != 1 {
			t.Errorf("told %v", told)
		}
	})
}
