// SPDX-License-Identifier: Apache-2.0

// Package conntest moves content with a reliability scheme through
// reliability.Conn, over a simulated network that loses, repeats, delays and
// damages packets, and checks every byte. It is the half of the conformance tests that
// package schemetest can't have, because that drives cores by hand. Scenarios of peers that restart,
// and of sides that give up or close, are here, too.
//
//	func TestConn(t *testing.T) {
//		conntest.Suite{New: func() scheme.Scheme { return myscheme.New() }}.Run(t)
//	}
//
// The last scenario asks for speed, too: it moves 2^18 + 2^16 packets over one channel that loses one in a
// hundred, within twice the time of a link without losses. -short leaves it out.
//
// A run depends on its seed only. SCHEMETEST_SEED=n in the environment runs that
// seed alone, SCHEMETEST_SEEDS=n so many of each scenario.
package conntest
