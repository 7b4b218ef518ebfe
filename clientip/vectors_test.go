package clientip_test

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
)

// readTSV returns the rows of a file in testdata below its header row.
func readTSV(t *testing.T, name string, columns int) [][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n")[1:] {
		row := strings.Split(line, "\t")
		if len(row) != columns {
			t.Fatalf("%s: %q has %d columns, want %d", name, line, len(row), columns)
		}
		rows = append(rows, row)
	}
	return rows
}

// parseConfig reads the config column: src=xff trusted=10.0.0.0/8 hops=2 unix=trust.
func parseConfig(t *testing.T, text string) clientip.Config {
	t.Helper()
	var c clientip.Config
	for _, field := range strings.Fields(text) {
		k, v, _ := strings.Cut(field, "=")
		switch {
		case k == "src" && v == "peer":
		case k == "src" && v == "xff":
			c.Header = "X-Forwarded-For"
		case k == "src" && v == "forwarded":
			c.Header = "Forwarded"
		case k == "src" && strings.HasPrefix(v, "header:"):
			c.Header = strings.TrimPrefix(v, "header:")
		case k == "trusted":
			for _, p := range strings.Split(v, ",") {
				c.Trusted = append(c.Trusted, netip.MustParsePrefix(p))
			}
		case k == "hops":
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			c.Hops = n
		case k == "unix" && v == "trust":
			c.TrustUnix = true
		default:
			t.Fatalf("config %q: what is %q?", text, field)
		}
	}
	return c
}

// valuesOf returns the values of one header from the headers column.
func valuesOf(headers, name string) []string {
	var values []string
	headers = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(headers)
	for _, line := range strings.Split(headers, "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && name != "" && strings.EqualFold(k, name) {
			values = append(values, v)
		}
	}
	return values
}

func TestVectors(t *testing.T) {
	ran := 0
	for _, row := range readTSV(t, "clientip.tsv", 6) {
		id, config, peer, headers, want := row[0], row[1], row[2], row[3], row[4]
		if strings.HasPrefix(config, "src=proxy") {
			continue // PROXY protocol is not read here
		}
		ran++
		t.Run(id, func(t *testing.T) {
			r, err := clientip.New(parseConfig(t, config))
			if want == "config-error" {
				if err == nil {
					t.Fatalf("New(%s) succeeded", config)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			addr, how := r.Resolve(peer, valuesOf(headers, r.Header()))
			if got := doorward.KeyFromAddr(addr).String(); got != want {
				t.Errorf("got %s (%v), want %s: %s", got, how, want, row[5])
			}
			if addr.IsValid() == (how == clientip.Unknown) {
				t.Errorf("address %v found as %v", addr, how)
			}
		})
	}
	if ran != 53 {
		t.Errorf("%d vectors ran, want 53", ran)
	}
}

// TestAddresses has every address of the key vectors written by a proxy, and as
// the peer: the same key both times.
func TestAddresses(t *testing.T) {
	direct := mustNew(t, clientip.Config{})
	behind := mustNew(t, clientip.Config{Header: "X-Forwarded-For", TrustUnix: true})
	for _, row := range readTSV(t, "addresses.tsv", 4) {
		id, text, want := row[0], row[1], row[2]
		addr, _ := direct.Resolve(text, nil)
		if got := doorward.KeyFromAddr(addr).String(); got != want {
			t.Errorf("%s: peer %s is %s, want %s: %s", id, text, got, want, row[3])
		}
		addr, _ = behind.Resolve("@", []string{"6.6.6.6, " + text})
		if got := doorward.KeyFromAddr(addr).String(); got != want {
			t.Errorf("%s: element %s is %s, want %s: %s", id, text, got, want, row[3])
		}
	}
}

func mustNew(t testing.TB, c clientip.Config) *clientip.Resolver {
	t.Helper()
	r, err := clientip.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
