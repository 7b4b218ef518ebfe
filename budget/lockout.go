package budget

import "iter"

// A ladder is the lengths of lockouts, none shorter than the one before. The last is the
// length of all that follow.
type ladder []int64

// doubling returns a ladder of lengths that double up to most.
func doubling(first, most int64) ladder {
	l := ladder{first}
	for d := first; d < most; {
		if d > most/2 {
			d = most
		} else {
			d *= 2
		}
		l = append(l, d)
	}
	return l
}

// length returns the length of lockout i, the first of which is 0.
func (l ladder) length(i int64) int64 { return l[min(i, int64(l.top()))] }

// top returns the first lockout of the greatest length.
func (l ladder) top() int { return len(l) - 1 }

func (l ladder) longest() int64 { return l[l.top()] }

// sum returns how long the first i lockouts are together. i is at most top() + 1.
func (l ladder) sum(i int) int64 {
	var d int64
	for _, length := range l[:i] {
		d = add(d, length)
	}
	return d
}

// climb returns how many attempts n keys, that each start at the bottom, can pay for
// with the time they have in common: an attempt costs the lockout before it. Longer
// lockouts come after shorter ones, so the cheapest first is the most.
func (l ladder) climb(n, time int64) (paid int64) {
	for _, length := range l[:l.top()] {
		steps := min(n, time/length)
		paid = add(paid, steps)
		time -= steps * length
		if steps < n {
			return paid
		}
	}
	return add(paid, time/l.longest())
}

// forgetting is a lockout without Decay. Whatever a caller does is a sequence of
// rounds from an empty entry. A round makes free-1 attempts at once, then any number
// of attempts each of which starts a lockout and the next of which waits for its end,
// and then waits window until all is forgotten. The last round waits for nothing after
// its last attempt.
//
// So for m rounds before the last the time that m windows leave is spent on lockouts
// of m+1 ladders, the cheapest first, and one more attempt is free: the one that ends
// the last round. All that is left is to choose m.
type forgetting struct {
	ladder
	free, window int64
}

func (c forgetting) most(span int64) int64 { return c.with(c.rounds(span), span) }

// with returns the most attempts with m rounds before the last.
func (c forgetting) with(m, span int64) int64 {
	return add(add(mul(m, c.free-1), c.free), c.climb(m+1, span-1-m*c.window))
}

// rounds returns the best number of rounds before the last. While the highest rung
// that all ladders reach stays the same, with is linear in m but for one rounding, so
// it rises or falls all along: the best is at one of the ends of such a stretch.
func (c forgetting) rounds(span int64) (best int64) {
	last := (span - 1) / c.window
	var most int64
	try := func(m int64) {
		if m >= 0 && m <= last {
			if n := c.with(m, span); n > most {
				most, best = n, m
			}
		}
	}
	try(0)
	try(last)
	for i := 1; i <= c.top()+1; i++ {
		// m rounds reach rung i if (m+1) * sum + m * window <= span - 1.
		if sum := c.sum(i); sum < span {
			m := (span - 1 - sum) / add(c.window, sum)
			try(m)
			try(m + 1)
		}
	}
	return best
}

func (c forgetting) rate() Rate {
	best := Rate{1, duration(c.longest())} // riding the longest lockout
	for i := range c.top() + 2 {
		r := Rate{c.free - 1 + int64(i), duration(add(c.window, c.sum(i)))}
		if r.Compare(best) > 0 {
			best = r
		}
	}
	return best
}

func (c forgetting) plan(span int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		m := c.rounds(span)
		// Every ladder takes full rungs, some one more; the last takes what is left.
		rest := c.climb(m+1, span-1-m*c.window)
		full := min(rest/(m+1), int64(c.top()))
		rest -= full * (m + 1)
		var more int64 // of the rounds before the last
		if full < int64(c.top()) {
			more = min(rest, m)
			rest -= more
		}
		var at int64
		for i := range m {
			n := full
			if i < more {
				n++
			}
			if at = c.round(at, n, yield); at < 0 {
				return
			}
			at += c.window
		}
		c.round(at, full+rest+1, yield)
	}
}

// round makes the attempts of one round, of which the last n start a lockout. It
// returns the end of the last lockout, -1 if nobody wants to know.
func (c forgetting) round(at, n int64, yield func(int64, int64) bool) int64 {
	if !yield(at, c.free-1+min(n, 1)) {
		return -1
	}
	for i := range n {
		if i > 0 && !yield(at, 1) {
			return -1
		}
		at = add(at, c.length(i))
	}
	return at
}

// decaying is a lockout with Decay. A caller who has made free-1 attempts gets one
// more for each step that is waited, or pays for attempts with lockouts, ever longer
// ones. Steps that lower the count after a lockout buy nothing that the same wait
// before it would not have bought, so all steps come first; but with one free failure
// there is nothing below the lockout to wait for, and a round is the first lockout
// and a step.
type decaying struct {
	ladder
	free, step int64
}

// wait returns what an attempt costs that no lockout is left over from.
func (c decaying) wait() int64 {
	if c.free == 1 {
		return add(c.step, c.ladder[0])
	}
	return c.step
}

// split returns how many attempts are paid for with waits and how many with lockouts:
// the cheapest first.
func (c decaying) split(span int64) (waits, lockouts int64) {
	time, wait := span-1, c.wait()
	for _, d := range c.ladder[:c.top()] {
		switch {
		case d >= wait:
			return time / wait, lockouts
		case d > time:
			return 0, lockouts
		default:
			time -= d
			lockouts++
		}
	}
	if c.longest() >= wait {
		return time / wait, lockouts
	}
	return 0, lockouts + time/c.longest()
}

func (c decaying) most(span int64) int64 {
	waits, lockouts := c.split(span)
	return add(c.free, add(waits, lockouts))
}

func (c decaying) rate() Rate { return Rate{1, duration(min(c.wait(), c.longest()))} }

func (c decaying) plan(span int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		waits, lockouts := c.split(span)
		var at int64
		if c.free > 1 {
			if !yield(0, c.free-1) {
				return
			}
			for range waits {
				at += c.step
				if !yield(at, 1) {
					return
				}
			}
		} else {
			for range waits {
				if !yield(at, 1) {
					return
				}
				at += c.wait()
			}
		}
		for i := range lockouts + 1 {
			if !yield(at, 1) {
				return
			}
			at = add(at, c.length(i))
		}
	}
}
