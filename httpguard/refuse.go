package httpguard

import (
	"io"
	"net/http"
	"strconv"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

// maxRetryAfter is the longest wait that is told: a day, in seconds.
const maxRetryAfter = 86_400

// Refuse answers a request that was refused as v says: 503 if everyone is refused or
// nothing could be decided, 403 if the network is blocked, else 429. All answers of a
// status are alike to the byte, whichever rule refused and on whatever key, except for
// Retry-After.
func Refuse(w http.ResponseWriter, r *http.Request, v guard.Verdict) {
	status := Status(v)
	if status != http.StatusForbidden {
		w.Header().Set("Retry-After", strconv.FormatInt(RetryAfter(v), 10))
	}
	Answer(w, r, status)
}

// Status returns the status of the standard refusal for v.
func Status(v guard.Verdict) int {
	switch {
	case v.Reason == doorward.Blocked:
		return http.StatusForbidden
	case v.Reason == doorward.Ceiling, v.Reason == doorward.Unavailable, v.Rule != "" && v.Per == guard.Everyone:
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// RetryAfter returns the wait that the standard refusal for v tells, in seconds:
// rounded up, 1 to 86,400, and 1 while Busy.
func RetryAfter(v guard.Verdict) int64 {
	if v.Reason == doorward.Busy {
		return 1
	}
	return min(max(wholeSeconds(v.RetryAfter), 1), maxRetryAfter)
}

// Answer writes one of Doorward's own answers: problem details (RFC 9457) if JSON is
// asked for, a page if HTML is, else text; nothing but headers for HEAD. It says what
// happened and what to do in words that depend on the status alone.
func Answer(w http.ResponseWriter, r *http.Request, status int) {
	kind := negotiate(r.Header["Accept"])
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", contentTypes[kind])
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
	if kind == typeHTML {
		h.Set("Content-Security-Policy", pagePolicy)
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	words := wordsFor(status)
	switch kind {
	case typeJSON:
		write(w, `{"type":"about:blank","title":"`, http.StatusText(status), `","status":`, strconv.Itoa(status), `,"detail":"`, words.text, "\"}\n")
	case typeHTML:
		write(w, pageHead, words.title, pageStyled, words.title, "</h1>\n<p>", words.text, pageEnd)
	default:
		write(w, words.title, "\n\n", words.text, "\n")
	}
}

func write(w io.Writer, parts ...string) {
	for _, s := range parts {
		io.WriteString(w, s)
	}
}

// words are what people read. They hold no character that JSON or HTML escapes.
type words struct{ title, text string }

func wordsFor(status int) words {
	switch status {
	case http.StatusBadRequest:
		return words{"Request not understood", "The request could not be read, so it was not passed on. Please go back and try again."}
	case http.StatusForbidden:
		return words{"Not accepted from here", "Attempts from your network are not accepted here. Nothing you entered was checked. If you think that this is a mistake, ask whoever runs this site."}
	case http.StatusRequestTimeout:
		return words{"That took too long", "The request did not arrive in time, so it was not passed on. Please check your connection and try again."}
	case http.StatusRequestEntityTooLarge:
		return words{"Request too large", "The request is larger than what is accepted here, so it was not passed on."}
	case http.StatusUnsupportedMediaType:
		return words{"Request not understood", "The request has a form that is not accepted here, so it was not passed on."}
	case http.StatusTooManyRequests:
		return words{"Too many attempts", "There were too many attempts in a short time, so this one was not looked at: nothing you entered was checked. Please wait a little, then try again. Trying sooner does not help, and does not make the wait longer."}
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return words{"Not possible right now", "The application behind this address did not answer. Please try again in a little while."}
	case http.StatusServiceUnavailable:
		return words{"Not possible right now", "No attempts can be taken at the moment, so this one was not looked at: nothing you entered was checked. Please try again in a little while."}
	}
	return words{"Not possible", "The request was not passed on."}
}

const (
	pageHead = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>`
	pageStyle  = `:root{color-scheme:light dark;font:1.125rem/1.6 system-ui,sans-serif}body{margin:0;min-height:100vh;display:grid;place-items:center}main{max-width:34rem;padding:2rem}h1{font-size:1.5em;line-height:1.25;margin:0 0 .5em}p{margin:0}`
	pageStyled = "</title>\n<style>" + pageStyle + "</style>\n</head>\n<body>\n<main>\n<h1>"
	pageEnd    = "</p>\n</main>\n</body>\n</html>\n"
	// pagePolicy allows nothing but the style above, by its SHA-256.
	pagePolicy = "default-src 'none'; style-src 'sha256-xzMC5AyIFP6algk/gSnIAqQZM3ENrkY3w0Tuv5FtLFs='; base-uri 'none'; form-action 'none'"
)
