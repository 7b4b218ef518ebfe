package subject

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// ask asks for the subject and checks what holds for every answer: ok is false if the
// request is refused.
func (e *Extractor) ask(t *testing.T, r Request) (name string, ok bool) {
	t.Helper()
	name, err := e.Name(r)
	var refusal *Error
	if err != nil {
		if !errors.As(err, &refusal) || refusal.Status != 400 && refusal.Status != 415 || refusal.Reason == "" || name != "" {
			t.Fatalf("%q and error %v", name, err)
		}
		return "", false
	}
	if name != "" && Canonical(name) == "" {
		t.Fatalf("a name of blanks, %q", name)
	}
	return name, true
}

// alikeTo fails if another parser reads another subject.
func alikeTo(t *testing.T, name, way string, values ...string) {
	t.Helper()
	for _, v := range values {
		if Canonical(v) != Canonical(name) {
			t.Errorf("%s reads %q, we read %q", way, v, name)
		}
	}
}

func must(s Source) *Extractor {
	e, err := New(s)
	if err != nil {
		panic(err)
	}
	return e
}

// post is a request as net/http has it.
func post(contentType, query string, body []byte) *http.Request {
	return &http.Request{
		Method: "POST", URL: &url.URL{Path: "/login", RawQuery: query},
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// Go's form parsers never read another subject in what is accepted.
func FuzzForm(f *testing.F) {
	for _, s := range corpus(f) {
		if s.source.Form == "username" || s.source.Query != "" {
			_, query := splitTarget(s.target)
			value := "application/x-www-form-urlencoded"
			for _, h := range s.headers {
				if v, ok := strings.CutPrefix(h, "Content-Type: "); ok {
					value = v
				}
			}
			f.Add(value, query, s.body)
		}
	}
	form, query := must(Source{Form: "username"}), must(Source{Query: "username"})
	f.Fuzz(func(t *testing.T, contentType, rawQuery, body string) {
		q := Request{
			Method: "POST", Target: "/login?" + rawQuery, Body: []byte(body),
			Header: http.Header{"Content-Type": {contentType}},
		}
		for _, e := range []*Extractor{form, query} {
			name, ok := e.ask(t, q)
			if !ok {
				continue
			}
			r := post(contentType, rawQuery, []byte(body))
			if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) && e == form && rawQuery == "" {
				t.Errorf("an error for what is accepted: %v", err)
			}
			for key, values := range r.Form {
				if strings.EqualFold(key, "username") {
					alikeTo(t, name, "ParseMultipartForm", values...)
				}
			}
			alikeTo(t, name, "FormValue", r.FormValue("username"))
			if e == form && strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
				values, err := url.ParseQuery(body)
				if err != nil {
					t.Errorf("an error for what is accepted: %v", err)
				}
				alikeTo(t, name, "ParseQuery", values.Get("username"))
			}
			if r.MultipartForm != nil && e == form && len(r.MultipartForm.File["username"]) > 0 {
				t.Error("the field is a file")
			}
		}
	})
}

// encoding/json never reads another subject in what is accepted, and reads all of it.
func FuzzJSON(f *testing.F) {
	for _, s := range corpus(f) {
		if s.source.JSON != "" {
			f.Add(s.body)
		}
	}
	one, two := must(Source{JSON: "username"}), must(Source{JSON: "user.email"})
	f.Fuzz(func(t *testing.T, body string) {
		q := Request{Method: "POST", Target: "/", Body: []byte(body), Header: http.Header{"Content-Type": {"application/json"}}}
		for e, keys := range map[*Extractor][]string{one: {"username"}, two: {"user", "email"}} {
			name, ok := e.ask(t, q)
			if !ok {
				continue
			}
			values := readJSON(keys, []byte(body))
			if name != "" && len(values) != 4 {
				t.Errorf("we read %q, encoding/json %q", name, values)
			}
			alikeTo(t, name, "encoding/json", values...)
		}
	})
}

// ServeMux never reads another subject in what is accepted.
func FuzzTarget(f *testing.F) {
	for _, s := range corpus(f) {
		if s.source.Path != "" {
			f.Add(s.target)
		}
	}
	patterns := []string{"/verify/{id}", "/users/{id}/login"}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		for _, pattern := range patterns {
			name, ok := must(Source{Path: pattern}).ask(t, Request{Method: "GET", Target: target})
			if !ok {
				continue
			}
			values := muxValue(pattern, &http.Request{Method: "GET", URL: u, Host: u.Host})
			if name != "" && len(values) != 1 {
				t.Errorf("we read %q, ServeMux %q", name, values)
			}
			alikeTo(t, name, "ServeMux", values...)
		}
	})
}
