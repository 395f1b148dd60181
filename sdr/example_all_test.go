// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryTypeHasAnExample: each exported type has an example, which runs as a test, or is named in the
// code of one.
func TestEveryTypeHasAnExample(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	used, types := map[string]bool{}, []string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		switch {
		case strings.HasPrefix(name, "example_"):
			ast.Inspect(f, func(n ast.Node) bool {
				if d, ok := n.(*ast.FuncDecl); ok {
					used[strings.TrimPrefix(d.Name.Name, "Example")] = true
				}
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "sdr" {
						used[s.Sel.Name] = true
					}
				}
				return true
			})
		case !strings.HasSuffix(name, "_test.go"):
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, s := range g.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() {
						types = append(types, ts.Name.Name)
					}
				}
			}
		}
	}
	require.Greater(t, len(types), 20)
	for _, name := range types {
		require.True(t, used[name], "no example shows %s", name)
	}
}
