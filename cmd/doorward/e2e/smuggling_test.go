package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/document"
)

// hiddenGuess is the request that all of these try to get past the door, or to the
// application by another way than the door. It is the last one on its connection.
const hiddenGuess = "POST /login HTTP/1.1\r\nHost: app.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// to returns a request line and header lines, without the empty one at the end.
func to(line string, header ...string) string {
	return line + "\r\nHost: app.example\r\n" + strings.Join(append(header, ""), "\r\n")
}

const (
	page    = "POST /page HTTP/1.1"
	cut     = "POST /cut HTTP/1.1"
	login   = "POST /login HTTP/1.1"
	chunked = "Transfer-Encoding: chunked"
	closing = "Connection: close"
)

// chunk returns a chunk, or the end of a body.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

type smuggle struct {
	name, text string
	// want is what reaches the application: "" nothing, else requests joined by
	// commas, in the order of their names. A body's length follows in brackets, "*"
	// if it is in chunks.
	want string
	// cut says that the caller hangs up in the middle of a body.
	cut bool
}

var smuggles = []struct {
	group string
	rows  []smuggle
}{
	{"Requests as they should be", []smuggle{
		{name: "two requests, one after the other", text: to("GET /page HTTP/1.1") + "\r\n" + hiddenGuess, want: "GET /page, POST /login"},
		{name: "with a body of known length", text: to(page, "Content-Length: 5") + "\r\nhello" + hiddenGuess, want: "POST /page (5), POST /login"},
		{name: "with a body in chunks", text: to(page, chunked) + "\r\n" + chunk("hello") + chunk("") + hiddenGuess, want: "POST /page (5*), POST /login"},
		{name: "a guess in chunks has a length when it is passed on", text: to(login, chunked, closing) + "\r\n" + chunk("hello") + chunk(""), want: "POST /login (5)"},
		{name: "a guess as the body of a request", text: to(page, closing, fmt.Sprintf("Content-Length: %d", len(hiddenGuess))) + "\r\n" + hiddenGuess, want: fmt.Sprintf("POST /page (%d)", len(hiddenGuess))},
		{name: "a guess as the body of a GET", text: to("GET /page HTTP/1.1", closing, fmt.Sprintf("Content-Length: %d", len(hiddenGuess))) + "\r\n" + hiddenGuess, want: fmt.Sprintf("GET /page (%d)", len(hiddenGuess))},
		{name: "a guess as a chunk of a GET", text: to("GET /page HTTP/1.1", closing, chunked) + "\r\n" + chunk(hiddenGuess) + chunk(""), want: fmt.Sprintf("GET /page (%d*)", len(hiddenGuess))},
		{name: "a guess as the body of a guess", text: to(login, closing, fmt.Sprintf("Content-Length: %d", len(hiddenGuess))) + "\r\n" + hiddenGuess, want: fmt.Sprintf("POST /login (%d)", len(hiddenGuess))},
		{name: "trailers", text: to(page, chunked, closing, "Trailer: X-Forwarded-For") + "\r\n5\r\nhello\r\n0\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n", want: "POST /page (5*)"},
		{name: "trailers of a guess", text: to(login, chunked, closing, "Trailer: X-A") + "\r\n5\r\nhello\r\n0\r\nX-A: b\r\n\r\n", want: "POST /login (5)"},
		{name: "a length as a trailer", text: to(login, chunked, closing, "Trailer: Content-Length") + "\r\n5\r\nhello\r\n0\r\nContent-Length: 99\r\n\r\n"},
	}},
	{"A length and chunks", []smuggle{
		{name: "CL.TE: the length covers more than the chunks", text: to(page, fmt.Sprintf("Content-Length: %d", 5+len(hiddenGuess)), chunked) + "\r\n0\r\n\r\n" + hiddenGuess, want: "POST /page (0*), POST /login"},
		{name: "TE.CL: the length covers less than the chunks", text: to(page, "Content-Length: 4", chunked, closing) + "\r\n" + chunk(hiddenGuess) + chunk(""), want: fmt.Sprintf("POST /page (%d*)", len(hiddenGuess))},
		{name: "CL.TE at a door", text: to(login, "Content-Length: 6", chunked, closing) + "\r\n0\r\n\r\nX", want: "POST /login"},
		{name: "TE first", text: to(page, chunked, "Content-Length: 4", closing) + "\r\n" + chunk(hiddenGuess) + chunk(""), want: fmt.Sprintf("POST /page (%d*)", len(hiddenGuess))},
		{name: "CL.0 behind HTTP/1.0", text: "POST /page HTTP/1.0\r\nHost: app.example\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + hiddenGuess, want: "POST /page, POST /login"},
		{name: "chunks in HTTP/1.0", text: "POST /page HTTP/1.0\r\nHost: app.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hiddenGuess, want: "POST /page (5)"},
	}},
	{"Transfer-Encoding, spelled otherwise", []smuggle{
		{name: "two, chunked and identity", text: to(page, chunked, "Transfer-Encoding: identity", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "two, both chunked", text: to(page, chunked, chunked, closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "identity", text: to(page, "Transfer-Encoding: identity", "Content-Length: 0") + "\r\n" + hiddenGuess},
		{name: "xchunked", text: to(page, "Transfer-Encoding: xchunked", "Content-Length: 0") + "\r\n" + hiddenGuess},
		{name: "a list", text: to(page, "Transfer-Encoding: gzip, chunked", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "a list, chunked first", text: to(page, "Transfer-Encoding: chunked, identity", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "a comma too many", text: to(page, "Transfer-Encoding: chunked,", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "in quotes", text: to(page, `Transfer-Encoding: "chunked"`, closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "with a parameter", text: to(page, "Transfer-Encoding: chunked;q=1", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "empty", text: to(page, "Transfer-Encoding: ", "Content-Length: 0") + "\r\n" + hiddenGuess},
		{name: "capitals", text: to(page, "TRANSFER-ENCODING: CHUNKED", closing) + "\r\n" + chunk("a") + chunk(""), want: "POST /page (1*)"},
		{name: "a space before the colon", text: to(page, "Transfer-Encoding : chunked", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "a tab before the value", text: to(page, "Transfer-Encoding:\tchunked", closing) + "\r\n" + chunk("a") + chunk(""), want: "POST /page (1*)"},
		{name: "a vertical tab before the value", text: to(page, "Transfer-Encoding: \x0bchunked", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "a line folded before the value", text: to(page, "Transfer-Encoding:\r\n chunked", closing) + "\r\n" + chunk("a") + chunk(""), want: "POST /page (1*)"},
		{name: "folded onto another header", text: to(page, "X-A: b\r\n Transfer-Encoding: chunked", closing, "Content-Length: 5") + "\r\n0\r\n\r\n" + hiddenGuess, want: "POST /page (5)"},
		{name: "an underscore", text: to(page, "Transfer_Encoding: chunked", closing, "Content-Length: 5") + "\r\n0\r\n\r\n" + hiddenGuess, want: "POST /page (5)"},
		{name: "a NUL in the name", text: to(page, "Transfer-Encoding\x00: chunked", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "a byte above ASCII in the name", text: to(page, "Transfer-Encoding\xff: chunked", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "behind a bare CR", text: to(page, "X-A: b\rTransfer-Encoding: chunked", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "behind a bare LF", text: to(page, "X-A: b\nTransfer-Encoding: chunked", closing) + "\r\n" + chunk("a") + chunk(""), want: "POST /page (1*)"},
		{name: "behind a NUL", text: to(page, "X-A: b\x00Transfer-Encoding: chunked", closing) + "\r\n" + chunk("") + hiddenGuess},
		{name: "named in Connection", text: to(page, chunked, "Connection: close, Transfer-Encoding") + "\r\n" + chunk(hiddenGuess) + chunk(""), want: fmt.Sprintf("POST /page (%d*)", len(hiddenGuess))},
	}},
	{"Chunks", []smuggle{
		{name: "an extension", text: to(page, chunked, closing) + "\r\n5;a=b\r\nhello\r\n0;c\r\n\r\n", want: "POST /page (5*)"},
		{name: "an extension with a bare LF in it", text: to(cut, chunked, closing) + "\r\n5;a\nhello\r\n0\r\n\r\n" + hiddenGuess, cut: true},
		{name: "an extension with a bare CR in it", text: to(cut, chunked, closing) + "\r\n5;a\rb\r\nhello\r\n0\r\n\r\n" + hiddenGuess, cut: true},
		{name: "sizes with 0x", text: to(login, chunked, closing) + "\r\n0x5\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "sizes with a sign", text: to(login, chunked, closing) + "\r\n+5\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "a negative size", text: to(login, chunked, closing) + "\r\n-5\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "a size behind a space", text: to(login, chunked, closing) + "\r\n 5\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "a size before a space", text: to(login, chunked, closing) + "\r\n5 \r\nhello\r\n0\r\n\r\n", want: "POST /login (5)"},
		{name: "a size with an underscore", text: to(login, chunked, closing) + "\r\n1_0\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "a size of 17 digits", text: to(login, chunked, closing) + "\r\n10000000000000000\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "a size of 2^63 and more", text: to(login, chunked, closing) + "\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "no size", text: to(login, chunked, closing) + "\r\n\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "zeros before the size", text: to(login, chunked, closing) + "\r\n0000005\r\nhello\r\n000\r\n\r\n", want: "POST /login (5)"},
		{name: "bare LF behind the size", text: to(login, chunked, closing) + "\r\n5\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "bare LF behind the data", text: to(login, chunked, closing) + "\r\n5\r\nhello\n0\r\n\r\n" + hiddenGuess},
		{name: "data longer than the size", text: to(login, chunked, closing) + "\r\n2\r\nhello\r\n0\r\n\r\n" + hiddenGuess},
		{name: "no end", text: to(login, chunked, closing) + "\r\n5\r\nhello\r\n0\r\n"},
		{name: "no end, outside a door", text: to(cut, chunked, closing) + "\r\n" + chunk(hiddenGuess), cut: true},
	}},
	{"Content-Length", []smuggle{
		{name: "two that differ", text: to(page, "Content-Length: 0", fmt.Sprintf("Content-Length: %d", len(hiddenGuess)), closing) + "\r\n" + hiddenGuess},
		{name: "two that are the same", text: to(page, "Content-Length: 5", "Content-Length: 5", closing) + "\r\nhello", want: "POST /page (5)"},
		{name: "a list", text: to(page, "Content-Length: 5, 5", closing) + "\r\nhello" + hiddenGuess},
		{name: "with a sign", text: to(page, "Content-Length: +5", closing) + "\r\nhello" + hiddenGuess},
		{name: "negative", text: to(page, "Content-Length: -5", closing) + "\r\nhello" + hiddenGuess},
		{name: "0x", text: to(page, "Content-Length: 0x5", closing) + "\r\nhello" + hiddenGuess},
		{name: "a space inside", text: to(page, "Content-Length: 5 5", closing) + "\r\nhello" + hiddenGuess},
		{name: "an underscore inside", text: to(page, "Content-Length: 1_0", closing) + "\r\nhello" + hiddenGuess},
		{name: "2^64", text: to(page, "Content-Length: 18446744073709551616", closing) + "\r\nhello" + hiddenGuess},
		{name: "empty", text: to(page, "Content-Length: ", closing) + "\r\nhello" + hiddenGuess},
		{name: "an underscore in the name", text: to(page, fmt.Sprintf("Content_Length: %d", len(hiddenGuess))) + "\r\n" + hiddenGuess, want: "POST /page, POST /login"},
		{name: "a space before the colon", text: to(page, "Content-Length : 5", closing) + "\r\nhello" + hiddenGuess},
		{name: "folded", text: to(page, "Content-Length:\r\n 5", closing) + "\r\nhello", want: "POST /page (5)"},
		{name: "folded into two", text: to(page, "Content-Length: 5\r\n 5", closing) + "\r\nhello" + hiddenGuess},
		{name: "named in Connection", text: to(page, "Content-Length: 5", "Connection: close, Content-Length") + "\r\nhello", want: "POST /page (5)"},
		{name: "named in Connection, at a door", text: to(login, "Content-Length: 5", "Connection: close, Content-Length, Host, X-Forwarded-For") + "\r\nhello", want: "POST /login (5)"},
		{name: "longer than what comes, at a door", text: to(login, "Content-Length: 9", closing) + "\r\nhello"},
		{name: "longer than what comes", text: to(cut, "Content-Length: 9999", closing) + "\r\n" + hiddenGuess, cut: true},
	}},
	{"Lines", []smuggle{
		{name: "bare LF everywhere", text: "GET /page HTTP/1.1\nHost: app.example\nConnection: close\n\n", want: "GET /page"},
		{name: "bare LF everywhere, a guess", text: "POST /login HTTP/1.1\nHost: app.example\nConnection: close\n\n", want: "POST /login"},
		{name: "a bare CR in a value", text: to("GET /page HTTP/1.1", "X-A: b\rX-B: c", closing) + "\r\n"},
		{name: "a NUL in a value", text: to("GET /page HTTP/1.1", "X-A: b\x00", closing) + "\r\n"},
		{name: "a folded line", text: to("GET /page HTTP/1.1", "X-A: b\r\n c", closing) + "\r\n", want: "GET /page"},
		{name: "a folded line first", text: "GET /page HTTP/1.1\r\n X-A: b\r\nHost: app.example\r\nConnection: close\r\n\r\n"},
		{name: "no colon", text: to("GET /page HTTP/1.1", "X-A", closing) + "\r\n"},
		{name: "no name", text: to("GET /page HTTP/1.1", ": b", closing) + "\r\n"},
		{name: "a space in a name", text: to("GET /page HTTP/1.1", "X A: b", closing) + "\r\n"},
		{name: "a bracket in a name", text: to("GET /page HTTP/1.1", "X(A: b", closing) + "\r\n"},
		{name: "empty lines first", text: "\r\n\r\n" + to("GET /page HTTP/1.1", closing) + "\r\n"},
		{name: "a guess in a header", text: to("GET /page HTTP/1.1", "X-A: b\r\n\r\n"+strings.TrimSuffix(hiddenGuess, "\r\n\r\n"), closing) + "\r\n", want: "GET /page, POST /login"},
		{name: "a guess in the target", text: to("GET /page?\r\n\r\nPOST /login HTTP/1.1", closing) + "\r\n"},
		{name: "a header that is too long", text: to("GET /page HTTP/1.1", "X-A: "+strings.Repeat("a", 64<<10), closing) + "\r\n"},
	}},
	{"Versions and protocols", []smuggle{
		{name: "HTTP/0.9", text: "GET /login\r\n"},
		{name: "HTTP/1.0", text: "POST /login HTTP/1.0\r\nHost: app.example\r\nContent-Length: 2\r\n\r\nhi" + hiddenGuess, want: "POST /login (2)"},
		{name: "HTTP/1.2", text: to("POST /login HTTP/1.2", "Content-Length: 0", closing) + "\r\n", want: "POST /login"},
		{name: "HTTP/2.0", text: to("POST /login HTTP/2.0", "Content-Length: 0", closing) + "\r\n"},
		{name: "http/1.1", text: to("POST /login http/1.1", "Content-Length: 0", closing) + "\r\n"},
		{name: "HTTP/1.10", text: to("POST /login HTTP/1.10", "Content-Length: 0", closing) + "\r\n"},
		{name: "the preface of HTTP/2", text: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
		{name: "the beginning of TLS", text: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"},
		{name: "Upgrade: h2c", text: to("GET /page HTTP/1.1", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA") + "\r\n" + hiddenGuess, want: "GET /page, POST /login"},
		{name: "Upgrade: h2c, at a door", text: to(login, "Content-Length: 0", "Connection: Upgrade, HTTP2-Settings, close", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA") + "\r\n", want: "POST /login"},
		{name: "Upgrade: TLS/1.0", text: to("OPTIONS /page HTTP/1.1", "Connection: Upgrade", "Upgrade: TLS/1.0") + "\r\n" + hiddenGuess, want: "OPTIONS /page, POST /login"},
		{name: "Upgrade: websocket and h2c", text: to("GET /page HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket, h2c") + "\r\n" + hiddenGuess, want: "GET /page, POST /login"},
		{name: "Upgrade: websocket, which the application does not do", text: to("GET /page HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 777", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==") + "\r\n" + hiddenGuess, want: "GET /page, POST /login"},
		{name: "CONNECT: refused, what follows is a request", text: "CONNECT app.example:80 HTTP/1.1\r\nHost: app.example:80\r\n\r\n" + hiddenGuess, want: "POST /login"},
		{name: "CONNECT with a path: the same", text: to("CONNECT /page HTTP/1.1") + "\r\n" + hiddenGuess, want: "POST /login"},
		{name: "TRACE", text: to("TRACE /page HTTP/1.1", closing) + "\r\n", want: "TRACE /page"},
		{name: "Expect", text: to(login, "Expect: 100-continue", "Content-Length: 5", closing) + "\r\nhello", want: "POST /login (5)"},
		{name: "Expect, outside a door", text: to(page, "Expect: 100-continue", "Content-Length: 5", closing) + "\r\nhello", want: "POST /page (5)"},
		{name: "Expect of something else", text: to(page, "Expect: 200-ok", "Content-Length: 5") + "\r\nhello" + hiddenGuess},
	}},
}

// TestSmuggling: what reaches an application is what was judged: as many requests, of
// the same form. No application finds a guess in what was passed on as anything else.
func TestSmuggling(t *testing.T) {
	all := slices.DeleteFunc(stacks(), func(s *stack) bool { return s.name == "nginx ~*" || s.name == "nginx files" || s.name == "router" })
	cells := make([][]string, len(all))
	var mu sync.Mutex
	t.Run("applications", func(t *testing.T) {
		for i, s := range all {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.up(t)
				for _, g := range smuggles {
					for _, row := range g.rows {
						cell := s.smuggle(t, row)
						mu.Lock()
						cells[i] = append(cells[i], cell)
						mu.Unlock()
					}
				}
			})
		}
	})
	if t.Failed() || t.Skipped() {
		return
	}
	for i, s := range all {
		if !slices.Equal(cells[i], cells[0]) {
			t.Errorf("%s and %s got different requests", s.name, all[0].name)
		}
	}
	document.Whole(t, filepath.Join(docs, "smuggling.md"), smugglingDocument(all, cells[0]))
}

// smuggle sends one row, and then looks for it in what doorward passed on and in what
// the application made of that.
func (s *stack) smuggle(t *testing.T, row smuggle) (cell string) {
	from := s.caller()
	answer := ""
	if row.cut {
		conn := s.dial()
		io.WriteString(conn, row.text)
		conn.Close()
	} else {
		answer = s.send(row.text)
	}
	// What is left over on a kept connection shows when that is used again.
	after := fmt.Sprintf("GET /after-%d", s.next.Load())
	if got := s.send(to(after+" HTTP/1.1", closing) + "\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") && !strings.HasPrefix(got, "HTTP/1.1 404 ") {
		t.Errorf("%s: the request after it was answered %.200q", row.name, got)
	}
	passed := s.passed(t, row, from.String())
	want := []string{after}
	if row.want != "" {
		want = append(want, strings.Split(row.want, ", ")...)
	}
	if !slices.EqualFunc(sorted(passed), sorted(want), same) {
		t.Errorf("%s: passed on was %q, want %q; answered %.300q", row.name, passed, want, answer)
	}
	guesses := 0
	for _, r := range passed {
		form, _, _ := strings.Cut(r, " (")
		s.lines = append(s.lines, form)
		if form == "POST /login" {
			guesses++
		}
	}
	slices.Sort(s.lines)
	if charged := s.charged(from); guesses != charged {
		t.Errorf("%s: %d guesses were passed on, charged are %d", row.name, guesses, charged)
	}
	s.logged(t, row)
	switch {
	case row.cut:
		return "cut off"
	case row.want != "":
		return row.want
	case len(answer) < 12 || answer[9] != '4' && answer[9] != '5' || strings.Count(answer, "HTTP/1.1 ") != 1:
		t.Errorf("%s: nothing was passed on, and answered was %q", row.name, answer)
		return ""
	}
	return "refused " + answer[9:12]
}

// same compares two forms of requests. An application that answers early does not get
// all of a body.
func same(passed, want string) bool {
	form, early := strings.CutSuffix(passed, " (early)")
	if early {
		want, _, _ = strings.Cut(want, " (")
	}
	return form == want
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// passed returns the requests that doorward has sent since the last call. Each must say
// who it is from, once, and ask for no other protocol than WebSocket.
func (s *stack) passed(t *testing.T, row smuggle, from string) (all []string) {
	t.Helper()
	until(t, row.name+" to be passed on", func() bool {
		s.relay.mu.Lock()
		defer s.relay.mu.Unlock()
		all = all[:0]
		for _, c := range s.relay.all {
			r := bufio.NewReader(bytes.NewReader(c.bytes))
			for {
				if _, err := r.Peek(1); err != nil {
					break
				}
				form, whole, err := read(r, from)
				if !whole && !c.done {
					return false // more of it is on its way
				}
				if err != nil {
					t.Errorf("%s: passed on was %q: %v", row.name, c.bytes, err)
				}
				// What breaks off may get there late, or not at all.
				if !strings.HasPrefix(form, "POST /cut") {
					all = append(all, form)
				}
				if !whole {
					break
				}
			}
		}
		for _, c := range s.relay.all {
			c.bytes = nil
		}
		return true
	})
	return all
}

// read reads one request and says what is wrong with it.
func read(r *bufio.Reader, from string) (form string, whole bool, err error) {
	q, err := http.ReadRequest(r)
	if err != nil {
		return "", false, err
	}
	form = q.Method + " " + q.RequestURI
	if v := q.Header["X-Forwarded-For"]; len(v) != 1 || v[0] != from && form != "POST /cut" {
		return form, true, fmt.Errorf("it is from %q, not %s", v, from)
	}
	if v := q.Header["X-Forwarded-Host"]; len(v) != 1 || v[0] != "app.example" {
		return form, true, fmt.Errorf("it is for %q", v)
	}
	for name := range q.Header {
		if strings.Contains(name, "_") {
			return form, true, fmt.Errorf("it has a header %s", name)
		}
	}
	if v := q.Header.Get("Upgrade"); v != "" && v != "websocket" || q.Header.Get("Http2-Settings") != "" {
		return form, true, fmt.Errorf("it asks for %q", v)
	}
	body, err := io.ReadAll(q.Body)
	switch {
	case err != nil:
		return form + " (early)", false, nil
	case len(q.Trailer) > 0:
		return form, true, errors.New("it has trailers")
	case q.ContentLength < 0:
		form += fmt.Sprintf(" (%d*)", len(body))
	case len(body) > 0:
		form += fmt.Sprintf(" (%d)", len(body))
	}
	return form, true, nil
}

// logged waits until the application has logged what was passed on, and nothing else.
func (s *stack) logged(t *testing.T, row smuggle) {
	t.Helper()
	var seen []string
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.Tick(5 * time.Millisecond); ; <-tick {
		text, err := os.ReadFile(s.log)
		if err != nil {
			t.Fatal(err)
		}
		seen = seen[:0]
		for line := range strings.Lines(string(text)) {
			f := append(strings.Fields(line), "", "")
			if l := f[0] + " " + f[1]; l != "POST /cut" {
				seen = append(seen, l)
			}
		}
		slices.Sort(seen)
		if slices.Equal(seen, s.lines) {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, l := range s.lines {
		if i := slices.Index(seen, l); i >= 0 {
			seen = slices.Delete(seen, i, i+1)
			continue
		}
		t.Errorf("%s: the application did not get %s", row.name, l)
	}
	t.Fatalf("%s: the application got %q as well", row.name, seen)
}

func smugglingDocument(all []*stack, cells []string) string {
	var b strings.Builder
	b.WriteString(`# What gets through

Two servers that disagree on where a request ends see different requests, and what one takes for a body is a guess at a
password to the other. Each row below was sent over a socket, byte for byte, by
[a test](../cmd/doorward/e2e/smuggling_test.go) that also wrote this table, with a guess hidden in it or behind it:

    POST /login HTTP/1.1
    Host: app.example
    Content-Length: 0
    Connection: close

Behind doorward were, one after the other: `)
	for i, s := range all {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(s.about)
	}
	b.WriteString(`. The right column says what
was passed on, the same to each, with the length of the body, and a star if it went in chunks. The test fails if an
application makes other requests of it, by its own log; if a guess among these was not counted; if the request after it,
on a connection that was kept, is answered with something else; or if one does not say who it is from.

"Cut off" is a body that breaks off, outside doors, where bodies are streamed: the application gets a part and then the end of the
connection. At doors it gets nothing.
`)
	n := 0
	for _, g := range smuggles {
		fmt.Fprintf(&b, "\n## %s\n\n| | sent | passed on |\n|---|---|---|\n", g.group)
		for _, row := range g.rows {
			cell := cells[n]
			text := strings.ReplaceAll(row.text, "Host: app.example\r\n", "")
			text = strings.ReplaceAll(text, strings.Repeat("a", 64<<10), "a...")
			if hidden := strings.ReplaceAll(hiddenGuess, "Host: app.example\r\n", ""); text != hidden {
				text = strings.ReplaceAll(text, hidden, "GUESS")
			}
			if !strings.HasPrefix(cell, "refused") && cell != "cut off" {
				cell = code(cell)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.ReplaceAll(row.name, "|", `\|`), code(text), cell)
			n++
		}
	}
	b.WriteString(`
` + "`Host: app.example`" + ` is left out above. A request for a change of protocol is passed on without it, unless it is for a
WebSocket: the application answers as if it had not been asked, as RFC 9110 has it.
`)
	return b.String()
}
