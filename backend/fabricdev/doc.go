// SPDX-License-Identifier: Apache-2.0

// Package fabricdev puts RDMA devices on the hosts of a simulated data-centre network (package fabric),
// so that package sdr and the reliability schemes cross leaves and spines beside other traffic:
//
//	graph, err := topo.Parse("leafspine:4x4x4,100G,1us")
//	net, err := fabricdev.New(graph, fabricdev.Config{Fabric: fabric.Config{ECN: …, Seed: 1}})
//	a, err := net.Device(graph.Hosts()[0])
//	b, err := net.Device(graph.Hosts()[15])
//	err = net.Fabric().AddFlows(…) // cross traffic
//
// # Packets
//
// The writes of a UC queue pair are a stream of the fabric (fabric.Stream) with ECT set. Its NIC shares the wire
// among streams and flows, packet by packet; switches queue, mark, pause and drop its packets as they do
// those of flows. Datagrams go in class 0 and are not ECN-capable, as userroce's are with DSCP 48.
// Which path packets take is chosen by fabric.Config.Routing: with ECMP each queue pair has a
// path, with Entropy each channel.
//
// A write that arrives with a mark completes with backend.FlagECN, and is answered by a congestion notification
// packet, which makes the sender's device report backend.KindCongestion, at most once each
// Config.NotifyInterval for a queue pair. Notifications that a switch function makes are reported too.
//
// # Time
//
// Nothing happens by itself: Network.Advance moves the clock. Network.Run moves it to where something
// has come about for a device, and leaves the events of other traffic in between to the simulation.
//
// # The device
//
// Memory, tables, queue pairs and completions are those of backend/sim. Payloads cross the network
// unharmed, or don't arrive: packets that the fabric drops are counted by their sender, as
// backend.DropEmulatedQueue where a queue or a buffer was full and backend.DropEmulatedLoss else. Where the
// fabric trims (fabric.Config.Trim) the headers of a write go back to its sender, which reports backend.KindTrimmed. What a
// switch function has trimmed elsewhere counts as backend.DropTruncated where it arrives.
//
// A Network and everything made from it belong to one goroutine.
package fabricdev
