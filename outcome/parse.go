package outcome

import (
	"fmt"
	"strconv"
	"strings"
)

// The statuses of final answers.
const minStatus, maxStatus = 200, 599

// StatusRange is the statuses from First to Last, both included.
type StatusRange struct{ First, Last int }

// Statuses is a set of statuses of final answers, 200 to 599.
type Statuses []StatusRange

// Contains reports whether status is in s.
func (s Statuses) Contains(status int) bool {
	for _, r := range s {
		if r.First <= status && status <= r.Last {
			return true
		}
	}
	return false
}

// all reports whether s holds every final status.
func (s Statuses) all() bool {
	for status := minStatus; status <= maxStatus; status++ {
		if !s.Contains(status) {
			return false
		}
	}
	return true
}

func (s Statuses) validate(field string) error {
	for _, r := range s {
		if r.First < minStatus || r.Last > maxStatus || r.First > r.Last {
			return fmt.Errorf("outcome: %s must be of final statuses, 200 to 599, got %d-%d", field, r.First, r.Last)
		}
	}
	return nil
}

// String writes s as ParseStatuses reads it.
func (s Statuses) String() string {
	var words []string
	for _, r := range s {
		switch {
		case r.First == r.Last:
			words = append(words, strconv.Itoa(r.First))
		case r.First%100 == 0 && r.Last == r.First+99:
			words = append(words, strconv.Itoa(r.First/100)+"xx")
		default:
			words = append(words, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return strings.Join(words, ",")
}

// ParseStatuses reads a list such as "200,302", "2xx" or "200-299,302". Only final
// statuses, 200 to 599, can be in it.
func ParseStatuses(s string) (Statuses, error) {
	var list Statuses
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		r, ok := parseRange(word)
		if !ok {
			return nil, fmt.Errorf("outcome: Status must be like 200, 2xx or 200-299, got %q", word)
		}
		if r.First < minStatus || r.Last > maxStatus || r.First > r.Last {
			return nil, fmt.Errorf("outcome: Status must be of final statuses, 200 to 599, got %q", word)
		}
		list = append(list, r)
	}
	return list, nil
}

func parseRange(word string) (r StatusRange, ok bool) {
	if len(word) == 3 && strings.EqualFold(word[1:], "xx") {
		n, ok := digits(word[:1])
		return StatusRange{n * 100, n*100 + 99}, ok
	}
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	a, ok1 := digits(strings.TrimSpace(first))
	b, ok2 := digits(strings.TrimSpace(last))
	return StatusRange{a, b}, ok1 && ok2
}

// digits reads one to three digits.
func digits(s string) (int, bool) {
	if s == "" || len(s) > 3 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// ParseSucceeded reads the short form of a success: statuses as ParseStatuses reads
// them, cookie:NAME, location:PREFIX and header, with commas between them. All that
// are named must hold together, apart from header, which is returned as Rules.Header.
// A prefix with a comma in it has no short form.
func ParseSucceeded(s string) (c Conditions, header bool, err error) {
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		key, value, _ := strings.Cut(word, ":")
		value = strings.TrimSpace(value)
		var field *string
		switch {
		case word == "header":
			header = true
			continue
		case key == "cookie":
			field = &c.SetCookie
		case key == "location":
			field = &c.Location
		default:
			list, ok := parseRange(word)
			if !ok {
				return Conditions{}, false, fmt.Errorf("outcome: Succeeded must be of statuses, cookie:NAME, location:PREFIX and header, got %q", word)
			}
			c.Status = append(c.Status, list)
			continue
		}
		if value == "" {
			return Conditions{}, false, fmt.Errorf("outcome: Succeeded must have a value after %q", key+":")
		}
		if *field != "" {
			return Conditions{}, false, fmt.Errorf("outcome: Succeeded must have one %q, got %q", key+":", s)
		}
		*field = value
	}
	if err := c.validate("Succeeded"); err != nil {
		return Conditions{}, false, err
	}
	return c, header, nil
}
