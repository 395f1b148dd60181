// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// goTest runs go test with the arguments given, after those that it needs itself. It vets nothing: steps
// lint and build do.
func (c *stepContext) goTest(env []string, args ...string) error {
	argv := []string{"go", "test", "-json", "-count=1", "-vet=off"}
	if deadline, ok := c.ctx.Deadline(); ok {
		// A package that hangs prints its goroutines before the budget ends everything.
		argv = append(argv, fmt.Sprintf("-timeout=%.0fs", max(time.Until(deadline)-5*time.Second, time.Second).Seconds()))
	}
	return c.readTests(env, append(argv, args...)...)
}

// compile fills the build cache with packages and their tests, for preparations: on a busy machine that takes minutes. What doesn't compile
// is for who tests to tell, so that it doesn't hide what other packages' tests find.
func (c *stepContext) compile(env []string, args ...string) error {
	return c.check(env, append([]string{"go", "list", "-e", "-export", "-deps", "-test"}, args...)...)
}

// readTests runs a command that prints what go test -json prints.
func (c *stepContext) readTests(env []string, argv ...string) error {
	r := &testReader{c: c, output: map[testID]*bytes.Buffer{}, running: map[testID]time.Time{}}
	var stderr bytes.Buffer
	err := c.exec(env, &lineWriter{emit: r.line}, &stderr, argv...)
	c.dump(stderr.String())
	if c.ctx.Err() != nil {
		r.printRunning()
	}
	if err == nil && r.tests == 0 { // -run names what is gone
		return fmt.Errorf("%s ran no test", strings.Join(argv, " "))
	}
	if err != nil && c.result.failed > 0 {
		return nil // the failed tests say it better than "exit status 1"
	}
	return err
}

// textTests runs a command that prints what test binaries print with -test.v, as tests of pkg.
func (c *stepContext) textTests(pkg string, argv ...string) error {
	return c.readTests(nil, append([]string{"go", "tool", "test2json", "-p", module + "/" + pkg}, argv...)...)
}

// A testEvent is a line of "go test -json" (go doc test2json, and go help buildjson).
type testEvent struct {
	Action      string
	Package     string
	ImportPath  string // of build-output and build-fail
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

type testID struct{ pkg, test string }

// A testReader counts and prints the tests of one run of go test.
type testReader struct {
	c        *stepContext
	output   map[testID]*bytes.Buffer // until the test has ended
	running  map[testID]time.Time     // when it started
	tests    int                      // that have ended
	failures map[string]int           // failed tests by package
}

func (r *testReader) line(line string) {
	var e testEvent
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		r.c.dump(line) // what go prints outside the protocol is meant for a person
		return
	}
	if e.Action == "build-output" {
		r.keep(testID{pkg: e.ImportPath}, e.Output)
		return
	}
	id := testID{e.Package, e.Test}
	switch {
	case e.Action == "output":
		r.keep(id, e.Output)
	case e.Test != "":
		r.test(id, e)
	default:
		r.pkg(id, e)
	}
}

func (r *testReader) keep(id testID, text string) {
	b := r.output[id]
	if b == nil {
		b = new(bytes.Buffer)
		r.output[id] = b
	}
	b.WriteString(text)
}

func (r *testReader) take(id testID) string {
	b := r.output[id]
	if b == nil {
		return ""
	}
	delete(r.output, id)
	return b.String()
}

func (r *testReader) test(id testID, e testEvent) {
	switch e.Action {
	case "run":
		r.running[id] = time.Now()
	case "pass", "fail", "skip":
		delete(r.running, id)
		r.tests++
	}
	switch e.Action {
	case "pass":
		r.c.result.passed++
		r.take(id)
		if r.c.options.verbose {
			r.c.printf("%s: pass %s %s (%.2fs)", r.c.name, folder(id.pkg), id.test, e.Elapsed)
		}
	case "fail":
		if r.failures == nil {
			r.failures = map[string]int{}
		}
		r.failures[id.pkg]++
		r.c.fail(fmt.Sprintf("%s %s (%.2fs)", folder(id.pkg), id.test, e.Elapsed), r.take(id))
	case "skip":
		r.c.result.skips = append(r.c.result.skips, skip{folder(id.pkg), id.test, skipReason(r.take(id))})
	}
}

func (r *testReader) pkg(id testID, e testEvent) {
	switch e.Action {
	case "pass":
		r.c.printf("%s: ok   %s (%.1fs)", r.c.name, folder(id.pkg), e.Elapsed)
	case "fail":
		r.c.printf("%s: FAIL %s (%.1fs)", r.c.name, folder(id.pkg), e.Elapsed)
		r.c.dump(r.take(testID{pkg: e.FailedBuild}))
		if r.failures[id.pkg] == 0 { // it didn't build, or ended outside a test: a panic, os.Exit, the time limit
			r.c.fail(folder(id.pkg)+", outside of a test", r.takeUnfinished(id.pkg)+r.take(id))
		}
	}
}

// takeUnfinished is the output of tests that were running when their package ended.
func (r *testReader) takeUnfinished(pkg string) string {
	var b strings.Builder
	for id := range r.output {
		if id.pkg == pkg && id.test != "" {
			b.WriteString(r.take(id))
		}
	}
	return b.String()
}

// printRunning names the tests that were running when time was up, the longest first.
func (r *testReader) printRunning() {
	ids := slices.SortedFunc(maps.Keys(r.running), func(a, b testID) int { return r.running[a].Compare(r.running[b]) })
	for _, id := range ids {
		r.c.printf("%s: was still running after %.0fs: %s %s",
			r.c.name, time.Since(r.running[id]).Seconds(), folder(id.pkg), id.test)
	}
}

// skipReason is the text of t.Skip without what the testing package puts around it.
func skipReason(output string) string {
	var lines []string
	for line := range strings.SplitSeq(output, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "no reason given"
	}
	return strings.Join(lines, " ")
}

const module = "github.com/sdr-rdma/go-sdr"

// folder is the path of a package in the module.
func folder(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}
