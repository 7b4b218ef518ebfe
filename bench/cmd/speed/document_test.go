package main

import (
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/bench/internal/measure"
	"github.com/doorward/doorward/bench/internal/peer"
)

// flat returns figures in which every limiter does the same.
func flat() *figures {
	f := &figures{
		decide: map[string]map[cell]speed{}, http: map[string]map[cell]speed{},
		bytes: map[string]measure.Memory{}, growth: map[string]time.Duration{},
		flood: map[string]map[siege]measure.Times{},
		proxy: []throughput{{"nginx", false, passing, 2000, time.Millisecond}, {"doorward serve", true, passing, 1000, time.Millisecond}},
	}
	for _, p := range kinds["limiter"] {
		f.decide[p.Name] = map[cell]speed{}
		for _, c := range cells {
			f.decide[p.Name][c] = speed{100, 100, 0}
		}
		f.bytes[p.Name] = measure.Memory{BytesPerKey: 64, With: time.Millisecond, Without: time.Millisecond}
		f.growth[p.Name] = time.Microsecond
	}
	for _, p := range kinds["http"] {
		f.http[p.Name] = map[cell]speed{}
		for _, c := range httpCells {
			f.http[p.Name][c] = speed{100, 100, 0}
		}
	}
	for _, p := range kinds["bounded"] {
		f.flood[p.Name] = map[siege]measure.Times{}
		for _, size := range sizes {
			for _, what := range sieges {
				f.flood[p.Name][siege{size, what}] = measure.Times{Median: 100, P9999: 1000, Longest: 10_000}
			}
		}
	}
	return f
}

func TestDocument(t *testing.T) {
	f := flat()
	for _, c := range cells {
		f.decide[flagship][c] = speed{40, 40, 0}
		f.decide[peer.Floor.Name][c] = speed{30, 30, 0}
	}
	docs := f.documents()
	text := docs["benchmarks.md"]
	if strings.Contains(text, "**no**") || strings.Contains(text, "Why not") {
		t.Error("an aim is not met at figures that meet all:\n", text)
	}
	for _, peers := range kinds {
		for _, p := range peers {
			if !strings.Contains(text, "| "+name(p)+" |") {
				t.Errorf("%s is in no table", p.Name)
			}
		}
	}
	for doc := range docs {
		if doc != "benchmarks.md" && !strings.Contains(text, "("+doc+")") {
			t.Errorf("%s is not shown", doc)
		}
	}
	for _, want := range []string{"2.5 (100 ns)", "2.0 (2,000 /s)", "2.50 times as fast"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the document", want)
		}
	}
}

// Each aim is missed by figures that are worse at one place, and then says why.
func TestAims(t *testing.T) {
	for i, worsen := range []func(*figures){
		func(f *figures) { f.decide["go-limiter"][cell{4096, true, 2}] = speed{39, 39, 0} },
		func(f *figures) { f.decide["throttled"][cell{million, true, 1}] = speed{79, 79, 0} },
		func(f *figures) { f.decide[flagship][cell{4096, false, 1}] = speed{46, 46, 0} },
		func(f *figures) { f.decide["window"][cell{1, false, 1}] = speed{40, 40, 1} },
		func(f *figures) { f.decide[flagship][cell{million, true, 2}] = speed{41, 41, 0} },
		func(f *figures) { f.decide[flagship][cell{1, false, 2}] = speed{81, 81, 0} },
		func(f *figures) { f.bytes["throttle, settled"] = measure.Memory{BytesPerKey: 65} },
		func(f *figures) {
			f.bytes[flagship] = measure.Memory{Scanned: 1, With: time.Millisecond, Without: time.Millisecond}
		},
		func(f *figures) { f.growth["window"] = 2 * time.Millisecond },
		func(f *figures) { f.flood[flagship][siege{65_536, "new"}] = measure.Times{Median: 121, P9999: 1} },
		func(f *figures) {
			f.flood[flagship][siege{million, "forgotten"}] = measure.Times{Median: 121, P9999: 1}
		},
	} {
		f := flat()
		for _, c := range cells {
			f.decide[flagship][c] = speed{40, 40, 0}
			f.decide[peer.Floor.Name][c] = speed{30, 30, 0}
		}
		worsen(f)
		if a := f.aims()[i]; a.met || a.why == "" {
			t.Errorf("%s: met with %s", a.what, a.got)
		}
	}
}
