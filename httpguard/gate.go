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
// nobody else waiting, and callers who are refused only because others of their
// network are just being judged wait for up to a second.
//
// It gives up on what the handler sends after its final status: that was the
// outcome. A handler that unwraps the ResponseWriter and answers through what it
// finds there hides its answer, and has failed the attempt.
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
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// What a zero field of Options stands for.
const (
	DefaultMaxBody     = 64 << 10
	DefaultBodyTimeout = 10 * time.Second
	DefaultMaxWaiting  = 1024
)

// Options describe a Gate. Only Guard must be set.
type Options struct {
	// Guard decides.
	Guard *guard.Guard
	// Clients names the caller. Nil: the TCP peer.
	Clients *clientip.Resolver
	// Outcome reads the handler's answer where the handler does not settle its
	// attempt itself; the header Doorward-Outcome is then removed from what is sent.
	// Nil: a handler that says nothing has failed the attempt.
	Outcome *outcome.Classifier
	// Refuse answers refused requests; FromRequest works in it. Nil: the function
	// Refuse. A replacement should answer all refusals of a status alike: what
	// differs tells the caller which rule refused.
	Refuse func(http.ResponseWriter, *http.Request, guard.Verdict)
	// Settled, if set, is called once when an attempt is settled, from the goroutine
	// that settles it and before the answer is sent. Requests that were refused, or
	// whose body did not arrive, were no attempts.
	Settled func(*http.Request, *Permit)
	// MaxBody is how many bytes a request body may have: 0 is DefaultMaxBody. The
	// body is read into memory before anything is charged. A larger one is charged,
	// settled as malformed and answered with 413. Exempt callers have no limit.
	//
	// A negative MaxBody turns that off: the handler reads the body itself. Then a
	// caller who sends slowly holds a reservation for as long as the handler lets
	// him, and keeps everyone Busy who shares a key with him.
	MaxBody int64
	// BodyTimeout is how long the body may take to arrive: 0 is DefaultBodyTimeout.
	// A later one is answered with 408 and charges nothing. It needs a
	// ResponseWriter that has SetReadDeadline, as those of net/http have, and never
	// extends a shorter ReadTimeout of the http.Server.
	BodyTimeout time.Duration
	// MaxWaiting is how many requests may wait at once for a key that is Busy: 0 is
	// DefaultMaxWaiting, negative none. One network may have a quarter of them. Each
	// holds its body in memory meanwhile.
	MaxWaiting int
	// RateLimitHeaders adds the fields RateLimit-Policy and RateLimit of
	// draft-ietf-httpapi-ratelimit-headers-11 to all answers to attempts and all
	// refusals: what the network rules would still admit of this caller. Rules on
	// other keys are never shown. The refusals are then no longer all alike.
	RateLimitHeaders bool
}

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
}

// New returns a Gate, or an error that names the option.
func New(o Options) (*Gate, error) {
	if o.Guard == nil {
		return nil, errors.New("httpguard: Guard must be set")
	}
	if o.BodyTimeout < 0 {
		return nil, fmt.Errorf("httpguard: BodyTimeout must not be negative, got %v", o.BodyTimeout)
	}
	g := &Gate{
		guard: o.Guard, clients: o.Clients, outcome: o.Outcome, custom: o.Refuse, onSettled: o.Settled,
		maxBody: o.MaxBody, bodyTimeout: o.BodyTimeout, rateLimit: o.RateLimitHeaders,
	}
	if g.clients == nil {
		g.clients = new(clientip.Resolver)
	}
	switch g.maxBody {
	case 0:
		g.maxBody = DefaultMaxBody
	case math.MaxInt64:
		g.maxBody-- // one byte more is read
	}
	if g.bodyTimeout == 0 {
		g.bodyTimeout = DefaultBodyTimeout
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	g.queue.limit(o.MaxWaiting)
	return g, nil
}

// Check decides on r as an attempt, waiting while its key is Busy, and writes
// nothing. If the verdict allows, the caller settles the permit; one that is dropped
// becomes a failure when its lease ends. Check does not read the body: read it first.
func (g *Gate) Check(r *http.Request) *Permit {
	p := g.permit(r)
	g.attempt(r.Context(), p, true)
	return p
}

// Handler returns a handler that passes on to next what the guard admits, and
// answers the rest. In next, FromRequest has the attempt.
func (g *Gate) Handler(next http.Handler) http.Handler {
	if next == nil {
		panic("httpguard: Handler needs a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
}

func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p := g.permit(r)
	var body received
	if r.Body != nil && r.Body != http.NoBody && g.maxBody >= 0 {
		// A locked caller is refused before the body is read.
		v := g.check(p)
		if !v.Allowed && v.Reason != doorward.Busy {
			p.verdict = v
			g.refuse(w, r, p)
			return
		}
		if !v.Exempt {
			body = g.receive(w, r)
		}
		if body.refused == http.StatusBadRequest || body.refused == http.StatusRequestTimeout {
			Answer(w, r, body.refused)
			return
		}
	}
	g.attempt(r.Context(), p, body.refused == 0)
	if !p.verdict.Allowed {
		g.refuse(w, r, p)
		return
	}
	r = p.attach(r)
	if body.refused != 0 {
		p.Malformed()
		g.showQuotas(w.Header(), p)
		Answer(w, r, body.refused)
		return
	}
	stripRequest(r)
	if body.arrived {
		body.replace(r)
	}
	g.pass(w, r, p, next)
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
	return g.guard.Check(p.client, time.Now())
}

var unavailable = guard.Verdict{Decision: doorward.Decision{Reason: doorward.Unavailable}}
