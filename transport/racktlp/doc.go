// SPDX-License-Identifier: Apache-2.0

// Package racktlp is selective repeat that knows losses by time: RACK-TLP (RFC 8985) on messages of packets, as Falcon
// has it and Li et al. ("Revisiting RDMA Reliability for Lossy Fabrics", SIGCOMM 2025, section 6.3) compare with.
//
// The receiver places packets in any order and answers each with the first that is missing and the one that came. The
// sender keeps the time of each packet's last transmission. A packet is lost when one that was sent later has been
// acknowledged and a round trip and the reordering window have passed since it was sent; a repeat is judged in the same
// way as a first transmission, so that its loss takes no timeout. Two round trips without an answer send a probe (TLP):
// what is new, or the last packet again, whose acknowledgement shows what is missing before it.
//
// # What differs from the RFC
//
// The reordering window is one smoothed round trip, the largest that RFC 8985, section 6.2, allows, from the beginning:
// that is what the paper describes. Acknowledgements carry the time of the packet that caused them, so that no
// round trip is ambiguous. A NIC keeps a time for each packet from the first missing one on, in memory that is
// bounded (Config.Span). The timeout is the NICs' 4 ms instead of RFC 6298's second at least.
package racktlp
