package reader

import "time"

// A stamp reads times of the form 08/Jun/2020:06:49:01 +0200 and keeps the last one, since
// a busy log has many lines of one second.
type stamp struct {
	text [26]byte
	last time.Time
}

func (c *stamp) time(s []byte) (time.Time, bool) {
	if len(s) != len(c.text) {
		t, err := time.Parse(time.RFC3339Nano, string(s)) // nginx: $time_iso8601
		return t, err == nil
	}
	if string(s) == string(c.text[:]) {
		return c.last, true
	}
	day, ok1 := number(s[0:2])
	month := monthOf(s[3:6])
	year, ok2 := number(s[7:11])
	hour, ok3 := number(s[12:14])
	minute, ok4 := number(s[15:17])
	second, ok5 := number(s[18:20])
	zoneHour, ok6 := number(s[22:24])
	zoneMinute, ok7 := number(s[24:26])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || month == 0 || s[2] != '/' || s[6] != '/' ||
		s[11] != ':' || s[14] != ':' || s[17] != ':' || s[20] != ' ' || s[21] != '+' && s[21] != '-' ||
		day < 1 || hour > 23 || minute > 59 || second > 60 || zoneMinute > 59 {
		return time.Time{}, false
	}
	offset := time.Duration(zoneHour)*time.Hour + time.Duration(zoneMinute)*time.Minute
	if s[21] == '-' {
		offset = -offset
	}
	t := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	if t.Month() != month && second != 60 {
		return time.Time{}, false // 31 June
	}
	copy(c.text[:], s)
	c.last = t.Add(-offset)
	return c.last, true
}

// number reads digits.
func number(s []byte) (n int, ok bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(s) > 0
}

// monthOf reads Jan to Dec, or returns 0.
func monthOf(s []byte) time.Month {
	if len(s) != 3 {
		return 0
	}
	switch string(s) {
	case "Jan":
		return time.January
	case "Feb":
		return time.February
	case "Mar":
		return time.March
	case "Apr":
		return time.April
	case "May":
		return time.May
	case "Jun":
		return time.June
	case "Jul":
		return time.July
	case "Aug":
		return time.August
	case "Sep":
		return time.September
	case "Oct":
		return time.October
	case "Nov":
		return time.November
	case "Dec":
		return time.December
	}
	return 0
}
