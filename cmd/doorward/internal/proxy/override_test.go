package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/doorward/doorward/door"
)

// reader reads bodies, so that connections end well.
var reader = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })

// TestOverrides: requests that an application may take for a method that a door has.
// There are two doors, POST /login and PUT /password.
func TestOverrides(t *testing.T) {
	const login, password, none, bad = "login", "password", "", "bad"
	const form, json = "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/json"
	const parts = "Content-Type: multipart/form-data; boundary=b"
	inParts := func(s string) string { return "--b\r\nContent-Disposition: form-data; " + s + "\r\n--b--\r\n" }
	for _, row := range []struct {
		line, header, body string
		at                 string
	}{
		{"GET /login", "", "", none},
		{"GET /login", "X-HTTP-Method-Override: POST", "", login},
		{"GET /login", "x_http_method_override: post", "", login},
		{"GET /login", "X-HTTP-Method: POST", "", login},
		{"GET /login", "X-Method-Override: POST", "", login},
		{"GET /login", "X-Method-Override: PUT, POST", "", login},
		{"GET /login", "X-Method-Override: PUT\r\nX-Method-Override: POST", "", login},
		{"GET /login", "X-Method-Override: PUT", "", none},
		{"GET /login", "X-Method-Override: POSTS", "", none},
		{"GET /login", "X-Method-Override: " + strings.Repeat("a,", 70) + "POST", "", login},
		{"GET /help", "X-Method-Override: POST", "", none},
		{"OPTIONS /login", "Access-Control-Request-Method: POST", "", none},
		{"GET /login?_method=POST", "", "", login},
		{"GET /login?a=b&_method=post", "", "", login},
		{"GET /login?a=b;_method=post", "", "", login},
		{"GET /login?%5fmethod=%50OST", "", "", login},
		{"GET /login?X-HTTP-Method-Override=POST", "", "", login},
		{"GET /login?.method=POST", "", "", login},
		{"GET /login?_method%00x=POST", "", "", login},
		{"GET /login?[_method]x=POST", "", "", login},
		{"GET /login", "X-Method: POST", "", login},
		{"GET /login?%zz=1&_method=POST", "", "", login},
		{"GET /login%3F_method=POST", "", "", login},
		{"GET /login;_method=POST", "", "", login},
		{"GET /login?_method=GET", "", "", none},
		{"GET /login?method=code&next=POST", "", "", none},
		{"GET /login%00?_method=POST", "", "", bad},
		{"POST /login", "X-HTTP-Method-Override: GET", "", login},
		{"GET /login", form, "_method=POST", login},
		{"DELETE /login", form, "a=1&_method=post&b", login},

		{"POST /password", form, "a=b", none},
		{"POST /password", form, "_method=PUT&a=b", password},
		{"POST /password", form, "a=b&%5Fmethod=%50ut", password},
		{"POST /password", form, "a=b&_method=DELETE&c=PUT", none},
		{"POST /password", json, `{"_method": "PUT"}`, password},
		{"POST /password", json, `{"\u005fmethod": "PUT"}`, password},
		{"POST /password", json, `{"a": "PUT"}`, none},
		{"POST /password", parts, inParts("name=\"_method\"\r\n\r\nPUT"), password},
		{"POST /password", parts, inParts("name=\"_method\"\r\nContent-Type: text/plain, x\r\n\r\nPUT"), password},
		{"POST /password", parts, inParts("name=\"_met\\hod\"\r\n\r\nPUT"), password},
		{"POST /password", parts, inParts("name=\"_method\"\r\n\r\nGET\r\n--b\r\nContent-Disposition: form-data; name=a\r\n\r\nPUT"), none},
		{"POST /password", parts, inParts("name=\"a\"\r\nContent-Transfer-Encoding: base64\r\n\r\nX"), password},
		{"POST /password", parts, inParts("name=\"_method\"\r\nX-A: a&b\r\n\r\nPUT"), password},
		{"POST /password", parts, inParts("name*0=_me; name*1=thod\r\n\r\nPUT"), password},
		{"POST /password", parts, inParts("name=\"=?utf-8?B?X21ldGhvZA==?=\"\r\n\r\nPUT"), password},
		{"POST /password", parts, inParts("name=\"_method\"\r\n--x: y\r\n\r\nPUT"), password},
		{"POST /password", parts, inParts("name=\"_method\"; x=\"\n--\"\r\n\r\nPUT"), password},
		{"POST /password", "Content-Type: image/png", strings.Repeat("a", 65<<10), none},
		{"POST /password", "Content-Type: text/plain; charset=utf-7", "a", password},
		{"POST /password", "Content-Type: text/plain; charset=\"UTF-8\"", "a", none},
		{"POST /password", "Content-Encoding: gzip", "a", password},
		{"POST /password", form, strings.Repeat("a", 64<<10), none},
		{"POST /other", form, "_method=PUT", none},
		{"POST /password", form, "_method=" + strings.Repeat("a ", 70), password},
	} {
		second := lockoutGuard(t, 5)
		s := serve(t, handle(t, reader), func(c *Config) {
			d := c.Doors[0]
			d.Name, d.Guard = "password", second
			d.Match = mustDoor(t, door.Config{Routes: []string{"PUT /password"}})
			c.Doors = append(c.Doors, d)
		})
		text := row.line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
		if row.header != "" {
			text += row.header + "\r\n"
		}
		length := "Content-Length: " + strconv.Itoa(len(row.body)) + "\r\n"
		if row.body == "" {
			length = ""
		}
		res, _ := s.raw(text + length + "\r\n" + row.body)
		got := none
		if s.remaining("127.0.0.1") < 5 {
			got += login
		}
		if s.guard = second; s.remaining("127.0.0.1") < 5 {
			got += password
		}
		if res.StatusCode == 400 {
			got = bad
		}
		if want := map[bool]int{true: 400, false: 200}[row.at == bad]; got != row.at || res.StatusCode != want {
			t.Errorf("%s, %q, %.40q: at %q with status %d, want %q", row.line, row.header, row.body, got, res.StatusCode, row.at)
		}
	}
}

// A body that is too long to search is at the door, whose limit it exceeds.
func TestOverrideInLongBody(t *testing.T) {
	a := lineApp(t)
	s := serve(t, a.addr, func(c *Config) {
		c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"PUT /login"}})
	})
	body := strings.Repeat("a", 64<<10+1)
	for _, framing := range []string{"Content-Length: 65537\r\n\r\n" + body, "Transfer-Encoding: chunked\r\n\r\n10001\r\n" + body + "\r\n0\r\n\r\n"} {
		if res, _ := s.raw("POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + framing); res.StatusCode != 413 {
			t.Errorf("status %d, want 413", res.StatusCode)
		}
	}
	if a.conns.Load() != 0 {
		t.Error("it reached the application")
	}
	// Nobody looks for fields in a file. A short one is searched all the same.
	for _, row := range []struct {
		kind, body string
		passed     bool
	}{
		{"image/png", body, true}, {"application/octet-stream", body, true}, {"image/png\r\nContent-Type: text/plain", body, false},
		{"application/json", body, false}, {"image/png", "_method=PUT", false},
	} {
		s := serve(t, handle(t, reader), func(c *Config) {
			c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"PUT /login"}})
		})
		res, _ := s.raw("POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: " + row.kind + "\r\nContent-Length: " + strconv.Itoa(len(row.body)) + "\r\n\r\n" + row.body)
		if passed := res.StatusCode == 200 && s.remaining("127.0.0.1") == 5; passed != row.passed {
			t.Errorf("%q of %d bytes: status %d, %d attempts left", row.kind, len(row.body), res.StatusCode, s.remaining("127.0.0.1"))
		}
	}
}

// What was searched reaches the application as it was sent.
func TestOverrideKeepsBodies(t *testing.T) {
	got := make(chan string, 1)
	a := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
	})
	s := serve(t, handle(t, a), func(c *Config) {
		c.Doors[0].Match = mustDoor(t, door.Config{Routes: []string{"PUT /login"}})
	})
	for _, body := range []string{"", "a", "_method=PUT&a=b", strings.Repeat("b", 64<<10)} {
		s.raw("POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
		if seen := <-got; seen != body {
			t.Errorf("sent %d bytes, application got %d", len(body), len(seen))
		}
	}
}

// One form that two doors may mean says which by its own field, or is refused.
func TestOverrideTwoDoors(t *testing.T) {
	for _, row := range []struct {
		body   string
		status int
	}{{"a=b", 200}, {"_method=POST", 200}, {"_method=PUT", 400}} {
		s := serve(t, handle(t, reader), func(c *Config) {
			d := c.Doors[0]
			d.Name, d.Match = "put", mustDoor(t, door.Config{Routes: []string{"PUT /login"}})
			c.Doors = append(c.Doors, d)
		})
		if res := rawPost(s, row.body); res.StatusCode != row.status {
			t.Errorf("%s: status %d, want %d", row.body, res.StatusCode, row.status)
		}
	}
}

func rawPost(s *site, body string) *http.Response {
	res, _ := s.raw(request("POST", "/login", body))
	return res
}

// FuzzBodyMethods: whenever a parser of forms or of JSON finds PUT in the field _method,
// so does the search, or it cannot tell.
func FuzzBodyMethods(f *testing.F) {
	for _, s := range []string{
		"_method=PUT", "a=b&%5Fmethod=%50UT&c", "_method=%zz&_method=PUT", `{"_method":"PUT"}`, `{"a":1,"\u005fmethod" : "PUT"}`, `{"_method":["PUT"]}`,
		"--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nPUT\r\n--b--\r\n",
		"--b\r\nContent-Disposition: form-data; name=\"_method\"\r\nX: a&b\r\n\r\nPUT\r\n--b--\r\n",
		"--b\nContent-Disposition: form-data; name=_method\n\nPUT\n--b--",
		"--b\r\nContent-Disposition: form-data; name*0=_me; name*1=thod\r\n\r\nPUT\r\n--b--\r\n",
		"--b\r\nContent-Disposition: form-data; name*=utf-8''%5Fmethod\r\nX: a&b\r\n\r\nPUT\r\n--b--\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		methods, ok := bodyMethods(nil, body)
		if !ok || slices.Contains(methods, "put") {
			return
		}
		values, _ := url.ParseQuery(string(body))
		if slices.Contains(values["_method"], "PUT") {
			t.Errorf("a form says PUT in %q", body)
		}
		var object struct {
			Method any `json:"_method"`
		}
		if json.Unmarshal(body, &object) == nil && object.Method == "PUT" {
			t.Errorf("an object says PUT in %q", body)
		}
		r := multipart.NewReader(bytes.NewReader(body), "b")
		for {
			part, err := r.NextPart()
			if err != nil {
				break
			}
			value, _ := io.ReadAll(part)
			if part.FormName() == "_method" && string(value) == "PUT" {
				t.Errorf("a part says PUT in %q", body)
			}
		}
	})
}

// The search is bounded by what it is given.
func TestBodyMethods(t *testing.T) {
	for body, want := range map[string][]string{
		"":                    nil,
		"_method=PUT":         {"put"},
		"method&method=a+b":   {"a", "b"},
		"{\"_method\":\"x\"}": {"x"},
	} {
		if got, ok := bodyMethods(nil, []byte(body)); !ok || !slices.Equal(got, want) {
			t.Errorf("%q: %q %t, want %q", body, got, ok, want)
		}
	}
}

func TestIsFile(t *testing.T) {
	for kind, want := range map[string]bool{
		"image/png": true, "video/mp4; x=y": true, "Application/Octet-Stream": true, "text/plain": false, "": false,
		"image/urlencoded": false, "audio/x; application/json": false, "font/form-data": false, "application/octet-stream2": false,
	} {
		if got := isFile([]string{kind}); got != want {
			t.Errorf("%q: %t, want %t", kind, got, want)
		}
	}
	if isFile(nil) || isFile([]string{"image/png", "image/png"}) {
		t.Error("no type, or two, are those of a file")
	}
}
