package reader

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// A message is a line of the system log.
type message struct {
	time time.Time
	host []byte
	prog []byte // without its directory; sshd(pam_unix) of old
	pid  []byte // nil: none
	text []byte
}

// syslog reads a line of the system log, in the form of BSD, with times as of old or of
// RFC 3339, in that of RFC 5424, or as journald writes JSON.
func (r *Reader) syslog(line []byte) (m message, skip Skip) {
	if line[0] == '{' {
		return journal(line)
	}
	line, five := cutPriority(line)
	rest, skip := r.stampOf(line, &m.time)
	if skip != Read {
		return m, skip
	}
	if five {
		return m, m.rfc5424(rest)
	}
	if host, tag, _ := bytes.Cut(rest, space); !isTag(host) { // else a log without hosts
		m.host, rest = host, tag
	}
	return m, m.bsd(rest)
}

// cutPriority cuts <38> off, or the <38>1 with which RFC 5424 begins.
func cutPriority(line []byte) (rest []byte, five bool) {
	if line[0] != '<' {
		return line, false
	}
	i := bytes.IndexByte(line, '>')
	if i < 2 || i > 4 {
		return line, false
	}
	if _, ok := number(line[1:i]); !ok {
		return line, false
	}
	return bytes.CutPrefix(line[i+1:], []byte("1 "))
}

// bsd reads PROGRAM[PID]: TEXT.
func (m *message) bsd(s []byte) Skip {
	i := bytes.IndexAny(s, ": ")
	if i < 1 || s[i] != ':' {
		return NotAttempt // "last message repeated 2 times", "-- MARK --"
	}
	tag := s[:i]
	m.text = bytes.TrimPrefix(s[i+1:], space)
	if j := bytes.IndexByte(tag, '['); j > 0 && tag[len(tag)-1] == ']' {
		tag, m.pid = tag[:j], tag[j+1:len(tag)-1]
	}
	if tag[0] == '/' {
		tag = tag[bytes.LastIndexByte(tag, '/')+1:]
	}
	m.prog = tag
	return Read
}

// isTag reports whether s is the PROGRAM[PID]: of a line that names no host.
func isTag(s []byte) bool { return bytes.HasSuffix(s, []byte("]:")) && bytes.IndexByte(s, '[') > 0 }

// rfc5424 reads HOST PROGRAM PID MSGID DATA TEXT.
func (m *message) rfc5424(s []byte) Skip {
	fields := bytes.SplitN(s, space, 5)
	if len(fields) < 5 || len(fields[4]) == 0 {
		return CutOff
	}
	m.host, m.prog, m.pid = fields[0], fields[1], dash(fields[2])
	s = fields[4]
	if s[0] == '-' {
		m.text = bytes.TrimPrefix(s[1:], space)
		return Read
	}
	for len(s) > 0 && s[0] == '[' { // [id name="value" ...]; \ stands before " ] and \
		quoted := false
		i := 1
		for ; i < len(s) && (quoted || s[i] != ']'); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				quoted = !quoted
			}
		}
		if i >= len(s) {
			return CutOff
		}
		s = s[i+1:]
	}
	m.text = bytes.TrimPrefix(s, space)
	return Read
}

// stampOf reads the time that a line begins with and returns the rest.
func (r *Reader) stampOf(line []byte, t *time.Time) (rest []byte, skip Skip) {
	if len(line) < 15 {
		return nil, CutOff
	}
	month := monthOf(line[:3])
	if month == 0 || line[3] != ' ' {
		s, rest, ok := bytes.Cut(line, space)
		if !ok || len(s) < 19 {
			return nil, NoTime
		}
		if *t, ok = r.parseTime(s); !ok {
			return nil, NoTime
		}
		return rest, Read
	}
	// Jun  8 10:44:36, Jun 08 10:44:36 or Nov 2 15:40:14
	s := line[4:]
	if s[0] == ' ' {
		s = s[1:]
	}
	day, s, ok1 := bytes.Cut(s, space)
	d, ok2 := number(day)
	if !ok1 || !ok2 || len(day) > 2 || len(s) < 9 {
		return nil, NoTime
	}
	clock, rest := s[:8], s[8:]
	nano := 0
	if rest[0] == '.' {
		nano, rest = fraction(rest[1:])
	}
	if len(rest) == 0 || rest[0] != ' ' {
		return nil, NoTime
	}
	hour, minute, second, ok := clockOf(clock)
	if !ok || d < 1 || d > 31 {
		return nil, NoTime
	}
	*t = time.Date(r.years.next(dateOf(month, d, hour, minute, second), r.mod), month, d, hour, minute, second, nano, r.zone)
	if t.Day() != d && second != 60 {
		return nil, NoTime // 29 February in a year without
	}
	return rest[1:], Read
}

// clockOf reads 10:44:36.
func clockOf(s []byte) (hour, minute, second int, ok bool) {
	if len(s) != 8 || s[2] != ':' || s[5] != ':' {
		return
	}
	hour, ok1 := number(s[:2])
	minute, ok2 := number(s[3:5])
	second, ok3 := number(s[6:])
	return hour, minute, second, ok1 && ok2 && ok3 && hour < 24 && minute < 60 && second < 61
}

// cutSyslog cuts off what a log daemon puts before lines that have a time of their own.
func cutSyslog(line []byte) []byte {
	s, five := cutPriority(line)
	var rest []byte
	switch {
	case len(s) > 16 && monthOf(s[:3]) != 0 && s[3] == ' ':
		if _, _, _, ok := clockOf(s[7:15]); ok {
			rest = s[15:]
		} else if _, _, _, ok := clockOf(s[6:14]); ok {
			rest = s[14:]
		}
	case len(s) > 20 && s[4] == '-' && s[10] == 'T':
		_, rest, _ = bytes.Cut(s, space)
		rest = s[len(s)-len(rest)-1:]
	}
	if len(rest) == 0 || rest[0] != ' ' {
		return line
	}
	rest = rest[1:]
	if five {
		var m message
		if m.rfc5424(rest) != Read {
			return line
		}
		return m.text
	}
	if host, tag, _ := bytes.Cut(rest, space); !bytes.HasSuffix(host, []byte(":")) { // else the tag, of a line without a host
		rest = tag
	}
	tag, text, ok := bytes.Cut(rest, []byte(": "))
	if !ok || bytes.IndexByte(tag, ' ') >= 0 { // neither an IPv6 address nor a user's name is a tag
		return line
	}
	return text
}

// journal reads a line of journalctl -o json.
func journal(line []byte) (m message, skip Skip) {
	var j struct {
		Message json.RawMessage `json:"MESSAGE"`
		Time    string          `json:"__REALTIME_TIMESTAMP"`
		Host    string          `json:"_HOSTNAME"`
		Prog    string          `json:"SYSLOG_IDENTIFIER"`
		PID     string          `json:"_PID"`
	}
	if json.Unmarshal(line, &j) != nil {
		return m, jsonSkip(line)
	}
	micro, err := strconv.ParseInt(j.Time, 10, 64)
	if err != nil {
		return m, NoTime
	}
	var text string
	if json.Unmarshal(j.Message, &text) != nil {
		var raw []uint8 // text that is no UTF-8 comes as a list of numbers
		if json.Unmarshal(j.Message, &raw) != nil {
			return m, Unreadable
		}
		text = string(raw)
	}
	m = message{time: time.UnixMicro(micro).UTC(), host: []byte(j.Host), prog: []byte(j.Prog), text: []byte(text)}
	if j.PID != "" {
		m.pid = []byte(j.PID)
	}
	return m, Read
}

// jsonSkip tells JSON that ends too early from what is none.
func jsonSkip(line []byte) Skip {
	if line[0] == '{' && line[len(line)-1] != '}' {
		return CutOff
	}
	return Unreadable
}
