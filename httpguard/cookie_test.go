package httpguard_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/outcome"
)

// TestForged: what is no token makes nobody known, and is not kept if it cannot be one.
func TestForged(t *testing.T) {
	ada := doorward.KeyFromName("ada")
	genuine, _ := signer(t, 'a').Issue(ada, time.Now())
	other, _ := signer(t, 'b').Issue(ada, time.Now())
	bob, _ := signer(t, 'a').Issue(doorward.KeyFromName("bob"), time.Now())
	expired, _ := signer(t, 'a').Issue(ada, time.Now().Add(-device.DefaultTTL))
	if len(genuine) != 88 {
		t.Fatalf("a token has %d characters", len(genuine))
	}
	as := strings.Repeat("A", 88)
	for _, tt := range []struct {
		name   string
		cookie []string
		known  bool
		kept   []string // behind the new token
	}{
		{"none", nil, false, nil},
		{"genuine", []string{genuine}, true, nil},
		{"empty", []string{""}, false, nil},
		{"dots", []string{"....."}, false, nil},
		{"garbage", []string{"garbage"}, false, nil},
		{"short", []string{genuine[1:]}, false, nil},
		{"long", []string{genuine + "A"}, false, nil},
		{"another alphabet", []string{genuine[:87] + "+"}, false, nil},
		{"forged", []string{as}, false, []string{as}},
		{"other key", []string{other}, false, []string{other}},
		{"expired", []string{expired}, false, []string{expired}},
		{"for another subject", []string{bob}, false, []string{bob}},
		{"changed", []string{"A" + genuine[1:]}, false, []string{"A" + genuine[1:]}},
		{"behind four", []string{strings.Join([]string{as, as, as, bob, genuine}, ".")}, true, nil},
		{"behind five", []string{strings.Join([]string{as, as, as, as, bob, genuine}, ".")}, false, []string{as, as, as, as}},
		{"behind garbage", []string{strings.Repeat("x.", 500) + genuine}, true, nil},
		{"second cookie", []string{"garbage", genuine}, true, nil},
		{"sixth cookie", []string{as, as, as, as, as, genuine}, false, []string{as, as, as, as}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := withDevices(t, signer(t, 'a'))
			h := newGate(t, o).Handler(password)
			post := func(password string) *httptest.ResponseRecorder {
				r := form("192.0.2.7", "user=ada&password="+password)
				for _, c := range tt.cookie {
					r.Header.Add("Cookie", httpguard.DefaultDeviceCookie+"="+c)
				}
				return do(h, r)
			}
			if w := post("guess"); w.Code != 401 || w.Header()["Set-Cookie"] != nil {
				t.Errorf("a guess: %d %v", w.Code, w.Header())
			}
			w := post("right")
			cookies := w.Result().Cookies()
			if w.Code != 200 || (len(cookies) == 0) != tt.known {
				t.Fatalf("%d %v", w.Code, cookies)
			}
			if tt.known {
				return
			}
			tokens := strings.Split(cookies[0].Value, ".")
			if _, ok := signer(t, 'a').Verify(tokens[0], ada, time.Now()); !ok || !slices.Equal(tokens[1:], tt.kept) {
				t.Errorf("cookie %v", tokens)
			}
			for i := range 40 {
				(&browser{h: h}).try(fmt.Sprintf("198.51.100.%d", i), "ada", "guess")
			}
			if w := post("right"); w.Code != 429 {
				t.Errorf("a stranger: %d", w.Code)
			}
		})
	}
}

// TestCookieWhen: a cookie comes with the final status of a success, and only with it.
func TestCookieWhen(t *testing.T) {
	settle := func(o doorward.Outcome) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { httpguard.FromRequest(r).Settle(o) }
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    bool
	}{
		{"a word", settle(doorward.Succeeded), true},
		{"a word, then a failure", func(w http.ResponseWriter, r *http.Request) {
			httpguard.FromRequest(r).Succeeded()
			w.WriteHeader(401)
		}, true},
		{"a status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, true},
		{"a header", func(w http.ResponseWriter, r *http.Request) { say(w, "succeeded"); io.WriteString(w, "x") }, true},
		{"after hints", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			if w.Header()["Set-Cookie"] != nil {
				panic("too early")
			}
			w.WriteHeader(204)
		}, true},
		{"failed", settle(doorward.Failed), false},
		{"malformed", settle(doorward.Malformed), false},
		{"void", settle(doorward.Void), false},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, false},
		{"401", wrong, false},
		{"too late", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			httpguard.FromRequest(r).Succeeded()
		}, false},
		{"101", func(w http.ResponseWriter, r *http.Request) {
			httpguard.FromRequest(r).Succeeded()
			w.WriteHeader(101)
		}, false},
		{"hijacked", func(w http.ResponseWriter, r *http.Request) {
			httpguard.FromRequest(r).Succeeded()
			if _, _, err := w.(http.Hijacker).Hijack(); err != nil {
				panic(err)
			}
		}, false},
	} {
		o := withDevices(t, signer(t, 'a'))
		o.Outcome = speaks(t)
		w := hijackable{httptest.NewRecorder()}
		newGate(t, o).Handler(tt.handler).ServeHTTP(w, form("192.0.2.7", "user=ada"))
		if got := w.Header()["Set-Cookie"]; (len(got) == 1) != tt.want || len(got) > 1 || w.Header()[outcome.Header] != nil && tt.want {
			t.Errorf("%s: %v", tt.name, w.Header())
		}
	}
}

// TestCookieWhom: nobody is known without a subject, and who is exempt is not asked.
func TestCookieWhom(t *testing.T) {
	for user, want := range map[string]bool{"": false, "ada": true} {
		for from, known := range map[string]bool{"192.0.2.7": true, "203.0.113.7": false} {
			c := login()
			c.Exempt = prefixes("203.0.113.0/24")
			o := withDevices(t, signer(t, 'a'))
			o.Guard, o.OptionalSubject = newGuard(t, c), true
			b := &browser{h: newGate(t, o).Handler(password)}
			if n := b.try(from, user, "right"); n != 200 || (b.cookie != "") != (want && known) {
				t.Errorf("%q from %s: %d, %q", user, from, n, b.cookie)
			}
		}
	}
}

// TestCookieFlags: what the cookie says besides its tokens.
func TestCookieFlags(t *testing.T) {
	clients, err := clientip.New(clientip.Config{Header: "X-Forwarded-For", Trusted: prefixes("10.0.0.0/8")})
	if err != nil {
		t.Fatal(err)
	}
	const (
		proxy  = "10.0.0.1"
		caller = "192.0.2.7"
	)
	for _, tt := range []struct {
		name, peer, forwardedFor, proto string
		tls, secure                     bool
	}{
		{"TLS", caller, "", "", true, true},
		{"no TLS", caller, "", "", false, false},
		{"a stranger says so", caller, "192.0.2.8", "https", false, false},
		{"a proxy says so", proxy, caller, "https", false, true},
		{"in capitals", proxy, caller, "HTTPS", false, true},
		{"of the first hop", proxy, caller, "https, http", false, true},
		{"not of the first hop", proxy, caller, "http, https", false, false},
		{"http", proxy, caller, "http", false, false},
		{"nothing", proxy, caller, "", false, false},
		{"all trusted", proxy, "10.0.0.2", "https", false, true},
		{"fallback", proxy, "", "https", false, true},
		{"unknown", proxy, "x", "https", false, false},
	} {
		o := withDevices(t, signer(t, 'a'))
		o.Clients, o.DeviceCookie = clients, "known"
		r := form(tt.peer, "user=ada&password=right")
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		for name, value := range map[string]string{"X-Forwarded-For": tt.forwardedFor, "X-Forwarded-Proto": tt.proto} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := do(newGate(t, o).Handler(password), r)
		attributes := "; Path=/; Max-Age=7776000; HttpOnly"
		if tt.secure {
			attributes += "; Secure"
		}
		attributes += "; SameSite=Lax"
		c := w.Header().Get("Set-Cookie")
		if name, rest, _ := strings.Cut(c, "="); name != "known" || len(rest) < 88 || rest[88:] != attributes {
			t.Errorf("%s: %q, want %s", tt.name, c, attributes)
		}
	}
}

// TestKnownPastOverflow: what strangers have spent for all of the networks that have
// no place of their own does not refuse a known device, and its body is read to know
// it.
func TestKnownPastOverflow(t *testing.T) {
	c := login()
	few := *free(2)
	few.Capacity = 1
	c.Rules[0].Lockout = &few
	o := withDevices(t, signer(t, 'a'))
	o.Guard = newGuard(t, c)
	h := newGate(t, o).Handler(password)
	token, _ := signer(t, 'a').Issue(doorward.KeyFromName("ada"), time.Now())
	for i := range 3 {
		(&browser{h: h}).try(fmt.Sprintf("198.51.100.%d", i), "eve", "guess")
	}
	for _, tt := range []struct {
		cookie string
		status int
		read   bool
	}{
		{token, 200, true},
		{"", 429, false},
		{strings.Repeat("A", 88), 429, true},
		{token[1:], 429, false},
	} {
		r := form("192.0.2.7", "user=ada&password=right")
		r.Header.Set("Cookie", httpguard.DefaultDeviceCookie+"="+tt.cookie)
		body := &reads{ReadCloser: r.Body}
		r.Body = body
		if w := do(h, r); w.Code != tt.status || (body.n > 0) != tt.read {
			t.Errorf("cookie %q: %d, read %d times", tt.cookie, w.Code, body.n)
		}
	}
}

// reads counts them.
type reads struct {
	io.ReadCloser
	n int
}

func (r *reads) Read(b []byte) (int, error) {
	r.n++
	return r.ReadCloser.Read(b)
}

// TestCrossSite: a form that another site sends overwrites nothing.
func TestCrossSite(t *testing.T) {
	for site, want := range map[string]bool{"": true, "none": true, "same-origin": true, "same-site": true, "cross-site": false} {
		r := form("192.0.2.7", "user=ada&password=right")
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		w := do(newGate(t, withDevices(t, signer(t, 'a'))).Handler(password), r)
		if got := w.Header().Get("Set-Cookie") != ""; got != want {
			t.Errorf("Sec-Fetch-Site %q: cookie %t, want %t", site, got, want)
		}
	}
}
