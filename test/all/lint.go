// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tool is the command line of a tool pinned in tools/go.mod.
func tool(name string, args ...string) []string {
	return append([]string{"go", "tool", "-modfile=tools/go.mod", name}, args...)
}

// testTags are the build tags of tests that need more than Go, or minutes, as .golangci.yml has them. Not among them is lockcount, which
// needs another package sync (test/bench/locks).
const testTags = "rxe,wire,grid,dpa,flexio,clang"

// buildLinter fills the build cache, which takes minutes the first time.
func buildLinter(c *stepContext) error {
	c.printf("%s: builds golangci-lint and what it reads", c.name)
	// On a fresh machine the linter would compile every dependency first, tests' included.
	return errors.Join(c.check(nil, tool("golangci-lint", "version")...), c.compile([]string{"CGO_ENABLED=0"}, "-tags="+testTags, "./..."))
}

func lint(c *stepContext) error {
	// Step build vets without tags.
	vet := c.check([]string{"CGO_ENABLED=0"}, "go", "vet", "-tags="+testTags, "./...")
	held := c.check([]string{"CGO_ENABLED=0"}, "go", "test", "-count=1", "./test/held")
	return errors.Join(c.gofmt(), c.tidy(), vet, held, c.golangci())
}

// tidy checks all modules. It needs the network for what the module cache lacks only.
func (c *stepContext) tidy() error {
	var errs []error
	for _, dir := range []string{".", "tools", "test/peers"} {
		if !exists(filepath.Join(c.root, dir, "go.mod")) {
			continue
		}
		errs = append(errs, c.check(nil, "go", "-C", dir, "mod", "tidy", "-diff"))
	}
	return errors.Join(errs...)
}

func (c *stepContext) gofmt() error {
	out, err := c.output(nil, "gofmt", "-l", ".")
	if err == nil && out != "" {
		err = fmt.Errorf("gofmt would change these files (gofmt -w . does it):\n%s", out)
	}
	return err
}

// A lintReport is what golangci-lint writes with --output.json.path.
type lintReport struct {
	Issues []struct {
		FromLinter, Text, Severity string
		Pos                        struct {
			Filename     string
			Line, Column int
		}
	}
}

func (c *stepContext) golangci() error {
	file := filepath.Join(c.tmp, "lint.json")
	// Findings, warnings among them, end with status 0 here: any other is a failure of the linter, which may have skipped packages.
	out, runErr := c.output([]string{"CGO_ENABLED=0"}, tool("golangci-lint", "run", "--allow-parallel-runners",
		"--issues-exit-code=0", "--show-stats=false", "--output.json.path="+file)...)
	if runErr != nil {
		runErr = fmt.Errorf("golangci-lint: %w\n%s", runErr, out)
	}
	text, err := os.ReadFile(file)
	if err != nil { // it didn't come that far
		return errors.Join(runErr, fmt.Errorf("golangci-lint: %w", err))
	}
	problems, warnings, err := readLint(text)
	if err != nil {
		return errors.Join(runErr, fmt.Errorf("golangci-lint: %w\n%s", err, out))
	}
	if len(warnings) > 0 {
		c.printf("%s: %d warnings (-v prints them)", c.name, len(warnings))
	}
	if c.options.verbose {
		c.dump(strings.Join(warnings, "\n"))
	}
	if len(problems) > 0 {
		err = fmt.Errorf("golangci-lint found %d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
	return errors.Join(err, runErr)
}

// readLint divides what golangci-lint found by severity: "warning" is advice (.golangci.yml).
func readLint(text []byte) (problems, warnings []string, err error) {
	var report lintReport
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, nil, err
	}
	for _, i := range report.Issues {
		line := fmt.Sprintf("%s:%d:%d: %s (%s)", i.Pos.Filename, i.Pos.Line, i.Pos.Column, i.Text, i.FromLinter)
		if i.Severity == "warning" {
			warnings = append(warnings, line)
		} else {
			problems = append(problems, line)
		}
	}
	return problems, warnings, nil
}

// crossBuild also vets for arm64, which compiles the tests that nothing here can run.
func crossBuild(c *stepContext) error {
	var errs []error
	for _, arch := range []string{"amd64", "arm64"} {
		env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch}
		err := c.check(env, "go", "build", "./...")
		if err == nil {
			err = c.check(env, "go", "vet", "./...")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("linux/%s: %w", arch, err))
		} else {
			c.printf("%s: ok   linux/%s", c.name, arch)
		}
	}
	return errors.Join(errs...)
}
