// SPDX-License-Identifier: Apache-2.0

package api

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "accept the API as it is now")

const (
	root    = "../.."
	command = "go test ./test/api -update"
)

// private are the folders whose packages are no API.
var private = []string{"cmd", "examples", "test", "tools", "internal", "testdata"}

// withoutAPI are packages that export nothing: dpa/device is C and its tests.
var withoutAPI = []string{"dpa/device"}

// TestAPI compares what is exported with testdata.
func TestAPI(t *testing.T) {
	found := packages(t)
	require.Subset(t, found, []string{"sdr", "dpa", "reliability", "backend", "verbs"}, "the walk has missed packages")
	for _, p := range found {
		t.Run(p, func(t *testing.T) {
			now, err := declarations(filepath.Join(root, p))
			require.NoError(t, err)
			if slices.Contains(withoutAPI, p) {
				require.Empty(t, now, "it exports something now, and is no exception any more")
				return
			}
			require.NotEmpty(t, now)
			if *update {
				require.NoError(t, os.WriteFile(snapshot(p), format(p, now), 0o644))
				return
			}
			b, err := os.ReadFile(snapshot(p))
			require.NoError(t, err, "a new package? Accept its API with: "+command)
			if diff := compare(parse(b), now); diff != "" {
				t.Errorf("the API of %s has changed:\n\n%s\nIf that is meant, accept it with: %s", p, diff, command)
			}
		})
	}
	checkStale(t, found)
}

// checkStale finds snapshots of packages that are gone.
func checkStale(t *testing.T, found []string) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, f := range files {
		if slices.ContainsFunc(found, func(p string) bool { return snapshot(p) == f }) {
			continue
		}
		if *update {
			require.NoError(t, os.Remove(f))
			continue
		}
		t.Errorf("%s: the package is gone. If that is meant, accept it with: %s", f, command)
	}
}

// packages are the importable packages of the module.
func packages(t *testing.T) (all []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if path != root && (slices.Contains(private, d.Name()) || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if p, err := target().ImportDir(path, 0); err == nil && p.Name != "main" && len(p.GoFiles) > 0 {
			rel, err := filepath.Rel(root, path)
			all = append(all, rel)
			return err
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

func snapshot(pkg string) string {
	return filepath.Join("testdata", strings.ReplaceAll(pkg, "/", "-")+".txt")
}

// A snapshot has a heading and the declarations, empty lines between.
func format(pkg string, decls []string) []byte {
	return []byte("package " + pkg + "\n\n" + strings.Join(decls, "\n\n") + "\n")
}

func parse(b []byte) []string {
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n\n")[1:]
}

// compare shows what was removed and what was added, changed declarations as both.
func compare(before, now []string) string {
	var b strings.Builder
	show := func(sign string, of, missingIn []string) {
		for _, d := range of {
			if !slices.Contains(missingIn, d) {
				b.WriteString(sign + strings.ReplaceAll(d, "\n", "\n"+sign) + "\n")
			}
		}
	}
	show("- ", before, now)
	show("+ ", now, before)
	return b.String()
}

// TestCompare: the comparison sees additions, removals and changes.
func TestCompare(t *testing.T) {
	before := parse(format("p", []string{"func A()", "type B struct {\n\tC int\n}"}))
	require.Empty(t, compare(before, before))
	require.Equal(t, "- func A()\n", compare(before, before[1:]))
	require.Equal(t, "+ func A()\n", compare(before[1:], before))
	require.Equal(t, "- type B struct {\n- \tC int\n- }\n+ type B struct {\n+ \tC string\n+ }\n",
		compare(before, []string{before[0], "type B struct {\n\tC string\n}"}))
}
