package window

import (
	"encoding/binary"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/limiter"
	"github.com/doorward/doorward/internal/table"
)

// What follows lets limiter.Ledger show and save states.

func (r *stepper) Figures(s state, now int64) (count, locked int64) {
	if a := r.judge(s, 1, now); a.Verdict == table.Verdict(doorward.Spent) {
		locked = table.Add(now, a.Wait)
	}
	s = r.age(s, now)
	return s.count(), locked
}

func (r *stepper) AppendState(b []byte, s state, _, _ int64) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.began()))
	b = binary.BigEndian.AppendUint32(b, s.newest)
	for _, c := range s.older {
		b = binary.BigEndian.AppendUint16(b, c)
	}
	return b
}

func (r *stepper) ReadState(b []byte) (state, bool) {
	began := int64(binary.BigEndian.Uint64(b))
	s := stateAt(began)
	s.newest = binary.BigEndian.Uint32(b[8:])
	for i := range s.older {
		s.older[i] = binary.BigEndian.Uint16(b[12+2*i:])
	}
	most := uint32(MaxLimit)
	if r.last > 0 {
		most = MaxLimitSliding
	}
	return s, began >= 0 && s.newest <= most && s.count() > 0 && (r.last > 0 || s.older == [slices - 1]uint16{})
}

// AppendOwn writes how long slices are, and how many count.
func (r *stepper) AppendOwn(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(r.width)), byte(r.last))
}

// ReadOwn returns a policy with slices as they were, which may be others now.
func (r *stepper) ReadOwn(b []byte) (written, next limiter.Policy[state], ok bool) {
	if len(b) != 9 {
		return nil, nil, false
	}
	old := &stepper{rules{limit: r.limit, width: int64(binary.BigEndian.Uint64(b)), last: int64(b[8])}, r.policy}
	sane := old.width >= 1 && (old.last == 0 || old.last == slices-1)
	return old, r, sane
}
