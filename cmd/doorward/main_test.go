package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
)

func TestMain(m *testing.M) {
	if _, said := os.LookupEnv(config.AdminEnv); !said {
		os.Setenv(config.AdminEnv, "off") // daemons of several tests run at a time
	}
	testscript.Main(m, map[string]func(){"doorward": main, "hold": hold})
}

// The command line, as a person sees it: what is printed, where, and the exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               func(e *testscript.Env) error { e.Setenv(config.AdminEnv, "off"); return nil },
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a program and holds its exit code and, as stdout and stderr files, what
// it printed: exits CODE PROGRAM ARGS.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS")
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if at := ts.Getenv("DOORWARD_ADMIN"); at != "" {
		cmd.Env = append(cmd.Env, "DOORWARD_ADMIN="+at)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	ts.Check(os.WriteFile(ts.MkAbs("out"), stdout.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), stderr.Bytes(), 0o600))
	if code := cmd.ProcessState.ExitCode(); args[0] != strconv.Itoa(code) {
		ts.Fatalf("exit code %d, want %s\n%s%s", code, args[0], &stdout, &stderr)
	}
}
