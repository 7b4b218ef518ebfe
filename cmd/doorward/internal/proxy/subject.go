package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/doorward/doorward/cmd/doorward/internal/subject"
)

// unreadable is a request that names nothing, or not in one way only. What it says is
// one of a fixed set of texts: nothing in it is the caller's.
type unreadable struct {
	status int
	reason string
}

func (e unreadable) Error() string { return e.reason }

// Status is how the request is answered.
func (e unreadable) Status() int { return e.status }

// nameOf returns what e finds in requests whose bodies are in memory, nil if there is
// no e.
func nameOf(e *subject.Extractor) func(*http.Request) (string, error) {
	if e == nil {
		return nil
	}
	return func(r *http.Request) (string, error) {
		from := subject.Request{Method: r.Method, Target: r.RequestURI, Header: r.Header}
		if e.NeedsBody() {
			var err error
			if from.Body, err = io.ReadAll(r.Body); err != nil {
				return "", unreadable{http.StatusBadRequest, "the body cannot be read"}
			}
		}
		name, err := e.Name(from)
		if bad := (*subject.Error)(nil); errors.As(err, &bad) {
			return "", unreadable{bad.Status, bad.Reason}
		}
		return name, err
	}
}

// challengeOf returns what names the challenge of a request in its canonical form. One
// that names none is refused, or whoever leaves it out would be past the rules for it.
func challengeOf(e *subject.Extractor) func(*http.Request) (string, error) {
	name := nameOf(e)
	if name == nil {
		return nil
	}
	return func(r *http.Request) (string, error) {
		challenge, err := name(r)
		if err != nil {
			return "", err
		}
		if challenge = subject.Canonical(challenge); challenge == "" {
			return "", unreadable{http.StatusBadRequest, "the request names no challenge"}
		}
		return challenge, nil
	}
}

// reason returns why a request was refused as malformed, for the log.
func reason(err error) string {
	if bad := (unreadable{}); errors.As(err, &bad) {
		return bad.reason
	}
	return strings.TrimPrefix(err.Error(), "httpguard: ")
}
