package httpguard_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/doorward/doorward/device"
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

// Subjects and known devices: strangers guess at an account from many networks, and
// its owner still gets in.
func Example_devices() {
	rules, err := guard.New(guard.Login)
	if err != nil {
		log.Fatal(err)
	}
	devices, err := device.New(device.Config{Guard: "login", Keys: [][]byte{[]byte("32 random bytes that are a secret")}})
	if err != nil {
		log.Fatal(err)
	}
	gate, err := httpguard.New(httpguard.Options{
		Guard:   rules,
		Devices: devices,
		Subject: func(r *http.Request) (string, error) { return r.PostFormValue("user"), nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	h := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !checkPassword(r.PostFormValue("user"), r.PostFormValue("password")) {
			http.Error(w, "wrong password", http.StatusUnauthorized)
			return
		}
		httpguard.FromRequest(r).Succeeded()
	}))
	post := func(addr, password string, cookies ...*http.Cookie) *http.Response {
		r := httptest.NewRequest("POST", "/login", strings.NewReader("user=ada&password="+password))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = addr + ":1234"
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	known := post("192.0.2.7", "lovelace").Cookies()
	for i := range 40 {
		post(fmt.Sprintf("198.51.100.%d", i), "guess")
	}
	fmt.Println("a stranger:", post("203.0.113.8", "lovelace").StatusCode)
	fmt.Println("the owner: ", post("203.0.113.9", "lovelace", known...).StatusCode)
	// Output:
	// a stranger: 429
	// the owner:  200
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
