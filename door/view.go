package door

import (
	"strings"
	"unicode/utf8"
)

// A view is a path at one level of decoding, in which every byte says what it may
// be to some server. Level 0 is the path as received, level 1 is decoded once,
// level 2 twice. What was a byte of its own at an earlier level may be read as it
// was then: a "/" that came from an escape parts segments for one server and is
// a part of one for another.
type view struct {
	syms       []sym
	dubious    bool // holds something that servers disagree on
	ignoreCase bool
}

type sym struct {
	b byte
	f flag
}

type flag uint8

const (
	parts  flag = 1 << iota // parts segments, for everyone
	maybe                   // may part segments
	cuts                    // may end the path
	params                  // may begin parameters, which end with the segment or with the path
	blank                   // may be left out
	wild                    // may be any byte, or part segments
)

// classify says what a byte may be. decoded bytes came from an escape.
func classify(b byte, decoded bool) (f flag, dubious bool) {
	switch {
	case b == '/' && !decoded:
		return parts, false
	case b == '/' || b == '\\':
		return maybe | cuts, true
	case b < ' ' || b == 0x7f:
		return blank | cuts, true
	case (b == 0x85 || b == 0xa0) && !decoded:
		return blank | cuts, true // white space of Latin-1, at which Python ends a target
	case b == ' ':
		return blank, false
	case b == ';':
		return params, false
	case b == '?' || b == '#':
		return cuts, false
	}
	return 0, false
}

// newView returns level 0, in memory that is appended to buf. A path that does not
// start with a slash gets one.
func newView(buf []sym, path string, ignoreCase bool) view {
	if len(path)+1 > cap(buf) {
		buf = make([]sym, 0, len(path)+1)
	}
	v := view{syms: buf, ignoreCase: ignoreCase}
	if !strings.HasPrefix(path, "/") {
		v.syms = append(v.syms, sym{'/', parts})
	}
	for i := 0; i < len(path); i++ {
		f, dubious := classify(path[i], false)
		v.dubious = v.dubious || dubious
		v.syms = append(v.syms, sym{path[i], f})
	}
	v.normalize()
	return v
}

// decode goes to the next level, in place, and reports whether that differs. A
// malformed escape is dubious in the path as received; after that it may be a
// percent sign that was properly encoded.
func (v *view) decode(received bool) bool {
	out, loose, changed := 0, 0, false
	for i := 0; i < len(v.syms); i++ {
		s := v.syms[i]
		if loose--; loose >= 0 {
			s.f |= blank
		}
		if s.f&parts != 0 {
			s.f, loose = parts, 0
		}
		if s.b == '%' {
			changed = true
			hi, lo := -1, -1
			if i+2 < len(v.syms) {
				hi, lo = unhex(v.syms[i+1].b), unhex(v.syms[i+2].b)
			}
			if hi >= 0 && lo >= 0 {
				s.b = byte(hi<<4 | lo)
				f, dubious := classify(s.b, true)
				s.f = s.f&blank | f
				v.dubious = v.dubious || dubious
				i += 2
			} else {
				// Servers keep it, drop it, or read another notation, such as %u006C.
				s.f |= wild | blank | cuts
				loose = 5
				v.dubious = v.dubious || received
			}
		}
		v.syms[out] = s
		out++
	}
	v.syms = v.syms[:out]
	if changed {
		v.normalize()
	}
	return changed
}

func unhex(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return int(b|0x20-'a') + 10
	}
	return -1
}

// normalize marks overlong UTF-8 forms, in which an old decoder finds a slash or a
// dot, and folds letter case if the application does.
func (v *view) normalize() {
	out := 0
	for i := 0; i < len(v.syms); {
		s := v.syms[i]
		if s.b < utf8.RuneSelf {
			if v.ignoreCase && 'a' <= s.b && s.b <= 'z' {
				s.b -= 'a' - 'A'
			}
			v.syms[out] = s
			i, out = i+1, out+1
			continue
		}
		var b [utf8.UTFMax]byte
		n := 0
		for n < len(b) && i+n < len(v.syms) {
			b[n] = v.syms[i+n].b
			n++
		}
		r, size := utf8.DecodeRune(b[:n])
		if overlong(b) {
			s.f |= wild | blank | cuts
			v.dubious = true
			for k := i + 1; k < i+n && v.syms[k].b&0xc0 == 0x80; k++ {
				v.syms[k].f |= blank
			}
		}
		if v.ignoreCase && size > 1 {
			for k := range utf8.EncodeRune(b[:], fold(r)) {
				v.syms[out] = sym{b[k], s.f}
				out++
			}
			i += size
			continue
		}
		v.syms[out] = s
		i, out = i+1, out+1
	}
	v.syms = v.syms[:out]
}

// overlong reports whether b starts like a longer form than its character needs.
func overlong(b [utf8.UTFMax]byte) bool {
	return b[1]&0xc0 == 0x80 &&
		(b[0]&^1 == 0xc0 || b[0] == 0xe0 && b[1] < 0xa0 || b[0] == 0xf0 && b[1] < 0x90)
}
