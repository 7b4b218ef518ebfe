package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/certs"
)

// A Listener is a socket, and what is done with its connections.
type Listener struct {
	Network string      // tcp or unix
	Address string      // host and port, or a path
	Mode    fs.FileMode // of a unix socket
	// TLS has certificates, of which the first is for those who ask for none of them.
	// None: plain HTTP.
	TLS []certs.Files
	// ProxyProtocol says that connections must say whose they are: those of Trusted may,
	// and others are closed. Every peer of a unix socket is trusted.
	ProxyProtocol bool
	Trusted       []netip.Prefix
	// Redirect sends everybody to https, and to RedirectTo, if that is not nil.
	Redirect   bool
	RedirectTo *url.URL
}

// String writes the address as a file would have it.
func (l Listener) String() string {
	if l.Network == "unix" {
		return unixPrefix + l.Address
	}
	return l.Address
}

const (
	unixPrefix  = "unix:"
	defaultMode = 0o660 // who can connect may speak for others, so not everybody may
	maxPath     = 107   // of a unix socket
)

// listenFile is a list of listeners, or one.
type listenFile []listenerFile

func (listenFile) lone() {}

type listenerFile struct {
	Address       address       `yaml:"address"`
	Mode          mode          `yaml:"mode"`
	TLS           certFiles     `yaml:"tls"`
	ProxyProtocol proxyProtocol `yaml:"proxy_protocol"`
	Trusted       []network     `yaml:"trusted"`
	Redirect      redirect      `yaml:"redirect"`
}

// plain says that a listener may be written as its address.
func (*listenerFile) plain() string { return "address" }

type certFiles []certFile

func (certFiles) lone() {}

type certFile struct {
	Cert string `yaml:"cert_file"`
	Key  string `yaml:"key_file"`
}

// listen turns listeners into their configuration.
func (s *source) listen(f listenFile) (all []Listener) {
	const path = "listen"
	if len(f) == 0 {
		if s.has(path) {
			s.fail(path, "must have at least one address such as %s", DefaultListen)
		}
		return []Listener{{Network: "tcp", Address: DefaultListen}}
	}
	taken := map[string]string{}
	for i := range f {
		at := path
		if s.has(index(path, i)) {
			at = index(path, i)
		}
		l := s.listener(at, &f[i])
		if other, ok := taken[l.String()]; ok && l.Address != "" && !strings.HasSuffix(l.Address, ":0") {
			s.fail(at, "must not be the address of %s, %s", other, l)
		}
		taken[l.String()] = at
		all = append(all, l)
	}
	if !slices.ContainsFunc(all, func(l Listener) bool { return !l.Redirect }) {
		s.fail(path, "must have a listener that does not redirect")
	}
	return all
}

func (s *source) listener(path string, f *listenerFile) Listener {
	l := Listener{Network: "tcp", Address: string(f.Address), ProxyProtocol: f.ProxyProtocol == "required", Redirect: f.Redirect.scheme, RedirectTo: f.Redirect.to}
	if f.Address == "" && s.has(path) {
		s.fail(path+".address", "must be an address and a port such as 127.0.0.1:8080, or unix:/PATH")
	}
	if name, ok := strings.CutPrefix(l.Address, unixPrefix); ok {
		if !filepath.IsAbs(name) && s.locate(path).Flag == "" {
			name = filepath.Join(filepath.Dir(s.file), name)
		}
		if len(name) > maxPath {
			s.fail(s.spot(path, "address"), "must be a path of at most %d bytes, got %d", maxPath, len(name))
		}
		l.Network, l.Address, l.Mode = "unix", name, defaultMode
		if f.Mode != 0 {
			l.Mode = fs.FileMode(f.Mode)
		}
	} else if f.Mode != 0 {
		s.fail(path+".mode", "must be left out unless address is unix:/PATH")
	}
	l.TLS = s.certs(path+".tls", f.TLS)
	s.proxyProtocol(path, f, &l)
	if l.Redirect && len(l.TLS) > 0 {
		s.fail(path+".redirect", "must be left out with tls: it is for who has not come by it")
	}
	return l
}

// spot is the path of a key of what may be written as that key's value.
func (s *source) spot(path, key string) string {
	if s.has(path + "." + key) {
		return path + "." + key
	}
	return path
}

func (s *source) proxyProtocol(path string, f *listenerFile, l *Listener) {
	for i, p := range f.Trusted {
		at := index(path+".trusted", i)
		if s.failed[at] {
			continue
		}
		one := clientip.Config{Header: DefaultHeader, Trusted: append(l.Trusted[:0:0], p.Prefix)}
		if _, err := clientip.New(one); err != nil {
			s.core(path, err, map[string]string{"Trusted": index("trusted", i)})
			continue
		}
		l.Trusted = append(l.Trusted, p.Prefix)
	}
	switch {
	case l.Network == "unix" && len(f.Trusted) > 0:
		s.fail(path+".trusted", "must be left out for a unix socket: mode says who may connect")
	case l.ProxyProtocol && l.Network != "unix" && len(f.Trusted) == 0 && !s.failedWithin(path+".trusted"):
		s.fail(path+".trusted", "must be the networks of the proxies that say whose a connection is")
	case !l.ProxyProtocol && len(f.Trusted) > 0:
		s.fail(path+".trusted", "must be left out without proxy_protocol: required")
	}
}

// certs looks at certificates; whoever serves them reads them again.
func (s *source) certs(path string, f certFiles) (all []certs.Files) {
	for i, pair := range f {
		at := path
		if s.has(index(path, i)) {
			at = index(path, i)
		}
		if pair.Cert == "" {
			s.fail(at+".cert_file", "must be a PEM file with a certificate and its chain")
		}
		if pair.Key == "" {
			s.fail(at+".key_file", "must be a PEM file with the key of the certificate")
		}
		if s.failedWithin(at) || s.failed[path] {
			continue
		}
		files := certs.Files{Cert: s.beside(pair.Cert), Key: s.beside(pair.Key)}
		if _, err := certs.Load([]certs.Files{files}); err != nil {
			where := at + ".cert_file"
			if e := (*fs.PathError)(nil); errors.As(err, &e) && e.Path == files.Key {
				where = at + ".key_file"
			}
			s.fail(where, "must be a certificate with its key (%v)", certs.Reason(err))
		}
		all = append(all, files)
	}
	return all
}

// beside returns a path that starts at the file, unless it starts at the root.
func (s *source) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.file), name)
}

// mode is who may connect to a unix socket, as chmod takes it.
type mode fs.FileMode

func (m *mode) set(s scalar) error {
	n, err := strconv.ParseUint(s.text, 8, 32)
	*m = mode(n)
	// 0660 in YAML is one number to some readers and another to others.
	if err != nil || !s.quoted || n == 0 || n > 0o777 {
		return errors.New(`must be the mode of a file in quotes such as "0660"`)
	}
	return nil
}

type proxyProtocol string

func (p *proxyProtocol) set(s scalar) error { return oneOf((*string)(p), s, "refused", "required") }

// redirect is https, or a URL that has a host as well.
type redirect struct {
	scheme bool
	to     *url.URL
}

func (r *redirect) set(s scalar) error {
	if s.text == "https" {
		r.scheme = true
		return nil
	}
	u, err := url.Parse(s.text)
	if err != nil || s.tag != "!!str" || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Path != "" && u.Path != "/" ||
		u.RawQuery != "" || u.ForceQuery || strings.Contains(s.text, "#") || strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("must be https, or a URL without a path such as https://www.example.com")
	}
	r.scheme, r.to = true, &url.URL{Scheme: "https", Host: u.Host}
	return nil
}
