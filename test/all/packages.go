// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// A goPackage is what "go list -json" says of a package (go help list).
type goPackage struct {
	ImportPath, Dir, ForTest           string
	Standard                           bool
	GoFiles, TestGoFiles, XTestGoFiles []string
	Deps                               []string
}

// list runs go list.
func (c *stepContext) list(env []string, args ...string) (all []goPackage, err error) {
	const fields = "-json=ImportPath,Dir,ForTest,Standard,GoFiles,TestGoFiles,XTestGoFiles,Deps"
	out, err := c.output(env, append([]string{"go", "list", fields}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, out)
	}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

// parse reads files of a package.
func (p *goPackage) parse(files []string, see func(*ast.File)) error {
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		see(f)
	}
	return nil
}

// The race detector can find something in a test program only if more than one goroutine runs code of ours in
// it, and what else a build for it checks are conversions of unsafe.Pointer. These show the one and the other,
// beside go statements: imports, and names of functions that call what they are given on another goroutine.
var (
	watchedImports = []string{"net/http", "os/exec", "unsafe"}
	watchedNames   = []string{"AfterFunc", "Eventually", "EventuallyWithT", "Go", "Parallel", "RunParallel"}
)

// harmless are packages of others that look otherwise: testify's own goroutines are those of Eventually, and of Never, a
// name that means other things here; x/sys/cpu reads a pointer of the system once, before anything of ours runs.
var harmless = []string{"github.com/stretchr/testify/", "golang.org/x/sys/cpu"}

// findRaced lists the packages whose test programs the race detector can find something in, and the others: those
// that consist, the standard library aside, of packages that show no sign of it, tests and all.
func (c *stepContext) findRaced(patterns ...string) (raced, left []string, err error) {
	packages, err := c.list([]string{"CGO_ENABLED=1"}, append([]string{"-race", "-test", "-deps"}, patterns...)...)
	if err != nil {
		return nil, nil, err
	}
	watched := map[string]bool{}
	for _, p := range packages {
		isHarmless := func(prefix string) bool { return strings.HasPrefix(p.ImportPath, prefix) }
		if p.Standard || isProgram(p) || slices.ContainsFunc(harmless, isHarmless) {
			continue
		}
		err := p.parse(p.GoFiles, func(f *ast.File) { watched[p.ImportPath] = watched[p.ImportPath] || isWatched(f) })
		if err != nil {
			return nil, nil, err
		}
	}
	for _, p := range packages {
		if !isProgram(p) {
			continue
		}
		path := strings.TrimSuffix(p.ImportPath, ".test")
		if slices.ContainsFunc(p.Deps, func(d string) bool { return watched[d] }) {
			raced = append(raced, path)
		} else {
			left = append(left, path)
		}
	}
	return raced, left, nil
}

// isProgram says whether p is a test program, of which the go command writes the source.
func isProgram(p goPackage) bool { return strings.HasSuffix(p.ImportPath, ".test") }

func isWatched(f *ast.File) (found bool) {
	for _, i := range f.Imports {
		found = found || slices.Contains(watchedImports, strings.Trim(i.Path.Value, `"`))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			never := n.Sel.Name == "Never" && x != nil && (x.Name == "require" || x.Name == "assert")
			found = found || never || slices.Contains(watchedNames, n.Sel.Name)
		}
		return !found
	})
	return found
}

// compileRaced finds the packages in which the race detector can find something, and compiles them.
func compileRaced(c *stepContext) error {
	raced, left, err := c.findRaced("./...")
	if err != nil {
		return err
	}
	for i, path := range left {
		left[i] = folder(path)
	}
	c.printf("%s: %d packages; left to step unit, because nothing runs side by side in their tests: %s",
		c.name, len(raced), strings.Join(left, ", "))
	c.raced = raced
	return c.compile([]string{"CGO_ENABLED=1"}, append([]string{"-race"}, raced...)...)
}
