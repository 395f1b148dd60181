// SPDX-License-Identifier: Apache-2.0

package api

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// target is the platform whose files count.
func target() *build.Context {
	c := build.Default
	c.GOOS, c.GOARCH, c.CgoEnabled = "linux", "amd64", false
	c.BuildTags, c.ToolTags = nil, nil
	return &c
}

// declarations are the exported ones of the package in dir, sorted.
func declarations(dir string) ([]string, error) {
	p, err := target().ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range p.GoFiles {
		// A file set each, so that distances in the source say nothing.
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.FileExports(f)
		for _, d := range f.Decls {
			found, err := split(set, d)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	slices.Sort(all)
	return all, nil
}

// split prints a declaration: each type and variable by itself, constants as a group, since the
// values of those with iota follow from it.
func split(set *token.FileSet, d ast.Decl) ([]string, error) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !exportedReceiver(d) {
			return nil, nil
		}
		d.Body = nil
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return nil, nil
		}
		if d.Tok != token.CONST && len(d.Specs) > 1 {
			return each(set, d)
		}
	}
	s, err := source(set, d)
	return []string{s}, err
}

func each(set *token.FileSet, d *ast.GenDecl) (all []string, err error) {
	for _, spec := range d.Specs {
		s, err := source(set, &ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{spec}})
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// exportedReceiver is false for methods that only an unexported type has.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*"), "[")
	return ast.IsExported(name)
}

// source formats a declaration, without the empty lines that comments have left.
func source(set *token.FileSet, d ast.Decl) (string, error) {
	var b strings.Builder
	if err := printer.Fprint(&b, set, d); err != nil {
		return "", err
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n"), nil
}
