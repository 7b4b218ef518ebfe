package throttle

import (
	"encoding/binary"

	"github.com/doorward/doorward/internal/limiter"
)

// What follows lets limiter.Ledger show and save states.

func (r *stepper) Figures(s tally, now int64) (count, locked int64) {
	s = r.current(s, now)
	if s.count >= r.perSource {
		locked = r.end(s)
	}
	return s.count, locked
}

func (r *stepper) AppendState(b []byte, s tally, _, _ int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(s.began)), uint64(s.count))
}

func (r *stepper) ReadState(b []byte) (tally, bool) {
	s := readTally(b)
	return s, s.began >= 0 && s.count > 0 && s.count <= MaxPerSource
}

func readTally(b []byte) tally {
	return tally{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
}

// AppendOwn writes what all keys share.
func (r *stepper) AppendOwn(b []byte) []byte { return r.AppendState(b, *r.all, 0, 0) }

func (r *stepper) ReadOwn(b []byte) (written, next limiter.Policy[tally], ok bool) {
	if len(b) != 16 {
		return nil, nil, false
	}
	all := readTally(b)
	q := newStepper(r.policy, &all)
	return q, q, all.began >= 0 && all.count >= 0 && all.count <= mostInAll
}

// mostInAll is more than anybody can cause.
const mostInAll = 1 << 62
