package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const name = "doorward.yaml"

// good is a file that is right. Lines that start with "#" name places for more.
const good = `upstream: http://127.0.0.1:3000
#top
doors:
  - name: login
    routes: ["POST /login"]
    #door
    outcome:
      succeeded: {status: 302}
`

// with puts text in the place of a comment of good.
func with(place, text string) string {
	indent := ""
	for line := range strings.SplitSeq(good, "\n") {
		if strings.TrimSpace(line) == place {
			indent = line[:len(line)-len(place)]
		}
	}
	return strings.Replace(good, place, strings.ReplaceAll(text, "\n", "\n"+indent), 1)
}

func top(text string) string   { return with("#top", text) }
func door1(text string) string { return with("#door", text) }

// rule puts one rule into the door of good.
func rule(text string) string { return door1("rules:\n  - " + text) }

// lock puts one key into the lockout of a rule that is right without it.
func lock(text string) string {
	all := map[string]string{"free_failures": "5", "window": "1m", "first_lockout": "1m", "max_lockout": "1h"}
	key, _, _ := strings.Cut(text, ":")
	line := "lockout: {" + text
	for _, k := range []string{"free_failures", "window", "first_lockout", "max_lockout"} {
		if k != key {
			line += ", " + k + ": " + all[k]
		}
	}
	return rule("per: network\n    " + line + "}")
}

func mustParse(t testing.TB, text string) Config {
	t.Helper()
	c, err := Parse(name, []byte(text), Overrides{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// wantErrors compares the errors of a file, less its name, line by line.
func wantErrors(t *testing.T, text string, err error, want ...string) {
	t.Helper()
	var list Errors
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	var got []string
	for _, e := range list {
		got = append(got, strings.TrimPrefix(e.Error(), name+":"))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("errors\n\t%s\nwant\n\t%s\nof\n%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"), text)
	}
}
