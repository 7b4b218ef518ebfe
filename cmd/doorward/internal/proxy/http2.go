package proxy

import (
	"net/http"
	"strings"
)

// sound2 reports whether a request of HTTP/2 says one thing where it can say two:
// HTTP/1 cannot, so the application would hear what was not judged. It has one host and a
// path. (What scheme it says is not heard: it is that of its connection.)
func sound2(r *http.Request) bool {
	if r.ProtoMajor < 2 {
		return true
	}
	for _, h := range r.Header["Host"] { // beside :authority
		if !strings.EqualFold(h, r.Host) {
			return false
		}
	}
	return len(r.Header["Host"]) < 2 && (strings.HasPrefix(r.RequestURI, "/") || r.RequestURI == "*")
}
