// Attacks runs every attack on every limiter and writes docs/attacks.md with its chart.
//
//	go run ./bench/cmd/attacks
//
// It runs a test of package attack, since virtual time needs one, in a build whose
// clock can be set: package time is the installed one with one function more. Run it
// from the root of the repository.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("attacks: ")
	out := flag.String("out", "docs", "the `folder` to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		log.Fatal(err)
	}
}

func run(out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "attacks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := overlay(dir)
	if err != nil {
		return err
	}
	work, err := workspace(dir)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "test", "-count=1", "-timeout=30m", "-tags=steppedclock", "-overlay="+overlay,
		"-run=^TestAttacks$", "./bench/internal/attack", "-write="+out)
	cmd.Env = append(os.Environ(), "GOWORK="+work)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// What package time has more of, and what its Now does with it.
const (
	stepWall = `
var steppedSeconds int64

// StepWall sets the wall clock ahead.
func StepWall(d Duration) { steppedSeconds += int64(d / Second) }
`
	readsClock = "sec, nsec, mono := runtimeNow()\n\tif mono == 0"
	readsStep  = "sec, nsec, mono := runtimeNow()\n\tsec += steppedSeconds\n\tif mono == 0"
	// go-limiter reads the same clock past package time; on Windows it does this.
	fasttime = `package fasttime

import "time"

func Now() uint64 { return uint64(time.Now().UnixNano()) }
`
)

// overlay writes the file that stands in for package time's own, and the list that
// tells the go command.
func overlay(dir string) (string, error) {
	clock, err := stdout("list", "-f", "{{.Dir}}", "time")
	if err != nil {
		return "", err
	}
	clock = filepath.Join(clock, "time.go")
	source, err := os.ReadFile(clock)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), readsClock); n != 1 {
		return "", fmt.Errorf("time.Now reads the clock otherwise in this version of Go (%d places)", n)
	}
	instead := filepath.Join(dir, "time.go")
	if err := os.WriteFile(instead, []byte(strings.Replace(string(source), readsClock, readsStep, 1)+stepWall), 0o644); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{clock: instead}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o644)
}

// workspace writes a go.work beside which go-limiter reads the clock by package time.
func workspace(dir string) (string, error) {
	const module = "github.com/sethvargo/go-limiter"
	installed, err := stdout("list", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", err
	}
	instead := filepath.Join(dir, "go-limiter")
	if err := os.CopyFS(instead, os.DirFS(installed)); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(instead, "internal", "fasttime", "fasttime.go"), []byte(fasttime), 0o644); err != nil {
		return "", err
	}
	root, err := stdout("env", "GOWORK")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(root)
	if err != nil {
		return "", err
	}
	root = filepath.Dir(root)
	here := strings.NewReplacer("\t.\n", "\t"+root+"\n", "\t./", "\t"+root+"/", "=> ./", "=> "+root).Replace(string(text))
	path := filepath.Join(dir, "go.work")
	return path, os.WriteFile(path, []byte(here+"\nreplace "+module+" => "+instead+"\n"), 0o644)
}

func stdout(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	return strings.TrimSpace(string(out)), err
}
