// SPDX-License-Identifier: Apache-2.0

// Package trim is the switch function of DCP (Li et al., "Revisiting RDMA Reliability for Lossy
// Fabrics", SIGCOMM 2025, section 4.2): where data would wait too long they are cut to their headers, which go on in
// a control queue of their own, so that the receiver learns at once what it lacks.
//
//   - Admit decides about a packet from what waits for its port: the rule of the paper's figure 3.
//   - Frame is that on bytes: it reads the tag of an Ethernet frame and cuts it.
//   - Meter is a port without a queue, as of an XDP program: Admit against a virtual queue.
//   - Weight is the share of the control queue, so that it loses nothing.
//
// All are pure functions of their arguments, and of the Meter. A program for the kernel that does the same is held
// against them packet by packet.
//
// # On the wire
//
// The tag is in the two low bits of the DSCP (IPv4 ToS or IPv6 traffic class), so that ECN keeps its two.
// Header-only packets end where their opcode has said enough to repeat them:
//
//	DCP (opcodes 0xc0 to 0xc3): after BTH and six bytes of message number, round and check: 60 bytes over IPv4, Ethernet's least frame
//	UC WRITE Only (0x2a):       after the RETH: 70
//	UC WRITE Only with Immediate (0x2b): after RETH and immediate: 74
//
// and 20 bytes more over IPv6. A fixed length, such as the 256 bytes of today's switches, cuts any RoCEv2 packet.
package trim
