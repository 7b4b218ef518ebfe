// Package hot remembers lockouts that a store told of, so that who is locked out costs
// the store nothing. It promises that a key is refused here only while the store would
// refuse it too: never past the end of its lockout, and less than a second after somebody
// unlocked it in the store, if the process is told of unlocks at all.
//
// It gives up remembering everything: it has a fixed number of places, a key has eight of
// them to be in, and where these are taken the lockout that was told of first gives way.
// What is not remembered is asked of the store.
//
// Only a lockout of the key's own is worth remembering. Nothing but an unlock ends it
// early. What is refused as Busy or Spent may be allowed any moment, and a key that the
// overflow entry refuses gets an entry of its own once there is room.
//
// A question takes no lock, writes nothing, and allocates nothing.
package hot

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
)

// How many lockouts are remembered, at some 110 bytes each.
const (
	DefaultPlaces = 16_384
	MaxPlaces     = 1 << 24
)

// ways is how many places one key may be in.
const ways = 8

// Trust is how long a lockout is believed while nobody would tell of its unlock.
const Trust = time.Second

// A Table is what one guard remembers. It is safe for concurrent use.
type Table struct {
	seed   maphash.Seed
	places []atomic.Pointer[entry]
	mask   uint64
	news   atomic.Uint64             // counts what made entries wrong
	heard  atomic.Pointer[time.Time] // until when all unlocks are known; nil is never
}

// An entry is a lockout. It does not change.
type entry struct {
	of         of
	asked, end time.Time
}

type of struct {
	rule string
	key  doorward.Key
}

// New returns an empty table of at least so many places, up to MaxPlaces. 0 is
// DefaultPlaces.
func New(places int) *Table {
	if places <= 0 {
		places = DefaultPlaces
	}
	n := uint64(ways)
	for n < uint64(min(places, MaxPlaces)) {
		n *= 2
	}
	return &Table{seed: maphash.MakeSeed(), places: make([]atomic.Pointer[entry], n), mask: n/ways - 1}
}

// set returns the places where a key may be.
func (t *Table) set(o of) []atomic.Pointer[entry] {
	i := maphash.Comparable(t.seed, o) & t.mask * ways
	return t.places[i : i+ways]
}

// News is to be taken before the store is asked, and handed to Remember with the answer.
func (t *Table) News() uint64 { return t.news.Load() }

// Remember keeps the answer d, that key is locked out by the rule of a name, to a question
// of the time asked. Any other answer is left alone, and so is one to a question from
// before an unlock. The lockout is taken to have begun when the question was asked, so it
// ends here no later than in the store.
func (t *Table) Remember(news uint64, rule string, key doorward.Key, d doorward.Decision, asked time.Time) {
	if d.Allowed || d.Reason != doorward.Locked || d.Overflow {
		return
	}
	e := &entry{of{rule, key}, asked, asked.Add(d.RetryAfter)}
	set := t.set(e.of)
	at, old := &set[0], set[0].Load()
	for i := range set {
		p := set[i].Load()
		if p == nil || p.of == e.of || !p.end.After(asked) {
			at, old = &set[i], p
			break
		}
		if p.asked.Before(old.asked) {
			at, old = &set[i], p
		}
	}
	// Whoever changes news looks at the places after that: either they see e, or this sees
	// that there is news.
	if at.CompareAndSwap(old, e) && t.news.Load() != news {
		at.CompareAndSwap(e, nil)
	}
}

// Locked returns how long the rule of a name refuses key yet, 0 if that is not known for
// sure. Alone says that the store cannot be asked: then a lockout is believed to its end,
// for nobody knows better.
func (t *Table) Locked(rule string, key doorward.Key, alone bool, now time.Time) (left time.Duration) {
	o := of{rule, key}
	set := t.set(o)
	for i := range set {
		e := set[i].Load()
		if e == nil || e.of != o || now.Before(e.asked) || !alone && !t.current(e, now) {
			continue
		}
		left = max(left, e.end.Sub(now))
	}
	return left
}

// current reports whether an unlock of e would be known, or cannot be a second old.
func (t *Table) current(e *entry, now time.Time) bool {
	if now.Sub(e.asked) < Trust {
		return true
	}
	heard := t.heard.Load()
	return heard != nil && now.Sub(*heard) < Trust
}

// Subscribed says that from now on the table is told of all unlocks. What it remembers of
// before, when some may have been missed, is forgotten.
func (t *Table) Subscribed(now time.Time) {
	t.ForgetAll("")
	t.heard.Store(&now)
}

// Heard says that the table was told of all unlocks from before now, since Subscribed.
func (t *Table) Heard(now time.Time) { t.heard.Store(&now) }

// Forget says that a key was unlocked in the rule of a name.
func (t *Table) Forget(rule string, key doorward.Key) {
	t.news.Add(1)
	o := of{rule, key}
	set := t.set(o)
	for i := range set {
		if e := set[i].Load(); e != nil && e.of == o {
			set[i].CompareAndSwap(e, nil)
		}
	}
}

// ForgetAll says that all keys were unlocked in the rule of a name, or in all rules if it
// is empty. It looks at every place.
func (t *Table) ForgetAll(rule string) {
	t.ForgetFunc(rule, func(doorward.Key) bool { return true })
}

// ForgetFunc says that the keys that are meant were unlocked in the rule of a name, or in
// all rules if it is empty. It looks at every place.
func (t *Table) ForgetFunc(rule string, meant func(doorward.Key) bool) {
	t.news.Add(1)
	for i := range t.places {
		if e := t.places[i].Load(); e != nil && (rule == "" || e.of.rule == rule) && meant(e.of.key) {
			t.places[i].CompareAndSwap(e, nil)
		}
	}
}
