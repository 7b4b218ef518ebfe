package httpguard

import (
	"strings"
	"testing"
)

func TestNegotiate(t *testing.T) {
	long := strings.Repeat("image/png, ", 40)
	for _, tt := range []struct {
		accept string // lines apart by |
		want   int
	}{
		{"", typeText},
		{"*/*", typeText},
		{"text/*", typeText},
		{"text/plain", typeText},
		{"text/html", typeHTML},
		{"TEXT/HTML", typeHTML},
		{"application/json", typeJSON},
		{"Application/JSON; charset=utf-8", typeJSON},
		{"application/problem+json", typeJSON},
		{"application/vnd.api+json", typeJSON},
		{"application/*", typeJSON},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", typeHTML}, // Firefox
		{"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", typeHTML},            // Java
		{"application/json, text/plain, */*", typeJSON},                               // axios
		{"*/*, application/json", typeJSON},
		{"*/*;q=1, application/json;q=0.9", typeText},
		{"text/html;q=0.9, */*;q=0.8", typeHTML},
		{"text/html;q=0.5, */*;q=0.8", typeText},
		{"text/html;q=0.5, text/plain;q=0, */*;q=0.8", typeJSON},
		{"text/html, application/json", typeJSON},
		{"text/html, application/json;q=0.999", typeHTML},
		{"text/html;q=0.998, application/json;q=0.999", typeJSON},
		{"text/html, text/plain", typeHTML},
		{"text/*, text/html;q=0.5", typeText},
		{"text/html;q=0", typeText},
		{"application/json;q=0, */*", typeText},
		{"application/json;q=0", typeText},
		{"application/json; q=0.000", typeText},
		{"text/html;level=1", typeHTML},
		{`text/html;a=",";q=0.5, application/json;q=0.4`, typeHTML},
		{`text/html;a="\",";q=0.3, application/json;q=0.4`, typeJSON},
		{"text/html;Q=0.3, application/json;q=0.4", typeJSON},
		{"text/html;q=1.001, application/json;q=0.1", typeJSON},
		{"text/html;q=2, application/json;q=0.1", typeJSON},
		{"text/html;q=0.1234, application/json;q=0.1", typeJSON},
		{"text/html;q=x, application/json;q=0.1", typeJSON},
		{"text/html;q=0.x, application/json;q=0.1", typeJSON},
		{"text/html;q=-1, application/json;q=0.1", typeJSON},
		{"image/png", typeText},
		{"text", typeText},
		{"text|application/json", typeJSON},
		{"text/html;q=0.3|application/json;q=0.4", typeJSON},
		{",,, ,application/json", typeJSON},
		{long + "application/json", typeText}, // beyond what is read
	} {
		if got := negotiate(strings.Split(tt.accept, "|")); got != tt.want {
			t.Errorf("Accept %q: %s, want %s", tt.accept, contentTypes[got], contentTypes[tt.want])
		}
	}
	if got := negotiate(nil); got != typeText {
		t.Errorf("no Accept: %s", contentTypes[got])
	}
}

func TestNegotiateAllocates(t *testing.T) {
	accept := []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
	if n := testing.AllocsPerRun(100, func() { negotiate(accept) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
