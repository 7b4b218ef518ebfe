// Redis measures limiters that share their counts through a Redis server, and prints a table for
// docs/scaling.md. It starts a redis-server of its own and takes two minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/doorward/doorward/bench/internal/report"
	"github.com/doorward/doorward/bench/internal/shared"
)

func main() {
	each := flag.Duration("time", time.Second, "how `long` each is measured at a time")
	rounds := flag.Int("rounds", 3, "`rounds` in which each has its turn; the best counts")
	flag.Parse()
	if err := run(*each, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var callers = []int{1, 16, 128}

func run(each time.Duration, rounds int) error {
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
	best := make([][]shared.Speed, len(field.Contenders))
	for i := range best {
		best[i] = make([]shared.Speed, len(callers))
	}
	for range rounds {
		for i, c := range field.Contenders {
			if err := field.Flush(ctx); err != nil {
				return err
			}
			for n, callers := range callers {
				s, err := shared.Run(ctx, c, callers, each)
				if err != nil {
					return err
				}
				if s.PerSecond > best[i][n].PerSecond {
					best[i][n] = s
				}
			}
		}
	}
	head := []string{""}
	for _, n := range callers {
		head = append(head, fmt.Sprintf("%d at once", n), "p99")
	}
	var rows [][]string
	for i, c := range field.Contenders {
		row := []string{c.Name}
		for _, s := range best[i] {
			row = append(row, report.Group(s.PerSecond), s.P99.Round(10*time.Microsecond).String())
		}
		rows = append(rows, row)
	}
	fmt.Print(report.Table(head, slices.Clip(rows)))
	const keys = 100_000
	bytes, err := field.Bytes(ctx, server.Addr, keys)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s keys of a lockout take %.0f bytes each.\n", report.Group(keys), bytes)
	return nil
}
