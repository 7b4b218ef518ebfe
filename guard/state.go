package guard

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	ledger "github.com/doorward/doorward/internal/limiter"
	"github.com/doorward/doorward/internal/seal"
)

// Why a state cannot be read.
var (
	ErrForeign   = seal.ErrForeign   // it is something else
	ErrVersion   = seal.ErrVersion   // it was written by a later program
	ErrKey       = seal.ErrKey       // it was written with another key
	ErrDamaged   = seal.ErrDamaged   // it is not as it was written
	ErrTruncated = seal.ErrTruncated // its end is missing
	ErrRoom      = ledger.ErrRoom    // it holds more than Capacity or InFlight of a rule
)

// MinStateKey is how many bytes the key of a state must have at least.
const MinStateKey = seal.MinKey

// What a section of a state begins with.
const (
	noSection = iota
	lockoutSection
	throttleSection
	windowSection
)

// section returns the kind of r's policy.
func (r *rule) section() byte {
	switch {
	case r.Lockout != nil:
		return lockoutSection
	case r.Throttle != nil:
		return throttleSection
	}
	return windowSection
}

// Save writes all that g remembers to w, sealed with key, which must be random and at
// least MinStateKey bytes: nobody without it can read or change a name, an address or a
// count. Give each guard a key of its own, or their states can be exchanged.
//
// It may be called at any time. Attempts go on meanwhile: no lock is held for more than
// MaxPage entries, and what happens after now may be in the state or not. It allocates a
// few buffers, however much there is. After an error what was written is no state: write
// to a file of another name, and rename it.
func (g *Guard) Save(w io.Writer, key []byte, now time.Time) error {
	if g.config.Store != nil {
		return ErrStore
	}
	s, err := seal.NewWriter(w, key)
	if err != nil {
		return fmt.Errorf("guard: state: %w", err)
	}
	at := now.Round(0)
	b := binary.BigEndian.AppendUint64(nil, uint64(at.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(at.Nanosecond()))
	for i := range g.rules {
		for _, l := range g.rules[i].ledgers() {
			l.Tick(now)
		}
	}
	// Pairs come last. What a success clears on a pair is given back to other rules, so
	// what a pair counted after they were written is marked.
	for _, pairs := range []bool{false, true} {
		for i := range g.rules {
			r := &g.rules[i]
			if (r.Per == Pair) != pairs {
				continue
			}
			for f, l := range r.ledgers() {
				b = append(b, r.section(), byte(f), byte(r.Per), byte(r.V4), byte(r.V6), byte(len(r.Name)))
				s.Write(append(b, r.Name...)) // an error stays
				if b = b[:0]; err == nil {
					err = l.Save(s, pairs, now)
				}
			}
		}
	}
	s.Write(append(b, noSection))
	if e := s.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("guard: state: %w", err)
	}
	return nil
}

// Loaded says what Load did.
type Loaded struct {
	Saved     time.Time     // when the state was written, by the clock of then
	Passed    time.Duration // how long ago that is, 0 if the clock was set back since
	SetBack   time.Duration // by how much it was, at least
	Entries   int           // keys restored
	Forgotten int           // keys that meant nothing any more
	Pending   int           // attempts that were in flight: nobody can settle them now
	Skipped   []string      // rules of the state that g does not have, or with another key or policy
	Fresh     []string      // rules of g that the state does not have: they stay as they are
}

// Load makes g remember what Save wrote: for each rule of the same name, key and kind of
// policy, under its limits of now as after Reload. Call it before the guard is used; what
// these rules counted before is gone.
//
// Time that passed since counts, by the wall clock. If that was set back, none has passed:
// no lockout or window ends later than it would have from the moment the state was
// written. If it was set forward, they end early: nothing here can know.
// Attempts that were in flight count as failed when their leases end, like those whose
// permits are dropped.
//
// An error says what is wrong with the state, and leaves g as it was. ErrRoom is one:
// dropping some keys would let their lockouts be forgotten, so restore the Capacity or go
// without the state. Reading takes the memory of the tables that are restored, whatever
// the state says, and nothing in it is believed before it was authenticated.
func (g *Guard) Load(r io.Reader, key []byte, now time.Time) (Loaded, error) {
	if g.config.Store != nil {
		return Loaded{}, ErrStore
	}
	n, commits, err := g.read(r, key, now)
	if err != nil {
		return Loaded{}, fmt.Errorf("guard: state %w", err)
	}
	for _, commit := range commits {
		commit()
	}
	return n, nil
}

func (g *Guard) read(r io.Reader, key []byte, now time.Time) (n Loaded, commits []func(), err error) {
	s, err := seal.NewReader(r, key)
	if err != nil {
		return n, nil, err
	}
	b, err := s.Next(12)
	if err != nil {
		return n, nil, err
	}
	n.Saved = time.Unix(int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint32(b[8:])))
	n.Passed = now.Round(0).Sub(n.Saved)
	if n.Passed < 0 {
		n.Passed, n.SetBack = 0, n.Saved.Sub(now.Round(0))
	}
	seen := map[*rule]uint8{}
	for sections := 0; ; sections++ {
		if b, err = s.Next(1); err != nil {
			return n, nil, err
		}
		kind := b[0]
		if kind == noSection {
			break
		}
		if sections == 2*MaxRules {
			return n, nil, ErrDamaged
		}
		if b, err = s.Next(5); err != nil {
			return n, nil, err
		}
		f, per, v4, v6 := b[0], Per(b[1]), int(int8(b[2])), int(int8(b[3]))
		if b, err = s.Next(int(b[4])); err != nil {
			return n, nil, err
		}
		name := string(b)
		rule, _ := g.find(name)
		if !validName(name) || f > 1 || rule != nil && seen[rule]&(1<<f) != 0 {
			return n, nil, ErrDamaged
		}
		if rule == nil || rule.section() != kind || !rule.sameKey(Rule{Per: per, V4: v4, V6: v6}) || int(f) >= len(rule.ledgers()) {
			if err = ledger.Skip(s); err != nil {
				return n, nil, err
			}
			n.Skipped = appendOnce(n.Skipped, name)
			continue
		}
		seen[rule] |= 1 << f
		part, commit, err := rule.ledgers()[f].Load(s, n.Passed, now)
		if err != nil {
			return n, nil, fmt.Errorf("of rule %q %w", name, err)
		}
		commits = append(commits, commit)
		n.Entries += part.Entries
		n.Forgotten += part.Forgotten
		n.Pending += part.Pending
	}
	for i := range g.rules {
		if r := &g.rules[i]; seen[r] == 0 {
			n.Fresh = append(n.Fresh, r.Name)
		}
	}
	return n, commits, s.Close()
}

// appendOnce appends what is not the last already.
func appendOnce(names []string, name string) []string {
	if len(names) > 0 && names[len(names)-1] == name {
		return names
	}
	return append(names, name)
}
