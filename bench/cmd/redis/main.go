// Redis measures limiters that share their counts through a Redis server, and prints tables for
// docs/scaling.md. It starts a redis-server of its own and takes two minutes.
//
// Figures are those of the best of many short turns, which all have in rounds, with the same number
// of callers right after each other: what else the machine does only takes away.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/doorward/doorward/bench/internal/report"
	"github.com/doorward/doorward/bench/internal/shared"
)

func main() {
	each := flag.Duration("time", 150*time.Millisecond, "how `long` a turn is")
	rounds := flag.Int("rounds", 20, "`rounds` of turns, of which the best counts")
	which := flag.String("run", "", "measure only those whose names match a `pattern`")
	flag.Parse()
	if err := run(*each, *rounds, *which); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var callers = []int{1, 16, 128}

func run(each time.Duration, rounds int, which string) error {
	pattern, err := regexp.Compile(which)
	if err != nil {
		return err
	}
	ctx := context.Background()
	server, err := shared.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	field, err := shared.Connect(server.Addr)
	if err != nil {
		return err
	}
	defer field.Close()
	var contenders []shared.Contender
	for _, c := range field.Contenders {
		if pattern.MatchString(c.Name) {
			contenders = append(contenders, c)
		}
	}
	best := make([][]shared.Speed, len(contenders)) // by contender and callers
	for i, c := range contenders {
		best[i] = make([]shared.Speed, len(callers))
		if _, err := shared.Run(ctx, c, callers[len(callers)-1], each); err != nil { // its keys are there from now on
			return err
		}
	}
	var lost error
	for range rounds {
		for n, callers := range callers {
			for i, c := range contenders {
				s, err := shared.Run(ctx, c, callers, each)
				if err != nil { // somebody had to wait for too long: the turn is lost
					lost = err
					continue
				}
				if s.PerSecond > best[i][n].PerSecond {
					best[i][n] = s
				}
			}
		}
	}
	var rows [][]string
	for i, c := range contenders {
		row := []string{c.Name}
		for _, s := range best[i] {
			if s.PerSecond == 0 {
				return fmt.Errorf("no turn was whole: %w", lost)
			}
			row = append(row, report.Group(s.PerSecond), s.P99.Round(10*time.Microsecond).String())
		}
		rows = append(rows, row)
	}
	fmt.Println(report.Table(head(""), rows))
	for _, kind := range []shared.Kind{shared.Peer, shared.Bare} {
		fmt.Println(beside(kind, contenders, best))
	}
	took, err := field.Hot()
	if err != nil {
		return err
	}
	fmt.Printf("A refusal of a key that is known to be locked takes %v, and no round trip.\n\n", took)
	const keys = 100_000
	bytes, err := field.Bytes(ctx, server.Addr, keys)
	if err != nil {
		return err
	}
	fmt.Printf("%s keys of a lockout take %.0f bytes each.\n", report.Group(keys), bytes)
	return nil
}

func head(first string) []string {
	cells := []string{first}
	for _, n := range callers {
		cells = append(cells, fmt.Sprintf("%d at once", n), "p99")
	}
	return cells
}

// beside returns a table of what ours do and wait, in terms of the fastest of a kind.
func beside(kind shared.Kind, contenders []shared.Contender, best [][]shared.Speed) string {
	base := make([]shared.Speed, len(callers))
	for i, c := range contenders {
		for n, s := range best[i] {
			if c.Kind == kind && s.PerSecond > base[n].PerSecond {
				base[n] = s
			}
		}
	}
	var rows [][]string
	for i, c := range contenders {
		if c.Kind != shared.Ours {
			continue
		}
		row := []string{c.Name}
		for n, s := range best[i] {
			row = append(row, fmt.Sprintf("%.2f", s.PerSecond/base[n].PerSecond), fmt.Sprintf("%.2f", float64(s.P99)/float64(base[n].P99)))
		}
		rows = append(rows, row)
	}
	return report.Table(head("times "+kind.String()), rows)
}
