// SPDX-License-Identifier: Apache-2.0

//go:build race

package conntest_test

// seeds is one where the race detector slows everything and there is one goroutine
// to watch.
const seeds = 1
