package subject

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A reading is a subject that another parser finds, and how.
type reading struct{ way, value string }

// TestOtherParsers: whatever Go, Node or PHP reads another subject in, or one where we
// find none, is refused.
func TestOtherParsers(t *testing.T) {
	samples := corpus(t)
	subjects := make([]map[string]bool, len(samples)) // read in each, "" for none
	for i := range subjects {
		subjects[i] = map[string]bool{}
	}
	for _, other := range []struct {
		name string
		read func(*testing.T, *sample) []reading
		// atLeast is how many of the refused requests this one is known to read a
		// subject in.
		atLeast int
	}{
		{"Go", readGo, 60},
		{"Node", server(t, "node", "testdata/readers/node.js"), 100},
		{"PHP", server(t, "php", "-d", "request_order=GPC", "-d", "display_errors=0", "-d", "log_errors=0", "-S", "", "testdata/readers/php.php"), 100},
	} {
		t.Run(other.name, func(t *testing.T) {
			if other.read == nil {
				t.Skip("is not installed")
			}
			var accepted, agreed, refused, read int
			for i, s := range samples {
				name, err := s.verdict(t)
				found := other.read(t, &s)
				if len(found) == 0 {
					subjects[i][""] = true
				}
				for _, r := range found {
					subjects[i][Canonical(r.value)] = true
				}
				if err != nil {
					refused++
					if len(found) > 0 {
						read++
					}
					continue
				}
				accepted++
				agrees := name == ""
				for _, r := range found {
					switch {
					case Canonical(r.value) != Canonical(name):
						t.Errorf("%s: %s reads %q, we read %q", &s, r.way, r.value, name)
					case name != "":
						agrees = true
					}
				}
				if agrees {
					agreed++
				}
			}
			t.Logf("of %d accepted requests %d are read alike, the others not at all; of %d refused a subject is read in %d", accepted, agreed, refused, read)
			if read < other.atLeast {
				t.Errorf("reads a subject in %d of the refused requests, want at least %d: does it read?", read, other.atLeast)
			}
			if agreed < accepted*9/10 {
				t.Errorf("reads %d of the %d accepted requests: does it read?", agreed, accepted)
			}
		})
	}
	var refused, disputed int
	for i, s := range samples {
		if s.refused.Status != 0 {
			refused++
			if len(subjects[i]) > 1 {
				disputed++
			}
		}
	}
	t.Logf("of %d refused requests %d are read in more than one way", refused, disputed)
}

// server starts a program that reads requests until the test ends, and returns how to
// ask it: nil if it is missing. An empty argument is its address; without one it gets
// a port after the others.
func server(t *testing.T, program string, args ...string) func(*testing.T, *sample) []reading {
	t.Helper()
	path := need(t, program)
	if path == "" {
		return nil
	}
	addr := freePort(t)
	_, port, _ := net.SplitHostPort(addr)
	placed := false
	for i := range args {
		if args[i] == "" {
			args[i], placed = addr, true
		}
	}
	if !placed {
		args = append(args, port)
	}
	start(t, addr, path, args...)
	return func(t *testing.T, s *sample) []reading { return ask(t, addr, s) }
}

// ask sends a request to a server and returns what it read. One that it refuses it
// does not read.
func ask(t *testing.T, addr string, s *sample) []reading {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(s.raw("Doorward-Test-Source: " + describe(s.source))); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	if res.StatusCode == http.StatusBadRequest {
		return nil
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v", s, res.StatusCode, err)
	}
	var pairs [][2]string
	if err := json.Unmarshal(body.Bytes(), &pairs); err != nil {
		t.Fatalf("%s: %v in %q", s, err, body.String())
	}
	var found []reading
	for _, p := range pairs {
		value, err := base64.StdEncoding.DecodeString(p[1])
		if err != nil {
			t.Fatal(err)
		}
		if Canonical(string(value)) != "" {
			found = append(found, reading{p[0], string(value)})
		}
	}
	return found
}

func describe(s Source) string {
	switch {
	case s.Form != "":
		return "form " + s.Form
	case s.JSON != "":
		return "json " + s.JSON
	case s.Header != "":
		return "header " + s.Header
	case s.Query != "":
		return "query " + s.Query
	case s.Path != "":
		return "path " + s.Path
	}
	return "basic -"
}

// need returns the path of a program, "" if it is missing. In CI that is a failure.
func need(t *testing.T, program string) string {
	t.Helper()
	p, err := exec.LookPath(program)
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed", program)
	}
	return p
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs a program until the test ends and waits until addr accepts connections.
func start(t *testing.T, addr, program string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-exited
		if t.Failed() && !strings.Contains(out.String(), "Accepted") {
			t.Logf("%s printed:\n%s", filepath.Base(program), out.String())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s ended: %v\n%s", filepath.Base(program), err, out.String())
		case <-ctx.Done():
			t.Fatalf("waited 20 s for %s", filepath.Base(program))
		case <-tick.C:
		}
	}
}
