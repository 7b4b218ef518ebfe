package httpguard

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// firstRead is how much memory a body gets before any of it has arrived, whatever
// length it declares.
const firstRead = 4 << 10

// received is a request body, or why it is not here.
type received struct {
	bytes   []byte
	arrived bool
	lost    bool         // it did not arrive: nothing is charged
	refused *statusError // the request does not reach the handler
}

// statusError says why a request is refused as what it is, and with which status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return "httpguard: " + e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }
func (e *statusError) Status() int   { return e.status }

// receive reads the body of r. The deadline stays when the body has not arrived: net/http
// reads some of what is left.
func (g *Gate) receive(w http.ResponseWriter, r *http.Request) received {
	if r.ContentLength > g.maxBody {
		g.boundRest(w, r)
		return received{refused: &statusError{http.StatusRequestEntityTooLarge, errTooLarge}}
	}
	set := g.setDeadline(w, r)
	b, err := readBounded(r.Body, r.ContentLength, g.maxBody)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		if set {
			http.NewResponseController(w).SetReadDeadline(time.Time{})
		}
		return received{bytes: b, arrived: true}
	case err == errTooLarge, errors.As(err, &tooLarge):
		return received{refused: &statusError{http.StatusRequestEntityTooLarge, err}}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return received{lost: true, refused: &statusError{http.StatusRequestTimeout, err}}
	}
	return received{lost: true, refused: &statusError{http.StatusBadRequest, err}}
}

// boundRest gives the rest of a body that nobody wants the time of one that somebody
// does. On HTTP/1 net/http reads up to 256 KiB of it to keep the connection.
func (g *Gate) boundRest(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.Body != nil && r.Body != http.NoBody && g.bodyTimeout > 0 {
		g.setDeadline(w, r)
	}
}

// setDeadline limits how long the body may take, and reports whether it did. The
// server's own limit stays if it is shorter. Without a ResponseWriter it does nothing.
func (g *Gate) setDeadline(w http.ResponseWriter, r *http.Request) bool {
	if w == nil {
		return false
	}
	s, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if s != nil && 0 < s.ReadTimeout && s.ReadTimeout <= g.bodyTimeout {
		return false
	}
	return http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.bodyTimeout)) == nil
}

var errTooLarge = errors.New("body is too large")

// readBounded reads r to its end, of which declared may know where it is. Memory grows
// with what has arrived.
func readBounded(r io.Reader, declared, limit int64) ([]byte, error) {
	size := int64(512)
	if declared >= 0 {
		size = declared + 1 // the end comes with the last byte, or after it
	}
	b := make([]byte, 0, min(size, firstRead, limit+1))
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, errTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		}
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(2*int64(cap(b)), limit+1))
			copy(grown, b)
			b = grown
		}
	}
}

// replace makes r a request whose body is in memory. Its length is then known, unless
// trailers follow, which only a chunked body has.
func (b received) replace(r *http.Request) {
	r.Body = http.NoBody
	if len(b.bytes) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(b.bytes))
	}
	if len(r.Trailer) == 0 {
		r.ContentLength = int64(len(b.bytes))
		r.TransferEncoding = nil
	}
}
