package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Users install doorward@latest from a module proxy, where there is neither go.work
// nor replace. The proxy here is laid out as files: ours as v0.1.0, the dependencies
// from the module cache.
func TestInstall(t *testing.T) {
	proxy := t.TempDir()
	publish(t, proxy, "github.com/doorward/doorward", root)
	publish(t, proxy, "github.com/doorward/doorward/cmd/doorward", "..")
	publish(t, proxy, "github.com/doorward/doorward/redisstore", filepath.Join(root, "redisstore"))
	cache := strings.TrimSpace(run1(t, nil, ".", "go", "env", "GOMODCACHE"))
	env := append(os.Environ(),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download"),
		"GOSUMDB=off", "GOWORK=off", "GOFLAGS=-modcacherw",
		"GOMODCACHE="+t.TempDir(), "GOBIN="+t.TempDir(),
	)
	bin := lookup(env, "GOBIN")

	run1(t, env, bin, "go", "install", "github.com/doorward/doorward/cmd/doorward@latest")
	if out := run1(t, env, bin, filepath.Join(bin, "doorward"), "version"); !strings.Contains(out, "v0.1.0") {
		t.Errorf("doorward version prints %q, want v0.1.0", out)
	}

	// And a program of its own gets the library.
	user := t.TempDir()
	run1(t, env, user, "go", "mod", "init", "example.com/user")
	run1(t, env, user, "go", "get", "github.com/doorward/doorward")
	program := `package main

import (
	"fmt"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/lockout"
)

func main() {
	l, err := lockout.New(lockout.Login)
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Attempt(doorward.KeyFromName("alice"), time.Now()).Remaining)
}
`
	if err := os.WriteFile(filepath.Join(user, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run1(t, env, user, "go", "run", "."); strings.TrimSpace(out) != "4" {
		t.Errorf("a program that uses the library prints %q, want 4", out)
	}
	text, err := os.ReadFile(filepath.Join(user, "go.sum"))
	if err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("the library brings dependencies along: %v\n%s", err, text)
	}
}

// publish lays a module out as a proxy serves it.
func publish(t *testing.T, proxy, path, dir string) {
	t.Helper()
	const version = "v0.1.0"
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(at, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	put("list", []byte(version+"\n"))
	put(version+".info", info)
	put(version+".mod", gomod)
	f, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := zip.CreateFromDir(f, module.Version{Path: path, Version: version}, dir); err != nil {
		t.Fatal(err)
	}
}

func lookup(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func run1(t *testing.T, env []string, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = env, dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
