package audit

import (
	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/trace"
)

// A Form says how events become records.
type Form struct {
	// Secret is what hashes of subjects are made with.
	Secret []byte
	// V4 and V6 are how many bits of an address are told. 0 is 32 and 64: the network that
	// attempts are charged to.
	V4, V6 int
	// Request tells method, path and agent.
	Request bool
	// Realms has the guards of doors that do not have one of their own.
	Realms map[string]string
}

// Outcome of an attempt that passed uncharged.
const exempt = "exempt"

// Append appends what e becomes: one refusal, or how an attempt ended, before it the
// lockout that it started. What callers sent stays as long as it was: AppendLine cuts it.
func (f *Form) Append(to []trace.Record, e *proxy.Event) []trace.Record {
	if !e.Verdict.Allowed {
		return append(to, f.refused(e))
	}
	if e.Settlement.Lockout.Rule != "" {
		to = append(to, f.locked(e))
	}
	return append(to, f.settled(e))
}

func (f *Form) refused(e *proxy.Event) trace.Record {
	r := f.record(trace.Refused, e)
	r.Rule, r.Reason, r.RetryAfter, r.Overflow = e.Verdict.Rule, e.Verdict.Reason, e.Verdict.RetryAfter, e.Verdict.Overflow
	r.Per = per(e, r.Rule)
	f.verdict(&r, e)
	return r
}

func (f *Form) settled(e *proxy.Event) trace.Record {
	r := f.record(trace.Settled, e)
	r.Outcome, r.Overflow, r.Error = e.Settlement.Outcome.String(), e.Verdict.Overflow, e.Malformed
	if e.Verdict.Exempt {
		r.Outcome = exempt
	}
	f.verdict(&r, e)
	return r
}

// locked says which rule locks. A shadow is named as what it is: nobody is locked out by it.
func (f *Form) locked(e *proxy.Event) trace.Record {
	l := e.Settlement.Lockout
	r := f.record(trace.Locked, e)
	r.Lockout, r.Until = l.For, e.Time.Add(l.For)
	switch l.Action {
	case guard.Shadow:
		r.Shadow = []string{l.Rule}
		return r
	case guard.StepUp:
		r.StepUp = true
	}
	r.Rule, r.Per = l.Rule, per(e, l.Rule)
	return r
}

// record is what all events of callers have.
func (f *Form) record(event trace.Event, e *proxy.Event) trace.Record {
	r := trace.Record{Time: e.Time, Event: event, Door: e.Door, Realm: f.Realms[e.Door], How: e.How, Subject: trace.HashOf(f.Secret, e.Subject)}
	v4, v6 := f.V4, f.V6
	if v4 == 0 {
		v4 = 32
	}
	if v6 == 0 {
		v6 = 64
	}
	r.Client = doorward.KeyFromPrefix(e.Addr, v4, v6).Prefix()
	if f.Request {
		r.Method, r.Path, r.Agent = e.Method, e.Path, e.Agent
	}
	return r
}

// verdict adds what is no reason to refuse.
func (f *Form) verdict(r *trace.Record, e *proxy.Event) {
	r.StepUp = e.Verdict.StepUp
	if e.Verdict.Shadow == 0 || e.Guard == nil {
		return
	}
	for i, rule := range e.Guard.Rules() {
		if e.Verdict.Shadow&(1<<i) != 0 {
			r.Shadow = append(r.Shadow, rule.Name)
		}
	}
}

func per(e *proxy.Event, rule string) string {
	if e.Guard == nil {
		return ""
	}
	for _, r := range e.Guard.Rules() {
		if r.Name == rule {
			return r.Charges()
		}
	}
	return ""
}
