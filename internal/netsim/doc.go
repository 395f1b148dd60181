// SPDX-License-Identifier: Apache-2.0

// Package netsim holds the parts of which simulated links are made: links with a
// rate, a queue, a delay and faults drawn from seeds, and a queue for the events
// that come of them.
//
// A Queue orders numbers by (time, order of scheduling), on the event core of
// package fabric/des. A Link is one
// direction of a point-to-point link: told that a packet enters it now, it says
// at once what will become of that packet (lost, late, twice, damaged, marked)
// and when it arrives. It holds no packets and no clock, so the same code serves
// virtual time (backend/sim) and real time (backend/linkemu).
//
// # Repeatability
//
// The same seed gives the same run, bit for bit, on every architecture: each
// decision compares integers, probabilities are scaled to integers once, and
// each kind of fault of each link draws from a generator of its own, exactly
// once for each packet. So whether the i-th packet of a link is lost depends on
// its seed and its Loss alone, whatever other faults are switched on.
//
// Nothing here is safe for concurrent use, allocates per packet, or keeps
// global state.
package netsim
