package door

import "testing"

func TestFind(t *testing.T) {
	doors := []*Door{
		mustNew(t, Config{Routes: []string{"POST /login"}}),
		mustNew(t, Config{Routes: []string{"POST /login", "PUT /login"}}),
		mustNew(t, Config{Routes: []string{"POST /reset"}}),
	}
	for _, test := range []struct {
		target string
		place  int
		want   Match
	}{
		{"/login", 0, Covered}, // the first of those that overlap
		{"/reset?x", 2, Covered},
		{"/", -1, None},
		{"/login%00", 0, Bad},
		{"/reset/x%2F..%2F..%2Freset", 2, Bad},
		{"/login;/../reset", 2, Bad}, // two that do not overlap
	} {
		if place, got := Find(doors, Request{Method: "POST", Target: test.target}); place != test.place || got != test.want {
			t.Errorf("%s: %d, %v, want %d, %v", test.target, place, got, test.place, test.want)
		}
	}
	if place, got := Find(nil, Request{Method: "POST", Target: "/login"}); place != -1 || got != None {
		t.Errorf("no doors: %d, %v", place, got)
	}
}
