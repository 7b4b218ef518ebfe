package limiter

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/internal/seal"
	"github.com/doorward/doorward/internal/table"
)

// A Policy is one of a table that can also say what its states mean to people, and
// write them down.
type Policy[S any] interface {
	table.Policy[S]
	// Figures returns what s counts at now, and until when it refuses, 0 if it does not.
	Figures(s S, now int64) (count, locked int64)
	// AppendState appends s to b, always as many bytes. What s counted at since or later,
	// or may have, is counted nowhere else for sure.
	AppendState(b []byte, s S, since, now int64) []byte
	// ReadState reads what AppendState wrote under p, and reports whether it can be.
	ReadState(b []byte) (S, bool)
	// AppendOwn appends what the policy keeps of its own, at most 255 bytes. It is called
	// under the table's lock.
	AppendOwn(b []byte) []byte
	// ReadOwn reads what AppendOwn wrote. It returns the policy that states were written
	// under, as far as that matters to read them, and the one that goes on from it.
	ReadOwn(b []byte) (written, next Policy[S], ok bool)
}

// A Ledger is what package guard shows and saves of any limiter.
type Ledger interface {
	// Stats returns the live figures. It takes constant time.
	Stats() doorward.Stats
	// AppendEntries appends to dst the live entries in the next few places from a place
	// on, at most MaxPage, of which show says, and returns the place to go on from, 0 at
	// the end. Under the lock it looks at these places only.
	AppendEntries(dst []doorward.Entry, show doorward.Show, from uint32, places int, now time.Time) ([]doorward.Entry, uint32)
	// Look returns what is known of k, whether it has an entry of its own, and what Check
	// would answer. It charges and counts nothing.
	Look(k doorward.Key, now time.Time) (doorward.Entry, bool, doorward.Decision)
	// Peek answers as Check does, and does not count the answer.
	Peek(k doorward.Key, now time.Time) doorward.Decision
	Unlock(k doorward.Key)
	Clear()
	// Tick lets the limiter know that it is now.
	Tick(now time.Time)
	// Save writes all that is live, by pages. With apart, what was counted after now is
	// marked as counted nowhere else.
	Save(w io.Writer, apart bool, now time.Time) error
	// Load reads what Save wrote when so much time has passed since. Commit puts it in
	// the place of what there is.
	Load(r *seal.Reader, passed time.Duration, now time.Time) (n Loaded, commit func(), err error)
}

// Loaded says what Load read.
type Loaded struct{ Entries, Pending, Forgotten int }

// MaxPage is how many places are looked at under the lock at a time.
const MaxPage = 256

// ErrRoom means that there is more to remember than a limiter can.
var ErrRoom = errors.New("holds more than there is room for")

// policy returns p with all that it can do.
func (l Limiter[S]) policy(p table.Policy[S]) Policy[S] { return p.(Policy[S]) }

// Stats returns the live figures.
func (l Limiter[S]) Stats() doorward.Stats {
	s, tracked, pending := l.table.Stats()
	return doorward.Stats{
		Tracked: tracked, Pending: pending, OverflowCharged: s.Charged, OverflowRefused: s.Refused,
		Reclaimed: s.Reclaimed, PoolFull: s.PoolFull,
	}
}

// AppendEntries is described in Ledger.
func (l Limiter[S]) AppendEntries(dst []doorward.Entry, show doorward.Show, from uint32, places int, now time.Time) ([]doorward.Entry, uint32) {
	var page [MaxPage]table.Item[S]
	n, next, p, at := l.table.Page(from, page[:max(1, min(places, MaxPage))], now)
	var buf [keyLen]byte
	for i := range page[:n] {
		if e := entry(l.policy(p), &page[i], buf[:0], at, now); show.Includes(e) {
			dst = append(dst, e)
		}
	}
	return dst, next
}

// Look is described in Ledger.
func (l Limiter[S]) Look(k doorward.Key, now time.Time) (e doorward.Entry, known bool, d doorward.Decision) {
	it, known, a, p, at := l.table.Look(key(k), now)
	fill(&d, a)
	var buf [keyLen]byte
	e = entry(l.policy(p), &it, buf[:0], at, now)
	e.Key = k
	return e, known, d
}

// Peek is described in Ledger.
func (l Limiter[S]) Peek(k doorward.Key, now time.Time) (d doorward.Decision) {
	fill(&d, l.table.Peek(key(k), now))
	return d
}

// entry says in wall time what is known of a key at the time at on the table's clock.
func entry[S any](p Policy[S], it *table.Item[S], buf []byte, at int64, now time.Time) doorward.Entry {
	wall := func(t int64) time.Time { return now.Round(0).Add(time.Duration(t - at)) }
	e := doorward.Entry{Overflow: it.Overflow, Pending: it.Pending}
	if !it.Overflow {
		e.Key, _ = back(it.Key, buf)
	}
	if forget := p.Forget(&it.State); forget > at {
		count, locked := p.Figures(it.State, at)
		e.Count, e.ForgottenAt = int(count), wall(forget)
		if locked > at {
			e.LockedUntil = wall(locked)
		}
	}
	return e
}

// back is the other way from key, by way of buf. It reports false for what no key is.
func back(k table.Key, buf []byte) (out doorward.Key, ok bool) {
	switch {
	case k == table.Key{Kind: table.Loopback, Width: table.Loopback4}:
		return doorward.KeyFromAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})), true
	case k == table.Key{Kind: table.Loopback, Width: table.Loopback6}:
		return doorward.KeyFromAddr(netip.IPv6Loopback()), true
	}
	err := out.UnmarshalBinary(appendKey(buf, k))
	return out, err == nil && !out.IsLoopback()
}

const keyLen = 18

func appendKey(b []byte, k table.Key) []byte {
	b = append(b, k.Kind, k.Width)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, k.Hi), k.Lo)
}

func readKey(b []byte) table.Key {
	return table.Key{Kind: b[0], Width: b[1], Hi: binary.BigEndian.Uint64(b[2:]), Lo: binary.BigEndian.Uint64(b[10:])}
}

// Tick lets the table know that it is now.
func (l Limiter[S]) Tick(now time.Time) { l.table.Tick(now) }

// What a record begins with: whose it is, and whether it is tagged. 0 ends the list.
const (
	ofKey    = 1
	ofAll    = 2 // of the overflow entry; the key means nothing
	isTagged = 4
)

// farthest is how long before its beginning a clock may be asked for now.
const farthest = 1 << 62

// Save is described in Ledger. What it writes: now on the table's clock (8 bytes);
// reservations of kind, key and end (1, 18, 8); 0; the length of a state and of what the
// policy keeps of its own, and that; entries of kind, key and state; 0; the latest time on
// the table's clock (8).
//
// Reservations come first: one that ends while this runs is then counted twice, never
// not at all.
func (l Limiter[S]) Save(w io.Writer, apart bool, now time.Time) error {
	clock := min(max(l.table.Tick(now), -farthest), table.Never-1)
	since := int64(table.Never)
	if apart {
		since = clock
	}
	var err error
	b := make([]byte, 0, 512)
	put := func() {
		if err == nil {
			_, err = w.Write(b)
		}
		b = b[:0]
	}
	b = binary.BigEndian.AppendUint64(b, uint64(clock))
	held := make([]table.Held, MaxPage)
	for n, from := 0, uint32(0); ; {
		n, from = l.table.Pending(from, held, now)
		for _, h := range held[:n] {
			b = append(b, kindOf(h.Overflow, h.Tagged))
			b = binary.BigEndian.AppendUint64(appendKey(b, h.Key), uint64(h.End))
			put()
		}
		if from == 0 || err != nil {
			break
		}
	}
	var none S
	p := l.policy(l.table.Policy())
	b = append(b, 0, byte(len(p.AppendState(nil, none, since, 0))), 0)
	ownAt := len(b)
	l.table.View(func(p table.Policy[S]) { b = l.policy(p).AppendOwn(b) })
	b[ownAt-1] = byte(len(b) - ownAt)
	put()
	page := make([]table.Item[S], MaxPage)
	latest := max(0, clock)
	for from := uint32(0); ; {
		n, next, p, at := l.table.Page(from, page, now)
		latest = max(latest, at)
		for i := range page[:n] {
			if it := &page[i]; p.Forget(&it.State) > at {
				b = appendKey(append(b, kindOf(it.Overflow, false)), it.Key)
				b = l.policy(p).AppendState(b, it.State, since, at)
				put()
			}
		}
		if from = next; from == 0 || err != nil {
			break
		}
	}
	b = binary.BigEndian.AppendUint64(append(b, 0), uint64(latest))
	put()
	return err
}

func kindOf(overflow, tag bool) byte {
	kind := byte(ofKey)
	if overflow {
		kind = ofAll
	}
	if tag {
		kind |= isTagged
	}
	return kind
}

// Load is described in Ledger.
func (l Limiter[S]) Load(r *seal.Reader, passed time.Duration, now time.Time) (n Loaded, commit func(), err error) {
	f := fields{r: r}
	clock := int64(f.uint64())
	if clock < -farthest || clock == table.Never {
		return n, nil, seal.ErrDamaged
	}
	held, err := l.readPending(&f)
	if err != nil {
		return n, nil, err
	}
	var none S
	p := l.policy(l.table.Policy())
	stateLen, ownLen := int(f.byte()), int(f.byte())
	written, next, ok := p.ReadOwn(f.next(ownLen))
	switch {
	case f.err != nil:
		return n, nil, f.err
	case !ok || stateLen != len(p.AppendState(nil, none, table.Never, 0)):
		return n, nil, seal.ErrDamaged
	}
	// The clock goes on from where it was, so states need not change.
	today := min(table.Add(clock, int64(passed)), table.Never-1)
	staged := l.table.Stage(written, now.Add(-time.Duration(today)), max(0, clock))
	var s S
	for f.err == nil {
		kind := f.byte()
		if kind == 0 {
			break
		}
		k, over, _, ok := f.key(kind)
		readable := false
		s, readable = written.ReadState(f.next(stateLen))
		switch {
		case f.err != nil:
		case !ok || !readable || kind&isTagged != 0:
			return n, nil, seal.ErrDamaged
		case written.Forget(&s) <= today && !over && !pends(held, k):
			n.Forgotten++
		case !staged.Put(k, over, &s):
			return n, nil, fmt.Errorf("%w: more live keys than its capacity", ErrRoom)
		case !over:
			n.Entries++
		}
	}
	latest := int64(f.uint64())
	switch {
	case f.err != nil:
		return n, nil, f.err
	case latest < max(0, clock) || latest == table.Never:
		return n, nil, seal.ErrDamaged
	}
	staged.Advance(latest)
	for i := range held { // one that ended while it was written must not end before what came then
		held[i].End = max(held[i].End, latest)
	}
	slices.SortStableFunc(held, func(a, b table.Held) int { return cmp.Compare(a.End, b.End) })
	for _, h := range held {
		staged.Hold(h)
	}
	n.Pending = len(held)
	return n, func() {
		staged.Reload(next, time.Duration(l.table.Lease()))
		l.table.Replace(staged)
	}, nil
}

// readPending returns the reservations, by key.
func (l Limiter[S]) readPending(f *fields) (held []table.Held, err error) {
	room := l.table.InFlight()
	for {
		kind := f.byte()
		if kind == 0 || f.err != nil {
			break
		}
		k, over, tag, ok := f.key(kind)
		h := table.Held{Key: k, Overflow: over, Tagged: tag, End: int64(f.uint64())}
		switch {
		case f.err != nil:
		case !ok || h.End < 0:
			return nil, seal.ErrDamaged
		case len(held) == room:
			return nil, fmt.Errorf("%w: more reservations than may be in flight", ErrRoom)
		default:
			held = append(held, h)
		}
	}
	slices.SortStableFunc(held, func(a, b table.Held) int { return compareKeys(a.Key, b.Key) })
	return held, f.err
}

// pends reports whether something is pending for k.
func pends(held []table.Held, k table.Key) bool {
	i, found := slices.BinarySearchFunc(held, k, func(h table.Held, k table.Key) int { return compareKeys(h.Key, k) })
	for ; found && i < len(held) && held[i].Key == k; i++ {
		if !held[i].Overflow {
			return true
		}
	}
	return false
}

func compareKeys(a, b table.Key) int {
	return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Width, b.Width))
}

// Skip reads what Save wrote and does nothing with it.
func Skip(r *seal.Reader) error {
	f := fields{r: r}
	f.next(8)
	for f.err == nil && f.byte() != 0 {
		f.next(keyLen + 8)
	}
	stateLen, ownLen := int(f.byte()), int(f.byte())
	f.next(ownLen)
	for f.err == nil && f.byte() != 0 {
		f.next(keyLen + stateLen)
	}
	f.next(8)
	return f.err
}

// fields reads numbers and remembers the first error. After one they are 0.
type fields struct {
	r   *seal.Reader
	err error
	buf [keyLen]byte
}

func (f *fields) next(n int) []byte {
	var b []byte
	if f.err == nil {
		b, f.err = f.r.Next(n)
	}
	if f.err != nil {
		return make([]byte, n)
	}
	return b
}

func (f *fields) byte() byte     { return f.next(1)[0] }
func (f *fields) uint64() uint64 { return binary.BigEndian.Uint64(f.next(8)) }

// key reads the key of a record of a kind, and reports whether both can be.
func (f *fields) key(kind byte) (k table.Key, over, tag, ok bool) {
	k = readKey(f.next(keyLen))
	switch kind &^ isTagged {
	case ofKey:
		_, ok = back(k, f.buf[:0])
	case ofAll:
		over, ok = true, k == table.Key{}
	}
	return k, over, kind&isTagged != 0, ok
}
