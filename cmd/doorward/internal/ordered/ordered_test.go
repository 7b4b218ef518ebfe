package ordered

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

type came struct {
	at   int64
	name rune
}

// play pushes values and takes out what it can after each: name, "!" behind a late one,
// and "|" where the end began.
func play(span int64, most int, values ...came) string {
	q := New[rune](span, most)
	out := ""
	drain := func(end bool) {
		for {
			_, v, late, ok := q.Pop(end)
			if !ok {
				return
			}
			out += string(v)
			if late {
				out += "!"
			}
		}
	}
	for _, v := range values {
		q.Push(v.at, v.name)
		drain(false)
	}
	out += "|"
	drain(true)
	return out
}

func TestQueue(t *testing.T) {
	for _, test := range []struct {
		name   string
		span   int64
		most   int
		values []came
		want   string
	}{
		{"none", 10, 9, nil, "|"},
		{"in order", 10, 9, []came{{1, 'a'}, {2, 'b'}, {11, 'c'}, {12, 'd'}}, "ab|cd"},
		{"held for the span, to the nanosecond", 10, 9, []came{{1, 'a'}, {10, 'b'}, {11, 'c'}}, "a|bc"},
		{"equal times stay as they came", 10, 9, []came{{5, 'a'}, {5, 'b'}, {4, 'c'}, {5, 'd'}, {4, 'e'}}, "|ceabd"},
		{"as late as the span is in order", 10, 9, []came{{20, 'a'}, {10, 'b'}, {30, 'c'}}, "ba|c"},
		{"later than the span, nothing is before it", 10, 9, []came{{20, 'a'}, {9, 'b'}, {30, 'c'}}, "ba|c"},
		{"late", 10, 9, []came{{1, 'a'}, {20, 'b'}, {0, 'c'}, {30, 'd'}}, "ac!b|d"},
		{"as early as the last is not late", 10, 9, []came{{1, 'a'}, {20, 'b'}, {1, 'c'}}, "ac|b"},
		{"no span", 0, 9, []came{{2, 'a'}, {1, 'b'}, {3, 'c'}}, "ab!c|"},
		{"no more than three", 100, 3, []came{{4, 'a'}, {3, 'b'}, {2, 'c'}, {1, 'd'}, {5, 'e'}}, "dc|bae"},
		{"one far ahead", 10, 9, []came{{1, 'a'}, {math.MaxInt64, 'x'}, {2, 'b'}, {3, 'c'}}, "abc|x"},
		{"from end to end", 10, 9, []came{{math.MinInt64, 'a'}, {math.MaxInt64, 'b'}}, "a|b"},
	} {
		if got := play(test.span, test.most, test.values...); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Whatever comes no later than the span comes out sorted.
func TestSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, span := 1+r.IntN(200), r.Int64N(50)
		all := make([]came, n)
		for i := range all {
			all[i] = came{int64(i) + r.Int64N(span+1), rune(0x4e00 + i)}
		}
		var want string
		sorted := slices.Clone(all)
		slices.SortStableFunc(sorted, func(a, b came) int { return cmp.Compare(a.at, b.at) })
		for _, v := range sorted {
			want += string(v.name)
		}
		got := ""
		for _, c := range play(span, n, all...) {
			if c != '|' {
				got += string(c)
			}
		}
		if got != want {
			t.Fatalf("span %d: %v\ngot  %s\nwant %s", span, all, got, want)
		}
	}
}
