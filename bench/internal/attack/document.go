package attack

import (
	"fmt"
	"strings"

	"github.com/doorward/doorward/bench/internal/measure"
	"github.com/doorward/doorward/bench/internal/peer"
	"github.com/doorward/doorward/bench/internal/report"
)

// weighed names the peers whose memory is weighed, and how many callers each gets: a
// scan at a full table would take hours.
func weighed(size Size) []weight {
	return []weight{
		{peer.Ours[0], size.Keys}, {peer.Ours[2], size.Keys}, {peer.Ours[3], size.Keys}, {peer.Ours[4], size.Keys},
		{peer.Others[0], size.Keys}, {peer.Others[1], size.Keys}, {peer.Others[2], size.Keys}, {peer.Others[3], size.Keys},
		{peer.Bounded[0], size.Keys}, {peer.Others[5], size.Keys}, {peer.Bounded[1], size.Bound + 1000},
	}
}

type weight struct {
	peer peer.Peer
	keys int
}

// Documents weighs what attacks leave behind, and returns attacks.md and its chart by
// name.
func Documents(size Size, results map[string]Results) map[string]string {
	docs := map[string]string{}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# What gets through\n\n")
	p("`make attacks` runs every attack and writes this page. The policy is the nearest that each limiter has to *%d failures a minute for a\n", Limit)
	p("client*, and %d for a whole /48 or /24 where it can say that. Each stands as a middleware in front of the same small application, set up\n", Site)
	p("as its own documentation shows. Two figures count: guesses that the application judged beyond the policy, and honest callers who were\n")
	p("refused.\n\n")
	p("![Guesses beyond the policy, all attacks together](attacks.svg)\n\n")
	p("## Guesses beyond the policy\n\n%s\n", table(results, func(f Figures) int { return f.Beyond }))
	p("## Honest callers refused\n\nOf %d each time; of %d where the table overflows.\n\n%s\n", people, 2*people, table(results, func(f Figures) int { return f.Refused }))
	p("## What ours are not zero at, and why\n\n%s\n", exceptions)
	p("## What was done\n\n")
	for _, r := range Rows {
		p("- **%s%s.** %s\n", strings.ToUpper(r.Name[:1]), r.Name[1:], r.What(size))
	}
	p("\n%s\n", setups)
	p("## Memory\n\n")
	p("%s callers with an address each attempt once: what the limiter then holds, in terms of `lockout`. Limiters with a bound are set up for\n", number(size.Keys))
	p("%s clients. (The map with a scan gets 1,000 callers more than it holds: each of them is a scan.)\n\n", number(size.Bound))
	var rows [][]string
	base := 0.0
	for _, w := range weighed(size) {
		mib := float64(measure.Held(w.peer, size.Bound, w.keys)) / (1 << 20)
		if base == 0 {
			base = mib
		}
		name := w.peer.Name
		if w.peer.Ours {
			name = "**" + name + "**"
		}
		rows = append(rows, []string{name, report.Ratio(mib, base, "MiB")})
	}
	p("%s", report.Table([]string{"", "held"}, rows))
	docs["attacks.md"] = b.String()
	docs["attacks.svg"] = chart(results).SVG()
	return docs
}

const exceptions = `- **The window's edge**: a fixed window forgets all at once, so that twice the limit less one, here 9, may be judged within less than one
  window: 4 beyond. ` + "`throttle` and the fixed `window`" + ` say so where they are documented; ` + "`lockout` and the sliding `window`" + ` do not have it.
- **An office logs in**: a ` + "`window`" + ` counts requests, right or wrong, because each has its price: 5 of 20 pass. It is the wrong tool for a
  login, and says so.
- **More addresses than the table holds**: newcomers share one entry while the table is full of live ones, so all 20 of them are refused
  until an entry is forgotten. Nobody who was there before is, and no guess is gained: the price of never dropping who is locked. A
  larger table moves the point; a known device is never refused by that entry.
`

const setups = `How the others are set up: *x/time/rate* is a rate.Limiter for each client in a sync.Map, of the peer's address behind a proxy too, since
nothing there reads headers. *httprate* takes its caller from chi's ClientIPFromRemoteAddr and ClientIPFromXFF, as it now documents;
*KeyByRealIP*, which it deprecates, is beside it where headers matter. *ulule/limiter* is its own middleware, with TrustForwardHeader
behind a proxy; *go-limiter* its httplimit with IPKeyFunc, of X-Forwarded-For behind a proxy, and gives tokens back with Burst; *throttled* is GCRA
over its LRU store with VaryBy. *Map and mutex* is what people write by hand, counting requests, and takes back by counting down;
*failures* is the other such thing, which counts answers of 401 and forgets at 200. A limiter that counts requests gives nothing for a
right password: it also counts those against the honest.
`

func columns(results map[string]Results) []Contender {
	var out []Contender
	for _, c := range Contenders {
		for _, r := range results {
			if _, ok := r[c.Name]; ok {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

func table(results map[string]Results, figure func(Figures) int) string {
	head := []string{""}
	cols := columns(results)
	for _, c := range cols {
		if c.Ours {
			head = append(head, "**"+c.Name+"**")
		} else {
			head = append(head, c.Name)
		}
	}
	var rows [][]string
	for _, r := range Rows {
		row := []string{r.Name}
		for _, c := range cols {
			if f, ok := results[r.Name][c.Name]; ok {
				row = append(row, number(figure(f)))
			} else {
				row = append(row, "–")
			}
		}
		rows = append(rows, row)
	}
	return report.Table(head, rows)
}

func chart(results map[string]Results) report.Chart {
	c := report.Chart{Title: "Guesses beyond the policy, all attacks together", Log: true}
	for _, of := range columns(results) {
		if of.Headers {
			continue
		}
		n := 0
		for _, r := range results {
			n += r[of.Name].Beyond
		}
		c.Bars = append(c.Bars, report.Bar{Name: of.Name, Ours: of.Ours, Value: float64(n)})
	}
	return c
}
