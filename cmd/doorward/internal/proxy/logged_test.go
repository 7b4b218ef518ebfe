package proxy

import (
	"testing"

	"github.com/doorward/doorward/door"
)

// A logged request is at the door that the request was at.
func TestLogged(t *testing.T) {
	var doors []*door.Door
	for _, c := range []door.Config{{Routes: []string{"POST /login"}}, {Routes: []string{"/api/"}, BasicAuth: true}} {
		d, err := door.New(c)
		if err != nil {
			t.Fatal(err)
		}
		doors = append(doors, d)
	}
	for _, test := range []struct {
		method, target, authorization string
		place                         int
		want                          door.Match
	}{
		{"POST", "/login", "", 0, door.Covered},
		{"post", "//login/?next=/", "", 0, door.Covered},
		{"POST", "http://example.org/login", "", 0, door.Covered},
		{"GET", "/login", "", -1, door.None},
		{"GET", "/login?_method=POST", "", 0, door.Covered},
		{"POST", "/login%00", "", 0, door.Bad},
		{"POST", "login", "", -1, door.None}, // answered with 400, at doors or not
		{"POST", "/log in", "", -1, door.None},
		{"CONNECT", "example.org:443", "", -1, door.None},
		{"GET", "/api/x", "", -1, door.None},
		{"GET", "/api/x", "Basic x", 1, door.Covered},
	} {
		if place, got := Logged(doors, test.method, "", test.target, test.authorization); place != test.place || got != test.want {
			t.Errorf("%s %s: %d, %v, want %d, %v", test.method, test.target, place, got, test.place, test.want)
		}
	}
}
