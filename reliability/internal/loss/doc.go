// SPDX-License-Identifier: Apache-2.0

// Package loss finds out which units of a transfer were lost, for the schemes that
// repeat them. It is no scheme: it sends nothing by itself and chooses no repair.
//
// A Tracker is the sending half. It logs every transmission by channel, takes the
// acknowledgements of the peer's Reporter, and says what is lost (NextLost). Its owner
// repeats a lost unit (Repeat) or leaves it to another repair (Leave). A loss is found
// by one of two rules:
//
//   - Timeout is the paper's (section 4.1.1): a unit that has not been acknowledged
//     RTT + α·RTT after it was sent is lost.
//   - PathProof is RACK (RFC 8985) applied to each channel: packets of one channel keep
//     their order on their path but for a reorder window, so what has not arrived is
//     lost as soon as a later packet of the same channel has. Reordering between
//     channels proves nothing and causes nothing. Probes, packets without data, follow
//     a channel's last unit so that its loss can be proved, too (RFC 8985's tail-loss
//     probes), and a timer for each channel covers what no later packet can prove.
//
// A parity unit is a probe for this package: it carries no unit of the transfer's data,
// but shows how far its channel has got.
//
// Two things go beyond the paper. A sender that receives nothing at all stops repeating its
// window and probes, ever more rarely, down to once a second. And no timer is shorter
// than what a channel's acknowledgements have been seen to take, nor than
// Config.MinTimeout, because an α small enough for a network is not small enough for a
// scheduler.
//
// Memory follows the span between the oldest unacknowledged unit and the newest sent
// one, at about 32 bytes a unit, not the length of the transfer. The package does no
// I/O, starts no goroutine and reads no clock.
package loss
