package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// full has every key of a file, so a key that is added is tested too.
func TestFullHasEveryKey(t *testing.T) {
	for _, key := range missing(t, full) {
		t.Errorf("full does not have %s", key)
	}
}

// The documented file has every key, some of them commented out.
func TestDocumentHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/doorward.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.NewReplacer("\n#devices:", "\ndevices:", "\n#state:", "\nstate:", "\n#store:", "\nstore:", "\n#audit:", "\naudit:", "\n#admin:", "\nadmin:", "\n#  ", "\n  ").Replace(string(text))
	for _, key := range missing(t, whole) {
		t.Errorf("docs/doorward.yaml does not have %s", key)
	}
}

// missing returns the keys of a file that text does not have.
func missing(t *testing.T, text string) (keys []string) {
	s := newSource(name)
	var f file
	if s.decode([]byte(text), &f); s.result() != nil {
		t.Fatal(s.result())
	}
	given := map[string]bool{}
	for p := range s.places {
		p = keyOf(p)
		given[p] = true
		// Realms have names, and rules as doors have. Challenges are named as subjects are.
		if named, ok := strings.CutPrefix(p, "realms."); ok {
			_, rest, _ := strings.Cut(named, ".")
			given["realms.*"], given["realms.*."+rest] = true, true
		}
		if rest, ok := strings.CutPrefix(p, "doors.rules"); ok {
			given["realms.*.rules"+rest] = true
		}
		if rest, ok := strings.CutPrefix(p, "doors.subject."); ok {
			given["doors.challenge."+rest] = true
		}
	}
	given["upstreams"] = true // not together with upstream, see TestUpstreams
	for _, key := range []string{"", ".file", ".key_file", ".every"} {
		given["state"+key] = true // not together with store, see TestState
	}
	for _, key := range []string{"", ".master", ".addresses", ".username", ".password_file"} {
		given["store.redis.sentinel"+key] = true // not together with addresses, see TestStore
	}
	given["clients.hops"] = true // not together with trusted_proxies, see TestHops
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if path != "" && !given[path] {
			keys = append(keys, path)
		}
		to := reflect.New(typ).Interface()
		_, isSetter := to.(setter)
		_, isLister := to.(lister)
		switch {
		case isSetter || isLister:
		case typ.Kind() == reflect.Slice:
			walk(path, typ.Elem())
		case typ.Kind() == reflect.Map:
			walk(join(path, "*"), typ.Elem())
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				walk(join(path, typ.Field(i).Tag.Get("yaml")), typ.Field(i).Type)
			}
		}
	}
	walk("", reflect.TypeFor[file]())
	return keys
}

// keyOf cuts the indexes out of a path.
func keyOf(path string) string {
	for {
		open := strings.IndexByte(path, '[')
		if open < 0 {
			return path
		}
		path = path[:open] + path[open+strings.IndexByte(path[open:], ']')+1:]
	}
}
