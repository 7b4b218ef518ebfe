package guard_test

import (
	"slices"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

// A book is one limiter as the rules of its policy read: a list of pages, all of them
// scanned before every call. Times are nanoseconds.
type book struct {
	guard.Rule
	now      int64
	lease    int64
	capacity int
	inFlight int
	own      []*page
	over     *page
	pool     []*slip // pending, in the order in which their leases end
	all      []int64 // of a throttle: the refusals of everyone
}

// A page is what is remembered about one key. Zero means nothing.
type page struct {
	key     doorward.Key
	pending []*slip

	// Of a lockout: failures, when the first of them was counted, when any were last
	// forgotten, until when it locks, when decay began to count, when all are forgotten.
	count                                 int
	began, forgot, lockEnd, clock, forget int64
	apart                                 bool // some may be counted nowhere else

	times  []int64 // of the others: when something was charged
	origin int64   // of a window: the first request after rest
}

// A slip is a pending attempt.
type slip struct {
	key   doorward.Key // who holds it; the page may be the overflow
	page  *page
	at    int64
	end   int64
	apart bool
}

// wiped are the failures that a success cleared, none of them older than first.
type wiped struct {
	n     int
	first int64
	apart bool
}

func newBook(r guard.Rule) *book {
	b := &book{Rule: r, over: &page{}, lease: int64(time.Minute)}
	switch {
	case r.Lockout != nil:
		b.lease, b.capacity, b.inFlight = int64(r.Lockout.Lease), r.Lockout.Capacity, r.Lockout.InFlight
	case r.Throttle != nil:
		b.capacity, b.inFlight = r.Throttle.Sources, r.Throttle.InFlight
	default:
		b.capacity, b.inFlight = r.Window.Capacity, r.Window.InFlight
	}
	return b
}

// advance lets all that time does happen: leases end, in order and each dated then
// (L7), what is forgotten goes (L4, L10, R1, W1), and with it pages (T0).
func (b *book) advance(now int64) {
	b.now = now
	for len(b.pool) > 0 && b.pool[0].end <= now {
		s := b.pool[0]
		b.drop(s)
		b.fade(s.page, s.end)
		b.fail(s.page, s.end, s.apart, true)
	}
	b.fade(b.over, now)
	for _, p := range b.own {
		b.fade(p, now)
	}
	b.own = slices.DeleteFunc(b.own, func(p *page) bool { return p.count == 0 && len(p.times) == 0 && len(p.pending) == 0 })
	if b.Throttle != nil {
		b.all = b.running(b.all, now)
	}
}

// check answers as an attempt of k would be answered.
func (b *book) check(k doorward.Key) doorward.Decision {
	_, d := b.judge(k)
	return d
}

func (b *book) reserve(k doorward.Key, apart bool) (doorward.Decision, *slip) {
	p, d := b.judge(k)
	if d.Allowed && len(b.pool) == b.inFlight { // T7
		d = b.busy(b.pool, false)
	}
	if !d.Allowed {
		return d, nil
	}
	if p == nil {
		p = &page{key: k}
		b.own = append(b.own, p)
	}
	s := &slip{key: k, page: p, at: b.now, end: b.now + b.lease, apart: apart}
	p.pending = append(p.pending, s)
	b.pool = append(b.pool, s)
	if b.Window != nil {
		if len(p.times) == 0 {
			p.origin = b.now
		}
		p.times = append(p.times, b.now)
	}
	return d, s
}

// settle ends s, and returns what a success cleared of a lockout or a throttle.
func (b *book) settle(k doorward.Key, s *slip, o doorward.Outcome, apart bool) (c wiped) {
	if !slices.Contains(b.pool, s) || s.key != k {
		return c
	}
	b.drop(s)
	p := s.page
	switch {
	case o == doorward.Void && b.Window != nil: // W5
		if i := slices.Index(p.times, s.at); i >= 0 {
			p.times = slices.Delete(p.times, i, i+1)
		}
	case o == doorward.Void || b.Window != nil:
	case o != doorward.Succeeded:
		b.fail(p, b.now, s.apart || apart, o == doorward.Failed)
	case p == b.over: // T4
	case b.Throttle != nil: // R4
		c.n, p.times = len(p.times), nil
	case p.count > 0: // L6
		c = wiped{p.count, p.began, p.apart}
		*p = page{key: p.key, pending: p.pending}
	}
	return c
}

// giveBack takes back those of these failures that k surely still counts, the most of
// several (G3).
func (b *book) giveBack(k doorward.Key, cs []wiped) bool {
	p := b.find(k)
	if p == nil || b.now < p.lockEnd {
		return false
	}
	most := 0
	for _, c := range cs {
		if !c.apart && c.first >= p.forgot {
			most = max(most, c.n)
		}
	}
	if p.count -= most; p.count <= 0 {
		*p = page{key: p.key, pending: p.pending}
	}
	return most > 0
}

// judge finds the page that k is charged to and asks it. It is nil if k would get a
// new one.
func (b *book) judge(k doorward.Key) (*page, doorward.Decision) {
	if p := b.find(k); p != nil {
		return p, b.answer(p, false)
	}
	strangers := 0
	for _, p := range b.own {
		if !always(p.key) {
			strangers++
		}
	}
	if always(k) || strangers < b.capacity { // T3, T5
		return nil, b.answer(&page{}, false)
	}
	return b.over, b.answer(b.over, true) // T4
}

func (b *book) find(k doorward.Key) *page {
	for _, p := range b.own {
		if p.key == k {
			return p
		}
	}
	return nil
}

var loopback4, loopback6 = doorward.KeyFromAddr(from("127.0.0.1").Addr), doorward.KeyFromAddr(from("::1").Addr)

func always(k doorward.Key) bool { return k == loopback4 || k == loopback6 }

func (b *book) answer(p *page, over bool) doorward.Decision {
	no := doorward.Decision{Overflow: over}
	left := 0
	switch {
	case b.Lockout != nil:
		if b.now < p.lockEnd { // L3
			no.Reason, no.RetryAfter = doorward.Locked, time.Duration(p.lockEnd-b.now)
			return no
		}
		if left = b.Lockout.FreeFailures - p.count - len(p.pending); left <= 0 && len(p.pending) > 0 { // L6
			return b.busy(p.pending, over)
		}
	case b.Throttle != nil: // R2
		mine, everyones := b.Throttle.PerSource-len(p.times), b.Throttle.Global-len(b.all)
		left = min(mine-len(p.pending), everyones-len(b.pool))
		switch {
		case mine <= 0:
			no.Reason, no.RetryAfter = doorward.Spent, b.wait(p)
			return no
		case everyones <= 0:
			no.Reason, no.RetryAfter = doorward.Ceiling, b.wait(p)
			return no
		case left <= 0 && len(p.pending) > 0:
			return b.busy(p.pending, over)
		case left <= 0:
			return b.busy(b.pool, over)
		}
	default:
		if left = b.Window.Limit - len(p.times); left <= 0 {
			at := b.expiry(p, p.times[0])
			for _, t := range p.times {
				if at = b.expiry(p, t); b.counted(p, at) < b.Window.Limit {
					break
				}
			}
			no.Reason, no.RetryAfter = doorward.Spent, time.Duration(at-b.now)
			return no
		}
	}
	return doorward.Decision{Allowed: true, Remaining: max(0, left-1), Overflow: over}
}

// wait is the time until there is room in a throttle if nothing happens (D3); where
// what is pending fills a limit alone it is the later end of a window that is full.
func (b *book) wait(p *page) time.Duration {
	length := int64(b.Throttle.Window)
	var ends []int64
	if len(p.times) > 0 && len(p.times)+len(p.pending) >= b.Throttle.PerSource {
		ends = append(ends, p.times[0]+length)
	}
	if len(b.all) > 0 && len(b.all)+len(b.pool) >= b.Throttle.Global {
		ends = append(ends, b.all[0]+length)
	}
	slices.Sort(ends)
	for _, at := range ends {
		if len(b.running(p.times, at))+len(p.pending) < b.Throttle.PerSource && len(b.running(b.all, at))+len(b.pool) < b.Throttle.Global {
			return time.Duration(at - b.now)
		}
	}
	return time.Duration(ends[len(ends)-1] - b.now)
}

// busy refuses for a second, or until the first of these leases ends (D3).
func (b *book) busy(ss []*slip, over bool) doorward.Decision {
	wait := min(time.Second, time.Duration(ss[0].end-b.now))
	return doorward.Decision{Reason: doorward.Busy, RetryAfter: wait, Overflow: over}
}

func (b *book) drop(s *slip) {
	is := func(x *slip) bool { return x == s }
	b.pool = slices.DeleteFunc(b.pool, is)
	s.page.pending = slices.DeleteFunc(s.page.pending, is)
}

// fade forgets what is forgotten by now.
func (b *book) fade(p *page, now int64) {
	switch {
	case b.Throttle != nil:
		p.times = b.running(p.times, now)
	case b.Window != nil:
		p.times = slices.DeleteFunc(p.times, func(t int64) bool { return b.expiry(p, t) <= now })
	default:
		if p.lockEnd <= now {
			p.forgot = max(p.forgot, p.lockEnd)
		}
		if b.Lockout.Decay {
			for p.count > 0 && p.clock+b.step() <= now {
				p.count--
				p.clock += b.step()
				p.forgot = p.clock
			}
		} else if p.forget <= now {
			p.count = 0
		}
		if p.count == 0 {
			*p = page{key: p.key, pending: p.pending}
		}
	}
}

// fail counts a failure at now: of a lockout (L2, L10), or of a throttle (R3).
func (b *book) fail(p *page, now int64, apart, everyones bool) {
	switch {
	case b.Window != nil:
		return
	case b.Throttle != nil:
		p.times = append(b.running(p.times, now), now)
		if everyones {
			b.all = append(b.running(b.all, now), now)
		}
		return
	}
	l := b.Lockout
	if p.count == 0 {
		p.began, p.forgot, p.clock = now, now, now
	}
	p.apart = p.apart || apart
	p.count++
	length := l.FirstLockout
	for n := l.FreeFailures; n < p.count; n++ {
		if length >= l.MaxLockout && l.Decay {
			p.count = n // no higher than the first that gives MaxLockout
		}
		length = min(2*length, l.MaxLockout)
	}
	p.forget = now + int64(l.Window)
	if p.count >= l.FreeFailures {
		p.lockEnd = now + int64(length)
		p.clock = p.lockEnd
		p.forget = p.lockEnd + int64(l.Window)
	}
}

func (b *book) step() int64 { return max(1, int64(b.Lockout.Window)/int64(b.Lockout.FreeFailures)) }

// running is ts, or nothing if the window that the first of them began has ended (R1).
func (b *book) running(ts []int64, now int64) []int64 {
	if len(ts) > 0 && ts[0]+int64(b.Throttle.Window) <= now {
		return nil
	}
	return ts
}

// expiry is when a request at t counts no more (W1, W2).
func (b *book) expiry(p *page, t int64) int64 {
	if !b.Window.Sliding {
		return p.origin + int64(b.Window.Window)
	}
	width := (int64(b.Window.Window) + 7) / 8
	return p.origin + ((t-p.origin)/width+9)*width
}

func (b *book) counted(p *page, at int64) (n int) {
	for _, t := range p.times {
		if at < b.expiry(p, t) {
			n++
		}
	}
	return n
}

// moments are the instants ahead at which something ends on its own.
func (b *book) moments() (ms []int64) {
	for _, s := range b.pool {
		ms = append(ms, s.end)
	}
	for _, p := range append([]*page{b.over}, b.own...) {
		switch {
		case b.Throttle != nil && len(p.times) > 0:
			ms = append(ms, p.times[0]+int64(b.Throttle.Window))
		case b.Window != nil:
			for _, t := range p.times {
				ms = append(ms, b.expiry(p, t))
			}
		case p.count > 0:
			ms = append(ms, p.lockEnd, p.forget)
			if b.Lockout.Decay {
				ms[len(ms)-1] = p.clock + b.step()
			}
		}
	}
	if len(b.all) > 0 {
		ms = append(ms, b.all[0]+int64(b.Throttle.Window))
	}
	return ms
}
