package peer

import (
	"net/http"
	"net/http/httptest"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/go-chi/httprate"
)

// HTTP are middlewares around a handler that answers 401, and none.
var HTTP = []Peer{
	{"no middleware", false, func(c Config) Limiter { return middleware(wrong) }},
	{"httprate", false, func(c Config) Limiter {
		return middleware(httprate.LimitBy(c.Limit, c.Window, httprate.KeyByIP)(wrong)) //lint:ignore SA1019 what its README shows
	}},
	{"httpguard", true, func(c Config) Limiter {
		p := Lockout(c)
		g := must(guard.New(guard.Config{Rules: []guard.Rule{{Lockout: &p}}}))
		return middleware(must(httpguard.New(httpguard.Options{Guard: g})).Handler(wrong))
	}},
}

var wrong = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusUnauthorized)
})

// handler serves requests one after the other, in a request of each worker's own.
type handler struct {
	texts
	http.Handler
	requests [2]*http.Request
	writers  [2]discard
}

func middleware(h http.Handler) Limiter { return &handler{Handler: h} }

func (h *handler) Load(t Trace) {
	h.load(t, ":1234")
	for i := range h.requests {
		h.requests[i] = httptest.NewRequest("POST", "/login", nil)
		h.writers[i] = discard{http.Header{}}
	}
}

func (h *handler) Decide(worker, i int) bool {
	r, w := h.requests[worker], h.writers[worker]
	r.RemoteAddr = h.at(i)
	clear(w.header)
	h.ServeHTTP(w, r)
	return true
}
