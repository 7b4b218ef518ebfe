package door

// path is a compiled path: segments, then the end or anything (rest). It runs as
// an automaton over a view, from right to left, since there a ".." is met before
// the segment that it removes and needs a counter instead of a stack. All readings
// are followed at once.
//
// The state is a vector of words. Each group but the last has a word for every
// number of segments that are left to match, and in that word a bit for every
// number of ".." that still have a segment to remove. The top bit stands for 63
// and more, so that counting covers too much in the worst case, never too little.
type path struct {
	segs  []segment
	rest  bool
	start []int    // bit at which a literal starts; it has len(lit)+1 bits
	words int      // words that the bits of all literals need
	masks []uint64 // words per byte: bits that the byte moves to
	any   []uint64 // the same for a byte that may be any
}

// The groups of the state: what the segment being read may be.
const (
	whatever = iota // something that matches whatever it holds
	nonempty        // the same as soon as it holds a byte
	dots0           // nothing so far
	dots1           // one dot so far
	dots2           // two dots so far
	groups          // then come the bits of the literals
)

const top = 1 << 63

func (p *path) compile() {
	bits := 0
	for _, s := range p.segs {
		p.start = append(p.start, bits)
		bits += len(s.lit) + 1
	}
	p.words = (bits + 63) / 64
	p.masks = make([]uint64, 256*p.words)
	p.any = make([]uint64, p.words)
	for i, s := range p.segs {
		for k := range len(s.lit) {
			bit := p.start[i] + k + 1
			p.masks[int(s.lit[len(s.lit)-1-k])*p.words+bit/64] |= 1 << (bit % 64)
			p.any[bit/64] |= 1 << (bit % 64)
		}
	}
}

// bounds is how many numbers of segments there are to be left.
func (p *path) bounds() int { return len(p.segs) + 1 }

func (p *path) size() int { return groups*p.bounds() + p.words }

// scratch is how many words reads needs.
func (p *path) scratch() int { return 4*p.size() + p.bounds() }

// reads reports whether some reading of syms matches.
func (p *path) reads(syms []sym, scratch []uint64) bool {
	m, size := p.bounds(), p.size()
	scratch = scratch[:4*size+m]
	clear(scratch)
	cur, next := scratch[:size], scratch[size:2*size]
	pathEnd, segEnd, bound := scratch[2*size:3*size], scratch[3*size:4*size], scratch[4*size:]
	bound[m-1] = 1 // all segments left, no ".." pending
	p.begin(cur, bound)
	copy(pathEnd, cur)
	copy(segEnd, cur)

	first, last, alone := authority(syms)
	if alone && len(p.segs) == 0 {
		return true
	}
	idle := false
	for i := len(syms) - 1; i >= 0; i-- {
		s := syms[i]
		if s.f == 0 {
			if !idle || s.b == '.' {
				idle = p.step(cur, cur, s)
			}
			continue
		}
		idle = false
		if s.f&(parts|maybe|wild) != 0 {
			p.boundary(bound, cur)
			if bound[0] != 0 && (i == 0 || first <= i && i <= last) {
				return true
			}
		}
		if s.f&parts != 0 {
			clear(cur)
			p.begin(cur, bound)
			copy(segEnd, cur)
			continue
		}
		p.step(next, cur, s)
		if s.f&(maybe|wild) != 0 {
			p.begin(next, bound)
			p.begin(segEnd, bound)
		}
		if s.f&blank != 0 {
			union(next, cur)
		}
		if s.f&params != 0 {
			union(next, segEnd)
		}
		if s.f&(cuts|params) != 0 {
			union(next, pathEnd)
		}
		cur, next = next, cur
	}
	return false
}

// authority returns where the path may start if //host/path is read as a URL
// without a scheme: first to last, both included, and whether the path may be
// missing. There is no such reading if first is beyond the end of syms. What may be
// left out may be so between the slashes, or be the host.
func authority(syms []sym) (first, last int, alone bool) {
	slashes, blanks := 0, 0
	for ; last < len(syms) && syms[last].f&(parts|maybe|blank) != 0; last++ {
		switch {
		case syms[last].f&(parts|maybe) != 0:
			if slashes++; slashes == 2 {
				first = last + 1
			}
		case slashes >= 2:
			blanks++
		}
	}
	if slashes < 2 || last == len(syms) && blanks == 0 {
		return len(syms), len(syms), false
	}
	for ; last < len(syms); last++ {
		if syms[last].f&parts != 0 {
			return first, last, false
		}
	}
	return first, last, true
}

// begin adds to dst what the segment left of a boundary may be.
func (p *path) begin(dst, bound []uint64) {
	m := p.bounds()
	for j, b := range bound {
		if b == 0 {
			continue
		}
		dst[whatever*m+j] |= b>>1 | b&top
		dst[dots0*m+j] |= b
		switch {
		case b&1 == 0:
			continue
		case j == m-1 && p.rest:
			dst[whatever*m+j] |= 1
		}
		switch {
		case j == 0:
		case p.segs[j-1].wild:
			dst[nonempty*m+j-1] |= 1
		default:
			dst[groups*m+p.start[j-1]/64] |= 1 << (p.start[j-1] % 64)
		}
	}
}

// boundary sets dst to what is left if a segment ends here, to the left.
func (p *path) boundary(dst, cur []uint64) {
	m := p.bounds()
	for j := range dst {
		b := cur[dots2*m+j]
		dst[j] = cur[whatever*m+j] | cur[dots0*m+j] | cur[dots1*m+j] | b<<1 | b&top
		if j < m-1 && !p.segs[j].wild {
			bit := p.start[j] + len(p.segs[j].lit)
			dst[j] |= cur[groups*m+bit/64] >> (bit % 64) & 1
		}
	}
}

// step sets dst, which may be cur, to what cur is after a byte of the segment. It
// reports whether further bytes without flags, dots apart, change nothing.
func (p *path) step(dst, cur []uint64, s sym) (idle bool) {
	m := p.bounds()
	dot := s.b == '.' || s.f&wild != 0
	for j := range m {
		one, two := cur[dots0*m+j], cur[dots1*m+j]
		if !dot {
			one, two = 0, 0
		}
		dst[whatever*m+j] = cur[whatever*m+j] | cur[nonempty*m+j]
		dst[nonempty*m+j], dst[dots0*m+j], dst[dots1*m+j], dst[dots2*m+j] = 0, 0, one, two
	}
	mask := p.masks[int(s.b)*p.words:][:p.words]
	if s.f&wild != 0 {
		mask = p.any
	}
	idle = !dot
	var carry uint64
	from, to := cur[groups*m:], dst[groups*m:]
	for w := range mask {
		c := from[w]
		to[w] = (c<<1 | carry) & mask[w]
		carry = c >> 63
		idle = idle && to[w] == 0
	}
	return idle
}

func union(dst, src []uint64) {
	for i, w := range src {
		dst[i] |= w
	}
}
