// SPDX-License-Identifier: Apache-2.0

// Package roce encodes and decodes RoCEv2 packets: the InfiniBand transport headers that follow the
// UDP header, and the invariant CRC that ends the packet.
//
// There are two levels. A header is a named byte slice (BTH, RETH, DETH, …) whose methods read and
// write fields in place. A Packet is the parsed value of all headers of one packet:
//
//	var p roce.Packet // one for each worker, reused
//	if err := p.Parse(datagram); err != nil {
//		count(err) // one of the Err variables of this package
//	}
//
// Lengths are checked once, by Packet.Parse or by the Parse function of a header type. A slice that
// came from there is long enough for every accessor, so accessors don't check and can't panic; a
// slice converted by hand (BTH(b)) has to be BTHSize long. Parse accepts any input from the network
// without panicking or allocating, and what it returns refers to the input, which must not change
// while it is in use.
//
// The ICRC also covers IP and UDP fields that sockets don't show. A Flow stands for the addresses and
// ports of one direction; Flow.Seed continues it to a packet length, for the price of a few table
// look-ups, and Seed.Sum, Seed.Seal and Seed.Verify do the rest. See SolveIPv4ID for IPv4 packets
// whose identification a socket can't show either.
//
// Limits: UC, UD and RC, and the congestion notification packet (CNP); no RD, no XRC. The package
// knows the layout and the stateless rules of a packet. What depends on a queue pair (PSN order, path
// MTU, P_Key, Q_Key, rkey) is for the responder to check. Nothing here keeps state between packets:
// functions and values other than Packet are safe for concurrent use, a Packet is not.
//
// Sources: InfiniBand Architecture Specification, Volume 1, Release 1.2.1 and later (chapter 5,
// packet format; 7.8, CRCs; chapter 9, transport layer), with Annex 17 (RoCEv2).
package roce
