package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// A spelling is a request that some application may take for a login.
type spelling struct {
	line string // without HTTP/1.1, unless it has a version
	head string // more header lines; with a Host, or "-", there is no other
	body string
}

func (s spelling) bytes() string {
	var b strings.Builder
	b.WriteString(s.line)
	if !strings.Contains(s.line, " HTTP/") {
		b.WriteString(" HTTP/1.1")
	}
	b.WriteString("\r\n")
	if s.head != "-" && !strings.Contains("\n"+strings.ToLower(s.head), "\nhost") {
		b.WriteString("Host: app.example\r\n")
	}
	if s.head != "" && s.head != "-" {
		b.WriteString(s.head + "\r\n")
	}
	fmt.Fprintf(&b, "Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(s.body), s.body)
	return b.String()
}

// title is the spelling as the document shows it, in the escapes of Go.
func (s spelling) title() string {
	t := s.line
	if s.head == "-" {
		t += ", no Host"
	} else if s.head != "" {
		t += ", " + s.head
	}
	if s.body != "" {
		t += ", body " + s.body
	}
	return code(t)
}

// code writes s in Go's escapes as code in a cell.
func code(s string) string {
	q := strconv.QuoteToASCII(s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	return "`` " + strings.ReplaceAll(q, "|", `\|`) + " ``"
}

const formType = "Content-Type: application/x-www-form-urlencoded"

var spellings = []struct {
	group string
	rows  []spelling
}{
	{"The route, and what is beside it", []spelling{
		{line: "POST /login"}, {line: "POST /login?x=1"}, {line: "POST /login?"}, {line: "POST /login??"}, {line: "POST /login?/../x"},
		{line: "POST /login#x"}, {line: "POST /login?x#y"}, {line: "POST /x?/login"}, {line: "POST /?/../login"},
		{line: "POST /"}, {line: "POST /login-help"}, {line: "POST /login/help"}, {line: "POST /x/login"}, {line: "POST /loginx"},
		{line: "PUT /password"}, {line: "POST /password"},
	}},
	{"Slashes and dots", []spelling{
		{line: "POST /login/"}, {line: "POST /login//"}, {line: "POST //login"}, {line: "POST ///login"}, {line: "POST //login//"}, {line: "POST /./login"},
		{line: "POST /login/."}, {line: "POST /login/./"}, {line: "POST /x/../login"}, {line: "POST /x/y/../../login"}, {line: "POST /../login"}, {line: "POST /../../login"},
		{line: "POST /login/x/.."}, {line: "POST /login/../login"}, {line: "POST /x//../login"}, {line: "POST /x/..//login"}, {line: "POST /login/.."}, {line: "POST /.../login"},
		{line: "POST /login."}, {line: "POST /login.."}, {line: "POST /.login"}, {line: "POST //x/../login"}, {line: "POST //app.example/login"}, {line: "POST ///app.example/login"},
		{line: "POST /pages/login.html"}, {line: "POST /pages/../login.html"}, {line: "POST /pages../login.html"}, {line: "POST /login.html"}, {line: "POST /login.html/x"},
	}},
	{"Escapes", []spelling{
		{line: "POST /%6Cogin"}, {line: "POST /%6cogin"}, {line: "POST /%6C%6F%67%69%6E"}, {line: "POST /%256Cogin"}, {line: "POST /%25%36%43ogin"}, {line: "POST /%25256Cogin"},
		{line: "POST /%2e/login"}, {line: "POST /%2E%2e/login"}, {line: "POST /x/%2e%2e/login"}, {line: "POST /x/.%2E/login"}, {line: "POST /x/%252e%252e/login"}, {line: "POST /login/%2e"},
		{line: "POST /%2Flogin"}, {line: "POST /%2flogin"}, {line: "POST %2Flogin"}, {line: "POST /login%2F"}, {line: "POST /login%2f."}, {line: "POST /x%2F..%2Flogin"}, {line: "POST /x/..%2Flogin"},
		{line: "POST /%252Flogin"}, {line: "POST /login%252F"}, {line: "POST /login%3Fx=1"}, {line: "POST /login%253Fx=1"}, {line: "POST /login%23x"},
		{line: "POST /login%20"}, {line: "POST /%20login"}, {line: "POST /login+"}, {line: "POST /login%09"}, {line: "POST /login%0a"}, {line: "POST /login%0d%0a"}, {line: "POST /login%C2%A0"}, {line: "POST /login\xa0"}, {line: "POST /login\x85"}, {line: "POST /login\xc2\xa0"}, {line: "POST \xa0/login"}, {line: "POST /login%E2%80%8B"},
	}},
	{"Path parameters", []spelling{
		{line: "POST /login;"}, {line: "POST /login;x=1"}, {line: "POST /login;jsessionid=1?x"}, {line: "POST /login;x/"}, {line: "POST /;/login"}, {line: "POST /;x=1/login"}, {line: "POST /x/..;/login"},
		{line: "POST /x;a/..;b/login"}, {line: "POST /login%3Bx"}, {line: "POST /login%253Bx"}, {line: "POST /%2e;/login"}, {line: "POST /login;/../help"}, {line: "POST /log;in"},
	}},
	{"Backslashes", []spelling{
		{line: `POST /\login`}, {line: `POST \login`}, {line: `POST \\login`}, {line: `POST /login\`}, {line: `POST /x\..\login`}, {line: `POST /x/..\login`}, {line: "POST /%5Clogin"}, {line: "POST /%5clogin"},
		{line: "POST /%255Clogin"}, {line: "POST /x%5C..%5Clogin"}, {line: "POST /login%5C"}, {line: `POST /\app.example/login`}, {line: `POST //app.example\login`},
	}},
	{"What no server agrees on", []spelling{
		{line: "POST /login%00"}, {line: "POST /login%00.css"}, {line: "POST /log%00in"}, {line: "POST /%00login"}, {line: "POST /login%2500"}, {line: "POST /login\x00"}, {line: "POST /login\x01"}, {line: "POST /login\x7f"}, {line: "POST /login\t"},
		{line: "POST /login%"}, {line: "POST /login%2"}, {line: "POST /login%zz"}, {line: "POST /%login"}, {line: "POST /log%%69n"}, {line: "POST /%u006Cogin"}, {line: "POST /login%u0020"},
		{line: "POST /%c0%aflogin"}, {line: "POST /%c1%acogin"}, {line: "POST /\xc1\xacogin"}, {line: "POST /x/%c0%ae%c0%ae/login"}, {line: "POST /x/%e0%80%ae./login"}, {line: "POST /login%e0%80%af"}, {line: "POST /%f0%80%80%aflogin"},
		{line: "POST /login\xff"}, {line: "POST /login\xc3\xa9"}, {line: "POST /log\xc4\xb1n"}, {line: "POST /\xef\xbd\x8cogin"}, {line: "POST /%EF%BC%8Flogin"}, {line: "POST /%E2%88%95login"},
	}},
	{"Letter case", []spelling{
		{line: "POST /LOGIN"}, {line: "POST /Login"}, {line: "POST /%4Cogin"}, {line: "POST /%6C%4Fgin"}, {line: "POST /LOGIN/"}, {line: "POST /X/../LoGin"}, {line: "POST /LOG%C4%B0N"}, {line: "POST /LOG%C4%B1N"},
	}},
	{"Targets that are no path", []spelling{
		{line: "POST http://app.example/login"}, {line: "POST HTTP://APP.EXAMPLE:80/login"}, {line: "POST https://app.example/login"}, {line: "POST http://u:p@app.example/login"}, {line: "POST http://app.example//login"}, {line: "POST http://app.example/x/../login"},
		{line: "POST http://app.example/%6Cogin"}, {line: "POST http://app.example?/login"}, {line: "POST http://app.example#/login"}, {line: `POST http://app.example\login`}, {line: "POST http:///login"}, {line: "POST http:/login"}, {line: "POST http:login"}, {line: "POST http://other.example/login"}, {line: "POST ftp://app.example/login"},
		{line: "POST ws://app.example/login"}, {line: "POST login"}, {line: "POST *"}, {line: "OPTIONS *"}, {line: "POST app.example:80"}, {line: "CONNECT app.example:80"}, {line: "CONNECT /login"}, {line: "POST ?/login"}, {line: "POST /login /x"}, {line: "POST  /login"}, {line: "POST /login HTTP/1.1 HTTP/1.1"},
	}},
	{"Hosts", []spelling{
		{line: "POST /login", head: "Host: app.example."}, {line: "POST /login", head: "Host: APP.Example"}, {line: "POST /login", head: "Host: app.example:80"}, {line: "POST /login", head: "Host: app.example.:80"}, {line: "POST /login", head: "Host: app.example:"}, {line: "POST /login", head: "Host: app.example:99999"}, {line: "POST /login", head: "Host: app.example:x"},
		{line: "POST /login", head: "Host: app.example.."}, {line: "POST /login", head: "Host:   app.example  "}, {line: "POST /login", head: "Host: x@app.example"}, {line: "POST /login", head: "Host: app.example/"}, {line: "POST /login", head: "Host: app.example/x"}, {line: "POST /login", head: "Host: app.example, x"}, {line: "POST /login", head: "Host: app%2eexample"},
		{line: "POST /login", head: "Host: other.example"}, {line: "POST /login", head: "Host: "}, {line: "POST /login", head: "-"}, {line: "POST /login HTTP/1.0", head: "-"}, {line: "POST /login HTTP/1.0", head: "Host: app.example"},
		{line: "POST /login", head: "Host: app.example\r\nHost: app.example"}, {line: "POST /login", head: "Host: x\r\nHost: app.example"}, {line: "POST /login", head: "Host : app.example"}, {line: "POST /login", head: "Host: x\r\nX-Forwarded-Host: app.example"}, {line: "POST /login", head: "Host: x\r\nForwarded: host=app.example"}, {line: "POST http://app.example/login", head: "Host: x"}, {line: "POST http://x/login", head: "Host: app.example"},
	}},
	{"Methods", []spelling{
		{line: "GET /login"}, {line: "HEAD /login"}, {line: "PUT /login"}, {line: "OPTIONS /login"}, {line: "TRACE /login"}, {line: "post /login"}, {line: "Post /login"}, {line: "POST\t/login"}, {line: "BREW /login"}, {line: "POSTX /login"}, {line: "P%4fST /login"}, {line: "put /password"},
	}},
	{"Methods that are overridden", []spelling{
		{line: "GET /login", head: "X-HTTP-Method-Override: POST"}, {line: "GET /login", head: "x-http-method-override: post"}, {line: "GET /login", head: "X_HTTP_Method_Override: POST"}, {line: "GET /login", head: "X-HTTP-Method: POST"}, {line: "GET /login", head: "X-Method-Override: POST"},
		{line: "GET /login", head: "X-HTTP-Method-Override: POST, GET"}, {line: "GET /login", head: "X-HTTP-Method-Override: GET\r\nX-HTTP-Method-Override: POST"}, {line: "PUT /login", head: "X-HTTP-Method-Override: POST"}, {line: "HEAD /login", head: "X-HTTP-Method-Override: POST"}, {line: "BREW /login", head: "X-HTTP-Method-Override: POST"},
		{line: "GET /x/..//login", head: "X-HTTP-Method-Override: POST"}, {line: "POST /login", head: "X-HTTP-Method-Override: GET"}, {line: "GET /login?_method=POST"}, {line: "GET /login?x&_method=post"}, {line: "GET /login?%5Fmethod=%50OST"}, {line: "GET /login?_method=POST&_method=GET"}, {line: "GET /login?_method=GET&_method=POST"},
		{line: "GET /login", head: formType, body: "_method=POST"}, {line: "PUT /login", head: formType, body: "_method=POST"}, {line: "POST /password", head: formType, body: "_method=PUT"}, {line: "POST /password", head: formType, body: "a=b&%5fmethod=put"}, {line: "POST /password", head: "Content-Type: application/json", body: `{"_method":"PUT"}`},
		{line: "POST /password", head: "Content-Type: application/json", body: `{"\u005fmethod":"PUT"}`}, {line: "POST /password", head: "X-HTTP-Method-Override: PUT"}, {line: "POST /password?_method=PUT"}, {line: "POST /password", head: formType, body: "_method=DELETE"},
		{line: "GET /", head: "X-Original-URL: /login\r\nX-HTTP-Method-Override: POST"}, {line: "POST /", head: "X-Rewrite-URL: /login"}, {line: "POST /", head: "X-Forwarded-Prefix: /login"},
	}},
}

var servedHeader = regexp.MustCompile(`(?i)\r\nx-served: (login|password)\r\n`)

// TestDoors sends every spelling through doorward to applications of many kinds.
// Whenever one of them would have let the caller try a password, the door was charged.
func TestDoors(t *testing.T) {
	all := stacks()
	cells := make([][]string, len(all)) // by application, in order
	served := make([]int, len(all))
	var mu sync.Mutex
	t.Run("applications", func(t *testing.T) {
		for i, s := range all {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.up(t)
				for _, g := range spellings {
					for _, row := range g.rows {
						cell, was := s.try(t, row)
						mu.Lock()
						cells[i] = append(cells[i], cell)
						if was {
							served[i]++
						}
						mu.Unlock()
					}
				}
			})
		}
	})
	if t.Failed() || t.Skipped() {
		return
	}
	for i, s := range all { // a table in which nothing is served says nothing
		if served[i] < 20 {
			t.Errorf("%s served %d logins, want 20 or more", s.name, served[i])
		}
	}
	if n := len(cells[0]); n < 200 {
		t.Errorf("%d spellings, want 200 or more", n)
	}
	document.Whole(t, filepath.Join(docs, "doors.md"), doorsDocument(all, cells, served))
}

// try sends one spelling and says what became of it.
func (s *stack) try(t *testing.T, row spelling) (cell string, served bool) {
	from := s.caller()
	before := s.relay.bytes()
	answer := s.send(row.bytes())
	reached := s.relay.bytes() != before
	charged := s.charged(from)
	served = servedHeader.MatchString(answer)
	if served && charged != 1 {
		t.Errorf("%s was served and charged %d times", row.title(), charged)
	}
	if charged > 1 || charged == 1 && !reached {
		t.Errorf("%s was charged %d times, reached the application: %t", row.title(), charged, reached)
	}
	switch {
	case served:
		return "**served**, charged", true
	case charged == 1:
		return "charged", false
	case reached:
		return "passed", false
	}
	if len(answer) < 12 || answer[:9] != "HTTP/1.1 " {
		t.Errorf("%s was answered %q", row.title(), answer)
		return "", false
	}
	if status := answer[9:12]; status[0] != '4' {
		t.Errorf("%s did not reach the application and was answered %s", row.title(), status)
	}
	return "refused " + answer[9:12], false
}

func doorsDocument(all []*stack, cells [][]string, served []int) string {
	var b strings.Builder
	b.WriteString(`# Ways to spell a door

Every request below was sent over a socket, byte for byte, through doorward to applications of many kinds, by
[a test](../cmd/doorward/e2e/doors_test.go) that also wrote this table. A cell says what became of it:

| cell | the application | the door |
|---|---|---|
| **served**, charged | would have tried the password | counted an attempt |
| charged | did something else with it | counted an attempt: to be on the safe side |
| passed | did something else with it | counted nothing |
| refused 400 | did not get it | counted nothing |

The test fails if one is served and not charged. Requests are written with the escapes of Go. Where nothing else is
said, they have ` + "`Host: app.example`" + ` and an empty body.

`)
	b.WriteString("| name | application | doors | served |\n|---|---|---|---|\n")
	for i, s := range all {
		doors := "`" + strings.Join(s.routes, "`, `") + "`"
		if s.ignoreCase {
			doors += ", `ignore_case`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d of %d |\n", s.name, strings.ReplaceAll(s.about, "|", `\|`), strings.ReplaceAll(doors, "|", `\|`), served[i], len(cells[i]))
	}
	n := 0
	for _, g := range spellings {
		fmt.Fprintf(&b, "\n## %s\n\n| request |", g.group)
		for _, s := range all {
			fmt.Fprintf(&b, " %s |", s.name)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
		for _, row := range g.rows {
			fmt.Fprintf(&b, "| %s |", row.title())
			for i := range all {
				fmt.Fprintf(&b, " %s |", cells[i][n])
			}
			b.WriteString("\n")
			n++
		}
	}
	b.WriteString(`
## What this does not show

An application that finds its login elsewhere than servers do, in a parameter (` + "`/index.php?route=login`" + `), below a mount
point, under another extension, or by a rewrite of its own, needs routes for these places. The files that nginx serves
here are an example: ` + "`/login`, `/login.html` and `/pages/login.html`" + ` are one file, and three routes.
`)
	return b.String()
}
