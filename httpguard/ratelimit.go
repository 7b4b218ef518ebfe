package httpguard

import (
	"net/http"
	"strconv"
	"time"

	"github.com/doorward/doorward"
)

// showQuotas adds RateLimit-Policy and RateLimit, lists of one item per network rule,
// to what the handler may have set itself. Callers to whom no rule applies get none.
func (g *Gate) showQuotas(h http.Header, p *Permit) {
	if !g.rateLimit || g.guard == nil || p.verdict.Exempt || p.verdict.Reason == doorward.Blocked {
		return
	}
	quotas := g.guard.Quotas(p.client, time.Now())
	if len(quotas) == 0 {
		return
	}
	var policy, limit []byte
	for i, q := range quotas {
		if i > 0 {
			policy, limit = append(policy, ", "...), append(limit, ", "...)
		}
		// The names of rules need no escape in a string.
		policy = append(append(append(policy, '"'), q.Rule...), `";q=`...)
		policy = strconv.AppendInt(policy, int64(q.Limit), 10)
		policy = append(policy, ";w="...)
		policy = strconv.AppendInt(policy, wholeSeconds(q.Window), 10)
		limit = append(append(append(limit, '"'), q.Rule...), `";r=`...)
		limit = strconv.AppendInt(limit, int64(q.Remaining), 10)
		if q.Reset > 0 {
			limit = append(limit, ";t="...)
			limit = strconv.AppendInt(limit, wholeSeconds(q.Reset), 10)
		}
	}
	h.Add("Ratelimit-Policy", string(policy))
	h.Add("Ratelimit", string(limit))
}

// wholeSeconds rounds up, so that who waits exactly as told gets through.
func wholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
