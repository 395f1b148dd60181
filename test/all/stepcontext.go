// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
)

// A stepContext is what a step works with.
type stepContext struct {
	*session
	ctx    context.Context
	name   string
	result *result

	// What prepare leaves for run.
	toolchain   string
	fuzzTargets []fuzzTarget
	raced       []string
}

// A skip is a test that skipped itself.
type skip struct{ pkg, test, reason string }

// fail counts and prints something that failed; the end of the run says it once more.
func (c *stepContext) fail(what, output string) {
	c.result.failed++
	c.result.failures = append(c.result.failures, failure{what, output})
	c.printf("%s: FAIL %s", c.name, what)
	c.dump(output)
}

// judgeSkips prints the skips, and makes those that CI doesn't allow failures.
func (c *stepContext) judgeSkips() {
	var allowed []skip
	for _, s := range c.result.skips {
		why, ok := findAllowed(allowedSkips, c.name, s)
		switch {
		case ok:
			allowed = append(allowed, skip{s.pkg, s.test, why})
		case c.options.ci:
			c.fail(fmt.Sprintf("%s %s: skipped, which is a failure in CI", s.pkg, s.test), s.reason)
		default:
			c.printf("%s: skipped %s %s: %s", c.name, s.pkg, s.test, s.reason)
		}
	}
	c.printAllowed(allowed)
}

// printAllowed prints one line for all tests of a package that were skipped for one reason.
func (c *stepContext) printAllowed(skips []skip) {
	type group struct{ pkg, why string }
	tests := map[group][]string{}
	var order []group
	for _, s := range skips {
		g := group{s.pkg, s.reason}
		if tests[g] == nil {
			order = append(order, g)
		}
		tests[g] = append(tests[g], s.test)
	}
	for _, g := range order {
		c.printf("%s: skipped in %s, which is allowed: %s: %s", c.name, g.pkg, g.why, strings.Join(tests[g], ", "))
	}
}

// trace prints a command with -v.
func (c *stepContext) trace(env, argv []string) {
	if c.options.verbose {
		c.printf("%s: $ %s", c.name, strings.Join(append(env, argv...), " "))
	}
}

// check runs a command that is silent or of no interest when it succeeds.
func (c *stepContext) check(env []string, argv ...string) error {
	out, err := c.output(env, argv...)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, strings.TrimSpace(out))
	}
	return nil
}
