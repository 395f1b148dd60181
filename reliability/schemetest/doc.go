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
// together with the seed. SCHEMETEST_SEED=n in the environment runs that seed
// alone, SCHEMETEST_SEEDS=n so many of each scenario.
//
// The network is made of links of internal/netsim, at the level of repair units: each is sent, lost,
// delayed or repeated as a whole. Package conntest has the other half: the same
// network under a Conn, packet by packet and with content.
//
// # What is covered
//
// The names are those of subtests of Suite.Run; those in conntest are of its Run.
//
//	exactly the content sent            all; with bytes in conntest
//	any loss pattern                    any pattern of loss, every pattern of few packets, independent loss
//	control loss up to 50 %             half of the control frames lost, only control frames lost, small window
//	bursts of mean 1/4/16/64            bursts of mean 1 … 64, which lose equally much
//	lossy ACK path only                 only the reverse direction is lossy
//	a step in p                         loss sets in, loss ends
//	delay jumps                         delay jumps
//	blackout of 10 s and recovery       blackout of 10 s, short blackout, a channel dies
//	duplicate and reordered control     reordering and duplicates
//	peer restart                        conntest: a peer restarts
//	early close                         conntest: the receiver gives up, the sender gives up, a side closes
//	both directions at once             64 transfers in both directions at once, transfers one by one
//	64 concurrent transfers             64 transfers in both directions at once
//	buffers posted late                 buffers come late
//	transfers that span slots           slots
//	a bottleneck 10 % below the rate    bottleneck, goodput through a bottleneck
//	reordering between channels         channels of different delay
//	hostile peer                        hostile frames
//	same seed, same run                 same seed, same run; TestGolden for all architectures
package schemetest
