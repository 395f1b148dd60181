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
}

// A skip is a test that skipped itself.
type skip struct{ pkg, test, reason string }

// judgeSkips prints the skips, and makes those that CI doesn't allow failures.
func (c *stepContext) judgeSkips() {
	for _, s := range c.result.skips {
		why, allowed := findAllowed(allowedSkips, c.name, s)
		switch {
		case allowed:
			c.printf("%s: skipped %s %s, which is allowed: %s", c.name, s.pkg, s.test, why)
		case c.options.ci:
			c.result.failed++
			c.printf("%s: SKIPPED %s %s, which is a failure in CI: %s", c.name, s.pkg, s.test, s.reason)
		default:
			c.printf("%s: skipped %s %s: %s", c.name, s.pkg, s.test, s.reason)
		}
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
