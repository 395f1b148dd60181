// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeModule writes a module with the files given and returns its folder.
func writeModule(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	files["go.mod"] = "module github.com/sdr-rdma/go-sdr\n\ngo 1.26.0\n"
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

// runIn runs one function of the runner in a module of its own.
func runIn(t *testing.T, root string, f func(*stepContext) error) (result, string) {
	var out bytes.Buffer
	s := newSession(root, options{}, &out)
	s.tmp = t.TempDir()
	r := s.runStep(context.Background(), step{name: "test", budget: 4 * time.Minute, run: f})
	return r, out.String()
}

// The real go command on tests that pass, fail, skip, panic and don't compile. Each package that is linked costs a second, so
// there are as few as possible.
func TestGoTest(t *testing.T) {
	if !apart(t) {
		return
	}
	test := func(bodies ...string) string {
		text := "package p\n\nimport \"testing\"\n"
		for i, body := range bodies {
			text += fmt.Sprintf("\nfunc Test%d(t *testing.T) {\n%s\n}\n", i, body)
		}
		return text
	}
	root := writeModule(t, map[string]string{
		"mixed/p_test.go": test(`t.Run("sub", func(t *testing.T) {})`, `t.Log("the log"); t.Fatal("the reason")`, `t.Skip("needs hardware")`,
			`panic("at the disco")`),
		"broken/p_test.go": test(`undefined()`),
		"none/p.go":        "package p\n",
		"one/p_test.go":    test(``),
	})
	r, out := runIn(t, root, func(c *stepContext) error { return c.compile(nil, "./...") })
	require.True(t, r.ok(), "what doesn't compile is for the tests to tell: %s", out)
	goTest := func(pkg string) (result, string) {
		return runIn(t, root, func(c *stepContext) error { return c.goTest(nil, "./"+pkg) })
	}
	r, out = goTest("...")
	require.Equal(t, []int{3, 3, 1}, []int{r.passed, r.failed, len(r.skips)}, out)
	require.False(t, r.ok())
	for _, want := range []string{
		"FAIL mixed Test1", "the reason", "the log", "FAIL mixed Test3", "at the disco", "FAIL broken", "undefined: undefined",
	} {
		require.Contains(t, out, want)
	}
	require.Equal(t, "mixed", r.skips[0].pkg)
	require.Contains(t, r.skips[0].reason, "needs hardware")

	for _, args := range [][]string{{"./none"}, {"-run=TestGone", "./one"}} {
		r, out = runIn(t, root, func(c *stepContext) error { return c.goTest(nil, args...) })
		require.False(t, r.ok(), out)
		require.Contains(t, out, "ran no test")
	}

	r, out = goTest("nowhere")
	require.False(t, r.ok(), out)
}

// What a test binary prints in the VM comes as text, through test2json.
func TestReadTextOutput(t *testing.T) {
	if !apart(t) {
		return
	}
	for _, tc := range []struct {
		script         string
		passed, failed int
		skips          int
		ok             bool
	}{
		{`echo "=== RUN   TestA"; echo "--- PASS: TestA (0.1s)"
		  echo "=== RUN   TestB"; echo "    b_test.go:1: no NIC"; echo "--- SKIP: TestB (0.1s)"; echo PASS`, 1, 0, 1, true},
		{`echo "=== RUN   TestA"; echo "--- FAIL: TestA (0.1s)"; echo FAIL; exit 1`, 0, 1, 0, false},
		{`echo "=== RUN   TestA"; echo "kernel panic"; exit 1`, 0, 1, 0, false},
		{`echo nothing at all`, 0, 0, 0, false},
	} {
		r, out := runIn(t, t.TempDir(), func(c *stepContext) error { return c.textTests("test/vm", "sh", "-c", tc.script) })
		require.Equal(t, []int{tc.passed, tc.failed, tc.skips}, []int{r.passed, r.failed, len(r.skips)}, out)
		require.Equal(t, tc.ok, r.ok(), out)
	}
}

// TestFuzzStep: one target that finds nothing, one that does, and a package that doesn't compile.
func TestFuzzStep(t *testing.T) {
	if !apart(t) {
		return
	}
	fuzzer := func(name, body string) string {
		return "\nfunc Fuzz" + name + "(f *testing.F) {\n\tf.Add(uint8(0))\n\tf.Fuzz(func(t *testing.T, n uint8) { " + body + " })\n}\n"
	}
	const header = "package p\n\nimport \"testing\"\n"
	root := writeModule(t, map[string]string{
		"p/p_test.go": header + fuzzer("Nothing", "") + fuzzer("Zero", `if n == 0 { t.Fatal("found it") }`),
		"q/q_test.go": header + fuzzer("Broken", "undefined()"),
	})
	defer func(d time.Duration) { minFuzzTime = d }(minFuzzTime)
	minFuzzTime = 200 * time.Millisecond
	var r result
	var out string
	for ; minFuzzTime < time.Minute; minFuzzTime *= 4 { // on a busy machine the fuzzer may not come to try anything
		r, out = runIn(t, root, func(c *stepContext) error {
			if err := compileFuzzTargets(c); err != nil {
				return err
			}
			var cancel context.CancelFunc
			c.ctx, cancel = context.WithTimeout(c.ctx, fuzzReserve+fuzzOverhead+minFuzzTime)
			defer cancel()
			return fuzz(c)
		})
		if !strings.Contains(out, "tried nothing") {
			break
		}
	}
	require.Equal(t, [2]int{1, 2}, [2]int{r.passed, r.failed}, out)
	for _, want := range []string{"ok   p FuzzNothing", "inputs", "FAIL p FuzzZero", "found it", "FAIL q", "undefined: undefined"} {
		require.Contains(t, out, want)
	}
}

// TestRaced: packages with code that can run concurrently, or that uses unsafe pointers, are run under the race
// detector, and so are those that depend on them.
func TestRaced(t *testing.T) {
	if !apart(t) {
		return
	}
	test := func(header, body string) string {
		return "package p\n\nimport \"testing\"\n" + header + "\nfunc TestIt(t *testing.T) {\n" + body + "\n}\n"
	}
	const module = "github.com/sdr-rdma/go-sdr/"
	root := writeModule(t, map[string]string{
		"alone/p.go":             "package p\n",
		"alone/p_test.go":        test("", ""),
		"starts/p.go":            "package p\n\nfunc F() { go F() }\n",
		"starts/p_test.go":       test("", ""),
		"depends/p_test.go":      test("import _ \""+module+"starts\"\n", ""),
		"external/p.go":          "package p\n",
		"external/p_test.go":     strings.Replace(test("", "go func() {}()"), "package p", "package p_test", 1),
		"method/p_test.go":       test("import \"sync\"\n", "new(sync.WaitGroup).Go(func() {})"),
		"parallel/p_test.go":     test("", "t.Parallel()"),
		"process/p_test.go":      test("import _ \"os/exec\"\n", ""),
		"pointers/p_test.go":     test("import _ \"unsafe\"\n", ""),
		"notrace/p_test.go":      test("", ""),
		"notrace/norace_test.go": "//go:build !race\n\npackage p\n\nimport _ \"unsafe\"\n",
	})
	runIn(t, root, func(c *stepContext) error {
		raced, left, err := c.findRaced("./...")
		require.NoError(t, err)
		require.ElementsMatch(t, []string{module + "alone", module + "notrace"}, left)
		var want []string
		for _, name := range []string{"starts", "depends", "external", "method", "parallel", "process", "pointers"} {
			want = append(want, module+name)
		}
		require.ElementsMatch(t, want, raced)
		return nil
	})
}

func TestSlowTestsAreNamed(t *testing.T) {
	if !apart(t) {
		return
	}
	const script = `echo '{"Action":"run","Package":"p","Test":"TestQuick"}'
		echo '{"Action":"pass","Package":"p","Test":"TestQuick"}'
		echo '{"Action":"run","Package":"p","Test":"TestSlow"}'
		sleep 60`
	status, out := runFake(t, context.Background(), options{}, step{name: "unit", budget: 300 * time.Millisecond,
		run: func(c *stepContext) error { return c.readTests(nil, "sh", "-c", script) }})
	require.Equal(t, statusFailed, status)
	require.Regexp(t, "was still running after [01]s: p TestSlow", out)
	require.NotContains(t, out, "p TestQuick")
	require.Equal(t, "1 passed, 1 failed", lastLine(out))
}

func TestFuzzTimeDividesTheBudget(t *testing.T) {
	require.Equal(t, 9700*time.Millisecond, fuzzTime(3*time.Minute, 18))
	require.Equal(t, minFuzzTime, fuzzTime(time.Second, 18))
	left := 3 * time.Minute
	for targets := 23; targets > 0; targets-- {
		left -= fuzzTime(left, targets) + fuzzOverhead
	}
	require.GreaterOrEqual(t, left, time.Duration(0))
	require.Less(t, left, 5*time.Second)
}

func TestReadLint(t *testing.T) {
	problems, warnings, err := readLint([]byte(`{"Issues":[
		{"FromLinter":"funlen","Text":"too long","Severity":"warning","Pos":{"Filename":"a.go","Line":3,"Column":1}},
		{"FromLinter":"errcheck","Text":"not checked","Severity":"error","Pos":{"Filename":"b.go","Line":7,"Column":2}},
		{"FromLinter":"typecheck","Text":"undefined: x","Severity":"","Pos":{"Filename":"c.go","Line":1}}]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"b.go:7:2: not checked (errcheck)", "c.go:1:0: undefined: x (typecheck)"}, problems)
	require.Equal(t, []string{"a.go:3:1: too long (funlen)"}, warnings)
	_, _, err = readLint([]byte("panic"))
	require.Error(t, err)
}

// TestFailedLinterIsNoAdvice: a linter that fails has not read everything, whatever advice it gives about what it has read.
func TestFailedLinterIsNoAdvice(t *testing.T) {
	if !apart(t) {
		return
	}
	const linter = `package main

import (
	"os"
	"strconv"
	"strings"
)

func main() {
	for _, a := range os.Args {
		if file, ok := strings.CutPrefix(a, "--output.json.path="); ok {
			os.WriteFile(file, []byte("{\"Issues\":[{\"Text\":\"too long\",\"Severity\":\"warning\"}]}"), 0o600)
		}
	}
	println("typechecking error")
	status, _ := strconv.Atoi(os.Getenv("FAKE_STATUS"))
	os.Exit(status)
}
`
	root := writeModule(t, map[string]string{
		"golangci-lint/main.go": linter,
		"tools/go.mod":          "module github.com/sdr-rdma/go-sdr\n\ngo 1.26.0\n\ntool github.com/sdr-rdma/go-sdr/golangci-lint\n",
	})
	r, out := runIn(t, root, (*stepContext).golangci)
	require.True(t, r.ok(), out)
	require.Contains(t, out, "1 warnings")
	t.Setenv("FAKE_STATUS", "7")
	r, out = runIn(t, root, (*stepContext).golangci)
	require.False(t, r.ok(), out)
	require.Contains(t, out, "typechecking error")
}

// TestTidy: a requirement that nothing needs is found, in each module.
func TestTidy(t *testing.T) {
	if !apart(t) {
		return
	}
	const tools = "module tools\n\ngo 1.26.0\n"
	root := writeModule(t, map[string]string{"p.go": "package p\n", "tools/go.mod": tools, "x/go.mod": "module example.com/x\n"})
	r, out := runIn(t, root, (*stepContext).tidy)
	require.True(t, r.ok(), out)
	require.NoError(t, os.WriteFile(filepath.Join(root, "tools/go.mod"),
		[]byte(tools+"\nrequire example.com/x v0.0.0\n\nreplace example.com/x => ../x\n"), 0o600))
	r, out = runIn(t, root, (*stepContext).tidy)
	require.False(t, r.ok(), out)
	require.Contains(t, out, "-require example.com/x")
}

func TestNewestRelease(t *testing.T) {
	versions := strings.Fields(`golang.org/toolchain v0.0.1-go1.9rc2.linux-amd64 v0.0.1-go1.26.10.linux-amd64
		v0.0.1-go1.26.9.linux-amd64 v0.0.1-go1.27rc1.linux-amd64 v0.0.1-go1.28.0.linux-arm64 v0.0.1-go1.21.0.linux-amd64`)
	require.Equal(t, "go1.26.10", newestRelease(versions, "linux-amd64"))
	require.Equal(t, "go1.28.0", newestRelease(versions, "linux-arm64"))
	require.Empty(t, newestRelease(versions, "plan9-386"))
}

func TestMissing(t *testing.T) {
	what, packages := missing([]need{
		{program: "sh", packages: []string{"dash"}},
		{program: "no-such-program-here", packages: []string{"b", "a"}},
		{file: "/no/such/file", packages: []string{"a"}},
	})
	require.Equal(t, []string{"no-such-program-here", "/no/such/file"}, what)
	require.Equal(t, []string{"a", "b"}, packages)
}

func TestSkipReason(t *testing.T) {
	require.Equal(t, "x_test.go:3: why", skipReason("=== RUN   TestX\n    x_test.go:3: why\n--- SKIP: TestX (0.00s)\n"))
	require.Equal(t, "no reason given", skipReason("=== RUN   TestX\n--- SKIP: TestX (0.00s)\n"))
}
