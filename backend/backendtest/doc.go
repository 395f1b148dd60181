// SPDX-License-Identifier: Apache-2.0

// Package backendtest is the conformance test of package backend: what every device must do, whatever
// it is made of, for package sdr to keep its promises on it.
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, func(t testing.TB, ask backendtest.Faults) *backendtest.Pair {
//			a, b := open(t), open(t)
//			return &backendtest.Pair{A: a, B: b}
//		})
//	}
//
// The Maker gives each case two new devices that reach each other. A case that wants a bad network asks
// for its faults; a Maker that can't make them returns a Pair that says so, and the case is skipped. A
// Maker may also make faults that nobody asked for, to run everything on a bad network: then cases
// repeat what was lost and accept what was doubled, and check all else.
//
// What devices may do in different ways is taken from their Caps, and cases that don't apply to a device
// are skipped by name, with the reason. Devices with a virtual clock are driven by one goroutine;
// others also by several at a time, with real waiting.
//
// The cases compare all memory that a peer could reach, byte by byte, with what should be in it, so a
// payload in the wrong place is found wherever it went.
//
// # Limits
//
// Speed is not tested. Devices must be able to send 256 bytes of payload in a packet. That memory is
// not read too early is seen only on devices that read it later than the post.
package backendtest
