package httpguard

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/doorward/doorward"
)

// A request waits for a Busy key this long at most, and asks again at intervals that
// grow from the shortest to the longest. They are random, so that those who came
// together do not ask together.
const (
	maxWait = time.Second
	minPoll = 5 * time.Millisecond
	maxPoll = 50 * time.Millisecond
)

// attempt decides on p. While that is Busy and wait is set, it asks again, until a
// second is over or the caller is gone.
func (g *Gate) attempt(ctx context.Context, p *Permit, wait bool) {
	now := time.Now()
	g.ask(ctx, p, now)
	if p.verdict.Allowed || p.verdict.Reason != doorward.Busy || !wait {
		return
	}
	key := doorward.KeyFromAddr(p.client.Addr)
	if !g.queue.enter(key) {
		return
	}
	defer g.queue.leave(key)
	end := now.Add(maxWait)
	spread := minPoll
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	for {
		timer.Reset(min(minPoll+rand.N(spread+1), end.Sub(now)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return // nobody to answer: charge nothing
		}
		now = time.Now()
		g.ask(ctx, p, now)
		if p.verdict.Allowed || p.verdict.Reason != doorward.Busy || !now.Before(end) {
			return
		}
		spread = min(2*spread, maxPoll-minPoll)
	}
}

// ask asks the guard once. What it cannot decide, it refuses.
func (g *Gate) ask(ctx context.Context, p *Permit, now time.Time) {
	if g.guard == nil {
		p.verdict = unavailable
		return
	}
	p.permit, p.err = g.guard.AttemptContext(ctx, p.client, now)
	p.verdict = p.permit.Verdict
}

// A queue counts who waits. The zero queue lets nobody wait.
type queue struct {
	max, share int // in all, of one key

	mu    sync.Mutex
	total int
	byKey map[doorward.Key]int
}

func (q *queue) limit(n int) {
	if n > 0 {
		q.max, q.share, q.byKey = n, max(n/4, 1), map[doorward.Key]int{}
	}
}

func (q *queue) enter(k doorward.Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total >= q.max || q.byKey[k] >= q.share {
		return false
	}
	q.total++
	q.byKey[k]++
	return true
}

func (q *queue) leave(k doorward.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.byKey[k]--; q.byKey[k] == 0 {
		delete(q.byKey, k)
	}
}
