package demo

import (
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"html/template"
	"io"
	"log"
	"net/http"
	"sync"
)

// The one account, and what it takes to open it. Both stand on the login page.
const (
	user     = "alice"
	password = "secret"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// app is an ordinary login application that knows nothing of Doorward: it answers 200
// and the form again to a wrong password, and redirects with a cookie after the right
// one. It counts what it was asked.
type app struct {
	mux *http.ServeMux

	mu       sync.Mutex
	tries    int
	sessions [maxSessions]string // the latest ones
	next     int
}

const maxSessions = 1024

func newApp() *app {
	a := &app{mux: http.NewServeMux()}
	a.mux.HandleFunc("GET /{$}", a.form)
	a.mux.HandleFunc("GET /login", a.form)
	a.mux.HandleFunc("POST /login", a.login)
	a.mux.HandleFunc("GET /account", a.account)
	a.mux.HandleFunc("POST /logout", a.logout)
	return a
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// view is what a page shows.
type view struct {
	User, Password string
	Wrong          bool
	Account        bool
	Tries          int
}

func (a *app) show(w http.ResponseWriter, v view) {
	a.mu.Lock()
	v.Tries = a.tries
	a.mu.Unlock()
	v.User, v.Password = user, password
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	page.Execute(w, v) // what fails is the connection
}

func (a *app) form(w http.ResponseWriter, r *http.Request) { a.show(w, view{}) }

// login is the door: a guess costs the application whatever its check costs.
func (a *app) login(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.tries++
	a.mu.Unlock()
	sameUser := subtle.ConstantTimeCompare([]byte(r.PostFormValue("username")), []byte(user))
	samePassword := subtle.ConstantTimeCompare([]byte(r.PostFormValue("password")), []byte(password))
	if sameUser&samePassword != 1 {
		a.show(w, view{Wrong: true})
		return
	}
	token := rand.Text()
	a.mu.Lock()
	a.sessions[a.next] = token
	a.next = (a.next + 1) % maxSessions
	a.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: "session", Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	w.Header().Set("Location", "/account")
	w.WriteHeader(http.StatusFound)
}

func (a *app) account(w http.ResponseWriter, r *http.Request) {
	if a.session(r) < 0 {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	a.show(w, view{Account: true})
}

func (a *app) logout(w http.ResponseWriter, r *http.Request) {
	if i := a.session(r); i >= 0 {
		a.mu.Lock()
		a.sessions[i] = ""
		a.mu.Unlock()
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// session returns the place of the session that r belongs to, -1 if there is none.
func (a *app) session(r *http.Request) int {
	c, err := r.Cookie("session")
	if err != nil || c.Value == "" {
		return -1
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, token := range &a.sessions {
		if token == c.Value {
			return i
		}
	}
	return -1
}

func (a *app) seen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tries
}

// server returns the application's own server.
func (a *app) server() *http.Server {
	return &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0)}
}
