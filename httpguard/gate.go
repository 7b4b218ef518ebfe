// Package httpguard puts a guard in front of a net/http handler:
//
//	rules, err := guard.New(guard.Config{Rules: []guard.Rule{{Per: guard.Network, Lockout: &lockout.Login}}})
//	...
//	gate, err := httpguard.New(httpguard.Options{Guard: rules})
//	...
//	http.Handle("POST /login", gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		if !checkPassword(r.PostFormValue("user"), r.PostFormValue("password")) {
//			http.Error(w, "wrong password", http.StatusUnauthorized)
//			return
//		}
//		httpguard.FromRequest(r).Succeeded()
//		fmt.Fprintln(w, "welcome")
//	})))
//
// It promises that a request reaches the handler only as an attempt that the guard
// has admitted, and that every such attempt is settled once: as what the handler
// says, else as what its answer means, else as failed. A panic, a hijacked
// connection and a caller that hung up before there was an answer are failures. The
// request body is in memory before anything is charged, so that a slow sender keeps
// nobody else waiting, and callers who are refused only because others are just being
// judged wait for up to a second: first come, first served within a network, and
// networks take turns.
//
// What is guessed at, the subject, is named by the function Options.Subject. A browser
// from which an attempt on a subject succeeded can be known again by a cookie, and is
// then let in while strangers have the subject locked: Options.Devices.
//
// It gives up on what the handler sends after its final status: that was the
// outcome. A handler that unwraps the ResponseWriter and answers through what it
// finds there hides its answer, and has failed the attempt. Whoever hijacks the
// connection settles before, and removes the header Doorward-Outcome himself; what
// that means for a httputil.ReverseProxy is with Gate.Handler.
//
// Do not put it in front of whole sites: what it counts are attempts, so it belongs
// on the routes that judge a secret. It does not match routes; use a ServeMux or
// package door.
//
// A request that is refused without a body costs one resolved address, one guard
// decision and one Permit of about 700 bytes. An admitted one costs a copy of the
// http.Request, a context and a wrapped ResponseWriter more, and its body in memory.
package httpguard

import (
	"net"
	"net/http"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// A Gate admits requests as attempts. It is safe for concurrent use. The zero Gate
// refuses all of them as Unavailable.
type Gate struct {
	guard       *guard.Guard
	clients     *clientip.Resolver
	outcome     *outcome.Classifier
	custom      func(http.ResponseWriter, *http.Request, guard.Verdict)
	onSettled   func(*http.Request, *Permit)
	maxBody     int64
	bodyTimeout time.Duration
	queue       queue
	rateLimit   bool

	subject   func(*http.Request) (string, error)
	challenge func(*http.Request) (string, error)
	optional  bool
	canonical func(string) string
	devices   *device.Signer
	cookie    string
}

// Check decides on r as an attempt, waiting while its key is Busy, and writes
// nothing. If the verdict allows, the caller settles the permit; one that is dropped
// becomes a failure when its lease ends.
//
// Without Subject and Challenge it does not read the body: read it first. With one of
// them it reads up to MaxBody into memory, for as long as the connection lets it, and
// leaves r with a body that reads as before. If the body did not arrive, or the
// request does not name what it must, the verdict is the zero Verdict, which refuses,
// and Err says why, in an error that has the method Status() int: what to answer.
func (g *Gate) Check(r *http.Request) *Permit {
	if !g.names() {
		p := g.permit(r)
		g.attempt(r.Context(), p, true)
		return p
	}
	p, body := g.decide(nil, r)
	if body.arrived {
		body.replace(r)
	}
	if body.refused == nil || !body.lost && !p.verdict.Allowed {
		return p
	}
	p.Malformed() // if it was charged
	return &Permit{gate: g, request: r, client: p.client, err: body.refused}
}

// Handler returns a handler that passes on to next what the guard admits, and
// answers the rest. In next, FromRequest has the attempt.
//
// If next is a httputil.ReverseProxy and the Gate has an Outcome, its ModifyResponse
// must remove Doorward-Outcome from answers with status 101: the proxy writes them to
// the hijacked connection, past the ResponseWriter that removes it from all others.
//
// Gates can be nested, but each settles its own attempt. The inner one takes the
// header Doorward-Outcome out of the answer, so that the outer one does not see it
// and takes the answer for what it means without. Whatever stands between the two can
// settle the outer attempt, which it has by FromRequest before the inner gate is
// called; or the rules go into one guard. Gates with Devices then need different
// names in DeviceCookie.
func (g *Gate) Handler(next http.Handler) http.Handler {
	if next == nil {
		panic("httpguard: Handler needs a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
}

func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p, body := g.decide(w, r)
	switch {
	case body.lost:
		Answer(w, r, body.refused.status)
		return
	case !p.verdict.Allowed:
		g.refuse(w, r, p)
		return
	}
	r = p.attach(r)
	if body.refused != nil {
		p.Malformed()
		g.showQuotas(w.Header(), p)
		Answer(w, r, body.refused.status)
		return
	}
	stripRequest(r)
	if body.arrived {
		body.replace(r)
	}
	g.pass(w, r, p, next)
}

// decide reads the body of r, learns what r names, and asks the guard. Unless the body
// was lost, the permit has the verdict: on an attempt that names nothing if the body
// is refused.
func (g *Gate) decide(w http.ResponseWriter, r *http.Request) (p *Permit, body received) {
	p = g.permit(r)
	reads := r.Body != nil && r.Body != http.NoBody && g.maxBody >= 0
	if !reads && !g.names() {
		g.attempt(r.Context(), p, true)
		return p, body
	}
	// A locked network is refused before the body is read. Only what strangers have
	// spent for all does not refuse a known device, and which it is for the body tells.
	v := g.check(p)
	if !v.Allowed && v.Reason != doorward.Busy && !(v.Overflow && g.showsToken(r)) {
		p.verdict = v
		return p, body
	}
	if reads && !v.Exempt {
		if body = g.receive(w, r); body.lost {
			return p, body
		}
	}
	if g.names() && !v.Exempt && body.refused == nil {
		body.refused = g.name(p, r, body)
	}
	g.attempt(r.Context(), p, body.refused == nil)
	if p.verdict.Allowed && body.refused != nil {
		p.err = body.refused
	}
	return p, body
}

// pass calls next and settles what next leaves open.
func (g *Gate) pass(w http.ResponseWriter, r *http.Request, p *Permit, next http.Handler) {
	res := &response{w: w, gate: g, permit: p}
	returned := false
	// Not recovering keeps the panic as it is, its stack included.
	defer func() {
		if returned {
			res.final(http.StatusOK)
		} else {
			p.Failed()
		}
		if g.outcome != nil {
			stripResponse(w.Header()) // trailers, and what a recovering handler might send
		}
	}()
	next.ServeHTTP(res.wrap(), r)
	returned = true
}

func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, p *Permit) {
	g.boundRest(w, r)
	g.showQuotas(w.Header(), p)
	if g.custom == nil {
		Refuse(w, r, p.verdict)
		return
	}
	g.custom(w, p.attach(r), p.verdict)
}

// permit returns an undecided permit for r.
func (g *Gate) permit(r *http.Request) *Permit {
	p := &Permit{gate: g, request: r}
	if g.clients == nil {
		return p
	}
	var values []string
	if name := g.clients.Header(); name != "" {
		values = r.Header[name]
	}
	peer := r.RemoteAddr
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		peer = "@" // a unix socket may be bound to a name that reads like an address
	}
	p.client.Addr, p.client.How = g.clients.Resolve(peer, values)
	return p
}

// check asks the guard without charging anything.
func (g *Gate) check(p *Permit) guard.Verdict {
	if g.guard == nil {
		return unavailable
	}
	now := time.Now()
	v := g.guard.Check(p.client, now)
	p.took = time.Since(now)
	return v
}

var unavailable = guard.Verdict{Decision: doorward.Decision{Reason: doorward.Unavailable}}
