package config

import (
	"reflect"
	"strings"
)

// suggest says which key of t, a mapping at path, may have been meant by name, and
// returns the path of that key, "" if there is none.
func suggest(t reflect.Type, path, name string) (hint, meant string) {
	plain := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	if best := Closest(plain, keys(t)); best != "" {
		return ", did you mean " + best + "?", join(path, best)
	}
	for i := range t.NumField() {
		in := t.Field(i).Type
		if in.Kind() == reflect.Pointer || in.Implements(reflect.TypeFor[lone]()) {
			in = in.Elem()
		}
		if in.Kind() != reflect.Struct {
			continue
		}
		for _, key := range keys(in) {
			if key == plain && key != "" {
				within := t.Field(i).Tag.Get("yaml")
				return ", it belongs in " + within, join(path, within+"."+key)
			}
		}
	}
	return "", ""
}

// Closest returns the word that name is probably a misspelling of, "" if there is none.
func Closest(name string, words []string) string {
	best, least := "", 1+min(2, len(name)/2)
	for _, w := range words {
		if d := distance(name, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
