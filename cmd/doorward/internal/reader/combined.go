package reader

import (
	"bytes"
	"net/netip"
)

// combined reads what nginx and Apache call combined, with what they and others put before
// it and after it:
//
//	[host ]address ident user [time] "request" status bytes["referer" "user agent"[ ...]]
//
// All of it up to the time is found from both ends: callers can put spaces and brackets
// into the user, and a host name, but no quote, which every writer of this form escapes.
func (r *Reader) combined(line []byte, emit func(*Record)) Skip {
	line = cutSyslog(line)
	// The first quote after a bracket: one in a user name stands behind a backslash.
	i := bytes.Index(line, []byte(`] "`))
	if i < 0 {
		return unfinished(line)
	}
	return r.request(line, i, emit)
}

// request reads a combined line whose time ends at the bracket line[i].
func (r *Reader) request(line []byte, i int, emit func(*Record)) Skip {
	rec := &r.rec
	open := bytes.LastIndexByte(line[:i], '[')
	if open < 1 || line[open-1] != ' ' {
		return Unreadable
	}
	var ok bool
	if rec.Time, ok = r.clf.time(line[open+1 : i]); !ok {
		return NoTime
	}
	host, addr, user, skip := callerOf(line[:open-1])
	if skip != Read {
		return skip
	}
	if rec.Addr = parseNode(addr); !rec.Addr.IsValid() {
		return NoAddress
	}
	rec.Subject, rec.Host = r.unescape(dash(user)), dash(host)

	request, rest, ok := cutQuoted(line[i+2:])
	if !ok || len(rest) < 2 || rest[0] != ' ' {
		return CutOff
	}
	rec.HTTP = true
	rec.Method, rec.Target = r.splitRequest(request)
	status, rest, _ := bytes.Cut(rest[1:], space)
	if rec.Status, ok = parseStatus(status); !ok {
		return CutOff
	}
	_, rest, ok = bytes.Cut(rest, space) // bytes
	if ok && len(rest) > 0 && rest[0] == '"' {
		if _, rest, ok = cutQuoted(rest); ok && len(rest) > 1 && rest[1] == '"' {
			if agent, _, ok := cutQuoted(rest[1:]); ok {
				rec.UserAgent = r.unescape(dash(agent))
			}
		}
	}
	emit(rec)
	return Read
}

var space = []byte(" ")

// callerOf splits what stands before the time: [host ]address ident user. The host may be
// what the caller asked for, the user what they sent, and both may look like addresses; so
// the address is told by the dash that ident is, which nobody uses. Where there is
// another word for it, that has neither dot nor colon, or the line says nothing.
func callerOf(s []byte) (host, addr, user []byte, skip Skip) {
	first, rest, ok := bytes.Cut(s, space)
	if !ok {
		return nil, nil, nil, Unreadable
	}
	second, rest, _ := bytes.Cut(rest, space)
	if string(second) == "-" {
		return nil, first, rest, Read
	}
	third, user, more := bytes.Cut(rest, space)
	switch {
	case more && string(third) == "-":
		return first, second, user, Read
	case !more && len(third) > 0 && bytes.IndexByte(second, '.') < 0 && bytes.IndexByte(second, ':') < 0:
		return nil, first, third, Read
	}
	return nil, nil, nil, Ambiguous
}

// splitRequest splits a request line, METHOD TARGET PROTOCOL or METHOD TARGET. What is
// neither has no method.
func (r *Reader) splitRequest(s []byte) (method, target []byte) {
	i := bytes.IndexByte(s, ' ')
	if i < 1 || !isToken(s[:i]) {
		return nil, nil
	}
	method, target = s[:i], s[i+1:]
	if j := bytes.LastIndexByte(target, ' '); j >= 0 && bytes.HasPrefix(target[j+1:], []byte("HTTP/")) {
		target = target[:j]
	}
	return method, r.unescape(target)
}

// isToken reports whether s can be a method.
func isToken(s []byte) bool {
	for _, c := range s {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// cutQuoted returns what is between the quote that s begins with and the next that is not
// behind a backslash, and what follows.
func cutQuoted(s []byte) (inner, rest []byte, ok bool) {
	if len(s) == 0 || s[0] != '"' {
		return nil, nil, false
	}
	for i := 1; i < len(s); {
		j := bytes.IndexByte(s[i:], '"')
		if j < 0 {
			return nil, nil, false
		}
		i += j
		n := 0
		for s[i-1-n] == '\\' {
			n++
		}
		if n%2 == 0 {
			return s[1:i], s[i+1:], true
		}
		i++
	}
	return nil, nil, false
}

// unescape undoes what Apache and nginx do to bytes that would spoil a line: \xHH, and a
// backslash before a quote, a backslash or a letter.
func (r *Reader) unescape(s []byte) []byte {
	i := bytes.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	start := len(r.text)
	r.text = append(r.text, s[:i]...)
	for ; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			switch c = s[i]; c {
			case 'x':
				if i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0 {
					r.text = append(r.text, '\\')
					break
				}
				c = byte(unhex(s[i+1])<<4 | unhex(s[i+2]))
				i += 2
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'v':
				c = '\v'
			}
		}
		r.text = append(r.text, c)
	}
	return r.text[start:len(r.text):len(r.text)]
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// dash returns s, or nil for what stands for nothing.
func dash(s []byte) []byte {
	if len(s) == 0 || string(s) == "-" || string(s) == `""` {
		return nil
	}
	return s
}

// parseStatus reads a status of three digits, or a dash for none.
func parseStatus(s []byte) (status int, ok bool) {
	if string(s) == "-" {
		return 0, true
	}
	if len(s) != 3 {
		return 0, false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		status = status*10 + int(c-'0')
	}
	return status, true
}

// unfinished tells a line that ends too early from one of another kind.
func unfinished(line []byte) Skip {
	addr, _, _ := bytes.Cut(line, space)
	if parseNode(addr) != (netip.Addr{}) {
		return CutOff
	}
	return Unreadable
}
