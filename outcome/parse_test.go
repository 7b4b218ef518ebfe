package outcome

import (
	"reflect"
	"testing"
)

func TestParseStatuses(t *testing.T) {
	for _, row := range []struct {
		s    string
		want Statuses
		text string
	}{
		{"200", Statuses{{200, 200}}, "200"},
		{"200,302", Statuses{{200, 200}, {302, 302}}, "200,302"},
		{" 200 , 302 ", Statuses{{200, 200}, {302, 302}}, "200,302"},
		{"2xx", Statuses{{200, 299}}, "2xx"},
		{"5XX", Statuses{{500, 599}}, "5xx"},
		{"200-299", Statuses{{200, 299}}, "2xx"},
		{"200-204,302", Statuses{{200, 204}, {302, 302}}, "200-204,302"},
		{"200 - 599", Statuses{{200, 599}}, "200-599"},
	} {
		got, err := ParseStatuses(row.s)
		if err != nil || !reflect.DeepEqual(got, row.want) || got.String() != row.text {
			t.Errorf("%q: got %v (%s), %v, want %v", row.s, got, got, err, row.want)
		}
	}
	const form, final = "outcome: Status must be like 200, 2xx or 200-299, got ", "outcome: Status must be of final statuses, 200 to 599, got "
	for s, want := range map[string]string{
		"": form + `""`, "200,": form + `""`, "ok": form + `"ok"`, "xx": form + `"xx"`, "2x": form + `"2x"`, "2xxx": form + `"2xxx"`,
		"+200": form + `"+200"`, "-200": form + `"-200"`, "200-": form + `"200-"`, "2000": form + `"2000"`, "2xx-3xx": form + `"2xx-3xx"`,
		"101": final + `"101"`, "1xx": final + `"1xx"`, "6xx": final + `"6xx"`, "199-200": final + `"199-200"`, "599-600": final + `"599-600"`,
		"300-200": final + `"300-200"`, "0": final + `"0"`,
	} {
		if got, err := ParseStatuses(s); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, %v, want %s", s, got, err, want)
		}
	}
}

func TestContains(t *testing.T) {
	s := Statuses{{200, 204}, {302, 302}}
	for status, want := range map[int]bool{199: false, 200: true, 204: true, 205: false, 301: false, 302: true, 303: false} {
		if s.Contains(status) != want {
			t.Errorf("%d: got %t", status, !want)
		}
	}
}

func TestParseSucceeded(t *testing.T) {
	for _, row := range []struct {
		s      string
		want   Conditions
		header bool
	}{
		{"302", Conditions{Status: Statuses{{302, 302}}}, false},
		{"200,302", Conditions{Status: Statuses{{200, 200}, {302, 302}}}, false},
		{"2xx", Conditions{Status: Statuses{{200, 299}}}, false},
		{"200-299", Conditions{Status: Statuses{{200, 299}}}, false},
		{"cookie:session", Conditions{SetCookie: "session"}, false},
		{"location:/home", Conditions{Location: "/home"}, false},
		{"location:https://h:8443/home", Conditions{Location: "https://h:8443/home"}, false},
		{"header", Conditions{}, true},
		{"302, cookie:session, location:/home", Conditions{Statuses{{302, 302}}, "session", "/home"}, false},
		{"cookie:session,200,header,302", Conditions{Status: Statuses{{200, 200}, {302, 302}}, SetCookie: "session"}, true},
	} {
		got, header, err := ParseSucceeded(row.s)
		if err != nil || header != row.header || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%q: got %+v, %t, %v", row.s, got, header, err)
		}
	}
	const form = "outcome: Succeeded must be of statuses, cookie:NAME, location:PREFIX and header, got "
	for s, want := range map[string]string{
		"":                      form + `""`,
		"302,":                  form + `""`,
		"session":               form + `"session"`,
		"Header":                form + `"Header"`,
		"header:x":              form + `"header:x"`,
		"cookie":                `outcome: Succeeded must have a value after "cookie:"`,
		"cookie:":               `outcome: Succeeded must have a value after "cookie:"`,
		"location: ":            `outcome: Succeeded must have a value after "location:"`,
		"cookie:a,cookie:b":     `outcome: Succeeded must have one "cookie:", got "cookie:a,cookie:b"`,
		"location:/a,/b":        form + `"/b"`,
		"cookie:a b":            `outcome: Succeeded.SetCookie must be a cookie name, got "a b"`,
		"location:http://":      `outcome: Succeeded.Location must have a host after "//", got "http://"`,
		"101":                   `outcome: Succeeded.Status must be of final statuses, 200 to 599, got 101-101`,
		"1xx,cookie:x":          `outcome: Succeeded.Status must be of final statuses, 200 to 599, got 100-199`,
		"302,location:/a\x00bc": `outcome: Succeeded.Location must have no space or control character, got "/a\x00bc"`,
	} {
		if got, header, err := ParseSucceeded(s); err == nil || err.Error() != want {
			t.Errorf("%q: got %+v, %t, %v\nwant %s", s, got, header, err, want)
		}
	}
}
