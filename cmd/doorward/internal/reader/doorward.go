package reader

import (
	"github.com/doorward/doorward"
	"github.com/doorward/doorward/trace"
)

// doorward reads our own audit log. How an attempt that was refused would have ended nobody
// knows, so it has failed. Exempt ones had no outcome, and are left out.
func (r *Reader) doorward(line []byte, emit func(*Record)) Skip {
	rec, err := trace.Parse(line)
	switch {
	case err != nil && line[0] == '{' && line[len(line)-1] != '}':
		return CutOff
	case err != nil:
		return Unreadable
	}
	o := doorward.Failed
	switch rec.Event {
	case trace.Refused:
	case trace.Settled:
		if err := o.UnmarshalText([]byte(rec.Outcome)); err != nil {
			return NotAttempt
		}
	default:
		return NotAttempt
	}
	r.rec.Time, r.rec.Service, r.rec.Outcome, r.rec.Door = rec.Time, "doorward", o, rec.Door
	if rec.Client.IsValid() {
		r.rec.Addr = rec.Client.Addr() // stands for all that count as one
	}
	if s := rec.Subject.String(); s != "" {
		r.rec.Subject = []byte(s)
	}
	if rec.Agent != "" {
		r.rec.UserAgent = []byte(rec.Agent)
	}
	if rec.Path != "" {
		r.rec.Target = []byte(rec.Path)
	}
	emit(&r.rec)
	return Read
}
