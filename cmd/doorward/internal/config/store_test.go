package config

import (
	"crypto/tls"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/redisstore"
)

const redis = "store: {redis: {addresses: ['127.0.0.1:6379'], secret_file: testdata/new.key}}"

// What is not said has a value, and what is said wrong has a place.
func TestStore(t *testing.T) {
	if mustParse(t, good).Store != nil {
		t.Error("there is a store that nobody asked for")
	}
	want := Store{Secret: Keys{ascending(0, 32)}, Redis: redisstore.Options{
		Addresses: []string{"127.0.0.1:6379"}, Deadline: 50 * time.Millisecond, Partitions: 64, Prefix: "doorward:",
	}}
	c := mustParse(t, good+redis)
	if !reflect.DeepEqual(*c.Store, want) || c.Doors[0].Away != redisstore.Local {
		t.Errorf("got  %+v, away %v\nwant %+v", *c.Store, c.Doors[0].Away, want)
	}
	if text := strings.ToLower(strings.Join([]string{c.Store.Secret.String(), c.Store.Secret.GoString()}, "")); strings.Contains(text, "[") {
		t.Errorf("a secret prints as %s", text)
	}
	c = mustParse(t, good+"store: {redis: {sentinel: {master: counts, addresses: ['s1:26379', 's2:26379'], username: s, password_file: testdata/tokens}, secret_file: testdata/new.key}}")
	if o := c.Store.Options(); o.MasterName != "counts" || len(o.Addresses) != 2 || o.SentinelUsername != "s" || o.SentinelPasswordFile != "testdata/tokens" || len(o.Secret) != 32 || o.TLS != nil {
		t.Errorf("%+v", o)
	}
	for _, row := range []struct{ text, rest string }{
		{"store: {}", "8: store.redis: is missing: must say where the server is, such as {addresses: [127.0.0.1:6379], secret_file: store.key}"},
		{"store: {redis: {}}", "16: store.redis.addresses: is missing: must have at least one address of the server, or of some nodes of the cluster, such as 127.0.0.1:6379"},
		{"store: {redis: {addresses: ['a:1']}}", "16: store.redis.secret_file: is missing: must be a file with one key, the same on all nodes, as openssl rand -base64 32 prints"},
		{"store: {redis: {addresses: []}}", "28: store.redis.addresses: must have at least one address of"},
		{"store: {redis: {addresses: [localhost]}}", "29: store.redis.addresses[0]: must be a host and a port such as 127.0.0.1:6379, got localhost"},
		{"store: {redis: {addresses: [':6379']}}", `29: store.redis.addresses[0]: must be a host and a port such as 127.0.0.1:6379, got ":6379"`},
		{"store: {redis: {addresses: ['a:0']}}", "29: store.redis.addresses[0]: must be a host and a port"},
		{"store: {redis: {addresses: ['redis://a:1']}}", "29: store.redis.addresses[0]: must be a host and a port"},
		{"store: {redis: {address: 'a:1'}}", "17: store.redis.address: unknown key, did you mean addresses?"},
		{"store: {redis: {addresses: ['a:1'], sentinel: {master: m, addresses: ['a:1']}}}", "47: store.redis.sentinel: must be left out with addresses: those of Sentinels go into it"},
		{"store: {redis: {sentinel: {addresses: ['a:1']}}}", "27: store.redis.sentinel.master: is missing: must be the name that the Sentinels know the server by"},
		{"store: {redis: {sentinel: {master: m}}}", "27: store.redis.sentinel.addresses: is missing: must have at least one address of a Sentinel, such as"},
		{"store: {redis: {addresses: ['a:1'], secret_file: testdata/short.key}}", "50: store.redis.secret_file: must hold a key of at least 32 bytes in base64, there are 31, got testdata/short.key"},
		{"store: {redis: {addresses: ['a:1'], secret_file: testdata/none}}", "50: store.redis.secret_file: must be a file that can be read (no such file or directory), got testdata/none"},
		{"store: {redis: {addresses: ['a:1'], password_file: testdata/none}}", "52: store.redis.password_file: must be a file that can be read (no such file or directory), got testdata/none"},
		{"store: {redis: {addresses: ['a:1'], deadline: 1001ms}}", "47: store.redis.deadline: must be at most 1s, got 1.001s"},
		{"store: {redis: {addresses: ['a:1'], deadline: 0s}}", "47: store.redis.deadline: must be positive (leave it out for the default), got 0s"},
		{"store: {redis: {addresses: ['a:1'], partitions: 4097}}", "49: store.redis.partitions: must be 1 to 4096, got 4097"},
		{"store: {redis: {addresses: ['a:1'], db: -1}}", "41: store.redis.db: must not be negative, got -1"},
		{"store: {redis: {addresses: ['a:1'], prefix: 'a{b}'}}", "45: store.redis.prefix: must not have { or }, got a{b}"},
		{"store: {redis: {addresses: ['a:1'], tls: {ca_file: testdata/new.key}}}", "52: store.redis.tls.ca_file: must hold certificates in PEM, got testdata/new.key"},
		{"store: {redis: {addresses: ['a:1'], tls: {cert_file: testdata/first.pem}}}", "42: store.redis.tls.key_file: is missing: must be a PEM file with the key of the certificate"},
		{"store: {redis: {addresses: ['a:1'], tls: {server_name: 'a:1'}}}", "56: store.redis.tls.server_name: must be a host name such as redis.example.com, got a:1"},
		{redis + "\nstate: {file: testdata/a, key_file: testdata/new.key}", "8: state: must be left out with store: what is counted is there, and outlasts every process"},
	} {
		_, err := Parse(name, []byte(good+row.text), Overrides{})
		if err == nil || !strings.Contains(err.Error(), ":"+row.rest) {
			t.Errorf("%s: %v, want %s", row.text, err, row.rest)
		}
	}
}

// The mode is a door's, or that of its realm.
func TestAway(t *testing.T) {
	c := mustParse(t, door1("when_store_is_away: closed")+redis)
	if c.Doors[0].Away != redisstore.Closed {
		t.Errorf("away %v", c.Doors[0].Away)
	}
	realm := strings.Replace(door1("realm: a"), "doors:", "realms: {a: {preset: pairing, when_store_is_away: open}}\ndoors:", 1) + redis
	if c := mustParse(t, realm); c.Doors[0].Away != redisstore.FailOpen {
		t.Errorf("away %v", c.Doors[0].Away)
	}
	for _, row := range []struct{ text, want string }{
		{door1("when_store_is_away: ajar") + redis, "6:25: doors[0].when_store_is_away: must be local, closed or open, got ajar"},
		{door1("when_store_is_away: closed"), "6:25: doors[0].when_store_is_away: must be left out without store: {redis: {addresses: [HOST:PORT]}} at the top of the file"},
		{strings.Replace(realm, "realm: a", "realm: a\n    when_store_is_away: local", 1), "8:25: doors[0].when_store_is_away: must not be given with realm: the realm has its own"},
	} {
		_, err := Parse(name, []byte(row.text), Overrides{})
		wantErrors(t, row.text, err, row.want)
	}
}

// A certificate of our own is read for each connection, so it may be renewed; authorities are those
// of the file, and no others.
func TestStoreTLS(t *testing.T) {
	c := mustParse(t, full)
	o := c.Store.Options()
	if o.TLS.ServerName != "redis.example.com" || o.TLS.RootCAs == nil {
		t.Errorf("%+v", o.TLS)
	}
	pair, err := o.TLS.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil || len(pair.Certificate) == 0 {
		t.Errorf("certificate: %v", err)
	}
	c.Store.TLS.Cert.Key = "testdata/none.key"
	if _, err := c.Store.Options().TLS.GetClientCertificate(&tls.CertificateRequestInfo{}); err == nil {
		t.Error("a pair that is no more")
	}
	c.Store.TLS = &StoreTLS{}
	if o := c.Store.Options(); o.TLS == nil || o.TLS.RootCAs != nil || o.TLS.GetClientCertificate != nil {
		t.Errorf("tls: {} gave %+v", o.TLS)
	}
}
