package proxy

import (
	"net/http"
	"net/url"
	"strings"
)

// target returns the URL that makes net/http write raw, the target as received, onto
// the upstream's request line byte for byte, once the pool has put a host in. An absolute URL, which only proxies are
// sent, loses scheme and host and nothing else.
//
// It reports false for what is no request target: then no two servers need agree on
// what it is, and doors were not made to judge it.
func target(method, raw string) (*url.URL, bool) {
	t, ok := origin(method, raw)
	if !ok || strings.IndexByte(t, ' ') >= 0 { // over HTTP/2 it may have one; behind it HTTP/1 has a version
		return nil, false
	}
	u := &url.URL{}
	if !strings.HasPrefix(t, "//") {
		u.Opaque = t // written as it is
		return u, true
	}
	// An Opaque that starts with two slashes would be written with the scheme before
	// it. A path is not, but it is escaped if it holds what no URL may hold.
	path, query, asks := strings.Cut(t, "?")
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return nil, false
	}
	u.Path, u.RawPath, u.RawQuery, u.ForceQuery = decoded, path, query, asks
	return u, u.RequestURI() == t
}

// origin cuts scheme and host off an absolute URL.
func origin(method, raw string) (string, bool) {
	if strings.HasPrefix(raw, "/") || raw == "*" && method == http.MethodOptions {
		return raw, true
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", false
	}
	end := strings.IndexAny(rest, `/?\#`)
	switch {
	case end < 0 && method == http.MethodOptions:
		return "*", true // RFC 9112, 3.2.4
	case end < 0:
		return "/", true
	case rest[end] == '/':
		return rest[end:], true
	case rest[end] == '?':
		return "/" + rest[end:], true
	}
	return "", false
}

// saneHost reports whether host is passed on as it was judged. net/http would put
// names in other scripts into ASCII and cut IPv6 zones off.
func saneHost(host string) bool {
	if len(host) > 255 {
		return false
	}
	for _, b := range []byte(host) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case strings.IndexByte("-._~!$&'()*+,;=:[]", b) >= 0:
		default:
			return false
		}
	}
	return true
}
