// Package recent remembers the last events about each caller and each subject: what `why`
// tells of them beside the counts.
//
// It promises a few events for whoever asks about one of them, in memory of a fixed size,
// at the cost of a copy for each event: no allocation, and nothing of the caller's own
// words is kept. It gives up on keeping all: a place holds PerPlace events, and callers that
// share a place by chance push each other's out. A flood from one network leaves all
// other places alone; one from thousands does not.
package recent

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
)

// Places is how many places there are, for callers and as many for subjects, and PerPlace
// how many events each holds.
const (
	Places   = 1024
	PerPlace = 4
)

// Events is safe for concurrent use.
type Events struct {
	seed             maphash.Seed
	callers, subject [Places]place
}

type place struct {
	mu    sync.Mutex
	n     int // that there ever were
	kept  [PerPlace]proxy.Event
	owner [PerPlace]doorward.Key
}

// New returns Events that has seen none.
func New() *Events { return &Events{seed: maphash.MakeSeed()} }

// Add remembers e.
func (v *Events) Add(e *proxy.Event) {
	k := doorward.KeyFromAddr(e.Addr)
	v.place(&v.callers, k).add(k, e)
	if e.Subject != (doorward.Key{}) {
		v.place(&v.subject, e.Subject).add(e.Subject, e)
	}
}

func (v *Events) place(all *[Places]place, k doorward.Key) *place {
	return &all[maphash.Comparable(v.seed, k)%Places]
}

func (p *place) add(k doorward.Key, e *proxy.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.n % PerPlace
	p.owner[i], p.kept[i] = k, *e
	p.kept[i].Guard = nil // which has tables
	p.kept[i].Method, p.kept[i].Path, p.kept[i].Agent, p.kept[i].Malformed = "", "", "", ""
	p.n++
}

// Of returns what is remembered of a caller, a subject, or either, oldest first. The zero
// Key is nobody.
func (v *Events) Of(caller, subject doorward.Key) []proxy.Event {
	var all []proxy.Event
	if caller != (doorward.Key{}) {
		all = v.place(&v.callers, caller).of(caller)
	}
	if subject != (doorward.Key{}) {
		for _, e := range v.place(&v.subject, subject).of(subject) {
			if doorward.KeyFromAddr(e.Addr) != caller || caller == (doorward.Key{}) { // else it may be there already
				all = append(all, e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b proxy.Event) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	return all
}

func (p *place) of(k doorward.Key) (all []proxy.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := max(0, p.n-PerPlace); i < p.n; i++ {
		if p.owner[i%PerPlace] == k {
			all = append(all, p.kept[i%PerPlace])
		}
	}
	return all
}
