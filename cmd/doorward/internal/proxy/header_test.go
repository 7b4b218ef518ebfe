package proxy

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// headerApp answers with the header lines that it was sent, byte for byte, as a body.
func headerApp(t testing.TB) *app {
	return listen(t, func(conn net.Conn, r *bufio.Reader) {
		var lines strings.Builder
		r.ReadString('\n')
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if l == "\r\n" {
				break
			}
			lines.WriteString(l)
		}
		conn.Write([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + lines.String()))
	})
}

// TestHeaders: header lines that a client sends and those that the application sees.
// What every request has (Host, Content-Length) is left out, and so is what we set
// where a row does not name it otherwise.
func TestHeaders(t *testing.T) {
	proxied := trusting(t, "X-Forwarded-For", "127.0.0.1/32")
	cf := trusting(t, "CF-Connecting-IP", "127.0.0.1/32")
	ours := []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: app.example", "X-Forwarded-Proto: http"}
	for _, row := range []struct {
		name string
		option
		sent, seen []string // seen beside ours, unless it has X-Forwarded-*
	}{
		{"ordinary", nil, []string{"Accept: x", "accept: y", "X_Custom: 1", "Cookie: a=b"}, []string{"Accept: x", "Accept: y", "Cookie: a=b", "X_custom: 1"}},
		{"no user agent is added", nil, nil, nil},
		{"forwarded", nil, []string{"X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 5.6.7.8", "Forwarded: for=1.2.3.4", "X-Real-IP: 1.2.3.4"}, nil},
		{"host and proto", nil, []string{"X-Forwarded-Host: evil", "X-Forwarded-Proto: https"}, nil},
		{"other X-Forwarded", nil, []string{"X-Forwarded: 1", "X-Forwarded-Prefix: /x", "X-Forwarded-User: root", "X-Forwarded-Ssl: on"}, nil},
		{"underscores", nil, []string{"X_Forwarded_For: 1", "x_forwarded-for: 1", "X-Forwarded_Host: 1", "X_FORWARDED_PROTO: 1", "X_Real_IP: 1", "x-real_ip: 1"}, nil},
		{"lengths", nil, []string{"Content_Length: 5", "CONTENT.LENGTH: 5", "Transfer_Encoding: chunked"}, nil},
		{"other targets", nil, []string{"X-Original-URL: /x", "X-Rewrite-URL: /x", "X-Original-URI: /x", "SCRIPT_NAME: /x", "Script-Name: /x", "X-Script-Name: /x", "PATH_INFO: /x"}, nil},
		{"other separators", nil, []string{"X.Forwarded.For: 1", "X!Real~Ip: 1", "Doorward.Outcome: 1"}, nil},
		{"doorward", nil, []string{"Doorward-Outcome: succeeded", "doorward_outcome: x", "DOORWARD-Client: x", "Doorward: x"}, nil},
		{"not quite", nil, []string{"X-Forward-For: 1", "Doorwards: 1", "X-Real-Ipx: 1", "Forwarded-For: 1"}, []string{"Doorwards: 1", "Forwarded-For: 1", "X-Forward-For: 1", "X-Real-Ipx: 1"}},
		{"connection names ours", nil, []string{"Connection: X-Forwarded-For, X-Forwarded-Proto", "Connection: X-Forwarded-Host"}, nil},
		{"connection names others", nil, []string{"Connection: Cookie, close", "Cookie: a=b", "Accept: x"}, []string{"Accept: x"}},
		{"hop by hop", nil, []string{"Keep-Alive: 1", "Proxy-Connection: x", "Proxy-Authorization: x", "TE: gzip", "Trailer: X-Forwarded-For"}, nil},
		{"te", nil, []string{"TE: trailers"}, []string{"Te: trailers"}},
		{"h2c", nil, []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}, nil},
		{"h2c unnamed settings", nil, []string{"Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}, nil},
		{"h2c after websocket", nil, []string{"Connection: Upgrade", "Upgrade: websocket, h2c"}, nil},
		{"tls", nil, []string{"Connection: Upgrade", "Upgrade: TLS/1.0"}, nil},
		{"websocket", nil, []string{"Connection: keep-alive, Upgrade", "Upgrade: WebSocket"}, []string{"Connection: Upgrade", "Upgrade: WebSocket"}},
		{"single-value header of nobody", nil, []string{"CF-Connecting-IP: 192.0.2.1"}, []string{"Cf-Connecting-Ip: 192.0.2.1"}},

		{"trusted", proxied, []string{"X-Forwarded-For: 203.0.113.9, 192.0.2.7"}, []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: app.example", "X-Forwarded-Proto: http"}},
		{"trusted, IPv6", proxied, []string{"X-Forwarded-For: [2001:db8::7]:443"}, []string{"X-Forwarded-For: 2001:db8::7", "X-Forwarded-Host: app.example", "X-Forwarded-Proto: http"}},
		{"trusted, junk", proxied, []string{"X-Forwarded-For: junk", "X-Forwarded-Proto: https"}, []string{"X-Forwarded-Host: app.example", "X-Forwarded-Proto: http"}},
		{"trusted, kept", proxied, []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: HTTPS", "X-Forwarded-Host: www.example:444"}, []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: www.example:444", "X-Forwarded-Proto: https"}},
		{"trusted, connection", proxied, []string{"Connection: X-Forwarded-For, X-Forwarded-Proto", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https"}, []string{"X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: app.example", "X-Forwarded-Proto: https"}},
		{"trusted, absent", proxied, []string{"X-Forwarded-Proto: https"}, []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: app.example", "X-Forwarded-Proto: https"}},
		{"trusted, two", proxied, []string{"X-Forwarded-Proto: https", "X-Forwarded-Proto: http", "X-Forwarded-Host: a, b"}, nil},
		{"trusted, list", proxied, []string{"X-Forwarded-Proto: https,http", "X-Forwarded-Host: a", "X-Forwarded-Host: b"}, nil},
		{"trusted, insane", proxied, []string{"X-Forwarded-Proto: gopher", "X-Forwarded-Host: a/b\"<"}, nil},
		{"trusted, empty", proxied, []string{"X-Forwarded-Proto:", "X-Forwarded-Host:"}, nil},
		{"trusted, alias", proxied, []string{"X_Forwarded_Proto: https", "X_Forwarded_For: 192.0.2.7"}, nil},
		{"named header", cf, []string{"CF-Connecting-IP: 192.0.2.7", "CF_Connecting_IP: 192.0.2.8"}, []string{"Cf-Connecting-Ip: 192.0.2.7", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: app.example", "X-Forwarded-Proto: http"}},
		{"named header from a stranger", trusting(t, "CF-Connecting-IP", "192.0.2.0/24"), []string{"CF-Connecting-IP: 192.0.2.7"}, nil},
	} {
		for _, target := range []string{"/login", "/elsewhere"} {
			a := headerApp(t)
			options := []option{}
			if row.option != nil {
				options = append(options, row.option)
			}
			s := serve(t, a.addr, options...)
			res, body := s.raw("POST " + target + " HTTP/1.1\r\nHost: app.example\r\nContent-Length: 0\r\n" + strings.Join(append(row.sent, ""), "\r\n") + "\r\n")
			if res.StatusCode != 200 {
				t.Fatalf("%s: status %d", row.name, res.StatusCode)
			}
			var got []string
			for l := range strings.Lines(body) {
				l = strings.TrimRight(l, "\r\n")
				if l == "Host: app.example" || l == "Content-Length: 0" || l == "Connection: close" {
					continue
				}
				got = append(got, l)
			}
			want := row.seen
			if !strings.Contains(strings.Join(want, "\n"), "X-Forwarded-Host:") {
				want = append(want[:len(want):len(want)], ours...)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s at %s: application saw\n\t%s\nwant\n\t%s", row.name, target, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		}
	}
}

// TestAnswerUntouched: an application's answer passes as it is, but for the word that
// it has for us; nothing is added that a browser would act on.
func TestAnswerUntouched(t *testing.T) {
	for _, target := range []string{"/login", "/elsewhere"} {
		a := listen(t, reads("HTTP/1.1 203 Fine\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nX-A: 1\r\nX-A: 2\r\nConnection: X-Hop\r\nX-Hop: 1\r\nDoorward-Outcome: succeeded\r\nContent-Encoding: gzip\r\nContent-Length: 17\r\n\r\n<html>not gzip at"))
		s := serve(t, a.addr)
		res, body := s.raw(request("POST", target, ""))
		if body != "<html>not gzip at" {
			t.Errorf("%s: body %q", target, body)
		}
		got := slices.Sorted(maps.Keys(res.Header))
		if want := []string{"Content-Encoding", "Content-Length", "Date", "X-A"}; !slices.Equal(got, want) {
			t.Errorf("%s: headers %q, want %q", target, got, want)
		}
		if got := res.Header["X-A"]; !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("%s: X-A %q", target, got)
		}

		a = listen(t, reads("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"))
		s = serve(t, a.addr)
		res, _ = s.raw(request("POST", target, ""))
		if v, ok := res.Header["Content-Type"]; ok {
			t.Errorf("%s: Content-Type %q was guessed", target, v)
		}
	}
}

// TestRequestTrailers: none reach the application, where some read them as headers.
func TestRequestTrailers(t *testing.T) {
	for _, target := range []string{"/login", "/elsewhere"} {
		seen := make(chan string, 1)
		a := listen(t, func(conn net.Conn, r *bufio.Reader) {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			seen <- string(body) + " " + strings.Join(slices.Collect(maps.Keys(req.Trailer)), ",")
			conn.Write([]byte(wrong))
		})
		s := serve(t, a.addr)
		s.raw("POST " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-T, X-Forwarded-For\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
		if got := <-seen; got != "abc " {
			t.Errorf("%s: application saw %q", target, got)
		}
	}
}
