package view

import (
	"cmp"
	"container/heap"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

func network(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// Longest keeps the keys that are locked longest, of any number that are shown to it. It
// holds no more than Most, all of them if that is 0.
type Longest struct {
	Most int
	Seen int
	keys ends
}

// ends are keys, the one that is free first on top.
type ends []api.Key

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return until(e[i]).Before(until(e[j])) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(k any)        { *e = append(*e, k.(api.Key)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	k := (*e)[last]
	*e = (*e)[:last]
	return k
}

func until(k api.Key) time.Time {
	if k.LockedUntil == nil {
		return time.Time{}
	}
	return *k.LockedUntil
}

// Add shows it a key.
func (l *Longest) Add(k api.Key) {
	l.Seen++
	switch {
	case l.Most <= 0:
		l.keys = append(l.keys, k)
	case len(l.keys) < l.Most:
		heap.Push(&l.keys, k)
	case until(l.keys[0]).Before(until(k)):
		l.keys[0] = k
		heap.Fix(&l.keys, 0)
	}
}

// Locked is the table of locked keys, the longest first.
func (s Screen) Locked(l Longest, st api.Status, zone *time.Location) string {
	if l.Seen == 0 {
		return "Nobody is locked out.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s locked", plain.Plural(l.Seen, "key"))
	if len(l.keys) < l.Seen {
		fmt.Fprintf(&b, ", the %s that are longest", plain.Count(len(l.keys)))
	}
	b.WriteString("\n")
	keys := slices.Clone(l.keys)
	slices.SortFunc(keys, func(a, b api.Key) int {
		return cmp.Or(until(b).Compare(until(a)), cmp.Compare(a.Guard, b.Guard), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	for _, line := range (section{rows: keyRows(keys, st, zone), words: 1}).lines() {
		b.WriteString(s.cut(line) + "\n")
	}
	return b.String()
}

// Keys is a table of keys, in their order.
func (s Screen) Keys(keys []api.Key, st api.Status, zone *time.Location) string {
	var b strings.Builder
	for _, line := range (section{rows: keyRows(keys, st, zone), words: 1}).lines() {
		b.WriteString(s.cut(line) + "\n")
	}
	return b.String()
}

func keyRows(keys []api.Key, st api.Status, zone *time.Location) [][]string {
	rows := [][]string{{"key", "counted", "pending", "locked for", "until", "rule"}}
	for _, k := range keys {
		left, end := "-", "-"
		if k.LockedUntil != nil {
			left, end = plain.Left(k.LockedUntil.Sub(st.Now)), clock(*k.LockedUntil, st.Now, zone)
		}
		name := k.Key
		if k.Overflow {
			name = "overflow"
		}
		rows = append(rows, []string{plain.Clean(name), plain.Count(k.Count), plain.Count(k.Pending), left, end, ruleOf(k, st)})
	}
	return rows
}

// ruleOf names the rule of a key, and says what it does.
func ruleOf(k api.Key, st api.Status) string {
	text := plain.Clean(k.Guard + "/" + k.Rule)
	for _, g := range st.Guards {
		if i := slices.IndexFunc(g.Rules, func(r api.Rule) bool { return r.Name == k.Rule }); g.Name == k.Guard && i >= 0 {
			text += " (" + policy(g.Rules[i].Per, g.Rules[i].Policy, g.Rules[i].Action) + ")"
		}
	}
	return text
}

// Networks is the table of networks that are exempt or blocked for a time.
func (s Screen) Networks(list []api.Network, now time.Time, zone *time.Location) string {
	var b strings.Builder
	for _, line := range (section{rows: networkRows(list, now, zone), words: 2}).lines() {
		b.WriteString(s.cut(line) + "\n")
	}
	return b.String()
}
