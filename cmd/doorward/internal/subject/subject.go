// Package subject names what a request guesses at, an account, a code, a client id,
// by what the operator says about the place where it stands: a form field, a member
// of a JSON object, a header, a query parameter, a path segment, Basic credentials.
//
// It promises that the application behind reads the same subject as we do, whatever
// it is written in, or the request is refused: a field named twice or in two
// spellings that one parser takes for one, a body that one parser accepts and another
// does not, a second place that some framework looks at first. Bodies are judged byte
// for byte as they are passed on. What browsers send for a page in UTF-8 passes, if
// its form has the field once.
//
// It gives up liberality: what no browser and no common client sends is refused, even
// where all parsers happen to agree. Among it: unescaped bytes beyond ASCII in forms,
// numbers as JSON subjects, unquoted names in multipart forms, percent escapes in the
// user of Basic credentials (OAuth servers decode them, others do not), commas in
// headers, a "." in a last path segment (Rails takes what follows it for a format),
// uploads whose file name has a semicolon or a backslash. Names of fields and
// parameters, the subject's or not, have brackets like user[email][x] or none, which
// leaves out the items[0].name of ASP.NET and Spring; no cookie may be named like a
// form field or query parameter that is the subject, or like the root of its brackets
// (PHP's $_REQUEST); a field utf8 must not have a numeric entity (a charset to qs).
//
// Names are looked through up to a bound: 256 fields in a form, parameters in a query,
// cookies, keys of the JSON objects on the way, and over all of them 1 KiB of names
// that are not ASCII. Requests beyond it are refused.
//
// It knows how servers parse, not what an application does with what it has read. One
// that decodes a value twice, takes the subject from a second field if the first does
// not suit it, or cuts names off at some length, is beyond it. Nor does it see that
// two names are one account: that is Canonical's part, and see its limits.
package subject

import (
	"errors"
	"fmt"
	"net/http"
	"unicode"
	"unicode/utf8"
)

// Source says where the subject of a request stands. Exactly one field is set.
type Source struct {
	// Form is the name of a field of a submitted form, as the form has it:
	// "username", "user[email]", "Input.Email".
	Form string
	// JSON is the path to a string in a JSON body, through objects: "user.email".
	JSON string
	// Header is the name of a request header.
	Header string
	// Query is the name of a parameter in the query of the target.
	Query string
	// Path is a path with one wildcard, which is a whole segment: "/verify/{id}".
	Path string
	// BasicAuth is the user of Basic credentials.
	BasicAuth bool
}

// Request is what an Extractor looks at.
type Request struct {
	Method string
	Target string // raw: http.Request.RequestURI
	Header http.Header
	Body   []byte // whole, if NeedsBody
}

// An Error is a request that must not be passed on.
type Error struct {
	Status int    // 400 or 415
	Reason string // one of a fixed set, for logs; nothing in it is the caller's
}

func (e *Error) Error() string { return "subject: " + e.Reason }

func bad(reason string) error { return &Error{http.StatusBadRequest, reason} }

func unsupported(reason string) error { return &Error{http.StatusUnsupportedMediaType, reason} }

// An Extractor names the subjects of requests. It never changes and is safe for
// concurrent use.
type Extractor struct {
	needsBody bool
	find      func(Request) (string, error)
}

// New returns an Extractor, or an error that names the field of s that is wrong.
func New(s Source) (*Extractor, error) {
	var (
		e   *Extractor
		err error
		set int
	)
	try := func(is bool, name, value string, make func(string) (*Extractor, error)) {
		if !is {
			return
		}
		set++
		if e, err = make(value); err != nil {
			err = fmt.Errorf("subject: %s %w", name, err)
		}
	}
	try(s.Form != "", "Form", s.Form, newForm)
	try(s.JSON != "", "JSON", s.JSON, newJSON)
	try(s.Header != "", "Header", s.Header, newHeader)
	try(s.Query != "", "Query", s.Query, newQuery)
	try(s.Path != "", "Path", s.Path, newPath)
	try(s.BasicAuth, "BasicAuth", "", func(string) (*Extractor, error) { return &Extractor{find: basicUser}, nil })
	if set != 1 {
		return nil, errors.New("subject: Source must be exactly one of Form, JSON, Header, Query, Path and BasicAuth")
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// NeedsBody reports whether Name looks at the body.
func (e *Extractor) NeedsBody() bool { return e.needsBody }

// Name returns the subject that r names, as it is spelled; see Canonical. It is ""
// for a well-formed request that names none, or one that is only blanks. A request
// that must be refused gets an error of type *Error.
func (e *Extractor) Name(r Request) (string, error) {
	name, err := e.find(r)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(name) {
		return "", bad("the subject is not UTF-8")
	}
	for _, c := range name {
		if unicode.IsControl(c) {
			return "", bad("the subject has a control character")
		}
	}
	if visible(name) == "" {
		return "", nil
	}
	return name, nil
}
