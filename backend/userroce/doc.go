// SPDX-License-Identifier: Apache-2.0

// Package userroce is a RoCEv2 endpoint in user space, on UDP sockets: a backend.Device that needs no
// RDMA hardware, no kernel module and no privilege.
//
//	dev, err := userroce.Open(userroce.Config{Addr: netip.MustParseAddr("192.0.2.1")})
//	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
//
// It speaks what kernel Soft-RoCE (rdma_rxe) and RoCE NICs speak: BTH, RETH, immediate and ICRC on UDP
// port 4791, UC queue pairs for data and UD queue pairs for datagrams, with the responder rules of the
// IBTA specification, so that one of those can be the other side. Data travels as UC RDMA WRITE Only
// with Immediate, one message a packet, and datagrams as UD SEND Only. All other opcodes are dropped
// and counted.
//
// # Receiving
//
// A device has one UDP port, shared by all its queue pairs and told apart by destination QPN. With
// Config.Workers above one it opens that many sockets on the port, and the kernel chooses among them by
// the low bits of the QPN. CQ i, made with CQConfig.Worker i, reads socket i and completes whatever
// arrives there, for any queue pair: the kernel decides once for a train of packets, so correctness
// must not depend on its choice. A CQ with a worker number that has no socket, and a second CQ for the
// same worker, report sends only: a device takes one sdr.Endpoint at a time.
//
// While a stream comes at 20 Gbit/s or more, a Poll that has emptied its socket is followed by 15 or 40 µs, whichever moves the stream
// faster, in which none reads it, so that the data of the next packets have left the caches of a sender on the same machine; the receive
// buffer must be 2 MiB or more. What comes for other queue pairs of the same worker waits as long, and for what the stream has brought
// meanwhile. Where a round trip beside such a stream matters more than its rate, give either a worker or a device of its own, or set
// Config.RecvBuffer below 2 MiB.
//
// Nothing is written to user memory before ICRC, source, keys, message sequence and bounds have been
// checked. The address of byte 0 of message n is n·MaxMessage modulo 2^64, and a table entry is open
// for its own sequence only, so late packets are recognised however late they are.
//
// # Sending
//
// Sends complete in the call that posts them: the kernel has copied the data when PostWrites returns.
// Consecutive writes of one call leave as trains that the kernel segments (UDP_SEGMENT), with the
// payload taken from the registered memory and no copy in user space. Where the kernel or the network
// interface can't do that, packets are sent one by one, and trains are tried again from time to time.
//
// Packets are never fragmented, and their size is that of the queue pair's MTU whatever routers, or
// somebody who pretends to be one, say about the path: the kernel's path MTU discovery is not used
// (IP_PMTUDISC_PROBE). What the network refuses, or is too large for an interface whose MTU was lowered,
// is lost, and counted in WireStats.
//
// # The identification of IPv4 packets
//
// The ICRC covers the IPv4 identification, which a UDP socket can neither choose nor see. Between two
// userroce devices both sides compute it with identification 0 whatever is on the wire, and say so in
// QPInfo (backend.FlagICRCZeroID). To any other IPv4 peer a device sends unsegmented datagrams
// that may not be fragmented, from sockets that aren't connected, which Linux sends with identification 0. From such a peer it
// requires identification 0 or, when that fails, solves for the one that makes the ICRC right, which
// leaves a check of 16 bits: WireStats.SolvedIDs counts these packets. IPv6 is exact.
//
// # Limits
//
// 65536 queue pairs a device, fewer when Workers is no power of two. There are at most eight workers. There is no RC, and
// there are no messages of several packets, reads or atomics, and no IP options or extension headers. Network address
// translation breaks the ICRC; see Config.AllowAnySource.
package userroce
