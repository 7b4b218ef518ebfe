package budget

import "iter"

// fixed counts in windows that start with their first request. What a caller can do
// about it is to have the window end right after the span began, for the price of the
// one request before the span that started it.
type fixed struct{ limit, window int64 }

// windows returns how many windows start within a span, the first at its beginning.
func (c fixed) windows(span int64) int64 { return (span-1)/c.window + 1 }

func (c fixed) most(span int64) int64 {
	most := mul(c.limit, c.windows(span))
	if span > 1 {
		most = max(most, add(c.limit-1, mul(c.limit, c.windows(span-1))))
	}
	return most
}

func (c fixed) rate() Rate { return Rate{c.limit, duration(c.window)} }

func (c fixed) plan(span int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		var at int64
		if c.most(span) > mul(c.limit, c.windows(span)) {
			if !yield(1-c.window, 1) || !yield(0, c.limit-1) {
				return
			}
			at = 1
		}
		for ; at < span; at += c.window {
			if !yield(at, c.limit) || at > span-c.window {
				return
			}
		}
	}
}

// together is how many slices count together under a sliding window: the current one and
// eight before it.
const together = 9

// sliding counts in slices that lie end to end from the first request after rest. No
// nine slices in a row hold more than limit, so a span that touches n of them holds at
// most limit for each nine begun. A span touches the most if it begins just before the
// end of a slice; for that, one request must have come before it.
type sliding struct{ limit, slice int64 }

func (c sliding) bursts(slicesTouched int64) int64 { return mul(c.limit, (slicesTouched-1)/together+1) }

// rested and early return the most requests of spans that begin with a slice, and just
// before the end of one.
func (c sliding) rested(span int64) int64 { return c.bursts((span-1)/c.slice + 1) }

func (c sliding) early(span int64) int64 {
	touched := int64(1)
	if span > 1 {
		touched += (span-2)/c.slice + 1
	}
	return c.bursts(touched) - 1
}

func (c sliding) most(span int64) int64 { return max(c.rested(span), c.early(span)) }

func (c sliding) rate() Rate { return Rate{c.limit, duration(mul(together, c.slice))} }

func (c sliding) plan(span int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		var at int64
		if c.early(span) > c.rested(span) {
			if !yield(1-c.slice, 1) || !yield(0, c.limit-1) {
				return
			}
			at = add(1, mul(together-1, c.slice))
		}
		for at < span {
			if !yield(at, c.limit) {
				return
			}
			at = add(at, mul(together, c.slice))
		}
	}
}
