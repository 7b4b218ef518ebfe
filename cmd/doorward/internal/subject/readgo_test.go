package subject

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// readGo reads a request in the ways of Go's standard library.
func readGo(t *testing.T, s *sample) (found []reading) {
	add := func(way string, values ...string) {
		for _, v := range values {
			if Canonical(v) != "" {
				found = append(found, reading{way, v})
			}
		}
	}
	r, body := s.request(t)
	switch src := s.source; {
	case src.Form != "", src.Query != "":
		name := src.Form + src.Query
		r.ParseMultipartForm(1 << 20) // what it found before an error counts
		add("FormValue", r.FormValue(name))
		add("PostFormValue", r.PostFormValue(name))
		for k, v := range r.Form {
			if strings.EqualFold(k, name) {
				add("Form", v...)
			}
		}
		if r.MultipartForm != nil {
			add("MultipartForm.Value", r.MultipartForm.Value[name]...)
			for _, h := range r.MultipartForm.File[name] {
				if f, err := h.Open(); err == nil {
					b, _ := io.ReadAll(f)
					add("MultipartForm.File", string(b))
				}
			}
		}
		if isType(r, "json") {
			add("json", readJSON([]string{name}, body)...)
		}
	case src.JSON != "":
		add("Form", r.URL.Query()[src.JSON]...)
		if isType(r, "json") {
			add("json", readJSON(strings.Split(src.JSON, "."), body)...)
		}
	case src.Header != "":
		add("Header", r.Header.Values(src.Header)...)
	case src.Path != "":
		add("PathValue", muxValue(src.Path, r)...)
		add("Query, after a rewrite", r.URL.Query()[src.Path[strings.Index(src.Path, "{")+1:strings.Index(src.Path, "}")]]...)
	case src.BasicAuth:
		user, _, _ := r.BasicAuth()
		add("BasicAuth", user)
		escaped, err := url.QueryUnescape(user)
		if err == nil && !strings.Contains(user, "+") {
			add("BasicAuth, of OAuth", escaped)
		}
	}
	return found
}

func isType(r *http.Request, part string) bool {
	types := r.Header.Values("Content-Type")
	return len(types) == 0 || strings.Contains(strings.ToLower(strings.Join(types, " ")), part)
}

// muxValue is what a handler of pattern gets.
func muxValue(pattern string, r *http.Request) (values []string) {
	_, rest, _ := strings.Cut(pattern, "{")
	name, _, _ := strings.Cut(rest, "}")
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { values = append(values, r.PathValue(name)) })
	mux.ServeHTTP(httptest.NewRecorder(), r)
	return values
}

// readJSON decodes text into structs and into maps, and takes what a Decoder takes
// first.
func readJSON(keys []string, text []byte) (values []string) {
	typ := reflect.TypeFor[string]()
	for i := len(keys) - 1; i >= 0; i-- {
		typ = reflect.StructOf([]reflect.StructField{{Name: "F", Type: typ, Tag: reflect.StructTag(`json:"` + keys[i] + `"`)}})
	}
	for _, decode := range []func(any) error{
		func(v any) error { return json.Unmarshal(text, v) },
		func(v any) error { return json.NewDecoder(bytes.NewReader(text)).Decode(v) },
	} {
		v := reflect.New(typ)
		decode(v.Interface()) // what was set before an error counts
		for v = v.Elem(); v.Kind() == reflect.Struct; v = v.Field(0) {
		}
		values = append(values, v.String())

		var m any
		if decode(&m) != nil {
			continue
		}
		for _, key := range keys {
			o, _ := m.(map[string]any)
			m = o[key]
		}
		if s, ok := m.(string); ok {
			values = append(values, s)
		}
	}
	return values
}
