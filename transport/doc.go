// SPDX-License-Identifier: Apache-2.0

// Package transport defines what the two ends of a NIC's transport look like: state machines
// without I/O, clock or goroutine. Who drives them (the simulator in package fabric, or a device) owns
// the clock, the wire and the arbitration among flows; it tells an end what has arrived and what time
// it is, and asks it what to send.
//
// A Sender and a Receiver carry one message in one direction; a Poster and a Taker carry those of a connection. Packages
// below this one implement them: rc has the transports of today's RDMA NICs, racktlp, mprdma, dcp, strack and uet those that
// were proposed since, and bare the least that measures what drives them.
//
// Instants of successive calls to one end must not decrease. Ends are not safe for concurrent use and
// allocate nothing once they are made.
package transport
