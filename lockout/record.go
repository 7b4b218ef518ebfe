package lockout

import (
	"encoding/binary"
	"math"

	"github.com/doorward/doorward/internal/limiter"
	"github.com/doorward/doorward/internal/table"
)

// What follows lets limiter.Ledger show and save states.

func (r *stepper) Figures(s state, now int64) (count, locked int64) {
	s = r.age(s, now)
	if s.locked(now) {
		locked = s.at
	}
	return int64(s.count), locked
}

// AppendState marks what was counted at since or later as apart: the state of a network,
// which was written before, may not count it.
func (r *stepper) AppendState(b []byte, s state, since, now int64) []byte {
	if s.count > 0 && r.last(s, now) >= since {
		s.marks |= apart
	}
	b = binary.BigEndian.AppendUint64(b, uint64(s.began))
	b = binary.BigEndian.AppendUint64(b, uint64(s.at))
	b = binary.BigEndian.AppendUint32(b, s.count)
	return binary.BigEndian.AppendUint32(b, s.marks)
}

// last returns when the last failure of s was counted, or a later time. With decay that
// is not kept: it may be any time before now.
func (r *stepper) last(s state, now int64) int64 {
	switch {
	case r.decay:
		return max(s.began, now-1)
	case int64(s.count) < r.free || s.at == table.Never:
		return s.at
	}
	return s.at - r.lockout(int64(s.count))
}

func (r *stepper) ReadState(b []byte) (s state, ok bool) {
	s = state{
		began: int64(binary.BigEndian.Uint64(b)), at: int64(binary.BigEndian.Uint64(b[8:])),
		count: binary.BigEndian.Uint32(b[16:]), marks: binary.BigEndian.Uint32(b[20:]),
	}
	return s, s.began >= 0 && s.at >= 0 && s.count > 0 && s.count <= math.MaxInt32 && s.marks <= ended|apart
}

func (r *stepper) AppendOwn(b []byte) []byte { return b }

func (r *stepper) ReadOwn(b []byte) (written, next limiter.Policy[state], ok bool) {
	return r, r, len(b) == 0
}
