// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Package race says whether the race detector is on. Tests then move less, when what they prove doesn't
// depend on it: it makes everything some ten times as slow, and watches goroutines, not amounts.
package race

// Enabled reports whether the program was built with -race.
const Enabled = false
