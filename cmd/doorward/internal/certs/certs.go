// Package certs keeps the certificates of a TLS listener and reads them again when
// their files change.
//
// It promises that there is always a certificate that works: a changed pair that does
// not read leaves the old one in place. It chooses by the name that a client asks
// for; a client that asks for none, or for one that no certificate has, gets the
// first. It gives up on knowing of a change at once: files are read every few
// seconds, which finds every kind of change (a copy, a rename, a moved link, a mounted
// secret) where notices of the system have to be asked for in the right directories.
package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Files is a pair of PEM files: a certificate with its chain, and its key.
type Files struct{ Cert, Key string }

// maxFile is how long a file may be, in bytes.
const maxFile = 1 << 20

// Store is a set of certificates. Get is safe for concurrent use; Reload is for one
// goroutine.
type Store struct {
	files   []Files
	sums    []sum // of the files of each certificate that is in use
	broken  []sum // of files that did not read; the zero sum if they did
	said    []bool
	current atomic.Pointer[set]
}

type sum [sha256.Size]byte

// set is what clients are answered from. It does not change.
type set struct {
	all    []*tls.Certificate
	byName map[string][]*tls.Certificate
}

// Load reads all pairs. The first is for clients that name none of them.
func Load(files []Files) (*Store, error) {
	if len(files) == 0 {
		return nil, errors.New("certs: there must be one pair of files")
	}
	s := &Store{files: files, sums: make([]sum, len(files)), broken: make([]sum, len(files)), said: make([]bool, len(files))}
	all := make([]*tls.Certificate, len(files))
	for i, f := range files {
		var err error
		if all[i], s.sums[i], err = read(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Cert, err)
		}
	}
	s.current.Store(index(all))
	return s, nil
}

// Leaf returns the first certificate.
func (s *Store) Leaf() *x509.Certificate { return s.current.Load().all[0].Leaf }

// Get is for tls.Config.GetCertificate. Of several certificates for one name (of an RSA
// and an elliptic key) it takes the first that the client can use.
func (s *Store) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c := s.current.Load()
	candidates := c.named(hello.ServerName)
	for _, cert := range candidates {
		if hello.SupportsCertificate(cert) == nil {
			return cert, nil
		}
	}
	return candidates[0], nil
}

func (c *set) named(name string) []*tls.Certificate {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if found := c.byName[name]; found != nil {
		return found
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if found := c.byName["*."+parent]; found != nil {
			return found
		}
	}
	return c.all
}

func index(all []*tls.Certificate) *set {
	s := &set{all: all, byName: map[string][]*tls.Certificate{}}
	for _, c := range all {
		for _, name := range c.Leaf.DNSNames {
			name = strings.ToLower(name)
			s.byName[name] = append(s.byName[name], c)
		}
	}
	return s
}

// A Change is a pair that was read again. If Err is not nil the old one stays.
type Change struct {
	Files Files
	Leaf  *x509.Certificate
	Err   error
}

// Reload reads the files and returns what has changed. Files that do not read are told
// once, and only when they are found so a second time: the first may have been in the
// middle of their writing.
func (s *Store) Reload() (changes []Change) {
	all := append([]*tls.Certificate(nil), s.current.Load().all...)
	changed := false
	for i, f := range s.files {
		cert, now, err := read(f)
		switch {
		case err != nil:
			if s.broken[i] != now {
				s.broken[i], s.said[i] = now, false
			} else if !s.said[i] {
				s.said[i] = true
				changes = append(changes, Change{Files: f, Err: err})
			}
			continue
		case now != s.sums[i]:
			all[i], s.sums[i], changed = cert, now, true
			changes = append(changes, Change{Files: f, Leaf: cert.Leaf})
		}
		s.broken[i] = sum{}
	}
	if changed {
		s.current.Store(index(all))
	}
	return changes
}

// Watch calls Reload every interval until done is closed, and tell with every change.
func (s *Store) Watch(done <-chan struct{}, interval time.Duration, tell func(Change)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			for _, c := range s.Reload() {
				tell(c)
			}
		}
	}
}

// read reads a pair. The sum names what was read, be it broken: what cannot be read
// at all is named by its error.
func read(f Files) (*tls.Certificate, sum, error) {
	cert, err := readFile(f.Cert)
	var key []byte
	if err == nil {
		key, err = readFile(f.Key)
	}
	if err != nil {
		return nil, sha256.Sum256([]byte(err.Error())), err
	}
	pair := sha256.Sum256(cert)
	of := sha256.Sum256(append(pair[:], key...))
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, of, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &c, of, nil
}

// Reason is an error of Load without the name of a file.
func Reason(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")} // whose end might never come
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	return b, err
}
