package subject

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxFieldName is how much of a field name every parser keeps: busboy cuts names off
// after it.
const maxFieldName = 100

// maxFields is how many fields a form or query may have. PHP, Node and qs drop those
// after the thousandth.
const maxFields = 256

// A field is a named value, and all that some parser takes for its name.
type field struct {
	name string // "" is a name that is looked for nowhere
	spelling
}

// A spelling is what parsers make of a name.
type spelling struct {
	nest []string // by those who make objects of user[email] or user.email: PHP, Rails, qs, Spring
	flat string   // by PHP, if a bracket stays open
	root string   // by PHP, up to the brackets
	keys []string // and within them
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
	f := field{name: name, spelling: spell(unblank(strings.ToLower(name)))}
	if len(f.nest) == 0 || len(tight(strings.ToLower(name))) != len(f.nest) || polluting(f.nest) {
		return field{}, fmt.Errorf("must be a name of letters or digits, got %q", name)
	}
	return f, nil
}

// alike reports whether some parser may take a name for the field, for a part of it or
// for what it is a part of. It is, for the name itself.
func (f *field) alike(s spelling) bool {
	return related(s.nest, f.nest) || s.flat == f.flat || s.root == f.root && leads(s.keys, f.keys)
}

// related reports whether one of the two leads to the other, and both to something.
func related(a, b []string) bool { return min(len(a), len(b)) > 0 && leads(a, b) }

// leads reports whether one of the two is what the other starts with.
func leads(a, b []string) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

// spell takes a folded name.
func spell(name string) spelling {
	root, rest, nested := strings.Cut(name, "[")
	s := spelling{nest: segments(name), flat: mangle(name)}
	s.root = s.flat[:len(root)]
	for nested {
		var key string
		key, rest, nested = strings.Cut(rest, "[")
		key, _, _ = strings.Cut(key, "]")
		if key = trim(key); key == "" {
			break // any number
		}
		s.keys = append(s.keys, key)
	}
	return s
}

// segments splits a folded name at brackets and dots.
func segments(name string) []string {
	all := strings.FieldsFunc(name, func(r rune) bool { return r == '[' || r == ']' || r == '.' })
	kept := all[:0]
	for _, s := range all {
		if s = trim(s); s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

// trim drops what is around a segment: blanks, as PHP does, and quotes, as Spring does.
func trim(segment string) string {
	return strings.TrimFunc(segment, func(r rune) bool { return r == '\'' || r == '"' || unicode.IsSpace(r) })
}

// mangle writes a name as PHP writes a key. Its length stays.
func mangle(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '[', '.', ' ':
			return '_'
		}
		return r
	}, name)
}

// unblank makes dots of the blanks that a name ends in, before brackets too. PHP makes
// one character of both, and no one else keeps a dot in either place.
func unblank(name string) string {
	root, rest := name, ""
	if i := strings.IndexByte(name, '['); i >= 0 {
		root, rest = name[:i], name[i:]
	}
	if bare := strings.TrimRight(root, " "); bare != root {
		return bare + strings.Repeat(".", len(root)-len(bare)) + rest
	}
	return name
}

// balanced reports whether a name has no brackets, or all parsers see the same ones:
// user[email][x]. What is before, between or after them PHP and qs drop.
func balanced(name string) bool {
	root, rest, nested := strings.Cut(name, "[")
	if strings.Contains(root, "]") {
		return false
	}
	if !nested {
		return true
	}
	inner, closed := strings.CutSuffix(rest, "]")
	return closed && root != "" && !strings.ContainsAny(strings.ReplaceAll(inner, "][", ""), "[]")
}

// maxBeyond is how many bytes the names that are not ASCII may have in a request, all
// together. To fold them costs a microsecond a byte.
const maxBeyond = 1 << 10

var errBeyond = bad("the names have too much that is not ASCII")

// names are those that are looked through in one request.
type names struct {
	beyond int // bytes of those that are not ASCII
}

// fold returns what is left of a name for those who ignore case, blanks around it and
// a question mark before it (URLSearchParams), and end it at a NUL.
func (n *names) fold(name string) (string, error) {
	name, _, _ = strings.Cut(name, "\x00")
	name = strings.TrimLeft(name, "? ")
	if isASCII(name) {
		return strings.ToLower(visible(name)), nil // however long: brackets may be what is
	}
	if n.beyond += len(name); n.beyond > maxBeyond {
		return "", errBeyond
	}
	if len(norm.NFKD.String(name)) > longName/2 {
		return "", errBeyond // longer, Canonical may leave it as it is
	}
	return Canonical(name), nil
}

// spell folds and spells the name of a field.
func (n *names) spell(name string) (spelling, error) {
	name, err := n.fold(unblank(name))
	return spell(name), err
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
	names *names
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
	}
	spelling, err := s.names.spell(name)
	switch {
	case err != nil:
		return false, err
	case s.alike(spelling):
		return false, bad("the field is named in another way")
	case !balanced(name):
		return false, bad("a field name has contorted brackets")
	case name == "_charset_" && !isUTF8(value):
		return false, unsupported("the form names a charset")
	case spelling.flat == "utf8" && strings.Contains(value, "&#"):
		return false, unsupported("the form names a charset") // Latin-1 to qs
	case polluting(spelling.nest):
		return false, bad("a field name is __proto__")
	}
	return false, nil
}
