package doorward_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/doorward/doorward"

// layers of the core module. A package imports only packages of a strictly lower
// layer; a new package states its layer here.
var layers = map[string]int{
	".":                0,
	"internal/table":   0,
	"internal/seal":    0,
	"internal/limiter": 1,
	"clientip":         1,
	"door":             1,
	"device":           1,
	"outcome":          1,
	"lockout":          2,
	"throttle":         2,
	"window":           2,
	"trace":            2,
	"guard":            3,
	"budget":           4,
	"httpguard":        5,
}

// edge is the first layer that may read a clock and speak HTTP. Below it time is an
// argument.
const edge = 5

// clocks are the functions of package time that read a clock or wait for one.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

func TestLayers(t *testing.T) {
	seen := map[string]bool{}
	for name, pkg := range packages(t) {
		if pkg.module != "." {
			continue
		}
		seen[name] = true
		layer, ok := layers[name]
		if !ok {
			t.Errorf("package %s states no layer", name)
			continue
		}
		for _, f := range pkg.files {
			for _, imported := range f.imports() {
				own, within := strings.CutPrefix(imported, module)
				own = strings.TrimPrefix(own, "/")
				if own == "" {
					own = "."
				}
				switch {
				case !within && strings.Contains(strings.Split(imported, "/")[0], "."):
					t.Errorf("%s imports %s: the core module has no dependencies", f.name, imported)
				case f.test:
				case within && layers[own] >= layer:
					t.Errorf("%s (layer %d) imports %s (layer %d)", f.name, layer, own, layers[own])
				case layer < edge && (imported == "net/http" || strings.HasPrefix(imported, "net/http/")):
					t.Errorf("%s (layer %d) imports %s", f.name, layer, imported)
				}
			}
			if layer < edge && !f.test {
				for _, call := range f.uses("time", clocks) {
					t.Errorf("%s (layer %d) uses time.%s", f.name, layer, call)
				}
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("layer of %s, which does not exist", name)
		}
	}
}

func TestPackageComments(t *testing.T) {
	for name, pkg := range packages(t) {
		if !slices.ContainsFunc(pkg.files, func(f file) bool { return !f.test && f.ast.Doc != nil }) {
			t.Errorf("package %s in module %s has no package comment", name, pkg.module)
		}
	}
}

func TestModules(t *testing.T) {
	for _, dir := range modules(t) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if word == "replace" {
				t.Errorf("%s/go.mod has a replace: users do not get it", dir)
			}
			if word == "require" && dir == "." {
				t.Errorf("go.mod has a require: the core module has no dependencies")
			}
		}
	}
}

type pkg struct {
	module string
	files  []file
}

type file struct {
	name string
	test bool
	ast  *ast.File
}

func (f file) imports() []string {
	var paths []string
	for _, i := range f.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// uses returns which of names the file takes from the package that it imports as path.
func (f file) uses(path string, names []string) []string {
	local := ""
	for _, i := range f.ast.Imports {
		if p, _ := strconv.Unquote(i.Path.Value); p == path {
			local = path
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	var used []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && local != "" && x.Name == local && slices.Contains(names, s.Sel.Name) {
				used = append(used, s.Sel.Name)
			}
		}
		return true
	})
	return used
}

// modules returns the folders that hold a go.mod.
func modules(t *testing.T) []string {
	var dirs []string
	walk(t, func(p string) {
		if path.Base(p) == "go.mod" {
			dirs = append(dirs, path.Dir(p))
		}
	})
	return dirs
}

// packages returns the packages of all modules by their folder.
func packages(t *testing.T) map[string]*pkg {
	nested := modules(t)
	all := map[string]*pkg{}
	walk(t, func(p string) {
		if path.Ext(p) != ".go" {
			return
		}
		dir := path.Dir(p)
		if all[dir] == nil {
			all[dir] = &pkg{module: "."}
			for _, m := range nested {
				if m != "." && (dir == m || strings.HasPrefix(dir, m+"/")) {
					all[dir].module = m
				}
			}
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		all[dir].files = append(all[dir].files, file{p, strings.HasSuffix(p, "_test.go"), parsed})
	})
	return all
}

func walk(t *testing.T, visit func(path string)) {
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			visit(filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
