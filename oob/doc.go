// SPDX-License-Identifier: Apache-2.0

// Package oob is the out-of-band connection of two sdr endpoints: a TCP connection, optionally
// under TLS, over which they exchange queue pair information before any RDMA packet can flow, and
// which then stays open so that each end notices at once when the other is gone.
//
//	server                                   client
//	l, err := oob.Listen(ctx, addr, cfg)
//	c, err := l.Accept(ctx)                  c, err := oob.Dial(ctx, addr, cfg)
//	theirs, err := c.Exchange(ctx, ours)     theirs, err := c.Exchange(ctx, ours)
//
// Blobs are opaque here. Dial and Accept return only after both ends have shown that they speak
// this protocol in the same version, so a port scanner or a web browser never reaches the caller
// of Accept. An end that finds fault with the other says why in a last frame, so that both ends
// print the reason.
//
// # Noticing death
//
// When the peer's process ends, however it ends, its kernel says so and Closed is closed within a
// round trip. When the peer's host or the network between is gone nobody says anything; TCP
// keepalive then takes Config.DeadHostLimit. A connection that the peer closed on purpose ends
// with ErrPeerClosed, any other with ErrPeerDied.
//
// # Limits
//
// This is a connection for a few small messages, not a data path. What a peer can make this
// end allocate is bounded: Config.MaxBlob for a frame, and for a blob that comes before this end's Exchange, four times that for all frames that
// wait for Recv, which are 64 at most: a message that has no room ends the connection, so that two ends who send
// many should answer each other. Who always receives can have the peer held back instead, and holds 64 KiB beside what it has received
// (Conn.HoldBack), as package sdrnet does. Of a peer that Accept has not returned, or that is a guest (Listener.AcceptGuest), 16 KiB are
// read, and those who wait are 256 at most; what reaches a log of them is bounded, too. The protocol authenticates nobody; use TLS with client certificates for that.
//
// # Wire format
//
// A stream of frames, integers in network byte order:
//
//	 0      4         5      6          8        12       16
//	+------+---------+------+----------+--------+--------+---------+
//	| SDRx | version | type | 0        | number | length | payload |
//	+------+---------+------+----------+--------+--------+---------+
//
// The first frame of each direction is an empty HELLO. The header, HELLO and ERROR keep their
// layout in every later version, so that ends of different versions can still tell each other.
package oob
