package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/doorward/doorward/door"
)

// Some applications take the method of a request from elsewhere: Rails, Laravel,
// Symfony, Spring and the Express middleware for it from a header, from a parameter of
// the query or from a field of the form. Then GET /login is POST /login to them, and
// a form that is sent to POST /password is PUT /password. So a request is at a door as
// well if any of these names a method of the door's. Headers and query are searched;
// a body is read for it only where a door has the path but not the method.
//
// It is judged, not removed: an application that needs overrides keeps them, and one
// that does not know them answers as it would have, which is no success at a door.

// overrides reports whether a header or a parameter called name may name the method,
// whatever an application takes for a letter's case, "-", "_" and what is like them.
func overrides(name string) bool {
	b := make([]byte, 0, 64)
	for i := range len(name) {
		if c := fold(name[i]); c != '-' && len(b) < cap(b) {
			b = append(b, c)
		}
	}
	for _, s := range []string{"methodoverride", "overridemethod", "httpmethod"} {
		if bytes.Contains(b, []byte(s)) {
			return true
		}
	}
	return string(b) == "method" || string(b) == "xmethod"
}

// headerMethods returns the methods that headers name.
func headerMethods(h http.Header) (methods []string) {
	for name, values := range h {
		if overrides(name) {
			for _, v := range values {
				methods = appendWords(methods, v)
			}
		}
	}
	return methods
}

// targetMethods returns the methods that parameters of a target name. Where its query
// starts is not for us to say: it may be in an escape, or behind a ";". Nor is where a
// name ends: PHP cuts it at a NUL, others at brackets.
func targetMethods(target string) (methods []string) {
	for range 3 { // as it is, decoded once, decoded twice
		for piece := range strings.FieldsFuncSeq(target, func(r rune) bool { return strings.ContainsRune("?&;#/", r) }) {
			if name, value, ok := strings.Cut(piece, "="); ok && strings.Contains(strings.ToLower(name), "method") {
				methods = appendWords(methods, value)
			}
		}
		decoded := unescape(target)
		if decoded == target {
			break
		}
		target = decoded
	}
	return methods
}

// bodyMethods returns the methods that may be named in a body that is a form, in either
// encoding, or JSON: any word behind the name of such a field, up to the next field
// where there is one to see. It reports false if it cannot tell.
func bodyMethods(h http.Header, body []byte) (methods []string, ok bool) {
	if len(h["Content-Encoding"]) > 0 || bytes.IndexByte(body, 0) >= 0 || bytes.Contains(body, []byte(`\u`)) {
		return nil, false
	}
	for _, kind := range h["Content-Type"] {
		if _, charset, ok := strings.Cut(strings.ToLower(kind), "charset"); ok && !likeASCII(strings.Trim(charset, ` ="'`)) {
			return nil, false
		}
	}
	text := strings.ToLower(unescape(strings.ReplaceAll(string(body), `\`, "")))
	end, parts := "&", false // of a field
	if strings.Contains(text, "\n--") || strings.HasPrefix(text, "--") {
		end, parts = "\n--", true // it may be a multipart form, in which names may be written otherwise
		for _, sign := range []string{"content-transfer-encoding", "name*", "=?"} {
			if strings.Contains(text, sign) {
				return nil, false
			}
		}
	}
	for part := range strings.SplitSeq(text, end) {
		_, rest, found := strings.Cut(part, "method")
		if !found {
			continue
		}
		// A header that goes on behind what looks like the end is none of a part's.
		if parts && !strings.Contains(rest, "\n\n") && !strings.Contains(rest, "\n\r\n") {
			return nil, false
		}
		methods = appendWords(methods, rest)
	}
	return methods, len(methods) <= maxMethods
}

// isFile reports whether a body of this type has no fields that anyone reads: uploads
// may be long.
func isFile(kinds []string) bool {
	if len(kinds) != 1 {
		return false
	}
	kind := strings.ToLower(kinds[0])
	for _, fields := range []string{"form", "urlencoded", "json", "multipart"} {
		if strings.Contains(kind, fields) {
			return false // somebody may look for no more than this word
		}
	}
	main, _, _ := strings.Cut(kind, "/")
	switch main {
	case "image", "audio", "video", "font":
		return true
	}
	return kind == "application/octet-stream"
}

// likeASCII reports whether charset writes English letters as ASCII does.
func likeASCII(charset string) bool {
	for _, s := range []string{"utf-8", "utf8", "us-ascii", "iso-8859-", "windows-125"} {
		if strings.HasPrefix(charset, s) {
			return true
		}
	}
	return false
}

// maxMethods is how many methods a request may name. One that names more is at every
// door that has its path.
const maxMethods = 64

// appendWords appends the words of s, one more than maxMethods at most.
func appendWords(to []string, s string) []string {
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	}) {
		if len(to) > maxMethods {
			break
		}
		to = append(to, word)
	}
	return to
}

// unescape decodes what is well-formed of s, and "+" as forms have it.
func unescape(s string) string {
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			return b.String() + s
		}
		b.WriteString(s[:i])
		if u, err := url.PathUnescape(s[i:min(i+3, len(s))]); err == nil {
			b.WriteString(u)
			s = s[i+3:]
			continue
		}
		b.WriteByte('%')
		s = s[i+1:]
	}
}

// judge returns the door that r is at, whatever method it may be taken for. It reports
// false if it has answered r, whose body did not arrive or found no room. A body that is
// kept takes room at the door, as those of attempts do.
func (p *Proxy) judge(w http.ResponseWriter, r *http.Request, v *visit) (*guarded, door.Match, bool) {
	s := v.set
	q := door.Request{Method: r.Method, Host: r.Host, Target: r.RequestURI, Authorization: r.Header["Authorization"], AnyMethod: true}
	at, match := s.find(q)
	if match == door.None {
		return nil, match, true
	}
	q.Methods = append(headerMethods(r.Header), targetMethods(r.RequestURI)...)
	q.AnyMethod = len(q.Methods) > maxMethods
	d, m := s.find(q)
	if d == at && m == match || r.Body == nil || r.Body == http.NoBody {
		return d, m, true
	}
	limit := at.MaxBody
	if limit == 0 {
		limit = s.config.Limits.BodyBytes
	}
	if !p.room(w, r, at, v) {
		return nil, door.Bad, false
	}
	body, whole, err := peek(w, r, limit, s.config.Timeouts.Body)
	if err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, os.ErrDeadlineExceeded) {
			status = http.StatusRequestTimeout
		}
		p.answer(w, r, status)
		return nil, door.Bad, false
	}
	if !whole && isFile(r.Header["Content-Type"]) {
		return d, m, true
	}
	methods, ok := bodyMethods(r.Header, body)
	if !whole || !ok {
		return at, match, true
	}
	q.Methods = append(q.Methods, methods...)
	d, m = s.find(q)
	return d, m, true
}

// peek reads up to limit bytes of the body of r, for most at most, and
// puts them back. It reports whether that is all.
func peek(w http.ResponseWriter, r *http.Request, limit int64, most time.Duration) (body []byte, whole bool, err error) {
	if r.ContentLength > limit {
		return nil, false, nil
	}
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(most))
	body, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, false, err
	}
	control.SetReadDeadline(time.Time{})
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	return body, int64(len(body)) <= limit, nil
}
