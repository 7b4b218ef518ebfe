package subject

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A sample is a request of the corpus and its verdict.
type sample struct {
	file    string
	name    string
	source  Source
	method  string
	target  string
	headers []string
	body    string
	is      string // the subject, "" if there is none
	refused Error  // Status is 0 if it is not
	judged  bool
}

func (s *sample) String() string { return s.file + ": " + s.name }

// corpus reads testdata/requests.
func corpus(t testing.TB) []sample {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus", err)
	}
	var all []sample
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file := strings.TrimSuffix(filepath.Base(name), ".txt")
		var base sample
		for block := range strings.SplitSeq(string(text), "\n\n") {
			s := sample{file: file}
			if strings.HasPrefix(block, "case ") {
				s = base
				s.headers = append([]string(nil), base.headers...)
			}
			own := map[string]bool{}
			for line := range strings.Lines(block) {
				if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
					continue
				}
				if err := s.set(line, own); err != nil {
					t.Fatalf("%s, %q: %v", name, line, err)
				}
			}
			switch {
			case s.name == "" && s.method != "":
				base = s
			case s.name != "" && s.judged:
				all = append(all, s)
			case s.name != "":
				t.Fatalf("%s: no verdict", &s)
			}
		}
	}
	return all
}

// set takes one line. own holds the headers that this block has set.
func (s *sample) set(line string, own map[string]bool) error {
	word, rest, _ := strings.Cut(line, " ")
	text, err := unescapeSample(rest)
	if err != nil {
		return err
	}
	switch word {
	case "case":
		s.name = rest
	case "source":
		kind, value, _ := strings.Cut(rest, " ")
		s.source = Source{}
		switch kind {
		case "form":
			s.source.Form = value
		case "json":
			s.source.JSON = value
		case "header":
			s.source.Header = value
		case "query":
			s.source.Query = value
		case "path":
			s.source.Path = value
		case "basic":
			s.source.BasicAuth = true
		default:
			return errors.New("unknown source")
		}
	case "method":
		s.method = rest
	case "target":
		s.target = text
	case "header":
		name, _, given := strings.Cut(text, ":")
		if !own[name] {
			own[name] = true
			kept := s.headers[:0]
			for _, h := range s.headers {
				if !strings.HasPrefix(h, name+":") {
					kept = append(kept, h)
				}
			}
			s.headers = kept
		}
		if given {
			s.headers = append(s.headers, text)
		}
	case "body":
		s.body += text
	case "repeat":
		n, text, _ := strings.Cut(text, " ")
		times, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		s.body += strings.Repeat(text, times)
	case "is":
		s.is, s.judged = text, true
	case "none":
		s.judged = true
	case "refused":
		s.judged = true
		status, reason, _ := strings.Cut(rest, " ")
		s.refused.Reason = reason
		s.refused.Status, err = strconv.Atoi(status)
		return err
	default:
		return errors.New("unknown word")
	}
	return nil
}

func unescapeSample(s string) (string, error) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, `\`)
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		if after == "" {
			return "", errors.New("backslash at the end")
		}
		if i := strings.IndexByte(`rnt0\`, after[0]); i >= 0 {
			b.WriteByte("\r\n\t\x00\\"[i])
			s = after[1:]
			continue
		}
		if after[0] != 'x' || len(after) < 3 {
			return "", fmt.Errorf("escape \\%c", after[0])
		}
		n, err := strconv.ParseUint(after[1:3], 16, 8)
		if err != nil {
			return "", err
		}
		b.WriteByte(byte(n))
		s = after[3:]
	}
}

// raw is the request as it goes over the wire, with more headers.
func (s *sample) raw(more ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: app.example\r\n", s.method, s.target)
	connection := false
	for _, h := range append(s.headers[:len(s.headers):len(s.headers)], more...) {
		b.WriteString(h + "\r\n")
		connection = connection || strings.HasPrefix(h, "Connection:")
	}
	if !connection {
		b.WriteString("Connection: close\r\n")
	}
	if s.method != http.MethodGet || s.body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(s.body))
	}
	b.WriteString("\r\n" + s.body)
	return b.Bytes()
}

// request is the request as net/http reads it.
func (s *sample) request(t testing.TB) (*http.Request, []byte) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(s.raw())))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r, body
}

// name asks the Extractor of s.
func (s *sample) verdict(t testing.TB) (string, error) {
	t.Helper()
	e, err := New(s.source)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	r, body := s.request(t)
	q := Request{Method: r.Method, Target: r.RequestURI, Header: r.Header}
	if e.NeedsBody() {
		q.Body = body
	}
	return e.Name(q)
}

func TestCorpus(t *testing.T) {
	names := map[string]bool{}
	var named, unnamed, refused int
	for _, s := range corpus(t) {
		if key := fmt.Sprint(s.file, s.source, s.name); names[key] {
			t.Errorf("%s: twice", &s)
		} else {
			names[key] = true
		}
		name, err := s.verdict(t)
		var e *Error
		switch {
		case s.refused.Status != 0:
			refused++
			if !errors.As(err, &e) || *e != s.refused {
				t.Errorf("%s: got %q, %+v, want %+v", &s, name, err, s.refused)
			}
		case err != nil || name != s.is:
			t.Errorf("%s: got %q, %v, want %q", &s, name, err, s.is)
		case name == "":
			unnamed++
		default:
			named++
		}
	}
	t.Logf("%d requests: %d name a subject, %d name none, %d are refused", named+unnamed+refused, named, unnamed, refused)
}
