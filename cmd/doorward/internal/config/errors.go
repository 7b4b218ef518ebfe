package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Error is one thing that is wrong, and where.
type Error struct {
	File      string // "" for a flag
	Line, Col int    // from 1; 0 if the whole file is meant
	Path      string // such as doors[0].rules[1].lockout.window, "" for the whole file
	Flag      string // such as --door "POST login", instead of File and Path
	Msg       string
	noSuccess bool // a door names no success
}

func (e Error) Error() string {
	var b strings.Builder
	switch {
	case e.Flag != "":
		b.WriteString(e.Flag + ": ")
	case e.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Col)
	default:
		b.WriteString(e.File + ": ")
	}
	if e.Flag == "" && e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Errors is everything that is wrong with a configuration, in the order of the file.
type Errors []Error

// Error puts each error on a line of its own. If a door names no success, the usual
// ways to name one follow.
func (es Errors) Error() string {
	var b strings.Builder
	noSuccess := false
	for i, e := range es {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
		noSuccess = noSuccess || e.noSuccess
	}
	if noSuccess {
		b.WriteString("\n" + usualForms)
	}
	return b.String()
}

const usualForms = `
The usual ways to name a success, as a flag and as YAML (under outcome):

  a redirect when the password was right, the form again (200) when it was wrong
      --succeeded 302,303           succeeded: {status: [302, 303]}
  a cookie that is set only when the password was right
      --succeeded cookie:session    succeeded: {set_cookie: session}
  a redirect either way, but to another place when the password was right
      --succeeded location:/home    succeeded: {location: /home}
  several of these together
      --succeeded 302,cookie:id     succeeded: {status: 302, set_cookie: id}
  an API that answers 2xx when it was right, and 401 or the like when it was wrong
      --succeeded 2xx               succeeded: {status: 2xx}
  an application that says so itself, by the header Doorward-Outcome: succeeded
      --succeeded header            header: true`

// A place is where something stands in a file.
type place struct{ line, col int }

// A source knows where each value of a configuration came from, and collects what
// is wrong with it.
type source struct {
	file   string
	places map[string]place  // of paths, in the file
	flags  map[string]string // of paths, which flag sets them
	given  map[string]bool   // paths that a flag did set
	failed map[string]bool   // paths that are known to be wrong
	errs   Errors
}

func newSource(file string) *source {
	return &source{file: file, places: map[string]place{}, flags: map[string]string{}, given: map[string]bool{}, failed: map[string]bool{}}
}

// fail records an error at path. A path that is missing is reported where its parent
// stands. What is inside of something wrong, or was reported before, is not reported.
func (s *source) fail(path, format string, args ...any) {
	for p := path; p != ""; p = parent(p) {
		if s.failed[p] {
			return
		}
	}
	msg := fmt.Sprintf(format, args...)
	if path != "" && !s.has(path) {
		msg = "is missing: " + msg
	}
	s.failAt(s.locate(path), path, msg)
}

// failAt records an error at a place that the caller knows.
func (s *source) failAt(e Error, path, msg string) {
	s.failed[path] = true
	e.Path, e.Msg = path, msg
	s.errs = append(s.errs, e)
}

// has reports whether path was given.
func (s *source) has(path string) bool {
	_, inFile := s.places[path]
	return inFile || s.given[path]
}

// locate returns where path is, or the innermost thing around it that is anywhere.
func (s *source) locate(path string) Error {
	for p := path; ; p = parent(p) {
		if flag, ok := s.flags[p]; ok {
			return Error{Flag: flag}
		}
		if at, ok := s.places[p]; ok {
			return Error{File: s.file, Line: at.line, Col: at.col}
		}
		if p == "" {
			return Error{File: s.file}
		}
	}
}

// parent cuts the last key or index off a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// result returns the errors in the order of the file, nil if there are none.
func (s *source) result() error {
	if len(s.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(s.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return s.errs
}
