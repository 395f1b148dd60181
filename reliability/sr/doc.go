// SPDX-License-Identifier: Apache-2.0

// Package sr is selective repeat: every unit is sent once, and what the network
// lost is sent again by name.
//
// The receiver reports its bitmap in acknowledgements, paced by
// scheme.Env.AckInterval. The two modes differ only in how the sender decides that a
// transmission is lost:
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
// the window. How losses are found, and what goes beyond the paper, is in
// reliability/internal/loss, which scheme adaptive builds on, too.
//
// The package does no I/O, starts no goroutine and reads no clock.
package sr
