// Package apitest holds requests to the admin API, and its answers, against openapi.yaml.
// It is for tests: whatever they ask goes through a Contract.
//
// It promises that an answer which is 2xx was asked for as the document says, and that every
// answer is as it says, to the field: what it does not name must not be there. It gives up on
// who may ask: the document does not say by which way a request came.
package apitest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
)

// A Contract is openapi.yaml. It is safe for concurrent use.
type Contract struct {
	doc    *openapi3.T
	router routers.Router

	mu   sync.Mutex
	seen map[string]bool // operations that were answered 2xx
}

// Load reads openapi.yaml, which must be a valid document.
func Load() (*Contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	doc.Servers = nil // any name will do
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	return &Contract{doc: doc, router: router, seen: map[string]bool{}}, nil
}

// Unseen are the operations that nobody was answered 2xx.
func (c *Contract) Unseen() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range c.doc.Paths.Map() {
		for _, op := range item.Operations() {
			if !c.seen[op.OperationID] {
				names = append(names, op.OperationID)
			}
		}
	}
	return names
}

// Check holds a request and its answer against the document. Bodies are given apart; of
// events answer is left out.
func (c *Contract) Check(r *http.Request, asked []byte, res *http.Response, answer []byte) error {
	ctx := context.Background()
	r = r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(asked))
	method := r.Method
	if r.Method == http.MethodHead {
		r.Method = http.MethodGet
	}
	ok := res.StatusCode/100 == 2
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		if ok {
			return fmt.Errorf("%s %s is not in the document, and is answered %d", method, r.URL.Path, res.StatusCode)
		}
		return c.problem(answer, method)
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if err := c.request(ctx, in); err != nil && ok {
		return fmt.Errorf("%s %s is answered %d, and was not asked for as the document says: %w", method, r.URL, res.StatusCode, err)
	}
	if ok {
		c.mu.Lock()
		c.seen[route.Operation.OperationID] = true
		c.mu.Unlock()
	}
	if method == http.MethodHead || ok && r.URL.Path == api.EventsPath {
		return nil
	}
	err = openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: res.StatusCode, Header: res.Header,
		Body: io.NopCloser(bytes.NewReader(answer)), Options: in.Options,
	})
	if err != nil {
		return fmt.Errorf("%s %s: the answer (%d) is not as the document says: %w", method, r.URL, res.StatusCode, err)
	}
	if res.StatusCode == http.StatusNoContent && len(answer) > 0 {
		return fmt.Errorf("%s %s: there is an answer where none was promised", method, r.URL)
	}
	return nil
}

func (c *Contract) request(ctx context.Context, in *openapi3filter.RequestValidationInput) error {
	for name := range in.Request.URL.Query() {
		if in.Route.Operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
			return fmt.Errorf("no parameter is named %q", name)
		}
	}
	return openapi3filter.ValidateRequest(ctx, in)
}

// problem checks an answer to what the document does not have.
func (c *Contract) problem(answer []byte, method string) error {
	if method == http.MethodHead {
		return nil
	}
	return c.value("Problem", answer)
}

// Event holds a line of the stream against the document.
func (c *Contract) Event(line []byte) error { return c.value("Event", line) }

func (c *Contract) value(schema string, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("%s: %q: %w", schema, text, err)
	}
	if err := c.doc.Components.Schemas[schema].Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		return fmt.Errorf("%s: %s: %w", schema, text, err)
	}
	return nil
}

// Transport passes requests on to next and fails t if one, or its answer, is not as the
// document says.
func (c *Contract) Transport(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return transport{c, t, next}
}

type transport struct {
	contract *Contract
	t        testing.TB
	next     http.RoundTripper
}

func (x transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked []byte
	if r.Body != nil {
		var err error
		if asked, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(asked))
	}
	res, err := x.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK && r.URL.Path == api.EventsPath {
		if err := x.contract.Check(r, asked, res, nil); err != nil {
			x.t.Error(err)
		}
		res.Body = x.lines(res.Body)
		return res, nil
	}
	answer, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	if err := x.contract.Check(r, asked, res, answer); err != nil {
		x.t.Error(err)
	}
	return res, nil
}

// lines checks each line that is read from body.
func (x transport) lines(body io.ReadCloser) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if len(lines.Bytes()) > 0 {
				if err := x.contract.Event(lines.Bytes()); err != nil {
					x.t.Error(err)
				}
			}
			if _, err := in.Write(append(lines.Bytes(), '\n')); err != nil {
				return // nobody reads any more
			}
		}
		in.CloseWithError(lines.Err())
	}()
	return stream{out, body}
}

type stream struct {
	*io.PipeReader
	body io.Closer
}

func (s stream) Close() error {
	s.PipeReader.Close()
	return s.body.Close()
}
