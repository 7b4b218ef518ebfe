package subject

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// multipart looks for the field in a multipart/form-data body. It takes what browsers
// write and nothing else: no preamble, no epilogue, CR LF everywhere, the delimiter
// nowhere but where it delimits.
func (s *sought) multipart(body, boundary string) error {
	delimiter := "--" + boundary
	rest, ok := strings.CutPrefix(body, delimiter)
	if !ok {
		if body == "" {
			return bad("the form is empty")
		}
		return bad("the form does not start with its boundary")
	}
	for rest != "--" && rest != "--\r\n" {
		head, ok := strings.CutPrefix(rest, "\r\n")
		if !ok {
			return bad("the form has a contorted boundary")
		}
		part, after, ok := strings.Cut(head, delimiter)
		if !ok {
			return bad("the form does not end with its boundary")
		}
		part, ok = strings.CutSuffix(part, "\r\n")
		if !ok {
			return bad("the form has a contorted boundary")
		}
		if err := s.part(part); err != nil {
			return err
		}
		rest = after
	}
	return nil
}

// part takes one part without its delimiters.
func (s *sought) part(text string) error {
	head, content, ok := strings.Cut(text, "\r\n\r\n")
	if !ok {
		return bad("a part of the form has no header")
	}
	h, err := parsePartHeader(head, len(content))
	if err != nil {
		return err
	}
	found, err := s.meet(h.name, content)
	switch {
	case err != nil:
		return err
	case found && h.file:
		return bad("the field is a file") // a value to Go if the file has no name
	case found && h.typed:
		return unsupported("the field has a content type")
	}
	return nil
}

// partHeader is what the header of a part says.
type partHeader struct {
	name  string
	file  bool
	typed bool
}

// parsePartHeader takes Content-Disposition, and a Content-Type and a truthful
// Content-Length beside it. Whatever else there is decodes, nests or hides for some
// parser and not for another.
func parsePartHeader(head string, length int) (h partHeader, err error) {
	var disposed, measured bool
	for line := range strings.SplitSeq(head, "\r\n") {
		name, value, ok := strings.Cut(line, ": ")
		if !ok || value == "" || strings.Trim(value, " \t") != value || !utf8.ValidString(line) || strings.ContainsFunc(line, isControl) {
			return h, bad("a part of the form has a malformed header")
		}
		switch {
		case strings.EqualFold(name, "Content-Disposition") && !disposed:
			disposed = true
			h.name, h.file, ok = disposition(value)
			if !ok {
				return h, bad("a part of the form has a contorted name")
			}
		case strings.EqualFold(name, "Content-Type") && !h.typed:
			h.typed = true
			if len(value) >= 10 && strings.EqualFold(value[:10], "multipart/") {
				return h, bad("a part of the form has parts")
			}
		case strings.EqualFold(name, "Content-Length") && !measured:
			measured = true
			if value != strconv.Itoa(length) {
				return h, bad("a part of the form has another length than it says")
			}
		default:
			return h, bad("a part of the form has a header that forms have not")
		}
	}
	if !disposed {
		return h, bad("a part of the form has no name")
	}
	return h, nil
}

func isControl(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }

// disposition reads form-data; name="a" and form-data; name="a"; filename="b".
// Browsers escape quotes with a percent sign, others with a backslash, and not every
// parser takes both back.
func disposition(value string) (name string, file, ok bool) {
	rest, ok := strings.CutPrefix(value, `form-data; name="`)
	if !ok {
		return "", false, false
	}
	name, rest, ok = strings.Cut(rest, `"`)
	if !ok || strings.ContainsAny(name, `\%;`) {
		return "", false, false
	}
	if rest == "" {
		return name, false, true
	}
	rest, ok = strings.CutPrefix(rest, `; filename="`)
	if !ok {
		return "", false, false
	}
	filename, rest, ok := strings.Cut(rest, `"`)
	return name, true, ok && rest == "" && !strings.ContainsAny(filename, `\;`)
}
