// SPDX-License-Identifier: Apache-2.0

// Package sim is a pair of RDMA devices in virtual time, joined by a simulated
// link in each direction: the fastest and the only exactly repeatable way to run
// package sdr and the reliability schemes.
//
//	net, err := sim.New(sim.Config{
//		Rate: 400 * units.Gbit,
//		Link: sim.Link{Delay: 12500 * units.Microsecond, Loss: sim.Loss{Drop: 1e-3}},
//		Seed: 1,
//	})
//	epA, err := sdr.NewEndpoint(net.A(), …) // manual workers
//	…
//	for !done {
//		net.Advance(min(net.Next(), nextTimer))
//		… // progress of both sides at net.Now()
//	}
//
// # Time
//
// Nothing happens by itself. Posts take effect at Network.Now; Network.Advance
// moves the clock, and meanwhile sends, carries and places packets; CQ.Poll
// then returns the completions. Network.Next says when the next packet leaves
// or arrives. Completions that wait to be polled, or timers of the protocol, are
// not events of the network.
//
// # The simulated device
//
// A device sends at Config.Rate, datagrams before writes, otherwise in the order
// of posting. It reads the payload of a write when the packet has left, and only
// then reports KindSent: memory that is reused too early shows as wrong content,
// as on a NIC. Config can give it the habits of other devices: keys per message,
// no full-sequence check, dead keys that complete, receives that run out, a fence
// that takes time.
//
// Memory registered with Register holds content; RegisterSize gives memory that
// has only a length. The simulation takes the same decisions for both, and for
// the same seed takes them again in every run and on every architecture.
//
// # Limits
//
// Network and everything made from it belong to one goroutine. There are two
// devices, and no congestion but that of the two links; fabrics are for other
// packages to build from the same parts.
package sim
