package config

import (
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
)

var subjectFields = map[string]string{
	"Form": "form", "JSON": "json", "Header": "header", "Query": "query", "Path": "path", "BasicAuth": "basic_auth",
}

// subject returns what f says, the zero Source if that is nothing or wrong.
func (s *source) subject(path string, f *sourceFile) subject.Source {
	if f == nil || s.failedWithin(path) {
		return subject.Source{}
	}
	from := subject.Source{Form: f.Form, JSON: f.JSON, Header: f.Header, Query: f.Query, Path: f.Path, BasicAuth: f.BasicAuth}
	given := 0
	for _, key := range subjectFields {
		if s.has(path + "." + key) {
			given++
		}
	}
	switch {
	case given != 1:
		s.fail(path, "must have exactly one of form, json, header, query, basic_auth and path, got %d", given)
		return subject.Source{}
	case s.has(path+".basic_auth") && !f.BasicAuth:
		s.fail(path+".basic_auth", "must be true, got false")
		return subject.Source{}
	}
	if _, err := subject.New(from); err != nil {
		s.core(path, err, subjectFields)
		return subject.Source{}
	}
	return from
}

// oneBody reports a door at which no body would do.
func (s *source) oneBody(path string, d Door) {
	for _, pair := range [][2]subject.Source{{d.Subject, d.Challenge}, {d.Challenge, d.Subject}} {
		if pair[0].Form != "" && pair[1].JSON != "" {
			s.fail(path+".challenge", "must not be in a form when the subject is in JSON, or the other way about: no body is both")
			return
		}
	}
}
