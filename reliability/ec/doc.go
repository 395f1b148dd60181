// SPDX-License-Identifier: Apache-2.0

// Package ec is erasure coding: parity is sent with the data, so that a loss need
// not cost a round trip (paper, section 4.1.2).
//
// A transfer is cut into submessages, here called groups, of k data units; the
// last one may be shorter. Each group is followed by its m parity units, computed
// while data is being sent. The receiver decodes a group as soon as it can. A
// group that can't be decoded by the time everything of it should have arrived
// falls back to repetition: the receiver names the units that decoding lacks, and
// the sender sends them again.
//
//   - XOR ("ec-xor"): parity unit i of a group is the XOR of its data units j with
//     j mod m = i.
//   - MDS ("ec-mds"): any k of the k + m units recover the group.
//
// The last group has m parity units, too. Only with XOR a group of fewer than m data
// units has as many parity units as data units, because the others would be of nothing.
//
// What goes beyond the paper: the receiver names units, not whole submessages
// (Config.WholeSubmessage brings the paper's rule back); groups are decoded as they
// become decodable; each group has a fallback timeout of its own, which starts
// again with every newer unit, instead of one for the message from its first chunk
// on; progress is acknowledged all along, because it bounds what the sender may
// have in flight; and what to repeat is state that the receiver reports
// until it changes, so that no loss of a frame or of a repeated unit matters for
// longer than a timer.
//
// # Parity memory
//
// Parity goes where the receiver has room for it (scheme.Env.ParityLimit). The
// sender never waits for room: if there is none while the parity
// would still help, the group goes without parity, and units that it loses are repeated when the receiver names them.
//
// The package does no I/O, starts no goroutine and reads no clock.
package ec
