package proxy

import (
	"net/http"
	"strings"

	"github.com/doorward/doorward/clientip"
)

// clean removes from h what speaks for us or for a proxy before us: forwarding
// headers and ours, under every name that some application server takes for them.
// The header that clients are named by stays if a trusted proxy wrote it, unless it
// is one that we write.
func clean(h http.Header, named string, believed bool) {
	for name := range h {
		if speaks(name) || named != "" && sameName(name, named) && !(believed && name == named) {
			delete(h, name)
		}
	}
}

// speaks reports whether a header called name says who a request is from, what it is,
// or is ours.
func speaks(name string) bool {
	return forwarding(name) || isPrefixed(name, "x-forwarded-") || sameName(name, "x-forwarded") ||
		namesTarget(name) ||
		isPrefixed(name, "doorward-") || sameName(name, "doorward") ||
		sameName(name, "content-length") || sameName(name, "transfer-encoding") // net/http writes those that count
}

// namesTarget reports whether a header called name may name another target than the one
// that was judged. gunicorn takes script-name for the part of the path that is not its.
func namesTarget(name string) bool {
	for _, other := range []string{"x-original-url", "x-rewrite-url", "x-original-uri", "script-name", "x-script-name", "path-info"} {
		if sameName(name, other) {
			return true
		}
	}
	return false
}

// forwarding reports whether a header called name lists the hops of a request.
func forwarding(name string) bool {
	return sameName(name, "x-forwarded-for") || sameName(name, "forwarded") || sameName(name, "x-real-ip")
}

// sameName reports whether an application may take one header for the other. CGI and
// its heirs write names in capitals and whatever is no letter or digit as "_".
func sameName(name, other string) bool {
	return len(name) == len(other) && isPrefixed(name, other)
}

func isPrefixed(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if fold(name[i]) != fold(prefix[i]) {
			return false
		}
	}
	return true
}

func fold(b byte) byte {
	switch {
	case 'A' <= b && b <= 'Z':
		return b + 'a' - 'A'
	case 'a' <= b && b <= 'z', '0' <= b && b <= '9':
		return b
	}
	return '-'
}

// forwardedValues returns the values of all headers in h that list hops.
func forwardedValues(h http.Header) (values []string) {
	for name, v := range h {
		if forwarding(name) {
			values = append(values, v...)
		}
	}
	return values
}

// tell writes onto out who the request is from: the caller's address, and the host
// and scheme that the caller used. A trusted proxy before us knows the last two
// better, since its connection to us need not be the caller's.
func (v *visit) tell(in *http.Request, out http.Header) {
	if v.addr.IsValid() {
		out.Set("X-Forwarded-For", v.addr.String())
	}
	host, proto := in.Host, "http"
	if in.TLS != nil {
		proto = "https"
	}
	if v.believed() {
		if s, ok := single(in.Header["X-Forwarded-Host"]); ok && s != "" && saneHost(s) {
			host = s
		}
		if s, ok := single(in.Header["X-Forwarded-Proto"]); ok {
			switch s = strings.ToLower(s); s {
			case "http", "https":
				proto = s
			}
		}
	}
	if host != "" {
		out.Set("X-Forwarded-Host", host)
	}
	out.Set("X-Forwarded-Proto", proto)
}

// believed reports whether the peer is a trusted proxy.
func (v *visit) believed() bool {
	return v.how == clientip.Header || v.how == clientip.AllTrusted || v.how == clientip.Fallback
}

func single(values []string) (string, bool) {
	if len(values) != 1 || strings.Contains(values[0], ",") {
		return "", false
	}
	return strings.Trim(values[0], " \t"), true
}

// upgrade leaves a request for a protocol change only if it is for a WebSocket. What
// follows any other (h2c above all) would be requests that no door sees.
func upgrade(h http.Header) {
	if v := h["Upgrade"]; len(v) == 1 && strings.EqualFold(strings.Trim(v[0], " \t"), "websocket") {
		return
	}
	h.Del("Upgrade")
	h.Del("Connection")
	h.Del("Http2-Settings")
}
