// Speed measures this project's limiters and the usual others side by side, and writes
// docs/benchmarks.md with its charts.
//
//	go run ./bench/cmd/speed
//
// Figures are medians of several rounds, and in each round every peer has its turn: what
// else the machine does meanwhile hits all of them. Run it from the root of the
// repository; it needs wrk and nginx, which make tools installs.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("speed: ")
	name := flag.String("worker", "", "measure one `peer` as asked on standard input (internal)")
	role := flag.String("serve", "", "be the `application` or the bare proxy (internal)")
	out := flag.String("out", "docs", "the `folder` to write to")
	rounds := flag.Int("rounds", 5, "`rounds` that medians are taken of")
	short := flag.Bool("short", false, "short turns, for trying the command out: the figures are worthless")
	flag.Parse()
	var err error
	switch {
	case *name != "":
		err = work(*name)
	case *role != "":
		err = serve(*role, flag.Args())
	default:
		err = run(*out, *rounds, *short)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(out string, rounds int, short bool) error {
	r := runner{rounds: rounds, turn: 100 * time.Millisecond, load: 2 * time.Second}
	if short {
		r.turn, r.load = 10*time.Millisecond, 300*time.Millisecond
	}
	start := time.Now()
	var f figures
	for _, part := range []struct {
		name string
		take func(*figures) error
	}{
		{"decisions", r.decisions}, {"memory", r.memory}, {"floods", r.floods},
		{"middleware", r.middleware}, {"proxies", r.proxies},
	} {
		log.Printf("%s, after %v", part.name, time.Since(start).Round(time.Second))
		if err := part.take(&f); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	log.Printf("done after %v", time.Since(start).Round(time.Second))
	for name, text := range f.documents() {
		if err := os.WriteFile(out+"/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
