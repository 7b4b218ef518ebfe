package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/state"
	"github.com/doorward/doorward/guard"
)

// A stage is a directory with a configuration that can change and a state.
type stage struct {
	t                 *testing.T
	dir, file, app    string
	state, key, every string
}

func newStage(t *testing.T, app string) *stage {
	dir := t.TempDir()
	s := &stage{t: t, dir: dir, file: filepath.Join(dir, "doorward.yaml"), app: app, state: filepath.Join(dir, "doorward.state"), key: filepath.Join(dir, "state.key"), every: "1h"}
	s.put(s.key, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))+"\n")
	return s
}

func (s *stage) put(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// lockout is a door that locks for a minute after so many failures.
func lockout(free int) string {
	return fmt.Sprintf(`
  - name: login
    routes: ["POST /login"]
    outcome: {succeeded: {status: 302}}
    rules:
      - {name: burst, per: network, lockout: {free_failures: %d, window: 10m, first_lockout: 1m, max_lockout: 1h}}
`, free)
}

// configure writes a file with doors and whatever else.
func (s *stage) configure(doors, more string) {
	s.put(s.file, "listen: 127.0.0.1:0\nclients: {}\nupstream: "+s.app+"\ndoors:"+doors+more)
}

func (s *stage) withState() string {
	return "\nstate: {file: doorward.state, key_file: state.key, every: " + s.every + "}\n"
}

func (s *stage) start() *process { s.t.Helper(); return start(s.t, "serve", "--config", s.file) }

// reload sends SIGHUP and waits for what it came to.
func (p *process) reload(want string) string {
	p.t.Helper()
	p.signal(syscall.SIGHUP)
	l := p.line("reloaded")
	if !strings.Contains(l, want) {
		p.t.Fatalf("got %s, want %s", l, want)
	}
	return l
}

func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
}

// guess posts a password and returns the status, and for how long it was refused.
func (p *process) guess(path, password string) (status int, wait time.Duration) {
	p.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.PostForm("http://"+p.addr+path, url.Values{"password": {password}})
	if err != nil {
		p.t.Fatal(err)
	}
	r.Body.Close()
	seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
	return r.StatusCode, time.Duration(seconds) * time.Second
}

// fail guesses wrong n times and is told so.
func (p *process) fail(n int) {
	p.t.Helper()
	for i := range n {
		if status, _ := p.guess("/login", "wrong"); status != http.StatusOK {
			p.t.Fatalf("wrong password %d: %d, want 200", i+1, status)
		}
	}
}

// refused holds that the next attempt is refused, for least to most.
func (p *process) refused(least, most time.Duration) {
	p.t.Helper()
	status, wait := p.guess("/login", "right")
	if status != http.StatusTooManyRequests || wait < least || wait > most {
		p.t.Errorf("status %d, retry after %v, want 429 and %v to %v", status, wait, least, most)
	}
}

const second = time.Second

// A lockout outlasts a restart, with what is left of it.
func TestRestart(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(5), s.withState())
	p := s.start()
	p.fail(5)
	p.refused(58*second, 60*second)
	p.signal(syscall.SIGTERM)
	p.line("state written")
	p.wantExit(0)
	if info, err := os.Stat(s.state); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if text, _ := os.ReadFile(s.state); bytes.Contains(text, []byte("login")) || bytes.Contains(text, []byte("burst")) {
		t.Error("names can be read in the file")
	}
	time.Sleep(1500 * time.Millisecond) // time that passes while nothing runs counts
	p = s.start()
	p.refused(50*second, 59*second)
	p.stop()
	p = s.start() // and once more
	p.refused(50*second, 59*second)
	p.stop()
	// What is left of four failures is one.
	s.put(s.state, "")
	os.Remove(s.state)
	p = s.start()
	p.fail(4)
	p.stop()
	p = s.start()
	p.fail(1)
	p.refused(58*second, 60*second)
	p.stop()
}

// Without a file counts begin at nothing, and it is said.
func TestFirstStart(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(5), s.withState())
	out, _ := s.run()
	if !strings.Contains(out, "no state yet") {
		t.Errorf("log %s", out)
	}
}

// run starts serve and stops it when it serves. It returns the log and the exit code.
func (s *stage) run() (string, int) {
	s.t.Helper()
	cmd := exec.Command("doorward", "serve", "--config", s.file)
	var mu sync.Mutex
	var log bytes.Buffer
	cmd.Stderr = writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if bytes.Contains(b, []byte("msg=serving")) {
			cmd.Process.Signal(syscall.SIGTERM)
		}
		return log.Write(b)
	})
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return log.String(), cmd.ProcessState.ExitCode()
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// What is no state of this program and key is refused in one line that says what to do,
// and stays as it is.
func TestBrokenState(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(5)+strings.NewReplacer("login", "other", "burst", "more").Replace(lockout(3)), s.withState())
	p := s.start()
	p.fail(5)
	p.stop()
	whole, err := os.ReadFile(s.state)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(i int) []byte {
		b := slices.Clone(whole)
		b[i] ^= 1
		return b
	}
	newer := slices.Clone(whole)
	newer[len("doorward state")+1] = 2
	const remove = "remove the file to start afresh, with all counts and lockouts forgotten"
	want := func(text string) string { return "doorward: state: " + s.state + " " + text + "\n" }
	for _, row := range []struct {
		name string
		text []byte
		want string
	}{
		{"empty", nil, want("is cut off: " + remove)},
		{"zeros", make([]byte, 4096), want("is not a state of doorward: " + remove)},
		{"foreign", []byte("listen: 127.0.0.1:8080\n"), want("is not a state of doorward: " + remove)},
		{"newer", newer, want("has a version that this program cannot read: 2, not 1: start the version that wrote it, or " + remove)},
		{"header", changed(20), want("is damaged: " + remove)},
		{"middle", changed(len(whole) / 2), want("is damaged: " + remove)},
		{"end", changed(len(whole) - 1), want("is damaged: " + remove)},
		{"cut by one", whole[:len(whole)-1], want("is cut off: " + remove)},
		{"half", whole[:len(whole)/2], want("is cut off: " + remove)},
		{"header only", whole[:68], want("is cut off: " + remove)},
		{"longer", append(slices.Clone(whole), 0), want("is damaged: " + remove)},
		{"twice", append(slices.Clone(whole), whole...), want("is damaged: " + remove)},
	} {
		s.put(s.state, string(row.text))
		if out, code := s.run(); out != row.want || code != 1 {
			t.Errorf("%s: exit code %d and\n%s, want 1 and\n%s", row.name, code, out, row.want)
		}
		if after, _ := os.ReadFile(s.state); !bytes.Equal(after, row.text) {
			t.Errorf("%s: the file was changed", row.name)
		}
	}
	s.put(s.state, string(whole))
	key, _ := os.ReadFile(s.key)
	s.put(s.key, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32)))
	if out, code := s.run(); out != want("was written with another key: give it the key that it was written with, or "+remove) || code != 1 {
		t.Errorf("another key: exit code %d, %s", code, out)
	}
	s.put(s.key, string(key))
	s.configure(lockout(5)+strings.NewReplacer("login", "other", "burst", "more", "max_lockout: 1h", "max_lockout: 1h, capacity: 3").Replace(lockout(3)), s.withState())
	if out, code := s.run(); code != 0 || !strings.Contains(out, "state loaded") {
		t.Errorf("room enough: exit code %d, %s", code, out)
	}
	// Doors that come and go are named.
	s.configure(lockout(5)+strings.NewReplacer("login", "third").Replace(lockout(3)), s.withState())
	if out, code := s.run(); code != 0 || !strings.Contains(out, "forgotten=other begin_anew=third") {
		t.Errorf("other doors: exit code %d, %s", code, out)
	}
	p = s.start()
	p.refused(30*second, 60*second)
	// Two processes do not share a file.
	if out, code := s.run(); code != 1 || out != want("is in use by another process") {
		t.Errorf("two at once: exit code %d, %s", code, out)
	}
	p.stop()
	os.Remove(s.state)
	if err := os.Mkdir(s.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, code := s.run(); code != 1 || !strings.HasSuffix(out, "doorward.yaml:12:15: state.file: must be a regular file, got doorward.state\n") && !strings.Contains(out, "must be a regular file") {
		t.Errorf("a directory: exit code %d, %s", code, out)
	}
}

// A write that fails is said within bounds, and serving goes on.
func TestStateNotWritten(t *testing.T) {
	s := newStage(t, application(t))
	s.every = "100ms"
	s.configure(lockout(5), s.withState())
	p := s.start()
	await(t, "no state", func() bool { _, err := os.Stat(s.state); return err == nil })
	// A directory of that name can be neither removed nor written to, by root either.
	if err := os.MkdirAll(filepath.Join(s.state+".new", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.line("state not written")
	p.fail(5)
	p.refused(58*second, 60*second)
	time.Sleep(time.Second)
	os.RemoveAll(s.state + ".new")
	for n := 0; ; n++ {
		l := <-p.lines
		if strings.Contains(l, "state written again") {
			break
		}
		if strings.Contains(l, "state not written") {
			t.Errorf("said once more: %s", l)
		}
	}
	// On stop it is an error.
	if err := os.MkdirAll(filepath.Join(s.state+".new", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	p.line("not written, the next start knows what the last write left")
	p.wantExit(1)
	os.RemoveAll(s.state + ".new")
	p = s.start()
	p.refused(55*second, 60*second)
	p.stop()
}

// An attempt that is in flight when the process is killed has failed.
func TestInFlightRestart(t *testing.T) {
	arrived, release := make(chan bool, 1), make(chan bool)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") == "slow" {
			arrived <- true
			<-release
		}
	}))
	defer app.Close()
	defer close(release)
	s := newStage(t, app.URL)
	s.every = "100ms"
	s.configure(strings.Replace(lockout(5), "max_lockout: 1h", "max_lockout: 1h, lease: 2s", 1), s.withState())
	p := s.start()
	p.fail(4)
	go http.PostForm("http://"+p.addr+"/login", url.Values{"password": {"slow"}})
	<-arrived
	begun := time.Now()
	await(t, "not written", func() bool {
		info, err := os.Stat(s.state)
		return err == nil && info.ModTime().Sub(begun) > 200*time.Millisecond
	})
	p.signal(syscall.SIGKILL)
	<-p.exit
	p = s.start()
	await(t, "not locked", func() bool { status, wait := p.guess("/login", "right"); return status == 429 && wait > 50*second })
	p.stop()
}

// seed returns a state in which a door has counted failures of so many networks.
func (s *stage) seed(door string, networks int) string {
	s.t.Helper()
	c, err := config.Load(s.file, config.Overrides{})
	if err != nil {
		s.t.Fatal(err)
	}
	_, guards, err := assembleWith(c, slog.New(slog.DiscardHandler), func(_ string, c guard.Config) (*guard.Guard, error) { return guard.New(c) })
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now()
	for i := range networks {
		p := guards[door].Attempt(guard.Request{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}, now)
		p.Settle(doorward.Failed, now)
	}
	f, err := state.Open(s.state, c.State.Key[0])
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if err := f.Save(guards, now); err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(s.state)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// kill -9 at random moments, most of them while the file is written: every start succeeds,
// a lockout that is older than what is in the file is there with all that is left of it,
// and the file is never older than a write and the time between two.
func TestKill(t *testing.T) {
	rounds := 200
	if testing.Short() || os.Getenv("CI") != "" {
		rounds = 25
	}
	if n, err := strconv.Atoi(os.Getenv("DOORWARD_KILLS")); err == nil {
		rounds = n
	}
	const every = 100 * time.Millisecond
	s := newStage(t, application(t))
	s.every = every.String()
	s.configure(lockout(5)+strings.ReplaceAll(lockout(5), "login", "other"), s.withState())
	seed := s.seed("other", 20_000) // so that a write takes its time
	s.put(s.state, seed)
	rng := rand.New(rand.NewPCG(1, 2))
	var until time.Time // what the lockout lasts to, if it must be known
	torn, kept, oldest := 0, 0, time.Duration(0)
	for i := range rounds {
		os.Remove(s.state + ".new") // of the last round, or it is taken for one of this
		p := s.start()
		began := time.Now()
		status, wait := p.guess("/login", "wrong")
		now := time.Now()
		if !until.IsZero() {
			// Retry-After is in seconds, rounded up.
			if kept++; status != http.StatusTooManyRequests || now.Add(wait).Before(until.Add(-time.Millisecond)) {
				t.Fatalf("round %d: status %d and %v, a lockout had %v left", i, status, wait, until.Sub(now))
			}
		}
		if status == http.StatusOK { // a fifth failure locks, whatever is left of those before
			for range 5 {
				if status, wait = p.guess("/login", "wrong"); status != http.StatusOK {
					break
				}
			}
			now = time.Now()
		}
		if status != http.StatusTooManyRequests {
			t.Fatalf("round %d: not locked, status %d", i, status)
		}
		time.Sleep(time.Duration(rng.IntN(int(2 * every))))
		if i%4 != 0 {
			// While it is written.
			for _, err := os.Lstat(s.state + ".new"); err != nil; _, err = os.Lstat(s.state + ".new") {
				if time.Since(now) > 10*time.Second {
					t.Fatal("nothing is written")
				}
			}
			for spin := time.Now().Add(time.Duration(rng.IntN(2_000_000))); time.Now().Before(spin); {
			}
		}
		p.signal(syscall.SIGKILL)
		<-p.exit
		killed, written := time.Now(), began
		if info, err := os.Stat(s.state); err == nil && info.ModTime().After(began) {
			written = info.ModTime()
		}
		oldest = max(oldest, killed.Sub(written))
		if _, err := os.Lstat(s.state + ".new"); err == nil {
			torn++
		}
		// What was written last is as of a few milliseconds before.
		if written.After(now.Add(every / 5)) {
			until = now.Add(wait - second)
		}
		if i%8 == 7 { // and another
			s.put(s.state, seed)
			until = time.Time{}
		}
	}
	list, err := os.ReadDir(s.dir)
	if err != nil || len(list) > 5 { // the configuration, the key, the state, .lock, and .new
		t.Errorf("%v, %v", list, err)
	}
	if torn < rounds/20 || kept < rounds/4 {
		t.Errorf("%d of %d writes interrupted, %d lockouts looked for: too few", torn, rounds, kept)
	}
	if oldest > every+5*second { // the disk may be busy
		t.Errorf("a file was %v old, and is to be written every %v", oldest, every)
	}
	t.Logf("%d rounds: %d writes interrupted, %d lockouts found again, the oldest file was of %v before", rounds, torn, kept, oldest)
}
