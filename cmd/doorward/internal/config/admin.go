package config

import (
	"bufio"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/doorward/doorward/cmd/doorward/internal/certs"
)

// Admin says where the admin API is, and who may use it.
type Admin struct {
	// Listen are sockets. Without Default all of them must open.
	Listen []Listener
	// Default says that nobody said where: the first socket that can be opened is.
	Default bool
	// Tokens are the SHA-256 of what opens a TCP listener.
	Tokens Tokens
	// TLS is what TCP listeners show, nil for plain HTTP.
	TLS []certs.Files
	// ClientCAs sign certificates of clients that may do everything, nil if none do.
	ClientCAs []*x509.Certificate
	// Hosts are names that browsers may call a TCP listener by, beside its address.
	Hosts []string
}

// Tokens are hashes of secrets. They print as how many there are.
type Tokens [][sha256.Size]byte

func (t Tokens) String() string   { return fmt.Sprintf("%d tokens", len(t)) }
func (t Tokens) GoString() string { return t.String() }

// AdminEnv is the environment variable that says where the admin API is, to serve if the
// file does not, and to commands: unix:/PATH, a URL, or off.
const AdminEnv = "DOORWARD_ADMIN"

// adminSocket is the name of the default socket in its directory.
const adminSocket = "doorward/admin.sock"

// AdminPlaces returns where the admin API may be if nothing says so, the best first:
// unix:/PATH or a URL. What AdminEnv says is the only one, none if it is off.
func AdminPlaces() []string {
	switch said := os.Getenv(AdminEnv); said {
	case "":
	case adminOff:
		return nil
	default:
		return []string{said}
	}
	places := []string{unixPrefix + "/run/" + adminSocket}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		places = append(places, unixPrefix+filepath.Join(dir, adminSocket))
	}
	return places
}

const (
	adminOff      = "off"
	adminMode     = 0o600 // who can connect may do everything
	minTokenBytes = 32
	maxTokenBytes = 512
	maxTokens     = 100
)

// adminFile says where the admin API is.
type adminFile struct {
	Listen     adminListen `yaml:"listen"`
	TokenFiles []string    `yaml:"token_files"`
	TLS        *adminTLS   `yaml:"tls"`
	Hosts      []string    `yaml:"hosts"`
}

// plain says that it may be written as its listener.
func (*adminFile) plain() string { return "listen" }

type adminListen []adminAddress

func (adminListen) lone() {}

// adminAddress is an address, or off.
type adminAddress string

func (a *adminAddress) set(s scalar) error {
	if s.text == adminOff || s.text == "false" && s.tag == "!!bool" && !s.quoted {
		*a = adminOff
		return nil
	}
	if err := (*address)(a).set(s); err != nil {
		return errors.New("must be off, an address and a port such as 127.0.0.1:9180, or unix:/PATH")
	}
	return nil
}

type adminTLS struct {
	Cert     string `yaml:"cert_file"`
	Key      string `yaml:"key_file"`
	ClientCA string `yaml:"client_ca_file"`
}

// admin turns where the admin API is into its configuration, nil for off.
func (s *source) admin(f *adminFile) *Admin {
	const path = "admin"
	if f == nil {
		return s.adminByDefault()
	}
	a := &Admin{}
	for i, l := range f.Listen {
		at := s.adminSpot(i)
		switch {
		case s.failed[at]:
		case l == adminOff && (len(f.Listen) > 1 || len(f.TokenFiles) > 0 || f.TLS != nil || len(f.Hosts) > 0):
			s.fail(at, "must not be off beside something else")
		case l == adminOff:
			return nil
		default:
			a.Listen = append(a.Listen, s.adminListener(at, string(l)))
		}
	}
	if len(f.Listen) == 0 {
		s.fail(path+".listen", "must say where, such as unix:/run/doorward/admin.sock, or off")
	}
	s.tokens(path+".token_files", f.TokenFiles, a)
	if f.TLS != nil {
		a.TLS = s.certs(path+".tls", certFiles{{Cert: f.TLS.Cert, Key: f.TLS.Key}})
		a.ClientCAs = s.clientCAs(path+".tls.client_ca_file", f.TLS.ClientCA)
	}
	for i, h := range f.Hosts {
		if at := index(path+".hosts", i); !s.failed[at] && !isHost(h) {
			s.fail(at, "must be a host name without a port such as admin.example.com, got %s", clip(h))
		}
		a.Hosts = append(a.Hosts, strings.ToLower(h))
	}
	s.adminAccess(a)
	return a
}

// adminSpot is where a listener stands in the file.
func (s *source) adminSpot(i int) string {
	for _, at := range []string{index("admin.listen", i), "admin.listen"} {
		if s.has(at) {
			return at
		}
	}
	return "admin"
}

func (s *source) adminListener(at, addr string) Listener {
	l := Listener{Network: "tcp", Address: addr}
	if name, ok := strings.CutPrefix(addr, unixPrefix); ok {
		l = Listener{Network: "unix", Address: s.beside(name), Mode: adminMode}
		if len(l.Address) > maxPath {
			s.fail(at, "must be a path of at most %d bytes, got %d", maxPath, len(l.Address))
		}
	}
	return l
}

// adminAccess judges who could come: on TCP beyond this machine nobody without a secret,
// and no secret in clear.
func (s *source) adminAccess(a *Admin) {
	if s.failedWithin("admin") {
		return
	}
	tcp := false
	for i, l := range a.Listen {
		if l.Network != "tcp" {
			continue
		}
		tcp = true
		if IsLoopback(l.Address) {
			continue
		}
		at := s.adminSpot(i)
		switch {
		case len(a.Tokens) == 0 && a.ClientCAs == nil:
			s.fail(at, "must be a loopback address such as 127.0.0.1:9180 without token_files or tls.client_ca_file: anybody who reaches %s could unlock and exempt", l.Address)
		case a.TLS == nil:
			s.fail(at, "must be a loopback address such as 127.0.0.1:9180 without tls: tokens would pass in clear")
		}
	}
	if !tcp {
		for _, key := range []string{"token_files", "tls", "hosts"} {
			if s.has("admin." + key) {
				s.fail("admin."+key, "must be left out unless admin.listen has an address and a port: the mode of a socket says who may use it")
			}
		}
	}
}

// IsLoopback reports whether only this machine can reach an address: an IP address is
// asked for, since a name may mean another one tomorrow.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// adminApart refuses an upstream that is the admin API, as far as both are written alike: the
// socket takes whoever opens it for an operator, and the proxy would open it for everybody.
func (s *source) adminApart(c Config) {
	if c.Admin == nil {
		return
	}
	for i, u := range c.Upstreams {
		at := "upstream"
		if s.has("upstreams") {
			at = index("upstreams", i)
		}
		for _, l := range c.Admin.Listen {
			if l.Network == "tcp" && u.Host == l.Address || l.Network == "unix" && u.Scheme == "unix" && filepath.Clean(u.Path) == filepath.Clean(l.Address) {
				s.fail(at, "must not be the admin API: every caller would be let in")
			}
		}
	}
}

// tokens reads files of tokens, one a line. No error shows what they hold.
func (s *source) tokens(path string, files []string, a *Admin) {
	for i, name := range files {
		at := index(path, i)
		if s.failed[at] {
			continue
		}
		tokens, err := readTokens(s.beside(name))
		if err != nil {
			s.fail(at, "%v, got %s", err, clip(name))
			continue
		}
		a.Tokens = append(a.Tokens, tokens...)
	}
	if len(a.Tokens) > maxTokens {
		s.fail(path, "must hold at most %d tokens, got %d", maxTokens, len(a.Tokens))
	}
}

func readTokens(name string) (tokens Tokens, err error) {
	text, err := readRegular(name, maxTokens*(maxTokenBytes+2))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "":
		case len(line) < minTokenBytes || len(line) > maxTokenBytes:
			return nil, fmt.Errorf("must hold tokens of %d to %d bytes, one a line, line %d has %d", minTokenBytes, maxTokenBytes, n, len(line))
		case strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			return nil, fmt.Errorf("must hold tokens of printable ASCII without spaces, line %d has other bytes", n)
		case strings.Count(line, line[:1]) == len(line):
			return nil, fmt.Errorf("must hold random tokens, line %d is one byte many times", n)
		default:
			tokens = append(tokens, sha256.Sum256([]byte(line)))
		}
	}
	if len(tokens) == 0 {
		return nil, errors.New("must hold a token, as openssl rand -hex 32 prints")
	}
	return tokens, nil
}

var errTooLong = errors.New("must be shorter")

// readRegular reads a file that is no pipe, whose end might never come, and that not
// everybody may write: it is a secret, or says whom to trust.
func readRegular(name string, most int64) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("not a regular file")
	case info.Mode().Perm()&0o002 != 0:
		return "", errors.New("must not be writable by everybody (chmod o-w)")
	}
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read (%w)", unwrapPath(err))
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read (%w)", unwrapPath(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read (%w)", unwrapPath(err))
	}
	if int64(len(text)) > most {
		return "", fmt.Errorf("%w, at most %d bytes", errTooLong, most)
	}
	return string(text), nil
}

func (s *source) clientCAs(path, name string) (all []*x509.Certificate) {
	if name == "" || s.failed[path] {
		return nil
	}
	text, err := readRegular(s.beside(name), 1<<20)
	if err != nil {
		s.fail(path, "%v, got %s", err, clip(name))
		return nil
	}
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || !cert.IsCA {
			s.fail(path, "must hold certificates of authorities and nothing else, got %s", clip(name))
			return nil
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		s.fail(path, "must hold certificates in PEM, got %s", clip(name))
	}
	return all
}

// adminByDefault returns where the admin API is if the file does not say.
func (s *source) adminByDefault() *Admin {
	places := AdminPlaces()
	if len(places) == 0 {
		return nil
	}
	a := &Admin{Default: os.Getenv(AdminEnv) == ""}
	for _, p := range places {
		if name, ok := strings.CutPrefix(p, unixPrefix); ok && filepath.IsAbs(name) && len(name) <= maxPath {
			a.Listen = append(a.Listen, Listener{Network: "unix", Address: name, Mode: adminMode})
			continue
		}
		u, err := url.Parse(p)
		if err == nil && u.Scheme == "http" && u.Port() != "" && u.Port() != "0" && (u.Path == "" || u.Path == "/") && u.User == nil && u.RawQuery == "" && IsLoopback(u.Host) {
			a.Listen = append(a.Listen, Listener{Network: "tcp", Address: u.Host})
			continue
		}
		if !a.Default {
			s.given["admin"], s.flags["admin"] = true, AdminEnv+"="+clip(p)
			s.fail("admin", "must be off, unix:/PATH or a URL such as http://127.0.0.1:9180; for all else the file has admin")
		}
	}
	return a
}

// isHost reports whether s may be the name of a host.
func isHost(s string) bool {
	return s != "" && len(s) <= 253 && !slices.Contains(strings.Split(s, "."), "") && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' || r == '_')
	})
}
