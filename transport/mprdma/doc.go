// SPDX-License-Identifier: Apache-2.0

// Package mprdma is the transport of MP-RDMA's NICs (Lu et al., "Multi-Path Transport for RDMA in Datacenters", NSDI
// 2018): one congestion window for all paths of a connection, spread by the clock of acknowledgements.
//
// A path is a UDP source port. The sender begins with a window of packets on paths that it draws. Each packet is answered
// with what is missing first, what came, on which path, and whether it was marked (section 3.2): the window grows by
// 1/window where it was not, and shrinks by a half where it was, and what it then allows is sent on the path that the
// answer came by. So paths that answer late or are marked carry less, without state for each.
//
// An answer for a packet more than Delta before the newest acknowledged one names a path that is too slow: nothing is sent on
// it, and the window shrinks by one (section 3.3). Once in a round trip, with a probability of 1 %, a new path is drawn
// instead of the answer's. The receiver keeps a bitmap of 64 packets; a packet beyond it is refused, and the sender goes
// back to the first that is missing, as it does after a timeout: MP-RDMA wants a network that doesn't drop (PFC).
//
// Its synchronise mechanism (section 3.4) orders the writes of messages that depend on each other; a message alone has none.
package mprdma
