// Package outcome says what an application's answer to an attempt means: whether
// the secret was right, by the final status and the headers alone.
//
// It promises that what is not known to have gone well has failed. An answer counts
// as a success only if the application says so by name or if every condition that
// the operator named holds; a cookie that is deleted is not a cookie that is set,
// and a redirect next to the named place does not lead there.
//
// It gives up on guessing. There is no default for success, since a page that
// answers 200 or 302 to a wrong password is the rule: without a named success there
// is no classifier. It reads no body, and it knows no clock: an expiry counts as
// past by the Date of the same answer, or if it was past when this was written.
//
// Do not use it where the code that checks the secret can say how it went: an
// explicit word is better than any condition.
package outcome

import (
	"errors"
	"fmt"
	"strings"

	"github.com/doorward/doorward"
)

// Header is the response header by which an application says how an attempt ended:
// succeeded, failed, malformed or void. Whoever passes answers on removes it, and
// removes it from requests too, lest an application echo the caller's.
const Header = "Doorward-Outcome"

// Rules say how a door's answers are read.
type Rules struct {
	// Failed says what is a failure even if it looks like a success.
	Failed Conditions
	// Void lists statuses of answers that judged nothing: the attempt is taken
	// back. Whoever can bring about such an answer has free guesses if the
	// application does check the secret before giving it.
	Void Statuses
	// Succeeded says what is a success.
	Succeeded Conditions
	// Header says that the application names its successes by Header, so that no
	// condition is needed. Its word comes before all conditions either way.
	Header bool
}

// Conditions hold for an answer if all that are named do. None named: they hold for
// no answer.
type Conditions struct {
	Status Statuses
	// SetCookie names a cookie that the answer sets: to a value that is not empty,
	// without an expiry that deletes it. Letter case counts. If the answer sets it
	// more than once, the last one counts, whatever path or domain it is for.
	SetCookie string
	// Location is where the answer redirects to: this, or something below it, as
	// sent. What follows the prefix must start with "/", "?" or "#", unless the
	// prefix ends with one of these, "=" or "&": /app leads to /app, /app/x and
	// /app?x, not to /application or /app;x. A root (/ or https://host) is no prefix
	// but the home page, with or without a query, since all paths start like that.
	// Two Location headers lead nowhere.
	Location string
}

// ErrNoSuccess is returned by New when no rule names a success.
var ErrNoSuccess = errors.New(`outcome: Succeeded must say what a right guess looks like; there is no default, since most applications answer 200 or 302 to wrong ones too. Usual forms:
	302                    a status, if wrong guesses get another
	200,302 or 2xx         one of these
	cookie:NAME            a cookie that is set on success only
	location:/home         a redirect that only success leads to
	302,cookie:NAME        all of these together
	header                 the application answers with ` + Header + `: succeeded`)

// Classifier reads answers by its rules. It never changes and is safe for
// concurrent use. The zero Classifier knows no conditions, only the word.
type Classifier struct {
	rules Rules
}

// New returns a classifier for r. Without a named success the error is ErrNoSuccess.
func New(r Rules) (*Classifier, error) {
	if err := r.Failed.validate("Failed"); err != nil {
		return nil, err
	}
	if err := r.Succeeded.validate("Succeeded"); err != nil {
		return nil, err
	}
	if err := r.Void.validate("Void"); err != nil {
		return nil, err
	}
	if !r.Header && !r.Succeeded.named() {
		return nil, ErrNoSuccess
	}
	if !r.Failed.named() && r.Succeeded.SetCookie == "" && r.Succeeded.Location == "" && r.Succeeded.Status.all() {
		return nil, errors.New("outcome: Succeeded.Status must not have every status unless Failed is named: nothing would fail")
	}
	if r.Void.all() {
		return nil, errors.New("outcome: Void must not have every status: nothing would count")
	}
	// What is asked first must not make the rest pointless.
	always := Statuses(nil)
	if r.Failed.SetCookie == "" && r.Failed.Location == "" {
		always = r.Failed.Status
	}
	for s := minStatus; s <= maxStatus; s++ {
		if r.Void.Contains(s) && always.Contains(s) {
			return nil, fmt.Errorf("outcome: Void must not list what Failed does, got %d", s)
		}
	}
	if len(r.Succeeded.Status) > 0 {
		possible := false
		for s := minStatus; s <= maxStatus; s++ {
			possible = possible || r.Succeeded.Status.Contains(s) && !always.Contains(s) && !r.Void.Contains(s)
		}
		if !possible {
			return nil, fmt.Errorf("outcome: Succeeded.Status must have a status that neither Failed nor Void lists, got %s", r.Succeeded.Status)
		}
	}
	return &Classifier{rules: r.clone()}, nil
}

func (r Rules) clone() Rules {
	r.Failed.Status = append(Statuses(nil), r.Failed.Status...)
	r.Succeeded.Status = append(Statuses(nil), r.Succeeded.Status...)
	r.Void = append(Statuses(nil), r.Void...)
	return r
}

func (c Conditions) named() bool {
	return len(c.Status) > 0 || c.SetCookie != "" || c.Location != ""
}

func (c Conditions) validate(field string) error {
	if err := c.Status.validate(field + ".Status"); err != nil {
		return err
	}
	if strings.TrimLeft(c.SetCookie, tokenChars) != "" {
		return fmt.Errorf("outcome: %s.SetCookie must be a cookie name, got %q", field, c.SetCookie)
	}
	for i := 0; i < len(c.Location); i++ {
		if c.Location[i] <= ' ' || c.Location[i] == 0x7f {
			return fmt.Errorf("outcome: %s.Location must have no space or control character, got %q", field, c.Location)
		}
	}
	if host, ok := absolute(c.Location); ok && strings.TrimLeft(host, "/?#") == "" {
		return fmt.Errorf("outcome: %s.Location must have a host after \"//\", got %q", field, c.Location)
	}
	return nil
}

const tokenChars = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Verdict is what one answer means.
type Verdict struct {
	Outcome doorward.Outcome
	// Warning is a line for the log when the application used Header wrongly, else "".
	Warning string
}

// Classify judges one final answer. header is an http.Header with canonical keys.
//
// The order is: the application's word, the Failed conditions, the Void statuses,
// the Succeeded conditions, else failed. An application that sends its word twice
// or misspells it has failed the attempt, with a warning. A status below 200 is not
// final, so 101 fails; above 599 no condition holds.
func (c *Classifier) Classify(status int, header map[string][]string) Verdict {
	if status < minStatus {
		return Verdict{}
	}
	if words := header[Header]; len(words) > 0 {
		return explicit(words)
	}
	switch {
	case status > maxStatus, c.rules.Failed.hold(status, header):
		return Verdict{}
	case c.rules.Void.Contains(status):
		return Verdict{Outcome: doorward.Void}
	case c.rules.Succeeded.hold(status, header):
		return Verdict{Outcome: doorward.Succeeded}
	}
	return Verdict{}
}

func explicit(words []string) Verdict {
	if len(words) > 1 {
		return Verdict{Warning: fmt.Sprintf("%s must be sent once, got %d", Header, len(words))}
	}
	for o := doorward.Failed; o <= doorward.Void; o++ {
		if words[0] == o.String() {
			return Verdict{Outcome: o}
		}
	}
	return Verdict{Warning: fmt.Sprintf("%s must be succeeded, failed, malformed or void, got %.32q", Header, words[0])}
}

func (c *Conditions) hold(status int, header map[string][]string) bool {
	return c.named() &&
		(len(c.Status) == 0 || c.Status.Contains(status)) &&
		(c.SetCookie == "" || setsCookie(header, c.SetCookie)) &&
		(c.Location == "" || leadsTo(header["Location"], c.Location))
}

// leadsTo reports whether the one Location is prefix or below it.
func leadsTo(values []string, prefix string) bool {
	if len(values) != 1 {
		return false
	}
	rest, found := strings.CutPrefix(values[0], prefix)
	switch {
	case !found, strings.Contains(strings.ReplaceAll(strings.ToLower(rest), "%2e", "."), "/.."):
		return false // not there, or out of it again
	case rest == "":
		return true
	case isRoot(prefix):
		if prefix[len(prefix)-1] != '/' {
			rest = strings.TrimPrefix(rest, "/")
		}
		return rest == "" || rest[0] == '?' || rest[0] == '#'
	}
	return strings.IndexByte("/?#=&", prefix[len(prefix)-1]) >= 0 || strings.IndexByte("/?#", rest[0]) >= 0
}

// isRoot reports whether prefix names a whole host.
func isRoot(prefix string) bool {
	if host, ok := absolute(prefix); ok {
		return !strings.ContainsAny(strings.TrimSuffix(host, "/"), "/?#")
	}
	return prefix == "/"
}

// absolute returns what follows the "//" of a URL with a host.
func absolute(location string) (host string, ok bool) {
	before, host, ok := strings.Cut(location, "//")
	return host, ok && (before == "" || strings.HasSuffix(before, ":") && !strings.ContainsAny(before, "/?#"))
}
