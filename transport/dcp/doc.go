// SPDX-License-Identifier: Apache-2.0

// Package dcp is the transport of DCP's NICs (Li et al., "Revisiting RDMA Reliability for Lossy Fabrics", SIGCOMM
// 2025): switches cut packets to their headers instead of dropping them (package switchfn/trim), the receiver
// returns each header, and the sender repeats exactly what it names. In the common case there is no bitmap and no
// timer.
//
// A Requester and a Responder are the two ends of one direction of a queue pair: without I/O, goroutines or a clock,
// and not safe for concurrent use. A driver owns the wire: it hands over packets as Header values, sends what
// Transmit fills in, and does what OnData and OnHeader answer. Config.Factory makes them the ends of a message in
// package fabric.
//
// # What differs from the paper
//
// As published a header-only packet carries neither the retry number nor any check of itself, for 57 bytes (section
// 4.2, footnote 6). A header that was under way during a timeout is then answered with a packet of the new
// round, counted twice, and the message completes with a hole in it. Three bytes more, up to Ethernet's least frame,
// carry both: the sender forgets headers of an earlier round, and a damaged header is none. Config.Published brings
// the hole back; the exhaustive test of this package finds it.
//
// The paper has one retry number for a queue pair. Here each of the eight messages under way has a round of its
// own, so that a timeout of one doesn't void what others have counted. Packets are checked before they are placed:
// those of finished messages or earlier rounds write nothing. The timer runs from the last sign of life of the oldest message:
// a packet sent, a header returned, an acknowledgement.
package dcp
