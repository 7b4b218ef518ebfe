package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/doorward/doorward/bench/internal/measure"
	"github.com/doorward/doorward/bench/internal/peer"
)

// A worker is a process of its own that measures one peer when it is asked to: no other
// peer's memory is in its caches or keeps its collector busy.
type worker struct {
	peer peer.Peer
	cmd  *exec.Cmd
	in   *json.Encoder
	out  *json.Decoder
	pipe io.Closer
}

// A question is what to measure.
type question struct {
	What  string // speed, bytes, growth, known, new, returning, forgotten
	Keys  int
	Zipf  bool
	Procs int
	For   time.Duration
}

type answer struct {
	Speed  measure.Speed
	Memory measure.Memory
	Growth time.Duration
	Times  measure.Times
}

// kinds are the peers by the name of their kind, which a worker is started with.
var kinds = map[string][]peer.Peer{
	"limiter": slices.Concat(peer.Ours, peer.Others, []peer.Peer{peer.Floor}),
	"bounded": {peer.Ours[0], peer.Ours[2], peer.Ours[3], peer.Ours[5], peer.Bounded[0], peer.Bounded[1]},
	"http":    peer.HTTP,
}

func startWorker(kind string, p peer.Peer) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-worker", kind+"/"+p.Name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &worker{p, cmd, json.NewEncoder(in), json.NewDecoder(out), in}, cmd.Start()
}

func (w *worker) ask(q question) (a answer, err error) {
	if err := w.in.Encode(q); err != nil {
		return a, fmt.Errorf("%s: %w", w.peer.Name, err)
	}
	if err := w.out.Decode(&a); err != nil {
		return a, fmt.Errorf("%s: %w", w.peer.Name, err)
	}
	return a, nil
}

// stop ends the worker, which ends with its input.
func (w *worker) stop() error {
	w.pipe.Close()
	return w.cmd.Wait()
}

// work answers questions about one peer until there are no more.
func work(name string) error {
	p, ok := find(name)
	if !ok {
		return fmt.Errorf("no peer %q", name)
	}
	type place struct {
		keys int
		zipf bool
	}
	benches := map[place]*measure.Bench{}
	floods := map[int]*measure.Flood{}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var q question
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		switch q.What {
		case "speed":
			at := place{q.Keys, q.Zipf}
			if benches[at] == nil {
				benches[at] = measure.NewBench(p, q.Keys, q.Zipf)
			}
			a.Speed = benches[at].Speed(q.Procs, q.For)
		case "bytes":
			a.Memory = measure.Bytes(p, q.Keys)
		case "growth":
			a.Growth = measure.Growth(p, q.Keys)
		default:
			if floods[q.Keys] == nil {
				floods[q.Keys] = measure.NewFlood(p, q.Keys, 50_000)
			}
			switch f := floods[q.Keys]; q.What {
			case "known":
				a.Times = f.Known()
			case "new":
				a.Times = f.New()
			case "returning":
				a.Times = f.Returning()
			case "forgotten":
				a.Times = f.Forgotten()
			}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

func find(name string) (peer.Peer, bool) {
	for kind, peers := range kinds {
		for _, p := range peers {
			if kind+"/"+p.Name == name {
				return p, true
			}
		}
	}
	return peer.Peer{}, false
}
