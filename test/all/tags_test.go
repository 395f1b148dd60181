// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"go/build/constraint"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// known are build tags that the go command sets itself, or that need what step lint hasn't got.
var known = []string{"linux", "race", "lockcount", "386", "amd64", "arm", "arm64", "loong64", "mips", "mips64le", "mipsle", "ppc64le", "riscv64", "wasm"}

// TestEveryTagIsVetted: no file is left out of step lint because of its build tags.
func TestEveryTagIsVetted(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	want := strings.Split(testTags, ",")
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		tags, err := tagsOf(path)
		found = append(found, tags...)
		return err
	}))
	slices.Sort(found)
	require.ElementsMatch(t, want, slices.Compact(found))
	config, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	require.NoError(t, err)
	require.Contains(t, string(config), "  build-tags: ["+strings.Join(want, ", ")+"]")
}

// tagsOf returns the tags of a file's constraint that aren't known.
func tagsOf(path string) (tags []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan() && !strings.HasPrefix(s.Text(), "package "); {
		if !constraint.IsGoBuild(s.Text()) {
			continue
		}
		expr, err := constraint.Parse(s.Text())
		if err != nil {
			return nil, err
		}
		// Eval asks for a tag only where the rest hasn't decided.
		var collect func(constraint.Expr)
		collect = func(e constraint.Expr) {
			switch e := e.(type) {
			case *constraint.AndExpr:
				collect(e.X)
				collect(e.Y)
			case *constraint.OrExpr:
				collect(e.X)
				collect(e.Y)
			case *constraint.NotExpr:
				collect(e.X)
			case *constraint.TagExpr:
				if !slices.Contains(known, e.Tag) {
					tags = append(tags, e.Tag)
				}
			}
		}
		collect(expr)
	}
	return tags, nil
}

// TestChosenTestsExist: a test that step arm64 names isn't gone.
func TestChosenTestsExist(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	var tests strings.Builder
	for _, place := range placesOnARM64 {
		files, err := filepath.Glob(filepath.Join(root, place, "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			tests.Write(text)
		}
	}
	for name := range strings.SplitSeq(onARM64, "|") {
		require.True(t, strings.Contains(tests.String(), "\nfunc "+name+"("), name)
	}
}
