package main

import (
	"fmt"
	"math"
	"time"

	"github.com/doorward/doorward/bench/internal/peer"
	"github.com/doorward/doorward/bench/internal/report"
)

// An aim is what the project promised itself, and what came out.
type aim struct {
	what string
	got  string
	met  bool
	why  string // it is so if it is not met
}

// flagship is the limiter that the aims are about and ratios are in terms of.
const flagship = "lockout"

// floodOf says what a flood is compared to: the same without new addresses.
var floodOf = map[string]string{"new": "known", "forgotten": "returning"}

func (f *figures) aims() []aim {
	ours := f.decide[flagship]
	var lead, floor, most float64 = math.Inf(1), 0, 0
	var leadAt, floorAt cell
	lead1M := math.Inf(1)
	for _, c := range cells {
		best := math.Inf(1)
		for _, p := range peer.Others {
			best = min(best, f.decide[p.Name][c].ns)
		}
		if r := best / ours[c].ns; r < lead {
			lead, leadAt = r, c
		}
		if c.keys == million && c.procs == 1 {
			lead1M = min(lead1M, best/ours[c].ns)
		}
		if r := ours[c].ns / f.decide[peer.Floor.Name][c].ns; c.procs == 1 && r > floor {
			floor, floorAt = r, c
		}
		for _, p := range peer.Ours {
			most = max(most, f.decide[p.Name][c].allocs)
		}
	}
	scale := func(c cell) float64 {
		two := c
		two.procs = 2
		return ours[c].wall / ours[two].wall
	}
	many, one := math.Inf(1), scale(cell{1, false, 1})
	for _, c := range cells {
		if c.procs == 1 && c.keys > 1 {
			many = min(many, scale(c))
		}
	}
	bytes, growth := 0.0, time.Duration(0)
	for _, p := range peer.Ours[:5] { // a guard has several tables; what was not weighed is 0
		bytes = max(bytes, f.bytes[p.Name].BytesPerKey)
		growth = max(growth, f.growth[p.Name])
	}
	m := f.bytes[flagship]
	collect := float64(m.With) / float64(m.Without)
	flood, tail := map[string]float64{}, map[string]float64{}
	for _, size := range sizes {
		for what, without := range floodOf {
			t, base := f.flood[flagship][siege{size, what}], f.flood[flagship][siege{size, without}]
			flood[what] = max(flood[what], float64(t.Median)/float64(base.Median))
			tail[what] = max(tail[what], float64(t.P9999)/float64(base.P9999))
		}
	}
	return []aim{
		{"faster than every other limiter at every point", fmt.Sprintf("%.2f times as fast as the fastest other, at the worst point (%v)", lead, leadAt), lead > 1,
			"An attempt here keeps the order of forgetting, which is what makes a full table exact, and tells how many remain and how long to wait; a counter in a map does none of this. Where memory is what costs, at 1,000,000 keys, it makes up for that."},
		{"at least twice as fast as the fastest other at 1,000,000 keys", fmt.Sprintf("%.2f times", lead1M), lead1M >= 2,
			"What is left is memory: the caller's own key, a slot of the index and the entry are three cache lines that miss, one after the other. The floor misses two."},
		{"within 1.5 times the floor, on one processor", fmt.Sprintf("%.2f times at the worst point (%v)", floor, floorAt), floor <= 1.5,
			"The floor finds its place without an index and counts. An attempt also finds out whether it may be made, when its entry is forgotten and whether that changes the order; at 1,000,000 keys the index is one more cache line that misses."},
		{"no allocation", fmt.Sprintf("%.3f a decision at most", most), most < 0.01, "What allocates is what the limiter is wrapped in."},
		{"two processors do as much as one at 4,096 keys and more", fmt.Sprintf("%.2f times as much at the worst point", many), many >= 1,
			"Both wait for one lock, and each takes the other's cache lines with it."},
		{"and half as much where all hit one key", fmt.Sprintf("%.2f times as much", one), one >= 0.5,
			"Both wait for one lock and one cache line."},
		{"at most 64 bytes a key at 1,000,000 keys", fmt.Sprintf("%.1f bytes at most", bytes), bytes < 64.05, "The fixed part of a limiter is in it."},
		{"nothing for the collector to follow", fmt.Sprintf("%.2f bytes a key to look at; a forced collection takes %.2f times as long with the table live", m.Scanned, collect), m.Scanned < 0.1,
			"What is looked at is what the limiter is wrapped in."},
		{"no attempt waits more than 1 ms while the table grows to 1,000,000 keys", fmt.Sprintf("%v at most", growth.Round(time.Microsecond)), growth <= time.Millisecond,
			"Nothing is moved or allocated; an attempt can be the first to touch a page of memory, and the machine can give the processor to somebody else."},
		{"flooded with new addresses, a full table answers within 1.2 times the time it takes without", fmt.Sprintf("%.2f times at most (median), %.2f (p99.99)", flood["new"], tail["new"]), flood["new"] <= 1.2,
			"The addresses of a flood are new to the index; those of known callers may be in a cache."},
		{"also when all entries have just been forgotten together", fmt.Sprintf("%.2f times at most (median), %.2f (p99.99)", flood["forgotten"], tail["forgotten"]), flood["forgotten"] <= 1.2,
			"A new address takes the place of a forgotten entry, which has to be taken out of the index and the order first: with 4,096 entries, all in the cache, that is what there is to do."},
	}
}

func (c cell) String() string {
	s := report.Group(float64(c.keys)) + " keys"
	if c.keys == 1 {
		s = "1 key"
	} else if c.zipf {
		s += ", Zipf"
	}
	if c.procs == 2 {
		s += ", two processors"
	}
	return s
}
