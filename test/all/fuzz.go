// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A fuzzTarget is one Fuzz function, compiled with the fuzzer's instrumentation.
type fuzzTarget struct {
	name   string
	pkg    string // folder in the module
	binary string
}

// fuzzOverhead is what a target costs beside its fuzzing: starting workers, minimizing, ending.
const fuzzOverhead = 300 * time.Millisecond

// fuzzReserve is kept back from the budget for targets that end late on a busy machine.
const fuzzReserve = 15 * time.Second

// minFuzzTime is the least that is worth starting a target for. With so many targets that the
// budget doesn't give them this much, the step fails over its budget, and the budget must grow. Tests shorten it.
var minFuzzTime = time.Second

// compileFuzzTargets finds all Fuzz functions and compiles their packages, as many at once as there are
// processors: "go test -c" with the fuzzer's instrumentation takes one package at a time. One that doesn't
// compile doesn't hide what the fuzzer finds in others.
func compileFuzzTargets(c *stepContext) error {
	byPackage, err := c.findFuzzTargets()
	if err != nil {
		return err
	}
	packages := slices.Sorted(maps.Keys(byPackage))
	errs := make([]error, len(packages))
	next := make(chan int, len(packages))
	for i := range packages {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for i := range next {
				errs[i] = c.check(nil, "go", "test", "-c", "-vet=off", "-fuzz=.", "-ldflags=-w", "-o", c.fuzzBinary(packages[i]), "./"+packages[i])
			}
		})
	}
	wg.Wait()
	for i, pkg := range packages {
		if errs[i] != nil {
			c.fail(pkg+" doesn't compile", errs[i].Error())
			continue
		}
		for _, name := range byPackage[pkg] {
			c.fuzzTargets = append(c.fuzzTargets, fuzzTarget{name: name, pkg: pkg, binary: c.fuzzBinary(pkg)})
		}
	}
	c.printf("%s: compiled %d targets in %d packages", c.name, len(c.fuzzTargets), len(byPackage))
	return nil
}

func (c *stepContext) fuzzBinary(pkg string) string {
	return filepath.Join(c.tmp, "fuzz-"+strings.ReplaceAll(pkg, "/", "-"))
}

// findFuzzTargets reads the test files for functions whose names begin with Fuzz, by package.
func (c *stepContext) findFuzzTargets() (map[string][]string, error) {
	packages, err := c.list(nil, "./...")
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, p := range packages {
		err := p.parse(append(p.TestGoFiles, p.XTestGoFiles...), func(f *ast.File) {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && strings.HasPrefix(d.Name.Name, "Fuzz") {
					found[folder(p.ImportPath)] = append(found[folder(p.ImportPath)], d.Name.Name)
				}
			}
		})
		if err != nil {
			c.fail(folder(p.ImportPath)+" doesn't compile", err.Error())
		}
	}
	return found, nil
}

// fuzz gives each target an equal part of what is left of the budget.
func fuzz(c *stepContext) error {
	if len(c.fuzzTargets) == 0 {
		return errors.New("there is no Fuzz function")
	}
	deadline, _ := c.ctx.Deadline()
	deadline = deadline.Add(-fuzzReserve)
	for i, t := range c.fuzzTargets {
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		c.fuzzOne(t, fuzzTime(time.Until(deadline), len(c.fuzzTargets)-i))
	}
	return nil
}

// fuzzTime is the time for the next target when left is to be divided among targets.
func fuzzTime(left time.Duration, targets int) time.Duration {
	return max(left/time.Duration(targets)-fuzzOverhead, minFuzzTime).Truncate(100 * time.Millisecond)
}

// fuzzOne ends the fuzzer by an interrupt, as a person would, and not by -test.fuzztime: until Go 1.27
// a run that ends by that option may fail with "context deadline exceeded" (go.dev/issue/75804).
func (c *stepContext) fuzzOne(t fuzzTarget, d time.Duration) {
	start := time.Now()
	cmd := c.command(filepath.Join(c.root, t.pkg), nil, t.binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$",
		// By default an input that covers something new is made smaller for up to a minute, which is
		// more than a target has, and finds nothing where goroutines make the coverage vary.
		"-test.fuzzminimizetime=20x", "-test.fuzzcachedir="+filepath.Join(c.tmp, "corpus"))
	out := fuzzOutput{begins: func() {
		time.AfterFunc(d, func() { _ = cmd.Process.Signal(os.Interrupt) }) // may have ended with a finding
	}}
	cmd.Stdout, cmd.Stderr = &out, &out
	err := c.run(cmd)
	execs := lastExecs(out.buf.String())
	switch {
	case err != nil:
		c.fail(fmt.Sprintf("%s %s: %v", t.pkg, t.name, err), out.buf.String())
	case execs == "":
		c.fail(fmt.Sprintf("%s %s: tried nothing in %v", t.pkg, t.name, d), out.buf.String())
	default:
		c.result.passed++
		c.printf("%s: ok   %s %s (%.1fs%s)", c.name, t.pkg, t.name, time.Since(start).Seconds(), execs)
	}
}

// fuzzOutput keeps what the fuzzer prints. It calls begins with the first of it, which comes once the
// fuzzer listens for interrupts.
type fuzzOutput struct {
	buf    bytes.Buffer
	begins func()
}

func (o *fuzzOutput) Write(p []byte) (int, error) {
	if o.begins != nil {
		o.begins()
		o.begins = nil
	}
	return o.buf.Write(p)
}

// lastExecs finds how many inputs the fuzzer has tried.
func lastExecs(out string) string {
	i := strings.LastIndex(out, "execs: ")
	if i < 0 {
		return ""
	}
	n, _, _ := strings.Cut(out[i+len("execs: "):], " ")
	return ", " + n + " inputs"
}
