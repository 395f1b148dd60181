// SPDX-License-Identifier: Apache-2.0

// Package strack is the transport of Le et al., "STrack: A Reliable Multipath Transport for AI/ML
// Clusters": a path for each packet, a window, selective acknowledgements that say little often, and
// three ways to find a loss where the order of arrival tells nothing: packets beyond the expected one
// by more than a window, probes, a timeout (sections 3.1 to 3.3).
//
// Path choice is in package congestion/spray, the window in congestion.STrack; both can be replaced.
//
// Where the paper's algorithms contradict its text or leave something open, this is what is done here:
//
//   - An acknowledgement is sent after 16 KiB, or half a product where that is less, at a packet that closes a gap, a duplicate, a probe and when
//     the message is whole. The paper's "a packet with current expected PSN" would answer each
//     packet in order, against the coalescing that it asks for; Config.Prompt has that, and one for each mark.
//   - It carries the segment of 64 packets of the expected packet, or of the lowest since the last
//     acknowledgement where that lies behind. Segments begin at multiples of 64.
//   - The base round trip is the path's from the start, and only shrinks: learned from the first sample
//     it stays that of the queue which an incast has built, and the flows share unevenly.
//   - The answer to a probe marks the probe's path, but has it not used again: only data say that a path carries them.
//   - While nothing is awaited, as when a controller's pace holds the next packet back, no probe is due and no timeout runs; nor does one while
//     the pace holds a probe back that is due, or what is to be repeated when nothing else is under way. Where probes are due as often as a
//     packet may leave, they take turns with data.
//   - bytes_claimed_retransmit is what was sent, not received, and not beyond the recovery's end when the
//     recovery begins. It never exceeds what was sent and not received.
//   - When all that was sent has arrived, nothing is in flight. By the paper's sum the repeat of a packet that
//     had only been late stays in flight, since duplicates don't count as received; at a window of a
//     packet or two the sender then waits for ever.
//   - Each recovery repeats a packet once.
//   - The timeout is two of the latest round trip at least: a queue of slow links is longer than hundreds of microseconds.
//
// Parity for short messages (Config.Corruption) is beyond the paper.
package strack
