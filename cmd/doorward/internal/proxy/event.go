package proxy

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

// An Event is one attempt that was refused, or one that ended.
type Event struct {
	Time time.Time
	Door string
	// Guard is that of the door as the request found it: its rules are those that the
	// Verdict speaks of.
	Guard *guard.Guard
	Addr  netip.Addr // the zero Addr if there is none
	How   clientip.How
	// Subject is what is guessed at, the zero Key if that is not known.
	Subject doorward.Key
	// Method, Path and Agent are the caller's own words, of any length and with any
	// bytes. Path has no query, and is "" where it may name a subject.
	Method, Path, Agent string
	// Verdict is what the guard decided: a refusal unless it is Allowed.
	Verdict guard.Verdict
	// Settlement is how an attempt that was allowed ended.
	Settlement guard.Settlement
	// Malformed says why the request did not reach the application, "" if it did.
	Malformed string
	// Took is how long the guard took to decide.
	Took time.Duration
}

// tell passes on what became of the attempt that is permit.
func (p *Proxy) tell(now time.Time, v *visit, r *http.Request, permit *httpguard.Permit) {
	if p.config.Tell == nil {
		return
	}
	e := Event{
		Time: now, Door: v.door, Guard: v.at.Guard, Addr: v.addr, How: v.how, Subject: permit.Subject(),
		Method: r.Method, Path: p.lines.path(v.door, r), Agent: r.UserAgent(),
		Verdict: permit.Verdict(), Settlement: permit.Settlement(), Took: permit.Took(),
	}
	if err := permit.Err(); err != nil && e.Settlement.Outcome == doorward.Malformed {
		e.Malformed = reason(err)
	}
	p.config.Tell(&e)
}
