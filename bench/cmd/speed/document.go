package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward/bench/internal/peer"
	"github.com/doorward/doorward/bench/internal/report"
)

// documents returns what is written, by name.
func (f *figures) documents() map[string]string {
	docs := map[string]string{"benchmarks.md": f.text()}
	for name, c := range f.charts() {
		docs[name+".svg"] = c.SVG()
	}
	return docs
}

func (f *figures) text() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# What a decision costs\n\n")
	p("`make bench` measures and writes this page; it takes some minutes. Ratios are in terms of `%s`, so that a larger one is slower, larger\n", flagship)
	p("or later; the figures they come from stand beside them. All are medians of several rounds in which every limiter had its turn, each\n")
	p("in a process of its own. They are from %s, %d cores, %s, and other work was running: read the ratios.\n\n", processor(), runtime.NumCPU(), runtime.Version())

	p("## What was aimed at\n\n")
	var rows [][]string
	why := ""
	for _, a := range f.aims() {
		met := "yes"
		if !a.met {
			met = "**no**"
			why += fmt.Sprintf("- %s%s: %s\n", strings.ToUpper(a.what[:1]), a.what[1:], a.why)
		}
		rows = append(rows, []string{a.what, a.got, met})
	}
	p("%s\n", report.Table([]string{"aim", "measured", "met"}, rows))
	if why != "" {
		p("Why not:\n\n%s\n", why)
	}

	p("## Decisions\n\n")
	p("![Nanoseconds per decision at 1,000,000 keys](benchmarks-decision.svg)\n\n")
	p("Nanoseconds per decision and ratios. All limiters know all callers before, see the same callers in the same order, and read the clock\n")
	p("once, the others by themselves, ours by the caller. The limit is 60,000 an hour, so that attempts are admitted and counted; only a\n")
	p("single key is over it nearly always, and refused. *Settled* is an attempt in two steps, reserved and settled as failed, as guards make\n")
	p("it. The guard has rules for the network, the /24 and the account, and settles too. The *floor* is the clock, a hash, a mutex that\n")
	p("nobody else wants, and one random access to an entry of 64 bytes. On one processor it is the processor's time, so that other work on\n")
	p("the machine does not count; on two it is the time on the wall, since waiting for each other does.\n\n")
	for _, procs := range []int{1, 2} {
		p("On %s:\n\n%s\n", []string{"one processor", "two processors, both deciding (time per decision of both)"}[procs-1], f.speeds(f.decide, kinds["limiter"], flagship, procs))
	}

	p("## Memory\n\n")
	p("![Bytes per key at 1,000,000 keys](benchmarks-memory.svg)\n\n")
	p("A limiter that holds 1,000,000 keys: bytes per key, the keys' own strings included where there are any, and how many of\n")
	p("them a collection looks for pointers in; a forced collection with the\n")
	p("limiter live and just after it was dropped; and the longest single attempt while the table grew from nothing, those left out in which\n")
	p("the system gave the processor to others, here and below. Our tables are allocated at once, with the pool of reservations in flight\n")
	p("(32 bytes each, 65,536 unless configured) beside them. httprate keeps hashes instead of keys, for two windows.\n\n%s\n", f.memoryTable())

	p("## Floods\n\n")
	p("![Median time of an attempt from a new address at a full table](benchmarks-flood.svg)\n\n")
	p("A table full of live entries, five an hour for each address. *Known* are attempts of addresses that it holds, nearly all refused.\n")
	p("*New* is the flood: attempts each from another address that the table does not hold. *Returning* are attempts of known addresses just\n")
	p("after all entries were forgotten together, all admitted, and *forgotten* is the flood at that moment. Each flood is in terms of the\n")
	p("same limiter without it: new of known, forgotten of returning. Times include one reading of the clock more than those above. Beside\n")
	p("ours those of the others that have a bound: an LRU drops whoever was there longest, and so does the map once its scan finds nobody\n")
	p("expired.\n\n")
	for _, size := range sizes {
		p("%s entries:\n\n%s\n", report.Group(float64(size)), f.floodTable(size))
	}

	p("## Middleware\n\n")
	p("One request through a net/http handler in process, with a ResponseWriter that keeps nothing. The handler answers 401. Ratios are in\n")
	p("terms of no middleware.\n\n%s\n", f.httpTable())

	p("## Proxies\n\n")
	p("![Requests per second](benchmarks-proxy.svg)\n\n")
	p("wrk with 16 connections posts a form, through each proxy, to one small application; all of it on loopback and on the same two\n")
	p("processors, so that every process takes time from the others. `doorward serve` reads the body before it decides, and waits for the\n")
	p("answer to learn how the attempt ended; `limit_req` counts requests and does neither. All three use connections to the application\n")
	p("again; `doorward serve` does so after requests with a body because it is told that this application reads them (`reads_bodies`,\n")
	p("[upstreams.md](upstreams.md)).\n\n%s", f.proxyTable())
	return b.String()
}

func (f *figures) speeds(by map[string]map[cell]speed, peers []peer.Peer, base string, procs int) string {
	head := []string{""}
	for _, c := range cells {
		if c.procs == procs {
			head = append(head, cell{c.keys, c.zipf, 1}.String())
		}
	}
	if procs == 1 {
		head = append(head, "allocations")
	}
	var rows [][]string
	for _, p := range peers {
		row := []string{name(p)}
		most := 0.0
		for _, c := range cells {
			if c.procs == procs {
				row = append(row, report.Ratio(by[p.Name][c].ns, by[base][c].ns, "ns"))
				most = max(most, by[p.Name][c].allocs)
			}
		}
		if procs == 1 {
			row = append(row, fmt.Sprintf("%.0f", most))
		}
		rows = append(rows, row)
	}
	return report.Table(head, rows)
}

func (f *figures) memoryTable() string {
	var rows [][]string
	base := f.bytes[flagship]
	for _, p := range kinds["limiter"] {
		m, ok := f.bytes[p.Name]
		if !ok {
			continue
		}
		rows = append(rows, []string{
			name(p), report.Ratio(m.BytesPerKey, base.BytesPerKey, "B"), fmt.Sprintf("%.0f", m.Scanned),
			report.Ratio(ms(m.With), ms(base.With), "ms"), report.Figure(ms(m.Without), "ms"),
			report.Ratio(ms(f.growth[p.Name]), ms(f.growth[flagship]), "ms"),
		})
	}
	return report.Table([]string{"", "bytes per key", "of which looked at", "collection, live", "dropped", "longest attempt, growing"}, rows)
}

func (f *figures) floodTable(size int) string {
	var rows [][]string
	for _, p := range kinds["bounded"] {
		var row, tails, longest []string
		for _, what := range sieges {
			t := f.flood[p.Name][siege{size, what}]
			switch base := floodOf[what]; {
			case t.Median == 0:
				row = append(row, "–")
				continue
			case base != "":
				row = append(row, report.Ratio(float64(t.Median), float64(f.flood[p.Name][siege{size, base}].Median), "ns"))
			default:
				row = append(row, report.Figure(float64(t.Median), "ns"))
			}
			tails = append(tails, report.Figure(float64(t.P9999)/1000, ""))
			longest = append(longest, report.Figure(float64(t.Longest)/1000, ""))
		}
		rows = append(rows, append(append([]string{name(p)}, row...), strings.Join(tails, " / "), strings.Join(longest, " / ")))
	}
	return report.Table([]string{"", "known", "new", "returning", "forgotten", "p99.99 of each, µs", "longest of each, µs"}, rows)
}

func (f *figures) httpTable() string {
	var rows [][]string
	for _, p := range peer.HTTP {
		row := []string{name(p)}
		for _, c := range httpCells {
			row = append(row, report.Ratio(f.http[p.Name][c].ns, f.http[peer.HTTP[0].Name][c].ns, "ns"))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.0f", f.http[p.Name][httpCells[1]].allocs)))
	}
	head := []string{""}
	for _, c := range httpCells {
		head = append(head, strings.Replace(c.String(), "key", "caller", 1))
	}
	return report.Table(append(head, "allocations"), rows)
}

func (f *figures) proxyTable() string {
	var rows [][]string
	var base throughput
	for _, t := range f.proxy {
		if base.group != t.group {
			base = f.proxy[slices.IndexFunc(f.proxy, func(o throughput) bool { return o.group == t.group && o.ours })]
		}
		n := t.name
		if t.ours {
			n = "**" + n + "**"
		}
		rows = append(rows, []string{n, t.group, report.Ratio(t.perSecond, base.perSecond, "/s"), report.Ratio(ms(t.p99), ms(base.p99), "ms")})
	}
	return report.Table([]string{"", "", "requests (more is better)", "p99 (less is better)"}, rows)
}

func (f *figures) charts() map[string]report.Chart {
	decision := report.Chart{Title: "Nanoseconds per decision, 1,000,000 keys, one processor", Unit: "ns"}
	memory := report.Chart{Title: "Bytes per key, 1,000,000 keys", Unit: "B"}
	for _, p := range kinds["limiter"] {
		decision.Bars = append(decision.Bars, report.Bar{Name: p.Name, Ours: p.Ours, Value: f.decide[p.Name][cell{million, false, 1}].ns})
		if m, ok := f.bytes[p.Name]; ok {
			memory.Bars = append(memory.Bars, report.Bar{Name: p.Name, Ours: p.Ours, Value: m.BytesPerKey})
		}
	}
	flood := report.Chart{Title: "An attempt from a new address, 65,536 live entries, median", Unit: "ns", Log: true}
	for _, p := range kinds["bounded"] {
		flood.Bars = append(flood.Bars, report.Bar{Name: p.Name, Ours: p.Ours, Value: float64(f.flood[p.Name][siege{65_536, "new"}].Median)})
	}
	proxy := report.Chart{Title: "Requests per second through a proxy"}
	for _, t := range f.proxy {
		word, _, _ := strings.Cut(strings.TrimPrefix(t.group, "limited, and "), ",")
		n := strings.TrimPrefix(t.name, "httputil.")
		n, _, _ = strings.Cut(n, ",")
		proxy.Bars = append(proxy.Bars, report.Bar{Name: n + ", " + word, Ours: t.ours, Value: t.perSecond})
	}
	return map[string]report.Chart{
		"benchmarks-decision": decision, "benchmarks-memory": memory, "benchmarks-flood": flood, "benchmarks-proxy": proxy,
	}
}

func name(p peer.Peer) string {
	if p.Ours {
		return "**" + p.Name + "**"
	}
	return p.Name
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// processor returns the name of the processor as the system has it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
