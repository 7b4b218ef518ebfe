package linear

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/doorward/doorward/lockout"
)

var histories = flag.Int("histories", 1500, "`histories` to record and check")

// T6: every recorded history is one that the rules allow in some order.
func TestLockoutIsLinearizable(t *testing.T) {
	overflow, reclaimed, overlaps := 0, 0, 0
	for seed := range uint64(*histories) {
		p := policy(rand.New(rand.NewPCG(seed, seed)))
		l, err := lockout.New(p)
		if err != nil {
			t.Fatal(err)
		}
		h := record(l, seed)
		if !porcupine.CheckOperations(rules{p}.model(), h) {
			t.Fatalf("seed %d, %+v: not linearizable:\n%s", seed, p, story(h))
		}
		own := map[int]bool{}
		for i, op := range h {
			out := op.Output.(result)
			if out.Decision.Overflow {
				overflow++
			} else if out.Decision.Allowed && op.Input.(call).Key != loopback {
				own[op.Input.(call).Key] = true
			}
			if i > 0 && op.Call < h[i-1].Return {
				overlaps++
			}
		}
		if len(own) > p.Capacity {
			reclaimed++
		}
	}
	// A proof about histories in which nothing happens proves nothing.
	if overflow == 0 || reclaimed == 0 || overlaps == 0 {
		t.Errorf("%d decisions of overflow, %d histories that reclaimed, %d calls that overlapped", overflow, reclaimed, overlaps)
	}
}

// A saved history is one that gave a mutant away.
type saved struct {
	Mutant     string
	Policy     lockout.Policy
	Operations []operation
}

type operation struct {
	Client       int
	Call, Return int64
	In           call
	Out          result
}

func save(h []porcupine.Operation) []operation {
	var ops []operation
	for _, op := range h {
		ops = append(ops, operation{op.ClientId, op.Call, op.Return, op.Input.(call), op.Output.(result)})
	}
	return ops
}

func (s saved) history() []porcupine.Operation {
	var h []porcupine.Operation
	for _, op := range s.Operations {
		h = append(h, porcupine.Operation{ClientId: op.Client, Input: op.In, Call: op.Call, Output: op.Out, Return: op.Return})
	}
	return h
}

// mutants have one mistake each; -tags mutants has their code.
var mutants = []string{"check before count", "evict when full", "clear by late settlement", "lease ignored", "per-shard capacity"}

func path(mutant string) string {
	return filepath.Join("testdata", strings.ReplaceAll(mutant, " ", "-")+".json")
}

// The checker rejects the history of every mutant.
func TestMutantHistoriesAreRejected(t *testing.T) {
	for _, m := range mutants {
		text, err := os.ReadFile(path(m))
		if err != nil {
			t.Fatal(err)
		}
		var s saved
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if s.Mutant != m || len(s.Operations) == 0 {
			t.Fatalf("%s is not a history of its own", path(m))
		}
		if porcupine.CheckOperations(rules{s.Policy}.model(), s.history()) {
			t.Errorf("%s: the checker sees nothing wrong", m)
		}
	}
}

func story(h []porcupine.Operation) string {
	text, err := json.MarshalIndent(save(h), "", "\t")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
