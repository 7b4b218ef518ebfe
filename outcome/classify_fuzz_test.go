package outcome

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/doorward/doorward"
)

// reference judges an answer by rules with few conditions, slowly, in the words of
// the rules F1 to F4.
func reference(r Rules, status int, h http.Header) doorward.Outcome {
	if status < 200 {
		return doorward.Failed
	}
	if values := h.Values(Header); len(values) != 0 {
		words := map[string]doorward.Outcome{"succeeded": doorward.Succeeded, "malformed": doorward.Malformed, "void": doorward.Void}
		if len(values) != 1 {
			return doorward.Failed
		}
		return words[values[0]]
	}
	in := func(list Statuses) bool {
		return slices.ContainsFunc(list, func(r StatusRange) bool { return status >= r.First && status <= r.Last })
	}
	holds := func(c Conditions) bool {
		var all []bool
		if len(c.Status) > 0 {
			all = append(all, in(c.Status))
		}
		if c.SetCookie != "" {
			all = append(all, setsCookie(h, c.SetCookie)) // FuzzSetCookie has a reference
		}
		if c.Location != "" {
			var there []string
			for _, l := range h.Values("Location") {
				path, _, _ := strings.Cut(strings.ReplaceAll(l, "#", "?"), "?")
				if path == c.Location || strings.HasPrefix(path, c.Location+"/") {
					there = append(there, l)
				}
			}
			all = append(all, len(there) == 1 && len(h.Values("Location")) == 1)
		}
		return len(all) > 0 && status <= 599 && !slices.Contains(all, false)
	}
	switch {
	case holds(r.Failed):
		return doorward.Failed
	case in(r.Void):
		return doorward.Void
	case holds(r.Succeeded):
		return doorward.Succeeded
	}
	return doorward.Failed
}

// FuzzClassify compares every answer with the reference, for every combination of
// conditions.
func FuzzClassify(f *testing.F) {
	for i, status := range []int{0, 101, 200, 302, 401, 404, 503, 599, 600} {
		for mask := uint8(0); mask < 128; mask += 5 {
			f.Add(mask, status, []string{"s=1", "s=; Max-Age=0", "t=1"}[i%3], []string{"/home", "/home/x", "/homes", "/login?e", ""}[i%5],
				[]string{"", "succeeded", "void", "Succeeded"}[i%4], i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, mask uint8, status int, cookie, location, word string, twice bool) {
		var r Rules
		if mask&1 != 0 {
			r.Succeeded.Status = Statuses{{200, 299}, {302, 302}}
		}
		if mask&2 != 0 {
			r.Succeeded.SetCookie = "s"
		}
		if mask&4 != 0 {
			r.Succeeded.Location = "/home"
		}
		if mask&8 != 0 {
			r.Failed.Status = Statuses{{400, 403}}
		}
		if mask&16 != 0 {
			r.Failed.Location = "/login"
		}
		if mask&32 != 0 {
			r.Void = Statuses{{404, 404}, {503, 503}, {204, 204}}
		}
		r.Header = mask&64 != 0
		c, err := New(r)
		if err != nil {
			if mask&(1|2|4|64) != 0 {
				t.Fatal(err)
			}
			return
		}
		h := http.Header{}
		for key, value := range map[string]string{"Set-Cookie": cookie, "Location": location, Header: word} {
			if value != "" {
				h.Add(key, value)
			}
			if value != "" && twice {
				h.Add(key, value)
			}
		}
		if got, want := c.Classify(status, h), reference(r, status, h); got.Outcome != want {
			t.Errorf("%+v: %d %q: got %+v, want %v", r, status, h, got, want)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	list, _ := ParseStatuses("200,302")
	c := mustNew(b, Rules{Succeeded: Conditions{Status: list, SetCookie: "session", Location: "/home"}, Header: true})
	h := http.Header{
		"Date":       {"Wed, 01 Jul 2026 12:00:00 GMT"},
		"Location":   {"/home?welcome"},
		"Set-Cookie": {"lang=en; Path=/", "session=1f2e; Path=/; HttpOnly; Expires=Wed, 01 Jul 2026 13:00:00 GMT"},
	}
	for _, row := range []struct {
		name   string
		header http.Header
	}{{"conditions", h}, {"word", http.Header{Header: {"succeeded"}}}, {"nothing", nil}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Classify(302, row.header)
			}
		})
	}
}
