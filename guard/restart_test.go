package guard_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

var stateKey = bytes.Repeat([]byte{7}, guard.MinStateKey)

// restart saves the guard, lets some time pass, and goes on with a new one. It first
// compares what there is to see with the model.
func (x *trial) restart(passed time.Duration, r guard.Request) (differs string) {
	x.seen["restart"]++
	// What failed in the nanosecond of a save is held to have come after it.
	for x.now++; x.leaseEnds(); x.now++ {
	}
	if differs = x.sight(r); differs != "" {
		return differs
	}
	var b bytes.Buffer
	if err := x.g.Save(&b, stateKey, start.Add(x.now)); err != nil {
		return err.Error()
	}
	x.now += passed
	g, err := guard.New(x.config)
	if err != nil {
		return err.Error()
	}
	n, err := g.Load(&b, stateKey, start.Add(x.now))
	if err != nil || b.Len() > 0 || n.Skipped != nil || n.Fresh != nil || n.Passed != passed {
		return fmt.Sprintf("%v, %d bytes left, %+v", err, b.Len(), n)
	}
	for i := range x.permits {
		h := &x.permits[i]
		text, err := h.real.MarshalBinary()
		if err != nil {
			return err.Error()
		}
		if h.real, err = g.ReadPermit(text); err != nil {
			return err.Error()
		}
	}
	x.g = g
	for _, rule := range x.m.rules { // nobody can settle what was in flight
		for _, book := range rule.books {
			if book != nil {
				for _, s := range book.pool {
					s.key = doorward.KeyFromName("nobody")
					x.seen["pending across a restart"]++
				}
			}
		}
	}
	return x.sight(r)
}

// leaseEnds reports whether a lease ends now.
func (x *trial) leaseEnds() bool {
	for _, r := range x.m.rules {
		for _, b := range r.books {
			if b != nil && slices.ContainsFunc(b.pool, func(s *slip) bool { return s.end == int64(x.now) }) {
				return true
			}
		}
	}
	return false
}

// sight compares all entries, figures and a look-up with the model.
func (x *trial) sight(r guard.Request) (differs string) {
	now := start.Add(x.now)
	for _, rule := range x.m.rules {
		var want []doorward.Entry
		pending := 0
		for f, book := range rule.books {
			if book == nil || f == 1 && book == rule.books[0] {
				continue
			}
			book.advance(int64(x.now))
			pending += len(book.pool)
			for _, p := range append([]*page{book.over}, book.own...) {
				e := doorward.Entry{Key: p.key, Overflow: p == book.over, Count: max(p.count, len(p.times)), Pending: len(p.pending)}
				if rule.Window != nil {
					e.Count = book.counted(p, int64(x.now))
				}
				if e.Count+e.Pending == 0 {
					continue
				}
				if e.Count > 0 && rule.Lockout != nil {
					e.ForgottenAt = start.Add(time.Duration(p.forget))
					if rule.Lockout.Decay {
						e.ForgottenAt = start.Add(time.Duration(p.clock + int64(p.count)*book.step()))
					}
					if p.lockEnd > int64(x.now) {
						e.LockedUntil = start.Add(time.Duration(p.lockEnd))
					}
				}
				want = append(want, e)
			}
		}
		var got []doorward.Entry
		for c := guard.Cursor(0); ; {
			var err error
			if got, c, err = x.g.AppendEntries(got, rule.Name, doorward.ShowAll, c, 3, now); err != nil {
				return err.Error()
			}
			if c == 0 {
				break
			}
		}
		if rule.Lockout == nil {
			for i := range got {
				got[i].ForgottenAt, got[i].LockedUntil = time.Time{}, time.Time{}
			}
		}
		order := func(a, b doorward.Entry) int {
			return cmp.Or(bytes.Compare(must(a.Key.MarshalBinary()), must(b.Key.MarshalBinary())), cmp.Compare(a.Pending, b.Pending), cmp.Compare(a.Count, b.Count))
		}
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		if !slices.EqualFunc(got, want, func(a, b doorward.Entry) bool {
			same := a.LockedUntil.Equal(b.LockedUntil) && a.ForgottenAt.Equal(b.ForgottenAt)
			a.LockedUntil, a.ForgottenAt, b.LockedUntil, b.ForgottenAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
			return same && a == b
		}) {
			return fmt.Sprintf("at %v entries of %s\n     %+v\nmodel %+v", x.now, rule.Name, got, want)
		}
		if s, _ := x.g.Stats(rule.Name); s.Pending != pending {
			return fmt.Sprintf("at %v %d pending of %s, the model has %d", x.now, s.Pending, rule.Name, pending)
		}
	}
	_, want := x.m.ask(r, int64(x.now))
	if want == nil { // exempt or blocked
		return ""
	}
	got, err := x.g.Lookup(r, now)
	if err != nil || len(got) != len(want.charges) {
		return fmt.Sprintf("at %v Lookup: %v, %d findings, the model %d", x.now, err, len(got), len(want.charges))
	}
	for i, f := range got {
		c := want.charges[i]
		if f.Rule != c.rule.Name || f.Key != c.key || f.Decision != c.answer || f.Tracked != (c.book.find(c.key) != nil && c.book.find(c.key) != c.book.over) {
			return fmt.Sprintf("at %v Lookup: %+v, the model %v %v %+v", x.now, f, c.rule.Name, c.key, c.answer)
		}
	}
	return ""
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
