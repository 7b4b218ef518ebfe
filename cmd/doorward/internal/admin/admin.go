// Package admin serves the admin API: what a daemon counts, and what an operator may change
// of it. Its bodies are the types of package api.
//
// It promises that who cannot open the socket, and has no token and no certificate, learns
// at most figures, and changes nothing; that no page in a browser can, whatever name it
// gives this machine; that a change says who made it and why, and is told to whoever
// writes that down; and that no question, however it is asked, holds a lock of the guards
// for more than a page, or keeps a request waiting. What a name is asked for is never
// in an answer or a line: a hash is.
//
// It gives up on rights that differ: who may change something may change all.
package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/hub"
	"github.com/doorward/doorward/cmd/doorward/internal/logs"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/trace"
)

// A Daemon is what is served. Its methods are called from many goroutines.
type Daemon interface {
	Status(now time.Time) api.Status
	// Guards are those in force, in the order of the configuration.
	Guards() []Guard
	// Hash stands for a subject, as in events.
	Hash(subject doorward.Key) trace.Hash
	// Recent are events about a caller or a subject that are still remembered, oldest first.
	Recent(caller, subject doorward.Key) []trace.Record
	Watch(hub.Filter) (*hub.Stream, error)
	// Record writes down a change that was made.
	Record(trace.Record)

	// What follows changes something, and records that itself. An *Error is passed on to
	// who asked, with its status; another error is ours.
	Networks(now time.Time) []api.Network
	List(n api.List, now time.Time) (api.Network, error)
	Unlist(id string, by api.By, now time.Time) error
	Reload(by api.By) error
}

// A Guard and what it is called.
type Guard struct {
	Name  string
	Realm bool // whether the name is that of a realm, not of a door
	Doors []string
	*guard.Guard
}

// An Error is an answer that is not 2xx.
type Error struct {
	Status int
	api.Problem
	wait time.Duration
}

func (e *Error) Error() string { return e.Problem.Error }

// Errorf returns an Error of a status.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Problem: api.Problem{Error: fmt.Sprintf(format, args...)}}
}

func bad(format string, args ...any) *Error { return Errorf(http.StatusBadRequest, format, args...) }

// A Server answers. It is a http.Handler; Serve adds what only a server can have.
type Server struct {
	daemon   Daemon
	access   atomic.Pointer[Access]
	cross    *http.CrossOriginProtection
	guess    *guard.Guard // of tokens
	guessing sync.Mutex
	paths    map[string]map[string]endpoint
	log      *slog.Logger
	denied   *logs.Kind
	server   *logs.Kind
}

// An endpoint is what answers a method of a path.
type endpoint struct {
	open  bool // to whoever can reach this machine's own address
	serve func(http.ResponseWriter, *http.Request) error
}

// New returns a server of d. Metrics answers its path.
func New(d Daemon, access Access, metrics http.Handler, log *slog.Logger) (*Server, error) {
	guess, err := guard.New(guard.Config{Rules: guesses()})
	if err != nil {
		return nil, err
	}
	s := &Server{
		daemon: d, cross: http.NewCrossOriginProtection(), guess: guess, log: log,
		denied: logs.NewKind(log, slog.LevelWarn, "admin: not let in"),
		server: logs.NewKind(log, slog.LevelWarn, "admin: server"),
	}
	s.SetAccess(access)
	get := func(open bool, f func(*http.Request) (any, error)) map[string]endpoint {
		return map[string]endpoint{http.MethodGet: {open, answering(f)}}
	}
	post := func(f func(*http.Request) (any, error)) map[string]endpoint {
		return map[string]endpoint{http.MethodPost: {serve: answering(f)}}
	}
	s.paths = map[string]map[string]endpoint{
		api.StatusPath:   get(true, s.status),
		api.KeysPath:     get(false, s.keys),
		api.WhyPath:      get(false, s.why),
		api.UnlockPath:   post(s.unlock),
		api.ClearPath:    post(s.clear),
		api.ReloadPath:   post(s.reload),
		api.NetworksPath: get(false, func(*http.Request) (any, error) { return api.Networks{Networks: d.Networks(time.Now())}, nil }),
		networkPath:      {http.MethodDelete: {serve: answering(s.unlist)}},
		api.EventsPath:   {http.MethodGet: {serve: s.events}},
		api.OpenAPIPath:  {http.MethodGet: {open: true, serve: openAPI}},
		api.MetricsPath: {http.MethodGet: {open: true, serve: func(w http.ResponseWriter, r *http.Request) error {
			metrics.ServeHTTP(w, r)
			return nil
		}}},
	}
	s.paths[api.NetworksPath][http.MethodPost] = endpoint{serve: answering(s.list)}
	return s, nil
}

// networkPath stands for the paths of all networks.
const networkPath = api.NetworksPath + "/{id}"

// networkID is what of a path names a network, "" if nothing does.
func networkID(path string) string {
	id, found := strings.CutPrefix(path, api.NetworksPath+"/")
	if !found || strings.Contains(id, "/") {
		return ""
	}
	return id
}

func openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(api.OpenAPI)
	return nil
}

// What one request may take.
const (
	maxBody  = 64 << 10
	bodyTime = 10 * time.Second
	sendTime = 30 * time.Second
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(sendTime)) // not of a test's recorder
	if r.Body != nil && r.Body != http.NoBody {
		_ = control.SetReadDeadline(time.Now().Add(bodyTime))
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	}
	if err := s.serve(w, r); err != nil {
		s.problem(w, err)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	if networkID(path) != "" {
		path = networkPath
	}
	methods, known := s.paths[path]
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	e, allowed := methods[method]
	if err := s.admit(r, e.open); err != nil {
		return err
	}
	switch {
	case !known:
		return Errorf(http.StatusNotFound, "there is no %s", cut(r.URL.Path))
	case !allowed:
		var names []string
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if _, ok := methods[m]; ok {
				names = append(names, m)
			}
		}
		w.Header().Set("Allow", strings.Join(names, ", "))
		return Errorf(http.StatusMethodNotAllowed, "%s is read or changed by %s", cut(r.URL.Path), strings.Join(names, " or "))
	}
	return e.serve(w, r)
}

// problem answers with an error.
func (s *Server) problem(w http.ResponseWriter, err error) {
	p := (*Error)(nil)
	switch {
	case errors.As(err, &p):
	case errors.Is(err, guard.ErrStore):
		p = Errorf(http.StatusNotImplemented, "the counts are in a store, which does not know this of keys: ask by address, subject, or a key that begins with store:")
	case errors.Is(err, hub.ErrFull):
		p = Errorf(http.StatusServiceUnavailable, "%d streams of events are open already", hub.Streams)
	default:
		s.log.Error("admin: request failed", "error", err)
		p = Errorf(http.StatusInternalServerError, "that failed: the log says why")
	}
	if p.wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((p.wait+time.Second-1)/time.Second), 10))
	}
	write(w, p.Status, p.Problem)
}

// answering makes an endpoint of what returns a body, or nil for none.
func answering(f func(*http.Request) (any, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := f(r)
		switch {
		case err != nil:
			return err
		case body == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			write(w, http.StatusOK, body)
		}
		return nil
	}
}

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // of our own types
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// read reads a body into v. What v does not have is an error: a misspelt rule would be all
// rules.
func read(r *http.Request, v any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Errorf(http.StatusUnsupportedMediaType, "the body must be application/json")
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("there is more after it")
		}
	}
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return Errorf(http.StatusRequestEntityTooLarge, "the body must be at most %d bytes", maxBody)
	}
	if err != nil {
		return bad("the body must be one JSON object as the API has it: %s", cut(strings.TrimPrefix(err.Error(), "json: ")))
	}
	return nil
}

// query returns the parameters of a request, of which each may be there once but for those
// of many.
func query(r *http.Request, names string, many string) (map[string][]string, error) {
	q := r.URL.Query()
	for name, values := range q {
		switch {
		case name == many:
		case !strings.Contains(" "+names+" ", " "+name+" "):
			return nil, bad("%s is no parameter of this: %s", cut(name), strings.TrimSpace(names+" "+many))
		case len(values) > 1:
			return nil, bad("%s must be there once", name)
		}
	}
	return q, nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// How long who says what and why may be, in bytes.
const (
	maxActor  = 100
	maxReason = 300
)

// checkBy demands both of By.
func checkBy(by api.By) error {
	for _, f := range []struct {
		name, value string
		most        int
	}{{"actor", by.Actor, maxActor}, {"reason", by.Reason, maxReason}} {
		switch {
		case strings.TrimSpace(f.value) == "":
			return bad("%s must say who changes this, or why", f.name)
		case len(f.value) > f.most:
			return bad("%s must be at most %d bytes, got %d", f.name, f.most, len(f.value))
		case !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, unicode.IsControl):
			return bad("%s must be text of one line", f.name)
		}
	}
	return nil
}

// cut makes what a request says fit for one line of an answer.
func cut(s string) string {
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, logs.Cut(s, 100)), "?")
}

// status is the daemon with its figures. What operators wrote may name somebody: it is not
// for everybody on the machine.
func (s *Server) status(r *http.Request) (any, error) {
	st := s.daemon.Status(time.Now())
	if !knows(r) {
		for i := range st.Networks {
			st.Networks[i].By = api.By{}
		}
	}
	return st, nil
}

// reload reads the configuration again.
func (s *Server) reload(r *http.Request) (any, error) {
	var in api.Reload
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if err := checkBy(in.By); err != nil {
		return nil, err
	}
	return nil, s.daemon.Reload(in.By)
}
