package subject

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// single returns the value of a header that stands for itself: on one line, under no
// second name that CGI and its heirs take for it, and not among those that the next
// proxy removes.
func single(h http.Header, name string) (value string, set bool, err error) {
	for key, values := range h {
		switch {
		case key == name && len(values) > 1:
			return "", false, bad("a header is there twice")
		case key == name && len(values) == 1:
			value, set = strings.Trim(values[0], " \t"), true
		case key != name && sameName(key, name):
			return "", false, bad("a header is there in another spelling")
		}
	}
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if set && sameName(strings.Trim(option, " \t"), name) {
				return "", false, bad("a header is for one hop only")
			}
		}
	}
	return value, set, nil
}

// sameName reports whether an application may take one header for the other: CGI
// writes names in capitals and whatever is no letter or digit as "_".
func sameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if cgi(a[i]) != cgi(b[i]) {
			return false
		}
	}
	return true
}

func cgi(b byte) byte {
	switch {
	case 'a' <= b && b <= 'z':
		return b - 'a' + 'A'
	case 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return b
	}
	return '_'
}

// spoken are headers that proxies and servers write, remove or give a meaning of
// their own. They end in "*" where all that start so are meant.
var spoken = []string{
	"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Host", "Expect", "Content-*", "Proxy-*",
	"Authorization", "Cookie", "Forwarded", "X-Forwarded", "X-Forwarded-*", "X-Real-Ip", "Via", "Doorward", "Doorward-*",
}

// newHeader returns the Extractor of a header.
func newHeader(name string) (*Extractor, error) {
	if strings.Trim(name, "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" || strings.Trim(name, "-0123456789") == "" {
		return nil, fmt.Errorf("must be letters, digits and hyphens, got %q", name)
	}
	for _, s := range spoken {
		start, many := strings.CutSuffix(s, "*")
		if sameName(name, start) || many && len(name) > len(start) && sameName(name[:len(start)], start) {
			return nil, fmt.Errorf("must be a header that is the application's own, got %q", name)
		}
	}
	name = http.CanonicalHeaderKey(name)
	return &Extractor{find: func(r Request) (string, error) {
		value, _, err := single(r.Header, name)
		if err != nil {
			return "", err
		}
		for i := range len(value) {
			switch b := value[i]; {
			case b < ' ' || b >= 0x7f: // bytes to Go and PHP, Latin-1 to Node
				return "", bad("the header has a character that is not ASCII")
			case b == ',': // a list, or two lines joined on the way
				return "", bad("the header has a comma")
			}
		}
		return value, nil
	}}, nil
}

// basicUser returns the user of Basic credentials. Any other scheme is refused, since
// not everyone who expects Basic looks at the scheme.
func basicUser(r Request) (string, error) {
	value, set, err := single(r.Header, "Authorization")
	if err != nil || !set {
		return "", err
	}
	scheme, encoded, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", bad("the credentials are not Basic")
	}
	if encoded == "" || strings.ContainsAny(encoded, "\r\n") { // which base64 would skip
		return "", bad("the credentials are malformed")
	}
	text, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", bad("the credentials are malformed")
	}
	user, _, ok := strings.Cut(string(text), ":")
	switch {
	case !ok:
		return "", bad("the credentials have no colon")
	case strings.ContainsFunc(string(text), func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", bad("the credentials have a control character")
	case !utf8.ValidString(user):
		return "", bad("the subject is not UTF-8")
	case hasEscape(user):
		return "", bad("the credentials have a percent escape")
	}
	return user, nil
}

func hasEscape(s string) bool {
	for i := range len(s) - min(2, len(s)) {
		if s[i] == '%' && hex(s[i+1]) >= 0 && hex(s[i+2]) >= 0 {
			return true
		}
	}
	return false
}
