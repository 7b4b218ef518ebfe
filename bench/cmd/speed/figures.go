package main

import (
	"time"

	"github.com/doorward/doorward/bench/internal/measure"
	"github.com/doorward/doorward/bench/internal/peer"
)

// A runner asks the workers in turn.
type runner struct {
	rounds int
	turn   time.Duration // for one speed
	load   time.Duration // for one run of wrk
}

// figures are what was measured, medians all.
type figures struct {
	decide map[string]map[cell]speed // by peer
	bytes  map[string]measure.Memory
	growth map[string]time.Duration
	flood  map[string]map[siege]measure.Times
	http   map[string]map[cell]speed
	proxy  []throughput
}

// A cell is where a speed was measured.
type cell struct {
	keys  int
	zipf  bool
	procs int
}

// A speed is in nanoseconds of the processor's time on one processor, so that other
// work on the machine does not count, and on the wall on two, where waiting does.
type speed struct{ ns, wall, allocs float64 }

// A siege is a flood of a table of a size.
type siege struct {
	size int
	what string
}

var (
	cells = []cell{
		{1, false, 1}, {4096, false, 1}, {4096, true, 1}, {1_000_000, false, 1}, {1_000_000, true, 1},
		{1, false, 2}, {4096, false, 2}, {4096, true, 2}, {1_000_000, false, 2}, {1_000_000, true, 2},
	}
	httpCells = []cell{{1, false, 1}, {4096, false, 1}, {4096, false, 2}}
	sizes     = []int{4096, 65_536, 1_000_000}
	sieges    = []string{"known", "new", "returning", "forgotten"}
)

const million = 1_000_000

// each starts a worker for every peer of a kind, lets f ask them, and stops them.
func (r *runner) each(kind string, f func([]*worker) error) error {
	var all []*worker
	defer func() {
		for _, w := range all {
			w.stop()
		}
	}()
	for _, p := range kinds[kind] {
		w, err := startWorker(kind, p)
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	return f(all)
}

// alone starts a new worker for each peer of a kind in turn, for what needs a process
// that has done nothing yet.
func (r *runner) alone(kind string, f func(*worker) error) error {
	for _, p := range kinds[kind] {
		w, err := startWorker(kind, p)
		if err != nil {
			return err
		}
		err = f(w)
		w.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) decisions(f *figures) (err error) {
	f.decide, err = r.speeds("limiter", cells)
	return err
}

func (r *runner) middleware(f *figures) (err error) {
	f.http, err = r.speeds("http", httpCells)
	return err
}

func (r *runner) speeds(kind string, cells []cell) (map[string]map[cell]speed, error) {
	out := map[string]map[cell]speed{}
	err := r.each(kind, func(all []*worker) error {
		for _, c := range cells {
			took := map[string][]measure.Speed{}
			for range r.rounds {
				for _, w := range all {
					a, err := w.ask(question{What: "speed", Keys: c.keys, Zipf: c.zipf, Procs: c.procs, For: r.turn})
					if err != nil {
						return err
					}
					took[w.peer.Name] = append(took[w.peer.Name], a.Speed)
				}
			}
			for name, all := range took {
				if out[name] == nil {
					out[name] = map[cell]speed{}
				}
				out[name][c] = median(all, c.procs)
			}
		}
		return nil
	})
	return out, err
}

func median(all []measure.Speed, procs int) speed {
	var cpu, wall, allocs []float64
	for _, s := range all {
		cpu, wall, allocs = append(cpu, s.CPU), append(wall, s.Ns), append(allocs, s.Allocs)
	}
	out := speed{measure.Median(cpu), measure.Median(wall), measure.Median(allocs)}
	if procs > 1 {
		out.ns = out.wall
	}
	return out
}

func (r *runner) memory(f *figures) error {
	f.bytes, f.growth = map[string]measure.Memory{}, map[string]time.Duration{}
	return r.alone("limiter", func(w *worker) error {
		if w.peer.Name == peer.Floor.Name || w.peer.Name == peer.Ours[1].Name {
			return nil // the second is the first, asked otherwise
		}
		a, err := w.ask(question{What: "bytes", Keys: million})
		if err != nil {
			return err
		}
		f.bytes[w.peer.Name] = a.Memory
		var growth []time.Duration
		for range r.rounds {
			a, err := w.ask(question{What: "growth", Keys: million})
			if err != nil {
				return err
			}
			growth = append(growth, a.Growth)
		}
		f.growth[w.peer.Name] = measure.Median(growth)
		return nil
	})
}

func (r *runner) floods(f *figures) error {
	f.flood = map[string]map[siege]measure.Times{}
	return r.each("bounded", func(all []*worker) error {
		for _, size := range sizes {
			took := map[string]map[string][]measure.Times{}
			for range r.rounds {
				for _, w := range all {
					for _, what := range sieges {
						a, err := w.ask(question{What: what, Keys: size})
						if err != nil {
							return err
						}
						if took[w.peer.Name] == nil {
							took[w.peer.Name] = map[string][]measure.Times{}
						}
						took[w.peer.Name][what] = append(took[w.peer.Name][what], a.Times)
					}
				}
			}
			for name, by := range took {
				if f.flood[name] == nil {
					f.flood[name] = map[siege]measure.Times{}
				}
				for what, ts := range by {
					f.flood[name][siege{size, what}] = medianTimes(ts)
				}
			}
		}
		return nil
	})
}

func medianTimes(ts []measure.Times) measure.Times {
	var medians, tails, longest []time.Duration
	for _, t := range ts {
		medians, tails, longest = append(medians, t.Median), append(tails, t.P9999), append(longest, t.Longest)
	}
	return measure.Times{Median: measure.Median(medians), P9999: measure.Median(tails), Longest: measure.Median(longest)}
}
