package httpguard

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
)

// A Permit is the attempt that a request is: what was decided, for whom, and how it
// ended. It is settled once, whoever comes first. It is safe for concurrent use, and
// all methods of a nil Permit do nothing: code behind a gate works without one.
type Permit struct {
	gate    *Gate
	request *http.Request
	client  guard.Request
	verdict guard.Verdict // fixed before anyone else has the permit
	wallet  *wallet       // nil unless a success makes a device known
	err     error
	took    time.Duration

	mu      sync.Mutex
	permit  guard.Permit // used by the goroutine that set settled
	settled bool
	outcome doorward.Outcome
	ended   guard.Settlement
	warning string
}

type contextKey struct{}

// FromRequest returns the permit that a Gate attached to r, that of the innermost
// gate if there are several, and nil if r passed no gate.
func FromRequest(r *http.Request) *Permit {
	p, _ := r.Context().Value(contextKey{}).(*Permit)
	return p
}

// attach returns a copy of r that has p.
func (p *Permit) attach(r *http.Request) *http.Request {
	p.request = r.WithContext(context.WithValue(r.Context(), contextKey{}, p))
	return p.request
}

// Verdict returns what the guard decided. Of a nil Permit it is the zero Verdict,
// which refuses.
func (p *Permit) Verdict() guard.Verdict {
	if p == nil {
		return guard.Verdict{}
	}
	return p.verdict
}

// Addr returns the caller's address, the zero Addr if there is none.
func (p *Permit) Addr() netip.Addr {
	if p == nil {
		return netip.Addr{}
	}
	return p.client.Addr
}

// How returns how the caller's address was found.
func (p *Permit) How() clientip.How {
	if p == nil {
		return clientip.Unknown
	}
	return p.client.How
}

// StepUp reports whether a stronger proof is needed before the attempt is judged: a
// step-up rule of its subject is spent.
func (p *Permit) StepUp() bool { return p.Verdict().StepUp }

// Err returns why a Store could not decide or settle, or why the request was malformed
// before it reached the handler, else nil. What a Store could not decide was refused;
// what it could not settle becomes a failure in time.
func (p *Permit) Err() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Outcome returns what the attempt was settled as, and whether it was.
func (p *Permit) Outcome() (o doorward.Outcome, settled bool) {
	if p == nil {
		return doorward.Failed, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcome, p.settled
}

// Settlement returns what settling the attempt did. It is the zero Settlement until the
// guard has answered.
func (p *Permit) Settlement() guard.Settlement {
	if p == nil {
		return guard.Settlement{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Subject returns the key of what is guessed at, the zero Key if that is not known.
func (p *Permit) Subject() doorward.Key {
	if p == nil {
		return doorward.Key{}
	}
	return p.client.Subject
}

// Took returns how long the guard took to decide, waiting for a Busy key not included.
func (p *Permit) Took() time.Duration {
	if p == nil {
		return 0
	}
	return p.took
}

// Warning returns a line for the log if the answer that settled the attempt used
// Doorward-Outcome wrongly, else "".
func (p *Permit) Warning() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.warning
}

// Succeeded says that the secret was right.
func (p *Permit) Succeeded() { p.Settle(doorward.Succeeded) }

// Failed says that the secret was wrong.
func (p *Permit) Failed() { p.Settle(doorward.Failed) }

// Malformed says that the request was refused before any costly work.
func (p *Permit) Malformed() { p.Settle(doorward.Malformed) }

// Void says that nothing was judged: the attempt is taken back. Never let the caller
// bring that about, or guesses are free.
func (p *Permit) Void() { p.Settle(doorward.Void) }

// Settle ends the attempt as o and reports whether this call did. It does nothing
// once the attempt is settled, by an earlier call or by the final status of the
// answer, and nothing for a request that was refused. Anything that is no outcome
// counts as Failed. It returns when a Store knows, whether or not the caller is still
// there.
func (p *Permit) Settle(o doorward.Outcome) bool { return p.settle(o, "") }

func (p *Permit) settle(o doorward.Outcome, warning string) bool {
	if p == nil || !p.verdict.Allowed {
		return false
	}
	if o > doorward.Void {
		o = doorward.Failed
	}
	p.mu.Lock()
	if p.settled {
		p.mu.Unlock()
		return false
	}
	p.settled, p.outcome, p.warning = true, o, warning
	p.mu.Unlock()

	ctx := context.WithoutCancel(p.request.Context())
	ended, err := p.permit.SettleContext(ctx, o, time.Now())
	p.mu.Lock()
	p.ended = ended
	if err != nil {
		p.err = err
	}
	p.mu.Unlock()
	if p.gate.onSettled != nil {
		p.gate.onSettled(p.request, p)
	}
	return true
}
