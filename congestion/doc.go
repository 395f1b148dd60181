// SPDX-License-Identifier: Apache-2.0

// Package congestion holds congestion controllers: what decides how fast, and how far ahead of its
// acknowledgements, a sender may send.
//
// A [Controller] does no I/O, starts no goroutine and reads no clock: its driver tells it what was
// sent, acknowledged, marked and lost, and when, and asks for its limits. The same controller
// therefore serves a sender on real packets and a NIC of the simulated fabric, and the same calls
// give the same limits, bit for bit, on every architecture.
//
// Calls may come late. A controller whose limits change by themselves says when ([Controller.Next]),
// but needs nobody to be there: it catches up at the next call, in closed form or in a bounded
// number of steps, to the state that punctual calls would have given it. A worker that wakes every
// 3 ms and a simulator that is exact to the nanosecond get the same rate.
//
// What a peer can forge (an acknowledgement of bytes never sent, congestion notifications without
// end, a round trip of minus one) is clamped: limits stay within those that a type documents,
// whatever the input is.
//
// A controller is used by one goroutine at a time.
package congestion
