// SPDX-License-Identifier: Apache-2.0

// Package virtual is RDMA devices in virtual time without a network between them: registered memory,
// address tables, queue pairs, completion queues, and what a responder does with a packet that
// arrives. backend/sim joins two of them by a link, backend/fabricdev many by a data-centre network.
//
// A network makes a World, and a Device in it for each host with an Outlet, which gets what is posted. When
// a packet leaves a device the network calls Send.Leave, when it arrives World.Receive, and when it is
// lost World.Lose. The network sets World.Now before each of these calls.
//
// Everything in a World belongs to one goroutine. Payloads are copied when a packet leaves, so that
// memory which is reused too early shows as wrong content, as on a NIC; memory that has only a size has
// no content to copy, and the same decisions are taken for it. Nothing allocates per packet once
// pools have grown to what is in flight.
package virtual
