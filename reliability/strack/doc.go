// SPDX-License-Identifier: Apache-2.0

// Package strack is scheme "strack": the transport of Le et al., "STrack: A Reliable Multipath Transport for AI/ML
// Clusters", on real channels. Its two halves are the sender and the receiver of transport/strack, which also
// drive hosts of package fabric; this package only carries between them and Conn.
//
// Each unit is a packet of the core, each channel a path. First transmissions go on any channel:
// the sender chooses for each unit. Acknowledgements travel in frames of the scheme, one for each that the core's
// receiver gives, several to a frame where many packets arrived between two polls.
//
// What differs from the paper, because channels are not the paths of one data centre:
//
//   - A frame also says how many packets each channel has delivered, and how many of them were marked
//     (backend.FlagECN). Paths are chosen by that, see spray.Balanced: a path at a tenth of the others' rate gets a tenth of the
//     packets, and one that is dead gets probes. Config.Bitmap is the paper's Algorithm 2 instead.
//   - A channel keeps the order of its packets, so that a later one of the same channel proves a loss. The
//     paper's means, packets beyond the expected one, probes and the timeout, find what that doesn't.
//   - Losses of more than a few packets in a hundred while packets wait cut the window, by their share: queues may be
//     shorter than those of the paper's switches.
//   - Round trips need no timestamp in packets: the acknowledgement names a unit, and the sender knows when that left,
//     and on which channel. Of a unit that was sent more than once only the last transmission counts, and only if that was on the
//     channel that the acknowledgement names.
//   - What is received and doesn't call for an acknowledgement is acknowledged after Env.AckInterval, since a
//     window may be smaller than what the paper acknowledges at once.
//   - The timeout follows the round trip, and backs off while nothing arrives.
//   - The base round trip is Conn's. Where it was wrong, because the path has changed, a window of a few packets
//     shows it: delay that such a window doesn't end is the path's. Windows are made that small when all round trips of a
//     Conn's transfers have been at least twice the base for a while.
//   - The line rate is the highest at which Conn has paced, if none is configured: a rate that is found begins low.
//
// Config.Parity is beyond the paper: see parity.go.
//
// A frame that can't be fails the transfer and counts as a violation of the peer.
//
// The package does no I/O, starts no goroutine and reads no clock.
package strack
