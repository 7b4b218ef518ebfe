package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/apitest"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
)

var contract = sync.OnceValues(apitest.Load)

// operator asks the admin API on a socket. All that it asks, and all answers, are as
// openapi.yaml says.
type operator struct {
	t      *testing.T
	client *http.Client
}

func newOperator(t *testing.T, socket string) operator {
	t.Helper()
	c, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	over := &http.Transport{DisableKeepAlives: true, DialContext: dialSocket(socket)}
	return operator{t, &http.Client{Transport: c.Transport(t, over), Timeout: 30 * time.Second}}
}

// ask returns the status, and reads the answer into v unless that is nil.
func (o operator) ask(method, target, body string, v any) int {
	o.t.Helper()
	r, err := http.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := o.client.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			o.t.Fatalf("%s %s: %d %s: %v", method, target, res.StatusCode, text, err)
		}
	}
	return res.StatusCode
}

func (o operator) want(status int, method, target, body string) {
	o.t.Helper()
	var problem json.RawMessage
	var v any = &problem
	if status == http.StatusNoContent {
		v = nil
	}
	if got := o.ask(method, target, body, v); got != status {
		o.t.Fatalf("%s %s %s: %d %s, want %d", method, target, body, got, problem, status)
	}
}

func (o operator) status() (s api.Status) {
	o.t.Helper()
	if got := o.ask("GET", api.StatusPath, "", &s); got != 200 {
		o.t.Fatalf("status: %d", got)
	}
	return s
}

const withAdmin = "\nadmin: unix:admin.sock\n"

const by = `"actor":"ann","reason":"a call"`

func (s *stage) operator() operator {
	s.t.Helper()
	return newOperator(s.t, filepath.Join(s.dir, "admin.sock"))
}

// One night: who is locked out, why, and in again; exempt, blocked, cleared. Each change is
// in the log, with who made it and why.
func TestAdmin(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(5), withAdmin)
	p := s.start()
	o := s.operator()
	events := make(chan string, 100)
	res, err := o.client.Transport.RoundTrip(must(http.NewRequest("GET", "http://localhost"+api.EventsPath+"?event=locked&event=unlocked&event=listed&event=unlisted&event=cleared&event=reloaded", nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	go func() {
		all, _ := io.ReadAll(res.Body)
		events <- string(all)
	}()
	p.fail(5)
	p.refused(58*second, 60*second)
	st := o.status()
	door, rule := st.Doors[0], st.Guards[0].Rules[0]
	if door.Name != "login" || door.Guard != "login" || door.Outcomes["failed"] != 5 || door.Refused["locked"] != 1 || door.Lockouts != 1 || door.InFlight != 0 || door.Routes[0] != "POST /login" {
		t.Errorf("door %+v", door)
	}
	if rule.Name != "burst" || rule.Per != "network" || rule.Policy != "lockout 5 in 10m, then 1m to 1h" || rule.Refused != 1 || rule.Lockouts != 1 || rule.Tracked != 1 || rule.Capacity != 2*65_536 {
		t.Errorf("rule %+v", rule)
	}
	if st.Config != s.file || st.Listen[0] != p.addr || !st.Upstream[0].Healthy || len(st.Heaviest) != 1 || st.Heaviest[0] != (api.Heavy{Client: "127.0.0.1", Refused: 1}) {
		t.Errorf("status %+v", st)
	}
	var w api.Why
	o.ask("GET", api.WhyPath+"?address=127.0.0.1", "", &w)
	if f := w.Guards[0]; f.Allowed || f.Rule != "burst" || f.Wait < 50 || f.Wait > 60 || f.Rules[0].Count != 5 {
		t.Errorf("why %+v", f)
	}
	if last, _ := json.Marshal(w.Recent[len(w.Recent)-1]); !bytes.Contains(last, []byte(`"event":"refused"`)) || !bytes.Contains(last, []byte(`"how":"peer"`)) {
		t.Errorf("recent %s", last)
	}
	var done api.Unlocked
	o.ask("POST", api.UnlockPath, `{"address":"127.0.0.1",`+by+`}`, &done)
	if len(done.Keys) != 1 || done.Keys[0].Count != 5 || done.Keys[0].LockedUntil == nil {
		t.Errorf("unlocked %+v", done)
	}
	if l := p.line("msg=unlocked"); !strings.Contains(l, `door=login rule=burst key=127.0.0.1 actor=ann why="a call"`) {
		t.Errorf("line %s", l)
	}
	p.fail(5)
	o.want(204, "POST", api.ClearPath, `{"guard":"login",`+by+`}`)
	p.fail(5)
	o.want(200, "POST", api.NetworksPath, `{"network":"127.0.0.1","action":"exempt","for":3600,`+by+`}`)
	p.fail(7) // not counted, and the lockout is not asked
	o.want(200, "POST", api.NetworksPath, `{"network":"127.0.0.0/8","action":"block","guard":"login","for":3600,`+by+`}`)
	p.forbidden()
	o.want(409, "POST", api.NetworksPath, `{"network":"127.0.0.1","action":"exempt","for":3600,`+by+`}`) // it would be blocked still
	if n := o.status().Networks; len(n) != 2 || n[0].Network != "127.0.0.1/32" || n[1].Guard != "login" {
		t.Errorf("networks %+v", n)
	}
	for _, n := range o.status().Networks {
		o.want(204, "DELETE", api.NetworksPath+"/"+n.ID, "{"+by+"}")
	}
	o.want(404, "DELETE", api.NetworksPath+"/0123456789abcdef", "{"+by+"}")
	p.refused(50*second, 60*second)
	if st := o.status(); st.Doors[0].Exempt != 7 || st.Doors[0].Refused["blocked"] != 1 || st.Doors[0].Outcomes["failed"] != 15 {
		t.Errorf("door %+v", st.Doors[0])
	}
	p.stop()
	told := ""
	for _, line := range strings.Split(strings.TrimSpace(<-events), "\n") {
		var e struct{ Event, Actor string }
		if json.Unmarshal([]byte(line), &e) == nil {
			told += " " + e.Event
		}
	}
	if want := " locked unlocked locked cleared locked listed listed unlisted unlisted"; told != want {
		t.Errorf("events%s, want%s", told, want)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (p *process) forbidden() {
	p.t.Helper()
	if status, _ := p.guess("/login", "right"); status != http.StatusForbidden {
		p.t.Errorf("blocked: %d, want 403", status)
	}
}

// What is listed for a time outlasts reloads and, with a state, restarts and kill -9; and
// ends when its time is over.
func TestNetworksForATime(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(5), s.withState()+withAdmin)
	p := s.start()
	o := s.operator()
	o.want(200, "POST", api.NetworksPath, `{"network":"127.0.0.1","action":"block","for":3600,`+by+`}`)
	p.forbidden()
	s.configure(lockout(7), s.withState()+withAdmin)
	p.reload("msg=reloaded")
	p.forbidden()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wantExit(-1)
	p = s.start()
	p.forbidden()
	n := o.status().Networks
	if len(n) != 1 || n[0].Actor != "ann" || n[0].Reason != "a call" || time.Until(n[0].Until) > time.Hour || time.Until(n[0].Until) < 59*time.Minute {
		t.Errorf("networks %+v", n)
	}
	// Listed anew, it is as it was said last, and over when that is.
	o.want(200, "POST", api.NetworksPath, `{"network":"127.0.0.1","action":"block","for":1,`+by+`}`)
	if l := p.line("msg=unlisted"); !strings.Contains(l, `action=block network=127.0.0.1/32 actor=doorward why="its time is over"`) {
		t.Errorf("line %s", l)
	}
	p.fail(1)
	p.stop()
	p = s.start()
	p.fail(1)
	p.stop()
	// What is not as it was written stops the start.
	text := must(os.ReadFile(s.state + ".networks"))
	text[len(text)/2] ^= 1
	s.put(s.state+".networks", string(text))
	out, code := s.run()
	if code != 1 || !strings.Contains(out, "doorward.state.networks") || !strings.Contains(out, "remove the file") {
		t.Errorf("exit code %d, log %s", code, out)
	}
}

// A reload by the API is that by SIGHUP, and what is wrong comes back.
func TestReloadByAPI(t *testing.T) {
	s := newStage(t, application(t))
	s.configure(lockout(5), withAdmin)
	p := s.start()
	o := s.operator()
	p.fail(4)
	s.configure(lockout(4), withAdmin)
	o.want(204, "POST", api.ReloadPath, "{"+by+"}")
	p.line("msg=reloaded")
	p.fail(1)
	p.refused(58*second, 3600*second)
	s.configure(strings.Replace(lockout(0), "network,", "nobody,", 1), withAdmin)
	var problem api.Problem
	if status := o.ask("POST", api.ReloadPath, "{"+by+"}", &problem); status != 422 || len(problem.Errors) != 2 || !strings.Contains(problem.Errors[0], "per: must be") || !strings.Contains(problem.Errors[1], "free_failures") {
		t.Errorf("%d %+v", status, problem)
	}
	s.configure(lockout(4), "\nadmin: unix:other.sock\nlog: {format: json}\n")
	problem = api.Problem{}
	if status := o.ask("POST", api.ReloadPath, "{"+by+"}", &problem); status != 409 || strings.Join(problem.Errors, ", ") != "admin needs a restart, log.format needs a restart" {
		t.Errorf("%d %+v", status, problem)
	}
	if r := o.status().Reloads; r.Done != 1 || r.Failed != 2 || r.Last == nil || !strings.Contains(r.Error, "needs a restart") {
		t.Errorf("reloads %+v", r)
	}
	p.stop()
}

// Tokens change with a reload.
func TestReloadTokens(t *testing.T) {
	s := newStage(t, application(t))
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	addr := ln.Addr().String()
	ln.Close()
	tokens := filepath.Join(s.dir, "tokens")
	s.put(tokens, strings.Repeat("a1", 16)+"\n")
	s.configure(lockout(5), "\nadmin: {listen: '"+addr+"', token_files: [tokens]}\n")
	p := s.start()
	keys := func(token string, want int) {
		t.Helper()
		r := must(http.NewRequest("GET", "http://"+addr+api.KeysPath, nil))
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d, want %d", res.StatusCode, want)
		}
	}
	keys(strings.Repeat("a1", 16), 200)
	s.put(tokens, strings.Repeat("b2", 16)+"\n")
	p.reload("msg=reloaded")
	keys(strings.Repeat("a1", 16), 401)
	keys(strings.Repeat("b2", 16), 200)
	p.stop()
}

// Where nobody says where the admin API is, it is on a socket that only its user can open;
// and that another process has it is no reason not to serve.
func TestAdminByDefault(t *testing.T) {
	dir := t.TempDir()
	s := newStage(t, application(t))
	s.configure(lockout(5), "")
	begin := func(env ...string) *process {
		t.Helper()
		cmd := exec.Command("doorward", "serve", "--config", s.file)
		cmd.Env = append(os.Environ(), append([]string{"XDG_RUNTIME_DIR=" + dir}, env...)...)
		return run(t, cmd)
	}
	socket := "/run/doorward/admin.sock"
	if os.Getuid() == 0 {
		// Of this machine, which may have a daemon that is not ours.
		if _, err := os.Stat("/run/doorward"); err == nil {
			t.Skip("there is a /run/doorward already")
		}
		defer os.Remove("/run/doorward")
	} else {
		socket = filepath.Join(dir, "doorward/admin.sock")
	}
	p := begin(config.AdminEnv + "=")
	if l := p.line("admin API"); !strings.Contains(l, "listen=unix:"+socket) {
		t.Fatalf("line %s", l)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if st := newOperator(t, socket).status(); st.Config != s.file {
		t.Errorf("status %+v", st)
	}
	second := begin(config.AdminEnv + "=")
	if l := second.line("admin API"); !strings.Contains(l, "level=WARN") || !strings.Contains(l, "another process has its socket, set admin.listen, or DOORWARD_ADMIN") {
		t.Errorf("line %s", l)
	}
	second.fail(1)
	second.stop()
	if st := newOperator(t, socket).status(); st.Doors[0].Outcomes["failed"] != 0 {
		t.Error("the second process took the socket")
	}
	p.stop()
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
	p = begin(config.AdminEnv + "=unix:" + filepath.Join(dir, "here.sock"))
	newOperator(t, filepath.Join(dir, "here.sock")).status()
	// What was asked for must be.
	cmd := exec.Command("doorward", "serve", "--config", s.file)
	cmd.Env = append(os.Environ(), config.AdminEnv+"=unix:"+filepath.Join(dir, "here.sock"))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "admin: listen unix") || !strings.Contains(string(out), "in use") {
		t.Errorf("%v, %s", err, out)
	}
	// A socket that is left over is replaced.
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wantExit(-1)
	p = begin(config.AdminEnv + "=unix:" + filepath.Join(dir, "here.sock"))
	newOperator(t, filepath.Join(dir, "here.sock")).status()
	p.stop()
}

// The API beyond a loopback address is as serve says it.
func TestAdminOverTLS(t *testing.T) {
	s := newStage(t, application(t))
	openssl(t, s.dir, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
	for _, name := range []string{"server", "ann"} {
		openssl(t, s.dir, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN="+name, "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", name+".key", "-out", name+".pem")
	}
	s.put(filepath.Join(s.dir, "tokens"), strings.Repeat("a1", 16)+"\n")
	s.configure(lockout(5), "\nadmin: {listen: '0.0.0.0:0', token_files: [tokens], tls: {cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem}, hosts: [admin.example.com]}\n")
	p := s.start()
	l := p.line("admin API")
	_, port, _ := net.SplitHostPort(l[strings.LastIndex(l, "=")+1:])
	curl := func(want string, args ...string) {
		t.Helper()
		cmd := exec.Command("curl", append([]string{"-s", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", "ca.pem", "https://127.0.0.1:" + port + api.KeysPath}, args...)...)
		cmd.Dir = s.dir
		if out, err := cmd.Output(); string(out) != want {
			t.Errorf("%v: %s, %v, want %s", args, out, err, want)
		}
	}
	curl("401")
	curl("401", "--http2")
	curl("200", "--cert", "ann.pem", "--key", "ann.key")
	curl("200", "-H", "Authorization: Bearer "+strings.Repeat("a1", 16))
	curl("401", "-H", "Authorization: Bearer "+strings.Repeat("a2", 16))
	curl("421", "-H", "Host: evil.example", "-H", "Authorization: Bearer "+strings.Repeat("a1", 16))
	p.stop()
}

func openssl(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("openssl", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
