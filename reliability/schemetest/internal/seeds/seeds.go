// SPDX-License-Identifier: Apache-2.0

// Package seeds lets the environment choose the seeds of a test.
package seeds

import (
	"os"
	"strconv"
	"testing"
)

const (
	// One names the environment variable that has a test run with one seed only.
	One = "SCHEMETEST_SEED"
	// Many names the one that says with how many, from 1 on.
	Many = "SCHEMETEST_SEEDS"
)

// Choose returns the first seed and how many to run from it on: what the environment says, One before
// Many, or usual of them from 1 on.
func Choose(t *testing.T, usual int) (first uint64, n int) {
	t.Helper()
	if seed, ok := number(t, One); ok {
		return seed, 1
	}
	if many, ok := number(t, Many); ok {
		return 1, max(1, int(many))
	}
	return 1, usual
}

func number(t *testing.T, name string) (uint64, bool) {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		t.Fatalf("%s=%q: want a number: %v", name, v, err)
	}
	return n, true
}
