package reader

import "time"

// years gives times without a year one. A log goes on from December to January: a date
// more than half a year before that of the line before it is of the next year.
//
// Without a word from outside, the year is the latest that puts the last line not after
// the file's time. The last line is known after a survey; else the first stands for
// it, which comes to the same for every log that is shorter than a year and no older.
type years struct {
	given int    // of the first line; 0: to be found
	year  int    // of the line before; 0: there was none
	last  inYear // of the line before
	rolls int    // New Years since the first line
	leap  int    // rolls at the first 29 February; -1: there was none
}

// An inYear is a time within a year, in seconds, if all months had 31 days.
type inYear int

const (
	month    inYear = 31 * 24 * 3600
	noYear          = 2000 // where nobody says anything: it has all dates
	lookBack        = 8    // years in which a 29 February is looked for
)

func dateOf(m time.Month, day, hour, minute, second int) inYear {
	return inYear(m)*month + inYear((day*24+hour)*3600+minute*60+second)
}

// isLeapDay reports whether d is on 29 February.
func (d inYear) isLeapDay() bool {
	return d >= dateOf(time.February, 29, 0, 0, 0) && d < dateOf(time.February, 30, 0, 0, 0)
}

// next returns the year of the line at d. mod is the file's time, in the log's zone.
func (y *years) next(d inYear, mod time.Time) int {
	switch {
	case y.year == 0:
		y.leap = -1
		if y.year = y.given; y.year == 0 {
			y.year = latest(d, mod, func(year int) bool { return !d.isLeapDay() || isLeap(year) })
		}
	case d < y.last-6*month:
		y.year++
		y.rolls++
	case y.rolls > 0 && d > y.last+11*month: // from before midnight, but after a line from after it
		y.year--
		y.rolls--
	}
	y.last = d
	if d.isLeapDay() && y.leap < 0 {
		y.leap = y.rolls
	}
	return y.year
}

// surveyed returns years for a second reading of the log that y has seen.
func (y *years) surveyed(mod time.Time) years {
	if y.given != 0 || y.year == 0 {
		return years{given: y.given}
	}
	last := latest(y.last, mod, func(year int) bool { return y.leap < 0 || isLeap(year-y.rolls+y.leap) })
	return years{given: last - y.rolls}
}

// latest returns the latest year that puts d not after mod and that fits, or just the
// latest if none fits.
func latest(d inYear, mod time.Time, fits func(year int) bool) int {
	if mod.IsZero() {
		return noYear
	}
	latest := mod.Year()
	if d > dateOf(mod.Month(), mod.Day(), mod.Hour(), mod.Minute(), mod.Second()) {
		latest--
	}
	for year := latest; year > latest-lookBack; year-- {
		if fits(year) {
			return year
		}
	}
	return latest
}

func isLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }
