package apitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
)

func contract(t *testing.T) *Contract {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What is as the document says passes, and the least that is not does not.
func TestCheck(t *testing.T) {
	const network = `{"id":"0123456789abcdef","network":"192.0.2.0/24","action":"block","until":"2026-01-02T03:04:05Z","actor":"ann","reason":"r"}`
	const list = `{"network":"192.0.2.0/24","action":"block","for":60,"actor":"ann","reason":"r"}`
	for _, row := range []struct {
		name, method, target, asked string
		status                      int
		answer                      string
		want                        string // of the error
	}{
		{"an answer", "POST", "/v1/networks", list, 200, network, ""},
		{"a field that nobody promised", "POST", "/v1/networks", list, 200, strings.Replace(network, `"id"`, `"secret":1,"id"`, 1), "not as the document says"},
		{"a field that is missing", "POST", "/v1/networks", list, 200, strings.Replace(network, `"actor":"ann",`, "", 1), "not as the document says"},
		{"another type", "POST", "/v1/networks", list, 200, strings.Replace(network, `"ann"`, "1", 1), "not as the document says"},
		{"another word", "POST", "/v1/networks", list, 200, strings.Replace(network, "block", "ban", 1), "not as the document says"},
		{"a time of another form", "POST", "/v1/networks", list, 200, strings.Replace(network, "05Z", "05+01:00", 1), "not as the document says"},
		{"no JSON", "POST", "/v1/networks", list, 200, "", "not as the document says"},
		{"asked otherwise", "POST", "/v1/networks", strings.Replace(list, "for", "four", 1), 200, network, "not asked for"},
		{"asked with more", "POST", "/v1/networks", strings.Replace(list, `"for"`, `"to":1,"for"`, 1), 200, network, "not asked for"},
		{"asked otherwise and refused", "POST", "/v1/networks", "{}", 400, `{"error":"no"}`, ""},
		{"a problem without words", "POST", "/v1/networks", "{}", 400, `{}`, "not as the document says"},
		{"an unknown parameter", "GET", "/v1/keys?gaurd=login", "", 200, `{"keys":[],"next":""}`, "not asked for"},
		{"a bound", "GET", "/v1/keys?limit=1001", "", 200, `{"keys":[],"next":""}`, "not asked for"},
		{"a key of a word", "GET", "/v1/keys?limit=1000", "", 200, `{"keys":[],"next":null}`, "not as the document says"},
		{"an unknown path", "GET", "/v1/nothing", "", 200, `{}`, "not in the document"},
		{"an unknown path that is refused", "GET", "/v1/nothing", "", 404, `{"error":"no"}`, ""},
		{"an unknown path that is refused otherwise", "GET", "/v1/nothing", "", 404, `404 page not found`, "Problem"},
		{"another method", "PUT", "/v1/status", "", 200, `{}`, "not in the document"},
		{"done", "DELETE", "/v1/networks/1", `{"actor":"a","reason":"b"}`, 204, "", ""},
		{"done, by nobody", "DELETE", "/v1/networks/1", `{"reason":"b"}`, 204, "", "not asked for"},
	} {
		r := httptest.NewRequest(row.method, row.target, nil)
		if row.asked != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		res := &http.Response{StatusCode: row.status, Header: http.Header{"Content-Type": {"application/json"}}}
		err := contract(t).Check(r, []byte(row.asked), res, []byte(row.answer))
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", row.name, err, row.want)
		}
	}
}

func TestEvent(t *testing.T) {
	c := contract(t)
	const line = `{"time":"2026-01-02T03:04:05.678901Z","event":"refused","door":"login","client":"192.0.2.7","how":"peer","reason":"locked","retry_after":59.5}`
	if err := c.Event([]byte(line)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{strings.Replace(line, "refused", "refuse", 1), strings.Replace(line, "59.5", "0", 1), strings.Replace(line, `"how"`, `"user"`, 1), "{}", ""} {
		if c.Event([]byte(bad)) == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

// The types say what the document says, field by field.
func TestTypes(t *testing.T) {
	c := contract(t)
	for name, typ := range map[string]reflect.Type{
		"Status": reflect.TypeFor[api.Status](), "Door": reflect.TypeFor[api.Door](), "Guard": reflect.TypeFor[api.Guard](),
		"Rule": reflect.TypeFor[api.Rule](), "Page": reflect.TypeFor[api.Page](), "Key": reflect.TypeFor[api.Key](),
		"Who": reflect.TypeFor[api.Who](), "Why": reflect.TypeFor[api.Why](), "Found": reflect.TypeFor[api.Found](),
		"Finding": reflect.TypeFor[api.Finding](), "By": reflect.TypeFor[api.By](), "Unlock": reflect.TypeFor[api.Unlock](),
		"Unlocked": reflect.TypeFor[api.Unlocked](), "Clear": reflect.TypeFor[api.Clear](), "List": reflect.TypeFor[api.List](),
		"Network": reflect.TypeFor[api.Network](), "Networks": reflect.TypeFor[api.Networks](), "Problem": reflect.TypeFor[api.Problem](),
	} {
		var said []string
		for field := range c.doc.Components.Schemas[name].Value.Properties {
			said = append(said, field)
		}
		typed := fields(typ)
		slices.Sort(said)
		slices.Sort(typed)
		if !slices.Equal(said, typed) {
			t.Errorf("%s: the document has %v, the type %v", name, said, typed)
		}
	}
	var doc struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if text, err := json.Marshal(c.doc); err != nil || json.Unmarshal(text, &doc) != nil {
		t.Fatal(err)
	}
	for name, text := range doc.Components.Schemas {
		if strings.Contains(string(text), `"properties"`) && !strings.Contains(string(text), `"additionalProperties":false`) {
			t.Errorf("%s may have fields that the document does not name", name)
		}
	}
}

// fields are those that a value of type t has in JSON.
func fields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			names = append(names, fields(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
