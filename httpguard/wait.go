package httpguard

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

// A request waits for a Busy key this long at most. The first of a line asks at
// intervals of this length. They are random, so that the first of all lines of a wide
// network have the same chance.
const (
	maxWait = time.Second
	minPoll = 5 * time.Millisecond
	maxPoll = 15 * time.Millisecond
)

// attempt decides on p. While that is Busy and wait is set, it waits in the line of its
// network, until a second is over or the caller is gone. Who finds others in the line
// asks after them, whatever it is that they wait for: a subject that others keep Busy
// can cost those behind in the line their second, too.
func (g *Gate) attempt(ctx context.Context, p *Permit, wait bool) {
	now := time.Now()
	asked := !g.queue.waits(p.client.Addr)
	if asked {
		g.ask(ctx, p, now)
	} else {
		g.foresee(p)
	}
	if p.verdict.Allowed || p.verdict.Reason != doorward.Busy || !wait {
		return
	}
	w := g.queue.join(p.client.Addr)
	if w == nil {
		return
	}
	defer g.queue.leave(w)
	g.stand(ctx, p, w, now.Add(maxWait), asked)
}

// foresee refuses p without charging anything: as the guard would, if it would for
// another reason than Busy, else as Busy. Who is exempt is allowed: that charges nothing.
func (g *Gate) foresee(p *Permit) {
	v := g.check(p)
	if v.Allowed && !v.Exempt {
		v = busy
	}
	p.verdict = v
}

var busy = guard.Verdict{Decision: doorward.Decision{Reason: doorward.Busy, RetryAfter: time.Second}}

// stand waits until w is the first of its line and then asks, again and again while
// that is Busy. Who becomes the first asks at once, and so does who was it from the
// beginning and has not asked yet.
func (g *Gate) stand(ctx context.Context, p *Permit, w *waiter, end time.Time, asked bool) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	if !w.isFirst() {
		asked = false
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if !w.isFirst() {
				g.foresee(p)
				return
			}
		case <-w.first:
		}
	}
	for {
		if asked {
			timer.Reset(min(minPoll+rand.N(maxPoll-minPoll+1), time.Until(end)))
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
		if ctx.Err() != nil {
			return // nobody to answer: charge nothing
		}
		g.ask(ctx, p, time.Now())
		if p.verdict.Allowed || p.verdict.Reason != doorward.Busy || !time.Now().Before(end) {
			return
		}
		asked = true
	}
}

// ask asks the guard once. What it cannot decide, it refuses.
func (g *Gate) ask(ctx context.Context, p *Permit, now time.Time) {
	if g.guard == nil {
		p.verdict = unavailable
		return
	}
	p.permit, p.err = g.guard.AttemptContext(ctx, p.client, now)
	p.verdict, p.took = p.permit.Verdict, time.Since(now)
}
