package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/certs"
	"github.com/doorward/doorward/redisstore"
)

// Store says where nodes count together.
type Store struct {
	Redis  redisstore.Options // less TLS and Secret
	Secret Keys               // one
	TLS    *StoreTLS          // nil if connections are in clear
}

// StoreTLS is what connections to a store are secured with.
type StoreTLS struct {
	CAs        []*x509.Certificate // nil: those of the system
	Cert       certs.Files         // shown to the server, "" for none; read again for each connection
	ServerName string              // "" is the host of the address
}

// Options returns what a client of the store is dialled with.
func (s *Store) Options() redisstore.Options {
	o := s.Redis
	o.Secret = s.Secret[0]
	if s.TLS == nil {
		return o
	}
	o.TLS = &tls.Config{ServerName: s.TLS.ServerName}
	if s.TLS.CAs != nil {
		o.TLS.RootCAs = x509.NewCertPool()
		for _, ca := range s.TLS.CAs {
			o.TLS.RootCAs.AddCert(ca)
		}
	}
	if files := s.TLS.Cert; files.Cert != "" {
		o.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			return &pair, err
		}
	}
	return o
}

type storeFile struct {
	Redis *redisFile `yaml:"redis"`
}

type redisFile struct {
	Addresses    []hostPort    `yaml:"addresses"`
	Sentinel     *sentinelFile `yaml:"sentinel"`
	Username     string        `yaml:"username"`
	PasswordFile string        `yaml:"password_file"`
	SecretFile   string        `yaml:"secret_file"`
	TLS          *redisTLS     `yaml:"tls"`
	Deadline     interval      `yaml:"deadline"`
	Partitions   positive      `yaml:"partitions"`
	Prefix       string        `yaml:"prefix"`
	DB           int           `yaml:"db"`
	Eviction     bool          `yaml:"insecure_allow_eviction"`
}

// sentinelFile says who knows where the server is.
type sentinelFile struct {
	Master       string     `yaml:"master"`
	Addresses    []hostPort `yaml:"addresses"`
	Username     string     `yaml:"username"`
	PasswordFile string     `yaml:"password_file"`
}

type redisTLS struct {
	CA         string `yaml:"ca_file"`
	Cert       string `yaml:"cert_file"`
	Key        string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// hostPort is where a server is.
type hostPort string

func (a *hostPort) set(s scalar) error {
	*a = hostPort(s.text)
	host, port, err := splitHostPort(s.text)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || s.tag != "!!str" || host == "" || bad != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return errors.New("must be a host and a port such as 127.0.0.1:6379")
	}
	return nil
}

// away is what decides while the store does not.
type away string

func (a *away) set(s scalar) error { return oneOf((*string)(a), s, "local", "closed", "open") }

const awayKey = "when_store_is_away"

// away judges the mode of the rules at path.
func (s *source) away(path string, a away) redisstore.Mode {
	if s.has(path+"."+awayKey) && !s.has("store") {
		s.fail(path+"."+awayKey, "must be left out without store: {redis: {addresses: [HOST:PORT]}} at the top of the file")
	}
	m, _ := redisstore.ParseMode(cmp.Or(string(a), "local")) // another word was reported
	return m
}

// store judges where nodes count together. Whether anybody is there, serve finds out.
func (s *source) store(f *storeFile) *Store {
	if f == nil {
		return nil
	}
	const path = "store.redis"
	if s.has("state") {
		s.fail("state", "must be left out with store: what is counted is there, and outlasts every process")
	}
	r := f.Redis
	if r == nil {
		s.fail(path, "must say where the server is, such as {addresses: [127.0.0.1:6379], secret_file: store.key}")
		return nil
	}
	st := &Store{Redis: redisstore.Options{
		Username: r.Username, PasswordFile: s.secretFile(path+".password_file", r.PasswordFile),
		DB: r.DB, Prefix: cmp.Or(r.Prefix, redisstore.DefaultPrefix),
		Partitions: s.within(path+".partitions", r.Partitions, redisstore.DefaultPartitions, redisstore.MaxPartitions),
		Deadline:   time.Duration(cmp.Or(r.Deadline, interval(redisstore.DefaultDeadline))), InsecureAllowEviction: r.Eviction,
	}}
	o := &st.Redis
	switch addresses, sentinel := s.has(path+".addresses"), r.Sentinel; {
	case addresses && sentinel != nil:
		s.fail(path+".sentinel", "must be left out with addresses: those of Sentinels go into it")
	case sentinel != nil:
		o.Addresses = s.hosts(path+".sentinel.addresses", sentinel.Addresses, "a Sentinel")
		o.MasterName, o.SentinelUsername = sentinel.Master, sentinel.Username
		o.SentinelPasswordFile = s.secretFile(path+".sentinel.password_file", sentinel.PasswordFile)
		if sentinel.Master == "" {
			s.fail(path+".sentinel.master", "must be the name that the Sentinels know the server by")
		}
	default:
		o.Addresses = s.hosts(path+".addresses", r.Addresses, "the server, or of some nodes of the cluster")
	}
	if o.Deadline > redisstore.MaxDeadline {
		s.fail(path+".deadline", "must be at most %s, got %s", ShowDuration(redisstore.MaxDeadline), ShowDuration(o.Deadline))
	}
	if o.DB < 0 {
		s.fail(path+".db", "must not be negative, got %d", o.DB)
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		s.fail(path+".prefix", "must not have { or }, got %s", clip(o.Prefix))
	}
	if r.SecretFile == "" {
		s.fail(path+".secret_file", "must be a file with one key, the same on all nodes, as openssl rand -base64 32 prints")
	} else if key, err := readKey(s.beside(r.SecretFile)); err != nil && !s.failed[path+".secret_file"] {
		s.fail(path+".secret_file", "%v, got %s", err, clip(r.SecretFile))
	} else {
		st.Secret = Keys{key}
	}
	st.TLS = s.storeTLS(path+".tls", r.TLS)
	return st
}

func (s *source) hosts(path string, f []hostPort, whose string) (all []string) {
	if len(f) == 0 {
		s.fail(path, "must have at least one address of %s, such as 127.0.0.1:6379", whose)
	}
	for _, a := range f {
		all = append(all, string(a))
	}
	return all
}

// secretFile looks at a file with a password, which is read again for each connection.
func (s *source) secretFile(path, name string) string {
	if name == "" || s.failed[path] {
		return ""
	}
	text, err := readRegular(s.beside(name), maxKeyFile)
	switch {
	case err != nil:
		s.fail(path, "%v, got %s", err, clip(name))
	case strings.Trim(text, "\r\n") == "":
		s.fail(path, "must hold a password, got %s", clip(name))
	}
	return s.beside(name)
}

func (s *source) storeTLS(path string, f *redisTLS) *StoreTLS {
	if f == nil {
		return nil
	}
	t := &StoreTLS{CAs: s.clientCAs(path+".ca_file", f.CA), ServerName: f.ServerName}
	if f.ServerName != "" && !isHost(f.ServerName) {
		s.fail(path+".server_name", "must be a host name such as redis.example.com, got %s", clip(f.ServerName))
	}
	if f.Cert != "" || f.Key != "" {
		if pairs := s.certs(path, certFiles{{Cert: f.Cert, Key: f.Key}}); len(pairs) > 0 {
			t.Cert = pairs[0]
		}
	}
	return t
}
