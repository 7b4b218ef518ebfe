package proxy

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Redirect returns a handler that sends everybody to https, for port 80. Nothing reaches
// the application. It is always 308, which keeps method and body: what a form has sent
// in clear has been sent, and with 301 it would arrive as a GET.
//
// To has a host, and perhaps a port, to which all are sent: nil is the host that was
// asked for, on the port of https. What is no host is answered with 400.
func (p *Proxy) Redirect(to *url.URL) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target, ok := origin(r.Method, r.RequestURI)
		host := ""
		if to != nil {
			host = to.Host
		} else {
			host = plainHost(r.Host)
		}
		if !ok || target == "*" || host == "" || r.Method == http.MethodConnect {
			p.bad(w, r, "")
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.set.Load().config.Timeouts.Body))
		}
		h := w.Header()
		h.Set("Location", "https://"+host+escape(target))
		h.Set("Content-Length", "0")
		w.WriteHeader(http.StatusPermanentRedirect)
	})
}

// plainHost returns the host of a Host header without its port, "" if it is no name and
// no address: whatever else browsers make of it, it is not this site.
func plainHost(s string) string {
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host = s[:i]
		for _, b := range []byte(s[i+1:]) {
			if b < '0' || b > '9' {
				return ""
			}
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return ""
		}
		return host
	}
	if len(host) > 253 {
		return ""
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 {
			return ""
		}
		for _, b := range []byte(label) {
			switch {
			case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_':
			default:
				return ""
			}
		}
	}
	return host
}

// escape makes a target fit for a header that holds a URL: what a URL may not have is
// written as net/url does.
func escape(target string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(target) {
		switch c := target[i]; {
		case c <= ' ', c >= 0x7f, strings.IndexByte("\"<>\\^`{|}#", c) >= 0:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
