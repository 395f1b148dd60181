// SPDX-License-Identifier: Apache-2.0

// Package sr is selective repeat: every unit is sent once, and what the network
// lost is sent again by name.
//
// The receiver reports its bitmap in acknowledgements (see ack.go), paced by
// scheme.Env.AckInterval. The sender logs each transmission by channel. The two
// modes differ only in how they decide that a transmission is lost:
//
//   - RTO ("sr") is the paper's scheme, section 4.1.1: a unit that has not been
//     acknowledged RTT + α·RTT after it was sent is sent again.
//   - NACK ("sr-nack") is path-confirmed loss: packets of one channel keep their
//     order on their path, so a hole is a loss as soon as a later packet of the
//     same channel has arrived. Reordering between channels proves nothing and
//     causes nothing. A timer for each channel covers what no later packet can
//     confirm.
//
// Both modes send repeats before anything else and bound first transmissions by
// the window. Memory follows the span between the oldest unacknowledged unit and
// the newest sent one, at about 32 bytes a unit, not the length of the transfer.
//
// Two things go beyond the paper. A sender that hears nothing at all stops
// repeating its window and probes, ever more slowly down to once a second. And
// no timer is shorter than what a channel's acknowledgements have been seen to
// take, nor than Config.MinTimeout, because an α small enough for a network is
// not small enough for a scheduler.
//
// The package does no I/O, starts no goroutine and reads no clock.
package sr
