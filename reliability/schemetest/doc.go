// SPDX-License-Identifier: Apache-2.0

// Package schemetest drives reliability schemes by hand in virtual time and
// checks what they do, without a device, a connection or a byte of content.
//
// A Case describes transfers and the network between the ends; Case.Run runs it
// and returns an error for the first rule of package scheme that a core breaks.
// Run and Suite are the conformance tests that every scheme passes, also one
// written by a user of the module:
//
//	func TestConformance(t *testing.T) {
//		schemetest.Suite{New: func() scheme.Scheme { return myscheme.New() }}.Run(t)
//	}
//
// A run is a pure function of its Case, Seed included. A failing case is reduced
// to few units and the few network faults that it needs, which Shrink prints
// together with the seed.
//
// The model of the network is at the level of repair units: each is sent, lost,
// delayed or repeated as a whole.
package schemetest
