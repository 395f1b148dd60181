// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports parses rather than asks the go command, so that it sees files of every build
// constraint and platform, and works while another package doesn't compile.
func TestImports(t *testing.T) {
	root := moduleRoot(t)
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, path, d.Name())
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		found, err := check(root, path)
		for _, f := range found {
			t.Error(f)
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, files, 10, "the walk has missed the module")
}

func moduleRoot(t *testing.T) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}

// enter skips what the go command skips, and other modules.
func enter(root, path, name string) error {
	if path == root {
		return nil
	}
	if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// check returns one line for each rule that a file breaks.
func check(root, path string) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	pkg := "./" + filepath.ToSlash(filepath.Dir(rel))
	var found []string
	for _, imp := range file.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if r.broken(pkg, name) {
				line := fset.Position(imp.Pos()).Line
				found = append(found, fmt.Sprintf("%s:%d: %s may not import %q: %s", rel, line, pkg, name, r.why))
			}
		}
	}
	if matchAny(cores.in, pkg) {
		ast.Inspect(file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				found = append(found, fmt.Sprintf("%s:%d: %s starts a goroutine: %s", rel, fset.Position(g.Pos()).Line, pkg, cores.why))
			}
			return true
		})
	}
	return found, nil
}

// TestRulesCatch plants one violation of each rule beside imports that must stay legal.
func TestRulesCatch(t *testing.T) {
	own := func(p string) string { return module + "/" + p }
	for _, tc := range []struct {
		pkg, path string
		why       string // the beginning of the reason; empty: the import is legal
	}{
		{"./sdr", own("backend"), ""},
		{"./sdr", own("backend/userroce"), "the SDK runs on any device"},
		{"./sdr/internal/wire", own("verbs"), "the SDK runs on any device"},
		{"./reliability", own("backend/sim"), "the SDK runs on any device"},
		{"./reliability", own("sdr"), ""},
		{"./dpa", own("verbs/internal/uapi"), "the SDK runs on any device"},
		{"./internal/bitmap", own("backend/linkemu"), "the SDK runs on any device"},

		{"./reliability/sr", "time", "a protocol core"},
		{"./reliability/ec/gf", "sync/atomic", "a protocol core"},
		{"./reliability/adaptive", "net/netip", "a protocol core"},
		{"./reliability/scheme", "os", "a protocol core"},
		{"./reliability/none", "time", "a protocol core"},
		{"./sdr/internal/control", "sync", "a protocol core"},
		{"./internal/netsim", "os/exec", "a protocol core"},
		{"./internal/netsim", "golang.org/x/sys/unix", "a protocol core"},
		{"./congestion", "time", "a protocol core"},
		{"./congestion", own("units"), ""},
		{"./congestion", own("internal/netsim"), "a leaf imports"},
		{"./reliability/sr", "sort", ""},
		{"./reliability/sr", own("units"), ""},
		{"./reliability", "time", ""},
		{"./sdr", "time", ""},
		{"./reliability/srx", "time", ""}, // not sr

		{"./fabric", own("internal/netsim"), ""},
		{"./fabric", own("switchfn/trim"), ""},
		{"./fabric", own("transport/rc"), ""},
		{"./fabric", own("fabric/des"), ""},
		{"./fabric", own("sdr"), "the simulator hosts"},
		{"./fabric", own("reliability"), "the simulator hosts"},
		{"./fabric", own("verbs"), "the simulator hosts"},
		{"./fabric", "time", "a protocol core"},
		{"./fabric/topo", "os", "a protocol core"},
		{"./congestion/dcqcn", "sync", "a protocol core"},
		{"./transport/rc", "time", "a protocol core"},
		{"./switchfn", "net/netip", "a protocol core"},
		{"./fabric/des", own("internal/netsim"), "a leaf imports"},
		{"./fabric/topo", own("fabric/des"), "a leaf imports"},
		{"./fabric/workload", own("fabric/topo"), "a leaf imports"},
		{"./congestion", own("fabric/des"), "a leaf imports"},
		{"./congestion/dcqcn", own("congestion"), ""},
		{"./transport/rc", own("congestion"), ""},
		{"./transport/rc", own("fabric/des"), "what runs in the simulator"},
		{"./transport/rc", own("switchfn"), "a transport is the core"},
		{"./switchfn/trim", own("transport"), "a switch function decides"},
		{"./reliability", own("congestion"), ""},
		{"./reliability/strack", own("transport/strack"), ""},
		{"./reliability", own("transport/rc"), "of the transports"},
		{"./reliability", own("fabric"), "what runs in the simulator"},
		{"./internal/netsim", own("fabric/des"), ""},
		{"./backend/fabricdev", own("fabric"), ""},

		{"./examples/filecopy", own("backend/userroce"), ""},
		{"./examples/filecopy", own("internal/bitmap"), "an example links"},
		{"./examples/filecopy", own("sdr/internal/wire"), "an example links"},
		{"./examples/filecopy", own("sdr/internal"), "an example links"},
		{"./examples/filecopy", own("cmd/internal/devices"), "an example links"},

		{"./units", "strings", ""},
		{"./units", own("backend"), "a leaf imports"},
		{"./backend", own("units"), ""},
		{"./backend", own("roce"), "a leaf imports"},
		{"./backend", own("internal/netsim"), "a leaf imports"},
		{"./roce", own("backend"), "a leaf imports"},
		{"./oob", own("sdr"), "a leaf imports"},
		{"./internal/bitmap", own("dpa"), "a leaf imports"},
		{"./verbs", own("verbs/internal/uapi"), ""},
		{"./verbs", own("backend"), "verbs is of use"},
		{"./backend/userroce", own("roce"), ""},
		{"./backend/uc", own("verbs"), ""},
		{"./backend/sim", own("internal/netsim"), ""},
		{"./backend/sim", own("sdr"), "a backend is below"},
		{"./backend/userroce", own("dpa"), "a backend is below"},
		{"./dpa", own("internal/bitmap"), ""},
		{"./dpa", own("sdr"), "imports point one way"},
		{"./sdr", own("reliability/scheme"), "imports point one way"},
		{"./sdr", own("dpa"), ""},
		{"./sdr", own("dpa/device"), "who loads an engine"},
		{"./dpa", "github.com/ebitengine/purego", "who loads an engine"},
		{"./dpa/device/internal/flexio", "github.com/ebitengine/purego", ""},
		{"./dpa/device/internal/flexio", "unsafe", ""},
		{"./dpa/device", "unsafe", "unsafe stays"},
		{"./dpa/device", own("verbs"), "the SDK runs on any device"},
		{"./dpa/device", own("dpa"), ""},

		{"./reliability", own("cmd/internal/devices"), "programs and tests are at the top"},
		{"./cmd/sdr-perf", own("cmd/internal/devices"), ""},
		{"./backend/backendtest", own("sdr"), "a backend is below"},
		{"./sdr/sdrtest", own("backend/backendtest"), ""},
		{"./sdr/sdrtest", own("backend/userroce"), "the SDK runs on any device"},

		{"./backend/backendtest", own("test/vm"), "programs and tests are at the top"},

		{"./verbs/internal/uapi", "unsafe", ""},
		{"./backend/userroce", "unsafe", ""},
		{"./sdr", "unsafe", "unsafe stays"},
		{"./test/fakeverbs/internal/usernotif", "unsafe", ""},
		{"./test/fakeverbs", "unsafe", "unsafe stays"},
		{"./test/fakeverbs", own("verbs"), "the fake device"},
		{"./test/fakeverbs", own("roce"), ""},
		{"./verbs/internal/uapi", "C", "go-sdr is pure Go"},
	} {
		var got []string
		for _, r := range rules {
			if r.broken(tc.pkg, tc.path) {
				got = append(got, r.why)
			}
		}
		if tc.why == "" {
			require.Empty(t, got, "%s imports %s", tc.pkg, tc.path)
			continue
		}
		require.NotEmpty(t, got, "%s imports %s", tc.pkg, tc.path)
		require.Contains(t, strings.Join(got, "\n"), tc.why, "%s imports %s", tc.pkg, tc.path)
	}
}

// plant checks a file of a package.
func plant(t *testing.T, folder, name, src string) []string {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(src), 0o644))
	found, err := check(root, path)
	require.NoError(t, err)
	return found
}

// TestCheckReportsFileAndRule runs the parser on planted files.
func TestCheckReportsFileAndRule(t *testing.T) {
	found := plant(t, "reliability/sr", "clock.go", "//go:build windows\n\npackage sr\n\nimport (\n\t\"fmt\"\n\tclock \"time\"\n)\n")
	require.Len(t, found, 1)
	require.Contains(t, found[0], `reliability/sr/clock.go:7: ./reliability/sr may not import "time": a protocol core`)

	const starts = "package p\n\nfunc f() {\n\tif true {\n\t\tgo f()\n\t}\n}\n"
	found = plant(t, "transport/rc", "start.go", starts)
	require.Len(t, found, 1)
	require.Contains(t, found[0], "transport/rc/start.go:5: ./transport/rc starts a goroutine: a protocol core")
	require.Empty(t, plant(t, "reliability", "start.go", starts), "a driver may")
}
