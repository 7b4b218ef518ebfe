package subject

import (
	"fmt"
	"slices"
	"strings"
)

// maxFieldName is how much of a field name every parser keeps: busboy cuts names off
// after it.
const maxFieldName = 100

// maxFields is how many fields a form or query may have. PHP, Node and qs drop those
// after the thousandth.
const maxFields = 256

// A field is a named value, and all that some parser takes for its name.
type field struct {
	name string
	nest []string
	flat string
}

func newField(name string) (field, error) {
	if len(name) > maxFieldName {
		return field{}, fmt.Errorf("must be at most %d bytes, got %d", maxFieldName, len(name))
	}
	for i := range len(name) {
		if b := name[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\"\\%&;=+?#<>,`", b) >= 0 {
			return field{}, fmt.Errorf("must be a field name in plain ASCII, got %q", name)
		}
	}
	root, rest, _ := strings.Cut(name, "[")
	if rest != "" || strings.HasSuffix(name, "[") {
		inner, closed := strings.CutSuffix(rest, "]")
		if !closed || root == "" || slices.ContainsFunc(strings.Split(inner, "]["), func(s string) bool { return s == "" || strings.ContainsAny(s, "[]") }) {
			return field{}, fmt.Errorf("must have brackets like user[email], got %q", name)
		}
	} else if strings.Contains(name, "]") {
		return field{}, fmt.Errorf("must have brackets like user[email], got %q", name)
	}
	f := field{name: name, nest: nest(name), flat: flat(name)}
	if len(f.nest) == 0 || len(tight(name)) != len(f.nest) || polluting(f.nest) {
		return field{}, fmt.Errorf("must be a name of letters or digits, got %q", name)
	}
	return f, nil
}

// alike reports whether some parser may take name for the field, for a part of it or
// for what it is a part of. It is, for the name itself.
func (f *field) alike(name string) bool {
	return related(nest(name), f.nest) || flat(name) == f.flat
}

// related reports whether one of the two leads to the other.
func related(a, b []string) bool {
	n := min(len(a), len(b))
	return n > 0 && slices.Equal(a[:n], b[:n])
}

// nest splits a name as those do who make objects of user[email] or user.email: PHP,
// Rails, qs, Spring.
func nest(name string) []string {
	segments := strings.FieldsFunc(skeleton(name), func(r rune) bool { return r == '[' || r == ']' || r == '.' })
	for i, s := range segments {
		segments[i] = strings.TrimSpace(s) // PHP does before
	}
	return segments
}

// flat writes a name as PHP writes the key that it keeps it under.
func flat(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '[', '.', ' ':
			return '_'
		}
		return r
	}, skeleton(name))
}

// skeleton is what is left of a name for those who ignore case, blanks around it and a
// question mark before it (URLSearchParams), and end it at a NUL.
func skeleton(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	return Canonical(strings.TrimLeft(name, "? "))
}

// polluting reports whether a name would change the prototype of all JavaScript
// objects where it is merged without care.
func polluting(nest []string) bool {
	for i, s := range nest {
		if s == "__proto__" || s == "prototype" && i > 0 && nest[i-1] == "constructor" {
			return true
		}
	}
	return false
}

// A sought field is one that is looked for in a form.
type sought struct {
	*field
	value string
	found bool
	seen  int // fields so far
}

// meet takes the next field of a form. It reports whether the value is the one
// sought, or why the form must be refused.
func (s *sought) meet(name, value string) (bool, error) {
	if s.seen++; s.seen > maxFields {
		return false, bad("the form has too many fields")
	}
	switch {
	case strings.Contains(name, "\x00"):
		return false, bad("a field name has a NUL")
	case name == s.name && s.found:
		return false, bad("the field is named twice")
	case name == s.name:
		s.value, s.found = value, true
		return true, nil
	case s.alike(name):
		return false, bad("the field is named in another way")
	case name == "_charset_" && !isUTF8(value):
		return false, unsupported("the form names a charset")
	case polluting(nest(name)):
		return false, bad("a field name is __proto__")
	}
	return false, nil
}
