// SPDX-License-Identifier: Apache-2.0

//go:build race

package reliability_test

// raceEnabled makes tests in virtual time smaller, where the race detector slows
// everything and there is one goroutine to watch.
const raceEnabled = true
