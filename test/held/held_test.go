// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine reads source: the race detector has nothing to find.

package held

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A listed is a package as the go command knows it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
	Module                  *struct{ Main bool }
}

// list asks the go command for packages and all that they import, compiled.
func list(t *testing.T, patterns ...string) map[string]*listed {
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard,Module"}, patterns...)...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	all := map[string]*listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[p.ImportPath] = &p
	}
}

// typed checks the types of files, whose imports are in all.
func typed(t *testing.T, fset *token.FileSet, path string, files []*ast.File, all map[string]*listed) *checker {
	imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(all[path].Export) })
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}}
	pkg, err := (&types.Config{Importer: imp}).Check(path, fset, files, info)
	require.NoError(t, err)
	c := &checker{fset: fset, info: info, pkg: pkg}
	c.check(files)
	return c
}

func TestMutexesAreHeld(t *testing.T) {
	all := list(t, "./...")
	said := 0
	for path, p := range all {
		if p.Standard || p.Module == nil || !p.Module.Main {
			continue
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
		c := typed(t, fset, path, files, all)
		said += c.said
		for _, f := range c.found {
			t.Error(f)
		}
	}
	require.Greater(t, said, 40, "the comments have another form now")
}

// TestFindsWhatIsWrong: each call of f that is marked "bad" is found, and no other.
func TestFindsWhatIsWrong(t *testing.T) {
	const source = `package x
import "sync"
type A struct { mu sync.Mutex; n int
// +checklocks:mu
g1 int
g2 int // +checklocks:mu
}
type B struct { a *A }
// f needs it; mu is held.
func (a *A) f() bool { return a.g() }
// g too; a.mu is held.
func (a *A) g() bool { return true }
// h needs another's: A.mu is held.
func (b *B) h() { b.a.f() }
// P runs with it: A.mu is held.
type P struct{ a *A }
func (p P) run() { p.a.f() }
func plain(a *A) { a.f() /*bad*/ }
func locked(a *A) { a.mu.Lock(); defer a.mu.Unlock(); a.f() }
func after(a *A) { a.mu.Lock(); a.f(); a.mu.Unlock(); a.f() /*bad*/ }
func early(a *A) { a.mu.Lock(); if a.n > 0 { a.mu.Unlock(); return }; a.f(); a.mu.Unlock() }
func maybe(a *A) { if a.n > 0 { a.mu.Lock() }; a.f() /*bad*/ }
func given(a *A) { a.mu.Lock(); if a.n > 0 { a.mu.Unlock() }; a.f() /*bad*/ }
func try(a *A) { if !a.mu.TryLock() { return }; a.f() }
func tried(a *A) { if a.mu.TryLock() { a.f(); a.mu.Unlock() }; a.f() /*bad*/ }
func there(b *B) { if b.a != nil { b.a.mu.Lock(); defer b.a.mu.Unlock() }; b.a.f() }
func other(b *B) { b.h() /*bad*/ }
func literal(a *A) { a.mu.Lock(); func() { a.f() }(); go func() { a.f() /*bad*/ }(); a.mu.Unlock() }
// lock takes mu.
func (a *A) lock() { a.mu.Lock() }
func wrapper(a *A) { a.lock(); defer a.mu.Unlock(); a.f() }
func twice(a *A) { a.lock(); a.mu.Lock() /*bad*/; a.lock() /*bad*/ }
func later(a *A) func() { a.lock(); defer a.mu.Unlock(); return func() { a.mu.Lock(); a.f(); a.mu.Unlock(); a.f() /*bad*/ } }
func field(a *A) { a.g1 = 1 /*bad*/; a.mu.Lock(); a.g2++; a.mu.Unlock(); if a.g2 > 0 /*bad*/ { return } }
func fresh() *A { a := &A{}; a.g1 = 1; return a }
func loop(a *A) { for a.mu.Lock(); a.f(); { a.n++ }; a.f() }
func choose(a *A) { switch a.mu.Lock(); a.n { case 1: a.mu.Unlock(); case 2: return }; a.f() /*bad*/ }
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", source, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	c := typed(t, fset, "x", []*ast.File{f}, list(t, "sync"))
	var want []string
	for i, line := range strings.Split(source, "\n") {
		for range strings.Count(line, "/*bad*/") {
			want = append(want, position(i+1))
		}
	}
	var got []string
	for _, s := range c.found {
		got = append(got, position(line(s)))
	}
	require.Equal(t, want, got, strings.Join(c.found, "\n"))
}

func position(line int) string { return "line " + strconv.Itoa(line) }

func line(found string) int {
	n, _ := strconv.Atoi(strings.Split(found, ":")[1])
	return n
}
