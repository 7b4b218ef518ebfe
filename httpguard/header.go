package httpguard

import (
	"maps"
	"net/http"
	"strings"

	"github.com/doorward/doorward/outcome"
)

// isOutcome reports whether an application's header key is the outcome, in whatever
// case it was put into the map, or a trailer of that name.
func isOutcome(key string) bool {
	if len(key) == len(http.TrailerPrefix)+len(outcome.Header) && strings.HasPrefix(key, http.TrailerPrefix) {
		key = key[len(http.TrailerPrefix):]
	}
	return len(key) == len(outcome.Header) && strings.EqualFold(key, outcome.Header)
}

// announces reports whether one of the values of the Trailer header names the outcome.
func announces(values []string) bool {
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if isOutcome(strings.Trim(name, " \t")) {
				return true
			}
		}
	}
	return false
}

// withoutOutcome returns values of the Trailer header that do not name the outcome.
func withoutOutcome(values []string) []string {
	var kept []string
	for _, v := range values {
		var names []string
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.Trim(name, " \t"); name != "" && !isOutcome(name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			kept = append(kept, strings.Join(names, ", "))
		}
	}
	return kept
}

// taken is what takeResponse took out of a header.
type taken http.Header

// takeResponse takes the outcome out of a header: the field, the trailer, and its
// announcement. It is nil if there was none.
func takeResponse(h http.Header) taken {
	var t taken
	take := func(key string, values []string) {
		if t == nil {
			t = taken{}
		}
		t[key] = values
	}
	for key, values := range h {
		switch {
		case isOutcome(key):
			take(key, values)
			delete(h, key)
		case key == "Trailer" && announces(values):
			take(key, values)
			if h[key] = withoutOutcome(values); h[key] == nil {
				delete(h, key)
			}
		}
	}
	return t
}

func (t taken) putBack(h http.Header) { maps.Copy(h, t) }

// stripResponse removes what takeResponse takes, for good.
func stripResponse(h http.Header) { takeResponse(h) }

// fromClient reports whether a request header or trailer is one of ours, which no
// client may send: Doorward-*, and what becomes of "-" in a CGI environment.
func fromClient(key string) bool {
	const prefix = "doorward"
	return len(key) > len(prefix) && strings.EqualFold(key[:len(prefix)], prefix) && strings.IndexByte("-_.", key[len(prefix)]) >= 0
}

// stripRequest removes every header of ours that the client sent. The map that other
// handlers may hold is left alone.
func stripRequest(r *http.Request) {
	r.Header = stripped(r.Header)
	r.Trailer = stripped(r.Trailer)
}

func stripped(h http.Header) http.Header {
	for key := range h {
		if fromClient(key) {
			h = maps.Clone(h)
			maps.DeleteFunc(h, func(key string, _ []string) bool { return fromClient(key) })
			return h
		}
	}
	return h
}
