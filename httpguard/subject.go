package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/doorward/doorward"
)

var errNoSubject = errors.New("the request names no subject")

// names reports whether requests name anything.
func (g *Gate) names() bool { return g.subject != nil || g.challenge != nil }

// name finds out what r names. Either all of it goes into p, or there is an error and
// p stays the caller's own.
func (g *Gate) name(p *Permit, r *http.Request, body received) *statusError {
	var subject, challenge doorward.Key
	if g.subject != nil {
		name, err := g.subject(body.view(r))
		if err != nil {
			return refusedBy("Subject", err)
		}
		// The empty name makes no key: it is Unknown.
		subject = doorward.KeyFromName(g.canonical(name))
		if subject == (doorward.Key{}) && !g.optional {
			return &statusError{http.StatusBadRequest, errNoSubject}
		}
	}
	if g.challenge != nil {
		name, err := g.challenge(body.view(r))
		if err != nil {
			return refusedBy("Challenge", err)
		}
		challenge = doorward.KeyFromName(name)
	}
	p.client.Subject, p.client.Challenge = subject, challenge
	if g.devices != nil && subject != (doorward.Key{}) {
		p.wallet = g.openWallet(r, p.client.How)
		p.client.Device = p.wallet.find(g.devices, subject, time.Now())
	}
	return nil
}

// refusedBy gives an error of the function the status that it asks for, if that is one
// for requests that cannot be read.
func refusedBy(function string, err error) *statusError {
	e := &statusError{http.StatusBadRequest, fmt.Errorf("%s: %w", function, err)}
	var has interface{ Status() int }
	if errors.As(err, &has) {
		switch s := has.Status(); s {
		case http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
			e.status = s
		}
	}
	return e
}

// view returns a copy of r for others to read: as the handler gets it, and without a
// body if that is not in memory. What they parse stays in the copy.
func (b received) view(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	stripRequest(r)
	r.Body = http.NoBody
	if b.arrived {
		b.replace(r)
	}
	return r
}
