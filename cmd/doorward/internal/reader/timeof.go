package reader

import "time"

// parseTime reads a time with a year, in the forms that servers write:
//
//	2006-01-02T15:04:05[.999][Z|+01:00|+0100]
//	2006-01-02 15:04:05[.999|,999][Z|+01:00|+0100]
//	2006/01/02 15:04:05[.999]
//
// Without a zone it is of the Options' zone.
func (r *Reader) parseTime(s []byte) (time.Time, bool) {
	if len(s) < 19 {
		return time.Time{}, false
	}
	if c := s[4]; c != '-' && c != '/' || s[7] != c || s[10] != 'T' && s[10] != ' ' {
		return time.Time{}, false
	}
	year, ok1 := number(s[:4])
	month, ok2 := number(s[5:7])
	day, ok3 := number(s[8:10])
	hour, minute, second, ok4 := clockOf(s[11:19])
	if !ok1 || !ok2 || !ok3 || !ok4 || month < 1 || month > 12 || day < 1 || day > 31 {
		return time.Time{}, false
	}
	s = s[19:]
	nano := 0
	if len(s) > 1 && (s[0] == '.' || s[0] == ',') {
		rest := s[1:]
		if nano, s = fraction(rest); len(s) == len(rest) {
			return time.Time{}, false
		}
	}
	zone, ok := zoneOf(s, r.zone)
	if !ok {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nano, zone)
	if t.Day() != day && second != 60 {
		return time.Time{}, false
	}
	return t.UTC(), true
}

// zoneOf reads a zone. None is def.
func zoneOf(s []byte, def *time.Location) (*time.Location, bool) {
	switch {
	case len(s) == 0:
		return def, true
	case string(s) == "Z":
		return time.UTC, true
	case s[0] != '+' && s[0] != '-':
		return nil, false
	}
	digits := s[1:]
	if len(digits) == 5 && digits[2] == ':' {
		digits = append(append(make([]byte, 0, 4), digits[:2]...), digits[3:]...)
	}
	n, ok := number(digits)
	if !ok || len(digits) != 4 || n%100 > 59 {
		return nil, false
	}
	offset := n/100*3600 + n%100*60
	if s[0] == '-' {
		offset = -offset
	}
	if offset == 0 {
		return time.UTC, true
	}
	return time.FixedZone("", offset), true
}

// fraction reads the digits that s begins with as a fraction of a second.
func fraction(s []byte) (nano int, rest []byte) {
	unit := int(time.Second)
	i := 0
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		unit /= 10
		nano += unit * int(s[i]-'0')
	}
	return nano, s[i:]
}
