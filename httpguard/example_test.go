package httpguard_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/outcome"
)

func checkPassword(user, password string) bool { return user == "ada" && password == "lovelace" }

// Five wrong passwords a minute from one network; the handler says which were right.
func Example() {
	rules, err := guard.New(guard.Config{Rules: []guard.Rule{{Per: guard.Network, Lockout: &lockout.Login}}})
	if err != nil {
		log.Fatal(err)
	}
	gate, err := httpguard.New(httpguard.Options{Guard: rules})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /login", gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !checkPassword(r.PostFormValue("user"), r.PostFormValue("password")) {
			http.Error(w, "wrong password", http.StatusUnauthorized)
			return
		}
		httpguard.FromRequest(r).Succeeded()
		fmt.Fprintln(w, "welcome")
	})))

	login := func(password string) {
		r := httptest.NewRequest("POST", "/login", strings.NewReader("user=ada&password="+password))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(w, r)
		fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"))))
	}
	login("lovelace")
	for range 5 {
		login("guess")
	}
	login("lovelace")
	// Output:
	// 200
	// 401
	// 401
	// 401
	// 401
	// 401
	// 429 60
}

// An application that cannot be changed: its answer tells how the attempt ended.
func Example_outcome() {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("code") != "4711" {
			fmt.Fprintln(w, "try again") // with 200, as most do
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
	})
	answers, err := outcome.New(outcome.Rules{Succeeded: outcome.Conditions{SetCookie: "session"}})
	if err != nil {
		log.Fatal(err)
	}
	rules, err := guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &lockout.Enroll}}})
	if err != nil {
		log.Fatal(err)
	}
	gate, err := httpguard.New(httpguard.Options{
		Guard:   rules,
		Outcome: answers,
		Settled: func(r *http.Request, p *httpguard.Permit) {
			o, _ := p.Outcome()
			fmt.Println(p.Addr(), o)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	h := gate.Handler(app)
	for _, code := range []string{"0000", "4711"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/?code="+code, nil))
	}
	// Output:
	// 192.0.2.1 failed
	// 192.0.2.1 succeeded
}

// Check decides without writing: for handlers that answer in a language of their own.
func ExampleGate_Check() {
	rules, err := guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &lockout.Login}}})
	if err != nil {
		log.Fatal(err)
	}
	gate, err := httpguard.New(httpguard.Options{Guard: rules})
	if err != nil {
		log.Fatal(err)
	}
	attempt := func(r *http.Request) {
		p := gate.Check(r)
		defer p.Failed() // unless something else is said first
		if v := p.Verdict(); !v.Allowed {
			fmt.Println(v.Reason, v.Rule)
			return
		}
		fmt.Println("checking the password")
	}
	for range 6 {
		attempt(httptest.NewRequest("POST", "/login", nil))
	}
	// Output:
	// checking the password
	// checking the password
	// checking the password
	// checking the password
	// checking the password
	// locked network
}
